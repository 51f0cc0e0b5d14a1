"""Held revisions, to the second: the engine in a simulated cluster, in virtual time (`docs/spec/retry-blocks.md`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ome.api.meta import parse_timestamp
from tests.sim.play import block, play, settled, state
from tests.sim.server import Refuse
from tests.sim.world import CHART, World, projected

LIMITS = {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0}
HELD_TEXT = (
    "InferenceReplica prod/chat-engine component=engine update to revision {rev} held after {n} failed attempt(s) "
    "(last failure: {reason}); publish a corrected revision or raise lifecycle.updateRetry limits"
)


async def held(world: World, limit: int = 2000) -> str:
    """Roll to an image nobody can pull, until its revision is held; the revision's name."""
    world.image("sglang:missing")
    await world.until(lambda: state(world) == "Held", limit=limit)
    return str(world.status()["updateRevision"])


def serving_three(world: World) -> None:
    """From now on: three Instances serve, and the old pods live."""
    old = [pod["metadata"]["uid"] for pod in world.pods()]

    def look() -> None:
        uids = [p["metadata"]["uid"] for p in world.pods() if not p["metadata"].get("deletionTimestamp")]
        assert set(old) <= set(uids), "an old pod was deleted"
        assert world.status()["servingReplicas"] == 3
        assert len(world.pods()) <= 4, "never a fifth pod"

    world.every_step = look


def routing(world: World, pod: str) -> set[str]:
    """The Services that send requests to the pod."""
    return {
        found["metadata"]["name"]
        for found in world.server.list("endpointslices")
        for endpoint in found["endpoints"]
        if endpoint["targetRef"]["name"] == pod and endpoint["conditions"]["ready"]
    }


@pytest.mark.spec("RB-1", "RB-2", "RB-3", "RB-4", "RB-14", "RB-15", "RB-34", "RB-35", "RB-43", "ON-26", "ON-35")
def test_three_failed_pulls_back_off_one_and_two_minutes_and_then_hold() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        serving_three(world)
        world.image("sglang:missing")
        began = world.clock.now()
        revision = None
        for attempt, delay in ((1, 60), (2, 120)):
            await world.until(lambda n=attempt: state(world) == "Backoff" and block(world)["attemptsStarted"] == n)
            revision = world.status()["updateRevision"]
            row = block(world)
            assert row["targetRevision"] == revision
            assert row["reason"] == "ImagePullBackOff"
            failed, again = parse_timestamp(row["lastFailureAt"]), parse_timestamp(row["nextRetryAt"])
            assert again - failed == timedelta(seconds=delay)
            if attempt == 1:
                assert 60 <= (failed - began).total_seconds() <= 63
            hold = world.status()["rolloutHold"]
            assert (hold["gate"], hold["target"]) == ("RetryBlock", revision)
            failures = f"after {attempt} failed attempt(s): ImagePullBackOff"
            assert hold["reason"] == f"update to {revision} in backoff {failures}"
            world.annotate("tick", str(attempt))
            await world.run(20)
            assert world.status()["rolloutHold"] == hold, "not a new hold at every look"
            await world.until(lambda: state(world) == "RetryInProgress")
            assert timedelta(0) <= world.clock.now() - again <= timedelta(seconds=2)
            assert "rolloutHold" not in world.status()
        await world.until(lambda: state(world) == "Held")
        row = block(world)
        assert (row["attemptsStarted"], row.get("nextRetryAt")) == (3, None)
        hold = world.status()["rolloutHold"]
        assert hold["gate"] == "Held"
        assert hold["reason"] == f"update to {revision} held after 3 failed attempt(s): ImagePullBackOff"
        (event,) = world.events("RetryHeld")
        assert event["message"] == HELD_TEXT.format(rev=revision, n=3, reason="ImagePullBackOff")
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "InferenceService"
        assert event["involvedObject"]["name"] == "chat"
        created = {pod["metadata"]["uid"] for pod in world.pods()}
        await world.run(3600)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == created, "no fourth attempt"
        conditions = {c["type"]: c for c in world.status()["conditions"]}
        assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "InstanceFailed")
        assert conditions["RolloutStalled"]["reason"] == "InstancesFailing"
        stalled = conditions["RolloutStalled"]["message"]
        assert stalled == f"1/3 Instance(s) failing rollout to {revision} (ImagePullBackOff x1)"
        assert len(world.events("RetryHeld")) == 1

    play(story)


