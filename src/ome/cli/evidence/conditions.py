"""The Ready condition of a service, read critically: recorded once, well-formed, not of the future. Pure; for `wait`
and `status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ome.cli.evidence import objects
from ome.cli.output.report import parse_time

MAX_CONDITIONS = 256
MAX_TEXT = 32 * 1024
STATUSES = ("True", "False", "Unknown")


class Inspection(NamedTuple):
    """How much of the conditions was looked at; warnings are codes."""

    state: str
    total: int
    inspected: int
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.state} ({self.inspected}/{self.total})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "total": self.total,
            "inspected": self.inspected,
            "warnings": list(self.warnings),
        }


class Ready(NamedTuple):
    """`status` is True, False, Unknown or NotRecorded; `validity` Valid, Unavailable or Invalid."""

    status: str
    validity: str
    inspection: Inspection
    reason: str = ""
    message: str = ""


NOT_INSPECTED = Ready("NotRecorded", "Unavailable", Inspection("NotInspected", 0, 0))


def _record_warning(entry: Any, now: datetime) -> str:
    if not isinstance(entry, Mapping) or not objects.text(entry, "type") or entry.get("status") not in STATUSES:
        return "InvalidConditionRecord"
    if any(len(objects.text(entry, key)) > MAX_TEXT for key in ("type", "reason", "message")):
        return "OversizedConditionRecord"
    changed = parse_time(entry.get("lastTransitionTime"))
    if entry.get("lastTransitionTime") is not None and changed is None:
        return "InvalidConditionRecord"
    return "FutureConditionTimestamp" if changed is not None and changed > now else ""


def inspect_ready(service: Mapping[str, Any], now: datetime, kind: str = "Ready") -> Ready:
    """The condition of a type (Ready, EngineReady, ...). Warnings about any condition make the inspection Partial;
    only those about it make the value Invalid.
    """
    conditions = objects.items(service, "status", "conditions")
    total = len(conditions)
    if total > MAX_CONDITIONS:
        return Ready("NotRecorded", "Unavailable", Inspection("LimitExceeded", total, 0))
    warnings: list[str] = []
    mine: list[Mapping[str, Any]] = []
    spoiled = False
    for entry in conditions:
        warning = _record_warning(entry, now)
        if warning:
            warnings.append(warning)
        if isinstance(entry, Mapping) and entry.get("type") == kind:
            mine.append(entry)
            spoiled = spoiled or bool(warning)
    if len({str(entry.get("status")) for entry in mine}) > 1:
        warnings.append("ConflictingReadyConditions")
        spoiled = True
    elif len(mine) > 1:
        warnings.append("DuplicateReadyConditions")
    found = tuple(sorted(set(warnings)))
    inspection = Inspection("Partial" if found else "Complete", total, total, found)
    if not mine:
        return Ready("NotRecorded", "Unavailable", inspection)
    status = mine[0].get("status")
    shown = str(status) if status in STATUSES else "Unknown"
    if spoiled:
        return Ready(shown, "Invalid", inspection)
    return Ready(shown, "Valid", inspection, objects.text(mine[0], "reason"), objects.text(mine[0], "message"))
