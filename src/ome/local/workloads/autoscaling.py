"""What a HorizontalPodAutoscaler does without metrics: it keeps its target inside the bounds, and says that it
cannot scale. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ome.api.meta import timestamp
from ome.kube.resources import HPAS, Resource
from ome.local.objects import Json, Object, reference_to, status_patch, with_condition
from ome.local.plan import Action, Emit, Patch, Plan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An autoscaler with the Scale of its target: `target` is None when the target cannot be found, and `error` says
    why."""

    autoscaler: Object
    target: Resource | None
    scale: Mapping[str, Any] | None
    error: str = ""


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Raise the target to the minimum or lower it to the maximum; the status says what stands in the way of more."""
    hpa = snapshot.autoscaler
    conditions: list[Json] = [dict(found) for found in hpa.status.get("conditions") or ()]
    if snapshot.scale is None or snapshot.target is None:
        message = f"the HPA controller was unable to get the target's current scale: {snapshot.error}"
        conditions = with_condition(conditions, "AbleToScale", "False", now, reason="FailedGetScale", message=message)
        event = Emit(reference_to(hpa, HPAS), "Warning", "FailedGetScale", snapshot.error)
        return _plan(hpa, {**hpa.status, "conditions": conditions}, [event])
    current = int((snapshot.scale.get("spec") or {}).get("replicas", 0))
    desired, reason = _bounded(hpa, current)
    actions: list[Action] = []
    # As the real controller writes it without metrics: `desiredReplicas` is the size it last asked for, 0 before.
    status = {
        **hpa.status,
        "observedGeneration": hpa.metadata.generation,
        "currentReplicas": current,
        "desiredReplicas": int(hpa.status.get("desiredReplicas", 0)) if desired == current else desired,
    }
    if desired != current:
        actions.append(_rescale(snapshot, snapshot.target, current, desired, reason))
        message = f"the HPA controller was able to update the target scale to {desired}"
        conditions = with_condition(conditions, "AbleToScale", "True", now, reason="SucceededRescale", message=message)
        status["lastScaleTime"] = timestamp(now)
    else:
        message = "the HPA controller was able to get the target's current scale"
        conditions = with_condition(conditions, "AbleToScale", "True", now, reason="SucceededGetScale", message=message)
    if current == 0:
        del status["currentReplicas"]
        reason, message = "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"
    else:
        reason = "FailedGetResourceMetric"
        message = "the HPA was unable to compute the replica count: no metrics exist in this cluster"
    conditions = with_condition(conditions, "ScalingActive", "False", now, reason=reason, message=message)
    return _plan(hpa, {**status, "conditions": conditions}, actions)


def _bounded(hpa: Object, current: int) -> tuple[int, str]:
    minimum = int(hpa.spec.get("minReplicas", 1))
    maximum = int(hpa.spec.get("maxReplicas", minimum))
    if current == 0:
        return 0, ""
    if current > maximum:
        return maximum, "Current number of replicas above Spec.MaxReplicas"
    if current < minimum:
        return minimum, "Current number of replicas below Spec.MinReplicas"
    return current, ""


def _rescale(snapshot: Snapshot, target: Resource, current: int, desired: int, reason: str) -> Patch:
    hpa = snapshot.autoscaler
    reference = hpa.spec.get("scaleTargetRef") or {}
    event = Emit(reference_to(hpa, HPAS), "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
    version = ((snapshot.scale or {}).get("metadata") or {}).get("resourceVersion")
    body: Json = {"spec": {"replicas": desired}}
    if version:
        body["metadata"] = {"resourceVersion": version}
    return Patch(target, hpa.namespace, str(reference.get("name", "")), body, "scale", done=event)


def _plan(hpa: Object, status: Json, actions: list[Action]) -> Plan:
    body = status_patch(hpa.status, status)
    if body is not None:
        actions = [*actions, Patch(HPAS, hpa.namespace, hpa.name, body, "status")]
    return Plan(actions)
