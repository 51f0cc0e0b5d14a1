"""What rendering takes and gives: frozen facts in, one `RenderedComponent` per declared component out.

Not here: how the facts are found (`ome.runtimes` decides which runtime and which accelerator class) and what objects
are made of the result (`ome.rendering.children`). `ome.services` and the standalone half of `ome.omenative` build the
input and call `ome.rendering.render.render`.

Everything that stands in an object (specs, pod templates, labels) is plain JSON data. A result never shares a
container, list or map with its input, so a caller may put it straight into an object and change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ome.api import names
from ome.api.config import DeployConfig, OperatorConfig
from ome.api.types.inference_service import InferenceService

Json = dict[str, Any]

MAIN_CONTAINER = names.MAIN_CONTAINER


class Component(StrEnum):
    """The three parts of a service, in the order they are rendered and reconciled."""

    ENGINE = names.ENGINE
    DECODER = names.DECODER
    ROUTER = names.ROUTER

    @property
    def config_key(self) -> str:
        """The runtime's key for it: `engineConfig`, `decoderConfig`, `routerConfig`."""
        return f"{self.value}Config"


class DeploymentMode(StrEnum):
    """How a component runs (`spec/inference-service.md section 3`)."""

    RAW_DEPLOYMENT = "RawDeployment"
    OME_NATIVE = "OMENative"
    MULTI_NODE = "MultiNode"
    VIRTUAL_DEPLOYMENT = "VirtualDeployment"


class ModeSource(StrEnum):
    """Which line of the mode's chain spoke, in the words the command line prints."""

    SERVICE_ANNOTATION = "ServiceAnnotation"
    COMPONENT_ANNOTATION = "ComponentAnnotation"
    SERVICE_SPEC = "ServiceSpec"
    LEADER_WORKER_SHAPE = "LeaderWorkerShape"
    DEFAULT = "Default"