@pytest.mark.spec("RB-15")
def test_a_due_attempt_that_a_budget_denies_stays_in_backoff() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Backoff")
        waiting = block(world)
        pods = {pod["metadata"]["uid"] for pod in world.pods()}
        surge = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 0}}}
        world.change(lifecycle=surge)
        await world.run(120)
        assert block(world) == waiting
        assert world.status()["rolloutHold"]["gate"] == "Budget"
        assert {pod["metadata"]["uid"] for pod in world.pods()} <= pods
        surge["updateStrategy"]["rollingUpdate"] = {"maxSurge": 1}
        world.change(lifecycle=surge)
        await world.until(lambda: state(world) == "RetryInProgress", limit=5)

    play(story)


@pytest.mark.spec("RB-16")
def test_of_several_due_instances_one_alone_retries() -> None:
    async def story(world: World) -> None:
        surge = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 3}}}
        world.apply(lifecycle=surge)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Backoff")
        assert world.phases() == ["Failed"] * 3
        await world.until(lambda: state(world) == "RetryInProgress")
        await world.run(20)
        assert world.phases() == ["Updating", "Failed", "Failed"], "room for all, but one retry at a time"

    play(story)


@pytest.mark.spec("RB-25", "RB-33", "RB-46")
@pytest.mark.parametrize("form", ["full name", "hash alone"])
def test_a_release_gives_a_fresh_set_of_attempts_and_a_second_hold_is_a_second_event(form: str) -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        serving_three(world)
        revision = await held(world)
        value = revision if form == "full name" else revision.rpartition("-")[2]
        world.annotate("ome.io/release-held-revision", value)
        await world.until(lambda: state(world) != "Held", limit=10)
        await world.until(lambda: "ome.io/release-held-revision" not in world.replica()["metadata"]["annotations"])
        (event,) = world.events("RetryBlockReleased")
        assert event["message"] == (
            f"InferenceReplica prod/chat-engine component=engine: Held retryBlock for revision {revision} removed at "
            "operator request (ome.io/release-held-revision annotation)"
        )
        assert event["type"] == "Normal"
        await world.until(lambda: state(world) == "Backoff")
        assert block(world)["attemptsStarted"] == 1
        assert len(world.events("RetryHeld")) == 1
        await world.until(lambda: state(world) == "Held", limit=1000)
        assert block(world)["attemptsStarted"] == 3
        messages = [event["message"] for event in world.events("RetryHeld")]
        assert len(messages) == 2
        assert len(set(messages)) == 1

    play(story)


@pytest.mark.spec("RB-19", "RB-50", "ON-37", "RB-35")
def test_a_fixed_image_is_tried_only_after_the_release_and_then_rolls_out() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        serving_three(world)
        old = world.status()["currentRevision"].rpartition("-")[2]
        revision = await held(world)
        digest = revision.rpartition("-")[2]
        world.nodes.pushed.add("missing")
        await world.run(1800)
        assert state(world) == "Held"
        leftover = next(pod for pod in world.pods() if pod["metadata"]["name"] == "chat-engine-0-default-1")
        conditions = {c["type"]: c["status"] for c in leftover["status"]["conditions"]}
        assert conditions["ContainersReady"] == "True"
        assert conditions.get("ome.io/serving") != "True"
        assert conditions["Ready"] == "False"
        assert routing(world, "chat-engine-0-default-1") <= {
            "chat-engine-headless",
            f"chat-engine-rev-{digest}-headless",
        }
        assert f"chat-engine-rev-{old}" in routing(world, "chat-engine-0-default-0")
        world.every_step = lambda: None
        world.annotate("ome.io/release-held-revision", revision)
        await settled(world)
        assert world.blocks() == []
        assert "rolloutHold" not in world.status()
        await world.run(5)
        assert sorted(world.pod_names()) == [f"chat-engine-{i}-default-1" for i in range(3)]
        uids = {pod["metadata"]["uid"] for pod in world.pods()}
        assert leftover["metadata"]["uid"] not in uids, "the leftover itself was never promoted"

    play(story)


