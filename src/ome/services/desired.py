"""Which objects a component needs now, as bodies to apply (spec/inference-service.md sections 4, 6 and 7).

Between the builders of `ome.rendering.children`, which know what a body looks like, and the plan, which compares it
with what is there. Pure: what is there matters only where a rule says that something of it is kept (a scaled count,
a Service's type, a budget's labels).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ome.api import keys
from ome.api.config import Budget as ConfiguredBudget
from ome.api.config import OperatorConfig
from ome.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    INFERENCE_REPLICAS,
    LEADER_WORKER_SETS,
    PDBS,
    POD_MONITORS,
    ROLE_BINDINGS,
    ROLES,
    SCALED_OBJECTS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from ome.rendering.children.autoscaling import (
    Autoscaler,
    AutoscalerError,
    choose_autoscaler,
    pod_autoscaler,
    scale_target,
    scaled_object,
)
from ome.rendering.children.deployment import deployment
from ome.rendering.children.disruption import Budget, disruption_budget, in_pods, resolve_budget
from ome.rendering.children.leaderworkerset import leader_worker_set
from ome.rendering.children.metadata import Owner
from ome.rendering.children.podmonitor import pod_monitor
from ome.rendering.children.replica import inference_replica
from ome.rendering.children.router import router_access, with_service_account
from ome.rendering.children.services import component_service
from ome.rendering.model import Component, DeploymentMode, RenderedComponent

from .children import Child, digest

Json = dict[str, Any]
ChildKey = tuple[str, str]  # (plural, name)

_WORKLOADS = frozenset({DEPLOYMENTS, INFERENCE_REPLICAS, LEADER_WORKER_SETS})


class ComponentError(Exception):
    """A component's objects cannot be written; it and the components after it wait. str() is the log line."""


@dataclass(frozen=True, slots=True)
class Desired:
    """One object as it should be. `digest` is of the body's content; the body may have been let go (`slim`)."""

    resource: Resource
    name: str
    digest: bytes
    body: Json | None

    @property
    def key(self) -> ChildKey:
        return self.resource.plural, self.name

    def slim(self) -> Desired:
        """Enough to compare with what is there."""
        return Desired(self.resource, self.name, self.digest, None)


Wave = tuple[Desired, ...]
"""Objects that may be written side by side: none of them needs another."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What is reported and exposed of a component, without its pods."""

    component: str
    name: str
    mode: DeploymentMode
    port: Json
    timeout_seconds: int | None
    scale_target: Json | None
    autoscaler: Autoscaler
    accelerator: Json | None


@dataclass(frozen=True, slots=True)
class ComponentObjects:
    """The objects of one component in the order in which they are written."""

    outline: Outline
    objects: tuple[Desired, ...]
    error: ComponentError | None = None
    """What stopped the rest of the component, after `objects`."""

    def waves(self) -> list[Wave]:
        """The workload, and what its pods need before it, come first and each alone; whoever serves it, together."""
        first = next((n for n, item in enumerate(self.objects, 1) if item.resource in _WORKLOADS), 0)
        return [*((item,) for item in self.objects[:first]), self.objects[first:]]

    def slim(self) -> ComponentObjects:
        return ComponentObjects(self.outline, tuple(item.slim() for item in self.objects), self.error)


