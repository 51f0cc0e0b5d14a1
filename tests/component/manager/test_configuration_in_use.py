"""Where the manager looks for its configuration and revisions, and when an edit of the ConfigMap is used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.kube.controller import Environment
from ome.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from ome.local.inprocess import InProcessTransport
from ome.manager.flags import parse_flags
from ome.manager.metrics import ManagerMetrics
from ome.manager.process import Manager, ome_namespace
from tests.support.world import ADMIN, World, in_world

ROOMS = ("ome.models", "ome.runtimes", "ome.services")
RUNNER = {"name": "ome-container", "image": "busybox:1", "ports": [{"containerPort": 8080}]}
RUNTIME = {"metadata": {"name": "rt", "namespace": "prod"}, "spec": {"engineConfig": {"runner": RUNNER}}}
EMBEDDED = pytest.mark.embedded_only("builds a manager in the API server's own loop")


def kind(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def service(**reference: Any) -> dict[str, Any]:
    runtime = {"name": "rt", "kind": "ServingRuntime", **reference}
    spec = {"runtime": runtime, "engine": {"minReplicas": 1, "maxReplicas": 1}}
    return kind(INFERENCE_SERVICES, {"metadata": {"name": "chat", "namespace": "prod"}, "spec": spec})


async def environment(world: World, *arguments: str) -> Environment:
    assert world.server is not None
    transport = InProcessTransport(world.server, ADMIN)
    namespace = ome_namespace()
    manager = Manager(
        parse_flags(arguments), transport, clock=world.clock, namespace=namespace, metrics=ManagerMetrics()
    )
    return await manager.environment()


async def configure(world: World, seconds: int) -> None:
    """Write the grace period that every pod gets."""
    name = "inferenceservice-config"
    deploy = json.loads((await world.get(CONFIG_MAPS, name, world.namespace))["data"]["deploy"])
    data = {"deploy": json.dumps({**deploy, "terminationGracePeriodSeconds": seconds})}
    await world.merge(CONFIG_MAPS, name, world.namespace, {"data": data})


async def grace(world: World) -> int:
    template = (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["spec"]["template"]
    return int(template["spec"]["terminationGracePeriodSeconds"])


async def touch(world: World, note: str) -> int:
    """Let the service be reconciled; the grace period its pods have then."""
    await world.annotate(INFERENCE_SERVICES, "chat", "prod", note=note)
    await world.sleep(3)
    template = (await world.get(DEPLOYMENTS, "chat-engine", "prod"))["spec"]["template"]
    assert template["metadata"]["annotations"]["note"] == note, "not reconciled"
    return await grace(world)


@EMBEDDED
@pytest.mark.spec("MA-6")
@pytest.mark.parametrize("ttl", [30, 0])
@in_world(workloads=False)
async def test_an_edit_of_the_configuration_starts_no_reconcile_and_is_used_within_the_ttl(
    world: World, ttl: int
) -> None:
    await world.make_namespace("prod")
    await configure(world, 11)
    world.start_manager(ROOMS, await environment(world, f"--config-cache-ttl={ttl}s"))
    await world.apply(kind(SERVING_RUNTIMES, RUNTIME), service())
    await world.sleep(5)
    assert await grace(world) == 11
    await configure(world, 22)
    await world.sleep(120)
    assert await grace(world) == 11, "the edit alone starts nothing"
    assert await touch(world, "first") == 22
    await configure(world, 33)
    assert await touch(world, "at once") == (33 if ttl == 0 else 22)
    await world.sleep(ttl)
    assert await touch(world, "after the time to live") == 33


@EMBEDDED
@in_world(workloads=False)
async def test_a_configuration_that_is_deleted_stays_in_force_and_rolls_no_service(world: World) -> None:
    await world.make_namespace("prod")
    await configure(world, 11)
    world.start_manager(ROOMS, await environment(world, "--config-cache-ttl=0s"))
    await world.apply(kind(SERVING_RUNTIMES, RUNTIME), service())
    await world.sleep(5)
    before = await world.get(CONFIG_MAPS, "inferenceservice-config", world.namespace)
    await world.client.delete(CONFIG_MAPS, "inferenceservice-config", world.namespace)
    assert await touch(world, "without") == 11
    metadata = {"name": "inferenceservice-config", "namespace": world.namespace}
    await world.apply(kind(CONFIG_MAPS, {"metadata": metadata, "data": before["data"]}))
    await configure(world, 22)
    assert await touch(world, "made anew") == 22


@EMBEDDED
@pytest.mark.spec("MA-10")
@in_world(workloads=False, installed=False)
async def test_another_namespace_has_the_configuration_and_the_revisions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "other")
    world.namespace = "other"
    await world.install()
    for namespace in ("prod", "ome"):
        await world.make_namespace(namespace)
    await configure(world, 44)
    world.start_manager(ROOMS, await environment(world))
    await world.apply(kind(SERVING_RUNTIMES, RUNTIME), service(autoSync=False))
    await world.sleep(5)
    assert await grace(world) == 44
    pinned = (await world.get(INFERENCE_SERVICES, "chat", "prod"))["status"]["pinnedRevisionName"]
    assert [found["metadata"]["name"] for found in await world.list(CONTROLLER_REVISIONS, "other")] == [pinned]
    assert await world.list(CONTROLLER_REVISIONS, "ome") == []
