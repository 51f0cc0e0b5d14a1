"""What a check looks up beside the object it checks: models, runtimes, classes, replicas, services.

Answers come from the process's caches. Because a cache may not have seen what was applied a moment ago, a denial is
never given on a cache's word alone: everything the check had read is then read live, and the check runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ome.admission.review import Verdict
from ome.api.meta import ObjectMeta
from ome.api.types.accelerators import AcceleratorClass
from ome.api.types.inference_replica import InferenceReplica
from ome.api.types.inference_service import InferenceService
from ome.api.types.models import BaseModel, ClusterBaseModel
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.controller import Environment
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from ome.runtimes.reading import Runtime

ALL = "*"
ROUNDS = 6
"""How often a denial is looked at again: a chain of five runtimes may come into sight one by one."""

Read = tuple[Resource, str, str]
"""Resource, namespace, and name, or `ALL` for a list."""

_TYPES: Mapping[Resource, type[Any]] = {
    BASE_MODELS: BaseModel,
    CLUSTER_BASE_MODELS: ClusterBaseModel,
    SERVING_RUNTIMES: ServingRuntime,
    CLUSTER_SERVING_RUNTIMES: ClusterServingRuntime,
    ACCELERATOR_CLASSES: AcceleratorClass,
    INFERENCE_REPLICAS: InferenceReplica,
    INFERENCE_SERVICES: InferenceService,
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The caches behind every lookup, the client behind every second look."""

    caches: Mapping[Resource, Cache[Any]]
    client: Client

    @classmethod
    def of(cls, environment: Environment) -> Sources:
        """Asks the environment for the caches; call it before they run."""
        caches = {resource: environment.caches.of(resource, type_) for resource, type_ in _TYPES.items()}
        return cls(caches, environment.client)


class World:
    """One check's view, a `RuntimeReader` too. It remembers what it was asked, so that it can be asked again live."""

    def __init__(self, sources: Sources, live: Mapping[Read, Any] | None = None) -> None:
        self._sources = sources
        self._live = dict(live or {})
        self._seen: dict[Read, Any] = {}

    # -- single objects ----------------------------------------------------------------------------------------------

    def _get(self, resource: Resource, namespace: str, name: str) -> Any:
        read = (resource, namespace, name)
        if read not in self._seen:
            cached = self._live[read] if read in self._live else self._sources.caches[resource].get(namespace, name)
            self._seen[read] = cached
        return self._seen[read]

    def base_model(self, namespace: str, name: str) -> BaseModel | None:
        found: BaseModel | None = self._get(BASE_MODELS, namespace, name)
        return found

    def cluster_base_model(self, name: str) -> ClusterBaseModel | None:
        found: ClusterBaseModel | None = self._get(CLUSTER_BASE_MODELS, "", name)
        return found

    def replica(self, namespace: str, name: str) -> InferenceReplica | None:
        found: InferenceReplica | None = self._get(INFERENCE_REPLICAS, namespace, name)
        return found

    def service(self, namespace: str, name: str) -> InferenceService | None:
        found: InferenceService | None = self._get(INFERENCE_SERVICES, namespace, name)
        return found

    def serving_runtime(self, namespace: str, name: str) -> Runtime | None:
        found = self._get(SERVING_RUNTIMES, namespace, name) if namespace else None
        return None if found is None else Runtime.of(found)

    def cluster_serving_runtime(self, name: str) -> Runtime | None:
        found = self._get(CLUSTER_SERVING_RUNTIMES, "", name)
        return None if found is None else Runtime.of(found)

    # -- lists -------------------------------------------------------------------------------------------------------

    def _list(self, resource: Resource, namespace: str = "") -> Sequence[Any]:
        read = (resource, namespace, ALL)
        if read not in self._seen:
            self._seen[read] = (
                self._live[read] if read in self._live else self._sources.caches[resource].list(namespace)
            )
        found: Sequence[Any] = self._seen[read]
        return found

    def services(self, namespace: str) -> Sequence[InferenceService]:
        return self._list(INFERENCE_SERVICES, namespace)

    def serving_runtimes(self, namespace: str) -> Sequence[Runtime]:
        return [Runtime.of(found) for found in self._list(SERVING_RUNTIMES, namespace)] if namespace else []

    def cluster_serving_runtimes(self) -> Sequence[Runtime]:
        return [Runtime.of(found) for found in self._list(CLUSTER_SERVING_RUNTIMES)]

    def accelerator_classes(self) -> frozenset[str]:
        return frozenset(found.metadata.name for found in self._list(ACCELERATOR_CLASSES))

    # -- the second look ---------------------------------------------------------------------------------------------

    async def looked_again(self) -> World | None:
        """A view in which everything read so far is live, or None when that is just what was seen."""
        wanted = [read for read in self._seen if read not in self._live]
        if not wanted:
            return None
        fetched = await asyncio.gather(*(self._fetch(read) for read in wanted))
        live = self._live | dict(zip(wanted, fetched, strict=True))
        if all(_versions(live[read]) == _versions(self._seen[read]) for read in wanted):
            return None
        return World(self._sources, live)

    async def _fetch(self, read: Read) -> Any:
        resource, namespace, name = read
        if name == ALL:
            return (await self._sources.client.list(resource, namespace, into=_TYPES[resource])).items
        return await self._sources.client.find(resource, name, namespace, into=_TYPES[resource])


def _versions(found: Any) -> Any:
    if found is None:
        return None
    if isinstance(found, list):
        return sorted(_version(item.metadata) for item in found)
    return _version(found.metadata)


def _version(metadata: ObjectMeta) -> tuple[str, str, str]:
    return metadata.namespace, metadata.name, metadata.resource_version


async def judge(check: Callable[[World], Verdict], sources: Sources) -> Verdict:
    """The check's verdict, a denial confirmed against the API server itself. Raises `KubeError` when that fails."""
    world = World(sources)
    verdict = check(world)
    for _ in range(ROUNDS):
        if verdict.allowed:
            return verdict
        again = await world.looked_again()
        if again is None:
            return verdict
        world = again
        verdict = check(world)
    return verdict
