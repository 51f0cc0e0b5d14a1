"""What the InferenceService controller can see: its caches, their indexes, and one service's surroundings as a
snapshot.

Every lookup is by name or index, so that a pass costs the same in a cluster of ten services and of ten thousand.
Not here: decisions (`plan.py`) and which change concerns which service (`watches.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ome.api import keys, names
from ome.api.config import OperatorConfig
from ome.api.core import ControllerRevision, Pod
from ome.api.types.accelerators import AcceleratorClass
from ome.api.types.inference_service import InferenceService
from ome.api.types.models import BaseModel, ClusterBaseModel, FineTunedWeight
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime
from ome.kube.cache import Cache, Key
from ome.kube.controller import Environment
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    FINE_TUNED_WEIGHTS,
    HPAS,
    HTTP_ROUTES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    INGRESSES,
    LEADER_WORKER_SETS,
    PDBS,
    POD_MONITORS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALED_OBJECTS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from ome.rendering.children.autoscaling import SCALED_OBJECT_PREFIX
from ome.rendering.children.modelconfig import model_config_name
from ome.runtimes.lookup import NamedRuntimes
from ome.runtimes.reading import CachedRuntimes
from ome.runtimes.revision_store import BY_RUNTIME_AND_HASH, index_revision

from .children import Child, KeptChild, Scaler
from .desired import ChildKey, Served
from .workloads import Replica

BY_OWNER = "owner"
BY_SERVICE = "service"
BY_RUNTIME = "runtime"
BY_REVISION = "revision"
BY_CLASS = "accelerator class"
BY_REPLICA = "referenced replica"
BY_PARENT = "parent runtime"

# Generated objects that carry OME's label from birth; the others are watched whole, to notice foreign ones of a name.
_LABELLED = (DEPLOYMENTS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
_UNLABELLED = (HPAS, PDBS, INGRESSES)
_OPTIONAL = (SCALED_OBJECTS, HTTP_ROUTES, LEADER_WORKER_SETS, POD_MONITORS)

_TYPES: dict[Resource, type[Child]] = {
    SERVICES: KeptChild,
    PDBS: KeptChild,
    HPAS: Scaler,
    SCALED_OBJECTS: Scaler,
}

Model = BaseModel | ClusterBaseModel


@dataclass(frozen=True, slots=True)
class Overlay:
    """An overlay the service names, and the model that it is now, if any."""

    name: str
    model: Model | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One service and what bears on it, as the caches show it at one moment. Shared objects: never changed."""

    service: InferenceService
    config: OperatorConfig
    children: Mapping[ChildKey, Child]
    pods: tuple[Pod, ...]
    model: Model | None = None
    declared_model: Model | None = None
    """The model of the declared kind; a pass needs it even when `model` is the namespace's BaseModel of that name."""
    overlays: tuple[Overlay, ...] = ()
    weights: tuple[tuple[str, FineTunedWeight | None], ...] = ()
    referenced: Mapping[str, tuple[str, Replica | None]] | None = None
    """By component: name and object of a replica that the service fronts."""

    def replica(self, name: str) -> Replica | None:
        found = self.children.get((INFERENCE_REPLICAS.plural, name))
        return found if isinstance(found, Replica) else None

    def of_component(self, resource: Resource, component: str) -> Child | None:
        """The object of this kind that carries the component's label."""
        for (plural, _), child in self.children.items():
            if plural == resource.plural and child.metadata.labels.get(keys.COMPONENT) == component:
                return child
        return None

    def component_pods(self, component: str) -> tuple[Pod, ...]:
        """Pods of one component that are not on their way out."""
        return tuple(
            pod
            for pod in self.pods
            if pod.metadata.labels.get(keys.COMPONENT) == component and not pod.metadata.deleting
        )


def _owners(child: Child) -> Iterable[str]:
    owner = child.metadata.controller
    return [owner.uid] if owner is not None and owner.kind == INFERENCE_SERVICES.kind else []


