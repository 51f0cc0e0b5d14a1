"""`kubectl ome rollout status`: one column for the service, one for each component. Pure."""

from __future__ import annotations

from typing import Any

from ome.cli.evidence import objects
from ome.cli.evidence.rollout import ComponentRollout, Rollout

HEADER = ("FIELD", "SERVICE", "ENGINE", "DECODER", "ROUTER")
WIDE_HEADER = (
    "COMPONENT",
    "STATE",
    "REPORTED",
    "EVIDENCE",
    "EPOCH",
    "GROUP",
    "STRATEGY",
    "GROUP-PHASE",
    "PHASE",
    "STEP",
    "GATE",
    "CAPACITY",
    "TRAFFIC",
    "ROLLED-OUT",
    "READY",
    "PREVIOUS",
    "ISSUES",
)
_FIELDS = (
    ("GROUP", lambda c: "" if c.group is None else str(c.group)),
    ("STRATEGY", lambda c: c.strategy),
    ("GROUP-PHASE", lambda c: c.group_phase),
    ("PHASE", lambda c: c.phase),
    ("STEP", lambda c: c.step),
    ("GATE", lambda c: c.gate),
    ("CAPACITY", lambda c: c.capacity),
    ("TRAFFIC", lambda c: c.traffic),
    ("ROLLED-OUT", lambda c: c.rolled_out),
    ("READY", lambda c: c.ready),
    ("PREVIOUS", lambda c: c.previous),
)


def _issue_text(found: Rollout, component: str) -> str:
    """The issues of a component, or of the service for `""`."""
    mine = [issue for issue in found.issues if issue.component == component]
    return ",".join(issue.code if issue.group is None else f"{issue.code}(group={issue.group})" for issue in mine)


def rows(found: Rollout) -> list[list[str]]:
    """Service rows always; a component row only when a component has a value for it."""
    service = (
        ("STATE", found.state),
        ("REPORTED", found.reported),
        ("EVIDENCE", found.evidence),
        ("EPOCH", found.epoch),
        ("COORDINATION", found.coordination),
    )
    lines = [[name, value, "-", "-", "-"] for name, value in service]
    by_name = {entry.component: entry for entry in found.components}
    for name, read in _FIELDS:
        cells = [read(by_name[component]) if component in by_name else "" for component in objects.COMPONENTS]
        if any(cells):
            lines.append([name, "-", *(cell or "-" for cell in cells)])
    if found.issues:
        cells = [_issue_text(found, component) for component in ("", *objects.COMPONENTS)]
        lines.append(["ISSUES", *(cell or "-" for cell in cells)])
    return lines


def wide_rows(found: Rollout) -> list[list[str]]:
    lines = []
    for entry in found.components:
        issues = ",".join(text for text in (_issue_text(found, ""), _issue_text(found, entry.component)) if text)
        cells = [entry.component, found.state, found.reported, found.evidence, found.epoch]
        cells += [read(entry) for _, read in _FIELDS]
        lines.append([cell or "-" for cell in (*cells, issues)])
    return lines or [["-", found.state, found.reported, found.evidence, found.epoch, *["-"] * 12]]


def _component_content(entry: ComponentRollout) -> dict[str, Any]:
    document: dict[str, Any] = {"type": entry.component, "strategy": entry.strategy}
    optional = {
        "group": entry.group,
        "groupPhase": entry.group_phase,
        "phase": entry.phase,
        "step": entry.step,
        "gate": entry.gate,
        "capacity": entry.capacity,
        "trafficWeights": entry.traffic,
        "rolledOutRevision": entry.rolled_out,
        "readyRevision": entry.ready,
        "previousRevision": entry.previous,
    }
    return document | {key: value for key, value in optional.items() if value not in (None, "")}


def content(found: Rollout) -> dict[str, Any]:
    return {
        "summary": {
            "state": found.state,
            "reportedState": found.reported,
            "evidence": found.evidence,
            "epoch": found.epoch,
            "coordinationReady": found.coordination,
        },
        "components": [_component_content(entry) for entry in found.components],
        "issues": [
            {"code": issue.code}
            | ({"group": issue.group} if issue.group is not None else {})
            | ({"component": issue.component} if issue.component else {})
            for issue in found.issues
        ],
    }
