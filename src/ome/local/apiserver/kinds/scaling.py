"""HorizontalPodAutoscaler and PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from ome.local.apiserver.kinds import checks, names
from ome.local.apiserver.kinds.strategy import Strategy

_METRIC_FIELDS: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}


class HorizontalPodAutoscaler(Strategy):
    """Both versions: v1 knows only the processor's target."""

    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        spec.setdefault("minReplicas", 1)
        if self.version == "v1":
            spec.setdefault("targetCPUUtilizationPercentage", 80)
            return
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            _behavior_defaults(behavior)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = _target_errors(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
        least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
        errors += _metrics_errors(spec.get("metrics") or [], "spec.metrics", least)
        if least < 0:
            errors.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 0"))
        if most == 0:
            errors.append(required("spec.maxReplicas"))
        elif most < 1:
            errors.append(invalid_value("spec.maxReplicas", most, "must be greater than 0"))
        elif most < least:
            text = "must be greater than or equal to `minReplicas`"
            errors.append(invalid_value("spec.maxReplicas", most, text))
        return errors


def _behavior_defaults(behavior: dict[str, Any]) -> None:
    up = behavior.setdefault("scaleUp", {})
    up.setdefault("selectPolicy", "Max")
    up.setdefault("stabilizationWindowSeconds", 0)
    up.setdefault(
        "policies",
        [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    )
    down = behavior.setdefault("scaleDown", {})
    down.setdefault("selectPolicy", "Max")
    down.setdefault("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])


def _target_errors(target: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        value = target.get(field, "")
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            errors += [invalid_value(f"{path}.{field}", value, text) for text in names.path_segment(value)]
    version = target.get("apiVersion", "")
    if not version:
        errors.append(invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _metrics_errors(metrics: list[Mapping[str, Any]], path: str, least: int) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, metric in enumerate(metrics):
        errors += _metric_errors(metric, f"{path}[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden_field(path, text))
    return errors


def _metric_errors(metric: Mapping[str, Any], path: str) -> list[FieldError]:
    kind = metric.get("type", "")
    if not kind:
        return [required(f"{path}.type", "must specify a metric source type")]
    field = _METRIC_FIELDS.get(kind)
    if field is None:
        return [not_supported(f"{path}.type", kind, sorted(_METRIC_FIELDS))]
    source = metric.get(field)
    if source is None:
        return [required(f"{path}.{field}", "must populate information for the given metric source")]
    errors: list[FieldError] = []
    if kind in ("Resource", "ContainerResource") and not source.get("name"):
        errors.append(required(f"{path}.{field}.name", "must specify a resource name"))
    target = source.get("target") or {}
    place = f"{path}.{field}.target"
    if not target.get("type"):
        errors.append(required(f"{place}.type", "must specify a metric target type"))
    elif target["type"] not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid_value(f"{place}.type", target["type"], text))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid_value(f"{place}.averageUtilization", utilization, "must be greater than 0"))
    return errors


class PodDisruptionBudget(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        errors: list[FieldError] = []
        if least is not None and most is not None:
            shown = {
                "MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }  # fmt: skip
            errors.append(invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                errors += checks.int_or_percent(value, f"spec.{field}")
                errors += checks.no_more_than_100_percent(value, f"spec.{field}")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None:
            errors += checks.one_of(policy, "spec.unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))
        return errors + checks.label_selector(spec.get("selector"), "spec.selector")
