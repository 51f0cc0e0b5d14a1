"""What becomes of a node that is silent, cordoned or gone, and of the pods on it. Pure.

A node whose Lease was not renewed for the grace period turns Unknown and gets the unreachable taints; its pods are
no longer Ready and, when their toleration runs out, are deleted. Pods of a node that does not exist are removed after
a while. Called by `services.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ome.api.meta import timestamp
from ome.kube.requests import PatchType
from ome.kube.resources import NODES, PODS
from ome.local.node.taints import NOT_READY, UNREACHABLE, UNSCHEDULABLE, toleration_seconds
from ome.local.objects import Json, Object, condition, is_pod_ready, reference_to, status_patch, time_of, with_condition
from ome.local.plan import Action, Delete, Emit, Patch, Plan

GRACE: Final = 40.0
QUARANTINE: Final = 40.0
_TYPES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node, when a renewal of its Lease was last seen (None: never), and the pods bound to it."""

    node: Object
    renewed_at: datetime | None
    pods: Sequence[Object]
    grace: float = GRACE


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Status, taints and evictions of one node."""
    node = snapshot.node
    actions: list[Action] = []
    silent, after = _silence(snapshot, now)
    status: Json = dict(node.status)
    if silent:
        status["conditions"] = _unknown(node, now)
        body = status_patch(node.status, status)
        if body is not None:
            event = Emit(
                reference_to(node, NODES), "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady"
            )
            actions.append(Patch(NODES, "", node.name, body, "status", done=event))
    taints = _taints(node, status, now)
    if taints != list(node.spec.get("taints") or ()):
        metadata = {"resourceVersion": node.metadata.resource_version} if not silent else {}
        actions.append(Patch(NODES, "", node.name, {"metadata": metadata, "spec": {"taints": taints or None}}))
    if _state(status) != "True":
        actions.extend(_unready(pod, now) for pod in snapshot.pods if is_pod_ready(pod))
    for pod in snapshot.pods:
        left = _stay(pod, taints, now)
        if left is None or pod.metadata.deleting:
            continue
        if left <= 0:
            actions.append(_evict(pod))
        else:
            after = left if after is None else min(after, left)
    return Plan(actions, after)


def collect_orphans(pods: Sequence[Object], missed_for: float, now: datetime) -> Plan:
    """Pods bound to a node that does not exist: left alone for a while, for the node may come back, then removed.

    missed_for: how many seconds ago the node was first missed.
    """
    if missed_for < QUARANTINE:
        return Plan([], QUARANTINE - missed_for)
    actions: list[Action] = [_lost(pod, now) for pod in pods if pod.status.get("phase") not in ("Succeeded", "Failed")]
    actions += [Delete(PODS, pod.namespace, pod.name, pod.uid, grace_period=0) for pod in pods]
    return Plan(actions)


def _lost(pod: Object, now: datetime) -> Patch:
    """Says why a pod fails, for whoever counts failures."""
    more: dict[str, Any] = {}
    if pod.metadata.generation:
        more["observedGeneration"] = pod.metadata.generation
    reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
    conditions = with_condition((), "DisruptionTarget", "True", now, reason=reason, message=message, **more)
    body = {"metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": conditions}}
    return Patch(PODS, pod.namespace, pod.name, body, "status", PatchType.STRATEGIC)


def _silence(snapshot: Snapshot, now: datetime) -> tuple[bool, float | None]:
    since = snapshot.renewed_at or snapshot.node.metadata.creation_timestamp
    ready = _state(snapshot.node.status)
    if since is None or ready is None or (snapshot.renewed_at is None and ready != "True"):
        return False, None
    left = snapshot.grace - (now - since).total_seconds()
    return left <= 0, left if left > 0 else None


def _state(status: Json) -> str | None:
    found = condition(status, "Ready")
    return None if found is None else str(found.get("status"))


def _unknown(node: Object, now: datetime) -> list[Json]:
    conditions: list[Json] = [dict(found) for found in node.status.get("conditions") or ()]
    for type_ in _TYPES:
        old = condition(node.status, type_)
        if old is not None and old.get("status") == "Unknown":
            continue
        heartbeat = {"lastHeartbeatTime": old["lastHeartbeatTime"]} if old and "lastHeartbeatTime" in old else {}
        conditions = with_condition(
            conditions,
            type_,
            "Unknown",
            now,
            reason="NodeStatusUnknown",
            message="Kubelet stopped posting node status.",
            **heartbeat,
        )
    return conditions


def _taints(node: Object, status: Json, now: datetime) -> list[Json]:
    """The taints that follow from the node's condition and cordon; all others are kept."""
    state = _state(status)
    wanted: list[tuple[str, str]] = []
    if state == "Unknown":
        wanted = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif state == "False":
        wanted = [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif state is None:
        # Not heard of yet: the taint that admission put there stays.
        wanted = [(NOT_READY, "NoSchedule")]
    if node.spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    ours = {NOT_READY, UNREACHABLE, UNSCHEDULABLE}
    have: list[Json] = [dict(found) for found in node.spec.get("taints") or ()]
    kept = [t for t in have if t.get("key") not in ours or (t.get("key"), t.get("effect")) in wanted]
    known = {(found.get("key"), found.get("effect")) for found in kept}
    if state is None:
        wanted = [found for found in wanted if found in known or found[0] == UNSCHEDULABLE]
    for key, effect in wanted:
        if (key, effect) not in known:
            kept.append({"key": key, "effect": effect, "timeAdded": timestamp(now)})
    return kept


def _unready(pod: Object, now: datetime) -> Patch:
    old = condition(pod.status, "Ready") or {}
    more: dict[str, Any] = {}
    if pod.metadata.generation:
        more["observedGeneration"] = pod.metadata.generation
    conditions = with_condition([old], "Ready", "False", now, reason="NodeNotReady", **more)
    body = {"metadata": {"uid": pod.uid}, "status": {"conditions": conditions}}
    event = Emit(reference_to(pod, PODS), "Warning", "NodeNotReady", "Node is not ready")
    return Patch(PODS, pod.namespace, pod.name, body, "status", PatchType.STRATEGIC, event)


def _stay(pod: Object, taints: Sequence[Json], now: datetime) -> float | None:
    """Seconds the pod may stay beside the node's NoExecute taints; None for ever."""
    limits = []
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        seconds = toleration_seconds(pod.spec.get("tolerations") or (), taint)
        if seconds is None:
            continue
        since = time_of(taint.get("timeAdded")) or now
        limits.append((since + timedelta(seconds=seconds) - now).total_seconds())
    return min(limits) if limits else None


def _evict(pod: Object) -> Delete:
    event = Emit(
        reference_to(pod, PODS),
        "Normal",
        "TaintManagerEviction",
        f"Marking for deletion Pod {pod.namespace}/{pod.name}",
    )
    return Delete(PODS, pod.namespace, pod.name, pod.uid, done=event)
