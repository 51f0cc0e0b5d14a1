"""Schemas of rollouts, canaries and traffic (`spec/api-types.md` sections 5 and 7)."""

from __future__ import annotations

from functools import cache
from typing import Final

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
    int_or_string,
    map_of,
    object_names,
    rule,
    struct,
    text,
    text_map,
    texts,
    time,
)

PAIRING_PATTERN: Final = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


def pairing_protocol() -> Schema:
    return text(maxLength=63, pattern=PAIRING_PATTERN)


def rolling_budgets() -> Schema:
    return struct({"maxSurge": int_or_string(), "maxUnavailable": int_or_string()})


@cache
def prometheus() -> Schema:
    return struct(
        {
            "providerRef": object_names(),
            "serverAddress": text(),
            "authRef": core("core.v1.SecretKeySelector"),
            "headers": text_map(),
        },
        rules=[
            rule(
                "!(has(self.providerRef) && has(self.serverAddress))",
                "providerRef and serverAddress are mutually exclusive",
            )
        ],
    )


@cache
def analysis() -> Schema:
    metric = struct(
        {"name": text(), "query": text(), "operator": enum("LT", "LTE", "GT", "GTE"), "threshold": text()},
        required=["name", "query", "operator", "threshold"],
    )
    return struct(
        {
            "interval": duration(),
            "initialDelay": duration(),
            "failureLimit": int32(minimum=1),
            "onInconclusive": enum("Hold", "Rollback", "RollbackOnStall"),
            "metrics": array(metric, minItems=1, maxItems=10),
        },
        required=["interval", "failureLimit", "metrics"],
    )


@cache
def canary() -> Schema:
    step = struct(
        {
            "capacity": int_or_string(),
            "traffic": int32(minimum=0, maximum=100),
            "pause": struct({"duration": duration()}),
            "analysis": analysis(),
        },
        required=["capacity", "traffic"],
    )
    return struct(
        {
            "steps": array(step, maxItems=20),
            "prometheus": prometheus(),
            "scaleDownDelaySeconds": int32(),
            "readyTimeout": duration(),
        }
    )


def component_name() -> Schema:
    return enum("router", "engine", "decoder")


def policy_ref() -> Schema:
    return struct(
        {
            "name": text(minLength=1),
            "progression": enum("canary", "blueGreen", "rollingUpdate"),
            "kind": text(default="RolloutPolicy"),
        },
        required=["name", "progression"],
    )


@cache
def group(*, ruled: bool) -> Schema:
    """RolloutGroup. `ruled`: with its rules; the copies in status do without."""
    validations = [
        rule(
            "(has(self.canary) ? 1 : 0) + (has(self.blueGreen) ? 1 : 0) + (has(self.rollingUpdate) ? 1 : 0) <= 1",
            "at most one of canary, blueGreen and rollingUpdate may be set",
        ),
        rule(
            "!has(self.order) || self.order.all(o, self.components.exists(c, c == o))",
            "order may only name components of the group",
        ),
    ]
    return struct(
        {
            "components": array(component_name(), minItems=1, maxItems=3),
            "order": array(component_name(), maxItems=3),
            "canary": canary(),
            "blueGreen": {"type": "object"},
            "rollingUpdate": rolling_budgets(),
            "policyRef": policy_ref(),
            "soak": duration(),
            "maintainRatio": struct({"tolerance": int32(minimum=0, maximum=100)}),
        },
        required=["components"],
        rules=validations if ruled else [],
    )


def rollout() -> Schema:
    return struct(
        {
            "groups": array(group(ruled=True), maxItems=3),
            "groupOrdering": enum("Sequential", "Concurrent"),
            "pairingProtocol": pairing_protocol(),
        }
    )


