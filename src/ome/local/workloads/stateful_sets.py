"""What a StatefulSet does next: pods with ordinals, one at a time, and its status. Pure.

OrderedReady and Parallel management, RollingUpdate with a partition, OnDelete, claims from templates. Called by
`controllers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ome.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from ome.local.objects import (
    Json,
    Object,
    RevisionObject,
    is_pod_ready,
    owner_reference,
    reference_to,
    seconds_until_available,
    status_patch,
    without_empty,
)
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.revisions import REVISION_LABEL, next_revision, revision_body, surplus
from ome.local.workloads.templates import pod_from, template_hash

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A StatefulSet with its pods, its revisions and the names of the claims in its namespace."""

    stateful_set: Object
    pods: Sequence[Object]
    revisions: Sequence[RevisionObject]
    claims: frozenset[str] = frozenset()


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """The next step: at most one pod when management is OrderedReady."""
    return _Pass(snapshot, now).plan()


class _Pass:
    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self.owner = snapshot.stateful_set
        self.now = now
        self.template = self.owner.spec.get("template") or {}
        self.update = f"{self.owner.name}-{template_hash(self.template)}"
        self.current = str(self.owner.status.get("currentRevision") or self.update)
        self.start = int((self.owner.spec.get("ordinals") or {}).get("start", 0))
        self.replicas = int(self.owner.spec.get("replicas", 1))
        self.ordered = (self.owner.spec.get("podManagementPolicy") or "OrderedReady") == "OrderedReady"
        self.minimum = int(self.owner.spec.get("minReadySeconds", 0))
        self.pods = {ordinal: pod for pod in snapshot.pods if (ordinal := self._ordinal(pod)) is not None}
        self.actions: list[Action] = []

    def plan(self) -> Plan:
        if not self.owner.metadata.deleting:
            self._keep_revision()
            self._step()
        status, after = self._status()
        body = status_patch(self.owner.status, status)
        if body is not None:
            self.actions.append(Patch(STATEFUL_SETS, self.owner.namespace, self.owner.name, body, "status"))
        return Plan(self.actions, after)

    def _ordinal(self, pod: Object) -> int | None:
        parent, _, number = pod.name.rpartition("-")
        return int(number) if parent == self.owner.name and number.isdigit() else None

    def _wanted(self) -> range:
        return range(self.start, self.start + self.replicas)

    def _keep_revision(self) -> None:
        names = {found.metadata.name for found in self.snapshot.revisions}
        if self.update not in names:
            number = next_revision(self.snapshot.revisions)
            data = {"spec": {"template": {**self.template, "$patch": "replace"}}}
            body = revision_body(self.owner, STATEFUL_SETS, self.update, number, data)
            self.actions.append(Create(CONTROLLER_REVISIONS, body))
        limit = int(self.owner.spec.get("revisionHistoryLimit", 10))
        in_use = {self.current, self.update, *(_revision_of(pod) for pod in self.snapshot.pods)}
        for found in surplus(self.snapshot.revisions, limit, in_use):
            meta = found.metadata
            self.actions.append(Delete(CONTROLLER_REVISIONS, meta.namespace, meta.name, meta.uid))

    def _step(self) -> None:
        for ordinal in self._wanted():
            pod = self.pods.get(ordinal)
            if pod is not None and not pod.metadata.deleting and pod.status.get("phase") in ("Failed", "Succeeded"):
                self._delete(pod)
                return
            if pod is None:
                self._create(ordinal)
                if self.ordered:
                    return
                continue
            if self.ordered and (pod.metadata.deleting or not self._available(pod)):
                return
        condemned = sorted((n for n in self.pods if n not in self._wanted()), reverse=True)
        for ordinal in condemned:
            pod = self.pods[ordinal]
            if not pod.metadata.deleting:
                self._delete(pod)
            if self.ordered:
                return
        if not condemned:
            self._roll()

    def _roll(self) -> None:
        strategy = self.owner.spec.get("updateStrategy") or {}
        if (strategy.get("type") or "RollingUpdate") != "RollingUpdate":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        for ordinal in reversed(self._wanted()):
            pod = self.pods.get(ordinal)
            if ordinal < partition or pod is None:
                return
            if _revision_of(pod) != self.update:
                if not pod.metadata.deleting:
                    self._delete(pod)
                return
            if not self._available(pod):
                return

    def _available(self, pod: Object) -> bool:
        return seconds_until_available(pod, self.minimum, self.now) == 0.0

    def _create(self, ordinal: int) -> None:
        name = f"{self.owner.name}-{ordinal}"
        partition = int(((self.owner.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0))
        revision = self.current if ordinal < partition + self.start else self.update
        body = pod_from(self._template_of(revision), self.owner, STATEFUL_SETS, name=name)
        labels = {
            **body["metadata"].get("labels", {}),
            POD_NAME: name,
            POD_INDEX: str(ordinal),
            REVISION_LABEL: revision,
        }
        body["metadata"]["labels"] = labels
        body["spec"]["hostname"] = name
        if self.owner.spec.get("serviceName"):
            body["spec"]["subdomain"] = self.owner.spec["serviceName"]
        claims = self.owner.spec.get("volumeClaimTemplates") or ()
        volumes = list(body["spec"].get("volumes") or ())
        for claim in claims:
            template = claim["metadata"]["name"]
            claim_name = f"{template}-{name}"
            volumes = [found for found in volumes if found.get("name") != template]
            volumes.append({"name": template, "persistentVolumeClaim": {"claimName": claim_name}})
            if claim_name not in self.snapshot.claims:
                self.actions.append(Create(PERSISTENT_VOLUME_CLAIMS, self._claim(claim, claim_name)))
        if volumes:
            body["spec"]["volumes"] = volumes
        about = reference_to(self.owner, STATEFUL_SETS)
        message = f"create Pod {name} in StatefulSet {self.owner.name} successful"
        refused = Emit(
            about,
            "Warning",
            "FailedCreate",
            f"create Pod {name} in StatefulSet {self.owner.name} failed error: {{error}}",
        )
        self.actions.append(Create(PODS, body, Emit(about, "Normal", "SuccessfulCreate", message), refused))

    def _template_of(self, revision: str) -> Json:
        if revision != self.update:
            for found in self.snapshot.revisions:
                if found.metadata.name == revision:
                    template = dict((found.data.get("spec") or {}).get("template") or {})
                    template.pop("$patch", None)
                    return template
        return dict(self.template)

    def _claim(self, template: Json, name: str) -> Json:
        labels = (self.owner.spec.get("selector") or {}).get("matchLabels") or {}
        metadata: Json = {"name": name, "namespace": self.owner.namespace}
        metadata["labels"] = {**(template["metadata"].get("labels") or {}), **labels}
        if (self.owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}).get("whenDeleted") == "Delete":
            metadata["ownerReferences"] = [owner_reference(self.owner, STATEFUL_SETS)]
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}

    def _delete(self, pod: Object) -> None:
        message = f"delete Pod {pod.name} in StatefulSet {self.owner.name} successful"
        done = Emit(reference_to(self.owner, STATEFUL_SETS), "Normal", "SuccessfulDelete", message)
        self.actions.append(Delete(PODS, pod.namespace, pod.name, pod.uid, done=done))

    def _status(self) -> tuple[Json, float | None]:
        pods = [pod for pod in self.snapshot.pods if not pod.metadata.deleting]
        waits = [seconds_until_available(pod, self.minimum, self.now) for pod in pods]
        updated = sum(_revision_of(pod) == self.update for pod in pods)
        ready = sum(is_pod_ready(pod) for pod in pods)
        current = self.current
        if updated == self.replicas == ready == len(self.snapshot.pods):
            current = self.update
        status = without_empty(
            {
                "observedGeneration": self.owner.metadata.generation,
                "readyReplicas": ready,
                "currentReplicas": sum(_revision_of(pod) == current for pod in pods),
                "updatedReplicas": updated,
                "currentRevision": current,
                "updateRevision": self.update,
            }
        )
        status.update(replicas=len(pods), availableReplicas=sum(wait == 0 for wait in waits), collisionCount=0)
        soon = [wait for wait in waits if wait]
        return status, min(soon) if soon else None


def _revision_of(pod: Object) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")
