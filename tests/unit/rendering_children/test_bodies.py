"""Bodies of generated objects, from a rendered component."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.api.config import IngressConfig
from ome.rendering.children.access import AccessConfig, Backend, gateway_url, http_route, ingress
from ome.rendering.children.autoscaling import (
    Autoscaler,
    AutoscalerError,
    choose_autoscaler,
    pod_autoscaler,
    scaled_object,
)
from ome.rendering.children.deployment import deployment
from ome.rendering.children.disruption import Budget, BudgetError, disruption_budget, in_pods, resolve_budget
from ome.rendering.children.metadata import Owner
from ome.rendering.children.modelconfig import model_config_map, model_config_name
from ome.rendering.children.replica import inference_replica
from ome.rendering.children.router import router_access
from ome.rendering.children.services import component_service, external_service, front_selector
from ome.rendering.model import AutoscalerLayers, Component, DeploymentMode, DisruptionInput, ReplicaBounds
from tests.unit.rendering_children.builders import rendered

OWNER = Owner("prod", "chat", "uid-1")


def test_a_deployment_carries_the_metadata_of_its_template_and_no_replicas() -> None:
    body = deployment(OWNER, rendered())
    assert "replicas" not in body["spec"]
    assert body["metadata"]["labels"] == body["spec"]["template"]["metadata"]["labels"]
    assert body["metadata"]["annotations"] == body["spec"]["template"]["metadata"]["annotations"]
    assert body["spec"]["selector"] == {"matchLabels": {"app": "chat-engine"}}
    assert body["metadata"]["ownerReferences"][0]["controller"] is True


@pytest.mark.spec("IS-47")
def test_a_deployment_surges_by_one_unless_told_otherwise() -> None:
    spec = deployment(OWNER, rendered())["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (spec["progressDeadlineSeconds"], spec["revisionHistoryLimit"]) == (600, 10)
    given = {"type": "Recreate"}
    assert deployment(OWNER, rendered(deployment_strategy=given))["spec"]["strategy"] == given


def test_images_are_pulled_if_not_present_where_the_container_says_nothing() -> None:
    template = {
        "metadata": {"labels": {}},
        "spec": {
            "initContainers": [{"name": "i", "image": "x:latest"}],
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y", "imagePullPolicy": "Always"}],
        },
    }
    spec = deployment(OWNER, rendered(template=template))["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert [container["imagePullPolicy"] for container in spec["containers"]] == ["IfNotPresent", "Always"]


SELECTORS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a Raw component is selected by its app": ({}, {"app": "chat-engine"}),
    "an OMENative component by service, component and manager": (
        {"mode": DeploymentMode.OME_NATIVE},
        {"component": "engine", "ome.io/inferenceservice": "chat", "ome.io/managed-by": "OMENative"},
    ),
    "workers that the service declares are left out": (
        {"mode": DeploymentMode.OME_NATIVE, "leaders_only": True},
        {
            "component": "engine",
            "ome.io/inferenceservice": "chat",
            "ome.io/managed-by": "OMENative",
            "ome.io/runner": "leader",
        },
    ),
    "MultiNode leaders are those of this component alone": (
        {"mode": DeploymentMode.MULTI_NODE},
        {"app": "chat-engine", "ray.io/node-type": "head"},
    ),
}


@pytest.mark.parametrize("sentence", SELECTORS)
def test_component_service_selectors(sentence: str) -> None:
    changes, selector = SELECTORS[sentence]
    assert component_service(OWNER, rendered(**changes))["spec"]["selector"] == selector


@pytest.mark.spec("IS-35", "LA-3")
def test_pod_only_annotations_do_not_reach_a_service() -> None:
    component = rendered(annotations={"prometheus.io/scrape": "true", "rdma.ome.io/profile": "x", "note": "n"})
    assert component_service(OWNER, component)["metadata"]["annotations"] == {"note": "n"}
    assert deployment(OWNER, component)["metadata"]["annotations"]["prometheus.io/scrape"] == "true"


@pytest.mark.spec("IS-40")
def test_the_external_service_has_one_port_named_http_and_two_labels() -> None:
    annotations = {"service.beta.kubernetes.io/x": "1", "note": "n", "ome.io/service-type": "LoadBalancer"}
    port = {"name": "http1", "port": 8000, "targetPort": 8000, "protocol": "TCP", "appProtocol": "h2c"}
    body = external_service(OWNER, front_selector("chat", "router"), port, annotations)
    assert body["metadata"]["labels"] == {"ome.io/inferenceservice": "chat", "component": "external-service"}
    assert body["metadata"]["annotations"] == {"service.beta.kubernetes.io/x": "1"}
    assert body["spec"] == {
        "type": "LoadBalancer",
        "selector": {"ome.io/inferenceservice": "chat", "component": "router"},
        "ports": [{"name": "http", "port": 8000, "targetPort": 8000, "protocol": "TCP"}],
    }


BUDGETS: dict[str, tuple[Budget, int, int, int]] = {
    "90% of 4 gangs of 3 pods is 11": (Budget(min_available="90%"), 4, 3, 11),
    "25% of 12 pods may be down: 9 stay": (Budget(max_unavailable="25%"), 4, 3, 9),
    "an integer minimum stays": (Budget(min_available=2), 4, 3, 2),
    "more than all may be down: 0 stay": (Budget(max_unavailable=20), 4, 3, 0),
    "zero protects nothing": (Budget(min_available=0), 4, 3, 0),
}


@pytest.mark.parametrize("sentence", BUDGETS)
def test_native_budgets_are_counted_in_pods(sentence: str) -> None:
    budget, instances, pods, minimum = BUDGETS[sentence]
    assert in_pods(budget, instances, pods) == Budget(min_available=minimum)


def test_a_budget_is_the_components_else_the_modes_else_none() -> None:
    default = Budget(max_unavailable=1)
    assert resolve_budget("engine", DisruptionInput(min_available="50%"), default) == Budget(min_available="50%")
    assert resolve_budget("engine", DisruptionInput(min_available=0), default) == Budget(min_available=0)
    assert resolve_budget("engine", DisruptionInput(), default) is default
    assert resolve_budget("engine", DisruptionInput(), None) is None
    body = disruption_budget(OWNER, rendered(), Budget(min_available=0))
    assert body["spec"] == {"selector": {"matchLabels": {"app": "chat-engine"}}, "minAvailable": 0}


@pytest.mark.parametrize(
    "wanted",
    [DisruptionInput(min_available=1, max_unavailable=1), DisruptionInput(min_available="110%")],
)
def test_a_contradicting_budget_is_refused(wanted: DisruptionInput) -> None:
    with pytest.raises(BudgetError, match=r"^failed to resolve decoder PodDisruptionBudget"):
        resolve_budget("decoder", wanted, None)


LAYERS: dict[str, tuple[AutoscalerLayers, DeploymentMode, tuple[str, str]]] = {
    "the service's block wins": (
        AutoscalerLayers(service={"class": "None"}, runtime={"class": "External"}),
        DeploymentMode.RAW_DEPLOYMENT,
        ("None", "isvc"),
    ),
    "then the runtime's": (
        AutoscalerLayers(runtime={"class": "External"}, annotations={"ome.io/autoscalerClass": "hpa"}),
        DeploymentMode.RAW_DEPLOYMENT,
        ("External", "runtime"),
    ),
    "then the legacy annotations": (
        AutoscalerLayers(annotations={"ome.io/autoscalerClass": "external"}),
        DeploymentMode.RAW_DEPLOYMENT,
        ("External", "legacy"),
    ),
    "a utilization alone is a legacy HPA": (
        AutoscalerLayers(annotations={"ome.io/targetUtilizationPercentage": "60"}),
        DeploymentMode.RAW_DEPLOYMENT,
        ("HPA", "legacy"),
    ),
    "legacy annotations say nothing to OMENative": (
        AutoscalerLayers(annotations={"ome.io/autoscalerClass": "external"}),
        DeploymentMode.OME_NATIVE,
        ("HPA", "default"),
    ),
    "nothing said is an HPA": (AutoscalerLayers(), DeploymentMode.RAW_DEPLOYMENT, ("HPA", "default")),
}


@pytest.mark.parametrize("sentence", LAYERS)
def test_the_autoscaler_comes_from_one_layer(sentence: str) -> None:
    layers, mode, expected = LAYERS[sentence]
    chosen = choose_autoscaler(layers, mode)
    assert (chosen.kind, chosen.source) == expected


def test_the_default_autoscaler_targets_80_percent_cpu() -> None:
    body = pod_autoscaler(OWNER, rendered(replicas=ReplicaBounds(minimum=1, maximum=3)), Autoscaler("HPA", "default"))
    assert body["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-engine"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    }


@pytest.mark.spec("IS-10")
def test_keda_fields_are_copied_word_for_word() -> None:
    trigger = {"type": "prometheus", "metadata": {"query": "x", "threshold": "5"}}
    keda = {"triggers": [trigger], "pollingInterval": 7, "advanced": {"a": 1}}
    component = rendered(mode=DeploymentMode.OME_NATIVE, replicas=ReplicaBounds(minimum=0, maximum=4))
    body = scaled_object(OWNER, component, Autoscaler("KEDA", "isvc", keda=keda))
    assert body["metadata"]["name"] == "scaledobject-chat-engine"
    assert body["spec"] == {
        "scaleTargetRef": {"apiVersion": "ome.io/v1beta1", "kind": "InferenceReplica", "name": "chat-engine"},
        "minReplicaCount": 0,
        "maxReplicaCount": 4,
        "triggers": [trigger],
        "pollingInterval": 7,
        "advanced": {"a": 1},
    }
    with pytest.raises(AutoscalerError, match="KEDA autoscaler requires at least one trigger"):
        scaled_object(OWNER, component, Autoscaler("KEDA", "legacy"))


@pytest.mark.spec("IS-56")
def test_the_model_listing_leaves_unset_parts_out() -> None:
    spec = {
        "storage": {"storageUri": "hf://meta-llama/probe", "path": "/raid/models/pm-minimal"},
        "modelFormat": {"name": "probeformat", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.45.0"},
    }
    body = model_config_map(OWNER, "pm-minimal", spec)
    assert body["metadata"]["name"] == "modelconfig-chat"
    assert body["metadata"]["labels"] == {"ome.io/inferenceservice": "chat"}
    assert json.loads(body["data"]["models.json"]) == [
        {
            "modelName": "pm-minimal",
            "modelSpec": {
                "storageUri": "hf://meta-llama/probe",
                "path": "/raid/models/pm-minimal",
                "modelFormatName": "probeformat",
                "modelFormatVersion": "1.0.0",
                "modelFrameworkName": "transformers",
                "modelFrameworkVersion": "4.45.0",
            },
        }
    ]
    assert model_config_name("x" * 30 + "12345678901234567890") == "modelconfig-12345678901234567890"


def test_a_router_may_read_pods_and_nothing_else() -> None:
    component = rendered(component=Component.ROUTER, name="chat-router")
    account, role, binding = router_access(OWNER, component)
    assert {body["metadata"]["name"] for body in (account, role, binding)} == {"chat-router"}
    assert "app" not in account["metadata"]["labels"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "chat-router", "namespace": "prod"}]


def test_a_projected_replica_carries_its_stamps_and_leaves_the_count_to_its_owner() -> None:
    component = rendered(
        mode=DeploymentMode.OME_NATIVE,
        lifecycle={"updateStrategy": {"type": "RecreatePod"}},
        min_ready_seconds=5,
        annotations={"note": "n", "ome.io/reset-instances": "all"},
        revision_excluded_annotations=("a", "note"),
    )
    annotations = {"ome.io/rollout-paused": "freeze", "ome.io/revision-history-limit": "4"}
    body = inference_replica(OWNER, component, generation=7, annotations=annotations, pairing_protocol="p1")
    assert body["metadata"]["annotations"] == {
        "note": "n",
        "ome.io/controller-write": "true",
        "ome.io/parent-generation": "7",
        "ome.io/revision-excluded-annotation-keys": "a,note",
    }
    spec = body["spec"]
    assert spec.pop("runners") == [{"name": "default", "size": 1, "template": component.template}]
    assert spec == {
        "component": "engine",
        "parentRef": {"name": "chat"},
        "paused": True,
        "pauseMode": "Freeze",
        "lifecycle": {"updateStrategy": {"type": "RecreatePod"}},
        "minReadySeconds": 5,
        "revisionHistoryLimit": 4,
        "pairingProtocol": "p1",
    }


@pytest.mark.parametrize("value", ["True", "yes", ""])
def test_another_spelling_is_no_pause(value: str) -> None:
    component = rendered(mode=DeploymentMode.OME_NATIVE)
    body = inference_replica(OWNER, component, generation=1, annotations={"ome.io/rollout-paused": value})
    assert "paused" not in body["spec"]


def test_a_gang_projects_a_leader_and_its_workers() -> None:
    worker = {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "ome-container"}]}}
    component = rendered(mode=DeploymentMode.OME_NATIVE, worker_template=worker, worker_size=2)
    body = inference_replica(OWNER, component, generation=1, annotations={}, replicas=3)
    assert [(runner["name"], runner["size"]) for runner in body["spec"]["runners"]] == [("leader", 1), ("worker", 2)]
    assert body["spec"]["replicas"] == 3


@pytest.mark.spec("IS-54")
def test_every_ingress_backend_has_the_first_port_of_its_service() -> None:
    backends = {"engine": Backend("engine", 8080), "router": Backend("router", 8000), "decoder": Backend("decoder", 9)}
    config = AccessConfig.configured(IngressConfig(ingress_class_name="istio"))
    body = ingress(OWNER, config, backends, {"note": "n", "ome.io/runtime-sync": "t"})
    rules = {
        rule["host"]: (
            rule["http"]["paths"][0]["backend"]["service"]["name"],
            rule["http"]["paths"][0]["backend"]["service"]["port"]["number"],
        )
        for rule in body["spec"]["rules"]
    }
    assert rules == {
        "chat.prod.svc.cluster.local": ("chat-router", 8000),
        "chat-router.prod.svc.cluster.local": ("chat-router", 8000),
        "chat-engine.prod.svc.cluster.local": ("chat-engine", 8080),
        "chat-decoder.prod.svc.cluster.local": ("chat-decoder", 9),
    }
    assert body["metadata"]["annotations"] == {"note": "n"}
    assert "labels" not in body["metadata"]


def test_a_route_rewrites_its_prefix_and_names_the_service() -> None:
    config = AccessConfig(gateway="istio-system/gw", shared_host_prefix="models", domain="example.com")
    body = http_route(
        OWNER, config, "chat-engine", Backend("engine", 8080, 30), {"networking.knative.dev/visibility": "x"}
    )
    rule = body["spec"]["rules"][0]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/prod/chat-engine/"}}]
    assert rule["backendRefs"] == [{"name": "chat-engine", "port": 8080}]
    assert rule["timeouts"] == {"request": "30s"}
    assert body["metadata"]["labels"] == {"ome.io/inferenceservice": "chat", "component": "engine"}
    assert gateway_url(config, OWNER) == "http://models.example.com/prod/chat/"


def test_a_services_annotations_override_the_operators_access() -> None:
    config = AccessConfig().for_service(
        {
            "ome.io/ingress-disable-creation": "false",
            "ome.io/ingress-domain": "example.com",
            "ome.io/ingress-url-scheme": "",
        }
    )
    assert (config.disable_ingress, config.domain, config.url_scheme) == (False, "example.com", "http")