# --- input ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """An InferenceService, or what stands for one: a standalone InferenceReplica gives its own name and one component.

    `components` holds the raw spec of each declared component, `{}` included; an undeclared one is absent."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deployment_mode: str = ""
    components: Mapping[Component, Mapping[str, Any]]
    accelerator_selector: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, service: InferenceService) -> ServiceFacts:
        """The facts of a decoded InferenceService."""
        declared = {component: service.spec.component(component) for component in Component}
        return cls(
            name=service.metadata.name,
            namespace=service.metadata.namespace,
            labels=service.metadata.labels,
            annotations=service.metadata.annotations,
            deployment_mode=service.spec.deployment_mode,
            components={component: spec for component, spec in declared.items() if spec is not None},
            accelerator_selector=service.spec.accelerator_selector or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """The runtime a service renders from: live merged, pinned (decoded `data`) or selected (own spec, nothing
    inherited)."""

    name: str
    spec: Mapping[str, Any]
    selected: bool = False
    """OME chose it (no `spec.runtime.name`): per-class overrides then read `autoSelect: true` entries only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A BaseModel (`namespace` set) or ClusterBaseModel (`namespace` empty)."""

    name: str
    namespace: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTunedWeightFacts:
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorFacts:
    """The class chosen for one component (`ome.runtimes.accelerators.choose`), with its spec as it is now."""

    name: str
    spec: Mapping[str, Any]
    reason: str = ""
    """For `status.components.{c}.selectedAccelerator.reason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderDefaults:
    """The operator's configuration as far as rendering reads it (`spec/inference-service.md section 2`, effective
    defaults). `RenderDefaults()` is an operator without any."""

    deploy: DeployConfig = field(default_factory=DeployConfig)
    instance_ready_timeout: str | None = None
    accelerator_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    """Resources counted for `PARALLELISM_SIZE`."""
    quota_accelerator_resources: tuple[str, ...] = ()
    """Resources that put an OMENative component under quota admission, and so into its queue; empty = every one."""

    @classmethod
    def of(
        cls,
        config: OperatorConfig,
        quota_accelerator_resources: tuple[str, ...] = (),
    ) -> RenderDefaults:
        """From the parsed ConfigMap and the manager's flag `--accelerator-resources`."""
        return cls(
            deploy=config.deploy,
            instance_ready_timeout=config.lifecycle.get("instanceReadyTimeout"),
            accelerator_resources=config.accelerator_resources,
            quota_accelerator_resources=quota_accelerator_resources,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderInput:
    """One frozen observation of everything a service's pods are made of."""

    service: ServiceFacts
    runtime: RuntimeFacts
    model: ModelFacts | None = None
    overlays: tuple[ModelFacts, ...] = ()
    fine_tuned_weights: tuple[FineTunedWeightFacts, ...] = ()
    accelerators: Mapping[Component, AcceleratorFacts] = field(default_factory=dict)
    defaults: RenderDefaults = field(default_factory=RenderDefaults)


# --- output -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    """Effective bounds. `maximum` is never raised here for RawDeployment when values from different layers
    contradict each other:
    the autoscaler then refuses (`spec/inference-service.md section 7`); OMENative raises it to `minimum`."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionInput:
    """`minAvailable` / `maxUnavailable` as service (first) or runtime set them; None = not set by either.

    Both set is a conflict (from different layers: admission refuses both in one): `ome.rendering.children` raises
    for it."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerLayers:
    """The whole blocks of each layer; the caller takes the first that speaks (`spec/inference-service.md section
    7`)."""

    service: Json | None = None
    policy_ref: Json | None = None
    runtime: Json | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The component's merged annotations, for the legacy layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedAccelerator:
    """`status.components.{c}.selectedAccelerator`."""

    accelerator_class: str
    reason: str
    node_selector: Mapping[str, str]
    resource_requests: Mapping[str, str]

    def to_json(self) -> Json:
        """The status object; empty parts left out."""
        parts: Json = {
            "acceleratorClass": self.accelerator_class,
            "reason": self.reason,
            "nodeSelector": dict(self.node_selector),
            "resourceRequests": dict(self.resource_requests),
        }
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedComponent:
    """One component, ready to become a workload.

    - `template`: pod template `{"metadata": {"labels", "annotations"}, "spec"}` of the only pod, or of the leader.
      RawDeployment and MultiNode leaders carry label `app`; MultiNode leaders also `ray.io/node-type: head`.
      OMENative templates carry neither, nor any per-Instance label, env or gate: those are the engine's render-time
      overlays.
    - `worker_template`: same shape, None for single-pod components; `worker_size` pods of it per leader (0 without).
    - `labels`, `annotations`: for the component's objects. `labels` includes `app` only in RawDeployment (the
      selector value is `selector_app` in every mode). `annotations` are all of the component's;
      `ome.rendering.metadata.service_annotations` filters them for Services.
    - `service_ports`: ports of the component Service, first = the public one:
      `{"name", "port", "targetPort", "protocol", "appProtocol"?}`.
    - `lifecycle`: effective LifecycleSpec (plain dict, OMENative only; {} in the other modes), resolved field by field.
    """

    component: Component
    name: str
    mode: DeploymentMode
    mode_source: ModeSource
    effective: Json
    """The merged component before pods were made of it: runtime config overlaid by the service's component."""
    template: Json
    worker_template: Json | None = None
    worker_size: int = 0
    labels: dict[str, str]
    annotations: dict[str, str]
    selector_app: str
    revision_excluded_annotations: tuple[str, ...] = ()
    """Sorted keys that come from the service's own metadata, for `ome.io/revision-excluded-annotation-keys`."""
    service_ports: tuple[Json, ...]
    leaders_only: bool = False
    """The component Service selects leaders only: the InferenceService itself declares `worker`."""
    replicas: ReplicaBounds
    lifecycle: Json
    min_ready_seconds: int = 0
    disruption: DisruptionInput
    autoscaler: AutoscalerLayers
    deployment_strategy: Json | None = None
    timeout_seconds: int | None = None
    topology_key: str | None = None
    topology_spread: str | None = None
    topology_spread_key: str | None = None
    accelerator: SelectedAccelerator | None = None

    @property
    def multi_pod(self) -> bool:
        """Leader and workers make one Instance."""
        return self.worker_template is not None

    @property
    def pods_per_instance(self) -> int:
        """1 for a single pod, leader included for a gang."""
        return 1 + self.worker_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What one pass can write: the components before the first that failed, in order, and the failure that stopped
    the rest.

    `ome.rendering.render.render(facts: RenderInput) -> Rendering` gives it;
    `ome.rendering.render.render_component(facts, component, *, mode=None) -> RenderedComponent` renders one (standalone
    InferenceReplicas pass `mode=DeploymentMode.OME_NATIVE`) and raises the `RenderError` instead."""

    components: tuple[RenderedComponent, ...]
    error: RenderError | None = None


# --- refusals ---------------------------------------------------------------------------------------------------------


class RenderError(Exception):
    """A component or a service that cannot be rendered; `reason` is the condition's and event's reason, str() the
    message.

    `component` names the component at fault, None when the service as a whole cannot be rendered."""

    reason = "RenderFailed"

    def __init__(self, message: str, component: Component | None = None) -> None:
        super().__init__(message)
        self.component = component


class ComponentNotConfiguredError(RenderError):
    """Neither service nor runtime gives a declared component a container (`spec/inference-service.md section 8`)."""

    reason = "ComponentNotConfigured"


class DeploymentModeError(RenderError):
    """A mode that this component or this combination cannot have."""

    reason = "DeploymentModeError"


class TemplateError(RenderError):
    """A malformed `{{ }}` placeholder (`spec/serving-runtimes.md section 7.6`): logged, no event."""

    reason = "TemplateError"


class FineTunedWeightError(RenderError):
    """A FineTunedWeight that cannot be served (`spec/models.md section 8`): logged, no event."""

    reason = "FineTunedWeightError"
