"""Rules 1, 2, 8 to 12, 17 and 18: scaling, old and new (`spec/inference-service.md` section 10)."""

from __future__ import annotations

from typing import Any, Final

from ome.admission.services.proposal import Proposal
from ome.api import keys

Json = dict[str, Any]

LEGACY_FIELDS: Final = {
    "scaleTarget": "hpa.metrics[0].resource.target.averageUtilization",
    "scaleMetric": "hpa.metrics[0].resource.name",
}
ANNOTATED_CLASSES: Final = ("hpa", "keda", "external")
ANNOTATED_METRICS: Final = ("cpu", "memory")
CLASSES: Final = ("HPA", "KEDA", "External", "None")
METRIC_FIELDS: Final = {
    "Resource": "resource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
    "ContainerResource": "containerResource",
}


def legacy_fields(proposal: Proposal) -> str:
    for component, spec in proposal.components.items():
        for field, replacement in LEGACY_FIELDS.items():
            if spec.get(field) is not None:
                return (
                    f"LegacyAutoscalerFieldsRejected: spec.{component}.{field} is no longer supported. "
                    f"Use spec.{component}.autoscaler.{replacement} instead."
                )
    return ""


def scaling_policy_problem(policy: Any, where: str) -> str:
    """Shared with runtimes: only the mode `Independent` works."""
    mode = (policy or {}).get("mode") or "Independent"
    if mode == "Independent":
        return ""
    return f'ScalingModeNotImplemented: {where}.mode "{mode}" is not implemented; use Independent'


def scaling_policy(proposal: Proposal) -> str:
    if not proposal.creating and proposal.spec.get("scalingPolicy") == proposal.old_spec.get("scalingPolicy"):
        return ""
    return scaling_policy_problem(proposal.spec.get("scalingPolicy"), "spec.scalingPolicy")


def annotated_class(proposal: Proposal) -> str:
    value = proposal.annotations.get(keys.AUTOSCALER_CLASS)
    if value is None:
        return ""
    if value not in ANNOTATED_CLASSES:
        return f"[{value}] is not a supported autoscaler class type"
    metric = proposal.annotations.get(keys.METRICS)
    if value == "hpa" and metric is not None and metric not in ANNOTATED_METRICS:
        return f"[{metric}] is not a supported metric"
    return ""


def autoscaler_problem(component: str, spec: Json) -> str:
    """The shape of a component's `autoscaler`, in a service or in a runtime."""
    autoscaler = spec.get("autoscaler")
    if autoscaler is None:
        return ""
    class_ = autoscaler.get("class") or ""
    if class_ not in CLASSES:
        return f'{component}: AutoscalerClassUnknown: autoscaler.class "{class_}" is not one of HPA|KEDA|External|None'
    if class_ == "KEDA":
        return _keda_problem(component, autoscaler.get("keda") or {}, spec.get("minReplicas"))
    if class_ == "HPA":
        return _hpa_problem(component, autoscaler.get("hpa") or {})
    return ""


def _keda_problem(component: str, keda: Json, minimum: int | None) -> str:
    if not keda.get("triggers"):
        return f"{component}: KedaTriggersRequired: class=keda requires at least 1 trigger"
    idle = keda.get("idleReplicaCount")
    if idle is not None and minimum is not None and idle >= minimum:
        return (
            f"{component}: KedaIdleBelowMin: keda.idleReplicaCount must be < minReplicas "
            f"(got idleReplicaCount={idle}, minReplicas={minimum})"
        )
    return ""


def _hpa_problem(component: str, hpa: Json) -> str:
    for index, metric in enumerate(hpa.get("metrics") or []):
        kind = metric.get("type") or ""
        if not kind:
            return (
                f"{component}: HPAMetricMalformed: hpa.metrics[{index}].type is empty; "
                f"must be one of {'|'.join(METRIC_FIELDS)}"
            )
        field = METRIC_FIELDS.get(kind)
        if field is None:
            return (
                f'{component}: HPAMetricMalformed: hpa.metrics[{index}].type "{kind}" is unknown; '
                f"must be one of {'|'.join(METRIC_FIELDS)}"
            )
        if metric.get(field) is None:
            where = f"hpa.metrics[{index}]"
            return f"{component}: HPAMetricMalformed: {where}.type={kind} but {where}.{field} is nil"
    return ""


def component_autoscalers(proposal: Proposal) -> str:
    problems = (autoscaler_problem(component, spec) for component, spec in proposal.components.items())
    return next((problem for problem in problems if problem), "")


def annotation_and_block(proposal: Proposal) -> str:
    if keys.AUTOSCALER_CLASS not in proposal.annotations:
        return ""
    for component, spec in proposal.components.items():
        if spec.get("autoscaler") is not None:
            return (
                f"AutoscalerAnnotationConflict: ome.io/autoscalerClass annotation is present together with "
                f"spec.{component}.autoscaler; remove the annotation — per-Component autoscaler block wins"
            )
    return ""


def policy_references(proposal: Proposal) -> str:
    for component, spec in proposal.components.items():
        reference = spec.get("autoscalerPolicyRef")
        if reference is None:
            continue
        where = f"spec.{component}.autoscalerPolicyRef"
        if not proposal.features.autoscaler_policy:
            return (
                f"AutoscalerPolicyFeatureDisabled: {where} needs the AutoscalerPolicy CRD, which was not installed "
                "when the manager started"
            )
        kind = reference.get("kind") or "AutoscalerPolicy"
        if kind != "AutoscalerPolicy":
            return f'AutoscalerPolicyKindReserved: {where}.kind "{kind}" is reserved; use AutoscalerPolicy'
    return ""


def utilization(proposal: Proposal) -> str:
    value = proposal.annotations.get(keys.TARGET_UTILIZATION)
    if value is None:
        return ""
    number = int(value) if value.isascii() and value.isdigit() else 0
    return "" if 1 <= number <= 100 else "the target utilization percentage should be a [1-100] integer"


def scale_to_zero(proposal: Proposal) -> str:
    for component, spec in proposal.components.items():
        if spec.get("minReplicas") != 0 or proposal.legacy_autoscaler_class == "keda":
            continue
        if (spec.get("autoscaler") or {}).get("class") != "KEDA":
            return (
                f"InvalidScaleToZero: {component}.minReplicas=0 requires KEDA autoscaling "
                f"(set spec.{component}.autoscaler.class=KEDA or the ome.io/autoscalerClass=keda annotation); "
                "Serverless mode no longer auto-promotes scale-to-zero"
            )
    return ""


def replica_bounds(proposal: Proposal) -> str:
    for component, spec in proposal.components.items():
        where, low, high = f"spec.{component}", spec.get("minReplicas"), spec.get("maxReplicas") or None
        if low is not None and low < 0:
            return f"{where}.minReplicas must be >= 0"
        if high is not None and high < 1:
            return f"{where}.maxReplicas must be >= 1"
        if low is not None and high is not None and low > high:
            return f"{where}.minReplicas ({low}) must be <= maxReplicas ({high})"
    return ""
