"""The pod webhook: each annotation's effect, and what denies a pod."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ome.admission.pods import mutate_pod
from ome.admission.review import Verdict
from ome.api.config import MetricsAggregator, OperatorConfig
from ome.install.configuration import operator_config

CHART = operator_config("ome", "chart", tag="1")
CONFIG = OperatorConfig(model_init=CHART["modelInit"], serving_sidecar=CHART["servingSidecar"])
ADAPTER = OperatorConfig(
    fine_tuned_adapter={
        "image": "ome-agent",
        "memoryRequest": "1Gi",
        "memoryLimit": "2Gi",
        "cpuRequest": "1",
        "cpuLimit": "2",
    }
)


def pod(
    labels: dict[str, str] | None = None, *, annotations: dict[str, str] | None = None, **container: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"ome.io/inferenceservice": "chat"} if labels is None else labels,
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "ome-container", "image": "x", **container}]},
    }


def annotated(**annotations: str) -> dict[str, Any]:
    return pod(annotations=annotations)


def applied(before: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """The pod after the patch, whose operations all set one member of metadata or spec."""
    assert verdict.allowed, verdict.message
    after = copy.deepcopy(before)
    for operation in verdict.patch:
        _, part, member = operation["path"].split("/")
        assert operation["op"] == "add"
        after[part][member] = operation["value"]
    return after


def mutated(
    before: dict[str, Any], config: OperatorConfig = CONFIG, weight: dict[str, Any] | None = None
) -> dict[str, Any]:
    untouched = copy.deepcopy(before)
    after = applied(before, mutate_pod(before, config, weight))
    assert before == untouched, "the pod under review is not changed"
    return after


def main_container(after: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = after["spec"]["containers"][0]
    return found


@pytest.mark.spec("LA-5")
def test_a_pod_of_nobodys_service_is_never_touched() -> None:
    loud = pod({}, annotations={"rdma.ome.io/auto-inject": "true", "runtime.ome.io/probe-profile": "nonsense"})
    verdict = mutate_pod(loud, CONFIG)
    assert verdict.allowed
    assert verdict.patch == ()


@pytest.mark.spec("LA-8")
def test_both_metric_annotations_are_written() -> None:
    after = mutated(pod())
    assert after["metadata"]["annotations"] == {
        "ome.io/enable-metric-aggregation": "false",
        "ome.io/enable-prometheus-scraping": "false",
    }
    assert after["spec"] == pod()["spec"]


@pytest.mark.spec("LA-8")
def test_scraping_names_port_and_path_and_does_not_switch_scraping_on() -> None:
    before = annotated(**{"ome.io/enable-prometheus-scraping": "true", "prometheus.io/port": "1"})
    annotations = mutated(before)["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "9091"
    assert annotations["prometheus.io/path"] == "/metrics"
    assert "prometheus.io/scrape" not in annotations


def test_the_defaults_come_from_the_configuration() -> None:
    config = OperatorConfig(metrics_aggregator=MetricsAggregator(enable_metric_aggregation="true"))
    before = pod()
    before["spec"]["containers"].append({"name": "queue-proxy"})
    after = mutated(before, config)
    assert after["metadata"]["annotations"]["ome.io/enable-metric-aggregation"] == "true"
    env = {entry["name"]: entry["value"] for entry in after["spec"]["containers"][1]["env"]}
    assert env["AGGREGATE_PROMETHEUS_METRICS_PORT"] == "9088"


# -- RDMA --------------------------------------------------------------------------------------------------------------


def test_rdma_devices() -> None:
    before = annotated(**{"rdma.ome.io/auto-inject": "true"})
    before["spec"]["containers"][0] |= {
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }
    before["spec"]["volumes"] = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    after = mutated(before)
    container = main_container(after)
    assert container["env"][0] == {"name": "NCCL_DEBUG", "value": "WARN"}, "the container's own value stays"
    assert {"name": "NCCL_IB_TC", "value": "41"} in container["env"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/dev/infiniband"]
    assert [volume["name"] for volume in after["spec"]["volumes"]] == ["dshm", "devinf"]
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}, "never privileged"


def test_multus_networks_are_merged() -> None:
    asked = {"rdma.ome.io/auto-inject": "true", "rdma.ome.io/profile": "cks-gb-rdma"}
    after = mutated(annotated(**asked, **{"k8s.v1.cni.cncf.io/networks": "default/own"}))
    networks = after["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].split(",")
    assert networks[0] == "default/own"
    assert len(networks) == 17
    assert "cw-multus/ibs0p0-macvlan" in networks
    assert "env" not in main_container(after)


@pytest.mark.parametrize(
    "annotations",
    [
        {"rdma.ome.io/auto-inject": "true", "rdma.ome.io/profile": "infinite"},
        {
            "rdma.ome.io/auto-inject": "true",
            "rdma.ome.io/profile": "cks-gb-rdma",
            "k8s.v1.cni.cncf.io/networks": "[{",
        },
        {
            "rdma.ome.io/auto-inject": "true",
            "rdma.ome.io/profile": "cks-gb-rdma",
            "k8s.v1.cni.cncf.io/networks": "a,,b",
        },
        {"runtime.ome.io/shm-profile": "huge"},
        {"runtime.ome.io/probe-profile": "sglang-http", "runtime.ome.io/probe-port": "0"},
        {"runtime.ome.io/observability-profile": "prometheus", "runtime.ome.io/observability-port": "http"},
    ],
)
def test_denied_pods(annotations: dict[str, str]) -> None:
    verdict = mutate_pod(pod(annotations=annotations), CONFIG)
    assert not verdict.allowed
    assert any(key in verdict.message for key in annotations)


@pytest.mark.spec("LA-6")
def test_an_unknown_probe_profile_denies_the_pod() -> None:
    verdict = mutate_pod(annotated(**{"runtime.ome.io/probe-profile": "tgi-http"}), CONFIG)
    assert not verdict.allowed
    assert "runtime.ome.io/probe-profile" in verdict.message


def test_a_missing_container_is_skipped() -> None:
    asked = {
        "rdma.ome.io/auto-inject": "true",
        "rdma.ome.io/container-name": "other",
        "runtime.ome.io/shm-profile": "default",
    }
    after = mutated(annotated(**asked, **{"runtime.ome.io/container-name": "other"}))
    assert after["spec"] == pod()["spec"]


# -- runtime profiles --------------------------------------------------------------------------------------------------


def test_probes_are_added_where_missing() -> None:
    own = {"tcpSocket": {"port": 1}}
    after = mutated(pod(annotations={"runtime.ome.io/probe-profile": "vllm-http"}, readinessProbe=own))
    container = main_container(after)
    assert container["readinessProbe"] == own
    assert container["startupProbe"]["httpGet"] == {"path": "/health", "port": 30000}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": 30000}


def test_shared_memory_without_a_limit() -> None:
    after = mutated(annotated(**{"runtime.ome.io/shm-profile": "default"}))
    assert after["spec"]["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    assert main_container(after)["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]


def test_observability_sets_what_is_unset() -> None:
    asked = {"runtime.ome.io/observability-profile": "prometheus", "prometheus.io/path": "/own"}
    annotations = mutated(annotated(**asked))["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/port"] == "30000"
    assert annotations["prometheus.io/path"] == "/own"


# -- helpers -----------------------------------------------------------------------------------------------------------


def test_model_init_fills_the_empty_volume() -> None:
    before = annotated(
        **{
            "ome.io/inject-model-init": "true",
            "ome.io/base-model-name": "llama",
            "ome.io/base-model-format": "safetensors",
        }
    )
    before["spec"]["volumes"] = [{"name": "llama", "hostPath": {"path": "/models/llama"}}]
    after = mutated(before)
    (init,) = after["spec"]["initContainers"]
    assert init["name"] == "model-init"
    assert init["resources"]["limits"] == {"cpu": "15", "memory": "180Gi"}
    env = {entry["name"]: entry["value"] for entry in init["env"]}
    assert env["MODEL_NAME"] == "llama"
    assert env["DISABLE_MODEL_DECRYPTION"] == "false"
    assert [mount["mountPath"] for mount in init["volumeMounts"]] == ["/models/llama", "/opt/ml/model"]
    assert {"name": "MODEL_PATH", "value": "/opt/ml/model"} in main_container(after)["env"]


def test_a_sidecar_is_added_once() -> None:
    after = mutated(annotated(**{"ome.io/inject-serving-sidecar": "true"}))
    assert [container["name"] for container in after["spec"]["containers"]] == ["ome-container", "serving-sidecar"]
    assert [container["name"] for container in mutated(after)["spec"]["containers"]].count("serving-sidecar") == 1


WEIGHT = {"spec": {"storage": {"storageUri": "oci://n/ns/b/bucket/o/weights"}}}


def test_the_adapter_fetches_the_named_weight() -> None:
    asked = annotated(
        **{"ome.io/inject-fine-tuned-adapter": "w", "ome.io/fine-tuned-serving-with-merged-weights": "true"}
    )
    (init,) = mutated(asked, ADAPTER, WEIGHT)["spec"]["initContainers"]
    assert {"name": "SOURCE_URI", "value": "oci://n/ns/b/bucket/o/weights-merged-weight"} in init["env"]


@pytest.mark.parametrize(
    ("config", "weight", "part"),
    [
        (OperatorConfig(), WEIGHT, "failed to validate FineTunedAdapterInjector"),
        (
            OperatorConfig(fine_tuned_adapter={**ADAPTER.fine_tuned_adapter, "cpuLimit": ""}),
            WEIGHT,
            "cpuLimit is required",
        ),
        (
            OperatorConfig(fine_tuned_adapter={**ADAPTER.fine_tuned_adapter, "memoryLimit": "big"}),
            WEIGHT,
            'invalid memoryLimit "big"',
        ),
        (ADAPTER, None, "No FineTunedWeight with the name: w"),
        (ADAPTER, {"spec": {"storage": {"storageUri": "hf://a/b"}}}, "invalid OCI storage URI format"),
    ],
)
def test_adapters_that_cannot_be_added(config: OperatorConfig, weight: dict[str, Any] | None, part: str) -> None:
    verdict = mutate_pod(annotated(**{"ome.io/inject-fine-tuned-adapter": "w"}), config, weight)
    assert not verdict.allowed
    assert part in verdict.message
