"""`migration status` and `history`: the migrations a service's InferenceReplicas record, and its audit trail.

spec/cli-status-get-logs.md section 4. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.cli.evidence import objects
from ome.cli.evidence.replicas import belongs_to, component_of, observed_generation
from ome.cli.output.report import parse_time
from ome.cli.output.text import cut, digest

HEADER = ("SUBJECT/COMP", "STATUS", "DETAIL")
HISTORY_HEADER = ("EVID", "REQUEST/COMP", "PHASE/STATE", "WHEN", "DETAIL")
HISTORY_WIDE = ("EVIDENCE", "REQUEST", "COMPONENT", "PHASE", "STATE", "STARTED", "COMPLETED", "MESSAGE", "ISSUES")
PHASES = ("Accepted", "SurgePending", "SurgeReady", "Draining", "Completed", "Failed", "Relocated")
TERMINAL = ("Completed", "Failed", "Relocated")
AUDIT_KEY = "history.json"
AUDIT_LIMIT = 200
DETAIL_CELL = 26
HISTORY_CELL = 20

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMES = ("allocatedAt", "startedAt", "deadline", "completedAt")


class Issue(NamedTuple):
    code: str
    replica: str = ""
    request: str = ""
    component: str = ""

    def to_dict(self) -> dict[str, str]:
        named = {"inferenceReplica": self.replica, "requestID": self.request, "component": self.component}
        return {"code": self.code} | {key: value for key, value in named.items() if value}


class Record(NamedTuple):
    """One migration of an InferenceReplica's status; `issues` are the codes about itself."""

    component: str
    replica: str
    raw: Mapping[str, Any]
    freshness: str
    issues: tuple[str, ...]

    @property
    def request(self) -> str:
        return objects.text(self.raw, "requestUUID")

    @property
    def phase(self) -> str:
        return objects.text(self.raw, "phase")

    @property
    def classification(self) -> str:
        if any(code not in ("SourceGenerationStale",) for code in self.issues):
            return "Invalid"
        return "Terminal" if self.phase in TERMINAL else "Active"

    @property
    def outcome(self) -> str:
        if self.classification == "Invalid":
            return "Unknown"
        if self.phase == "Relocated":
            return "RelocationConfirmed" if self.raw.get("succeeded") is True else "Relocated"
        return self.phase if self.phase in TERMINAL else "InProgress"

    @property
    def message(self) -> str:
        return objects.text(self.raw, "message")


class MigrationStatus(NamedTuple):
    records: Sequence[Record]
    issues: Sequence[Issue]
    freshness: str
    truncated: bool

    @property
    def state(self) -> str:
        if self.issues:
            return "Partial"
        return "Reported" if self.records else "Empty"


def _freshness(replica: Mapping[str, Any]) -> str:
    observed, generation = observed_generation(replica), objects.generation(replica) or 0
    if not observed:
        return "Unobserved"
    if observed < 0 or observed > generation:
        return "Invalid"
    return "Current" if observed == generation else "Stale"


def _source_issues(replica: Mapping[str, Any], service: Mapping[str, Any]) -> list[str]:
    found = []
    if not (objects.name(replica) and objects.uid(replica)):
        found.append("SourceIdentityInvalid")
    if objects.text(replica, "spec", "parentRef", "name") != objects.name(service):
        found.append("SourceParentMismatch")
    elif not belongs_to(replica, service):
        found.append("SourceOwnerMismatch")
    if component_of(replica) not in objects.COMPONENTS:
        found.append("SourceComponentInvalid")
    return found


def _record_issues(raw: Mapping[str, Any], repeated: bool) -> list[str]:
    """What is wrong with one record, in the order of the spec's list."""
    found = []
    phase, trigger = objects.text(raw, "phase"), objects.text(raw, "trigger") or "Manual"
    if not _UUID.fullmatch(objects.text(raw, "requestUUID")):
        found.append("RequestIDInvalid")
    if repeated:
        found.append("RequestIDDuplicate")
    if trigger not in ("Manual", "Auto"):
        found.append("TriggerInvalid")
    if phase not in PHASES:
        found.append("PhaseInvalid")
    elif trigger in ("Manual", "Auto") and (trigger == "Auto") != (phase == "Relocated"):
        found.append("TriggerPhaseConflict")
    if objects.count(raw, "sourceInstance") < 0:
        found.append("SourceIndexInvalid")
    surge = objects.get(raw, "surgeInstance")
    if surge is not None and (objects.integer(raw, "surgeInstance") is None or objects.count(raw, "surgeInstance") < 0):
        found.append("SurgeIndexInvalid")
    if objects.count(raw, "attempt") < 0:
        found.append("AttemptInvalid")
    if any(raw.get(key) is not None and parse_time(raw.get(key)) is None for key in _TIMES):
        found.append("TimestampInvalid")
    if phase in ("Accepted", "SurgePending", "SurgeReady", "Draining") and raw.get("completedAt") is not None:
        found.append("TerminalShapeInvalid")
    if not all(isinstance(node, str) for node in objects.items(raw, "hintTargetNodes")):
        found.append("NodeHintInvalid")
    return found