def _service_of(pod: Pod) -> Iterable[str]:
    name = pod.metadata.labels.get(keys.INFERENCE_SERVICE)
    return [f"{pod.metadata.namespace}/{name}"] if name else []


def _named_runtime(service: InferenceService) -> Iterable[str]:
    runtime = service.spec.runtime
    return [runtime.name, f"{service.metadata.namespace}/{runtime.name}"] if runtime and runtime.name else []


def _revisions_of(service: InferenceService) -> Iterable[str]:
    runtime = service.spec.runtime
    return {name for name in (service.status.pinned_revision_name, runtime.revision if runtime else "") if name}


def _classes_of(service: InferenceService) -> Iterable[str]:
    selectors = [service.spec.accelerator_selector or {}]
    pod_sets = (service.spec.engine, service.spec.decoder)
    selectors += [(component or {}).get("acceleratorOverride") or {} for component in pod_sets]
    found = {selector.get("acceleratorClass") for selector in selectors}
    for entry in service.status.components.values():
        found.add((entry.get("selectedAccelerator") or {}).get("acceleratorClass"))
    return {name for name in found if name}


def _replicas_of(service: InferenceService) -> Iterable[str]:
    return [f"{service.metadata.namespace}/{name}" for _, name in referenced_names(service)]


def referenced_names(service: InferenceService) -> list[tuple[str, str]]:
    """(component, replica) of `spec.replicaRefs`."""
    refs = service.spec.replica_refs
    if refs is None:
        return []
    named = ((names.ENGINE, refs.engine), (names.DECODER, refs.decoder), (names.ROUTER, refs.router))
    return [(component, refs_of[0]) for component, refs_of in named if refs_of]


def _parent(runtime: ServingRuntime | ClusterServingRuntime) -> Iterable[str]:
    parent = runtime.metadata.annotations.get(keys.INHERIT_FROM)
    return [parent] if parent else []


