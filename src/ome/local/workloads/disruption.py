"""What a PodDisruptionBudget allows now. Pure; the eviction subresource of the API server goes by the status this
writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ome.api.intstr import scaled
from ome.kube.resources import PDBS
from ome.local.objects import (
    Json,
    Object,
    condition,
    is_pod_active,
    is_pod_ready,
    status_patch,
    time_of,
    with_condition,
)
from ome.local.plan import Patch, Plan

EVICTION_FORGOTTEN_AFTER: Final = 120.0  # seconds until an eviction that removed nothing is forgotten


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A budget, the pods its selector matches, and how many pods their controllers want (None: no controller scales
    them)."""

    budget: Object
    pods: Sequence[Object]
    expected: int | None


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """The budget's status, and when an unfinished eviction is to be forgotten."""
    budget = snapshot.budget
    pods = [pod for pod in snapshot.pods if is_pod_active(pod)]
    disrupted, after = _disrupted(budget, snapshot.pods, now)
    healthy = sum(is_pod_ready(pod) and pod.name not in disrupted for pod in pods)
    expected, desired = _wanted(budget, len(pods), snapshot.expected)
    allowed = max(0, healthy - desired) if expected else 0
    status: Json = {
        "observedGeneration": budget.metadata.generation,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "conditions": _conditions(budget, allowed, now),
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    body = status_patch(budget.status, status)
    if body is None:
        return Plan(after=after)
    return Plan((Patch(PDBS, budget.namespace, budget.name, body, "status"),), after)


def _wanted(budget: Object, count: int, controlled: int | None) -> tuple[int, int]:
    """How many pods are expected, and how many of them must stay healthy."""
    limit = budget.spec.get("maxUnavailable")
    if limit is not None:
        expected = count if controlled is None else controlled
        return expected, max(0, expected - scaled(limit, expected))
    minimum = budget.spec.get("minAvailable", 1)
    if isinstance(minimum, int):
        return count, minimum
    expected = count if controlled is None else controlled
    return expected, scaled(minimum, expected)


def _disrupted(budget: Object, pods: Sequence[Object], now: datetime) -> tuple[Json, float | None]:
    """Evictions that were granted and are not yet seen as deletions."""
    alive = {pod.name for pod in pods if not pod.metadata.deleting}
    kept: Json = {}
    after: float | None = None
    for name, granted in (budget.status.get("disruptedPods") or {}).items():
        since = time_of(granted)
        if name not in alive or since is None:
            continue
        left = (since + timedelta(seconds=EVICTION_FORGOTTEN_AFTER) - now).total_seconds()
        if left > 0:
            kept[name] = granted
            after = left if after is None else min(after, left)
    return kept, after


def _conditions(budget: Object, allowed: int, now: datetime) -> list[Json]:
    value, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    old = condition(budget.status, "DisruptionAllowed")
    more: Json = {"observedGeneration": budget.metadata.generation, "message": ""}
    if old is not None and (old.get("status"), old.get("reason")) == (value, reason):
        more["observedGeneration"] = old.get("observedGeneration", budget.metadata.generation)
    conditions = budget.status.get("conditions") or ()
    return with_condition(conditions, "DisruptionAllowed", value, now, reason=reason, **more)
