"""PodGroups of Instances of several pods, with the kind installed: made before the pods, gone after them."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import msgspec
import pytest

from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES, POD_GROUPS, PODS
from tests.sim.world import gang
from tests.support.world import World, in_world

Json = dict[str, Any]

ROOMS = ("ome.omenative",)
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "listKind": "PodGroupList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32"},
                                    "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def chat(replicas: int = 1, **spec: Any) -> Json:
    lifecycle = {
        "updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}},
        "instanceReadyTimeout": "2m",
    }
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "metadata": {
            "name": "chat-engine",
            "namespace": "prod",
            "finalizers": ["ome.io/ir-teardown"],
        },
        "spec": {
            "component": "engine",
            "parentRef": {"name": "chat"},
            "replicas": replicas,
            "runners": gang(),
            "lifecycle": lifecycle,
            **spec,
        },
    }


async def begin(world: World, *objects: Json, lifecycle: Json | None = None) -> None:
    """The kind, the namespace and the manager with these settings (default: the chart's); then the objects."""
    await world.apply(DEFINITION)
    await world.until(lambda: world.client.serves(POD_GROUPS))
    await world.make_namespace("prod")
    environment = world.environment()
    if lifecycle is not None:
        config = msgspec.structs.replace(await environment.config(), lifecycle=lifecycle)
        environment = dataclasses.replace(environment, config=_always(config))
    served = frozenset({POD_GROUPS.group_resource})
    world.start_manager(ROOMS, dataclasses.replace(environment, served=served))
    for obj in objects:
        await owned(world, obj)


async def owned(world: World, replica: Json) -> None:
    """Create the replica of a service `chat` that is there."""
    parent = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService"}
    body = {**parent, "metadata": {"name": "chat", "namespace": "prod"}, "spec": {"engine": {}}}
    uid = (await world.client.create(INFERENCE_SERVICES, body))["metadata"]["uid"]
    owner = {**parent, "name": "chat", "uid": uid, "controller": True}
    await world.create({**replica, "metadata": {**replica["metadata"], "ownerReferences": [owner]}})


def _always(value: Any) -> Any:
    async def config() -> Any:
        return value

    return config


async def groups(world: World) -> dict[str, Json]:
    return {group["metadata"]["name"]: group for group in await world.list(POD_GROUPS, "prod")}


async def pods(world: World) -> list[Json]:
    return await world.list(PODS, "prod")


async def ready(world: World, *indices: int) -> None:
    status = (await world.get(INFERENCE_REPLICAS, "chat-engine", "prod"))["status"]
    assert status["readyReplicas"] == len(indices)
    assert status["updatedReplicas"] == len(indices)
    assert {p["metadata"]["labels"]["ome.io/instance-index"] for p in await pods(world)} == set(map(str, indices))


@in_world(nodes=1, rooms=(), workloads=True)
async def test_a_group_is_there_before_its_pods_and_goes_after_them(world: World) -> None:
    await begin(world, chat(topologyKey="kubernetes.io/hostname"))
    await world.eventually(lambda: ready(world, 0))
    (group,) = (await groups(world)).values()
    meta = group["metadata"]
    assert (meta["name"], group["spec"]) == ("chat-engine-0", {"minMember": 3, "scheduleTimeoutSeconds": 120})
    assert meta["labels"] == {
        "component": "engine",
        "ome.io/inferenceservice": "chat",
        "ome.io/managed-by": "OMENative",
        "ome.io/instance-index": "0",
    }
    assert meta["annotations"] == {"ome.io/topology-key": "kubernetes.io/hostname"}
    for pod in await pods(world):
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "chat-engine-0"
        assert int(pod["metadata"]["resourceVersion"]) > int(meta["resourceVersion"])
    replica = await world.get(INFERENCE_REPLICAS, "chat-engine", "prod")
    shown = {c["type"]: (c["status"], c["reason"]) for c in replica["status"]["conditions"]}
    assert shown["GangSchedulingUnavailable"] == ("False", "GangSchedulingAvailable")
    assert [e["type"] for e in await world.events("prod", "MaybeNoGangScheduler")] == ["Warning"]

    await world.client.delete(INFERENCE_REPLICAS, "chat-engine", "prod")

    async def all_gone() -> None:
        assert await world.find(INFERENCE_REPLICAS, "chat-engine", "prod") is None
        assert (await pods(world), await groups(world)) == ([], {})

    await world.eventually(all_gone)


@pytest.mark.spec("ON-7")
@in_world(nodes=1, rooms=(), workloads=True)
async def test_a_surge_makes_the_group_of_its_replacement_and_removes_the_sources(world: World) -> None:
    await begin(world, chat(replicas=2))
    await world.eventually(lambda: ready(world, 0, 1))
    wanted = copy.deepcopy(chat(replicas=2)["spec"])
    for runner in wanted["runners"]:
        runner["template"]["spec"]["containers"][0]["image"] = "sglang:v2"
    await world.merge(INFERENCE_REPLICAS, "chat-engine", "prod", {"spec": wanted})

    async def rolled() -> None:
        # The first replacement takes the free index 2, the second the one that is free by then.
        images = {c["image"] for p in await pods(world) for c in p["spec"]["containers"]}
        assert images == {"sglang:v2"}
        indices = {p["metadata"]["labels"]["ome.io/instance-index"] for p in await pods(world)}
        assert indices == {"0", "2"}
        assert set(await groups(world)) == {"chat-engine-0", "chat-engine-2"}
        status = (await world.get(INFERENCE_REPLICAS, "chat-engine", "prod"))["status"]
        assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 2)

    await world.eventually(rolled, timeout=120)


