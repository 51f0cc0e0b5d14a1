"""The node stand-in over the API: images, configuration, crashes, deletion, and what it does on nodes of others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from ome.kube.client import Client
from ome.kube.requests import PatchType, Request
from ome.kube.resources import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, SECRETS
from ome.local.cluster import NodeStandIn
from ome.local.inprocess import InProcessTransport
from ome.local.node.runtime import SimulatedRuntime
from ome.local.objects import Object
from tests.support.world import ADMIN, World, in_world

NAMESPACE = "pods"


def pod(
    name: str = "p", image: str = "web:1", annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def of(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((found for found in status.get("conditions", ()) if found["type"] == type_), {})


async def waits_with(world: World, reason: str, name: str = "p") -> dict[str, Any]:
    """Wait until the pod's container waits for this reason; returns the pod."""

    async def check() -> dict[str, Any]:
        found = await world.get(PODS, name, NAMESPACE)
        assert found["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        return found

    found: dict[str, Any] = await world.eventually(check)
    return found


async def is_ready(world: World, name: str = "p", timeout: float = 60) -> dict[str, Any]:
    async def check() -> dict[str, Any]:
        found = await world.get(PODS, name, NAMESPACE)
        assert of(found["status"], "Ready")["status"] == "True"
        return found

    found: dict[str, Any] = await world.eventually(check, timeout=timeout)
    return found


def denied(*patterns: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "local-images", "namespace": "kube-system"},
        "data": {"denied": "".join(f"{pattern}\n" for pattern in patterns)},
    }