def migration_status(
    service: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], component: str, truncated: bool
) -> MigrationStatus:
    """Every record of the service's replicas, or of one component's."""
    issues: list[Issue] = []
    chosen = [replica for replica in listed if not component or component_of(replica) == component]
    claimed = Counter(component_of(replica) for replica in chosen)
    ids = Counter(
        objects.text(entry, "requestUUID")
        for replica in chosen
        for entry in objects.items(replica, "status", "migrations")
    )
    records: list[Record] = []
    freshness = "Current"
    for replica in sorted(chosen, key=lambda r: (objects.component_order(component_of(r)), objects.name(r))):
        name, own = objects.name(replica), component_of(replica)
        codes = _source_issues(replica, service)
        if claimed[own] > 1:
            codes.append("SourceComponentDuplicate")
        state = "Invalid" if codes else _freshness(replica)
        if state != "Current":
            freshness = state
            codes = codes or [f"SourceGeneration{state}"]
        if state in ("Unobserved", "Invalid"):
            issues += [Issue(code, name, component=own) for code in codes]
            continue
        for raw in objects.items(replica, "status", "migrations"):
            if not isinstance(raw, Mapping):
                continue
            wrong = _record_issues(raw, ids[objects.text(raw, "requestUUID")] > 1)
            stale = codes if state == "Stale" else []
            record = Record(own, name, raw, state, (*wrong, *stale))
            records.append(record)
            issues += [Issue(code, name, record.request, own) for code in record.issues]
    if truncated:
        issues.append(Issue("SourcesTruncated"))
    return MigrationStatus(records, issues, freshness, truncated)


def _subject(name: str) -> str:
    return name if len(name) <= 8 else f"~{digest(name)}"


def rows(found: MigrationStatus) -> list[list[str]]:
    """A row for each message, one for each issue, or the empty row."""
    lines = []
    for record in found.records:
        status = f"{record.phase}/{record.classification}/{record.freshness}"
        detail = cut(f"MSG: {record.message}", DETAIL_CELL) if record.message else "-"
        lines.append([f"{record.request[:8]}/{record.component}", status, detail])
        lines += [
            [f"{record.request[:8]}/{record.component}", status, cut(code, DETAIL_CELL)] for code in record.issues
        ]
    about_records = {issue.request for issue in found.issues if issue.request}
    for issue in found.issues:
        if issue.request in about_records and issue.request:
            continue
        subject = f"{_subject(issue.replica)}/{issue.component or '-'}" if issue.replica else "REPORT/-"
        lines.append([subject, f"{found.state}/{found.freshness}", cut(issue.code, DETAIL_CELL)])
    return lines or [["-/-", f"{found.state}/{found.freshness}", "-"]]


def _record_content(record: Record) -> dict[str, Any]:
    raw = record.raw
    document: dict[str, Any] = {
        "requestID": record.request,
        "component": record.component,
        "inferenceReplica": record.replica,
        "trigger": objects.text(raw, "trigger") or "Manual",
        "phase": record.phase,
        "classification": record.classification,
        "outcome": record.outcome,
        "freshness": record.freshness,
        "sourceInstance": objects.count(raw, "sourceInstance"),
    }
    if raw.get("surgeInstance") is not None:
        document["surgeInstance"] = raw["surgeInstance"]
    for key in ("fromNode", "message", *_TIMES):
        if raw.get(key):
            document[key] = raw[key]
    document["hintTargetNodes"] = objects.items(raw, "hintTargetNodes")
    document["issues"] = list(record.issues)
    return document


def content(found: MigrationStatus) -> dict[str, Any]:
    classes = Counter(record.classification for record in found.records)
    return {
        "summary": {
            "state": found.state,
            "records": len(found.records),
            "active": classes["Active"],
            "terminal": classes["Terminal"],
            "invalid": classes["Invalid"],
        },
        "migrations": [_record_content(record) for record in found.records],
        "issues": [issue.to_dict() for issue in found.issues],
    }


def warnings(found: MigrationStatus) -> list[str]:
    return [*(["PartialData"] if found.state == "Partial" else []), *(["Truncated"] if found.truncated else [])]


# -- history -----------------------------------------------------------------------------------------------------------


class HistoryRecord(NamedTuple):
    evidence: str
    request: str
    component: str
    phase: str
    state: str
    started: str
    completed: str
    message: str
    issues: tuple[str, ...]


class MigrationHistory(NamedTuple):
    """`audit` is `Reported`, `NotFound`, or why the audit trail could not be read."""

    records: Sequence[HistoryRecord]
    issues: Sequence[str]
    audit: str

    @property
    def state(self) -> str:
        if self.issues or any(record.state == "!" for record in self.records):
            return "Partial"
        return "Reported" if self.records else "Empty"


