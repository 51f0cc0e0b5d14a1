"""The way into rendering: `render` makes every declared component of a service, `render_component` one of them.

Pure (`spec/serving-runtimes.md section 7`, `spec/inference-service.md sections 2, 3 and 8`). Called by
`ome.services`, by the standalone half of `ome.omenative` and, for a preview, by the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ome.api import keys
from ome.api.names import component_name
from ome.rendering import accelerators, effective, metadata, models, pods
from ome.rendering.model import (
    AcceleratorFacts,
    AutoscalerLayers,
    Component,
    DeploymentMode,
    DeploymentModeError,
    Json,
    ModeSource,
    RenderedComponent,
    RenderError,
    Rendering,
    RenderInput,
)
from ome.rendering.modes import ModeChoice, check_mode, choose_mode, mode_combination_error
from ome.rendering.placeholders import PlaceholderValues

_GANG_MODES = (DeploymentMode.OME_NATIVE, DeploymentMode.MULTI_NODE)
_SCRAPE_ANNOTATIONS = (keys.PROMETHEUS_SCRAPE, keys.PROMETHEUS_PORT, keys.PROMETHEUS_PATH)
_POD_SETS = (Component.ENGINE, Component.DECODER)


def render(facts: RenderInput) -> Rendering:
    """Every declared component in the order engine, decoder, router. The first error stops the rest; what came
    before stands."""
    rendered: list[RenderedComponent] = []
    try:
        check_service(facts)
        for component in Component:
            if component in facts.service.components:
                rendered.append(render_component(facts, component))  # noqa: PERF401 -- an error must leave these
    except RenderError as error:
        return Rendering(components=tuple(rendered), error=error)
    return Rendering(components=tuple(rendered))


def check_service(facts: RenderInput) -> None:
    """What concerns the service as a whole: an engine, and engine and decoder in modes that go together. Raises
    `DeploymentModeError`."""
    if Component.ENGINE not in facts.service.components:
        raise DeploymentModeError("engine component is required")
    modes = resolve_modes(facts)
    if Component.DECODER not in modes:
        return
    refusal = mode_combination_error(modes[Component.ENGINE].mode, modes[Component.DECODER].mode)
    if refusal is not None:
        raise DeploymentModeError(refusal)


def resolve_modes(facts: RenderInput) -> dict[Component, ModeChoice]:
    """The mode of every declared component; none of them is checked here."""
    return {
        component: choose_mode(component, facts.service, facts.runtime.spec, effective_component(facts, component))
        for component in Component
        if component in facts.service.components
    }


def effective_component(facts: RenderInput, component: Component) -> Json:
    """The service's component over the runtime's config."""
    return effective.merge_component(facts.runtime.spec.get(component.config_key), facts.service.components[component])


def render_component(
    facts: RenderInput, component: Component, *, mode: DeploymentMode | None = None
) -> RenderedComponent:
    """One declared component. `mode` overrides its resolution (standalone InferenceReplicas are always OMENative).

    Raises `KeyError` when the service does not declare it and `RenderError` when it cannot be built."""
    return _ComponentRendering(facts, component, mode).result()


@dataclass(slots=True)
class _Templates:
    primary: Json
    worker: Json | None = None
    worker_size: int = 0


@dataclass(slots=True)
class _ComponentRendering:
    """One run of `render_component`; the layers and choices its steps share."""

    facts: RenderInput
    component: Component
    forced_mode: DeploymentMode | None
    own: Mapping[str, Any] = field(init=False)
    config: Mapping[str, Any] = field(init=False)
    merged: Json = field(init=False)
    choice: ModeChoice = field(init=False)
    accelerator: AcceleratorFacts | None = field(init=False)
    fine_tuned: models.FineTuned | None = field(init=False)

    def __post_init__(self) -> None:
        service, runtime = self.facts.service, self.facts.runtime
        self.own = service.components[self.component]
        self.config = runtime.spec.get(self.component.config_key) or {}
        self.merged = effective_component(self.facts, self.component)
        self.choice = (
            ModeChoice(self.forced_mode, ModeSource.DEFAULT)
            if self.forced_mode is not None
            else choose_mode(self.component, service, runtime.spec, self.merged)
        )
        in_pod_set = self.component in _POD_SETS
        self.accelerator = self.facts.accelerators.get(self.component) if in_pod_set else None
        self.fine_tuned = models.read_fine_tuned(self.facts.fine_tuned_weights) if in_pod_set else None

    def result(self) -> RenderedComponent:
        mode, service, defaults = self.choice.mode, self.facts.service, self.facts.defaults
        check_mode(self.component, mode, self.merged)
        annotations = metadata.component_annotations(self.facts, self.merged, self.fine_tuned)
        templates = self._templates(annotations)
        multi_pod = templates.worker is not None
        labels = metadata.component_labels(
            self.component,
            mode,
            self.facts,
            self.merged,
            self.fine_tuned,
            under_quota=not defaults.quota_accelerator_resources
            or pods.requests_any((templates.primary, templates.worker), defaults.quota_accelerator_resources),
        )
        app = metadata.selector_app(service.name, self.component)
        return RenderedComponent(
            component=self.component,
            name=component_name(service.name, self.component.value),
            mode=mode,
            mode_source=self.choice.source,
            effective=self.merged,
            template=_template(self._primary_labels(labels, app), annotations, templates.primary),
            worker_template=self._worker_template(labels, annotations, templates.worker),
            worker_size=templates.worker_size,
            labels={**labels, keys.APP: app} if mode is DeploymentMode.RAW_DEPLOYMENT else labels,
            annotations=annotations,
            selector_app=app,
            revision_excluded_annotations=metadata.excluded_from_revision(annotations, service.annotations, self.own),
            service_ports=pods.service_ports(templates.primary, self.merged.get("servicePortAppProtocols") or {}),
            leaders_only=self.own.get("worker") is not None,
            replicas=effective.replica_bounds(self.component, mode, self.merged, defaults),
            lifecycle=effective.lifecycle(self.component, self.own, self.config, defaults, multi_pod=multi_pod)
            if mode is DeploymentMode.OME_NATIVE
            else {},
            min_ready_seconds=effective.min_ready_seconds(self.merged, defaults),
            disruption=effective.disruption_input(self.merged),
            autoscaler=self._autoscaler(annotations),
            deployment_strategy=deepcopy(self.merged.get("deploymentStrategy")),
            timeout_seconds=self.merged.get("timeoutSeconds"),
            topology_key=self.merged.get("topologyKey") or None,
            topology_spread=self.merged.get("topologySpread") or None,
            topology_spread_key=self.merged.get("topologySpreadKey") or None,
            accelerator=accelerators.selected(self.accelerator) if self.accelerator else None,
        )

    def _templates(self, annotations: Mapping[str, str]) -> _Templates:
        """Pod specs. A leader's is the primary one whatever the mode; workers only exist in the gang modes."""
        mode = self.choice.mode
        has_leader, has_worker = self.merged.get("leader") is not None, self.merged.get("worker") is not None
        gang = mode in _GANG_MODES and (has_leader or has_worker)
        if gang and not (has_leader and has_worker):
            raise DeploymentModeError(
                f"{self.component}: deployment mode {mode} requires leader and worker; declare both, or neither",
                self.component,
            )
        worker_size = self._worker_size() if gang else 0
        probe = mode is DeploymentMode.RAW_DEPLOYMENT and keys.PROBE_PROFILE not in annotations
        parts = self._model_parts(annotations) if self.component in _POD_SETS else models.ModelParts()
        primary = self._pod_spec("leader" if has_leader else None, parts, worker_size, default_probe=probe)
        if not gang:
            return _Templates(primary)
        return _Templates(primary, self._pod_spec("worker", parts, worker_size, default_probe=False), worker_size)

    def _worker_size(self) -> int:
        return int((self.merged.get("worker") or {}).get("size") or 1)

    def _pod_spec(self, role: str | None, parts: models.ModelParts, worker_size: int, *, default_probe: bool) -> Json:
        facts, mode = self.facts, self.choice.mode
        source = self.merged if role is None else self.merged[role]
        own = self.own if role is None else self.own.get(role) or {}
        config = self.config if role is None else self.config.get(role) or {}
        serves = self.component in _POD_SETS
        merged_weights = self.fine_tuned is not None and self.fine_tuned.merged
        runtime_selector = (facts.runtime.spec.get("nodeSelector") or {}) if serves and not merged_weights else {}
        class_selector = (
            accelerators.class_node_selector(self.accelerator) if self.accelerator and not merged_weights else {}
        )
        spec = pods.build_pod_spec(
            pods.PodPlan(
                component=self.component,
                runtime_name=facts.runtime.name,
                source=source,
                service_source=own,
                runtime_source=config,
                values=PlaceholderValues(
                    facts.service.name, facts.service.namespace, facts.service.labels, facts.service.annotations
                ),
                parts=parts,
                runtime_node_selector=runtime_selector,
                class_node_selector=class_selector,
                accelerator=self.accelerator,
                overrides=accelerators.class_overrides(self.accelerator, facts.runtime, facts.model),
                router_config={} if serves else self.merged.get("config") or {},
                counted_resources=facts.defaults.accelerator_resources,
                pods_per_instance=1 + worker_size,
                keep_model_selector=role is None and mode is not DeploymentMode.MULTI_NODE,
                grace_period_seconds=self._grace_period(),
                scheduler_name=facts.runtime.spec.get("schedulerName"),
                pull_if_not_present=mode in (DeploymentMode.RAW_DEPLOYMENT, DeploymentMode.MULTI_NODE),
                default_probe=default_probe,
            )
        )
        if self.component is Component.ROUTER and mode is not DeploymentMode.MULTI_NODE:
            # The router finds engine pods through the API with an account of its own.
            spec.setdefault("serviceAccountName", component_name(facts.service.name, self.component.value))
        return spec

    def _grace_period(self) -> int | None:
        written = self.merged.get("terminationGracePeriodSeconds")
        return self.facts.defaults.deploy.termination_grace_period_seconds if written is None else written

    def _model_parts(self, annotations: Mapping[str, str]) -> models.ModelParts:
        facts, fine_tuned = self.facts, self.fine_tuned
        base = models.base_model_parts(facts.model) if facts.model else models.ModelParts()
        if fine_tuned is not None and fine_tuned.merged:
            base = models.ModelParts()
        elif facts.model is not None and annotations.get(keys.INJECT_MODEL_INIT) == "true":
            base = models.filled_by_init(base)
        overlays = models.overlay_parts(facts.overlays, {volume["name"] for volume in base.volumes})
        tuned = models.fine_tuned_parts(fine_tuned, facts.model) if fine_tuned else models.ModelParts()
        return models.ModelParts(
            (*base.volumes, *overlays.volumes, *tuned.volumes),
            (*base.mounts, *overlays.mounts, *tuned.mounts),
            (*base.env, *overlays.env, *tuned.env),
            {**base.node_selector, **overlays.node_selector},
        )

    def _primary_labels(self, labels: dict[str, str], app: str) -> dict[str, str]:
        if self.choice.mode is DeploymentMode.RAW_DEPLOYMENT:
            return {**labels, keys.APP: app}
        if self.choice.mode is DeploymentMode.MULTI_NODE:
            return {**labels, keys.APP: app, keys.RAY_NODE_TYPE: "head"}
        return labels

    def _worker_template(
        self, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Json | None
    ) -> Json | None:
        if spec is None:
            return None
        if self.choice.mode is DeploymentMode.MULTI_NODE:
            annotations = {key: value for key, value in annotations.items() if key not in _SCRAPE_ANNOTATIONS}
        return _template(labels, annotations, spec)

    def _autoscaler(self, annotations: Mapping[str, str]) -> AutoscalerLayers:
        return AutoscalerLayers(
            service=deepcopy(self.own.get("autoscaler")),
            policy_ref=deepcopy(self.own.get("autoscalerPolicyRef")),
            runtime=deepcopy(self.config.get("autoscaler")),
            annotations=dict(annotations),
        )


def _template(labels: Mapping[str, str], annotations: Mapping[str, str], spec: Json) -> Json:
    return {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}, "spec": spec}