@pytest.mark.spec("RB-5", "RB-6")
@pytest.mark.parametrize(
    "policy",
    [
        None,
        {**LIMITS, "maxAttempts": 0},
        {**LIMITS, "initialDelay": "60"},
        {**LIMITS, "initialDelay": "0s"},
        {**LIMITS, "maxDelay": "30s"},
        {**LIMITS, "multiplier": 0.5},
    ],
)
def test_without_a_valid_policy_the_first_counting_failure_holds(policy: dict[str, object] | None) -> None:
    lifecycle = {**CHART, "updateRetry": policy}
    if policy is None:
        del lifecycle["updateRetry"]

    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        serving_three(world)
        revision = await held(world, limit=70)
        assert block(world)["attemptsStarted"] == 1
        (event,) = world.events("RetryHeld")
        assert event["message"] == HELD_TEXT.format(rev=revision, n=1, reason="ImagePullBackOff")

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("RB-7")
def test_the_delay_is_capped() -> None:
    policy = {"maxAttempts": 5, "initialDelay": "10m", "maxDelay": "30m", "multiplier": 3}

    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        world.image("sglang:missing")
        for attempt, minutes in enumerate((10, 30, 30, 30), start=1):
            await world.until(lambda n=attempt: state(world) == "Backoff" and block(world)["attemptsStarted"] == n)
            row = block(world)
            delay = parse_timestamp(row["nextRetryAt"]) - parse_timestamp(row["lastFailureAt"])
            assert delay == timedelta(minutes=minutes)
        await world.until(lambda: state(world) == "Held")
        assert block(world)["attemptsStarted"] == 5

    play(story, lifecycle={**CHART, "updateRetry": policy})


@pytest.mark.spec("RB-8")
@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("sglang:missing", "ImagePullBackOff"),
        ("sglang:config", "CreateContainerConfigError"),
        ("sglang:badname", "InvalidImageName"),
    ],
)
def test_a_counting_reason_charges(image: str, reason: str) -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        world.image(image)
        await world.until(lambda: state(world) == "Held", limit=2000)
        assert block(world)["reason"] == reason
        (event,) = world.events("RetryHeld")
        assert f"(last failure: {reason})" in event["message"]

    play(story)


@pytest.mark.spec("RB-9")
@pytest.mark.parametrize(("image", "timeout"), [("sglang:crash", "30m"), ("sglang:never", "20s")])
def test_crash_loops_and_missed_deadlines_never_hold(image: str, timeout: str) -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        serving_three(world)
        world.image(image)
        failures = set()
        for _ in range(2400):
            await world.run(1)
            for row in world.rows():
                if "lastFailure" in row:
                    failures.add(row["lastFailure"]["time"])
            assert all(found["state"] != "Held" and not found.get("attemptsStarted") for found in world.blocks())
        assert len(failures) >= 20
        assert world.events("RetryHeld") == []

    play(story, lifecycle={**CHART, "instanceReadyTimeout": timeout})


@pytest.mark.parametrize(("image", "reason"), [("sglang:missing", "ImagePullBackOff"), ("sglang:never", "")])
def test_settings_that_are_mended_reach_an_attempt_that_nothing_else_would_wake(image: str, reason: str) -> None:
    async def story(world: World) -> None:
        world.apply(image=image, replicas=1)
        await world.run(600)
        assert world.phases() == ["Creating"], "an invalid entry is none: no grace, no deadline"
        writes = world.server.writes
        await world.run(600)
        assert world.server.writes == writes, "a look costs no write"
        world.lifecycle = CHART
        await world.until(lambda: world.rows()[0].get("lastFailure"), limit=90 if reason else 30 * 60 + 90)
        assert (block(world)["reason"] if reason else "") == reason

    play(story, lifecycle={})


@pytest.mark.spec("RB-12", "RB-13")
def test_three_instances_that_fail_together_on_a_first_deployment_are_one_attempt() -> None:
    async def story(world: World) -> None:
        world.apply(image="sglang:missing")
        await world.until(lambda: state(world) == "Backoff")
        await world.run(3)
        assert block(world)["attemptsStarted"] == 1
        assert world.phases() == ["Failed"] * 3

    play(story)


@pytest.mark.spec("RB-16")
def test_of_three_failed_instances_of_a_first_deployment_one_alone_retries() -> None:
    async def story(world: World) -> None:
        world.apply(image="sglang:missing")
        await world.until(lambda: state(world) == "RetryInProgress")
        await world.run(20)
        assert world.phases() == ["Creating", "Failed", "Failed"]

    play(story)


@pytest.mark.spec("RB-20")
def test_a_first_deployment_that_the_kubelet_recovers_needs_no_release() -> None:
    async def story(world: World) -> None:
        world.apply(image="sglang:missing")
        await world.until(lambda: state(world) == "Held", limit=2000)
        world.nodes.pushed.add("missing")
        await world.until(lambda: "Ready" in world.phases(), limit=10)
        assert world.blocks() == []
        await settled(world)

    play(story)


