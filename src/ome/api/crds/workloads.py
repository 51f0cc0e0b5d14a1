"""Schemas of what services and runtimes share: pods, runners, components (`spec/api-types.md` sections 2, 4, 6)."""

from __future__ import annotations

from functools import cache
from typing import Final

from ome.api.crds.schema import (
    Schema,
    array,
    boolean,
    core,
    duration,
    enum,
    int32,
    int64,
    int_or_string,
    keyed,
    map_of,
    object_names,
    quantity,
    struct,
    text,
    text_map,
    texts,
)

POD_FIELDS: Final = (
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "nodeName",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "securityContext",
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "affinity",
    "schedulerName",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "priority",
    "dnsConfig",
    "readinessGates",
    "runtimeClassName",
    "enableServiceLinks",
    "preemptionPolicy",
    "overhead",
    "topologySpreadConstraints",
    "setHostnameAsFQDN",
    "os",
    "hostUsers",
    "schedulingGates",
    "resourceClaims",
)

COMPONENT_NAMES: Final = ("engine", "decoder", "router")


@cache
def pod_fields(*, ephemeral: bool) -> dict[str, Schema]:
    """The properties of an inlined PodSpec. Without `ephemeral` the field `ephemeralContainers` does not exist."""
    properties = core("core.v1.PodSpec")["properties"]
    return {name: properties[name] for name in POD_FIELDS if ephemeral or name != "ephemeralContainers"}


@cache
def runner(*, named: bool) -> Schema:
    """A container; `named`: the author must name it."""
    container = core("core.v1.Container")
    return struct(container["properties"], required=["name"] if named else [])


def metric_specs() -> Schema:
    return array(core("autoscaling.v2.MetricSpec"))


@cache
def hpa() -> Schema:
    return struct({"metrics": metric_specs(), "behavior": core("autoscaling.v2.HorizontalPodAutoscalerBehavior")})


def keda_trigger() -> Schema:
    return struct(
        {
            "type": text(),
            "name": text(),
            "useCachedMetrics": boolean(),
            "metadata": text_map(),
            "authenticationRef": object_names("kind"),
            "metricType": text(),
        },
        required=["type", "metadata"],
    )


def keda_advanced() -> Schema:
    return struct(
        {
            "horizontalPodAutoscalerConfig": struct(
                {"behavior": core("autoscaling.v2.HorizontalPodAutoscalerBehavior"), "name": text()}
            ),
            "restoreToOriginalReplicaCount": boolean(),
            "scalingModifiers": struct(
                {"formula": text(), "target": text(), "activationTarget": text(), "metricType": text()}
            ),
        }
    )


def keda_counts() -> dict[str, Schema]:
    return {"pollingInterval": int32(), "cooldownPeriod": int32(), "idleReplicaCount": int32()}


@cache
def autoscaler() -> Schema:
    keda = struct(
        {
            "triggers": array(keda_trigger(), minItems=1),
            "advanced": keda_advanced(),
            **keda_counts(),
            "fallback": struct(
                {"failureThreshold": int32(), "replicas": int32(), "behavior": text()},
                required=["failureThreshold", "replicas"],
            ),
        },
        required=["triggers"],
    )
    return struct({"class": enum("HPA", "KEDA", "External", "None"), "keda": keda, "hpa": hpa()}, required=["class"])


def autoscaler_policy_ref() -> Schema:
    return struct({"name": text(), "kind": text(default="AutoscalerPolicy")}, required=["name"])


def scaling_policy() -> Schema:
    """All three modes pass the schema: admission refuses two of them in its own words (ScalingModeNotImplemented)."""
    proportional = struct({"anchor": text(default="engine"), "ratios": map_of(quantity())})
    mode = {**enum("Independent", "Proportional", "Pinned"), "default": "Independent"}
    return struct({"mode": mode, "proportional": proportional})


