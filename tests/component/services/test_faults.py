"""Services under an API server that refuses, loses and delays: what is left in the end must be as without it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ome.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    HPAS,
    INFERENCE_SERVICES,
    PDBS,
    SERVICES,
    SERVING_RUNTIMES,
)
from ome.local.apiserver.faults import Fault, FaultKind
from ome.local.apiserver.http import HttpRequest

from .objects import model_and_runtime, pinned, runtime, service
from .stage import OME, Stage, run

KINDS = (
    FaultKind.CONFLICT,
    FaultKind.TOO_MANY_REQUESTS,
    FaultKind.INTERNAL_ERROR,
    FaultKind.TIMEOUT_BEFORE,
    FaultKind.TIMEOUT_AFTER,
    FaultKind.SLOW,
    FaultKind.DROP_STREAM,
)


async def story(stage: Stage, pause: float) -> None:
    """A pinned and a live service through an edit, a roll forward, a roll back and a removal of a component."""
    await model_and_runtime(stage)
    await stage.apply(INFERENCE_SERVICES, pinned())
    await stage.apply(INFERENCE_SERVICES, service("live", router={"runner": {"name": "router", "image": "r:1"}}))
    await stage.settle(pause)
    await stage.apply(SERVING_RUNTIMES, runtime("0.85"))
    await stage.settle(pause)
    token = {"metadata": {"annotations": {"ome.io/runtime-sync": "t1"}}}
    await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", token)
    await stage.client.patch(INFERENCE_SERVICES, "live", "prod", {"spec": {"engine": {"maxReplicas": 4}}})
    await stage.settle(pause)
    await stage.client.patch(INFERENCE_SERVICES, "live", "prod", {"spec": {"router": None}})
    await stage.client.delete(DEPLOYMENTS, "live-engine", "prod", propagation="Background")
    await stage.settle(pause)


async def outcome(stage: Stage) -> dict[str, Any]:
    """What users see at the end, without times and counters."""
    found: dict[str, Any] = {}
    for resource in (DEPLOYMENTS, SERVICES, HPAS, PDBS):
        for item in (await stage.client.list(resource, "prod")).items:
            spec = {key: value for key, value in item["spec"].items() if not key.startswith(("clusterIP", "ip"))}
            meta = item["metadata"]
            found[f"{resource.plural}/{meta['name']}"] = (spec, meta.get("labels"))
    for item in (await stage.client.list(INFERENCE_SERVICES, "prod")).items:
        status = dict(item["status"])
        status["conditions"] = [
            {key: value for key, value in condition.items() if key != "lastTransitionTime"}
            for condition in status["conditions"]
        ]
        status["settled"] = status.pop("observedGeneration") == item["metadata"]["generation"]
        found[f"services/{item['metadata']['name']}/status"] = status
    revisions = (await stage.client.list(CONTROLLER_REVISIONS, OME)).items
    found["revisions"] = sorted(item["metadata"]["name"] for item in revisions)
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What a calm run of the story leaves."""
    found: dict[str, Any] = {}

    async def calm(stage: Stage) -> None:
        await story(stage, 10)
        await stage.settle(120)
        found.update(await outcome(stage))

    run(calm)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_faults_leave_no_trace(seed: int, expected: dict[str, Any]) -> None:
    async def stormy(stage: Stage) -> None:
        chance = random.Random(seed)

        def fault(request: HttpRequest) -> Fault | None:
            if chance.random() > 0.25:
                return None
            return Fault(chance.choice(KINDS), seconds=chance.choice((0.1, 2.0)), after=chance.randrange(3))

        stage.fault = fault
        await story(stage, 5)
        if seed % 2:
            assert stage.restart is not None
            stage.fault = None
            await stage.restart()
        stage.fault = None
        await stage.settle(300)
        assert await outcome(stage) == expected
        stage.calls.clear()
        await stage.settle(120)
        assert [call for call in stage.calls if call[0] != "GET"] == []

    run(stormy)
