"""The ConfigMaps an install begins with: what the chart sets, and what a plain manifest install sets.

`spec/manager.md` section 5, `spec/install-and-operate.md` sections 1.2 and 1.5, `spec/omenative.md` section 2.3.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from ome.api.config import CONFIG_MAP_NAME
from ome.install.roles import METADATA_JOB, Manifest

Flavour = Literal["chart", "kustomize"]
HUB: Final = "ghcr.io/moirai-internal"
BENCHMARK_CONFIG_MAP: Final = "benchmarkjob-config"


def operator_config(namespace: str, flavour: Flavour, *, tag: str) -> dict[str, Any]:
    """The entries of `inferenceservice-config`, decoded. `flavour`: with the chart's defaults, or with hardly any."""
    entries = _common(namespace, tag)
    return entries | _chart() if flavour == "chart" else entries | _kustomize()


def config_maps(namespace: str, flavour: Flavour, *, tag: str) -> list[Manifest]:
    entries = operator_config(namespace, flavour, tag=tag)
    pod = {
        "image": f"{HUB}/genai-bench:{tag}",
        "cpuRequest": "2",
        "memoryRequest": "2Gi",
        "cpuLimit": "2",
        "memoryLimit": "2Gi",
    }
    return [
        _config_map(CONFIG_MAP_NAME, namespace, entries),
        _config_map(BENCHMARK_CONFIG_MAP, namespace, {"benchmarkjob": {"podConfig": pod}}),
    ]


def _config_map(name: str, namespace: str, entries: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: json.dumps(value, indent=2) for key, value in entries.items()},
    }


def _chart() -> dict[str, Any]:
    strategy = {"type": "SurgeThenDrain", "maxSurge": "25%", "maxUnavailable": "25%"}
    one = {"maxUnavailable": 1}
    return {
        "deploy": {
            "defaultDeploymentMode": "RawDeployment",
            "replicas": {
                "defaultMinReplicas": 1,
                "defaultMaxReplicas": {"engine": 3, "decoder": 3, "router": 2},
            },
            "terminationGracePeriodSeconds": 600,
            "updateStrategy": dict.fromkeys(("engine", "decoder", "router"), strategy),
        },
        "podDisruptionBudget": {"rawDeployment": one, "omeNative": one},
        "lifecycle": {
            "instanceReadyTimeout": "30m",
            "stuckPodGracePeriod": "60s",
            "unschedulableGracePeriod": "15m",
            "updateRetry": {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0},
            "revisionHistoryLimit": 10,
            "autoMigrate": {"maxAttempts": 3},
            "gangScheduleTimeout": {"min": "60s", "max": "600s"},
            "teardown": {"deadline": "30m"},
        },
        "coordination": {"trafficWeightDeadbandPercent": 0, "defaultRatioTolerancePercent": 5},
        "rollout": {"maxPinnedPlanBytes": 16384, "defaultReadyTimeout": "15m"},
    }


def _kustomize() -> dict[str, Any]:
    return {
        "deploy": {"defaultDeploymentMode": "RawDeployment"},
        "lifecycle": {"instanceReadyTimeout": "30m"},
        "rollout": {"maxPinnedPlanBytes": 0, "defaultReadyTimeout": ""},
    }


def _common(namespace: str, tag: str) -> dict[str, Any]:
    agent = f"{HUB}/ome-agent:{tag}"
    vault = {"compartmentId": "", "authType": "InstancePrincipal", "vaultId": "", "region": "ap-osaka-1"}
    return {
        "ingress": {
            "disableIngressCreation": True,
            "ingressDomain": "svc.cluster.local",
            "domainTemplate": "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}",
            "urlScheme": "http",
            "enableGatewayAPI": False,
            "ingressGateway": "istio-system/ingress-gateway",
            "ingressService": "istio-ingressgateway.istio-system.svc.cluster.local",
            "ingressClassName": "istio",
            "omeIngressGateway": "",
            "omeIngressGatewayClass": "",
            "consistentHashHeaders": ["x-routing-key", "X-SMG-Routing-Key"],
            "additionalIngressDomains": None,
            "additionalIngressGateways": [],
            "namespaceIngressGateways": {},
            "pathTemplate": "",
            "perISVCSubdomain": False,
            "sharedHostPrefix": "llm",
            "defaultRouteTimeoutSeconds": 0,
            "disableIstioVirtualHost": False,
        },
        "canaryAnalysis": {
            "bundledPrometheusAddress": f"http://ome-prometheus.{namespace}.svc:9090",
            "defaultProvider": "",
            "queryTimeout": "5s",
            "maxConcurrency": 8,
            "cacheTTL": "2m",
        },
        "omenativeStatus": {"instanceStatusEncoding": "ColumnarV2", "maxDecodedInstances": 20000},
        "metricsAggregator": {"enableMetricAggregation": "false", "enablePrometheusScraping": "false"},
        "acceleratorResources": ["nvidia.com/gpu"],
        "omeAgent": {
            "image": agent,
            "serviceAccount": METADATA_JOB,
            "cpuRequest": "100m",
            "cpuLimit": "500m",
            "memoryRequest": "256Mi",
            "memoryLimit": "512Mi",
            "backoffLimit": 2,
            "ttlSecondsAfterFinished": 3600,
        },
        "modelInit": {
            "image": agent,
            "memoryRequest": "150Gi",
            "memoryLimit": "180Gi",
            "cpuRequest": "15",
            "cpuLimit": "15",
            **vault,
        },
        "servingSidecar": {
            "image": agent,
            "memoryRequest": "2Gi",
            "memoryLimit": "4Gi",
            "cpuRequest": "1",
            "cpuLimit": "2",
            **vault,
        },
    }
