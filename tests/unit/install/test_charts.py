"""The Helm charts, rendered. Without helm (`make helm` builds it) they are skipped: nothing else renders a chart."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ome.api.config import parse_config
from ome.install import manifests, roles
from ome.manager.state_metrics import StateMetrics

HELM = shutil.which("helm")
CHARTS = Path(__file__).parents[3] / "charts"
pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not on the PATH")


def rendered(chart: str, *settings: str) -> list[dict[str, Any]]:
    assert HELM is not None
    command = [HELM, "template", chart, str(CHARTS / chart), "--namespace", "ome"]
    for setting in settings:
        command += ["--set", setting]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    # The definitions are 2 MB: read in Python they take ten seconds.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [entry for entry in yaml.load_all(output, loader) if entry]


def named(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = [e for e in objects if e["kind"] == kind and (not name or e["metadata"]["name"] == name)]
    return found


def config(*settings: str) -> dict[str, Any]:
    data = named(rendered("ome-resources", *settings), "ConfigMap", "inferenceservice-config")["data"]
    return {key: json.loads(value) for key, value in data.items()}


@pytest.mark.spec("IN-1")
def test_policy_definitions_are_off_and_each_value_adds_one() -> None:
    def names(*settings: str) -> set[str]:
        return {entry["metadata"]["name"] for entry in rendered("ome-crd", *settings)}

    plain = names()
    assert not plain & {"rolloutpolicies.ome.io", "autoscalerpolicies.ome.io"}
    assert names("ome.rolloutPolicy.enabled=true") - plain == {"rolloutpolicies.ome.io"}
    assert names("ome.autoscalerPolicy.enabled=true") - plain == {"autoscalerpolicies.ome.io"}


@pytest.mark.spec("IN-2")
def test_what_the_defaults_install() -> None:
    objects = rendered("ome-resources")
    kinds = {entry["kind"] for entry in objects}
    assert not kinds & {"DaemonSet", "ServiceMonitor", "PodMonitor", "PrometheusRule", "ClusterServingRuntime"}
    assert named(objects, "Deployment", "ome-controller-manager")["spec"]["replicas"] == 3
    named(objects, "Deployment", "ome-prometheus")


@pytest.mark.spec("IN-3")
def test_the_configuration() -> None:
    entries = config()
    assert entries["deploy"] == {
        "defaultDeploymentMode": "RawDeployment",
        "replicas": {"defaultMinReplicas": 1, "defaultMaxReplicas": {"engine": 3, "decoder": 3, "router": 2}},
        "terminationGracePeriodSeconds": 600,
        "updateStrategy": {
            name: {"type": "SurgeThenDrain", "maxSurge": "25%", "maxUnavailable": "25%"}
            for name in ("engine", "decoder", "router")
        },
    }
    assert entries["podDisruptionBudget"] == {
        "rawDeployment": {"maxUnavailable": 1},
        "omeNative": {"maxUnavailable": 1},
    }
    retry = entries["lifecycle"]["updateRetry"]
    assert retry == {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2}


def test_the_manager_reads_what_the_chart_writes_and_it_is_what_the_package_says() -> None:
    data = named(rendered("ome-resources"), "ConfigMap", "inferenceservice-config")["data"]
    ours = named(manifests(config="chart"), "ConfigMap", "inferenceservice-config")["data"]
    chart, package = parse_config(data, starting=True), parse_config(ours, starting=True)
    for field in ("deploy", "ingress", "budgets", "lifecycle", "coordination", "rollout", "canary_analysis"):
        assert getattr(chart, field) == getattr(package, field), field


def test_null_turns_a_budget_off() -> None:
    assert config("ome.controller.podDisruptionBudget.rawDeployment=null")["podDisruptionBudget"] == {
        "omeNative": {"maxUnavailable": 1}
    }


@pytest.mark.spec("MA-2")
def test_the_arguments_in_order() -> None:
    def arguments(objects: list[dict[str, Any]]) -> list[str]:
        pod = named(objects, "Deployment", "ome-controller-manager")["spec"]["template"]["spec"]
        found: list[str] = pod["containers"][0]["args"]
        return found

    assert arguments(rendered("ome-resources")) == arguments(manifests(workload=True))
    assert not any(
        "config-cache-ttl" in a for a in arguments(rendered("ome-resources", "ome.controller.configCacheTTL=0"))
    )


@pytest.mark.spec("IN-5")
def test_webhooks_and_their_ca() -> None:
    objects = rendered("ome-resources")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        configuration = named(objects, kind)
        assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "ome/serving-cert"}
        assert {hook["failurePolicy"] for hook in configuration["webhooks"]} == {"Fail"}
        paths = {hook["clientConfig"]["service"]["path"] for hook in configuration["webhooks"]}
        assert any(path.endswith("-ome-io-v1beta1-inferenceservice") for path in paths)
        assert not any("policy" in path for path in paths)


@pytest.mark.spec("IN-26")
def test_the_managers_roles_and_bindings_are_the_packages_and_no_others_are_its() -> None:
    """The walkthroughs under exactly these are in tests/component/manager/test_roles.py."""
    access = [entry for entry in rendered("ome-resources") if entry["apiVersion"].startswith("rbac.")]
    bound = [entry for entry in access if any(s["name"] == roles.MANAGER for s in entry.get("subjects") or ())]
    granted = {entry["roleRef"]["name"] for entry in bound}
    chart = [*bound, *(entry for entry in access if "rules" in entry and entry["metadata"]["name"] in granted)]
    package = [e for e in roles.manager_access("ome", own_certificates=False) if e["kind"] != "ServiceAccount"]

    def place(entry: dict[str, Any]) -> tuple[str, str]:
        return entry["kind"], entry["metadata"]["name"]

    assert sorted(chart, key=place) == sorted(package, key=place)


def images(*settings: str) -> dict[str, str]:
    """Every image that the chart names, by what runs it."""
    objects = rendered("ome-resources", *settings)
    found = {
        container["name"]: container["image"]
        for entry in objects
        if entry["kind"] == "Deployment"
        for container in entry["spec"]["template"]["spec"]["containers"]
    }
    data = named(objects, "ConfigMap", "inferenceservice-config")["data"]
    entries = {key: json.loads(value) for key, value in data.items()}
    found |= {key: entry["image"] for key, entry in entries.items() if isinstance(entry, dict) and "image" in entry}
    benchmark = json.loads(named(objects, "ConfigMap", "benchmarkjob-config")["data"]["benchmarkjob"])
    return {**found, "benchmark": benchmark["podConfig"]["image"]}


def test_images_follow_the_hub() -> None:
    prometheus = "docker.io/prom/prometheus:v3.0.1"
    ours = dict.fromkeys(("omeAgent", "modelInit", "servingSidecar"), "r.example/x/ome-agent:1")
    assert images("global.hub=r.example/x", "global.tag=1") == {
        "manager": "r.example/x/ome-manager:1",
        "benchmark": "r.example/x/genai-bench:1",
        "prometheus": prometheus,
        **ours,
    }
    repositories = {"controller": "own/manager", "omeAgent": "own/agent", "benchmarkJob": "own/bench"}
    settings = [f"ome.{part}.image.repository={repository}" for part, repository in repositories.items()]
    assert images("global.hub=r.example/x", "global.tag=1", *settings) == {
        "manager": "own/manager:1",
        "benchmark": "own/bench:1",
        "prometheus": prometheus,
        **dict.fromkeys(ours, "own/agent:1"),
    }


@pytest.mark.spec("IN-9")
def test_alerts() -> None:
    (group,) = named(rendered("ome-resources", "prometheusRule.enabled=true"), "PrometheusRule")["spec"]["groups"]
    assert group["name"] == "ome.p0"
    assert {rule["alert"]: (rule["for"], rule["labels"]["component"]) for rule in group["rules"]} == {
        "OMEControllerDown": ("5m", "control-plane"),
        "OMEWebhookFailing": ("5m", "webhook"),
        "OMEServiceUnavailable": ("5m", "router"),
        "OMEMassRolloutFailure": ("15m", "coordination"),
        "OMEReconcileStalled": ("10m", "control-plane"),
    }
    for rule in group["rules"]:
        assert rule["labels"]["tier"] == "p0"
        assert rule["labels"]["severity"] == "critical"
        assert rule["annotations"]["runbook_url"].endswith("#" + rule["alert"].lower())


def test_alerts_about_single_services_have_a_switch_of_their_own() -> None:
    objects = rendered("ome-resources", "prometheusRule.rollouts.enabled=true")
    (group,) = named(objects, "PrometheusRule", "ome-rollout-alerts")["spec"]["groups"]
    rules = {rule["alert"]: rule for rule in group["rules"]}
    assert {name: (rule["for"], rule["labels"]["severity"]) for name, rule in rules.items()} == {
        "OMERevisionHeld": ("1m", "warning"),
        "OMEInstancesMissing": ("15m", "warning"),
        "OMEServiceNotReady": ("15m", "critical"),
        "OMERuntimePinBroken": ("5m", "warning"),
        "OMERuntimeDrifted": ("24h", "info"),
    }
    known = {family.name for family in StateMetrics(list, list, leads=bool).collect()}
    for rule in rules.values():
        assert set(re.findall(r"ome_[a-z_]+", rule["expr"])) <= known
    held = rules["OMERevisionHeld"]["annotations"]["summary"]
    assert held.startswith("{{ $labels.namespace }}/{{ $labels.isvc }}")


def test_the_labels_of_the_managers_series_are_kept() -> None:
    """A series about a service has that service's namespace; a scrape must not write the manager's over it."""
    objects = rendered("ome-resources", "serviceMonitor.enabled=true")
    data = named(objects, "ConfigMap", "ome-prometheus-config")["data"]
    jobs = {job["job_name"]: job for job in yaml.safe_load(data["prometheus.yml"])["scrape_configs"]}
    assert jobs["ome-control-plane"]["honor_labels"] is True
    (endpoint,) = named(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True


def test_serving_pods_are_scraped_with_their_revision() -> None:
    data = named(rendered("ome-resources"), "ConfigMap", "ome-prometheus-config")["data"]
    jobs = {job["job_name"]: job for job in yaml.safe_load(data["prometheus.yml"])["scrape_configs"]}
    assert jobs.keys() == {"ome-inferenceservice-pods", "ome-control-plane", "ome-prometheus"}
    labels = {rule.get("target_label") for rule in jobs["ome-inferenceservice-pods"]["relabel_configs"]}
    assert {"namespace", "pod", "inferenceservice", "component", "revision_hash"} <= labels
