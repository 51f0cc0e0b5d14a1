"""Schema of the InferenceReplica, its Instance rows in both spellings (`spec/api-types.md` section 4)."""

from __future__ import annotations

from typing import Final

from ome.api.crds import placement, rollouts, services, workloads
from ome.api.crds.schema import (
    Schema,
    array,
    boolean,
    conditions,
    enum,
    int32,
    int64,
    int_or_string,
    keyed,
    rule,
    struct,
    text,
    texts,
    time,
)

INDEX_SET_PATTERN: Final = r"^(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?(,(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?)*$"


def spec() -> Schema:
    runner = struct(
        {
            "name": enum("default", "leader", "worker"),
            "size": int32(minimum=1),
            "template": workloads.pod_template(),
        },
        required=["name", "size", "template"],
    )
    pacing = struct({"partition": int32(minimum=0), "maxUnavailable": int_or_string(), "rollbackToRevision": text()})
    return struct(
        {
            "component": enum("engine", "decoder", "router"),
            "runners": keyed(runner, "name"),
            "modelRef": workloads.model_ref(),
            "runtimeRef": workloads.runtime_ref(),
            "replicas": int32(minimum=0),
            "minReadySeconds": int32(minimum=0),
            **workloads.topology_fields(),
            "lifecycle": workloads.lifecycle(),
            "revisionHistoryLimit": int32(minimum=1),
            "autoscaler": workloads.autoscaler(),
            "pacing": pacing,
            "paused": boolean(),
            "pauseMode": enum("Recover", "Freeze"),
            "pairingProtocol": rollouts.pairing_protocol(),
            "parentRef": struct({"name": text(minLength=1)}, required=["name"]),
            "placementExecution": placement.placement_execution(),
            "placementReplicaLimit": int32(minimum=1),
        },
        required=["component"],
    )


def _operation() -> Schema:
    return struct(
        {
            "id": text(),
            "type": enum("Create", "Update", "Restart", "Migrate", "Delete"),
            "step": text(),
            "startedAt": time(),
            "lastProgressAt": time(),
            "deadline": {**time(), "nullable": True},
            "retryCount": int32(),
            "targetRevision": text(),
            "reason": text(),
            "waiting": text(),
            "capacityRefusedAt": time(),
            "strategy": text(),
            "surgeIndex": int32(),
            "fromNode": text(),
            "hintTargetNodes": texts(),
            "requestUUID": text(),
        }
    )


def _termination() -> Schema:
    return struct(
        {
            "podName": text(),
            "containerName": text(),
            "reason": text(),
            "exitCode": int32(),
            "message": text(),
            "time": time(),
        }
    )


def _records() -> dict[str, Schema]:
    """What a row holds beside numbers, in either spelling."""
    return {
        "conditions": conditions(),
        "readySince": time(),
        "operation": _operation(),
        "lastFailure": _termination(),
        "announced": texts(),
    }


PHASES: Final = ("Pending", "Creating", "Ready", "Updating", "Restarting", "Migrating", "Failed", "Deleting")


def _row() -> Schema:
    return struct(
        {
            "index": int32(minimum=0),
            "incarnation": int64(),
            "phase": enum(*PHASES),
            "runningRevision": text(),
            "targetRevision": text(),
            "podCount": int32(),
            "servingPodCount": int32(),
            "availablePodCount": int32(),
            "readyPodCount": int32(),
            "scheduledPodCount": int32(),
            "nodesOccupied": texts(),
            "admitted": boolean(),
            "activeOrdinal": int32(minimum=0, maximum=1),
            **_records(),
        },
        required=["index"],
    )


def _columns() -> Schema:
    indexes = text(pattern=INDEX_SET_PATTERN)

    def groups(value: Schema) -> Schema:
        return array(struct({"value": value, "indexes": indexes}, required=["value", "indexes"]))

    return struct(
        {
            "members": indexes,
            "rowOrder": array(int32()),
            "phases": groups(enum(*PHASES)),
            "runningRevisions": groups(text()),
            "targetRevisions": groups(text()),
            "incarnations": groups(int64()),
            "podCounts": groups(int32(minimum=1)),
            "servingPodCounts": groups(int32(minimum=1)),
            "availablePodCounts": groups(int32(minimum=1)),
            "admitted": indexes,
            "activeOrdinalOne": indexes,
            "entries": array(struct({"index": int32(minimum=0), **_records()}, required=["index"])),
        }
    )


def _retry_block() -> Schema:
    return struct(
        {
            "targetRevision": text(),
            "state": enum("Backoff", "Held", "RetryInProgress"),
            "attemptsStarted": int32(),
            "nextRetryAt": time(),
            "firstFailureAt": time(),
            "lastFailureAt": time(),
            "reason": text(),
        },
        required=["targetRevision"],
    )


def _migration() -> Schema:
    return struct(
        {
            "requestUUID": text(),
            "trigger": enum("Manual", "Auto"),
            "sourceInstance": int32(),
            "surgeInstance": int32(),
            "allocatedAt": time(),
            "fromNode": text(),
            "hintTargetNodes": texts(),
            "phase": enum("Accepted", "SurgePending", "SurgeReady", "Draining", "Completed", "Failed", "Relocated"),
            "attempt": int32(),
            "reason": text(),
            "message": text(),
            "startedAt": time(),
            "deadline": time(),
            "completedAt": time(),
            "succeeded": boolean(),
        }
    )


def status() -> Schema:
    return struct(
        {
            "observedGeneration": int64(),
            "placementObservedGeneration": int64(minimum=1),
            "replicas": int32(),
            "readyReplicas": int32(),
            "servingReplicas": int32(),
            "availableReplicas": int32(),
            "updatedReplicas": int32(),
            "updatedReadyReplicas": int32(),
            "currentRevision": text(),
            "updateRevision": text(),
            "collisionCount": int32(),
            "labelSelector": text(),
            "instanceStatuses": array(_row()),
            "instanceStatusEncoding": enum("ColumnarV2"),
            "instanceStatusColumns": _columns(),
            "retryBlocks": keyed(_retry_block(), "targetRevision"),
            "migrations": array(_migration()),
            "conditions": conditions(),
            "traffic": rollouts.traffic_targets(),
            "coordinationGroupRef": text(),
            "rolloutHold": services.rollout_hold(),
        },
        rules=[
            rule(
                "!has(self.instanceStatusColumns) || has(self.instanceStatusEncoding)",
                "instanceStatusColumns needs instanceStatusEncoding",
            ),
            rule(
                "!has(self.instanceStatusEncoding) || (has(self.instanceStatusColumns) && !has(self.instanceStatuses))",
                "ColumnarV2 needs instanceStatusColumns and forbids instanceStatuses",
            ),
        ],
    )
