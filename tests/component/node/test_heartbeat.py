"""Nodes that live are never taken for silent, however short the patience and however long the cluster was down."""

from __future__ import annotations

import pytest

from ome.kube.resources import LEASES, NODES
from ome.local.cluster import LocalWorkloads, NodeStandIn
from tests.support.world import World, in_world

EMBEDDED = pytest.mark.embedded_only("the real node controller has a patience of its own")
GRACE = 4.0


async def state(world: World) -> str:
    node = await world.get(NODES, "node-1")
    return next((c["status"] for c in node["status"].get("conditions", []) if c["type"] == "Ready"), "")


@EMBEDDED
@in_world(nodes=0, workloads=False, installed=False)
async def test_a_living_node_stays_ready_under_a_grace_period_shorter_than_the_usual_heartbeat(world: World) -> None:
    world.start(LocalWorkloads(world.client, world.clock, node_grace=GRACE).run())
    world.start(NodeStandIn(world.client, world.clock, nodes=1, node_grace=GRACE).run())
    await world.sleep(2)
    for _ in range(120):
        assert await state(world) == "True"
        await world.sleep(0.5)
    await world.annotate(NODES, "node-1", "", **{"local.ome.io/failed": "true"})
    await world.sleep(GRACE + 2)
    assert await state(world) == "Unknown"


@EMBEDDED
@in_world(nodes=0, workloads=False, installed=False)
async def test_a_cluster_that_was_down_waits_for_its_nodes_before_it_calls_them_silent(world: World) -> None:
    nodes = NodeStandIn(world.client, world.clock, nodes=1)
    first = world.start(nodes.run())
    await world.sleep(2)
    first.cancel()
    await world.sleep(3600)
    world.start(LocalWorkloads(world.client, world.clock).run())
    await world.sleep(20)
    assert await state(world) == "True", "nobody could have heard the node"
    await world.sleep(60)
    assert await state(world) == "Unknown", "now it is silent"
    assert await world.get(LEASES, "node-1", "kube-node-lease")
