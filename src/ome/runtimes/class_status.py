"""Status of AcceleratorClasses: the nodes that belong to each (`spec/serving-runtimes.md section 8.1`).

The matching is `ome.runtimes.accelerators`. A class holds a finalizer while it exists; deletion waits for nothing,
even in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ome.api import keys
from ome.api.core import Node
from ome.api.meta import timestamp
from ome.api.types.accelerators import AcceleratorClass
from ome.kube.cache import Cache, Change, Key
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import Controller, Done, Environment, Outcome, Watch
from ome.kube.errors import NotFound
from ome.kube.resources import ACCELERATOR_CLASSES, NODES
from ome.runtimes.accelerators import matching_nodes


@dataclass(frozen=True, slots=True)
class ClassStatus:
    """One pass over one class; a change of a node's labels or capacity concerns every class."""

    client: Client
    clock: Clock
    classes: Cache[AcceleratorClass]
    nodes: Cache[Node]

    async def reconcile(self, key: Key) -> Outcome:
        """Keep the finalizer, write the node list when it changed."""
        stored = self.classes.get(*key)
        if stored is None:
            return Done()
        try:
            if not await self._settle_finalizer(stored):
                await self._write_nodes(stored)
        except NotFound:
            return Done()
        return Done()

    async def _settle_finalizer(self, stored: AcceleratorClass) -> bool:
        """Whether the class is going away and nothing else is to be done for it."""
        meta = stored.metadata
        present = keys.ACCELERATOR_CLASS_FINALIZER in meta.finalizers
        if meta.deleting == present:
            others = [name for name in meta.finalizers if name != keys.ACCELERATOR_CLASS_FINALIZER]
            wanted = others if meta.deleting else [*others, keys.ACCELERATOR_CLASS_FINALIZER]
            body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": wanted}}
            self.classes.observe(await self.client.patch(ACCELERATOR_CLASSES, meta.name, "", body))
        return meta.deleting

    async def _write_nodes(self, stored: AcceleratorClass) -> None:
        nodes = matching_nodes(stored.spec, self.nodes.list())
        if nodes == stored.status.nodes:
            return
        status: dict[str, Any] = {
            "nodes": list(nodes) or None,
            "availableNodes": len(nodes) or None,
            "lastUpdated": timestamp(self.clock.now()),
        }
        name = stored.metadata.name
        written = await self.client.patch(ACCELERATOR_CLASSES, name, "", {"status": status}, subresource="status")
        self.classes.observe(written)

    def of_class(self, change: Change[AcceleratorClass]) -> Iterable[Key]:
        """The class itself."""
        return [change.object.metadata.key]

    def of_node(self, change: Change[Node]) -> Iterable[Key]:
        """Every class, when a node came, went, or changed in what classes look at: not at its heartbeats."""
        old, new = change.old, change.new
        if old is not None and new is not None and _looked_at(old) == _looked_at(new):
            return []
        return [stored.metadata.key for stored in self.classes.list()]


def build(environment: Environment) -> Controller:
    """The controller `acceleratorclass`."""
    room = ClassStatus(
        environment.client,
        environment.clock,
        environment.caches.of(ACCELERATOR_CLASSES, AcceleratorClass),
        environment.caches.of(NODES, Node),
    )
    watches: list[Watch[Any]] = [Watch(room.classes, room.of_class), Watch(room.nodes, room.of_node)]
    return Controller("acceleratorclass", room.reconcile, watches, clock=environment.clock, metrics=environment.metrics)


def _looked_at(node: Node) -> tuple[dict[str, str], dict[str, str]]:
    return node.metadata.labels, node.status.capacity
