"""Update strategies, budgets, partition, windows and deadlines in a simulated cluster (`docs/spec/omenative.md` 7 and
8).
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from ome.api.meta import parse_timestamp, timestamp
from tests.sim.play import condition, gates, play, ready, settled
from tests.sim.world import CHART, Json, World


def strategy(kind: str, **rolling: Any) -> Json:
    return {"updateStrategy": {"type": kind, **({"rollingUpdate": rolling} if rolling else {})}}


def serving_pods(world: World) -> int:
    """Pods in rotation, from the pods themselves."""
    count = 0
    for pod in world.pods():
        conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or []}
        going = pod["metadata"].get("deletionTimestamp")
        count += conditions.get("Ready") == "True" and not going
    return count


def never_fewer_than(world: World, floor: int, ceiling: int | None = None) -> None:
    def look() -> None:
        assert serving_pods(world) >= floor
        if ceiling is not None:
            assert len(world.pods()) <= ceiling

    world.every_step = look


@pytest.mark.spec("ON-1")
def test_names_labels_and_environment_of_a_single_pod() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        pod = world.server.get("pods", "prod", "chat-engine-1-default-0")
        assert pod is not None
        revision = world.status()["updateRevision"]
        expected = {
            "ome.io/inferenceservice": "chat",
            "component": "engine",
            "ome.io/managed-by": "OMENative",
            "ome.io/instance-index": "1",
            "ome.io/instance-incarnation": "1",
            "ome.io/runner": "default",
            "ome.io/pod-ordinal": "0",
            "ome.io/revision-hash": revision.rpartition("-")[2],
        }
        assert expected.items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["hostname"] == "chat-engine-1-default-0"
        assert pod["spec"]["subdomain"] == "chat-engine-headless"
        assert pod["spec"]["readinessGates"] == [{"conditionType": "ome.io/serving"}]
        env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        assert env == {
            "OME_INFERENCESERVICE_NAME": "chat",
            "OME_COMPONENT": "engine",
            "OME_COMPONENT_REPLICAS": "2",
            "OME_INSTANCE_INDEX": "1",
            "OME_RUNNER": "default",
            "OME_RUNNER_SIZE": "1",
            "OME_RUNNER_INDEX": "0",
            "OME_INSTANCE_SUBDOMAIN": "chat-engine-1",
        }
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("InferenceReplica", "chat-engine", True)
        headless = world.server.get("services", "prod", "chat-engine-headless")
        assert headless is not None
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["publishNotReadyAddresses"] is True
        digest = revision.rpartition("-")[2]
        for name in (f"chat-engine-rev-{digest}", f"chat-engine-rev-{digest}-headless"):
            service = world.server.get("services", "prod", name)
            assert service is not None
            assert service["spec"]["selector"]["ome.io/revision-hash"] == digest
            assert service["metadata"]["ownerReferences"][0]["kind"] == "InferenceService"

    play(story)


@pytest.mark.spec("ON-2")
def test_a_changed_template_mints_one_revision_and_the_old_template_reuses_its_name() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        first = world.status()["updateRevision"]
        world.image("sglang:v2")
        await settled(world)
        second = world.status()["updateRevision"]
        world.change(replicas=2, minReadySeconds=1, lifecycle=strategy("RecreatePod", maxUnavailable=1))
        await settled(world)
        assert world.status()["updateRevision"] == second
        revisions = {r["metadata"]["name"]: r["revision"] for r in world.server.list("controllerrevisions")}
        assert revisions == {first: 1, second: 2}
        world.image("sglang:v1")
        await settled(world)
        assert world.status()["updateRevision"] == first
        assert len(world.server.list("controllerrevisions")) == 2
        assert world.status().get("collisionCount", 0) == 0

    play(story)


@pytest.mark.spec("ON-31")
def test_a_foreign_revision_under_the_wanted_name_bumps_the_collision_count() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        first = world.status()["updateRevision"]
        world.image("sglang:v2")
        await settled(world)
        kept = world.server.get("controllerrevisions", "prod", first)
        assert kept is not None
        foreign = {**kept, "metadata": {**kept["metadata"], "ownerReferences": []}}
        world.server.update(("controllerrevisions", "prod", first), foreign)
        world.image("sglang:v1")
        await settled(world)
        assert world.status()["collisionCount"] == 1
        assert world.status()["updateRevision"] != first
        left_alone = world.server.get("controllerrevisions", "prod", first)
        assert left_alone is not None
        assert left_alone["metadata"]["ownerReferences"] == []

    play(story)


@pytest.mark.spec("ON-3")
def test_an_inherited_annotation_mints_no_revision_and_a_declared_one_does() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        first = world.status()["updateRevision"]

        def template(**annotations: str) -> list[Json]:
            runners = [dict(world.replica()["spec"]["runners"][0])]
            metadata = {**runners[0]["template"].get("metadata", {}), "annotations": annotations}
            runners[0]["template"] = {**runners[0]["template"], "metadata": metadata}
            return runners

        world.annotate("ome.io/revision-excluded-annotation-keys", "team")
        world.change(runners=template(**{"team": "blue", "ome.io/rollout-paused": "true"}), paused=True)
        await world.run(5)
        assert world.status()["updateRevision"] == first
        assert len(world.server.list("controllerrevisions")) == 1
        world.change(paused=None)
        world.change(runners=template(team="blue", declared="yes"))
        await settled(world)
        assert world.status()["updateRevision"] != first

    play(story)


@pytest.mark.spec("ON-4")
@pytest.mark.parametrize(("own", "operator", "kept"), [(2, 10, 3), (None, 2, 3), (None, None, 6)])
def test_history_keeps_the_live_revision_and_the_newest(own: int | None, operator: int | None, kept: int) -> None:
    lifecycle = {**CHART, "revisionHistoryLimit": operator}

    async def story(world: World) -> None:
        world.apply(replicas=1, **({"revisionHistoryLimit": own} if own else {}))
        await settled(world)
        for number in range(2, 7):
            world.image(f"sglang:v{number}")
            await settled(world)
        await world.run(5)
        numbers = sorted(r["revision"] for r in world.server.list("controllerrevisions"))
        assert numbers == list(range(7 - kept, 7))

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("ON-5")
def test_a_pod_is_ready_only_after_its_gate() -> None:
    async def story(world: World) -> None:
        early: list[Json] = []

        def look(event: str, collection: str, old: Json | None, new: Json) -> None:
            if collection != "pods" or event == "DELETED":
                return
            conditions = {c["type"]: c["status"] for c in new.get("status", {}).get("conditions") or []}
            before = {c["type"]: c["status"] for c in (old or {}).get("status", {}).get("conditions") or []}
            if conditions.get("Ready") == "True" != before.get("Ready") and conditions.get("ome.io/serving") != "True":
                early.append(conditions)
            if conditions.get("ome.io/serving") == "True" != before.get("ome.io/serving"):
                early.extend([conditions] if conditions.get("ContainersReady") != "True" else [])

        world.server.hear = look
        world.apply(replicas=2)
        await settled(world)
        assert set(gates(world).values()) == {"True"}
        assert early == []

    play(story)


@pytest.mark.spec("ON-6")
def test_a_surge_alternates_ordinals_and_never_serves_fewer() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3)
        await settled(world)
        never_fewer_than(world, 3, ceiling=4)
        for version, ordinal in ((2, 1), (3, 0), (4, 1)):
            world.image(f"sglang:v{version}")
            await settled(world)
            assert sorted(world.pod_names()) == [f"chat-engine-{i}-default-{ordinal}" for i in range(3)]
            assert [row["incarnation"] for row in world.rows()] == [1, 1, 1]
            assert [row.get("activeOrdinal", 0) for row in world.rows()] == [ordinal] * 3
        messages = [event["message"] for event in world.events("RecreateUpdateCompleted")]
        revision = world.status()["currentRevision"]
        text = f"OMENative component=engine instance=2 surge to revision {revision} complete (activeOrdinal=1)"
        assert text in messages

    play(story)


@pytest.mark.spec("ON-8")
def test_recreate_takes_one_instance_down_at_a_time_and_keeps_the_names() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3, lifecycle=strategy("RecreatePod", maxUnavailable=1))
        await settled(world)
        never_fewer_than(world, 2, ceiling=3)
        names, old = world.pod_names(), world.status()["currentRevision"]
        world.image("sglang:v2")
        await settled(world)
        assert world.pod_names() == names
        assert [row["incarnation"] for row in world.rows()] == [2, 2, 2]
        new = world.status()["currentRevision"]
        started = [event["message"] for event in world.events("RecreateUpdateStarted")]
        assert started[0] == (
            f"OMENative component=engine instance=0 recreate (revision {old} -> {new}, incarnation=2)"
        )

    play(story)


@pytest.mark.spec("ON-9")
def test_in_place_changes_the_image_of_the_same_pod() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=strategy("InPlaceIfPossible", maxUnavailable=1))
        await settled(world)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.pods()}
        never_fewer_than(world, 1, ceiling=2)
        world.image("sglang:v2")
        await settled(world)
        assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.pods()} == before
        assert [row["incarnation"] for row in world.rows()] == [1, 1]
        revision = world.status()["currentRevision"]
        digests = {pod["metadata"]["labels"]["ome.io/revision-hash"] for pod in world.pods()}
        assert digests == {revision.rpartition("-")[2]}
        assert len(world.events("InPlaceUpdateCompleted")) == 2

    play(story)


def with_env(world: World) -> list[Json]:
    """The runners with another environment."""
    spec = world.replica()["spec"]["runners"][0]["template"]["spec"]
    return with_spec(world, containers=[{**spec["containers"][0], "env": [{"name": "MODE", "value": "fast"}]}])


def with_init(world: World, image: str) -> list[Json]:
    """The runners with an init container of this image."""
    return with_spec(world, initContainers=[{"name": "prepare", "image": image}])


def with_spec(world: World, **fields: Any) -> list[Json]:
    runner = world.replica()["spec"]["runners"][0]
    spec = {**runner["template"]["spec"], **fields}
    return [{**runner, "template": {**runner["template"], "spec": spec}}]


@pytest.mark.spec("ON-9")
@pytest.mark.parametrize("init", [False, True], ids=["environment", "init image"])
def test_what_is_more_than_an_image_recreates_under_if_possible(init: bool) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1, lifecycle=strategy("InPlaceIfPossible"))
        if init:
            world.change(runners=with_init(world, "prepare:v1"))
        await settled(world)
        before = [pod["metadata"]["uid"] for pod in world.pods()]
        world.change(runners=with_init(world, "prepare:v2") if init else with_env(world))
        await settled(world)
        assert [pod["metadata"]["uid"] for pod in world.pods()] != before
        assert world.rows()[0]["incarnation"] == 2

    play(story)


@pytest.mark.spec("ON-9")
def test_what_is_more_than_an_image_is_refused_under_only() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1, lifecycle=strategy("InPlaceOnly"))
        await settled(world)
        before = [pod["metadata"]["uid"] for pod in world.pods()]
        world.change(runners=with_env(world))
        await world.run(60)
        assert [pod["metadata"]["uid"] for pod in world.pods()] == before
        (event,) = world.events("InPlaceUpdateNotPossible")
        assert event["message"] == (
            "OMENative component=engine instance=0 rejected update: InPlaceOnly strategy but diff exceeds "
            "container images"
        )
        assert (event["type"], event["count"]) == ("Warning", 1)
        assert "rolloutHold" not in world.status()

    play(story)


NOBODY_DOWN = "per-Component unavailability budget 0 exhausted (would become 1)"


@pytest.mark.spec("ON-10")
@pytest.mark.parametrize(
    ("kind", "rolling", "reason"),
    [
        ("SurgeThenDrain", {"maxSurge": 0}, "per-Component surge budget 0 exhausted (would become 1)"),
        ("RecreatePod", {"maxUnavailable": 0}, NOBODY_DOWN),
        ("InPlaceIfPossible", {"maxUnavailable": "0%"}, NOBODY_DOWN),
    ],
)
def test_a_budget_of_zero_holds_the_rollout(kind: str, rolling: Json, reason: str) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=strategy(kind, **rolling))
        await settled(world)
        names = world.pod_names()
        world.image("sglang:v2")
        await world.run(60)
        assert world.pod_names() == names
        hold = world.status()["rolloutHold"]
        assert (hold["gate"], hold["reason"]) == ("Budget", reason)
        since = hold["since"]
        await world.run(30)
        assert world.status()["rolloutHold"]["since"] == since

    play(story)


@pytest.mark.spec("ON-11")
def test_a_terminating_pod_holds_its_slot_until_its_grace_is_over() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        runner = world.replica()["spec"]["runners"][0]
        spec = {**runner["template"]["spec"], "terminationGracePeriodSeconds": 600}
        world.change(runners=[{**runner, "template": {**runner["template"], "spec": spec}}])
        await world.until(world.settled)
        world.image("sglang:v2")
        await world.until(lambda: "rolloutHold" in world.status())
        hold = world.status()["rolloutHold"]
        going = next(p for p in world.pods() if p["metadata"].get("deletionTimestamp"))
        assert hold["reason"] == (
            "per-Component surge budget 1 exhausted (would become 2); Terminating pod chat-engine-0-default-0 "
            "still counts "
            "against the surge budget until its deletion grace elapses"
        )
        ends = parse_timestamp(going["metadata"]["deletionTimestamp"])
        await world.until(lambda: world.phases()[1] == "Updating", limit=700)
        assert abs((world.clock.now() - ends).total_seconds()) <= 2

    play(story)


@pytest.mark.spec("ON-11")
def test_a_leftover_pod_holds_a_slot_and_is_named_and_its_own_instance_reuses_the_slot() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=strategy("SurgeThenDrain", maxSurge=1, partition=1))
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: world.phases() == ["Ready", "Failed"])
        assert "chat-engine-1-default-1" in world.pod_names()
        # Instance 1 holds the only slot with its leftover; a newer target starts on 0 only after 1 has reused it.
        world.change(pacing={"partition": 0})
        world.image("sglang:v2")
        await world.until(lambda: world.phases()[1] == "Updating", limit=5)
        assert world.phases()[0] == "Ready"
        never_fewer_than(world, 2, ceiling=3)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-12")
def test_a_partition_stages_the_rollout() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=strategy("SurgeThenDrain", maxSurge=1, partition=1))
        await settled(world)
        world.image("sglang:v2")
        revision = ""

        def staged() -> bool:
            return bool(ready(world)["reason"] == "Staged")

        await world.until(staged, limit=60)
        revision = world.status()["updateRevision"]
        assert ready(world)["message"] == (
            f"Staged at partition 1: 1/2 Instances on {revision}, 1 held on the prior revision"
        )
        assert ready(world)["status"] == "True"
        await world.run(60)
        assert world.rows()[0]["runningRevision"] != revision
        assert world.rows()[1]["runningRevision"] == revision
        world.change(pacing={"partition": 0})
        await settled(world)

    play(story)


@pytest.mark.spec("ON-13")
def test_min_ready_seconds_keep_the_old_pod_until_the_window_is_over() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1, minReadySeconds=30)
        await world.run(10)
        assert world.status().get("availableReplicas", 0) == 0
        await world.until(world.settled, limit=60)
        world.image("sglang:v2")
        await world.until(lambda: gates(world).get("chat-engine-0-default-1") == "True")
        began = world.clock.now()
        await world.until(lambda: gates(world).get("chat-engine-0-default-0") != "True")
        assert timedelta(seconds=29) <= world.clock.now() - began <= timedelta(seconds=34)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-13")
def test_a_pod_that_flaps_starts_its_window_anew() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.change(minReadySeconds=30)
        world.image("sglang:v2")
        await world.until(lambda: gates(world).get("chat-engine-0-default-1") == "True")
        await world.run(20)
        new = world.server.get("pods", "prod", "chat-engine-0-default-1")
        assert new is not None
        flapping = copy.deepcopy(new)
        for condition_ in flapping["status"]["conditions"]:
            if condition_["type"] in ("Ready", "ContainersReady"):
                condition_.update(status="False", lastTransitionTime=timestamp(world.clock.now()))
        world.server.update(("pods", "prod", new["metadata"]["name"]), flapping, status=True)
        again = world.clock.now()
        await world.until(lambda: gates(world).get("chat-engine-0-default-0") != "True", limit=100)
        assert timedelta(seconds=29) <= world.clock.now() - again <= timedelta(seconds=36)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-15")
def test_an_operation_under_way_keeps_its_strategy_and_the_next_one_takes_the_new() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, minReadySeconds=10)
        await settled(world)
        world.image("sglang:v2")
        await world.until(lambda: world.phases()[0] == "Updating")
        world.change(lifecycle=strategy("RecreatePod", maxUnavailable=1))
        await settled(world)
        assert [row["incarnation"] for row in world.rows()] == [1, 2]
        assert sorted(world.pod_names()) == ["chat-engine-0-default-1", "chat-engine-1-default-0"]

    play(story)


@pytest.mark.spec("ON-16")
def test_a_newer_target_abandons_an_unready_surge_without_a_charge() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        never_fewer_than(world, 1, ceiling=3)
        world.image("sglang:missing")
        await world.until(lambda: len(world.pods()) == 2)
        old = world.status()["updateRevision"]
        world.image("sglang:v2")
        await world.until(lambda: world.status()["updateRevision"] != old)
        await settled(world)
        new = world.status()["currentRevision"]
        assert world.blocks() == []
        messages = [event["message"] for event in world.events("RecreateUpdateStarted")]
        text = f"abandoned superseded surge to {old}; re-surging toward {new}"
        assert f"OMENative component=engine instance=0 {text}" in messages
        assert world.events("InstanceFailed") == []

    play(story)


@pytest.mark.spec("ON-16")
def test_a_surge_that_drains_its_old_pod_is_finished_before_a_newer_target() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        world.change(runners=with_spec(world, terminationGracePeriodSeconds=30))
        await settled(world)
        world.image("sglang:v2")
        await world.until(lambda: (world.rows()[0].get("operation") or {}).get("step") == "SurgeDrain")
        middle = world.status()["updateRevision"]
        world.image("sglang:v3")
        await world.until(lambda: world.status()["updateRevision"] != middle)
        await settled(world)
        final = world.status()["currentRevision"]
        completed = [event["message"] for event in world.events("RecreateUpdateCompleted")]
        assert completed == [
            f"OMENative component=engine instance=0 surge to revision {revision} complete (activeOrdinal={ordinal})"
            for revision, ordinal in ((middle, 1), (final, 0))
        ]
        assert world.pod_names() == ["chat-engine-0-default-0"]

    play(story)


@pytest.mark.spec("ON-17")
def test_a_deadline_is_parked_while_paused_and_runs_its_full_window_afterwards() -> None:
    lifecycle = {**CHART, "instanceReadyTimeout": "60s"}

    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:never")
        await world.run(30)
        world.change(paused=True)
        await world.run(5)
        operation = world.rows()[0]["operation"]
        assert (operation["waiting"], operation.get("deadline")) == ("Paused", None)
        await world.run(300)
        assert world.phases() == ["Updating"]
        world.change(paused=None)
        resumed = world.clock.now()
        await world.until(lambda: "lastFailure" in world.rows()[0], limit=100)
        failed = parse_timestamp(world.rows()[0]["lastFailure"]["time"])
        assert 59 <= (failed - resumed).total_seconds() <= 62

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("ON-17")
def test_an_unschedulable_pod_parks_the_deadline() -> None:
    lifecycle = {**CHART, "instanceReadyTimeout": "60s"}

    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.nodes.capacity = 1
        world.image("sglang:never")
        await world.run(10)
        operation = world.rows()[0]["operation"]
        assert (operation["waiting"], operation.get("deadline")) == ("Unschedulable", None)
        await world.run(200)
        assert "lastFailure" not in world.rows()[0]
        world.nodes.capacity = 8
        await world.run(3)
        operation = world.rows()[0]["operation"]
        left = parse_timestamp(operation["deadline"]) - world.clock.now()
        assert timedelta(seconds=55) <= left <= timedelta(seconds=60)

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("ON-18")
@pytest.mark.parametrize(("grace", "seconds"), [("60s", 60), (None, 300)])
def test_a_stuck_pod_fails_after_the_grace_or_only_at_the_deadline(grace: str | None, seconds: int) -> None:
    lifecycle = {**CHART, "instanceReadyTimeout": "300s", "stuckPodGracePeriod": grace}

    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:crash")
        began = world.clock.now()
        await world.until(lambda: "lastFailure" in world.rows()[0], limit=400)
        assert abs((world.clock.now() - began).total_seconds() - seconds) <= 3
        assert world.rows()[0]["lastFailure"]["reason"] == "CrashLoopBackOff"

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("ON-25")
def test_a_failed_instance_outranks_a_staged_rollout() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=strategy("SurgeThenDrain", maxSurge=1, partition=1))
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: "Failed" in world.phases())
        assert (ready(world)["status"], ready(world)["reason"]) == ("False", "InstanceFailed")
        assert ready(world)["message"] == "At least one Instance has Phase=Failed"

    play(story)


@pytest.mark.spec("ON-25")
def test_a_rollout_in_progress_is_unknown_and_a_finished_one_is_ready() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, minReadySeconds=5)
        await settled(world)
        assert (ready(world)["status"], ready(world)["reason"]) == ("True", "AllInstancesReady")
        assert ready(world)["message"] == "2/2 Instances Ready"
        world.image("sglang:v2")
        await world.until(lambda: ready(world)["reason"] == "RolloutInProgress")
        revision = world.status()["updateRevision"]
        assert ready(world)["message"] == f"Rolling out {revision} (0/2 Instances on target)"
        assert condition(world, "RolloutStalled")["message"] == ready(world)["message"]
        await settled(world)
        assert condition(world, "RolloutStalled")["message"] == "no rollout in flight"

    play(story)


@pytest.mark.spec("ON-33")
def test_a_settled_replica_is_left_alone() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3)
        await settled(world)
        await world.run(10)
        writes = world.server.writes
        world.server.drop_watches()
        world.annotate("tick", "1")
        await world.run(3600)
        assert world.server.writes == writes
        world.stop()
        world.start()
        await world.run(600)
        assert world.server.writes == writes

    play(story)


@pytest.mark.spec("ON-11")
def test_leftovers_on_two_instances_do_not_block_one_another_for_ever() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3, lifecycle=strategy("SurgeThenDrain", maxSurge=2))
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: bool(world.blocks()) and world.blocks()[0]["state"] == "Held", limit=2000)
        leftovers = [pod for pod in world.pod_names() if pod.endswith("-1")]
        world.change(lifecycle=strategy("SurgeThenDrain", maxSurge=1))
        never_fewer_than(world, 3, ceiling=5)
        world.image("sglang:v2")
        await settled(world)
        assert len(leftovers) == 2

    play(story)
