"""Children that are let go or taken away by hand: what serves goes on serving, and is taken over or put back."""

from __future__ import annotations

import pytest

from ome.kube.resources import CONTROLLER_REVISIONS, ENDPOINT_SLICES, INFERENCE_REPLICAS, INFERENCE_SERVICES, PODS
from tests.support.world import World, in_world

from .stage import MISSING, ROOMS, chat, images, pod_names, replica, set_stage, settled, state

pytestmark = pytest.mark.embedded_only("looks at every moment of a rollout in virtual time")


async def uids(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}


async def routed(world: World) -> int:
    """Ready endpoints of the component's Service."""
    slices = await world.list(ENDPOINT_SLICES, "prod")
    mine = [s for s in slices if s["metadata"]["labels"].get("kubernetes.io/service-name") == "chat-engine"]
    return sum(bool(e["conditions"]["ready"]) for s in mine for e in s.get("endpoints") or [])


async def watch(world: World, seconds: float) -> None:
    """At every moment from now on, three Instances are reached."""
    for _ in range(int(seconds * 4)):
        assert await routed(world) >= 3
        await world.sleep(0.25)


@in_world(nodes=2, rooms=ROOMS)
async def test_a_replica_deleted_with_orphan_lets_its_pods_go_and_the_next_one_takes_them_over(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    old = await uids(world)
    for _ in range(3):
        before = (await replica(world))["metadata"]["uid"]
        await world.client.delete(INFERENCE_REPLICAS, "chat-engine", "prod", propagation="Orphan")
        await watch(world, 10)
        after = await replica(world)
        assert after["metadata"]["uid"] != before
        assert await uids(world) == old
        for pod in await world.list(PODS, "prod"):
            assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [after["metadata"]["uid"]]
    assert (await settled(world))["servingReplicas"] == 3


@in_world(nodes=2, rooms=ROOMS)
async def test_a_held_replica_deleted_with_orphan_keeps_what_serves_and_counts_anew(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))

    async def held() -> bool:
        return await state(world) == "Held"

    await world.until(held, timeout=120)
    await world.client.delete(INFERENCE_REPLICAS, "chat-engine", "prod", propagation="Orphan")
    await watch(world, 10)
    await world.until(held, timeout=120)
    assert await routed(world) == 3
    await world.apply(chat())
    await settled(world)
    assert await pod_names(world) == [f"chat-engine-{i}-default-0" for i in range(3)]


@in_world(nodes=2, rooms=ROOMS)
async def test_a_service_deleted_with_orphan_rolls_nothing_and_one_made_anew_takes_over(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    old = await uids(world)
    await world.client.delete(INFERENCE_SERVICES, "chat", "prod", propagation="Orphan")
    await watch(world, 10)
    assert await uids(world) == old, "nobody asked for other pods"
    await world.client.delete(PODS, "chat-engine-1-default-0", "prod")

    async def remade() -> None:
        assert (await uids(world)).get("chat-engine-1-default-0", "") not in ("", old["chat-engine-1-default-0"])
        assert await routed(world) == 3

    await world.eventually(remade, timeout=60)
    await world.apply(chat())
    await watch(world, 20)

    async def taken_over() -> None:
        service = await world.get(INFERENCE_SERVICES, "chat", "prod")
        ready = next(c for c in service["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"
        owners = (await replica(world))["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [service["metadata"]["uid"]]

    await world.eventually(taken_over, timeout=60)
    assert (await settled(world))["servingReplicas"] == 3


@in_world(nodes=2, rooms=ROOMS)
async def test_a_revision_that_runs_and_is_deleted_by_hand_is_written_again(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    running = str((await settled(world))["currentRevision"])
    before = await world.get(CONTROLLER_REVISIONS, running, "prod")
    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))

    async def held() -> bool:
        return await state(world) == "Held"

    await world.until(held, timeout=120)
    await world.client.delete(CONTROLLER_REVISIONS, running, "prod")
    await world.sleep(5)
    after = await world.get(CONTROLLER_REVISIONS, running, "prod")
    assert (after["data"], after["revision"]) == (before["data"], before["revision"])
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    await world.client.delete(PODS, "chat-engine-2-default-0", "prod")

    async def remade() -> None:
        assert await routed(world) == 3

    await world.sleep(2)
    await world.eventually(remade, timeout=60)
    assert await state(world) == "Held"
    await world.client.delete(INFERENCE_SERVICES, "chat", "prod")

    async def gone() -> None:
        for kind in (PODS, INFERENCE_REPLICAS, CONTROLLER_REVISIONS):
            assert await world.list(kind, "prod") == []

    await world.eventually(gone, timeout=120)
