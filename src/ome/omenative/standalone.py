"""Standalone replicas: pod templates rendered from the live model and runtime they name, and the operator's defaults.

`spec/omenative.md` section 2.1. The rendering is `ome.rendering`'s and the choice `ome.runtimes`'; this only asks
them and says why there is no answer. Rendered runners are never stored. What a projected replica runs was rendered by
its service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from ome.api.config import OperatorConfig
from ome.api.meta import to_dict
from ome.api.types import (
    AcceleratorClass,
    BaseModel,
    ClusterBaseModel,
    ClusterServingRuntime,
    FineTunedWeight,
    ServingRuntime,
)
from ome.api.types.inference_replica import InferenceReplica, Runner
from ome.api.types.lifecycle import LifecycleSpec
from ome.kube.cache import Cache, Caches, Change, Key
from ome.kube.controller import Watch
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    FINE_TUNED_WEIGHTS,
    SERVING_RUNTIMES,
)
from ome.rendering import effective
from ome.rendering.model import (
    AcceleratorFacts,
    Component,
    ComponentNotConfiguredError,
    DeploymentMode,
    FineTunedWeightFacts,
    ModelFacts,
    RenderDefaults,
    RenderedComponent,
    RenderError,
    RenderInput,
    RuntimeFacts,
    ServiceFacts,
)
from ome.rendering.render import render_component
from ome.runtimes.accelerators import AcceleratorClassNotFoundError, choose_accelerator
from ome.runtimes.inheritance import ChainError
from ome.runtimes.lookup import NamedRuntimes, RuntimeNotFoundError, UnsupportedKindError
from ome.runtimes.reading import CachedRuntimes
from ome.runtimes.selection import NamedRuntimeError, SelectionError, check_named, select

from . import names
from .observe import RenderProblem
from .template import check


class _NoTemplate(Exception):
    """Why a replica cannot be rendered, on its way to a `RenderProblem`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.problem = RenderProblem(reason, message)


@dataclass(frozen=True, slots=True)
class Template:
    """The pod templates, and the lifecycle that acts."""

    runners: tuple[Runner, ...]
    lifecycle: LifecycleSpec | None
    min_ready_seconds: int | None


