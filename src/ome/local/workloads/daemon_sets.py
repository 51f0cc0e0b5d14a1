"""What a DaemonSet does next: one pod on every node that it may run on, and its status. Pure.

RollingUpdate with maxUnavailable (a surge is treated as one unavailable pod), OnDelete. Called by `controllers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ome.api.intstr import scaled
from ome.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from ome.local.node.affinity import node_matches
from ome.local.node.taints import NOT_READY, UNREACHABLE, UNSCHEDULABLE, untolerated
from ome.local.objects import (
    Json,
    Object,
    RevisionObject,
    is_pod_ready,
    reference_to,
    seconds_until_available,
    status_patch,
)
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.revisions import REVISION_LABEL, next_revision, revision_body, surplus
from ome.local.workloads.templates import pod_from, template_hash

_TOLERATIONS: Final = (
    {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"},
    {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"},
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A DaemonSet with its pods, its revisions and all nodes."""

    daemon_set: Object
    pods: Sequence[Object]
    nodes: Sequence[Object]
    revisions: Sequence[RevisionObject]


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Pods to create and delete, one step of an update, and the status."""
    return _Pass(snapshot, now).plan()


class _Pass:
    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self.owner = snapshot.daemon_set
        self.now = now
        self.template = self.owner.spec.get("template") or {}
        self.hash = template_hash(self.template)
        self.minimum = int(self.owner.spec.get("minReadySeconds", 0))
        self.eligible = {node.name for node in snapshot.nodes if self._may_run(node)}
        self.keeping = {node.name for node in snapshot.nodes if self._may_stay(node)}
        self.by_node: dict[str, list[Object]] = {}
        for pod in snapshot.pods:
            self.by_node.setdefault(target_of(pod), []).append(pod)
        self.actions: list[Action] = []

    def plan(self) -> Plan:
        if not self.owner.metadata.deleting:
            self._keep_revision()
            self._place()
            self._roll()
        status, after = self._status()
        body = status_patch(self.owner.status, status)
        if body is not None:
            self.actions.append(Patch(DAEMON_SETS, self.owner.namespace, self.owner.name, body, "status"))
        return Plan(self.actions, after)

    def _probe(self) -> Object:
        spec = self.template.get("spec") or {}
        return Object(spec={**spec, "tolerations": [*(spec.get("tolerations") or ()), *_TOLERATIONS]})

    def _may_run(self, node: Object) -> bool:
        pod = self._probe()
        taint = untolerated(pod.spec["tolerations"], node.spec.get("taints") or (), ("NoSchedule", "NoExecute"))
        return node_matches(pod, node) and taint is None

    def _may_stay(self, node: Object) -> bool:
        pod = self._probe()
        taint = untolerated(pod.spec["tolerations"], node.spec.get("taints") or (), ("NoExecute",))
        return node_matches(pod, node) and taint is None

    def _keep_revision(self) -> None:
        name = f"{self.owner.name}-{self.hash}"
        if name not in {found.metadata.name for found in self.snapshot.revisions}:
            number = next_revision(self.snapshot.revisions)
            data = {"spec": {"template": {**self.template, "$patch": "replace"}}}
            self.actions.append(
                Create(CONTROLLER_REVISIONS, revision_body(self.owner, DAEMON_SETS, name, number, data))
            )
        limit = int(self.owner.spec.get("revisionHistoryLimit", 10))
        in_use = {name, *(f"{self.owner.name}-{_hash_of(pod)}" for pod in self.snapshot.pods)}
        for found in surplus(self.snapshot.revisions, limit, in_use):
            meta = found.metadata
            self.actions.append(Delete(CONTROLLER_REVISIONS, meta.namespace, meta.name, meta.uid))

    def _place(self) -> None:
        for node in sorted(self.eligible):
            pods = [pod for pod in self.by_node.get(node, ()) if not pod.metadata.deleting]
            ended = [pod for pod in pods if pod.status.get("phase") in ("Failed", "Succeeded")]
            for pod in ended:
                self._delete(pod)
            alive = [pod for pod in pods if pod not in ended]
            if not alive and not ended and not self.by_node.get(node):
                self._create(node)
            for pod in sorted(alive, key=lambda found: (not is_pod_ready(found), found.name))[1:]:
                self._delete(pod)
        for node, pods in self.by_node.items():
            if node in self.eligible or node in self.keeping:
                continue
            for pod in pods:
                if not pod.metadata.deleting:
                    self._delete(pod)

    def _roll(self) -> None:
        strategy = self.owner.spec.get("updateStrategy") or {}
        if (strategy.get("type") or "RollingUpdate") != "RollingUpdate":
            return
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        budget = max(1, scaled(limit, len(self.eligible)))
        old: list[Object] = []
        for node in sorted(self.eligible):
            pods = [pod for pod in self.by_node.get(node, ()) if not pod.metadata.deleting]
            if not pods or not self._available(pods[0]):
                budget -= 1
            if pods and _hash_of(pods[0]) != self.hash:
                old.append(pods[0])
        broken = [pod for pod in old if not self._available(pod)]
        healthy = [pod for pod in old if self._available(pod)]
        for pod in [*broken, *healthy[: max(0, budget)]]:
            self._delete(pod)

    def _available(self, pod: Object) -> bool:
        return seconds_until_available(pod, self.minimum, self.now) == 0.0

    def _create(self, node: str) -> None:
        body = pod_from(self.template, self.owner, DAEMON_SETS)
        body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), REVISION_LABEL: self.hash}
        spec = body["spec"]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *_TOLERATIONS]
        spec["affinity"] = _pinned(spec.get("affinity") or {}, node)
        about = reference_to(self.owner, DAEMON_SETS)
        done = Emit(about, "Normal", "SuccessfulCreate", "Created pod: {name}")
        refused = Emit(about, "Warning", "FailedCreate", "Error creating: {error}")
        self.actions.append(Create(PODS, body, done, refused))

    def _delete(self, pod: Object) -> None:
        if any(isinstance(action, Delete) and action.uid == pod.uid for action in self.actions):
            return
        done = Emit(reference_to(self.owner, DAEMON_SETS), "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        self.actions.append(Delete(PODS, pod.namespace, pod.name, pod.uid, done=done))

    def _status(self) -> tuple[Json, float | None]:
        current = updated = ready = available = misplaced = 0
        waits: list[float] = []
        for node, pods in self.by_node.items():
            alive = [pod for pod in pods if not pod.metadata.deleting]
            if not alive:
                continue
            if node not in self.eligible:
                misplaced += 1
                continue
            pod = alive[0]
            wait = seconds_until_available(pod, self.minimum, self.now)
            current += 1
            updated += _hash_of(pod) == self.hash
            ready += is_pod_ready(pod)
            available += wait == 0
            if wait:
                waits.append(wait)
        wanted = len(self.eligible)
        status: Json = {
            "currentNumberScheduled": current,
            "desiredNumberScheduled": wanted,
            "numberMisscheduled": misplaced,
            "numberReady": ready,
            "observedGeneration": self.owner.metadata.generation,
        }
        optional = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": wanted - available,
        }
        status.update({name: value for name, value in optional.items() if value})
        return status, min(waits) if waits else None


def target_of(pod: Object) -> str:
    """The node a daemon pod is meant for, also before it is bound."""
    node = pod.spec.get("nodeName")
    if node:
        return str(node)
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for found in term.get("matchFields") or ():
            if found.get("key") == "metadata.name" and found.get("values"):
                return str(found["values"][0])
    return ""


def _pinned(affinity: Json, node: str) -> Json:
    """The affinity with each node term bound to one node by name."""
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or ()]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": terms or [{"matchFields": [field]}]
    }
    return {**affinity, "nodeAffinity": node_affinity}


def _hash_of(pod: Object) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")