def audit_entries(config_map: Mapping[str, Any] | None, service: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """The audit ConfigMap's entries, newest kept; issue codes when it is not the service's or does not parse."""
    import json

    if config_map is None:
        return [], []
    owners = [objects.text(owner, "uid") for owner in objects.items(config_map, "metadata", "ownerReferences")]
    if owners and objects.uid(service) not in owners:
        return [], ["AuditIdentityInvalid"]
    text = objects.text(config_map, "data", AUDIT_KEY)
    if not text:
        return [], []
    try:
        document = json.loads(text)
    except ValueError:
        return [], ["AuditMalformed"]
    entries = document if isinstance(document, list) else objects.items(document, "entries")
    kept = [entry for entry in entries if isinstance(entry, Mapping)]
    return kept[-AUDIT_LIMIT:], (["AuditHistoryTruncated"] if len(kept) > AUDIT_LIMIT else [])


def _audit_record(entry: Mapping[str, Any]) -> HistoryRecord:
    phase = objects.text(entry, "phase")
    issues = []
    if not _UUID.fullmatch(objects.text(entry, "id")):
        issues.append("RequestIDInvalid")
    if objects.text(entry, "component") not in objects.COMPONENTS:
        issues.append("ComponentInvalid")
    if phase not in ("Started", "Completed", "Failed"):
        issues.append("PhaseInvalid")
    state = "!" if issues else ("A" if phase == "Started" else "T")
    started = objects.text(entry, "startedAt") or objects.text(entry, "requestedAt")
    message = objects.text(entry, "outcomeReason") or objects.text(entry, "reason")
    return HistoryRecord(
        "AUDIT",
        objects.text(entry, "id"),
        objects.text(entry, "component"),
        phase,
        state,
        started,
        objects.text(entry, "completedAt"),
        message,
        tuple(issues),
    )


def migration_history(
    status: MigrationStatus | None,
    audit: Sequence[Mapping[str, Any]],
    component: str,
    issues: Sequence[str],
    audit_state: str,
) -> MigrationHistory:
    """Authoritative records first, then the audit trail, newest first in each."""
    records = []
    for record in status.records if status else ():
        state = {"Active": "A", "Terminal": "T"}.get(record.classification, "!")
        started, completed = objects.text(record.raw, "startedAt"), objects.text(record.raw, "completedAt")
        records.append(
            HistoryRecord(
                "AUTH",
                record.request,
                record.component,
                record.phase,
                state,
                started,
                completed,
                record.message,
                record.issues,
            )
        )
    trail = [_audit_record(entry) for entry in audit]
    records += [record for record in trail if not component or record.component == component]
    order = {"AUTH": 0, "AUDIT": 1}
    records.sort(key=lambda record: record.completed or record.started, reverse=True)
    records.sort(key=lambda record: order[record.evidence])
    found = [*issues, *(issue.code for issue in (status.issues if status else ()) if not issue.request)]
    return MigrationHistory(records, found, audit_state)


def _when(record: HistoryRecord) -> str:
    moment = parse_time(record.completed or record.started)
    return moment.strftime("%m-%dT%H:%MZ") if moment else "-"


def history_rows(found: MigrationHistory) -> list[list[str]]:
    lines = []
    for record in found.records:
        initial = record.component[:1].upper() or "-"
        detail = record.issues[0] if record.issues else record.message
        lines.append(
            [
                record.evidence,
                f"{record.request[:8]}/{initial}",
                f"{record.phase}/{record.state}",
                _when(record),
                cut(detail, HISTORY_CELL) or "-",
            ]
        )
    lines += [[_issue_source(code), "-/-", found.state, "-", cut(code, HISTORY_CELL)] for code in found.issues]
    return lines or [["-", "-/-", found.state, "-", "-"]]


def _issue_source(code: str) -> str:
    if code.startswith("Audit"):
        return "AUDIT"
    return "AUTH" if code.startswith("Authoritative") else "REPORT"


def history_wide_rows(found: MigrationHistory) -> list[list[str]]:
    names = {"AUTH": "Authoritative", "AUDIT": "AuditHistory"}
    lines = [
        [
            names[r.evidence],
            r.request,
            r.component,
            r.phase,
            r.state,
            r.started,
            r.completed,
            r.message,
            ",".join(r.issues),
        ]
        for r in found.records
    ]
    lines += [["Report", "", "", "", found.state, "", "", "", code] for code in found.issues]
    if not any(record.evidence == "AUDIT" for record in found.records) and found.audit != "Reported":
        lines.append(["AuditHistory", "", "", "", "", "", "", "", found.audit])
    return [[cell or "-" for cell in line] for line in lines or [["Report", "", "", "", found.state, "", "", "", ""]]]


def history_content(found: MigrationHistory) -> dict[str, Any]:
    return {
        "summary": {"state": found.state, "records": len(found.records)},
        "auditSource": found.audit,
        "records": [record._asdict() | {"issues": list(record.issues)} for record in found.records],
        "issues": [{"code": code} for code in found.issues],
    }
