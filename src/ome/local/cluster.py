"""The two halves of a cluster that stand around an API server: its controllers, and its nodes.

`LocalWorkloads` is what a control plane runs beside the API server (controllers and scheduler); `NodeStandIn` plays
the machines. Both are ordinary API clients: the embedded cluster runs both in one process, a real control plane
needs only the second. In a loop with virtual time they run as they are. The process around them is
`ome.local.commands.serve`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ome.kube.cache import Caches
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import Controller
from ome.local.node.kubelet import Kubelet
from ome.local.node.nodes import HEARTBEAT, Nodes, Reached
from ome.local.node.runtime import ContainerRuntime, SimulatedRuntime
from ome.local.node.scheduler import Scheduler
from ome.local.workloads import controllers, node_lifecycle, services

DEFAULT_GPUS: Final = 8
VOLUME_FOLDER: Final = "/var/lib/ome/volumes"


class LocalWorkloads:
    """The workload controllers, the node lifecycle and the scheduler."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        caches: Caches | None = None,
        volume_folder: str = VOLUME_FOLDER,
        node_grace: float = node_lifecycle.GRACE,
    ) -> None:
        """`caches` shares somebody else's, who runs them. `node_grace` is in seconds."""
        self._own_caches = Caches(client, clock) if caches is None else None
        shop = controllers.Workshop(client, caches or self._own_caches or Caches(client, clock), clock)
        self._controllers: list[Controller] = [
            *controllers.build(shop),
            *services.build(shop, volume_folder=volume_folder, node_grace=node_grace),
            Scheduler(client, shop.caches, clock).controller(),
        ]

    @property
    def idle(self) -> bool:
        """Whether no controller has a key in hand or ready."""
        return all(controller.idle for controller in self._controllers)

    async def run(self) -> None:
        """Work until cancelled."""
        await _run_all(self._controllers, self._own_caches)


class NodeStandIn:
    """Node objects `node-1` to `node-N` (and any other), their Leases, and the kubelet that plays their pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        nodes: int = 1,
        gpus: int = DEFAULT_GPUS,
        caches: Caches | None = None,
        runtimes: Sequence[ContainerRuntime] = (),
        endpoint: Reached | None = None,
        node_grace: float = node_lifecycle.GRACE,
    ) -> None:
        """`gpus` is the `nvidia.com/gpu` capacity of each node. `runtimes` are asked before the simulated one.

        `endpoint` is where a real API server reaches the nodes; the embedded one needs none. A node speaks at least
        four times in `node_grace` seconds, the time after which a silent one counts as failed.
        """
        self._own_caches = Caches(client, clock) if caches is None else None
        shared = caches or self._own_caches or Caches(client, clock)
        heartbeat = min(HEARTBEAT, node_grace / 4)
        self._nodes = Nodes(client, shared, clock, count=nodes, gpus=gpus, endpoint=endpoint, heartbeat=heartbeat)
        self.kubelet = Kubelet(client, shared, clock, [*runtimes, SimulatedRuntime()])
        self._controllers = [self._nodes.controller(), self.kubelet.controller()]

    @property
    def idle(self) -> bool:
        """Whether no pod or node has work ready (timers of the future apart)."""
        return all(controller.idle for controller in self._controllers)

    async def run(self) -> None:
        """Make the wanted nodes, then play all nodes until cancelled."""
        await self._nodes.create_wanted()
        await _run_all(self._controllers, self._own_caches)


async def _run_all(running: Sequence[Controller], caches: Caches | None) -> None:
    async with asyncio.TaskGroup() as group:
        if caches is not None:
            group.create_task(caches.run(), name="caches")
        for controller in running:
            group.create_task(controller.run(), name=controller.name)
