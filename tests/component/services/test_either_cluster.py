"""What must hold on the embedded cluster and on the real control plane alike: applies, and nothing after them."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.requests import PatchType, Request
from ome.kube.resources import (
    CLUSTER_BASE_MODELS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    HPAS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    NODES,
    PDBS,
    SERVICES,
    SERVING_RUNTIMES,
)
from tests.support.world import World, in_world

from .objects import marks, model, runtime, service

ROOMS = ("ome.models", "ome.runtimes", "ome.services")
ROUTER = {"runner": {"name": "router", "image": "router:1", "ports": [{"containerPort": 8000, "name": "http"}]}}


def kind(resource: Any, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def quick_runtime(fraction: str = "0.9") -> dict[str, Any]:
    """The runtime without what slows or needs hardware."""
    body = runtime(fraction)
    runner = body["spec"]["engineConfig"]["runner"]
    for key in ("readinessProbe", "startupProbe"):
        del runner[key]
    runner["resources"] = {"requests": {"cpu": "1", "memory": "1024Mi"}, "limits": {"memory": "1024Mi"}}
    return body


def writes(requests: list[Request]) -> list[str]:
    return [f"{request.method} {request.path}" for request in requests if request.method != "GET"]


async def stage(world: World) -> None:
    await world.make_namespace("prod")
    await world.apply(kind(CLUSTER_BASE_MODELS, model()), kind(SERVING_RUNTIMES, quick_runtime()))
    node = (await world.list(NODES))[0]["metadata"]["name"]
    labels = {"models.ome.io/clusterbasemodel.llama": "Ready"}
    for found in await world.list(NODES):
        await world.merge(NODES, found["metadata"]["name"], "", {"metadata": {"labels": labels}})
    await world.apply({"apiVersion": "v1", "kind": "ConfigMap", **marks(node=node)})
    await world.until(lambda: filled(world))


async def filled(world: World) -> bool:
    return "modelFormat" in (await world.get(CLUSTER_BASE_MODELS, "llama"))["spec"]


async def is_ready(world: World, name: str) -> bool:
    status = (await world.get(INFERENCE_SERVICES, name, "prod")).get("status") or {}
    return any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", []))


@pytest.mark.spec("IS-34")
@in_world(nodes=2)
async def test_services_of_every_shape_are_written_once(world: World) -> None:
    await world.sleep(1)
    manager = world.start_manager(ROOMS)
    await stage(world)
    pinned = {"name": "sglang", "kind": "ServingRuntime", "autoSync": False}
    annotations = {"note": "n", "prometheus.io/scrape": "true"}
    await world.apply(
        kind(INFERENCE_SERVICES, service("raw", router=ROUTER, annotations=annotations)),
        kind(INFERENCE_SERVICES, service("pin", runtime_ref=pinned)),
        kind(INFERENCE_SERVICES, service("none", engine={"minReplicas": 1, "autoscaler": {"class": "None"}})),
        kind(INFERENCE_SERVICES, service("native", deploymentMode="OMENative", engine={"minReplicas": 2})),
    )
    for name in ("raw", "pin", "none"):
        await world.until(lambda name=name: is_ready(world, name))
    await world.until(lambda: world.find(INFERENCE_REPLICAS, "native-engine", "prod"))
    await world.settle(3)
    world.requests.clear()
    await world.annotate(INFERENCE_SERVICES, "raw", "prod", **{"ome.io/runtime-sync": "a request, not content"})
    await world.settle(3)
    assert [call for call in writes(world.requests) if "/status" not in call] == []
    await manager.stop()
    world.requests.clear()
    manager = world.start_manager(ROOMS)
    await world.settle(5)
    assert [call for call in writes(world.requests) if "/status" not in call] == []
    await manager.stop()


@pytest.mark.spec("RR-6", "RR-9", "IS-48", "IS-50")
@in_world(nodes=2, rooms=ROOMS)
async def test_a_pin_a_scaling_and_an_edit_by_hand(world: World) -> None:
    await stage(world)
    reference = {"name": "sglang", "kind": "ServingRuntime", "autoSync": False}
    await world.apply(kind(INFERENCE_SERVICES, service(runtime_ref=reference, engine={"maxReplicas": 5})))
    await world.until(lambda: is_ready(world, "chat"))
    pinned = (await world.get(INFERENCE_SERVICES, "chat", "prod"))["status"]["pinnedRevisionName"]
    assert await world.find(CONTROLLER_REVISIONS, pinned, "ome") is not None
    generation = (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["metadata"]["generation"]
    await world.apply(kind(SERVING_RUNTIMES, quick_runtime("0.85")))

    async def drifted() -> bool:
        conditions = (await world.get(INFERENCE_SERVICES, "chat", "prod"))["status"]["conditions"]
        return any(item["type"] == "RuntimeDrifted" for item in conditions)

    await world.until(drifted)
    assert (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["metadata"]["generation"] == generation
    await world.annotate(INFERENCE_SERVICES, "chat", "prod", **{"ome.io/runtime-sync": "t1"})

    async def rolled() -> bool:
        template = (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["spec"]["template"]
        return bool(template["spec"]["containers"][0]["args"][-1] == "--mem-frac=0.85")

    await world.until(rolled)
    assert not await drifted()
    container = {"name": "ome-container", "image": "somebody/elses:1"}
    edit = {"spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    await world.client.patch(DEPLOYMENTS, "chat-engine", "prod", edit, type=PatchType.STRATEGIC)

    async def put_back() -> bool:
        spec = (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["spec"]
        image = spec["template"]["spec"]["containers"][0]["image"]
        return bool(image.startswith("docker.io/lmsysorg") and spec["replicas"] == 2)

    await world.until(put_back)
    for resource in (SERVICES, HPAS, PDBS):
        await world.client.delete(resource, "chat-engine", "prod")
        await world.until(lambda resource=resource: world.find(resource, "chat-engine", "prod"))
