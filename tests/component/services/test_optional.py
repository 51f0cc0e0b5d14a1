"""Paths that need other projects' resources: KEDA's ScaledObjects, the Gateway API's HTTPRoutes, PodMonitors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    HTTP_ROUTES,
    INFERENCE_SERVICES,
    POD_MONITORS,
    SCALED_OBJECTS,
    SERVICES,
)

from .objects import model_and_runtime, service, serving
from .stage import Stage, run

KEDA = {"class": "KEDA", "keda": {"triggers": [{"type": "cron", "metadata": {"desiredReplicas": "2"}}]}}


async def patch(stage: Stage, body: dict[str, Any]) -> None:
    await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", body)
    await stage.settle()


@pytest.mark.spec("IS-10")
def test_keda_takes_over_from_the_hpa_and_back() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.define(SCALED_OBJECTS)
        await serving(stage, service(engine={"minReplicas": 1, "maxReplicas": 4}))
        assert await stage.find(HPAS, "chat-engine") is not None
        await patch(stage, {"spec": {"engine": {"minReplicas": 0, "autoscaler": KEDA}}})
        scaled = await stage.get(SCALED_OBJECTS, "scaledobject-chat-engine")
        assert scaled["spec"] == {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-engine"},
            "minReplicaCount": 0,
            "maxReplicaCount": 4,
            "triggers": KEDA["keda"]["triggers"],  # type: ignore[index]
        }
        assert await stage.find(HPAS, "chat-engine") is None
        autoscaler = (await stage.status())["components"]["engine"]["autoscaler"]
        assert (autoscaler["class"], autoscaler["managedBy"], autoscaler["specSource"]) == ("KEDA", "ome", "isvc")
        await patch(stage, {"spec": {"engine": {"minReplicas": 1, "autoscaler": None}}})
        assert await stage.find(SCALED_OBJECTS, "scaledobject-chat-engine") is None
        assert await stage.find(HPAS, "chat-engine") is not None

    run(scenario)


def test_keda_without_its_resource_stops_the_component_after_its_service() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(engine={"autoscaler": KEDA}))
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-engine") is not None
        assert await stage.find(SERVICES, "chat-engine") is not None
        assert await stage.find(SERVICES, "chat") is None
        assert "url" not in await stage.status()

    run(scenario)


def test_a_foreign_scaler_of_the_name_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "else"}
        foreign = {
            "metadata": {"name": "chat-engine", "namespace": "prod"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 7},
        }
        await stage.create(HPAS, foreign)
        await stage.apply(INFERENCE_SERVICES, service())
        await stage.settle()
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["scaleTargetRef"]["name"] == "else"
        assert await stage.find(DEPLOYMENTS, "chat-engine") is not None

    run(scenario)
    assert "is not controlled by expected owner" in caplog.text


def test_more_replicas_at_least_than_at_most_stop_at_the_autoscaler(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(engine={"minReplicas": 5, "maxReplicas": 2}))
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-engine") is not None
        assert await stage.find(HPAS, "chat-engine") is None

    run(scenario)
    assert "raw engine: minReplicas must not exceed maxReplicas: 5 > 2" in caplog.text


def test_routes_appear_with_their_components_and_ready_waits_for_the_gateway() -> None:
    ingress = {
        "disableIngressCreation": False,
        "enableGatewayAPI": True,
        "ingressDomain": "example.com",
        "sharedHostPrefix": "llm",
        "omeIngressGateway": "gateways/main",
        "omeIngressGatewayClass": "envoy",
        "defaultRouteTimeoutSeconds": 0,
    }

    async def accept(stage: Stage, name: str, status: str = "True") -> None:
        accepted = {"type": "Accepted", "status": status, "reason": "Accepted" if status == "True" else "NoGateway"}
        body = {"status": {"parents": [{"conditions": [accepted]}]}}
        await stage.client.patch(HTTP_ROUTES, name, "prod", body, subresource="status")
        await stage.settle()

    async def scenario(stage: Stage) -> None:
        await stage.define(HTTP_ROUTES)
        await model_and_runtime(stage)
        stage.hold_pods = True
        await stage.apply(INFERENCE_SERVICES, service())
        await stage.settle()
        waiting = await stage.condition("IngressReady")
        assert waiting is not None
        assert (waiting["reason"], waiting["message"]) == (
            "ComponentNotReady",
            "engine component not ready for HTTPRoute creation",
        )
        assert (await stage.client.list(HTTP_ROUTES, "prod")).items == []
        stage.hold_pods = False
        await stage.ready_pods()
        await stage.settle()
        programming = await stage.condition("IngressReady")
        assert programming is not None
        assert (programming["reason"], programming["message"]) == (
            "ParentStatusNotAvailable",
            "engine HTTPRoute awaiting gateway programming",
        )
        route = await stage.get(HTTP_ROUTES, "chat")
        assert route["spec"]["hostnames"] == ["llm.example.com"]
        assert route["spec"]["rules"][0]["matches"] == [{"path": {"type": "PathPrefix", "value": "/prod/chat/"}}]
        assert route["spec"]["rules"][0]["timeouts"] == {"request": "0s"}
        assert route["spec"]["parentRefs"][0]["name"] == "main"
        await accept(stage, "chat-engine")
        await accept(stage, "chat", "False")
        refused = await stage.condition("IngressReady")
        assert refused is not None
        assert (refused["status"], refused["reason"]) == ("False", "NoGateway")
        await accept(stage, "chat")
        await stage.ready()
        status = await stage.status()
        assert status["url"] == "http://llm.example.com/prod/chat/"
        assert status["address"]["url"] == "http://chat-engine.prod.svc.cluster.local:8080"
        assert [item["name"] for item in status["addresses"]] == ["envoy", "cluster-local"]
        assert await stage.find(SERVICES, "chat") is None

    run(scenario, config={"ingress": json.dumps(ingress)})


def test_a_pod_monitor_is_made_where_its_operator_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.define(POD_MONITORS)
        annotations = {"prometheus.ome.io/extra-endpoints": "web:/extra,broken"}
        await serving(stage, service(engine={"annotations": annotations}))
        monitor = await stage.get(POD_MONITORS, "chat-engine")
        assert monitor["spec"] == {
            "selector": {"matchLabels": {"app": "chat-engine"}},
            "podMetricsEndpoints": [
                {"port": "http1", "path": "/metrics"},
                {"port": "web", "path": "/extra", "interval": "10s"},
            ],
        }

    run(scenario)
