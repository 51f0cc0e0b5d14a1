"""The manifests of an install: roles, webhook configurations, the manager's Deployment, the files under `config/`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from ome.admission.certificates import CONFIGURATIONS, SECRET_NAME, SERVICE_NAME
from ome.admission.server import Webhooks
from ome.install import ServiceWebhook, UrlWebhook, manifests, roles, webhooks

ROOT = Path(__file__).parents[3]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in objects if entry["kind"] == kind]


def hooks(**options: Any) -> dict[str, dict[str, Any]]:
    objects = manifests(webhook=options.pop("webhook", UrlWebhook("https://127.0.0.1:9443")), **options)
    configurations = of_kind(objects, "MutatingWebhookConfiguration") + of_kind(
        objects, "ValidatingWebhookConfiguration"
    )
    return {hook["name"]: hook for configuration in configurations for hook in configuration["webhooks"]}


@pytest.mark.spec("IN-5")
def test_webhook_configurations_name_the_ca_and_fail_closed() -> None:
    objects = manifests(webhook=ServiceWebhook(), certificates="cert-manager")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (configuration,) = of_kind(objects, kind)
        assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "ome/serving-cert"}
        for hook in configuration["webhooks"]:
            assert hook["failurePolicy"] == "Fail"
            assert hook["sideEffects"] == "None"
    found = hooks()
    assert found["inferenceservice.ome-webhook-server.defaulter"]["clientConfig"]["url"].endswith(
        "/mutate-ome-io-v1beta1-inferenceservice"
    )
    assert found["inferenceservice.ome-webhook-server.validator"]["clientConfig"]["url"].endswith(
        "/validate-ome-io-v1beta1-inferenceservice"
    )


def test_the_revision_guard_is_called_for_omes_own_revisions_only() -> None:
    guard = hooks(namespace="ome")["controllerrevision-immutability.ome-webhook-server.validator"]
    assert guard["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ome"}}
    assert guard["rules"][0]["operations"] == ["UPDATE"]
    (condition,) = guard["matchConditions"]
    assert "oldObject.metadata.annotations['ome.io/created-by'] == 'ome-controller'" in condition["expression"]


def test_the_pod_webhook_sees_service_pods_outside_control_planes() -> None:
    pods = hooks()["ome-pod-mutator-webhook.ome-webhook-server.mutator"]
    assert pods["objectSelector"]["matchExpressions"] == [{"key": "ome.io/inferenceservice", "operator": "Exists"}]
    assert pods["namespaceSelector"]["matchExpressions"] == [{"key": "control-plane", "operator": "DoesNotExist"}]


def test_every_configured_path_is_served_and_every_served_path_configured() -> None:
    configured = {hook.path for hook in (*webhooks.MUTATING_HOOKS, *webhooks.VALIDATING_HOOKS)}
    assert configured == set(Webhooks.paths())


def test_the_certificates_names_agree_with_the_manifests() -> None:
    assert SECRET_NAME == roles.WEBHOOK_SECRET
    assert SERVICE_NAME == webhooks.SERVICE_NAME
    assert [name for _, name in CONFIGURATIONS] == [roles.MUTATING, roles.VALIDATING]


def test_names_of_webhooks_are_domains_of_three_labels() -> None:
    assert all(name.count(".") >= 2 for name in hooks(features=("rolloutPolicy", "autoscalerPolicy")))


def test_policy_webhooks_come_with_their_feature() -> None:
    assert "rolloutpolicy.ome-webhook-server.validator" not in hooks()
    assert "rolloutpolicy.ome-webhook-server.validator" in hooks(features=("rolloutPolicy",))


def test_with_mounted_certificates_the_manager_reaches_neither_secret_nor_configurations() -> None:
    objects = manifests(webhook=ServiceWebhook(), certificates="cert-manager")
    rules = [rule for kind in ("Role", "ClusterRole") for role in of_kind(objects, kind) for rule in role["rules"]]
    assert not any("admissionregistration.k8s.io" in rule["apiGroups"] for rule in rules)
    assert not any("secrets" in rule["resources"] and "create" in rule["verbs"] for rule in rules)


def test_the_manager_may_not_do_everything() -> None:
    for rule in roles.manager_rules():
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    pods = next(rule for rule in roles.manager_rules() if rule["resources"] == ["pods"])
    assert "update" not in pods["verbs"]
    secrets = [rule for rule in roles.manager_rules() if "secrets" in rule["resources"]]
    assert [set(rule["verbs"]) for rule in secrets] == [{"get", "list", "watch"}]


@pytest.mark.spec("MA-2")
def test_the_managers_arguments_in_order() -> None:
    (deployment,) = of_kind(manifests(workload=True), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "--metrics-bind-address=:8080",
        "--leader-elect",
        "--webhook",
        "--zap-encoder=console",
        "--inferenceservice-max-concurrent-reconciles=4",
        "--inferencereplica-max-concurrent-reconciles=4",
        "--config-cache-ttl=30s",
        "--accelerator-resources=nvidia.com/gpu,google.com/tpu",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=40s",
        "--leader-elect-retry-period=8s",
    ]


def test_a_changed_configuration_restarts_the_manager() -> None:
    def checksum(**options: Any) -> str:
        (deployment,) = of_kind(manifests(workload=True, **options), "Deployment")
        annotations: dict[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
        return annotations["checksum/config"]

    assert checksum(config="chart") == checksum(config="chart")
    assert checksum(config="chart") != checksum(config="kustomize")


def test_the_files_under_config_are_what_the_package_says() -> None:
    generator = runpy.run_path(str(ROOT / "hack" / "crds.py"))
    assert list(generator["differing"](generator["rendered"]())) == []


@pytest.mark.parametrize(
    ("path", "name", "facts"),
    [
        pytest.param(
            "config/models/meta/Llama-3.2-3B-Instruct.yaml",
            "llama-3-2-3b-instruct",
            {
                "storageUri": "hf://meta-llama/Llama-3.2-3B-Instruct",
                "path": "/raid/models/meta/llama-3-2-3b-instruct",
                "key": "hf-token",
            },
            id="Llama 3.2 3B",
        ),
        pytest.param(
            "config/models/Qwen/Qwen3-0.6B.yaml",
            "qwen3-0-6b",
            {"storageUri": "hf://Qwen/Qwen3-0.6B", "path": "/raid/models/Qwen/Qwen3-0.6B"},
            id="Qwen3 0.6B",
        ),
    ],
)
def test_the_models_that_walkthroughs_apply(path: str, name: str, facts: dict[str, str]) -> None:
    model = yaml.safe_load((ROOT / path).read_text())
    assert (model["kind"], model["metadata"]["name"]) == ("ClusterBaseModel", name)
    assert model["spec"]["storage"] == facts
    assert model["spec"]["modelCapabilities"] == ["TEXT_TO_TEXT"]


@pytest.mark.spec("ON-34")
def test_scale_and_status_go_past_the_webhooks() -> None:
    for hook in hooks(features=("rolloutPolicy", "autoscalerPolicy")).values():
        assert all("/" not in resource for rule in hook["rules"] for resource in rule["resources"])


@pytest.mark.spec("IN-6")
def test_without_the_secret_the_manager_cannot_start() -> None:
    (deployment,) = of_kind(manifests(workload=True, certificates="cert-manager"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "cert", "secret": {"secretName": "ome-webhook-server-cert", "defaultMode": 420}}]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert mount == {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs", "readOnly": True}
