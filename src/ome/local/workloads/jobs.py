"""What a Job does next: pods until enough have succeeded, then its conditions; and when it is swept away. Pure.

NonIndexed and Indexed completion, suspension, backoffLimit, activeDeadlineSeconds, ttlSecondsAfterFinished. A pod
carries the finalizer `batch.kubernetes.io/job-tracking` until it is counted, so that no end is lost or counted
twice. Called by `controllers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ome.api.meta import timestamp
from ome.kube.resources import JOBS, PODS
from ome.local.objects import (
    Json,
    Object,
    condition_true,
    is_pod_active,
    is_pod_ready,
    reference_to,
    status_patch,
    time_of,
)
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.templates import pod_from

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FIRST_RETRY: Final = 10.0
LAST_RETRY: Final = 600.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Job and the pods it controls."""

    job: Object
    pods: Sequence[Object]


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """The next step of the Job."""
    return _Pass(snapshot, now).plan()


def is_finished(job: Object) -> bool:
    return condition_true(job.status, "Complete") or condition_true(job.status, "Failed")


class _Pass:
    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.job = snapshot.job
        self.now = now
        self.spec = self.job.spec
        self.status: Json = {k: v for k, v in self.job.status.items() if k not in ("active", "ready", "terminating")}
        self.conditions: list[Json] = [dict(found) for found in self.job.status.get("conditions") or ()]
        self.pods = snapshot.pods
        self.active = [pod for pod in self.pods if is_pod_active(pod)]
        self.actions: list[Action] = []
        self.after: float | None = None
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.succeeded = int(self.job.status.get("succeeded", 0))
        self.failed = int(self.job.status.get("failed", 0))
        self.uncounted: dict[str, list[str]] = {}
        self.indexes = _parse_indexes(str(self.job.status.get("completedIndexes") or ""))

    def plan(self) -> Plan:
        if self.job.metadata.deleting:
            self._release(self.pods)
            return Plan(self.actions)
        if is_finished(self.job):
            self._release(self.pods)
            return self._sweep()
        self._count()
        if self.spec.get("suspend"):
            self._suspend()
        else:
            self._resume()
            self._work()
        return self._finish()

    # -- counting ------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count ended pods in three writes, so that a crash between any two neither loses nor doubles one.

        Their uids are stored as uncounted; then our finalizer is taken off; then the uids become numbers.
        """
        by_uid = {pod.uid: pod for pod in self.pods}
        stored = self.job.status.get("uncountedTerminatedPods") or {}
        uncounted: dict[str, list[str]] = {"succeeded": [], "failed": []}
        for kind, uids in uncounted.items():
            for uid in stored.get(kind) or ():
                pod = by_uid.get(uid)
                if pod is not None and TRACKING in pod.metadata.finalizers:
                    uids.append(uid)
                    self._release([pod])
                else:
                    self._add(kind, 1)
        known = {*uncounted["succeeded"], *uncounted["failed"]}
        for pod in self.pods:
            if TRACKING not in pod.metadata.finalizers or pod.uid in known:
                continue
            phase = pod.status.get("phase")
            if phase == "Succeeded":
                self._succeed(pod, uncounted["succeeded"])
            elif phase == "Failed" or pod.metadata.deleting:
                uncounted["failed"].append(pod.uid)
        self.uncounted = {kind: uids for kind, uids in uncounted.items() if uids}

    def _add(self, kind: str, count: int) -> None:
        if kind == "failed":
            self.failed += count
        elif not self.indexed:
            self.succeeded += count

    def _succeed(self, pod: Object, uncounted: list[str]) -> None:
        index = _index_of(pod)
        if not self.indexed:
            uncounted.append(pod.uid)
        elif index is None or index in self.indexes:
            self._release([pod])
        else:
            # The index itself is the record: it can be noted twice without harm.
            self.indexes.add(index)
            self.succeeded = len(self.indexes)

    @property
    def _successes(self) -> int:
        return self.succeeded + len(self.uncounted.get("succeeded", ()))

    @property
    def _failures(self) -> int:
        return self.failed + len(self.uncounted.get("failed", ()))

    def _release(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if TRACKING not in pod.metadata.finalizers:
                continue
            kept = [found for found in pod.metadata.finalizers if found != TRACKING]
            body = {"metadata": {"uid": pod.uid, "finalizers": kept or None}}
            self.actions.append(Patch(PODS, pod.namespace, pod.name, body))

    # -- working -------------------------------------------------------------------------------------------------------

    def _suspend(self) -> None:
        for pod in self.active:
            self._delete(pod)
        self.status.pop("startTime", None)
        self._condition("Suspended", "True", "JobSuspended", "Job suspended", event="Suspended")

    def _resume(self) -> None:
        if any(found["type"] == "Suspended" and found["status"] == "True" for found in self.conditions):
            self._condition("Suspended", "False", "JobResumed", "Job resumed", event="Resumed")
        self.status.setdefault("startTime", timestamp(self.now))

    def _work(self) -> None:
        if self._overdue():
            self._fail("DeadlineExceeded", "Job was active longer than specified deadline")
            return
        if self._failures > int(self.spec.get("backoffLimit", 6)):
            self._fail("BackoffLimitExceeded", "Job has reached the specified backoff limit")
            return
        completions = self.spec.get("completions")
        if self._is_complete(completions):
            self._complete()
            return
        self._keep_active(completions)

    def _is_complete(self, completions: int | None) -> bool:
        if completions is None:
            return self._successes > 0 and not self.active
        return self._successes >= int(completions)

    def _keep_active(self, completions: int | None) -> None:
        parallelism = int(self.spec.get("parallelism", 1))
        if completions is None:
            wanted = len(self.active) if self._successes else parallelism
        else:
            wanted = min(parallelism, max(0, int(completions) - self._successes))
        missing = wanted - len(self.active)
        for pod in self.active[: max(0, -missing)]:
            self._delete(pod)
        if missing <= 0:
            return
        wait = self._retry_wait()
        if wait > 0:
            self.after = wait if self.after is None else min(self.after, wait)
            return
        if self.indexed and completions is not None:
            busy = {_index_of(pod) for pod in self.pods if not _ended(pod)}
            free = [n for n in range(int(completions)) if n not in self.indexes and n not in busy]
            for index in free[:missing]:
                self._create(index)
            return
        for _ in range(missing):
            self._create(None)

    def _retry_wait(self) -> float:
        """Seconds until a failed pod may be replaced: 10 s, doubling."""
        ends = [end for pod in self.pods if (end := _failed_at(pod)) is not None]
        if not ends or not self._failures:
            return 0.0
        delay = min(LAST_RETRY, FIRST_RETRY * 2.0 ** (self._failures - 1))
        return delay - (self.now - max(ends)).total_seconds()

    def _create(self, index: int | None) -> None:
        body = pod_from(self.spec.get("template") or {}, self.job, JOBS)
        metadata = body["metadata"]
        metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
        if index is not None:
            metadata["generateName"] = f"{self.job.name}-{index}-"
            metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
            metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
            body["spec"]["hostname"] = f"{self.job.name}-{index}"
            variable = {
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}},
            }
            for field in ("initContainers", "containers"):
                if body["spec"].get(field):
                    body["spec"][field] = [
                        {**found, "env": [*(found.get("env") or ()), variable]} for found in body["spec"][field]
                    ]
        about = reference_to(self.job, JOBS)
        done = Emit(about, "Normal", "SuccessfulCreate", "Created pod: {name}")
        refused = Emit(about, "Warning", "FailedCreate", "Error creating: {error}")
        self.actions.append(Create(PODS, body, done, refused))

    def _delete(self, pod: Object) -> None:
        done = Emit(reference_to(self.job, JOBS), "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        self.actions.append(Delete(PODS, pod.namespace, pod.name, pod.uid, done=done))

    # -- ending --------------------------------------------------------------------------------------------------------

    def _overdue(self) -> bool:
        deadline = self.spec.get("activeDeadlineSeconds")
        started = time_of(self.status.get("startTime"))
        if deadline is None or started is None:
            return False
        left = float(deadline) - (self.now - started).total_seconds()
        if left > 0:
            self.after = left if self.after is None else min(self.after, left)
        return left <= 0

    def _complete(self) -> None:
        if not self.uncounted and all(_ended(pod) for pod in self.pods):
            message = "Reached expected number of succeeded pods"
            self._condition("SuccessCriteriaMet", "True", "CompletionsReached", message)
            self._condition("Complete", "True", "CompletionsReached", message)
            self.status["completionTime"] = timestamp(self.now)
            self.actions.append(Emit(reference_to(self.job, JOBS), "Normal", "Completed", "Job completed"))
            return
        self._condition("SuccessCriteriaMet", "True", "CompletionsReached", "Reached expected number of succeeded pods")
        for pod in self.active:
            self._delete(pod)

    def _fail(self, reason: str, message: str) -> None:
        self._condition("FailureTarget", "True", reason, message)
        for pod in self.active:
            self._delete(pod)
        if not self.uncounted and all(_ended(pod) for pod in self.pods):
            self._condition("Failed", "True", reason, message)
            self.actions.append(Emit(reference_to(self.job, JOBS), "Warning", reason, message))

    def _condition(self, type_: str, status: str, reason: str, message: str, *, event: str = "") -> None:
        for found in self.conditions:
            if found["type"] == type_ and found["status"] == status:
                return
        self.conditions = [found for found in self.conditions if found["type"] != type_]
        moment = timestamp(self.now)
        self.conditions.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastProbeTime": moment,
                "lastTransitionTime": moment,
            }
        )
        if event:
            self.actions.append(Emit(reference_to(self.job, JOBS), "Normal", event, message))

    def _finish(self) -> Plan:
        counts = {"active": len(self.active), "succeeded": self.succeeded, "failed": self.failed}
        for name, value in counts.items():
            self.status.pop(name, None)
            if value:
                self.status[name] = value
        self.status["ready"] = sum(is_pod_ready(pod) for pod in self.active)
        self.status["terminating"] = sum(pod.metadata.deleting and not _ended(pod) for pod in self.pods)
        self.status["uncountedTerminatedPods"] = self.uncounted
        if self.indexed and self.indexes:
            self.status["completedIndexes"] = _format_indexes(self.indexes)
        if self.conditions:
            self.status["conditions"] = self.conditions
        body = status_patch(self.job.status, self.status)
        if body is None:
            return Plan(self.actions, self.after)
        # First the record, then what it records.
        patch = Patch(JOBS, self.job.namespace, self.job.name, body, "status")
        return Plan([patch, *self.actions], self.after)

    def _sweep(self) -> Plan:
        ttl = self.spec.get("ttlSecondsAfterFinished")
        ended = self._ended_at()
        if ttl is None or ended is None:
            return Plan(self.actions)
        left = float(ttl) - (self.now - ended).total_seconds()
        if left > 0:
            return Plan(self.actions, left)
        delete = Delete(JOBS, self.job.namespace, self.job.name, self.job.uid, propagation="Foreground")
        return Plan([*self.actions, delete])

    def _ended_at(self) -> datetime | None:
        for found in self.conditions:
            if found["type"] in ("Complete", "Failed") and found["status"] == "True":
                return time_of(found.get("lastTransitionTime"))
        return None


def _ended(pod: Object) -> bool:
    return pod.status.get("phase") in ("Succeeded", "Failed")


def _index_of(pod: Object) -> int | None:
    value = pod.metadata.annotations.get(INDEX, "")
    return int(value) if value.isdigit() else None


def _failed_at(pod: Object) -> datetime | None:
    if pod.status.get("phase") != "Failed":
        return None
    ends = [
        time_of(((found.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for found in pod.status.get("containerStatuses") or ()
    ]
    known = [end for end in ends if end is not None]
    return max(known) if known else None


def _parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _format_indexes(indexes: Iterable[int]) -> str:
    """`0,1` for two in a row, `0-2` for three and more, as Kubernetes writes them."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = []
    for run in runs:
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(str(index) for index in run)
    return ",".join(parts)