@in_world(nodes=1, installed=False)
async def test_a_running_pod_looks_like_one(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod())
    found = await is_ready(world)
    status = found["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith(("198.18.", "198.19."))
    assert status["hostIP"] == status["hostIPs"][0]["ip"]
    assert status["containerStatuses"][0]["started"] is True
    types = {condition["type"] for condition in status["conditions"]}
    assert types == {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}

    async def told() -> None:  # after the status
        reasons = {event["reason"] for event in await world.events(NAMESPACE)}
        assert {"Scheduled", "Pulled", "Created", "Started"} <= reasons

    await world.eventually(told)


@in_world(nodes=1, installed=False)
async def test_a_denied_image_backs_off_and_recovers_when_allowed(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(denied("*:v0.0.0-missing*"))
    await world.create(pod(image="docker.io/lmsysorg/sglang:v0.0.0-missing"))
    await waits_with(world, "ErrImagePull")
    found = await waits_with(world, "ImagePullBackOff")
    assert found["status"]["phase"] == "Pending"
    assert of(found["status"], "Ready")["status"] == "False"
    await world.merge(CONFIG_MAPS, "local-images", "kube-system", {"data": {"denied": ""}})
    await is_ready(world)
    await world.client.delete(CONFIG_MAPS, "local-images", "kube-system")


@in_world(nodes=1, installed=False)
async def test_a_missing_secret_is_waited_for(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    body = pod()
    reference = {"secretKeyRef": {"name": "creds", "key": "token"}}
    body["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "valueFrom": reference}]
    await world.create(body)
    found = await waits_with(world, "CreateContainerConfigError")
    waiting = found["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'secret "creds" not found'
    metadata = {"name": "creds", "namespace": NAMESPACE}
    await world.client.create(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "x"}}
    )
    await is_ready(world)


@in_world(nodes=1, installed=False)
async def test_an_invalid_image_name(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod(image="Docker.io/Upper/CASE:1"))
    await waits_with(world, "InvalidImageName")


@in_world(nodes=1, installed=False)
async def test_a_crash_loop(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod(annotations={"local.ome.io/crash-after": "1s", "local.ome.io/exit-code": "7"}))
    found = await waits_with(world, "CrashLoopBackOff")
    (container,) = found["status"]["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert container["restartCount"] == 1
    assert found["status"]["phase"] == "Running"


@in_world(nodes=1, installed=False)
async def test_a_gate_is_opened_by_its_owner_and_kept(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod(readinessGates=[{"conditionType": "ome.io/serving"}]))

    async def closed() -> None:
        status = (await world.get(PODS, "p", NAMESPACE))["status"]
        assert of(status, "ContainersReady")["status"] == "True"
        assert of(status, "Ready")["reason"] == "ReadinessGatesNotReady"

    await world.eventually(closed)
    gate = {"type": "ome.io/serving", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"conditions": [gate]}}
    await world.client.patch(PODS, "p", NAMESPACE, body, type=PatchType.STRATEGIC, subresource="status")
    found = await is_ready(world)
    assert of(found["status"], "ome.io/serving")["status"] == "True"


@in_world(nodes=1, installed=False)
async def test_an_image_changed_in_place_restarts_the_container(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod())
    before = await is_ready(world)
    body = [{"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"}]
    await world.client.patch(PODS, "p", NAMESPACE, body, type=PatchType.JSON)

    async def restarted() -> None:
        found = await world.get(PODS, "p", NAMESPACE)
        (container,) = found["status"]["containerStatuses"]
        assert (container["image"], container["restartCount"]) == ("web:2", 1)
        assert of(found["status"], "Ready")["status"] == "True"
        assert found["metadata"]["uid"] == before["metadata"]["uid"]

    await world.eventually(restarted)


@in_world(nodes=1, installed=False)
async def test_a_deleted_pod_goes_and_its_finalizer_sees_the_end(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await world.create(pod(), held)
    await is_ready(world)
    await is_ready(world, "held")
    for name in ("p", "held"):
        await world.client.delete(PODS, name, NAMESPACE)

    async def only_the_held_one() -> None:
        found = await world.list(PODS, NAMESPACE)
        assert [p["metadata"]["name"] for p in found] == ["held"]
        assert found[0]["status"]["phase"] == "Succeeded"

    await world.eventually(only_the_held_one)
    await world.merge(PODS, "held", NAMESPACE, {"metadata": {"finalizers": None}})


@in_world(nodes=1, installed=False)
async def test_a_node_that_a_user_makes_is_played_too(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    room = {"cpu": "2", "memory": "4Gi", "pods": "5"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine", "labels": {"mine": "yes"}},
        "status": {"capacity": room, "allocatable": room},
    }
    await world.create(node, pod(nodeSelector={"mine": "yes"}))
    await is_ready(world)
    found = await world.get(NODES, "mine")
    assert found["status"]["capacity"] == room
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "mine"
    lease = await world.get(LEASES, "mine", "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == "mine"


@in_world(nodes=1, installed=False)
async def test_a_status_written_by_hand_stands_until_there_is_news(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(pod())
    await is_ready(world)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await world.client.patch(PODS, "p", NAMESPACE, unready, type=PatchType.STRATEGIC, subresource="status")
    await world.sleep(3)
    status = (await world.get(PODS, "p", NAMESPACE))["status"]
    assert of(status, "Ready")["status"] == "False"
    change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"}]
    await world.client.patch(PODS, "p", NAMESPACE, change, type=PatchType.JSON)
    await is_ready(world)


class Refusing(SimulatedRuntime):
    """A runtime that cannot make containers of one image until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = True

    def handles(self, image: str) -> bool:
        return image.startswith("local/")

    async def start(self, pod: Object, container: Mapping[str, Any], attempt: int, now: datetime) -> None:
        if self.refuses:
            raise OSError("mount path /data is not allowed here")
        await super().start(pod, container, attempt, now)


@in_world(nodes=0, installed=False)
async def test_a_container_that_cannot_be_made_is_tried_again(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    runtime = Refusing()
    world.start(NodeStandIn(world.client, world.clock, nodes=1, runtimes=[runtime]).run())
    await world.create(pod(image="local/engine"), pod("other"))
    found = await waits_with(world, "CreateContainerError")
    waiting = found["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == "mount path /data is not allowed here"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0

    async def told() -> None:  # events follow the status
        reasons = {e["reason"] for e in await world.list(EVENTS, NAMESPACE) if e["involvedObject"]["name"] == "p"}
        assert "Failed" in reasons
        assert not reasons & {"Created", "Started"}

    await world.eventually(told)
    await is_ready(world, "other")
    runtime.refuses = False
    found = await is_ready(world)
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


@in_world(nodes=2, installed=False)
async def test_a_stand_in_that_is_killed_is_taken_over_without_a_restart(world: World) -> None:
    """Every pod keeps its address, its start time and its restart count."""
    await world.make_namespace(NAMESPACE)
    await world.create(pod("a", nodeSelector={"mine": "yes"}), pod("b", nodeSelector={"mine": "yes"}))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine", "labels": {"mine": "yes"}}}
    await world.create(node)
    before = [(await is_ready(world, name))["status"] for name in ("a", "b")]
    second = NodeStandIn(world.client, world.clock, nodes=0)
    world.start(second.run())
    await world.sleep(15)
    after = [(await world.get(PODS, name, NAMESPACE))["status"] for name in ("a", "b")]
    assert after == before


@pytest.mark.embedded_only("counts requests of the stand-in alone")
@in_world(nodes=0, installed=False)
async def test_steady_pods_cost_nothing(world: World) -> None:
    """No request but heartbeats once the pods run."""
    sent: list[Request] = []
    assert world.server is not None
    client = Client(InProcessTransport(world.server, ADMIN), on_request=sent.append)
    world.start(NodeStandIn(client, world.clock, nodes=1).run())
    await world.make_namespace(NAMESPACE)
    for number in range(20):
        await world.create(pod(f"p{number}"))
    await world.sleep(10)
    sent.clear()
    await world.sleep(100)
    assert {request.path for request in sent if request.method != "GET"} == {
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"
    }
    assert len([request for request in sent if request.method != "GET"]) <= 11
