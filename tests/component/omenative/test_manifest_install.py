"""What differs on a cluster whose ConfigMap sets hardly anything: the one of `kubectl apply -k config/default`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from ome.api.meta import parse_timestamp
from ome.kube.resources import CONFIG_MAPS, DEPLOYMENTS, HPAS, INFERENCE_REPLICAS, INFERENCE_SERVICES, PDBS, PODS
from tests.support.world import World, in_world

from .stage import MISSING, ROOMS, chat, images, model_and_runtime, pod_names, settled, state, status

TIMEOUT = timedelta(minutes=30)


async def begin(world: World) -> None:
    await world.install(config="kustomize")
    config = await world.get(CONFIG_MAPS, "inferenceservice-config", world.namespace)
    assert json.loads(config["data"]["lifecycle"]) == {"instanceReadyTimeout": "30m"}
    world.start_manager(ROOMS)
    await model_and_runtime(world)


@pytest.mark.embedded_only("lets half an hour pass")
@pytest.mark.spec("IN-28")
@in_world(nodes=2, installed=False)
async def test_the_first_attempt_that_fails_holds_the_revision_at_the_deadline(world: World) -> None:
    await begin(world)
    await world.apply(chat())
    await settled(world)
    old = {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}
    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))

    async def cannot_pull() -> dict[str, Any]:
        new = [pod for pod in await world.list(PODS, "prod") if pod["metadata"]["uid"] not in old]
        assert len(new) == 1
        assert new[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
        return new[0]

    pod = await world.eventually(cannot_pull)
    await world.sleep(29 * 60)
    assert "retryBlocks" not in await status(world)
    assert (await cannot_pull())["metadata"]["uid"] == pod["metadata"]["uid"]
    await world.until(lambda: _held(world), timeout=120)

    shown = await status(world)
    (block,) = shown["retryBlocks"]
    assert (block["attemptsStarted"], block["reason"]) == (1, "ImagePullBackOff")
    waited = parse_timestamp(block["lastFailureAt"]) - parse_timestamp(pod["metadata"]["creationTimestamp"])
    assert TIMEOUT <= waited <= TIMEOUT + timedelta(seconds=5)
    revision = shown["updateRevision"]
    assert shown["rolloutHold"]["gate"] == "Held"
    assert shown["rolloutHold"]["reason"] == f"update to {revision} held after 1 failed attempt(s): ImagePullBackOff"
    (event,) = await world.events("prod", "RetryHeld")
    assert event["message"] == (
        f"InferenceReplica prod/chat-engine component=engine update to revision {revision} held after 1 failed "
        "attempt(s) (last failure: ImagePullBackOff); publish a corrected revision or raise "
        "lifecycle.updateRetry limits"
    )
    assert shown["servingReplicas"] == 3
    assert old <= {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}
    names = await pod_names(world)
    await world.sleep(600)
    assert (await state(world), await pod_names(world)) == ("Held", names)


async def _held(world: World) -> bool:
    return await state(world) == "Held"


@pytest.mark.spec("IN-8")
@in_world(nodes=2, installed=False)
async def test_a_service_that_says_nothing_gets_one_replica_and_no_budget(world: World) -> None:
    await begin(world)
    raw, native = chat(), chat()
    for service in (raw, native):
        service["spec"]["engine"] = {}
    raw["metadata"]["name"] = "plain"
    del raw["spec"]["deploymentMode"]
    await world.apply(raw, native)

    async def ready() -> bool:
        services = await world.list(INFERENCE_SERVICES, "prod")
        found = [c for service in services for c in (service.get("status") or {}).get("conditions", [])]
        return [c["status"] for c in found if c["type"] == "Ready"] == ["True", "True"]

    await world.until(ready)
    assert (await world.get(DEPLOYMENTS, "plain-engine", "prod"))["spec"]["replicas"] == 1
    assert (await world.get(INFERENCE_REPLICAS, "chat-engine", "prod"))["spec"]["replicas"] == 1
    for name in ("plain-engine", "chat-engine"):
        bounds = (await world.get(HPAS, name, "prod"))["spec"]
        assert (bounds["minReplicas"], bounds["maxReplicas"]) == (1, 1)
    assert await world.list(PDBS, "prod") == []
    pods = await world.list(PODS, "prod")
    assert {pod["metadata"]["labels"]["ome.io/inferenceservice"] for pod in pods} == {"plain", "chat"}
    assert [pod["spec"]["terminationGracePeriodSeconds"] for pod in pods] == [30, 30]