@cache
def canary_status() -> Schema:
    result = struct(
        {
            "name": text(),
            "value": text(),
            "threshold": text(),
            "operator": text(),
            "passed": boolean(),
            "message": text(),
            "time": time(),
        }
    )
    return struct(
        {
            "targetID": text(),
            "canaryRevisionHash": text(),
            "stableRevisionHash": text(),
            "currentStep": int32(),
            "stepEnteredTime": time(),
            "observedTrafficWeight": int32(),
            "promotedThrough": text(),
            "preStepHold": boolean(),
            "rolledBackRevisionHash": text(),
            "analysisFailedChecks": int32(),
            "lastEvaluationTime": time(),
            "lastConclusiveEvaluationTime": time(),
            "capacityWaitSince": time(),
            "metricResults": array(result),
            "failed": struct(
                {"reason": enum("CapacityTimeout", "AnalysisStalled", "StableRevisionMissing"), "time": time()}
            ),
        }
    )


@cache
def rollout_status() -> Schema:
    target = struct({"component": text(), "revision": text(), "stableRevision": text()})
    planned = struct(
        {
            "source": enum("Inline", "Policy"),
            "policyRef": policy_ref(),
            "policyGeneration": int64(),
            "portableDigest": text(),
            "group": group(ruled=False),
        }
    )
    run = struct(
        {
            "runID": text(),
            "openedAt": time(),
            "pinnedAt": time(),
            "targetRevisions": array(target),
            "plan": struct({"groups": array(planned)}),
        }
    )
    closed = struct({"source": text(), "policyRef": policy_ref(), "portableDigest": text()})
    record = struct(
        {
            "outcome": enum("Completed", "RolledBack", "Superseded"),
            "openedAt": time(),
            "closedAt": time(),
            "targetRevisions": array(target),
            "groups": array(closed),
        }
    )
    resolution = struct(
        {
            "index": int32(),
            "source": text(),
            "policyRef": policy_ref(),
            "observedDigest": text(),
            "shadowedPolicyRef": struct({"name": text(), "wouldPinDigest": text()}),
        }
    )
    return struct({"activeRun": run, "lastRun": record, "groups": array(resolution)})


def coordination_status() -> Schema:
    counts = map_of(int32())
    entry = struct(
        {
            "name": text(),
            "components": texts(),
            "policy": enum("BlueGreen", "RollingUpdate", "Independent", "Sequential"),
            "order": texts(),
            "phase": enum(
                "Idle",
                "Surging",
                "Waiting",
                "Shifting",
                "Draining",
                "ScalingDown",
                "Staged",
                "Failed",
                "RollingBack",
                "Paused",
            ),
            "compositePhase": text(),
            "currentComponent": text(),
            "previousComponent": text(),
            "observedSurge": int_or_string(),
            "observedRatio": struct({"original": counts, "current": counts, "newPods": counts}),
            "lastTransitionTime": time(),
            "message": text(),
        }
    )
    return struct({"groups": array(entry)})


def traffic_targets() -> Schema:
    return array(
        struct(
            {
                "revisionName": text(),
                "percent": int32(minimum=0, maximum=100),
                "tag": text(),
                "latestRevision": boolean(),
                "pairingProtocol": text(),
            }
        )
    )


def traffic() -> Schema:
    header = object_names()
    consistent_hash = struct(
        {
            "type": enum("Header", "Cookie", "SourceIP"),
            "headers": array(header),
            "cookie": struct({"name": text(), "ttlSeconds": int64(minimum=0)}, required=["name"]),
        },
        required=["type"],
    )
    override = struct({"type": enum("Header", "Metadata"), "headers": array(header)}, required=["type"])
    return struct(
        {
            "algorithm": enum("RoundRobin", "LeastRequest", "Random", "ConsistentHash"),
            "consistentHash": consistent_hash,
            "endpointOverride": override,
        }
    )


def traffic_status() -> Schema:
    return struct(
        {
            "algorithm": text(),
            "backendPolicyResource": struct({"apiVersion": text(), "kind": text(), "name": text()}),
            "targetedHTTPRoutes": texts(),
            "conditions": conditions(),
        }
    )


def policy_spec() -> Schema:
    """RolloutPolicy: exactly one progression."""
    return struct(
        {"canary": canary(), "blueGreen": {"type": "object"}, "rollingUpdate": rolling_budgets()},
        one_of=["canary", "blueGreen", "rollingUpdate"],
    )


def policy_status() -> Schema:
    return struct(
        {
            "observedGeneration": int64(),
            "portableDigest": text(),
            "attachedGroups": int32(),
            "conditions": conditions(),
        }
    )