class Standalone:
    """Renders standalone replicas from the caches of one process."""

    def __init__(self, caches: Caches, replicas: Cache[InferenceReplica]) -> None:
        self._replicas = replicas
        self._namespaced: Cache[ServingRuntime] = caches.of(SERVING_RUNTIMES, ServingRuntime)
        self._cluster: Cache[ClusterServingRuntime] = caches.of(CLUSTER_SERVING_RUNTIMES, ClusterServingRuntime)
        self._reader = CachedRuntimes(self._namespaced, self._cluster)
        self._named = NamedRuntimes(self._reader)
        self._base: Cache[BaseModel] = caches.of(BASE_MODELS, BaseModel)
        self._cluster_base: Cache[ClusterBaseModel] = caches.of(CLUSTER_BASE_MODELS, ClusterBaseModel)
        self._weights: Cache[FineTunedWeight] = caches.of(FINE_TUNED_WEIGHTS, FineTunedWeight)
        self._classes: Cache[AcceleratorClass] = caches.of(ACCELERATOR_CLASSES, AcceleratorClass)
        replicas.add_index(_RENDERED, _rendered)

    def watches(self) -> list[Watch[Any]]:
        """A change of a model or runtime concerns every replica that is rendered from references."""
        caches: tuple[Cache[Any], ...] = (
            self._namespaced,
            self._cluster,
            self._base,
            self._cluster_base,
            self._classes,
        )
        return [Watch(cache, self._referring) for cache in caches]

    def _referring(self, change: Change[Any]) -> Iterable[Key]:
        return [replica.metadata.key for replica in self._replicas.by_index(_RENDERED, "yes")]

    def template(self, replica: InferenceReplica, config: OperatorConfig) -> Template | RenderProblem:
        """What a standalone replica runs, or why nothing."""
        spec = replica.spec
        if spec.runners:
            runners = check(spec.runners)
            if isinstance(runners, RenderProblem):
                return runners
            return Template(runners, _defaulted(replica, config), spec.min_ready_seconds)
        if spec.model_ref is None and spec.runtime_ref is None:
            return RenderProblem("TemplateSourceMissing", "spec names no runners, no modelRef and no runtimeRef")
        try:
            rendered = self._render(replica, config)
        except _NoTemplate as error:
            return error.problem
        found = check(_runners(rendered))
        if isinstance(found, RenderProblem):
            return found
        lifecycle = msgspec.convert(rendered.lifecycle, LifecycleSpec)
        seconds = spec.min_ready_seconds if spec.min_ready_seconds is not None else rendered.min_ready_seconds
        return Template(found, lifecycle, seconds)

    # -- rendering -----------------------------------------------------------------------------------------------------

    def _render(self, replica: InferenceReplica, config: OperatorConfig) -> RenderedComponent:
        component = Component(replica.spec.component)
        service = _service(replica, component)
        model = self._model(replica)
        runtime = self._runtime(replica, service, model)
        if not runtime.spec.get(component.config_key):
            raise _NoTemplate("RuntimePieceMissing", f"runtime {runtime.name} has no {component.config_key}")
        facts = RenderInput(
            service=service,
            runtime=runtime,
            model=model,
            fine_tuned_weights=tuple(self._fine_tuned(replica)),
            accelerators=self._accelerators(service, component, runtime),
            defaults=RenderDefaults.of(config),
        )
        try:
            return render_component(facts, component, mode=DeploymentMode.OME_NATIVE)
        except ComponentNotConfiguredError as error:
            raise _NoTemplate("RuntimePieceMissing", str(error)) from error
        except RenderError as error:
            raise _NoTemplate("RenderFailed", str(error)) from error

    def _model(self, replica: InferenceReplica) -> ModelFacts | None:
        reference = replica.spec.model_ref
        if reference is None or not reference.name:
            return None
        found: BaseModel | ClusterBaseModel | None
        if reference.kind == BASE_MODELS.kind:
            found = self._base.get(replica.metadata.namespace, reference.name)
        else:
            found = self._cluster_base.get("", reference.name)
        if found is None:
            raise _NoTemplate("ModelNotFound", f"{reference.kind} {reference.name} not found")
        if found.spec.get("disabled") is True:
            raise _NoTemplate("ModelDisabled", f"specified base model {reference.name} is disabled")
        meta = found.metadata
        return ModelFacts(name=meta.name, namespace=meta.namespace, annotations=meta.annotations, spec=found.spec)

    def _runtime(self, replica: InferenceReplica, service: ServiceFacts, model: ModelFacts | None) -> RuntimeFacts:
        reference = replica.spec.runtime_ref
        if reference is None or not reference.name:
            return self._selected(service, model)
        try:
            resolved = self._named.resolve(reference.name, reference.kind, replica.metadata.namespace)
        except (RuntimeNotFoundError, UnsupportedKindError) as error:
            raise _NoTemplate("RuntimeNotFound", str(error)) from error
        except ChainError as error:
            raise _NoTemplate("RenderFailed", str(error)) from error
        if resolved.disabled:
            raise _NoTemplate("RuntimeDisabled", f"runtime {reference.name} is disabled")
        if model is not None:
            try:
                check_named(resolved, model, service)
            except NamedRuntimeError as error:
                raise _NoTemplate("RuntimeSelectionFailed", str(error)) from error
        return RuntimeFacts(name=resolved.name, spec=resolved.spec)

    def _selected(self, service: ServiceFacts, model: ModelFacts | None) -> RuntimeFacts:
        assert model is not None, "a replica without runtimeRef names a model"
        try:
            chosen = select(model, service, self._reader)
        except SelectionError as error:
            raise _NoTemplate("RuntimeSelectionFailed", str(error)) from error
        return RuntimeFacts(name=chosen.name, spec=self._named.own(chosen).spec, selected=True)

    def _fine_tuned(self, replica: InferenceReplica) -> Iterable[FineTunedWeightFacts]:
        reference = replica.spec.model_ref
        for name in reference.fine_tuned_weights if reference is not None else ():
            weight = self._weights.get("", name)
            if weight is None:
                raise _NoTemplate("ModelNotFound", f"FineTunedWeight {name} not found")
            yield FineTunedWeightFacts(name=name, spec=weight.spec)

    def _accelerators(
        self, service: ServiceFacts, component: Component, runtime: RuntimeFacts
    ) -> dict[Component, AcceleratorFacts]:
        try:
            chosen = choose_accelerator(service, component, runtime.spec, self._class_spec)
        except AcceleratorClassNotFoundError as error:
            raise _NoTemplate("RenderFailed", str(error)) from error
        return {} if chosen is None else {component: chosen}

    def _class_spec(self, name: str) -> Mapping[str, Any] | None:
        found = self._classes.get("", name)
        return None if found is None else found.spec


_RENDERED = "rendered"


def _rendered(replica: InferenceReplica) -> Iterable[str]:
    if not names.projected(replica) and not replica.spec.runners:
        yield "yes"


def _service(replica: InferenceReplica, component: Component) -> ServiceFacts:
    """The replica in the shape of a service with one component."""
    meta = replica.metadata
    return ServiceFacts(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        components={component: _own(replica)},
    )


def _own(replica: InferenceReplica) -> dict[str, Any]:
    lifecycle = replica.spec.lifecycle
    return {"lifecycle": to_dict(lifecycle)} if lifecycle is not None else {}


def _defaulted(replica: InferenceReplica, config: OperatorConfig) -> LifecycleSpec | None:
    """The replica's lifecycle over the operator's default strategy, of which it takes only the budget it reads."""
    component = Component(replica.spec.component)
    defaults = RenderDefaults.of(config)
    merged = effective.lifecycle(component, _own(replica), None, defaults, multi_pod=False)
    return msgspec.convert(merged, LifecycleSpec)


def _runners(rendered: RenderedComponent) -> tuple[Runner, ...]:
    if rendered.worker_template is None:
        return (Runner(name=names.DEFAULT_RUNNER, size=1, template=rendered.template),)
    return (
        Runner(name="leader", size=1, template=rendered.template),
        Runner(name="worker", size=rendered.worker_size, template=rendered.worker_template),
    )


def with_template(replica: InferenceReplica, template: Template) -> InferenceReplica:
    """The replica as it acts: the effective lifecycle and window in its spec. Never written back."""
    spec = replace(replica.spec, lifecycle=template.lifecycle, min_ready_seconds=template.min_ready_seconds)
    return replace(replica, spec=spec)
