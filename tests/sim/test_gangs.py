"""Instances of several pods: made, updated, failed, restarted, scaled as one (`docs/spec/omenative.md` 3, 8.2, 9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ome.api.meta import parse_timestamp
from tests.sim.play import block, condition, gates, play, settled, state
from tests.sim.world import CHART, Json, World, gang

SURGE = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}}
RECREATE = {"updateStrategy": {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1}}}


def instance(index: int, workers: int = 2) -> list[str]:
    return [f"chat-engine-{index}-leader-0", *(f"chat-engine-{index}-worker-{k}" for k in range(workers))]


def apply(world: World, *, replicas: int = 2, lifecycle: Json | None = None, **spec: Any) -> None:
    world.apply(replicas=replicas, runners=gang(), lifecycle=lifecycle or SURGE, **spec)


def serving_gangs(world: World, floor: int) -> None:
    """From now on at least so many Instances have all three pods Ready."""

    def look() -> None:
        counts: dict[str, int] = {}
        for pod in world.pods():
            conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or []}
            if conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp"):
                index = pod["metadata"]["labels"]["ome.io/instance-index"]
                counts[index] = counts.get(index, 0) + 1
        assert sum(count == 3 for count in counts.values()) >= floor, counts

    world.every_step = look


@pytest.mark.spec("ON-1", "ON-5")
def test_names_labels_and_environment_of_a_leader_and_its_workers() -> None:
    async def story(world: World) -> None:
        half_open: list[object] = []

        def look(event: str, collection: str, old: Json | None, new: Json) -> None:
            if collection != "pods" or event == "DELETED":
                return
            conditions = {c["type"]: c["status"] for c in new.get("status", {}).get("conditions") or []}
            if conditions.get("ome.io/serving") == "True":
                same = new["metadata"]["labels"]["ome.io/instance-index"]
                gang_pods = [p for p in world.pods() if p["metadata"]["labels"]["ome.io/instance-index"] == same]
                found = [
                    {c["type"]: c["status"] for c in p.get("status", {}).get("conditions") or []} for p in gang_pods
                ]
                states = [shown.get("ContainersReady") for shown in found]
                if states != ["True"] * 3:
                    half_open.append(states)

        world.server.hear = look
        apply(world, replicas=1, topologyKey="rack")
        await settled(world)
        assert half_open == []
        assert sorted(world.pod_names()) == instance(0)
        worker = world.server.get("pods", "prod", "chat-engine-0-worker-1")
        assert worker is not None
        labels = worker["metadata"]["labels"]
        assert (labels["ome.io/runner"], labels["ome.io/pod-ordinal"]) == ("worker", "1")
        env = {entry["name"]: entry["value"] for entry in worker["spec"]["containers"][0]["env"]}
        assert env["OME_RUNNER"] == "worker"
        assert env["OME_RUNNER_SIZE"] == "2"
        assert env["OME_RUNNER_INDEX"] == "1"
        assert env["OME_LEADER_ADDRESS"] == "chat-engine-0-leader-0.chat-engine-headless"
        assert env["OME_INSTANCE_POD_RANK"] == "2"
        assert env["OME_INSTANCE_POD_COUNT"] == "3"
        assert worker["spec"]["containers"][0]["command"] == ["work"]
        (term,) = worker["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "rack"
        assert term["labelSelector"]["matchLabels"]["ome.io/runner"] == "leader"
        leader = world.server.get("pods", "prod", "chat-engine-0-leader-0")
        assert leader is not None
        env = {entry["name"]: entry["value"] for entry in leader["spec"]["containers"][0]["env"]}
        assert (env["OME_INSTANCE_POD_RANK"], env["OME_RUNNER_SIZE"]) == ("0", "1")
        assert world.status()["readyReplicas"] == 1
        assert condition(world, "GangSchedulingUnavailable")["status"] == "True"

    play(story)


def test_a_gang_surge_builds_a_whole_replacement_and_leaves_sparse_indices() -> None:
    async def story(world: World) -> None:
        apply(world)
        await settled(world)
        serving_gangs(world, 2)
        world.image("sglang:v2")
        await world.until(lambda: len(world.rows()) == 3)
        source = world.rows()[0]
        assert (source["phase"], source["operation"]["surgeIndex"]) == ("Updating", 2)
        assert world.rows()[2]["operation"]["step"] == "GangSurgeTarget"
        await settled(world)
        indices = [row.get("index", 0) for row in world.rows()]
        assert len(indices) == 2
        assert 2 in indices, "the replacement of 0"
        assert 1 not in indices
        assert sorted(world.pod_names()) == sorted(name for index in indices for name in instance(index))
        messages = [event["message"] for event in world.events("RecreateUpdateCompleted")]
        revision = world.status()["currentRevision"]
        text = f"gang surge complete: instance 2 promoted to revision {revision}"
        assert f"OMENative component=engine instance=0 {text}" in messages

    play(story)


@pytest.mark.spec("RB-41", "RB-47")
def test_a_gang_that_cannot_pull_is_held_and_its_source_serves_on() -> None:
    async def story(world: World) -> None:
        apply(world)
        await settled(world)
        serving_gangs(world, 2)
        world.image("sglang:missing")
        for attempt, delay in ((1, 60), (2, 120)):
            await world.until(lambda n=attempt: state(world) == "Backoff" and block(world)["attemptsStarted"] == n)
            row = block(world)
            again = parse_timestamp(row["nextRetryAt"]) - parse_timestamp(row["lastFailureAt"])
            assert again == timedelta(seconds=delay)
            assert world.phases() == ["Ready", "Ready"]
            assert sorted(world.pod_names()) == [*instance(0), *instance(1)]
        await world.until(lambda: state(world) == "Held")
        assert (block(world)["attemptsStarted"], block(world)["reason"]) == (3, "ImagePullBackOff")
        (event,) = world.events("RetryHeld")
        assert "(last failure: ImagePullBackOff)" in event["message"]
        world.nodes.pushed.add("missing")
        world.annotate("ome.io/release-held-revision", world.status()["updateRevision"])
        await settled(world)

    play(story)


@pytest.mark.spec("RB-40")
def test_a_gang_that_misses_its_deadline_paces_without_a_charge() -> None:
    async def story(world: World) -> None:
        apply(world)
        await settled(world)
        serving_gangs(world, 2)
        world.image("sglang:never")
        await world.until(lambda: state(world) == "Backoff", limit=200)
        assert "attemptsStarted" not in block(world)
        assert world.status()["rolloutHold"]["gate"] == "RetryBlock"
        (event,) = world.events("GangSurgeAbandoned")
        assert event["message"].startswith(
            "OMENative component=engine instance=0 abandoned failed gang surge (surge-index=2)"
        )
        assert event["type"] == "Warning"
        due = parse_timestamp(block(world)["nextRetryAt"])
        await world.until(lambda: state(world) == "RetryInProgress", limit=200)
        assert 0 <= (world.clock.now() - due).total_seconds() <= 2
        await world.run(1200)
        assert world.events("RetryHeld") == []

    play(story, lifecycle={**CHART, "instanceReadyTimeout": "60s"})


@pytest.mark.spec("ON-16")
def test_a_newer_target_takes_an_unready_replacement_back() -> None:
    async def story(world: World) -> None:
        apply(world)
        await settled(world)
        serving_gangs(world, 2)
        world.image("sglang:missing")
        await world.until(lambda: len(world.pods()) == 9)
        world.image("sglang:v2")
        await settled(world)
        assert world.blocks() == []
        (event,) = world.events("GangSurgeAbandoned")
        assert "abandoned superseded gang surge (surge-index=2)" in event["message"]
        assert event["type"] == "Normal"

    play(story)


@pytest.mark.spec("ON-8")
def test_a_gang_is_recreated_as_one_and_keeps_its_names() -> None:
    async def story(world: World) -> None:
        apply(world, lifecycle=RECREATE)
        await settled(world)
        serving_gangs(world, 1)
        world.image("sglang:v2")
        await settled(world)
        assert sorted(world.pod_names()) == [*instance(0), *instance(1)]
        assert [row["incarnation"] for row in world.rows()] == [2, 2]

    play(story)


@pytest.mark.spec("ON-9")
def test_a_gang_is_never_changed_in_place() -> None:
    async def story(world: World) -> None:
        lifecycle = {"updateStrategy": {"type": "InPlaceOnly", "rollingUpdate": {"maxUnavailable": 1}}}
        apply(world, lifecycle=lifecycle)
        await settled(world)
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        world.image("sglang:v2")
        await settled(world)
        assert not before & {pod["metadata"]["uid"] for pod in world.pods()}

    play(story)


def test_a_recreated_gang_that_failed_keeps_its_operation_and_a_new_target_supersedes_it() -> None:
    async def story(world: World) -> None:
        apply(world, lifecycle=RECREATE)
        await settled(world)
        serving_gangs(world, 1)
        world.image("sglang:missing")
        await world.until(lambda: "Failed" in world.phases())
        failed = world.rows()[0]
        assert failed["operation"]["type"] == "Update"
        assert world.phases() == ["Failed", "Ready"]
        world.image("sglang:v2")
        await settled(world)

    play(story)


@pytest.mark.spec("ON-21")
def test_a_gang_that_loses_a_worker_restarts_whole() -> None:
    async def story(world: World) -> None:
        apply(world)
        await settled(world)
        world.server.delete(("pods", "prod", "chat-engine-1-worker-0"), grace=0)
        await world.until(lambda: world.rows()[1]["incarnation"] == 2, limit=20)
        (event,) = world.events("RestartTriggered")
        assert "pod chat-engine-1-worker-0 missing" in event["message"]
        await settled(world)
        assert [row["incarnation"] for row in world.rows()] == [1, 2]

    play(story)


@pytest.mark.spec("ON-24")
def test_scaling_down_keeps_a_surge_and_its_replacement() -> None:
    async def story(world: World) -> None:
        apply(world, minReadySeconds=20)
        await world.until(world.settled, limit=100)
        world.image("sglang:v2")
        await world.until(lambda: len(world.rows()) == 3)
        world.change(replicas=1)
        await settled(world)
        assert [row.get("index", 0) for row in world.rows()] == [2]
        assert sorted(world.pod_names()) == instance(2)

    play(story)


def test_a_service_may_change_from_one_pod_to_several_and_back() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        single = world.replica()["spec"]["runners"]
        world.change(runners=gang("sglang:v2"))
        await settled(world)
        assert all("leader" in name or "worker" in name for name in world.pod_names())
        world.change(runners=single)
        await settled(world)
        assert all("default" in name for name in world.pod_names())

    play(story)


@pytest.mark.spec("ON-30")
@pytest.mark.parametrize("seconds", range(0, 14, 2))
def test_a_manager_that_starts_again_finishes_a_gang_surge(seconds: int) -> None:
    async def story(world: World) -> None:
        apply(world, replicas=1)
        await settled(world)
        serving_gangs(world, 1)
        world.image("sglang:v2")
        await world.run(seconds)
        world.stop()
        await world.run(20)
        world.start()
        await settled(world)
        assert sorted(world.pod_names()) == instance(1)

    play(story)


@pytest.mark.spec("ON-23")
@pytest.mark.parametrize("seconds", [1, 4, 7, 9])
def test_a_paused_gang_surge_stops_at_its_step(seconds: int) -> None:
    async def story(world: World) -> None:
        apply(world, replicas=1)
        await settled(world)
        serving_gangs(world, 1)
        world.image("sglang:v2")
        await world.run(seconds)
        world.change(paused=True)
        await world.run(5)
        pods = sorted(name for name in world.pod_names())
        steps = [(row.get("operation") or {}).get("step") for row in world.rows()]
        await world.run(60)
        assert sorted(world.pod_names()) == pods
        assert [(row.get("operation") or {}).get("step") for row in world.rows()] == steps
        world.change(paused=None)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-16")
def test_a_replacement_that_was_routed_to_is_drained_before_it_is_taken_back() -> None:
    async def story(world: World) -> None:
        apply(world, replicas=1)
        await settled(world)
        world.change(minReadySeconds=60)
        world.image("sglang:v2")
        await world.until(lambda: gates(world).get("chat-engine-1-leader-0") == "True", limit=20)
        await world.run(3)
        routed: list[str] = []

        def look(event: str, collection: str, old: Json | None, new: Json) -> None:
            leaving = "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in (old or new)["metadata"]
            if collection != "pods" or not leaving:
                return
            for found in world.server.list("endpointslices"):
                if "-rev-" in found["metadata"]["name"] and "headless" not in found["metadata"]["name"]:
                    ready = [e["targetRef"]["name"] for e in found["endpoints"] if e["conditions"]["ready"]]
                    routed.extend(name for name in ready if name == new["metadata"]["name"])

        world.server.delete(("pods", "prod", "chat-engine-1-worker-0"), 0)
        world.server.hear = look
        world.image("sglang:v3")
        await world.run(10)
        assert [event["type"] for event in world.events("GangSurgeAbandoned")] == ["Normal"]
        assert routed == []

    play(story)


@pytest.mark.spec("ON-20")
def test_a_failed_gang_that_serves_in_part_is_drained_and_made_anew() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1, runners=gang("sglang:missing", workers=1), minReadySeconds=60)
        await world.until(lambda: state(world) == "Held", limit=100)
        world.nodes.pushed.add("missing")
        await world.until(lambda: set(gates(world).values()) == {"True"}, limit=30)
        await world.run(3)
        assert world.phases() == ["Failed"]
        world.server.delete(("pods", "prod", "chat-engine-0-leader-0"), 0)
        world.change(minReadySeconds=0)
        world.image("sglang:v2")
        await settled(world, limit=60)
        assert world.blocks() == []

    play(story, lifecycle={key: value for key, value in CHART.items() if key != "updateRetry"})
