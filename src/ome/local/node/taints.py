"""Taints and tolerations, by Kubernetes' rules. Pure; used by the scheduler, DaemonSets and the node lifecycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Taint = Mapping[str, Any]

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    operator = toleration.get("operator") or "Equal"
    if not key:
        return operator == "Exists"
    if key != taint.get("key"):
        return False
    return operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(
    tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Taint], effects: Iterable[str]
) -> Taint | None:
    """The first taint of these effects that nothing tolerates."""
    tolerations = list(tolerations)
    wanted = set(effects)
    for taint in taints:
        if taint.get("effect") not in wanted:
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def toleration_seconds(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> float | None:
    """How long a pod may stay beside a NoExecute taint: 0 when not tolerated, None for ever."""
    matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
    if not matching:
        return 0.0
    limits = [
        toleration["tolerationSeconds"] for toleration in matching if toleration.get("tolerationSeconds") is not None
    ]
    return max(0.0, float(min(limits))) if limits else None
