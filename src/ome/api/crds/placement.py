"""Schemas of the multi-cluster parts: kept so that objects round-trip (`spec/api-types.md` section 12)."""

from __future__ import annotations

from functools import cache

from ome.api.crds.schema import (
    Schema,
    array,
    boolean,
    conditions,
    core,
    duration,
    enum,
    int32,
    int64,
    keyed,
    map_of,
    object_names,
    quantity,
    raw_object,
    rule,
    struct,
    text,
    text_map,
    texts,
    time,
)


def _term() -> Schema:
    requirement = struct(
        {
            "key": text(),
            "operator": enum("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
            "values": texts(maxItems=64),
        },
        required=["key", "operator"],
    )
    return struct(
        {
            "weight": int32(minimum=1, maximum=100),
            "matchExpressions": array(requirement, maxItems=64),
            "matchFields": array(requirement, maxItems=64),
        }
    )


def placement() -> Schema:
    return struct(
        {
            "policy": enum("Legacy", "ClusterAffinity"),
            "mode": enum("Single", "All", "Split", "SplitByCapacity"),
            "clusterAffinity": array(_term(), minItems=1, maxItems=64),
            "maxSurge": int32(minimum=0),
            "replacementTimeout": duration(),
            "requirements": text(),
            "clusterSelector": text(),
            "split": struct(
                {
                    "replicas": int32(minimum=1),
                    "spread": boolean(),
                    "maxReplicasPerCluster": int32(minimum=0),
                    "minReplicasPerCluster": int32(),
                }
            ),
            "capacityFactors": map_of(quantity()),
        },
        rules=[
            rule(
                "!(has(self.policy) && self.policy == 'ClusterAffinity') || has(self.mode)",
                "mode is required with policy ClusterAffinity",
            ),
            rule(
                "!has(self.replacementTimeout) || (has(self.policy) && self.policy == 'ClusterAffinity' && "
                "has(self.mode) && self.mode == 'Single')",
                "replacementTimeout needs policy ClusterAffinity and mode Single",
            ),
        ],
    )


def routing() -> Schema:
    codes = array({"type": "integer", "minimum": 100, "maximum": 599})
    probe = struct(
        {
            "disabled": boolean(),
            "path": text(pattern="^/"),
            "method": enum("GET", "HEAD", "POST"),
            "acceptStatuses": codes,
            "gateStatuses": codes,
            "period": duration(),
            "timeout": duration(),
            "failureThreshold": int32(minimum=1),
            "successThreshold": int32(minimum=1),
            "allFailedPolicy": enum("PreserveTraffic", "Drain"),
        }
    )
    capacity = struct(
        {
            "disabled": boolean(),
            "path": text(),
            "method": text(),
            "format": text(),
            "period": duration(),
            "timeout": duration(),
            "samples": int32(minimum=1),
            "quorum": int32(),
            "maxAge": duration(),
            "options": text_map(),
        }
    )
    return struct(
        {
            "enabled": boolean(),
            "capacityFactors": map_of(quantity()),
            "probe": probe,
            "capacity": capacity,
            "publisher": struct({"options": map_of(text(minLength=1, maxLength=4096), maxProperties=32)}),
        }
    )


@cache
def placement_status() -> Schema:
    """The plan and candidates are written and read by the placement controller alone: kept whole, not spelled out."""
    candidate = struct(
        {
            "allocation": raw_object(),
            "appliedPlanID": text(),
            "observationKnown": boolean(),
            "cluster": text(),
            "phase": enum("Admitting", "Placed", "Admitted"),
            "endpoint": text(),
            "admittedReplicas": int32(),
            "readyReplicas": int32(),
            "autoscaling": raw_object(),
            "rollout": raw_object(),
        }
    )
    return struct(
        {
            "plan": raw_object(),
            "cluster": text(),
            "phase": enum("Pending", "Admitting", "Racing", "Placed", "Failed"),
            "endpoint": text(),
            "candidates": array(candidate),
        }
    )


def placement_execution() -> Schema:
    floor = struct({"component": text(), "replicas": int32()})
    return struct(
        {
            "planID": text(),
            "revision": int64(minimum=1),
            "sourceUID": text(),
            "clusterUID": text(),
            "pauseSurge": boolean(),
            "demand": raw_object(),
            "replicaFloors": array(floor, minItems=1, maxItems=3),
        },
        required=["planID", "revision", "sourceUID", "clusterUID", "pauseSurge"],
    )


def workload_cluster_spec() -> Schema:
    kube_config = struct(
        {"secretRef": core("core.v1.SecretReference"), "key": text(default="kubeconfig")}, required=["secretRef"]
    )
    source = struct(
        {"kubeConfig": kube_config, "clusterProfileRef": object_names()},
        one_of=["kubeConfig", "clusterProfileRef"],
    )
    return struct({"clusterSource": source}, required=["clusterSource"])


def workload_cluster_status() -> Schema:
    return struct({"conditions": conditions()})


def traffic_map_spec() -> Schema:
    capacity = struct(
        {
            "allocated": int32(minimum=0),
            "ready": int32(minimum=0),
            "reported": int32(minimum=0),
            "factor": quantity(),
            "source": {**enum("ControlPlane", "Endpoint"), "default": "ControlPlane"},
            "fallbackReason": text(),
        }
    )
    probe = struct(
        {
            "policyDigest": text(pattern="^sha256:[0-9a-f]{64}$"),
            "result": enum("Passing", "Failing", "Unknown"),
            "gated": boolean(),
            "lastProbeTime": time(),
            "consecutiveFailures": int32(),
            "message": text(),
        }
    )
    entry = struct(
        {
            "cluster": text(),
            "endpoint": text(),
            "weight": int32(minimum=0, maximum=1_000_000),
            "healthy": boolean(),
            "capacity": capacity,
            "probe": probe,
            "drainRefs": texts(),
        },
        required=["cluster"],
    )
    return struct(
        {
            "service": text(),
            "mode": text(),
            "placementPlanID": text(),
            "observedISVCGeneration": int64(),
            "entries": keyed(entry, "cluster"),
        },
        required=["service"],
    )


def traffic_map_status() -> Schema:
    positive = struct(
        {
            "trafficMapGeneration": int64(),
            "observedISVCGeneration": int64(),
            "planCompatibilityDigest": text(),
            "targets": array(struct({"target": text(), "weight": int32()})),
        }
    )
    publisher = struct(
        {
            "publisherName": text(),
            "claimedTargets": texts(minItems=1, maxItems=128),
            "observedOptionsDigest": text(),
            "lastPositive": positive,
        }
    )
    return struct(
        {
            "sourceUID": text(),
            "published": boolean(),
            "gatewayRef": struct({"group": text(), "kind": text(), "name": text(), "namespace": text()}),
            "observedTrafficMapGeneration": int64(),
            "publisher": publisher,
            "conditions": conditions(),
        }
    )


def accelerator_quota_spec() -> Schema:
    share = struct({"cluster": text(), "nominal": quantity()}, required=["cluster", "nominal"])
    budget = struct(
        {
            "resourceName": text(maxLength=253),
            "resourceFlavor": text(maxLength=253),
            "nominal": quantity(),
            "policy": text(),
            "borrowingLimit": quantity(),
            "lendingLimit": quantity(),
            "perCluster": array(share),
        },
        required=["resourceName", "resourceFlavor", "nominal"],
    )
    return struct(
        {
            "role": enum("Cohort", "ClusterQueue"),
            "parentRef": object_names(),
            "priorityTier": text(maxLength=63),
            "distribution": struct({"policy": enum("Explicit", "Proportional")}),
            "budgets": array(budget, maxItems=16),
        },
        required=["role"],
        rules=[
            rule(
                "self.role != 'ClusterQueue' || (has(self.parentRef) && has(self.budgets) && size(self.budgets) > 0)",
                "a ClusterQueue needs parentRef and at least one budget",
            ),
            rule(
                "self.role != 'Cohort' || (!has(self.priorityTier) && !has(self.distribution))",
                "a Cohort must not set priorityTier or distribution",
            ),
            rule(
                "self.role != 'Cohort' || !has(self.budgets) || self.budgets.all(b, !has(b.policy) && "
                "!has(b.borrowingLimit) && !has(b.lendingLimit) && !has(b.perCluster))",
                "the budgets of a Cohort carry only resourceName, resourceFlavor and nominal",
            ),
            rule(
                "!has(self.distribution) || !has(self.distribution.policy) || !has(self.budgets) || "
                "self.budgets.all(b, has(b.perCluster) == (self.distribution.policy == 'Explicit'))",
                "Explicit distribution needs perCluster, Proportional forbids it",
            ),
        ],
    )


def accelerator_quota_status() -> Schema:
    frozen = struct(
        {
            "frozen": boolean(),
            "frozenAt": time(),
            "reason": text(),
            "lastAppliedGeneration": int64(),
            "lastAppliedTime": time(),
        }
    )
    return struct(
        {
            "observedGeneration": int64(),
            "parent": text(),
            "sourceGeneration": int64(),
            "budgets": array(raw_object()),
            "capacity": array(raw_object()),
            "clusters": array(raw_object()),
            "materialization": frozen,
            "conditions": conditions(),
        }
    )
