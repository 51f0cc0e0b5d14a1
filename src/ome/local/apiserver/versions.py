"""One object, several versions: between the stored version and the one a client speaks.

Custom kinds have conversion strategy None, so only apiVersion changes. Built-in kinds with two served versions are
events and autoscalers. Pure; called by the verbs.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ome.local.apiserver.encoding import encode, head, stored_head
from ome.local.apiserver.registry import ResourceType

_EVENT_NAMES: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_METRICS_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/conditions"


def served_body(type_: ResourceType, body: bytes) -> bytes:
    """Stored bytes as this version of the resource shows them."""
    if type_.stored_as_served:
        return body
    if type_.custom is not None:
        return head(type_.api_version, type_.kind, True) + body[len(stored_head(type_)) :]
    import orjson

    obj = to_served(type_, orjson.loads(body))
    return encode(obj, type_.api_version, type_.kind, custom=False)


def to_served(type_: ResourceType, obj: dict[str, Any]) -> dict[str, Any]:
    """A stored object in the version a client speaks; changes and returns the given dict."""
    if type_.stored_as_served:
        return obj
    if type_.group == "events.k8s.io":
        obj = _renamed(obj, dict(_EVENT_NAMES))
        for name in ("reportingController", "reportingInstance"):
            if not obj.get(name):
                obj.pop(name, None)
    elif type_.group == "autoscaling":
        obj = _autoscaler_v1(obj)
    obj["apiVersion"] = type_.api_version
    return obj


def to_stored(type_: ResourceType, obj: dict[str, Any]) -> dict[str, Any]:
    """An object in a client's version, as it is stored; changes and returns the given dict."""
    if type_.stored_as_served:
        return obj
    if type_.group == "events.k8s.io":
        obj = _renamed(obj, {new: old for old, new in _EVENT_NAMES})
        obj.setdefault("involvedObject", {})
    elif type_.group == "autoscaling":
        obj = _autoscaler_v2(obj)
    obj["apiVersion"] = type_.storage_api_version
    return obj


def _renamed(obj: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in obj.items()}


def _autoscaler_v1(obj: dict[str, Any]) -> dict[str, Any]:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict((obj.get("metadata") or {}).get("annotations") or {})
    metrics = spec.pop("metrics", None) or []
    others = []
    for metric in metrics:
        utilization = _cpu_utilization(metric)
        if utilization is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = utilization
        else:
            others.append(metric)
    if others:
        annotations[_METRICS_ANNOTATION] = json.dumps(others, separators=(",", ":"))
    behavior = spec.pop("behavior", None)
    if behavior:
        annotations[_BEHAVIOR_ANNOTATION] = json.dumps(behavior, separators=(",", ":"))
    conditions = status.pop("conditions", None)
    if conditions:
        annotations[_CONDITIONS_ANNOTATION] = json.dumps(conditions, separators=(",", ":"))
    for metric in status.pop("currentMetrics", None) or []:
        current = ((metric.get("resource") or {}).get("current") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and current is not None:
            status["currentCPUUtilizationPercentage"] = current
    metadata = {**(obj.get("metadata") or {})}
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _cpu_utilization(metric: dict[str, Any]) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    target = resource.get("target") or {}
    value = target.get("averageUtilization")
    return value if isinstance(value, int) else None


def _autoscaler_v2(obj: dict[str, Any]) -> dict[str, Any]:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metadata = {**(obj.get("metadata") or {})}
    annotations = dict(metadata.get("annotations") or {})
    metrics: list[Any] = []
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metrics += _kept(annotations.pop(_METRICS_ANNOTATION, None), list)
    if metrics:
        spec["metrics"] = metrics
    behavior = _kept(annotations.pop(_BEHAVIOR_ANNOTATION, None), dict)
    if behavior:
        spec["behavior"] = behavior
    conditions = _kept(annotations.pop(_CONDITIONS_ANNOTATION, None), list)
    if conditions:
        status["conditions"] = conditions
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        seen = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": seen}]
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _kept(text: str | None, shape: type) -> Any:
    """What an annotation kept of the other version; nothing when it cannot be read."""
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    return value if isinstance(value, shape) else shape()