@pytest.mark.spec("RB-21", "RB-23", "RB-36")
def test_a_new_revision_rolls_at_once_and_the_old_one_starts_afresh_when_it_comes_back() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        first = await held(world)
        world.image("sglang:v2")
        await world.until(lambda: world.blocks() == [], limit=10)
        assert world.events("RetryBlockReleased") == []
        await settled(world)
        again = await held(world)
        assert again == first
        assert block(world)["attemptsStarted"] == 3
        assert len(world.events("RetryHeld")) == 2

    play(story)


@pytest.mark.spec("RB-36")
def test_an_attempt_at_a_superseded_revision_fails_without_charging_the_new_one() -> None:
    async def story(world: World) -> None:
        recreate = {"updateStrategy": {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1}}}
        world.apply(replicas=1, lifecycle=recreate)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: world.phases() == ["Updating"])
        old = world.status()["updateRevision"]
        await world.run(20)
        world.image("sglang:v2")
        await world.until(lambda: world.status()["updateRevision"] != old)
        new = world.status()["updateRevision"]
        assert world.rows()[0]["operation"]["targetRevision"] == old

        def look() -> None:
            assert all(found["targetRevision"] != new for found in world.blocks())

        world.every_step = look
        await settled(world, limit=120)
        assert world.rows()[0]["lastFailure"]["reason"] == "ImagePullBackOff"

    play(story)


@pytest.mark.spec("RB-24")
def test_raising_the_limit_releases_nothing() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        await held(world)
        world.lifecycle = {**CHART, "updateRetry": {**LIMITS, "maxAttempts": 10}}
        world.annotate("tick", "1")
        await world.run(1200)
        assert state(world) == "Held"

    play(story)


@pytest.mark.spec("RB-18")
def test_a_held_target_keeps_a_new_index_from_being_made() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        revision = await held(world)
        world.change(replicas=4)
        await world.run(600)
        assert not any(name.startswith("chat-engine-3-") for name in world.pod_names())
        world.nodes.pushed.add("missing")
        world.annotate("ome.io/release-held-revision", revision)
        await settled(world)
        assert "chat-engine-3-default-0" in world.pod_names()

    play(story)


SKIPPED = "InferenceReplica prod/chat-engine component=engine: "


@pytest.mark.spec("RB-26", "RB-27", "RB-28")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("nope", 'release requested for revision "nope" but no retryBlock exists for it; nothing to release'),
        ("", 'release requested for revision "" but no retryBlock exists for it; nothing to release'),
        ("Backoff", "retryBlock for revision {rev} is Backoff, not Held; nothing to release"),
        ("RetryInProgress", "retryBlock for revision {rev} is RetryInProgress, not Held; nothing to release"),
    ],
)
def test_a_release_that_finds_nothing_to_release_says_so(value: str, text: str) -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        if value in ("Backoff", "RetryInProgress"):
            world.image("sglang:missing")
            await world.until(lambda: state(world) == value)
        before = world.blocks()
        revision = world.status()["updateRevision"]
        world.annotate("ome.io/release-held-revision", revision if text.startswith("retry") else value)
        await world.run(3)
        (event,) = world.events("RetryBlockReleaseSkipped")
        assert event["message"] == SKIPPED + text.format(rev=revision)
        assert event["type"] == "Normal"
        assert "ome.io/release-held-revision" not in world.replica()["metadata"]["annotations"]
        assert world.blocks() == before

    play(story)


@pytest.mark.spec("RB-30")
@pytest.mark.parametrize("mode", ["Recover", "Freeze"])
def test_a_release_while_paused_removes_the_block_and_the_attempt_waits(mode: str) -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        revision = await held(world)
        world.nodes.pushed.add("missing")
        world.change(paused=True, pauseMode=mode)
        await world.run(2)
        world.annotate("ome.io/release-held-revision", revision)
        await world.until(lambda: world.blocks() == [], limit=5)
        pods = world.pod_names()
        await world.run(120)
        assert world.pod_names() == pods
        assert "Updating" not in world.phases()
        world.change(paused=None, pauseMode=None)
        await settled(world)

    play(story)


@pytest.mark.spec("RB-42", "ON-27")
def test_a_reset_of_a_failed_instance_on_a_held_revision_makes_no_pod() -> None:
    async def story(world: World) -> None:
        world.apply(image="sglang:missing", replicas=1)
        await world.until(lambda: state(world) == "Held", limit=2000)
        world.annotate("ome.io/reset-instances", "all")
        await world.until(lambda: world.pods() == [], limit=10)
        assert len(world.events("InstancesReset")) == 1
        await world.run(300)
        assert world.pods() == []
        assert state(world) == "Held"
        world.annotate("ome.io/reset-instances", "0")
        await world.run(3)
        (event,) = world.events("InstancesResetSkipped")
        assert event["message"].endswith("reset skipped for instance(s) 0 (nothing to reset)")
        world.nodes.pushed.add("missing")
        world.annotate("ome.io/release-held-revision", world.status()["updateRevision"])
        await settled(world)

    play(story)


