"""Schema of the InferenceService (`spec/api-types.md` section 3)."""

from __future__ import annotations

from functools import cache

from ome.api.crds import placement, rollouts, workloads
from ome.api.crds.schema import (
    Schema,
    array,
    conditions,
    enum,
    int32,
    int64,
    map_of,
    rule,
    struct,
    text,
    text_map,
    texts,
    time,
)


def spec() -> Schema:
    refs = texts()
    return struct(
        {
            "deploymentMode": enum("OMENative", "RawDeployment"),
            "engine": workloads.engine(ephemeral=False),
            "decoder": workloads.engine(ephemeral=False),
            "router": workloads.router(ephemeral=False),
            "model": workloads.model_ref(),
            "runtime": workloads.runtime_ref(),
            "acceleratorSelector": workloads.accelerator_selector(),
            "traffic": rollouts.traffic(),
            "rollout": rollouts.rollout(),
            "scalingPolicy": workloads.scaling_policy(),
            "replicaRefs": struct({"engine": refs, "decoder": refs, "router": refs}),
            "placement": placement.placement(),
            "routing": placement.routing(),
        },
        rules=[
            rule(
                "!(has(self.routing) && has(self.routing.capacityFactors) && "
                "has(self.placement) && has(self.placement.capacityFactors))",
                "spec.routing.capacityFactors and spec.placement.capacityFactors are mutually exclusive",
            ),
            rule(
                "!(has(oldSelf.placement) && has(oldSelf.placement.policy) && "
                "oldSelf.placement.policy == 'ClusterAffinity') || (has(self.placement) && "
                "has(self.placement.policy) && self.placement.policy == 'ClusterAffinity')",
                "placement.policy ClusterAffinity cannot be removed",
            ),
        ],
    )


def knative_conditions() -> Schema:
    return array(
        struct(
            {
                "type": text(),
                "status": text(),
                "severity": text(),
                "lastTransitionTime": time(),
                "reason": text(),
                "message": text(),
            },
            required=["type", "status"],
        )
    )


def addressable() -> Schema:
    return struct({"name": text(), "url": text(), "CACerts": text(), "audience": text()})


def rollout_hold() -> Schema:
    return struct(
        {
            "gate": enum("Pairing", "Ratio", "Sequential", "Budget", "RetryBlock", "Held", "Plan"),
            "reason": text(),
            "target": text(),
            "since": time(),
        }
    )


def autoscaler_status() -> Schema:
    return struct(
        {
            "class": text(),
            "managedBy": enum("ome", "external", "none"),
            "specSource": enum("isvc", "policy", "runtime", "legacy", "default"),
            "policy": struct(
                {
                    "name": text(),
                    "observedGeneration": int64(),
                    "portableDigest": text(),
                    "resolvedDigest": text(),
                }
            ),
            "shadowedPolicyRef": struct({"name": text(), "portableDigest": text(), "wouldRenderDigest": text()}),
            "currentReplicas": int32(),
            "desiredReplicas": int32(),
            "lastScaleTime": time(),
            "conditions": conditions(),
        }
    )


@cache
def component_status() -> Schema:
    lifecycle = struct(
        {
            "observedGeneration": int64(),
            "currentRevision": text(),
            "updateRevision": text(),
            "collisionCount": int32(),
            "labelSelector": text(),
            "replicas": int32(),
            "readyReplicas": int32(),
            "servingReplicas": int32(),
            "availableReplicas": int32(),
            "updatedReplicas": int32(),
            "updatedReadyReplicas": int32(),
            "conditions": conditions(),
            "rolloutHold": rollout_hold(),
        }
    )
    accelerator = struct(
        {
            "acceleratorClass": text(),
            "reason": text(),
            "nodeSelector": text_map(),
            "resourceRequests": text_map(),
        }
    )
    return struct(
        {
            "url": text(),
            "restURL": text(),
            "address": addressable(),
            "selectedAccelerator": accelerator,
            "lifecycle": lifecycle,
            "rolloutPhase": enum(
                "",
                "Stable",
                "Canarying",
                "BlueGreenStandby",
                "Pending",
                "Paused",
                "Promoting",
                "RollingBack",
                "RolledBack",
                "Failed",
            ),
            "latestReadyRevision": text(),
            "latestRolledoutRevision": text(),
            "previousRolledoutRevision": text(),
            "traffic": rollouts.traffic_targets(),
            "canary": rollouts.canary_status(),
            "autoscaler": autoscaler_status(),
            "scaleTargetRef": struct({"apiVersion": text(), "kind": text(), "name": text()}),
        }
    )


def model_status() -> Schema:
    state = ("", "Pending", "Standby", "Loading", "Loaded", "FailedToLoad")
    failure = struct(
        {
            "location": text(),
            "reason": enum(
                "BaseModelNotReady",
                "BaseModelNotFound",
                "ModelLoadFailed",
                "RuntimeUnhealthy",
                "RuntimeDisabled",
                "NoSupportingRuntime",
                "RuntimeNotRecognized",
            ),
            "message": text(),
            "modelRevisionName": text(),
            "time": time(),
            "exitCode": int32(),
        }
    )
    return struct(
        {
            "transitionStatus": enum("", "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec"),
            "modelRevisionStates": struct(
                {
                    "activeModelState": {**enum(*state), "default": "Pending"},
                    "targetModelState": {**enum(*state), "default": ""},
                }
            ),
            "lastFailureInfo": failure,
            "modelCopies": struct(
                {"failedCopies": {"type": "integer", "default": 0}, "totalCopies": {"type": "integer"}}
            ),
        }
    )


def migration_history() -> Schema:
    return array(
        struct(
            {
                "id": text(),
                "component": text(),
                "instance": int32(),
                "replacementInstance": int32(),
                "mode": text(),
                "phase": text(),
                "requestedAt": time(),
                "startedAt": time(),
                "completedAt": time(),
                "reason": text(),
                "requestedBy": text(),
                "events": array(struct({"at": time(), "message": text()})),
                "outcomeReason": text(),
            }
        )
    )


def status() -> Schema:
    overlay = struct({"name": text(), "envVar": text(), "mountPath": text(), "distribution": text()})
    return struct(
        {
            "observedGeneration": int64(),
            "conditions": knative_conditions(),
            "annotations": text_map(),
            "address": addressable(),
            "url": text(),
            "addresses": array(addressable()),
            "components": map_of(component_status()),
            "modelStatus": model_status(),
            "migrationHistory": migration_history(),
            "mountedOverlays": array(overlay),
            "traffic": rollouts.traffic_status(),
            "canary": rollouts.canary_status(),
            "placement": placement.placement_status(),
            "pinnedRevisionName": text(),
            "lastRuntimeSyncToken": text(),
            "rollout": rollouts.rollout_status(),
            "rolloutCoordination": rollouts.coordination_status(),
        },
        open_ended=True,
    )