class World:
    """The caches of this controller."""

    def __init__(self, environment: Environment) -> None:
        caches = environment.caches
        self.namespace = environment.namespace
        self.services: Cache[InferenceService] = caches.of(
            INFERENCE_SERVICES,
            InferenceService,
            indexes={
                BY_RUNTIME: _named_runtime,
                BY_REVISION: _revisions_of,
                BY_CLASS: _classes_of,
                BY_REPLICA: _replicas_of,
            },
        )
        self.pods: Cache[Pod] = caches.of(
            PODS, Pod, label_selector=keys.INFERENCE_SERVICE, indexes={BY_SERVICE: _service_of}
        )
        self.children: dict[Resource, Cache[Any]] = {}
        for resource in _LABELLED:
            self.children[resource] = caches.of(
                resource,
                _TYPES.get(resource, Child),
                label_selector=keys.INFERENCE_SERVICE,
                indexes={BY_OWNER: _owners},
            )
        optional = [resource for resource in _OPTIONAL if resource.group_resource in environment.served]
        for resource in (*_UNLABELLED, *optional):
            self.children[resource] = caches.of(resource, _TYPES.get(resource, Child), indexes={BY_OWNER: _owners})
        self.children[INFERENCE_REPLICAS] = caches.of(INFERENCE_REPLICAS, Replica, indexes={BY_OWNER: _owners})
        self.serving_runtimes: Cache[ServingRuntime] = caches.of(
            SERVING_RUNTIMES, ServingRuntime, indexes={BY_PARENT: _parent}
        )
        self.cluster_runtimes: Cache[ClusterServingRuntime] = caches.of(
            CLUSTER_SERVING_RUNTIMES, ClusterServingRuntime, indexes={BY_PARENT: _parent}
        )
        self.runtimes = CachedRuntimes(self.serving_runtimes, self.cluster_runtimes)
        self.named_runtimes = NamedRuntimes(self.runtimes)
        self.base_models: Cache[BaseModel] = caches.of(BASE_MODELS, BaseModel)
        self.cluster_models: Cache[ClusterBaseModel] = caches.of(CLUSTER_BASE_MODELS, ClusterBaseModel)
        self.weights: Cache[FineTunedWeight] = caches.of(FINE_TUNED_WEIGHTS, FineTunedWeight)
        self.classes: Cache[AcceleratorClass] = caches.of(ACCELERATOR_CLASSES, AcceleratorClass)
        self.revisions: Cache[ControllerRevision] = caches.of(
            CONTROLLER_REVISIONS,
            ControllerRevision,
            namespace=environment.namespace,
            indexes={BY_RUNTIME_AND_HASH: index_revision},
        )
        self.served = Served(
            keda=SCALED_OBJECTS in self.children,
            gateway=HTTP_ROUTES in self.children,
            leader_worker_sets=LEADER_WORKER_SETS in self.children,
            pod_monitors=POD_MONITORS in self.children,
        )

    def observe(self, service: InferenceService, config: OperatorConfig) -> Snapshot:
        """The service with everything that bears on it."""
        namespace = service.metadata.namespace
        declared, model = self._model(service)
        reference = service.spec.model
        overlays = reference.overlays if reference is not None else ()
        weights = reference.fine_tuned_weights if reference is not None else ()
        referenced = {
            component: (name, self.children[INFERENCE_REPLICAS].get(namespace, name))
            for component, name in referenced_names(service)
        }
        return Snapshot(
            service=service,
            config=config,
            children=self._children(service),
            pods=tuple(self.pods.by_index(BY_SERVICE, f"{namespace}/{service.metadata.name}")),
            model=model,
            declared_model=declared,
            overlays=tuple(self._overlay(namespace, overlay) for overlay in overlays),
            weights=tuple((name, self.weights.get("", name)) for name in weights),
            referenced=referenced or None,
        )

    def _model(self, service: InferenceService) -> tuple[Model | None, Model | None]:
        """The model of the declared kind, and the one to use: a namespace's own BaseModel of the name comes first."""
        reference = service.spec.model
        if reference is None or not reference.name:
            return None, None
        own = self.base_models.get(service.metadata.namespace, reference.name)
        declared: Model | None = own
        if reference.kind != BASE_MODELS.kind:
            declared = self.cluster_models.get("", reference.name)
        return declared, None if declared is None else own or declared

    def _overlay(self, namespace: str, reference: Mapping[str, Any]) -> Overlay:
        name = str(reference.get("name", ""))
        if reference.get("kind") == BASE_MODELS.kind:
            return Overlay(name, self.base_models.get(namespace, name))
        return Overlay(name, self.cluster_models.get("", name))

    def _children(self, service: InferenceService) -> dict[ChildKey, Child]:
        meta = service.metadata
        found: dict[ChildKey, Child] = {}
        for resource, cache in self.children.items():
            for child in cache.by_index(BY_OWNER, meta.uid):
                found[resource.plural, child.metadata.name] = child
        for resource, name in self._claimed_names(meta.name):
            if (resource.plural, name) in found:
                continue
            child = self.children[resource].get(meta.namespace, name)
            if child is not None:
                found[resource.plural, name] = child
        return found

    def _claimed_names(self, service: str) -> Iterable[tuple[Resource, str]]:
        """Names at which an object that is not ours would be in the way."""
        yield CONFIG_MAPS, model_config_name(service)
        yield SERVICES, names.shortened(service)
        for component in names.COMPONENTS:
            name = names.component_name(service, component)
            for resource in (HPAS, PDBS, INFERENCE_REPLICAS, DEPLOYMENTS):
                yield resource, name
            yield SERVICES, names.component_service(service, component)
            if self.served.keda:
                yield SCALED_OBJECTS, f"{SCALED_OBJECT_PREFIX}{name}"

    def cache_of(self, resource: Resource) -> Cache[Any]:
        return self.children[resource]

    def service(self, key: Key) -> InferenceService | None:
        return self.services.get(*key)