@cache
def lifecycle() -> Schema:
    rolling_update = struct(
        {"partition": int32(minimum=0), "maxUnavailable": int_or_string(), "maxSurge": int_or_string()}
    )
    in_place = struct({"gracePeriodSeconds": int32(minimum=0), "markNotReadyDuringLifecycle": boolean()})
    strategy = struct(
        {
            "type": enum("SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "InPlaceOnly"),
            "rollingUpdate": rolling_update,
            "inPlaceUpdateStrategy": in_place,
        }
    )
    return struct(
        {
            "restartPolicy": enum("None", "RecreateInstanceOnPodRestart"),
            "updateStrategy": strategy,
            "readyPolicy": enum("AllPodReady", "None"),
            "instanceReadyTimeout": duration(),
            # No minimum: admission refuses a negative number in its own words (InvalidMinReadySeconds).
            "minReadySeconds": int32(),
            "migrationPolicy": struct({"mode": enum("Auto", "Surge", "Never")}),
        }
    )


@cache
def extension_fields() -> dict[str, Schema]:
    return {
        "minReplicas": {"type": "integer"},
        "maxReplicas": {"type": "integer"},
        "timeoutSeconds": int64(),
        "labels": text_map(),
        "annotations": text_map(),
        "servicePortAppProtocols": text_map(),
        "minAvailable": int_or_string(),
        "maxUnavailable": int_or_string(),
        "deploymentStrategy": core("apps.v1.DeploymentStrategy"),
        "lifecycle": lifecycle(),
        "autoscaler": autoscaler(),
        "autoscalerPolicyRef": autoscaler_policy_ref(),
    }


@cache
def accelerator_selector() -> Schema:
    constraints = struct(
        {
            "minMemory": int64(),
            "maxMemory": int64(),
            "minComputePerformanceTFLOPS": int64(),
            "minArchitectureVersion": text(),
            "requiredFeatures": texts(),
            "excludedClasses": texts(),
            "architectureFamilies": texts(),
            "preferredPrecisions": texts(),
        }
    )
    return struct(
        {
            "acceleratorClass": text(),
            "constraints": constraints,
            "policy": enum("BestFit", "Cheapest", "MostCapable", "FirstAvailable"),
        }
    )


def topology_fields() -> dict[str, Schema]:
    return {
        "topologyKey": text(),
        "topologySpread": enum("Preferred", "Required"),
        "topologySpreadKey": text(),
    }


@cache
def engine(*, ephemeral: bool) -> Schema:
    """EngineSpec, and DecoderSpec, which is the same."""
    pod = pod_fields(ephemeral=ephemeral)
    return struct(
        {
            **pod,
            **extension_fields(),
            "runner": runner(named=False),
            "leader": struct({**pod, "runner": runner(named=True)}),
            "worker": struct({**pod, "size": {"type": "integer"}, "runner": runner(named=True)}),
            **topology_fields(),
            "acceleratorOverride": accelerator_selector(),
        }
    )


@cache
def router(*, ephemeral: bool) -> Schema:
    return struct(
        {
            **pod_fields(ephemeral=ephemeral),
            **extension_fields(),
            "runner": runner(named=False),
            "config": text_map(),
        }
    )


def model_ref() -> Schema:
    overlay = struct(_model_reference(), required=["name"])
    return struct(
        {
            **_model_reference(),
            "fineTunedWeights": {**texts(), "x-kubernetes-list-type": "atomic"},
            "overlays": keyed(overlay, "name"),
        },
        required=["name"],
    )


def _model_reference() -> dict[str, Schema]:
    return {"name": text(), "kind": text(default="ClusterBaseModel"), "apiGroup": text(default="ome.io")}


def runtime_ref() -> Schema:
    return struct(
        {
            "name": text(),
            "kind": text(default="ClusterServingRuntime"),
            "apiGroup": text(default="ome.io"),
            "autoSync": boolean(default=True),
            "revision": text(),
        },
        required=["name"],
    )


def pod_template() -> Schema:
    """A pod template whose spec is opaque: OME renders it, and Kubernetes checks it when the pod is made."""
    template = core("core.v1.PodTemplateSpec")["properties"]
    return struct({"metadata": template["metadata"], "spec": template["spec"]})
