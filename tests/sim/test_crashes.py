"""A manager that dies at the worst moment: between two writes that belong together."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ome.kube.requests import Request
from tests.sim.play import block, play, settled, state
from tests.sim.world import CHART, World

Match = Callable[[Request], bool]


def die_before(world: World, match: Match) -> None:
    """Kill the manager before its next request that matches; the next one starts a second later."""
    (manager,) = [manager for manager in world.managers if manager.alive]

    def look(request: Request) -> None:
        if match(request):
            manager.gateway.before = lambda _: None
            manager.kill()

    manager.gateway.before = look


async def restart_after_death(world: World, limit: int = 200) -> None:
    await world.until(lambda: not any(manager.alive for manager in world.managers), limit=limit)
    await world.run(2)
    world.start()


def body(request: Request) -> dict[str, object]:
    return dict(json.loads(request.body or b"{}"))


def status_of(request: Request) -> dict[str, object]:
    if request.method != "PATCH" or not request.path.endswith("/status") or "inferencereplicas" not in request.path:
        return {}
    return dict(body(request).get("status") or {})  # type: ignore[call-overload]


@pytest.mark.spec("RB-37")
def test_a_crash_between_the_block_and_the_operation_does_not_count_twice() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: len(world.pods()) == 2)

        def clears_operation(request: Request) -> bool:
            return bool(world.blocks()) and "instanceStatuses" in status_of(request)

        die_before(world, clears_operation)
        await restart_after_death(world)
        assert world.phases() == ["Updating"], "the operation was not cleared before the crash"
        assert block(world)["attemptsStarted"] == 1
        await world.until(lambda: world.phases() == ["Failed"], limit=10)
        assert (state(world), block(world)["attemptsStarted"]) == ("Backoff", 1)

    play(story)


@pytest.mark.spec("RB-32")
def test_a_crash_between_release_and_acknowledgement_answers_a_second_time_with_skipped() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Held", limit=100)
        world.change(paused=True)
        await world.run(2)

        def acknowledges(request: Request) -> bool:
            if request.method != "PATCH" or not request.path.endswith("/inferencereplicas/chat-engine"):
                return False
            return b"release-held" in (request.body or b"")

        die_before(world, acknowledges)
        world.annotate("ome.io/release-held-revision", world.status()["updateRevision"])
        await restart_after_death(world, limit=10)
        await world.run(3)
        assert world.blocks() == []
        assert "ome.io/release-held-revision" not in world.replica()["metadata"]["annotations"]
        assert len(world.events("RetryBlockReleased")) == 1
        assert len(world.events("RetryBlockReleaseSkipped")) == 1

    play(story, lifecycle={key: value for key, value in CHART.items() if key != "updateRetry"})


@pytest.mark.spec("ON-30")
@pytest.mark.parametrize("number", range(14))
def test_a_crash_before_any_write_of_a_surge_makes_no_second_pod(number: int) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        left = [number]

        def nth(request: Request) -> bool:
            left[0] -= request.is_write
            return left[0] < 0

        created: list[str] = []

        def hear(event: str, collection: str, old: object, new: dict[str, dict[str, str]]) -> None:
            if collection == "pods" and event == "ADDED":
                created.append(new["metadata"]["name"])

        world.server.hear = hear  # type: ignore[assignment]
        die_before(world, nth)
        world.image("sglang:v2")
        for _ in range(40):
            await world.run(1)
            if not any(manager.alive for manager in world.managers):
                world.start()
        await settled(world)
        assert created == ["chat-engine-0-default-1"]
        assert world.events("InstanceFailed") == []

    play(story)


@pytest.mark.spec("ON-20")
def test_an_instance_that_serves_is_not_failed_by_its_deadline() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.change(minReadySeconds=60)
        world.image("sglang:v2")
        await world.run(40)
        assert world.phases() == ["Updating"]
        await settled(world)
        assert world.events("InstanceFailed") == []

    play(story, lifecycle={**CHART, "instanceReadyTimeout": "20s"})


@pytest.mark.spec("RB-39")
def test_a_held_revision_of_one_replica_does_not_touch_another() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        world.apply("other", replicas=1)
        await settled(world)
        await world.until(lambda: world.settled("other"))
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Held", limit=100)
        world.image("sglang:v2", "other")
        await world.run(3)
        await world.until(lambda: world.settled("other"), limit=60)
        assert world.blocks("other") == []
        assert state(world) == "Held"

    play(story, lifecycle={key: value for key, value in CHART.items() if key != "updateRetry"})
