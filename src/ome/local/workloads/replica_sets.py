"""What a ReplicaSet does: as many pods as it is told, the least useful deleted first. Pure.

Called by the ReplicaSet controller in `controllers.py`. A ReplicationController is the same thing with a simpler
selector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ome.kube.resources import PODS, REPLICA_SETS, Resource
from ome.local.objects import (
    Json,
    Object,
    condition,
    is_pod_active,
    is_pod_ready,
    ready_since,
    reference_to,
    seconds_until_available,
    selects,
    status_patch,
    with_condition,
    without_empty,
)
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.templates import pod_from

BURST: Final = 500
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_RANK: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ReplicaSet with the pods it owns; `refusal` is why the last create was refused, when it was."""

    replica_set: Object
    pods: Sequence[Object]
    related: Sequence[Object] = ()
    refusal: str = ""
    resource: Resource = REPLICA_SETS


def decide(snapshot: Snapshot) -> Plan:
    """Pods to create or delete. The status is told afterwards, by `report`, when their number has changed."""
    return Plan() if snapshot.replica_set.metadata.deleting else Plan(_pods(snapshot))


def report(snapshot: Snapshot, now: datetime) -> Plan:
    """The status alone."""
    target = snapshot.replica_set
    status, after = _status(snapshot, now)
    body = status_patch(target.status, status)
    if body is None:
        return Plan(after=after)
    return Plan((Patch(snapshot.resource, target.namespace, target.name, body, "status"),), after)


def _pods(snapshot: Snapshot) -> list[Action]:
    owner = snapshot.replica_set
    active = [pod for pod in snapshot.pods if is_pod_active(pod)]
    missing = int(owner.spec.get("replicas", 1)) - len(active)
    about = reference_to(owner, snapshot.resource)
    if missing > 0:
        body = pod_from(owner.spec.get("template") or {}, owner, snapshot.resource)
        done = Emit(about, "Normal", "SuccessfulCreate", "Created pod: {name}")
        refused = Emit(about, "Warning", "FailedCreate", "Error creating: {error}")
        return [Create(PODS, body, done, refused)] * min(missing, BURST)
    return [
        Delete(
            PODS,
            pod.namespace,
            pod.name,
            pod.uid,
            done=Emit(about, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"),
        )
        for pod in least_useful(active, snapshot.related or active)[: min(-missing, BURST)]
    ]


def least_useful(pods: Sequence[Object], related: Sequence[Object]) -> list[Object]:
    """The pods in the order in which a scale-down deletes them; `related` are all pods of the same workload."""
    crowd = Counter(pod.spec.get("nodeName") for pod in related if is_pod_active(pod))

    def rank(pod: Object) -> tuple[Any, ...]:
        node = pod.spec.get("nodeName")
        since = ready_since(pod)
        return (
            bool(node),
            _PHASE_RANK.get(pod.status.get("phase", "Pending"), 0),
            is_pod_ready(pod),
            _deletion_cost(pod),
            -crowd[node] if node else 0,
            _newest_first(since),
            -_restarts(pod),
            _newest_first(pod.metadata.creation_timestamp),
            pod.name,
        )

    return sorted(pods, key=rank)


def _newest_first(moment: datetime | None) -> timedelta:
    return datetime.max.replace(tzinfo=UTC) - moment if moment else timedelta(0)


def _restarts(pod: Object) -> int:
    return max((int(found.get("restartCount", 0)) for found in pod.status.get("containerStatuses") or ()), default=0)


def _deletion_cost(pod: Object) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _status(snapshot: Snapshot, now: datetime) -> tuple[Json, float | None]:
    owner = snapshot.replica_set
    minimum = int(owner.spec.get("minReadySeconds", 0))
    labels = (owner.spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    active = [pod for pod in snapshot.pods if is_pod_active(pod)]
    waits = [seconds_until_available(pod, minimum, now) for pod in active]
    soon = [wait for wait in waits if wait]
    conditions = [
        dict(found) for found in owner.status.get("conditions") or () if found.get("type") != "ReplicaFailure"
    ]
    if snapshot.refusal:
        old = condition(owner.status, "ReplicaFailure")
        conditions = with_condition(
            [*conditions, old] if old else conditions,
            "ReplicaFailure",
            "True",
            now,
            reason="FailedCreate",
            message=snapshot.refusal,
        )
    status: Json = without_empty(
        {
            "fullyLabeledReplicas": sum(selects({"matchLabels": labels}, pod.metadata.labels) for pod in active),
            "readyReplicas": sum(is_pod_ready(pod) for pod in active),
            "availableReplicas": sum(wait == 0 for wait in waits),
            "observedGeneration": owner.metadata.generation,
            "conditions": conditions or None,
        }
    )
    status["replicas"] = len(active)
    if snapshot.resource is REPLICA_SETS:
        status["terminatingReplicas"] = sum(pod.metadata.deleting for pod in snapshot.pods)
    return status, min(soon) if soon else None