@pytest.mark.spec("RB-10")
@in_world(nodes=1, rooms=(), workloads=True)
async def test_a_group_of_somebody_else_is_not_touched_and_no_pod_is_made(world: World) -> None:
    await world.apply(DEFINITION)
    await world.until(lambda: world.client.serves(POD_GROUPS))
    await world.make_namespace("prod")
    theirs = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "chat-engine-0", "namespace": "prod"},
        "spec": {"minMember": 7},
    }
    await world.create(theirs)
    await begin(world, chat())

    async def refused() -> None:
        replica = await world.get(INFERENCE_REPLICAS, "chat-engine", "prod")
        failures = [e["message"] for e in await world.events("prod", "InstanceFailed")]
        assert failures
        assert "PodGroupOwnershipConflict" in failures[0]
        assert "retryBlocks" not in replica["status"]

    await world.eventually(refused)
    assert await pods(world) == []
    assert (await groups(world))["chat-engine-0"]["spec"] == {"minMember": 7}
    await world.client.delete(POD_GROUPS, "chat-engine-0", "prod")
    await world.eventually(lambda: ready(world, 0))


@in_world(nodes=1, rooms=(), workloads=True)
async def test_a_failed_group_of_a_running_gang_is_replaced(world: World) -> None:
    await begin(world, chat())
    await world.eventually(lambda: ready(world, 0))
    before = {pod["metadata"]["uid"] for pod in await pods(world)}
    first = (await groups(world))["chat-engine-0"]["metadata"]["uid"]
    await world.merge(POD_GROUPS, "chat-engine-0", "prod", {"status": {"phase": "Failed"}}, subresource="status")

    async def replaced() -> None:
        group = (await groups(world))["chat-engine-0"]
        assert group["metadata"]["uid"] != first
        assert len(await world.events("prod", "PodGroupReset")) == 1

    await world.eventually(replaced)
    assert {pod["metadata"]["uid"] for pod in await pods(world)} == before
    await ready(world, 0)


CLAMP = {"min": "60s", "max": "90s"}
TIMEOUTS: dict[str, tuple[str, Json | None, int | None]] = {
    "above the clamp": ("2m", CLAMP, 90),
    "inside it": ("80s", CLAMP, 80),
    "below it": ("30s", CLAMP, 60),
    "no deadline": ("", CLAMP, 60),
    "no clamp": ("2m", None, 120),
    "neither": ("", None, None),
    "a clamp the wrong way round": ("2m", {"min": "90s", "max": "60s"}, 120),
    "half a clamp": ("2m", {"max": "60s"}, 120),
}


@pytest.mark.spec("ON-32")
@pytest.mark.parametrize("sentence", TIMEOUTS)
@in_world(nodes=1, rooms=(), workloads=True)
async def test_the_schedule_timeout_follows_the_readiness_deadline(world: World, sentence: str) -> None:
    timeout, clamp, seconds = TIMEOUTS[sentence]
    wanted = chat()
    del wanted["spec"]["lifecycle"]["instanceReadyTimeout"]
    if timeout:
        wanted["spec"]["lifecycle"]["instanceReadyTimeout"] = timeout
    await begin(world, wanted, lifecycle={} if clamp is None else {"gangScheduleTimeout": clamp})

    async def made() -> None:
        assert (await groups(world))["chat-engine-0"]["spec"].get("scheduleTimeoutSeconds") == seconds

    await world.eventually(made)


@in_world(nodes=1, rooms=(), workloads=True)
async def test_a_changed_deadline_reaches_the_group_of_a_running_gang(world: World) -> None:
    await begin(world, chat())
    await world.eventually(lambda: ready(world, 0))
    change = {"spec": {"lifecycle": {"instanceReadyTimeout": "5m"}}}
    await world.merge(INFERENCE_REPLICAS, "chat-engine", "prod", change)

    async def changed() -> None:
        assert (await groups(world))["chat-engine-0"]["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 300}

    await world.eventually(changed)


@in_world(nodes=1, rooms=ROOMS)
async def test_without_the_kind_the_condition_says_so(world: World) -> None:
    await world.make_namespace("prod")
    await owned(world, chat())
    await world.eventually(lambda: ready(world, 0))
    replica = await world.get(INFERENCE_REPLICAS, "chat-engine", "prod")
    shown = {c["type"]: (c["status"], c["reason"]) for c in replica["status"]["conditions"]}
    assert shown["GangSchedulingUnavailable"] == ("True", "PodGroupCRDNotInstalled")
    assert not any("scheduling.x-k8s.io/pod-group" in p["metadata"]["labels"] for p in await pods(world))
