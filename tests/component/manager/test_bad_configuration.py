"""A manager that starts on a bad ConfigMap says which entry is bad, and goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.kube.resources import CONFIG_MAPS
from ome.local.inprocess import InProcessTransport
from ome.manager.flags import StartupProblem, parse_flags
from ome.manager.metrics import ManagerMetrics
from ome.manager.process import Manager
from tests.support.world import ADMIN, World, in_world


async def start(world: World) -> None:
    assert world.server is not None
    manager = Manager(
        parse_flags([]),
        InProcessTransport(world.server, ADMIN),
        clock=world.clock,
        namespace="ome",
        metrics=ManagerMetrics(),
    )
    await manager.environment()


@pytest.mark.spec("IN-4")
@pytest.mark.embedded_only("builds a manager in the API server's own loop")
@in_world(workloads=False, installed=False)
async def test_what_stops_the_start(world: World) -> None:
    await world.make_namespace("ome")
    good = {"omenativeStatus": "{}"}
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"defaultDeploymentMode": "Serverless"}, "Failed to initialize deployment configuration", "Serverless"),
        (
            {"replicas": {"defaultMaxReplicas": {"engine": 0}}},
            "Failed to initialize deployment configuration",
            "invalid deploy config, replicas.defaultMaxReplicas.engine must be > 0, got 0",
        ),
    ]
    for deploy, text, error in cases:
        data = {**good, "deploy": json.dumps(deploy)}
        metadata = {"name": "inferenceservice-config", "namespace": "ome"}
        await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        with pytest.raises(StartupProblem) as problem:
            await start(world)
        assert problem.value.text == text
        assert error in problem.value.error
    await world.merge(CONFIG_MAPS, "inferenceservice-config", "ome", {"data": {"deploy": "{}"}})
    await start(world)
