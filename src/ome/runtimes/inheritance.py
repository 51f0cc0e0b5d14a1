"""`ome.io/inherit-from`: the chain of a runtime, and the spec merged over it (`spec/serving-runtimes.md section 6`).

Pure. Called by name lookup, the inheritance-status controller, admission of runtimes and the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ome.rendering.merge import INHERITANCE, merge_object
from ome.runtimes.reading import Runtime, RuntimeReader

MAX_DEPTH = 5
"""Runtimes in a chain, self included."""


class ChainError(Exception):
    """A chain that does not resolve. `reason` is the reason of condition `InheritanceReady`; `path` the names from
    the runtime asked about upward; `parent` the name that is wrong."""

    reason = "ResolverError"

    def __init__(self, message: str, path: Sequence[str], parent: str) -> None:
        super().__init__(message)
        self.path = tuple(path)
        self.parent = parent


class ParentNotFoundError(ChainError):
    reason = "ParentNotFound"


class InheritanceCycleError(ChainError):
    reason = "InheritanceCycle"


class MaxDepthExceededError(ChainError):
    reason = "MaxDepthExceeded"


@dataclass(frozen=True, slots=True)
class Chain:
    """Members root first; the last one is the runtime itself."""

    members: tuple[Runtime, ...]

    @property
    def leaf(self) -> Runtime:
        return self.members[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """For `status.inheritanceChain`."""
        return tuple(member.name for member in self.members)

    @property
    def identity(self) -> tuple[tuple[str, str, str], ...]:
        """Changes exactly when a member is written, replaced, or another takes its place."""
        return tuple((member.uid, member.version, member.name) for member in self.members)

    def merged_spec(self) -> Mapping[str, Any]:
        """Child over result, root to leaf. Without a parent it is the runtime's own spec, shared: never change it."""
        if len(self.members) == 1:
            return self.leaf.spec
        merged: dict[str, Any] = {}
        for member in self.members:
            merged = merge_object(merged, member.spec, INHERITANCE)
        return merged


def resolve_chain(runtime: Runtime, reader: RuntimeReader) -> Chain:
    """The chain of a runtime, which need not be stored yet. Raises `ChainError`.

    Parents of a ClusterServingRuntime are ClusterServingRuntimes; anywhere in a ServingRuntime's chain its namespace
    is asked first."""
    path = [runtime.name]
    members = [runtime]
    while members[-1].parent:
        parent = members[-1].parent
        if parent in path:
            raise InheritanceCycleError(
                f"inheritance cycle detected: {_brackets([*path, parent])}", [*path, parent], parent
            )
        if len(members) == MAX_DEPTH:
            raise MaxDepthExceededError(
                f"inheritance chain exceeds max depth {MAX_DEPTH}: {_brackets([*path, parent])}",
                [*path, parent],
                parent,
            )
        found = find_parent(parent, runtime.namespace, reader)
        if found is None:
            raise ParentNotFoundError(
                f'inherit-from parent "{parent}" not found (chain so far: {_brackets(path)})', path, parent
            )
        path.append(parent)
        members.append(found)
    return Chain(tuple(reversed(members)))


def find_parent(name: str, namespace: str, reader: RuntimeReader) -> Runtime | None:
    """A parent by name, seen from a chain whose leaf lives in `namespace` ("" = cluster)."""
    own = reader.serving_runtime(namespace, name) if namespace else None
    return own or reader.cluster_serving_runtime(name)


def _brackets(path: Sequence[str]) -> str:
    return f"[{' '.join(path)}]"
