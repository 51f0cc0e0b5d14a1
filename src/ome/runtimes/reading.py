"""Runtimes as this room reads them: one shape for both kinds, and the protocol by which they are looked up.

`RuntimeReader` has a cache-backed form for the manager (`CachedRuntimes`) and a fixed one for admission, the command
line and tests (`RuntimeSnapshot`). Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from ome.api import keys, names
from ome.api.meta import ObjectReference
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime

if TYPE_CHECKING:
    from ome.kube.cache import Cache


class RuntimeKind(StrEnum):
    """Both runtime kinds."""

    NAMESPACED = names.SERVING_RUNTIME
    CLUSTER = names.CLUSTER_SERVING_RUNTIME

    @property
    def scope(self) -> str:
        """As the refusal of a disabled runtime prints it."""
        return "cluster-scoped" if self is RuntimeKind.CLUSTER else "namespace-scoped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A ServingRuntime or ClusterServingRuntime (`namespace` empty) with its own spec: nothing inherited yet.

    `version` changes with every write of the object; two equal versions of one uid are the same object."""

    kind: RuntimeKind
    name: str
    namespace: str = ""
    spec: Mapping[str, Any]
    annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    version: str = ""

    @classmethod
    def of(cls, stored: ServingRuntime | ClusterServingRuntime) -> Runtime:
        """From a decoded object; its spec is shared, not copied."""
        kind = RuntimeKind.NAMESPACED if isinstance(stored, ServingRuntime) else RuntimeKind.CLUSTER
        meta = stored.metadata
        return cls(
            kind=kind,
            name=meta.name,
            namespace=meta.namespace if kind is RuntimeKind.NAMESPACED else "",
            spec=stored.spec,
            annotations=meta.annotations,
            uid=meta.uid,
            version=meta.resource_version,
        )

    @property
    def parent(self) -> str:
        """The name in `ome.io/inherit-from`, "" without one."""
        return self.annotations.get(keys.INHERIT_FROM, "")

    @property
    def disabled(self) -> bool:
        """By its own spec; what counts for a named runtime is the merged one."""
        return self.spec.get("disabled") is True

    @property
    def reference(self) -> ObjectReference:
        return ObjectReference(
            api_version="ome.io/v1beta1", kind=self.kind.value, name=self.name, namespace=self.namespace, uid=self.uid
        )


class RuntimeReader(Protocol):
    """Looks runtimes up, by what it has in memory: a pass sees one state of the world."""

    def serving_runtime(self, namespace: str, name: str) -> Runtime | None: ...

    def cluster_serving_runtime(self, name: str) -> Runtime | None: ...

    def serving_runtimes(self, namespace: str) -> Sequence[Runtime]: ...

    def cluster_serving_runtimes(self) -> Sequence[Runtime]: ...


class RuntimeSnapshot:
    """A fixed set of runtimes."""

    def __init__(self, runtimes: Iterable[Runtime] = ()) -> None:
        self._runtimes = {(runtime.namespace, runtime.name): runtime for runtime in runtimes}

    def serving_runtime(self, namespace: str, name: str) -> Runtime | None:
        return self._runtimes.get((namespace, name)) if namespace else None

    def cluster_serving_runtime(self, name: str) -> Runtime | None:
        return self._runtimes.get(("", name))

    def serving_runtimes(self, namespace: str) -> Sequence[Runtime]:
        return [runtime for runtime in self._runtimes.values() if namespace and runtime.namespace == namespace]

    def cluster_serving_runtimes(self) -> Sequence[Runtime]:
        return [runtime for runtime in self._runtimes.values() if not runtime.namespace]


class CachedRuntimes:
    """The runtimes the process watches."""

    def __init__(self, namespaced: Cache[ServingRuntime], cluster: Cache[ClusterServingRuntime]) -> None:
        self._namespaced = namespaced
        self._cluster = cluster

    def serving_runtime(self, namespace: str, name: str) -> Runtime | None:
        stored = self._namespaced.get(namespace, name) if namespace else None
        return None if stored is None else Runtime.of(stored)

    def cluster_serving_runtime(self, name: str) -> Runtime | None:
        stored = self._cluster.get("", name)
        return None if stored is None else Runtime.of(stored)

    def serving_runtimes(self, namespace: str) -> Sequence[Runtime]:
        return [Runtime.of(stored) for stored in self._namespaced.list(namespace)] if namespace else []

    def cluster_serving_runtimes(self) -> Sequence[Runtime]:
        return [Runtime.of(stored) for stored in self._cluster.list()]
