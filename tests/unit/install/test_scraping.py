"""Which pods the bundled Prometheus scrapes, and how their series are labelled: the chart's scrape configuration, read
as Prometheus reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from ome.api.meta import ObjectMeta
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaSpec, ParentReference
from ome.kube.selectors import LabelSelector
from ome.omenative import pods
from ome.omenative.actions import CreatePod

from .test_charts import HELM, named, rendered

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not on the PATH")

Json = dict[str, Any]
JOB = "ome-inferenceservice-pods"
ACTIONS = {"replace", "keep", "drop"}


def job(*settings: str) -> Json:
    data = named(rendered("ome-resources", *settings), "ConfigMap", "ome-prometheus-config")["data"]
    (found,) = [job for job in yaml.safe_load(data["prometheus.yml"])["scrape_configs"] if job["job_name"] == JOB]
    return dict(found)


def serving_pod(**annotations: str) -> Json:
    """An OMENative pod as OME makes it, on a node, running and ready; it has one port."""
    replica = InferenceReplica(
        metadata=ObjectMeta(name="chat-engine", namespace="prod", uid="u"),
        spec=InferenceReplicaSpec(component="engine", parent_ref=ParentReference(name="chat")),
    )
    template = {"containers": [{"name": "ome-container", "ports": [{"containerPort": 8080, "name": "http1"}]}]}
    action = CreatePod("chat-engine-0-default-0", 0, 0, 1, "chat-engine-7f9c4d2b", "", "default", "")
    pod = pods.render(replica, (), {"podSpec": template}, action)
    pod["metadata"].setdefault("annotations", {}).update(annotations)
    ready = {"type": "Ready", "status": "True"}
    return {**pod, "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [ready]}}


def discovered(pod: Json) -> Json:
    """The labels that Prometheus' pod discovery gives a target."""

    def named_labels(prefix: str, values: dict[str, str]) -> Json:
        return {f"__meta_kubernetes_pod_{prefix}_{re.sub('[^a-zA-Z0-9_]', '_', key)}": v for key, v in values.items()}

    metadata, status = pod["metadata"], pod["status"]
    port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    ready = next((c["status"] for c in status["conditions"] if c["type"] == "Ready"), "unknown")
    return {
        "__address__": f"{status['podIP']}:{port}",
        "__metrics_path__": "/metrics",
        "__meta_kubernetes_namespace": metadata["namespace"],
        "__meta_kubernetes_pod_name": metadata["name"],
        "__meta_kubernetes_pod_phase": status["phase"],
        "__meta_kubernetes_pod_ready": ready.lower(),
        **named_labels("label", metadata["labels"]),
        **named_labels("annotation", metadata["annotations"]),
    }


def relabelled(rules: list[Json], labels: Json) -> Json | None:
    """The target's labels after all rules, None when a rule drops it."""
    labels = dict(labels)
    for rule in rules:
        action = rule.get("action", "replace")
        assert action in ACTIONS, f"teach this test {action}"
        value = ";".join(labels.get(name, "") for name in rule["source_labels"])
        match = re.fullmatch(rule.get("regex", "(.*)"), value, re.DOTALL)
        if action == "replace":
            if match is not None:
                template = re.sub(r"\$(\d+)", r"\\g<\1>", rule.get("replacement", "$1"))
                labels[rule["target_label"]] = match.expand(template)
        elif (match is not None) is (action == "drop"):
            return None
    return {name: value for name, value in labels.items() if value and not name.startswith("__meta_")}


def scraped(pod: Json, *settings: str) -> Json | None:
    """Where and with which labels the pod is scraped, None when it is not."""
    found = job(*settings)
    (discovery,) = found["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    assert (discovery["role"], selector["role"]) == ("pod", "pod")
    spaces = discovery.get("namespaces", {}).get("names")
    if spaces is not None and pod["metadata"]["namespace"] not in spaces:
        return None
    if not LabelSelector.parse(selector["label"]).matches(pod["metadata"]["labels"]):
        return None
    return relabelled(found["relabel_configs"], discovered(pod))


@pytest.mark.spec("IN-10")
def test_a_serving_pod_is_scraped_with_its_service_and_revision() -> None:
    assert scraped(serving_pod()) == {
        "__address__": "10.0.0.7:8080",
        "__metrics_path__": "/metrics",
        "namespace": "prod",
        "pod": "chat-engine-0-default-0",
        "inferenceservice": "chat",
        "component": "engine",
        "revision_hash": "7f9c4d2b",
    }


@pytest.mark.spec("IN-10")
def test_where_a_pod_says_its_metrics_are() -> None:
    found = scraped(serving_pod(**{"prometheus.io/port": "9091", "prometheus.io/path": "/m"}))
    assert found is not None
    assert (found["__address__"], found["__metrics_path__"]) == ("10.0.0.7:9091", "/m")


def without_label() -> Json:
    pod = serving_pod()
    del pod["metadata"]["labels"]["ome.io/inferenceservice"]
    return pod


def with_status(**status: Any) -> Json:
    pod = serving_pod()
    pod["status"].update(status)
    return pod


@pytest.mark.parametrize(
    ("pod", "settings"),
    [
        pytest.param(without_label(), (), id="of no service"),
        pytest.param(with_status(phase="Pending"), (), id="not running"),
        pytest.param(with_status(conditions=[{"type": "Ready", "status": "False"}]), (), id="not ready"),
        pytest.param(serving_pod(**{"prometheus.io/scrape": "false"}), (), id="wants none"),
        pytest.param(serving_pod(), ("prometheus.requireScrapeAnnotation=true",), id="does not ask where it has to"),
        pytest.param(serving_pod(), ("prometheus.scrapeNamespaces={other}",), id="of another namespace"),
    ],
)
def test_pods_that_are_not_scraped(pod: Json, settings: tuple[str, ...]) -> None:
    assert scraped(pod, *settings) is None
