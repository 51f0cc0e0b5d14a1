"""What a service's status says about the autoscaler of each component: for `autoscale status` and `status`. Pure.

`LiveScale` is the InferenceReplica behind it, read now, when `--live-scale` asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ome.cli.evidence import objects
from ome.cli.output.report import parse_time
from ome.cli.output.text import cut

HEADER = ("FIELD", "SERVICE", "ENGINE", "DECODER", "ROUTER")
WIDE_HEADER = (
    "STATE",
    "COMPONENT",
    "COMPONENT-STATE",
    "CLASS",
    "MANAGED-BY",
    "SPEC-SOURCE",
    "TARGET",
    "TARGET-EVIDENCE",
    "CURRENT",
    "DESIRED",
    "REPLICA-EVIDENCE",
    "LAST-SCALE",
    "CONDITION-EVIDENCE",
    "CONDITIONS",
    "ISSUES",
)
CELL = 24

_OWNERS = {"HPA": "ome", "KEDA": "ome", "External": "external", "None": "none"}
_SOURCES = ("isvc", "policy", "runtime", "legacy", "default")
_CONDITIONS = {
    "HPA": (
        ("ABLE-TO-SCALE", "AbleToScale"),
        ("SCALING-ACTIVE", "ScalingActive"),
        ("SCALING-LIMITED", "ScalingLimited"),
    ),
    "KEDA": (("READY", "Ready"), ("ACTIVE", "Active"), ("FALLBACK", "Fallback"), ("PAUSED", "Paused")),
}
_ALIASES = {
    "UnknownComponentStatus": "UnknownComp",
    "AutoscalerNotReported": "NoAutoscaler",
    "ScaleTargetNotReported": "NoTarget",
    "ClassInvalid": "BadClass",
    "ManagedByInvalid": "BadManager",
    "OwnershipMismatch": "OwnerMismatch",
    "SpecSourceInvalid": "BadSpecSource",
    "UnexpectedScalerEvidence": "UnexpectedEv",
    "ReplicaEvidenceAmbiguous": "ReplicaAmbig",
    "ReplicaEvidenceInvalid": "BadReplica",
    "ScaleTargetInvalid": "BadTarget",
    "ConditionInvalid": "BadCondition",
    "ConditionConflict": "CondConflict",
}
_PARTIAL = ("ScaleTargetNotReported", "ReplicaEvidenceAmbiguous", "ConditionInvalid", "ConditionConflict")


class LiveScale(NamedTuple):
    """The InferenceReplica's counts, read now; `evidence` says how that went."""

    evidence: str
    spec: int = 0
    current: int = 0


class ComponentScaling(NamedTuple):
    component: str
    state: str
    owner_class: str
    managed_by: str
    source: str
    target_kind: str
    target_name: str
    target_evidence: str
    current: int
    desired: int
    replica_evidence: str
    last_scale: str
    condition_evidence: str
    conditions: Mapping[str, str]
    issues: tuple[str, ...]

    @property
    def counted(self) -> bool:
        return self.replica_evidence in ("Reported", "Ambiguous")


class Autoscaling(NamedTuple):
    state: str
    components: tuple[ComponentScaling, ...]
    issues: tuple[str, ...]


def _replica_evidence(scaler: Mapping[str, Any], owner: str) -> tuple[str, list[str]]:
    current, desired = objects.get(scaler, "currentReplicas"), objects.get(scaler, "desiredReplicas")
    last = objects.get(scaler, "lastScaleTime")
    if owner != "ome":
        unexpected = any(value is not None for value in (current, desired, last)) or objects.items(scaler, "conditions")
        return "Unavailable", ["UnexpectedScalerEvidence"] if unexpected else []
    counts = [objects.integer(scaler, key) for key in ("currentReplicas", "desiredReplicas")]
    wrong = any(raw is not None and count is None for raw, count in zip((current, desired), counts, strict=True))
    if wrong or any((count or 0) < 0 for count in counts) or (last is not None and parse_time(last) is None):
        return "Invalid", ["ReplicaEvidenceInvalid"]
    if not all(counts):
        # A count of 0 is left out of the status: it cannot be told from a missing one.
        return "Ambiguous", ["ReplicaEvidenceAmbiguous"]
    return "Reported", []