def _outline(component: RenderedComponent, autoscaler: Autoscaler) -> Outline:
    scalable = component.mode in (DeploymentMode.RAW_DEPLOYMENT, DeploymentMode.OME_NATIVE)
    return Outline(
        component=component.component.value,
        name=component.name,
        mode=component.mode,
        port=component.service_ports[0],
        timeout_seconds=component.timeout_seconds,
        scale_target=scale_target(component) if scalable else None,
        autoscaler=Autoscaler(autoscaler.kind, autoscaler.source),
        accelerator=component.accelerator.to_json() if component.accelerator is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Served:
    """Which optional resources the cluster served when the manager started."""

    keda: bool = False
    gateway: bool = False
    leader_worker_sets: bool = False
    pod_monitors: bool = False


@dataclass(frozen=True, slots=True)
class Parent:
    """What the objects take from the InferenceService itself."""

    owner: Owner
    generation: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    pairing_protocol: str | None = None
    engine: bool = True
    """Whether this manager runs the InferenceReplica engine, which takes `ome.io/ir-teardown` away again."""


def desired(resource: Resource, body: Json) -> Desired:
    """An object from its body."""
    return Desired(resource, body["metadata"]["name"], digest(body), body)


def component_objects(
    parent: Parent,
    component: RenderedComponent,
    config: OperatorConfig,
    children: Mapping[ChildKey, Child],
    served: Served,
) -> ComponentObjects:
    """Everything a component needs. Checks come first, so that a component which may not be written writes nothing.

    Raises ComponentError (a foreign object, a budget that contradicts itself).
    """
    autoscaler = choose_autoscaler(component.autoscaler, component.mode)
    outline = _outline(component, autoscaler)
    budget = _budget(component, config, children)
    preflight = f"failed to preflight {component.component} PodDisruptionBudget: "
    _check_owner(parent.owner, PDBS, component.name, children, preflight)
    objects = _workload(parent, component, autoscaler, children, served)
    objects.append(_service(parent.owner, component, children))
    if served.pod_monitors:
        objects.append(desired(POD_MONITORS, pod_monitor(parent.owner, component, config.pod_monitor or {})))
    try:
        scaler = _scaler(parent.owner, component, autoscaler, children, keda=served.keda)
    except ComponentError as error:
        return ComponentObjects(outline, tuple(objects), error)
    if scaler is not None:
        objects.append(scaler)
    if budget is not None:
        objects.append(_disruption_budget(parent.owner, component, budget, children))
    return ComponentObjects(outline, tuple(objects))


# -- workload ----------------------------------------------------------------------------------------------------------


def _workload(
    parent: Parent,
    component: RenderedComponent,
    autoscaler: Autoscaler,
    children: Mapping[ChildKey, Child],
    served: Served,
) -> list[Desired]:
    if component.mode is DeploymentMode.MULTI_NODE:
        if not served.leader_worker_sets:
            raise ComponentError(
                f"{component.component}: deployment mode MultiNode needs the LeaderWorkerSet CRD "
                "(leaderworkerset.x-k8s.io/v1), which was not served when the manager started"
            )
        return [desired(LEADER_WORKER_SETS, leader_worker_set(parent.owner, component))]
    resource, body = _scalable(parent, component, autoscaler, children)
    if component.component is not Component.ROUTER:
        return [desired(resource, body)]
    _run_as_router(body, component)
    account, role, binding = router_access(parent.owner, component)
    access = [desired(SERVICE_ACCOUNTS, account), desired(ROLES, role), desired(ROLE_BINDINGS, binding)]
    return [*access, desired(resource, body)]


def _scalable(
    parent: Parent, component: RenderedComponent, autoscaler: Autoscaler, children: Mapping[ChildKey, Child]
) -> tuple[Resource, Json]:
    if component.mode is DeploymentMode.OME_NATIVE:
        live = children.get((INFERENCE_REPLICAS.plural, component.name))
        body = inference_replica(
            parent.owner,
            component,
            generation=parent.generation,
            annotations=parent.annotations,
            pairing_protocol=parent.pairing_protocol,
        )
        _set_replicas(body, _replica_count(component, autoscaler, live), live)
        if parent.engine and (live is None or keys.TEARDOWN_FINALIZER in live.metadata.finalizers):
            # Born with what the engine would put on it first, and the engine's from then on: one write less.
            body["metadata"]["finalizers"] = [keys.TEARDOWN_FINALIZER]
        return INFERENCE_REPLICAS, body
    live = children.get((DEPLOYMENTS.plural, component.name))
    body = deployment(parent.owner, component)
    _set_replicas(body, _deployment_count(component, autoscaler, live), live)
    return DEPLOYMENTS, body


def _run_as_router(body: Json, component: RenderedComponent) -> None:
    spec = body["spec"]
    templates = [spec["template"]] if "template" in spec else [runner["template"] for runner in spec["runners"]]
    for template in templates:
        template["spec"] = with_service_account(template["spec"], component.name)


def _deployment_count(component: RenderedComponent, autoscaler: Autoscaler, live: Child | None) -> int | None:
    if autoscaler.kind == "None":
        return component.replicas.minimum
    return _still_owned(live)


def _replica_count(component: RenderedComponent, autoscaler: Autoscaler, live: Child | None) -> int | None:
    least = max(1, component.replicas.minimum)
    if live is None or autoscaler.kind == "None" or not live.replicas:
        return least
    return _still_owned(live)


def _still_owned(live: Child | None) -> int | None:
    """The live count while the field is still ours.

    To stop sending a field that only we own would remove it and so reset the count; once somebody else has changed it,
    it is theirs and is never sent again.
    """
    return live.replicas if live is not None and "replicas" in live.kept else None


def _set_replicas(body: Json, count: int | None, live: Child | None) -> None:
    if count is None:
        return
    body["spec"]["replicas"] = count
    if live is not None and count == live.replicas:
        # A count that is merely repeated must not undo a scaling which the cache has not shown yet.
        body["metadata"]["resourceVersion"] = live.metadata.resource_version


# -- service, scaler, budget -------------------------------------------------------------------------------------------


def _service(owner: Owner, component: RenderedComponent, children: Mapping[ChildKey, Child]) -> Desired:
    body = component_service(owner, component)
    keep_service(body, children.get((SERVICES.plural, body["metadata"]["name"])), owner)
    return desired(SERVICES, body)


def keep_service(body: Json, live: Child | None, owner: Owner) -> None:
    """A component Service keeps the metadata and the type of its creation."""
    if live is None or not live.digest or not live.metadata.owned_by(owner.uid):
        return
    _keep_metadata(body, live)
    for field_name in ("type", "loadBalancerIP"):
        body["spec"].pop(field_name, None)
        if field_name in live.kept:
            body["spec"][field_name] = live.kept[field_name]


def _keep_metadata(body: Json, live: Child) -> None:
    created_with = live.created_with()
    for name in ("labels", "annotations"):
        body["metadata"].pop(name, None)
        if created_with.get(name):
            body["metadata"][name] = created_with[name]


def _scaler(
    owner: Owner,
    component: RenderedComponent,
    autoscaler: Autoscaler,
    children: Mapping[ChildKey, Child],
    *,
    keda: bool,
) -> Desired | None:
    if autoscaler.kind not in ("HPA", "KEDA") or component.mode is DeploymentMode.MULTI_NODE:
        return None
    bounds = component.replicas
    if component.mode is DeploymentMode.RAW_DEPLOYMENT and bounds.minimum > bounds.maximum:
        raise ComponentError(
            f"raw {component.component}: minReplicas must not exceed maxReplicas: {bounds.minimum} > {bounds.maximum}"
        )
    if autoscaler.kind == "HPA":
        _check_owner(owner, HPAS, component.name, children)
        return desired(HPAS, pod_autoscaler(owner, component, autoscaler))
    if not keda:
        raise ComponentError(
            f"{component.component}: autoscaler class KEDA needs the ScaledObject CRD (keda.sh/v1alpha1), "
            "which was not served when the manager started"
        )
    try:
        body = scaled_object(owner, component, autoscaler)
    except AutoscalerError as error:
        raise ComponentError(str(error)) from error
    _check_owner(owner, SCALED_OBJECTS, body["metadata"]["name"], children)
    return desired(SCALED_OBJECTS, body)


def _budget(component: RenderedComponent, config: OperatorConfig, children: Mapping[ChildKey, Child]) -> Budget | None:
    native = component.mode is DeploymentMode.OME_NATIVE
    if component.mode is DeploymentMode.MULTI_NODE:
        return None
    default = config.budgets.ome_native if native else config.budgets.raw_deployment
    try:
        budget = resolve_budget(component.component, component.disruption, _configured(default))
    except ValueError as error:
        raise ComponentError(str(error)) from error
    if budget is None or not native:
        return budget
    live = children.get((INFERENCE_REPLICAS.plural, component.name))
    instances = max(1, (live.replicas if live is not None else 0) or component.replicas.minimum)
    return in_pods(budget, instances, component.pods_per_instance)


def _configured(default: ConfiguredBudget | None) -> Budget | None:
    return None if default is None else Budget(default.min_available, default.max_unavailable)


def _disruption_budget(
    owner: Owner, component: RenderedComponent, budget: Budget, children: Mapping[ChildKey, Child]
) -> Desired:
    body = disruption_budget(owner, component, budget)
    live = children.get((PDBS.plural, component.name))
    if live is not None and live.digest:
        _keep_metadata(body, live)
    return desired(PDBS, body)


def _check_owner(
    owner: Owner, resource: Resource, name: str, children: Mapping[ChildKey, Child], prefix: str = ""
) -> None:
    """Raises ComponentError for an object of that name which this service did not make.

    One that OME made and that nobody controls was left by a service deleted with `--cascade=orphan`: it is taken over.
    """
    live = children.get((resource.plural, name))
    if live is None or live.metadata.owned_by(owner.uid):
        return
    controller = live.metadata.controller
    if controller is None and live.digest:
        return
    if controller is not None and (controller.kind, controller.name) == ("InferenceService", owner.name):
        return  # left by a deleted service of this name, about to be collected
    raise ComponentError(
        f"{prefix}{resource.kind} {owner.namespace}/{name} is not controlled by expected owner InferenceService "
        f"{owner.namespace}/{owner.name}"
    )