@pytest.mark.spec("RB-44")
def test_a_pod_that_the_api_server_refuses_holds_after_three_refusals() -> None:
    async def story(world: World) -> None:
        world.apply()
        await settled(world)

        def admit(collection: str, obj: dict[str, object]) -> None:
            if collection == "pods" and "invalid" in str(obj):
                raise Refuse(422, "Invalid", "spec is invalid")

        world.server.admit = admit
        world.image("sglang:invalid")
        began = world.clock.now()
        moments = []
        for attempt in (1, 2, 3):
            await world.until(lambda n=attempt: bool(world.blocks()) and block(world)["attemptsStarted"] == n)
            moments.append((parse_timestamp(block(world)["lastFailureAt"]) - began).total_seconds())
        assert [round(moment / 60) for moment in moments] == [0, 1, 3]
        assert state(world) == "Held"
        assert block(world)["reason"] == "InvalidPodSpec"
        assert world.status()["servingReplicas"] == 3

    play(story)


@pytest.mark.spec("RB-10", "ON-19")
def test_an_unschedulable_pod_fails_its_instance_after_the_grace_and_leaves_no_block() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.nodes.capacity = 1
        world.image("sglang:v2")
        waited = await world.until(lambda: any("lastFailure" in row for row in world.rows()), limit=1000)
        assert 899 <= waited <= 902
        assert world.blocks() == []
        row = next(row for row in world.rows() if "lastFailure" in row)
        assert row["lastFailure"]["reason"] == "Unschedulable"
        assert world.status()["servingReplicas"] == 2

    play(story)


@pytest.mark.spec("RB-11")
def test_a_deadline_with_an_image_that_cannot_be_pulled_charges_with_that_reason() -> None:
    lifecycle = {**CHART, "instanceReadyTimeout": "2m"}
    del lifecycle["stuckPodGracePeriod"]

    async def story(world: World) -> None:
        world.apply()
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: state(world) == "Backoff", limit=200)
        assert (block(world)["reason"], block(world)["attemptsStarted"]) == ("ImagePullBackOff", 1)

    play(story, lifecycle=lifecycle)


def ladder(world: World) -> tuple[str, int]:
    """State and attempts of the first block of the standalone replica."""
    found = world.blocks("solo") or [{"state": "", "attemptsStarted": 0}]
    return str(found[0]["state"]), int(found[0]["attemptsStarted"])


@pytest.mark.spec("RB-45")
def test_a_standalone_replica_climbs_the_same_ladder_and_hears_about_it_itself() -> None:
    async def story(world: World) -> None:
        body = projected("solo", image="sglang:missing", replicas=1)
        del body["spec"]["parentRef"]
        del body["metadata"]["ownerReferences"]
        body["metadata"]["name"] = "solo-engine"
        world.server.create("inferencereplicas", body)
        for attempt, reached in ((1, "Backoff"), (2, "Backoff"), (3, "Held")):
            wanted = (reached, attempt)
            await world.until(lambda wanted=wanted: ladder(world) == wanted, limit=400)
        (event,) = world.events("RetryHeld")
        assert "held after 3 failed attempt(s) (last failure: ImagePullBackOff)" in event["message"]
        assert event["involvedObject"]["kind"] == "InferenceReplica"
        assert event["involvedObject"]["name"] == "solo-engine"
        assert world.server.get("pods", "prod", "solo-engine-engine-0-default-0") is not None

    play(story)


@pytest.mark.spec("RB-52")
def test_no_stored_time_lies_after_the_moment_it_was_written() -> None:
    async def story(world: World) -> None:
        ahead: list[float] = []

        def look(event: str, collection: str, old: object, new: dict[str, object]) -> None:
            if collection != "inferencereplicas":
                return
            for found in (new.get("status") or {}).get("retryBlocks") or []:  # type: ignore[attr-defined]
                times = [parse_timestamp(found[key]) for key in ("firstFailureAt", "lastFailureAt")]
                ahead.extend((time - world.clock.now()).total_seconds() for time in times)

        world.server.hear = look
        world.apply()
        await settled(world)
        await held(world)
        assert ahead
        assert max(ahead) <= 0

    play(story)