def _conditions(scaler: Mapping[str, Any], owner_class: str) -> tuple[str, dict[str, str], list[str]]:
    known = {kind: label for label, kind in _CONDITIONS.get(owner_class, ())}
    found: dict[str, str] = {}
    issues: list[str] = []
    entries = objects.items(scaler, "conditions")
    for entry in entries:
        kind, status = objects.text(entry, "type"), objects.text(entry, "status")
        if kind not in known or status not in ("True", "False", "Unknown"):
            issues.append("ConditionInvalid")
        elif found.get(kind, status) != status:
            issues.append("ConditionConflict")
        else:
            found[kind] = status
    if _OWNERS.get(owner_class) != "ome":
        return "Unavailable", {}, []
    return ("Reported" if found else "Unavailable" if issues else "NotReported"), found, issues


def _target(entry: Mapping[str, Any]) -> tuple[str, str, str, list[str]]:
    reference = objects.get(entry, "scaleTargetRef")
    if reference is None:
        return "", "", "NotReported", ["ScaleTargetNotReported"]
    kind, name = objects.text(reference, "kind"), objects.text(reference, "name")
    if kind not in ("InferenceReplica", "Deployment") or not objects.is_subdomain(name):
        return kind, name, "Invalid", ["ScaleTargetInvalid"]
    return kind, name, "Reported", []


def _component(component: str, entry: Mapping[str, Any]) -> ComponentScaling:
    scaler = objects.get(entry, "autoscaler")
    kind, name, target_evidence, target_issues = _target(entry)
    if not isinstance(scaler, Mapping):
        return ComponentScaling(
            component, "NotReported", "Unknown", "Unknown", "Unknown", kind, name, target_evidence, 0, 0, "NotReported",
            "", "NotReported", {}, ("AutoscalerNotReported",),
        )  # fmt: skip
    issues = []
    owner_class, managed = objects.text(scaler, "class"), objects.text(scaler, "managedBy")
    source = objects.text(scaler, "specSource")
    if owner_class not in _OWNERS:
        issues.append("ClassInvalid")
    if managed not in _OWNERS.values():
        issues.append("ManagedByInvalid")
    elif owner_class in _OWNERS and _OWNERS[owner_class] != managed:
        issues.append("OwnershipMismatch")
    if source not in _SOURCES:
        issues.append("SpecSourceInvalid")
    replica_evidence, replica_issues = _replica_evidence(scaler, managed)
    condition_evidence, conditions, condition_issues = _conditions(scaler, owner_class)
    issues += [*replica_issues, *target_issues, *condition_issues]
    state = "Reported" if not issues else "Partial" if all(code in _PARTIAL for code in issues) else "Invalid"
    return ComponentScaling(
        component,
        state,
        owner_class if owner_class in _OWNERS else "Unknown",
        managed or "Unknown",
        source or "Unknown",
        kind,
        name,
        target_evidence,
        objects.count(scaler, "currentReplicas"),
        objects.count(scaler, "desiredReplicas"),
        replica_evidence,
        objects.text(scaler, "lastScaleTime"),
        condition_evidence,
        conditions,
        tuple(dict.fromkeys(issues)),
    )


def autoscaling(service: Mapping[str, Any]) -> Autoscaling:
    """Every component the status has an entry for."""
    entries = objects.mapping(service, "status", "components")
    components = tuple(
        _component(name, entries[name]) for name in objects.COMPONENTS if isinstance(entries.get(name), Mapping)
    )
    issues = ("UnknownComponentStatus",) if set(entries) - set(objects.COMPONENTS) else ()
    states = {entry.state for entry in components}
    if issues or "Invalid" in states:
        state = "Invalid"
    elif not components or states == {"NotReported"}:
        state = "Unavailable"
    else:
        state = "Reported" if states == {"Reported"} else "Partial"
    return Autoscaling(state, components, issues)


def live_count(found: ComponentScaling, live: LiveScale) -> str:
    if live.evidence != "Reported" or found.replica_evidence != "Reported":
        return "Unknown"
    return "Equal" if (live.spec, live.current) == (found.desired, found.current) else "Drift"


def _short_time(text: str) -> str:
    moment = parse_time(text)
    return f"{moment.strftime('%b')}{moment.day:02d} {moment.strftime('%H:%MZ')}" if moment else ""


