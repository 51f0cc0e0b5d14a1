"""The seed's story on a whole cluster: chat is held, fixed, released, replaced, paused."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest

from ome.api.meta import parse_timestamp
from ome.kube.resources import CONTROLLER_REVISIONS, INFERENCE_REPLICAS, INFERENCE_SERVICES, PODS
from tests.support.world import World, in_world

from .stage import IMAGE, MISSING, ROOMS, RUNTIME, chat, images, pod_names, replica, set_stage, settled, state, status

pytestmark = pytest.mark.embedded_only("minutes of backoff; tests/scenario/test_held_revisions.py plays it on both")

RELEASE = "ome.io/release-held-revision"
ABOUT = "InferenceReplica prod/chat-engine component=engine"


async def serving(world: World) -> None:
    assert (await status(world))["servingReplicas"] == 3


async def hold(world: World) -> str:
    """Roll chat to an image that does not exist and wait until it is held; the revision."""
    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))
    await world.until(lambda: _is(world, "Held"), timeout=120)
    await serving(world)
    return str((await status(world))["updateRevision"])


async def _is(world: World, wanted: str) -> bool:
    return await state(world) == wanted


@pytest.mark.spec("RB-1", "RB-3", "RB-4", "RB-19", "RB-25", "RB-35", "RB-43", "ON-1", "ON-35")
@in_world(nodes=2, rooms=ROOMS)
async def test_chat_is_held_after_three_attempts_and_rolls_out_after_fix_and_release(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    before = await settled(world)
    assert before["availableReplicas"] == 3
    assert await pod_names(world) == [f"chat-engine-{i}-default-0" for i in range(3)]
    old = {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}

    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))
    for attempt, delay in ((1, 5), (2, 10)):

        async def failed(number: int = attempt) -> dict[str, object]:
            await serving(world)
            (block,) = (await status(world))["retryBlocks"]
            assert (block["state"], block["attemptsStarted"]) == ("Backoff", number)
            return dict(block)

        block = await world.eventually(failed, timeout=60)
        again = parse_timestamp(str(block["nextRetryAt"])) - parse_timestamp(str(block["lastFailureAt"]))
        assert again == timedelta(seconds=delay)
        assert block["reason"] in ("ImagePullBackOff", "ErrImagePull")
        assert len(await pod_names(world)) == 4
    await world.until(lambda: _is(world, "Held"), timeout=60)

    shown = await status(world)
    revision = shown["updateRevision"]
    (block,) = shown["retryBlocks"]
    assert (block["attemptsStarted"], block.get("nextRetryAt")) == (3, None)
    reason = block["reason"]
    assert shown["rolloutHold"]["gate"] == "Held"
    assert shown["rolloutHold"]["reason"] == f"update to {revision} held after 3 failed attempt(s): {reason}"
    (event,) = await world.events("prod", "RetryHeld")
    assert event["message"] == (
        f"{ABOUT} update to revision {revision} held after 3 failed attempt(s) (last failure: {reason}); "
        "publish a corrected revision or raise lifecycle.updateRetry limits"
    )
    assert (event["type"], event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (
        "Warning",
        "InferenceService",
        "chat",
    )
    conditions = {c["type"]: (c["status"], c["reason"]) for c in shown["conditions"]}
    assert conditions["Ready"] == ("False", "InstanceFailed")
    assert conditions["RolloutStalled"] == ("True", "InstancesFailing")

    async def service_is_ready() -> None:
        service = (await world.get(INFERENCE_SERVICES, "chat", "prod"))["status"]
        found = {c["type"]: c for c in service["conditions"]}
        engine = found["EngineReady"]
        assert (engine["status"], engine["reason"]) == ("True", "Ready")
        assert engine["message"] == "All Instances are Ready"
        assert found["Ready"]["status"] == "True"
        hold = service["components"]["engine"]["lifecycle"]["rolloutHold"]
        assert (hold["gate"], hold["target"]) == ("Held", revision)

    await world.eventually(service_is_ready)
    assert old <= {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}

    await images(world)
    await world.sleep(15)
    assert await state(world) == "Held"
    await world.annotate(INFERENCE_REPLICAS, "chat-engine", "prod", **{RELEASE: revision})
    after = await settled(world, timeout=90)
    assert after["currentRevision"] == revision
    assert "retryBlocks" not in after
    assert "rolloutHold" not in after
    (event,) = await world.events("prod", "RetryBlockReleased")
    assert event["message"] == (
        f"{ABOUT}: Held retryBlock for revision {revision} removed at operator request ({RELEASE} annotation)"
    )
    assert RELEASE not in (await replica(world))["metadata"]["annotations"]
    assert await pod_names(world) == [f"chat-engine-{i}-default-1" for i in range(3)]


@pytest.mark.spec("RB-21", "RB-23")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_corrected_image_replaces_the_held_revision_at_once(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    held = await hold(world)
    await world.apply(chat(IMAGE))
    after = await settled(world, timeout=90)
    assert after["currentRevision"] != held
    assert "retryBlocks" not in after
    assert await world.events("prod", "RetryBlockReleased") == []
    await world.apply(chat(MISSING))
    await world.until(lambda: _is(world, "Backoff"), timeout=60)
    shown = await status(world)
    assert shown["updateRevision"] == held
    assert shown["retryBlocks"][0]["attemptsStarted"] == 1


@pytest.mark.spec("RB-30", "RB-46")
@pytest.mark.parametrize("pause", ["true", "freeze"])
@in_world(nodes=2, rooms=ROOMS)
async def test_a_release_while_the_service_is_paused_waits_for_the_resume(world: World, pause: str) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    revision = await hold(world)
    await world.annotate(INFERENCE_SERVICES, "chat", "prod", **{"ome.io/rollout-paused": pause})

    async def paused() -> None:
        assert (await replica(world))["spec"]["paused"] is True

    await world.eventually(paused)
    await world.annotate(INFERENCE_REPLICAS, "chat-engine", "prod", **{RELEASE: revision})
    await world.until(lambda: _is(world, ""), timeout=10)
    names = await pod_names(world)
    await world.sleep(30)
    assert await pod_names(world) == names
    assert await state(world) == ""
    await world.annotate(INFERENCE_SERVICES, "chat", "prod", **{"ome.io/rollout-paused": None})
    await world.until(lambda: _is(world, "Held"), timeout=120)
    assert len(await world.events("prod", "RetryHeld")) == 2


@pytest.mark.spec("RB-48")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_missing_secret_is_created_and_the_released_revision_finishes(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    key = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "k", "key": "k"}}}
    await world.apply(chat(env=[key]))
    await world.until(lambda: _is(world, "Held"), timeout=120)
    shown = await status(world)
    assert shown["retryBlocks"][0]["reason"] == "CreateContainerConfigError"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "k", "namespace": "prod"},
        "data": {"k": "dg=="},
    }
    await world.create(secret)
    await world.annotate(INFERENCE_REPLICAS, "chat-engine", "prod", **{RELEASE: shown["updateRevision"]})
    after = await settled(world, timeout=90)
    assert after["currentRevision"] == shown["updateRevision"]


@pytest.mark.spec("RB-44")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_pod_that_the_api_server_refuses_is_held(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    wrong = chat()
    limits = {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
    wrong["spec"]["engine"]["runner"]["resources"] = limits
    await world.apply(wrong)
    await world.until(lambda: _is(world, "Held"), timeout=60)
    (block,) = (await status(world))["retryBlocks"]
    assert (block["reason"], block["attemptsStarted"]) == ("InvalidPodSpec", 3)
    await serving(world)
    assert await pod_names(world) == [f"chat-engine-{i}-default-0" for i in range(3)]


@pytest.mark.spec("ON-28")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_deleted_service_takes_its_replica_and_its_pods_along(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    await world.client.delete(INFERENCE_SERVICES, "chat", "prod")

    async def gone() -> None:
        assert await world.list(PODS, "prod") == []
        assert await world.list(INFERENCE_REPLICAS, "prod") == []

    await world.eventually(gone, timeout=90)


@pytest.mark.spec("RB-51", "RR-33")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_runtime_edit_replaces_the_held_revision(world: World) -> None:
    await set_stage(world)
    await world.apply(chat())
    await settled(world)
    held = await hold(world)
    edited = copy.deepcopy(RUNTIME)
    edited["spec"]["engineConfig"]["runner"]["env"] = [{"name": "MODE", "value": "fast"}]
    await images(world)
    await world.apply(edited)
    after = await settled(world, timeout=90)
    assert after["currentRevision"] != held
    assert "retryBlocks" not in after
    assert await world.events("prod", "RetryBlockReleased") == []
    stored = await world.list(CONTROLLER_REVISIONS)
    assert not any("ome.io/runtime-of" in revision["metadata"].get("labels", {}) for revision in stored)


@pytest.mark.spec("ON-1")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_service_of_leaders_and_workers_is_served_and_rolled_as_gangs(world: World) -> None:
    await set_stage(world)
    service = chat(replicas=1)
    del service["spec"]["deploymentMode"]
    runner = service["spec"]["engine"].pop("runner")
    service["spec"]["engine"]["leader"] = {"runner": runner}
    service["spec"]["engine"]["worker"] = {"size": 1, "runner": runner}
    await world.apply(service)
    await settled(world)
    assert await pod_names(world) == ["chat-engine-0-leader-0", "chat-engine-0-worker-0"]
    runner["env"] = [{"name": "MODE", "value": "fast"}]
    await world.apply(service)
    await world.sleep(1)
    await settled(world, timeout=90)
    assert await pod_names(world) == ["chat-engine-1-leader-0", "chat-engine-1-worker-0"]
