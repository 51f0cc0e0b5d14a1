"""Evictions: the deletion of a pod that disruption budgets may forbid."""

from __future__ import annotations

from typing import Any, Final

from ome.local.apiserver.core import Core
from ome.local.apiserver.deletion import DeleteOptions, Deletion
from ome.local.apiserver.errors import Problem, internal_error, too_many_requests
from ome.local.apiserver.rbac import selects
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Record

BUDGETS: Final = "poddisruptionbudgets.policy"
MOST_DISRUPTED: Final = 2000
Object = dict[str, Any]


class Evictions:
    """Evicts pods within their budgets."""

    def __init__(self, core: Core, deletion: Deletion) -> None:
        self._core = core
        self._deletion = deletion

    def evict(self, pods: ResourceType, record: Record, options: DeleteOptions) -> None:
        """Delete a pod if its budget allows. Raises Problem 429 when it does not, 500 when there are two budgets."""
        pod = record.parse()
        if not _needs_budget(pod):
            self._deletion.remove(pods, record, options)
            return
        budgets = self._budgets(record)
        if len(budgets) > 1:
            raise internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        if budgets and not _exempt(pod, budgets[0][1]):
            self._spend(*budgets[0], record.name, dry_run=options.dry_run)
        self._deletion.remove(pods, record, options)

    def _budgets(self, pod: Record) -> list[tuple[Record, Object]]:
        out: list[tuple[Record, Object]] = []
        for record in self._core.store.collection(BUDGETS).all(pod.namespace):
            budget = record.parse()
            selector = (budget.get("spec") or {}).get("selector")
            if selector is not None and selects(selector, pod.labels):
                out.append((record, budget))
        return out

    def _spend(self, record: Record, budget: Object, pod: str, *, dry_run: bool) -> None:
        status = budget.setdefault("status", {})
        metadata = budget["metadata"]
        if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
            cause = f"The disruption budget {record.name} is still being processed by the server."
            raise _refused(cause, retry_after=10)
        allowed = status.get("disruptionsAllowed") or 0
        if allowed < 0:
            raise Problem(403, "Forbidden", "pdb disruptions allowed is negative", {})
        if len(status.get("disruptedPods") or {}) > MOST_DISRUPTED:
            raise Problem(
                403, "Forbidden", "DisruptedPods map too big - too many evictions not confirmed by PDB controller", {}
            )
        if allowed == 0:
            healthy, wanted = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
            cause = f"The disruption budget {record.name} needs {wanted} healthy pods and has {healthy} currently"
            raise _refused(cause)
        if dry_run:
            return
        status["disruptionsAllowed"] = allowed - 1
        if allowed == 1:
            _set_condition(status, self._core.now(), metadata.get("generation") or 0)
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: self._core.now()}
        type_ = self._core.registry.by_storage(BUDGETS)
        if type_ is not None:
            self._core.update(type_, budget, record)


def _refused(cause: str, retry_after: int = 0) -> Problem:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(message, retry_after, [{"reason": "DisruptionBudget", "message": cause}])


def _set_condition(status: Object, now: str, generation: int) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    status["conditions"] = [*others, condition]


def _needs_budget(pod: Object) -> bool:
    """Finished, pending and already going pods are evicted without asking."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed", "Pending")


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _exempt(pod: Object, budget: Object) -> bool:
    """An unhealthy pod may go when its policy says so, or when the healthy ones are enough."""
    if _ready(pod):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, wanted = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    return bool(healthy >= wanted and wanted > 0)
