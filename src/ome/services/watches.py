"""Which change concerns which service (spec/inference-service.md section 8, "Watches").

Only keys are made here: a changed object leads, by index, to the services that read it. No change makes this scan
all services.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ome.api import keys
from ome.api.core import ControllerRevision, Pod
from ome.api.types.accelerators import AcceleratorClass
from ome.api.types.inference_service import InferenceService
from ome.api.types.models import BaseModel, ClusterBaseModel
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime
from ome.kube.cache import Change, Key
from ome.kube.controller import Watch
from ome.kube.resources import INFERENCE_SERVICES

from .children import Child
from .world import BY_CLASS, BY_PARENT, BY_REPLICA, BY_REVISION, BY_RUNTIME, World

Runtime = ServingRuntime | ClusterServingRuntime


class Waiting:
    """Services whose last pass could not go on for want of a runtime or a model, and what they wait for."""

    def __init__(self) -> None:
        self._for_model: dict[str, set[Key]] = defaultdict(set)
        self._model_of: dict[Key, str] = {}
        self._for_runtime: dict[str, set[Key]] = defaultdict(set)

    def for_model(self, key: Key, model: str) -> None:
        """`key` waits for any object of this name that is a model."""
        self._model_of[key] = model
        self._for_model[model].add(key)

    def for_any_runtime(self, key: Key) -> None:
        """Selection found nothing: any runtime of the namespace or the cluster may help."""
        self._for_runtime[key[0]].add(key)

    def over(self, key: Key) -> None:
        """The service waits for nothing any more."""
        model = self._model_of.pop(key, None)
        if model is not None:
            _discard(self._for_model, model, key)
        _discard(self._for_runtime, key[0], key)

    def on_model(self, model: str) -> Iterable[Key]:
        return [*self._for_model.get(model, ())]

    def on_runtime(self, namespace: str) -> Iterable[Key]:
        """Those that a runtime of this namespace concerns, "" = of the cluster."""
        if namespace:
            return [*self._for_runtime.get(namespace, ())]
        return [key for waiting in self._for_runtime.values() for key in waiting]


def _discard(index: dict[str, set[Key]], name: str, key: Key) -> None:
    waiting = index.get(name)
    if waiting is None:
        return
    waiting.discard(key)
    if not waiting:
        del index[name]


class Watches:
    """The watch list of the controller."""

    def __init__(self, world: World, waiting: Waiting, known: Callable[[Change[InferenceService]], bool]) -> None:
        """`known`: whether a change of a service is no more than what the controller is just writing."""
        self._world = world
        self._waiting = waiting
        self._known = known

    def all(self) -> list[Watch[Any]]:
        world = self._world
        watches: list[Watch[Any]] = [Watch(world.services, self._of_service)]
        watches += [Watch(cache, self._of_child) for cache in world.children.values()]
        watches += [
            Watch(world.pods, self._of_pod),
            Watch(world.serving_runtimes, self._of_runtime),
            Watch(world.cluster_runtimes, self._of_runtime),
            Watch(world.base_models, self._of_model),
            Watch(world.cluster_models, self._of_model),
            Watch(world.weights, lambda change: self._waiting.on_model(change.object.metadata.name)),
            Watch(world.classes, self._of_class),
            Watch(world.revisions, self._of_revision),
        ]
        return watches

    def _of_service(self, change: Change[InferenceService]) -> Iterable[Key]:
        return [] if self._known(change) else [change.object.metadata.key]

    def _of_child(self, change: Change[Child]) -> Iterable[Key]:
        meta = change.object.metadata
        owner = meta.controller
        if owner is not None and owner.kind == INFERENCE_SERVICES.kind:
            return [(meta.namespace, owner.name)]
        # A standalone replica, or something that stands where a child should.
        found = self._world.services.by_index(BY_REPLICA, f"{meta.namespace}/{meta.name}")
        return [service.metadata.key for service in found]

    def _of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        meta = change.object.metadata
        name = meta.labels.get(keys.INFERENCE_SERVICE)
        return [(meta.namespace, name)] if name else []

    def _of_runtime(self, change: Change[Runtime]) -> Iterable[Key]:
        old, new = change.old, change.new
        if old is not None and new is not None and (old.spec, _parent_of(old)) == (new.spec, _parent_of(new)):
            return []  # only its status or other metadata: nothing renders differently
        changed = change.object
        namespace = changed.metadata.namespace
        found = {key: None for name, place in self._family(changed) for key in self._using(name, place)}
        found.update(dict.fromkeys(self._waiting.on_runtime(namespace)))
        return found

    def _using(self, runtime: str, namespace: str) -> Iterable[Key]:
        index = f"{namespace}/{runtime}" if namespace else runtime
        return [service.metadata.key for service in self._world.services.by_index(BY_RUNTIME, index)]

    def _family(self, runtime: Runtime) -> Iterable[tuple[str, str]]:
        """The runtime and everything that inherits from it, as (name, namespace)."""
        seen: set[tuple[str, str]] = set()
        pending = [(runtime.metadata.name, runtime.metadata.namespace)]
        while pending:
            name, namespace = pending.pop()
            if (name, namespace) in seen:
                continue
            seen.add((name, namespace))
            pending += [
                child.metadata.key[::-1]
                for child in self._world.serving_runtimes.by_index(BY_PARENT, name)
                if not namespace or child.metadata.namespace == namespace
            ]
            if not namespace:
                heirs = self._world.cluster_runtimes.by_index(BY_PARENT, name)
                pending += [(heir.metadata.name, "") for heir in heirs]
            else:
                # A namespace's runtime stands before the cluster's of its name for every chain that ends there.
                pending += self._heirs_through_cluster(name, namespace)
        return seen

    def _heirs_through_cluster(self, name: str, namespace: str) -> list[tuple[str, str]]:
        """ServingRuntimes of the namespace below ClusterServingRuntimes that inherit from this name."""
        found: list[tuple[str, str]] = []
        pending, seen = [name], {name}
        while pending:
            for heir in self._world.cluster_runtimes.by_index(BY_PARENT, pending.pop()):
                if heir.metadata.name in seen:
                    continue
                seen.add(heir.metadata.name)
                pending.append(heir.metadata.name)
                found += [
                    (child.metadata.name, namespace)
                    for child in self._world.serving_runtimes.by_index(BY_PARENT, heir.metadata.name)
                    if child.metadata.namespace == namespace
                ]
        return found

    def _of_model(self, change: Change[BaseModel | ClusterBaseModel]) -> Iterable[Key]:
        return self._waiting.on_model(change.object.metadata.name)

    def _of_class(self, change: Change[AcceleratorClass]) -> Iterable[Key]:
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return []
        found = self._world.services.by_index(BY_CLASS, change.object.metadata.name)
        return [service.metadata.key for service in found]

    def _of_revision(self, change: Change[ControllerRevision]) -> Iterable[Key]:
        found = self._world.services.by_index(BY_REVISION, change.object.metadata.name)
        return [service.metadata.key for service in found]


def _parent_of(runtime: Runtime) -> str | None:
    return runtime.metadata.annotations.get(keys.INHERIT_FROM)