def _fields(entry: ComponentScaling, live: LiveScale | None) -> dict[str, str]:
    number = str if entry.counted else (lambda count: "")
    fields = {
        "STATE": entry.state,
        "CLASS": entry.owner_class,
        "MANAGED-BY": entry.managed_by,
        "SPEC-SOURCE": entry.source,
        "TARGET-KIND": "IR" if entry.target_kind == "InferenceReplica" else entry.target_kind,
        "TARGET-NAME": entry.target_name,
        "TARGET-EVIDENCE": entry.target_evidence,
        "CURRENT": number(entry.current),
        "DESIRED": number(entry.desired),
        "REPLICA-EVIDENCE": entry.replica_evidence,
    }
    if live is not None:
        read = live.evidence == "Reported"
        fields |= {
            "LIVE-EVIDENCE": live.evidence,
            "LIVE-SPEC": str(live.spec) if read else "",
            "LIVE-CURRENT": str(live.current) if read else "",
            "LIVE-COUNT": live_count(entry, live),
        }
    fields |= {"LAST-SCALE": _short_time(entry.last_scale), "COND-EVIDENCE": entry.condition_evidence}
    for labels in _CONDITIONS.values():
        fields |= {label: entry.conditions.get(kind, "") for label, kind in labels if kind in entry.conditions}
    return fields


_ORDER = (
    "STATE", "CLASS", "MANAGED-BY", "SPEC-SOURCE", "TARGET-KIND", "TARGET-NAME", "TARGET-EVIDENCE", "CURRENT",
    "DESIRED", "REPLICA-EVIDENCE", "LIVE-EVIDENCE", "LIVE-SPEC", "LIVE-CURRENT", "LIVE-COUNT", "LAST-SCALE",
    "COND-EVIDENCE", "ABLE-TO-SCALE", "SCALING-ACTIVE", "SCALING-LIMITED", "READY", "ACTIVE", "FALLBACK",
    "PAUSED",
)  # fmt: skip


def rows(found: Autoscaling, live: Mapping[str, LiveScale]) -> list[list[str]]:
    """STATE always; another row only when a component has a value for it; issues last, one a row."""
    columns = {entry.component: _fields(entry, live.get(entry.component)) for entry in found.components}
    lines = []
    for name in _ORDER:
        cells = [columns.get(component, {}).get(name, "") for component in objects.COMPONENTS]
        if name == "STATE" or any(cells):
            lines.append([name, found.state if name == "STATE" else "-", *(cut(cell, CELL) or "-" for cell in cells)])
    by_name = {entry.component: entry.issues for entry in found.components}
    every = [found.issues, *(by_name.get(component, ()) for component in objects.COMPONENTS)]
    for number in range(max(map(len, every))):
        cells = [_ALIASES[codes[number]] if number < len(codes) else "" for codes in every]
        lines.append(["ISSUES" if number == 0 else "", *(cell or "-" for cell in cells)])
    return lines


def wide_rows(found: Autoscaling, namespace: str) -> list[list[str]]:
    lines = []
    for entry in found.components:
        target = f"{entry.target_kind}/{namespace}/{entry.target_name}" if entry.target_name else ""
        counts = [str(entry.current), str(entry.desired)] if entry.counted else ["", ""]
        conditions = ",".join(f"{kind}={status}" for kind, status in entry.conditions.items())
        cells = [found.state, entry.component, entry.state, entry.owner_class, entry.managed_by, entry.source, target]
        cells += [entry.target_evidence, *counts, entry.replica_evidence, entry.last_scale, entry.condition_evidence]
        lines.append([cell or "-" for cell in (*cells, conditions, ",".join(entry.issues))])
    return lines or [[found.state, *["-"] * 13, ",".join(found.issues) or "-"]]


def content(found: Autoscaling, live: Mapping[str, LiveScale]) -> dict[str, Any]:
    return {
        "state": found.state,
        "components": [_content(entry, live.get(entry.component)) for entry in found.components],
        "issues": list(found.issues),
    }


def _content(entry: ComponentScaling, live: LiveScale | None) -> dict[str, Any]:
    document = entry._asdict() | {"conditions": dict(entry.conditions), "issues": list(entry.issues)}
    names = {
        "owner_class": "class",
        "managed_by": "managedBy",
        "source": "specSource",
        "target_kind": "targetKind",
        "target_name": "targetName",
        "target_evidence": "targetEvidence",
        "current": "currentReplicas",
        "desired": "desiredReplicas",
        "replica_evidence": "replicaEvidence",
        "last_scale": "lastScaleTime",
        "condition_evidence": "conditionEvidence",
    }
    renamed = {names.get(key, key): value for key, value in document.items() if value != ""}
    if live is None:
        return renamed
    return renamed | {"live": {"evidence": live.evidence, "spec": live.spec, "current": live.current,
                               "count": live_count(entry, live)}}  # fmt: skip
