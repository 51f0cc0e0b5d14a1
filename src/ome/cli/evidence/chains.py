"""A runtime's inheritance chain as the tool found it, complete or broken (spec/serving-runtimes.md section 6). Pure.

The merge itself is `ome.rendering.merge`; how parents are fetched is the caller's business (`follow` asks for one
name at a time).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ome.api.keys import INHERIT_FROM
from ome.cli.evidence import objects
from ome.rendering.merge import INHERITANCE, merge_object

MAX_DEPTH = 5
SERVING_RUNTIME = "ServingRuntime"
CLUSTER_SERVING_RUNTIME = "ClusterServingRuntime"


class Member(NamedTuple):
    """One runtime; `namespace` is empty for a ClusterServingRuntime."""

    kind: str
    namespace: str
    name: str
    obj: Mapping[str, Any]

    @property
    def short(self) -> str:
        """`CSR/<name>` or `SR/<ns>/<name>`."""
        return f"SR/{self.namespace}/{self.name}" if self.namespace else f"CSR/{self.name}"

    @property
    def long(self) -> str:
        parts = [self.kind, self.namespace, self.name] if self.namespace else [self.kind, self.name]
        return "/".join(parts)


def member(obj: Mapping[str, Any], namespace: str) -> Member:
    """A runtime object as a member; `namespace` says which of the two kinds it is."""
    kind = SERVING_RUNTIME if namespace else CLUSTER_SERVING_RUNTIME
    return Member(kind, namespace, objects.name(obj), obj)


class Chain(NamedTuple):
    """`members` root first, ending with the runtime itself. A broken chain names the runtime that breaks it and its
    parent.
    """

    members: tuple[Member, ...]
    issue: str = ""
    subject: str = ""
    parent: str = ""

    @property
    def head(self) -> Member:
        return self.members[-1]

    @property
    def path(self) -> list[str]:
        """Leaf to the point of failure, for the issue's path."""
        names = [entry.name for entry in reversed(self.members)]
        return [*names, self.parent] if self.parent else names

    def merged(self) -> dict[str, Any]:
        """The spec a named service renders from: root first, child over result."""
        spec: dict[str, Any] = {}
        for entry in self.members:
            spec = merge_object(spec, objects.mapping(entry.obj, "spec"), INHERITANCE)
        return spec


def follow(head: Member, lookup: Callable[[Member, str], Member | None]) -> Chain:
    """Walks `ome.io/inherit-from` upwards. `lookup(child, name)` answers with the parent or None, and may raise."""
    found = [head]
    names = {head.name}
    while True:
        child = found[0]
        parent = objects.annotation(child.obj, INHERIT_FROM) or ""
        if not parent:
            return Chain(tuple(found))
        if parent in names:
            return Chain(tuple(found), "CycleDetected", child.name, parent)
        if len(found) >= MAX_DEPTH:
            return Chain(tuple(found), "MaxDepthExceeded", child.name, parent)
        above = lookup(child, parent)
        if above is None:
            return Chain(tuple(found), "ParentMissing", child.name, parent)
        found.insert(0, above)
        names.add(parent)
