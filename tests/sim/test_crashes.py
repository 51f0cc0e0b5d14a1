"""A manager that dies at the worst moment: between two writes that belong together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from ome.kube.requests import Request
from tests.sim.play import block, play, settled, state
from tests.sim.server import Refuse
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


ONE_STRIKE = {key: value for key, value in CHART.items() if key != "updateRetry"}


@pytest.mark.spec("RB-4")
def test_a_crash_between_the_hold_and_its_event_leaves_the_event_to_the_next_manager() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        die_before(world, lambda request: request.path.endswith("/events") and state(world) == "Held")
        await restart_after_death(world)
        await world.run(5)
        assert [event["count"] for event in world.events("RetryHeld")] == [1]
        (manager,) = [manager for manager in world.managers if manager.alive]
        manager.kill()
        world.start()
        await world.run(5)
        assert [event["count"] for event in world.events("RetryHeld")] == [1], "a restart says nothing twice"
        (event,) = world.events("RetryHeld")
        world.server.remove(("events", "prod", event["metadata"]["name"]))
        await world.run(700)
        world.managers[-1].kill()
        world.start()
        await world.run(5)
        assert world.events("RetryHeld") == [], "an old hold is not said again when its event is forgotten"

    play(story, lifecycle=ONE_STRIKE)


@pytest.mark.spec("RB-4")
def test_a_hold_whose_event_is_refused_is_said_by_a_later_pass() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        refused = [2]

        def refuse(request: Request) -> str | None:
            if not request.path.endswith("/events") or b"RetryHeld" not in (request.body or b"") or refused[0] == 0:
                return None
            refused[0] -= 1
            return "500"

        world.server.fault = refuse
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Held", limit=100)
        await world.run(10)
        assert [event["count"] for event in world.events("RetryHeld")] == [1]

    play(story, lifecycle=ONE_STRIKE)


@pytest.mark.spec("RB-33", "RB-46")
def test_holds_within_one_second_each_have_an_event() -> None:
    async def story(world: World) -> None:
        def invalid(collection: str, obj: dict[str, object]) -> None:
            if collection == "pods" and "invalid" in json.dumps(obj):
                raise Refuse(422, "Invalid", "Pod is invalid")

        world.server.admit = invalid
        world.apply(image="sglang:invalid", replicas=1)
        while state(world) != "Held":
            await asyncio.sleep(0.01)
        world.annotate("ome.io/release-held-revision", world.status()["updateRevision"])
        while world.events("RetryBlockReleased") == []:
            await asyncio.sleep(0.01)
        while state(world) != "Held":
            await asyncio.sleep(0.01)
        await world.run(5)
        assert asyncio.get_running_loop().time() < 8
        assert [event["count"] for event in world.events("RetryHeld")] == [1, 1]

    play(story, lifecycle=ONE_STRIKE)


@pytest.mark.spec("ON-30")
def test_a_clock_that_is_set_back_gives_no_second_attempt_the_name_of_the_first() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Held", limit=100)
        (pod,) = [pod for pod in world.pods() if pod["metadata"]["name"].endswith("-1")]
        first = pod["metadata"]["annotations"]["internal.ome.io/operation"]
        now, began = int(world.clock.now().timestamp()), int(first.rpartition("-")[2])
        world.annotate("ome.io/release-held-revision", world.status()["updateRevision"])
        world.clock.jump(began - now)
        await world.until(lambda: world.phases() == ["Updating"], limit=10)
        assert world.rows()[0]["operation"]["id"] != first

    play(story, lifecycle=ONE_STRIKE)


@pytest.mark.spec("ON-6")
def test_a_new_pod_that_is_lost_before_the_old_one_drains_takes_nothing_out_of_rotation() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)

        def closes_the_gate(request: Request) -> bool:
            return request.method == "PATCH" and request.path.endswith("/pods/chat-engine-0-default-0/status")

        die_before(world, closes_the_gate)
        world.image("sglang:v2")
        await world.until(lambda: not any(manager.alive for manager in world.managers), limit=20)
        assert world.rows()[0]["operation"]["step"] == "SurgeDrain"
        world.server.delete(("pods", "prod", "chat-engine-0-default-1"), 0)

        def one_serves() -> None:
            serving = [
                pod
                for pod in world.pods()
                if any(
                    c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", [])
                )
            ]
            assert serving

        world.every_step = one_serves
        world.start()
        await settled(world, limit=30)
        assert world.rows()[0]["activeOrdinal"] == 1

    play(story)
