"""`runtime history`: the stored revisions of a service's runtime, newest first, with the part each plays (section
2.4). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ome.cli.evidence import objects
from ome.cli.evidence.effective import Effective, RevisionEvidence
from ome.cli.evidence.revisions import Revision, relation
from ome.cli.output.report import minute_time, parse_time
from ome.cli.output.text import digest

HEADER = ("WINDOW", "REVISION", "CREATED", "ROLES", "CHECK", "LIVE", "ISSUES")
WIDE_HEADER = (
    "OBSERVATION",
    "COMPLETENESS",
    "PAGES",
    "REVISION",
    "CREATED",
    "HASH",
    "ROLES",
    "SOURCE",
    "CONSISTENCY",
    "RELATION",
    "REVISION-ISSUES",
    "REPORT-ISSUES",
)
WIDTH = 80

_ROLES = {"A": "Active", "Q": "Requested", "R": "Reported", "H": "History"}
_RELATIONS = {
    "Equal": ("MATCH", "MatchesLive"),
    "Different": ("DIFF", "DiffersFromLive"),
    "Ambiguous": ("AMB", "Ambiguous"),
    "Unknown": ("?", "Unknown"),
}


class Window(NamedTuple):
    """How much of the history was seen: pages returned, list requests sent; unavailable has a reason."""

    pages: int = 0
    requests: int = 0
    truncated: bool = False
    unavailable: str = ""

    @property
    def observation(self) -> str:
        if self.unavailable:
            return "Unavailable"
        return "Partial" if self.truncated else "Complete"

    @property
    def completeness(self) -> str:
        return "Incomplete" if self.unavailable or self.truncated else "RetentionBounded"

    @property
    def cell(self) -> str:
        bound = "B" if self.completeness == "RetentionBounded" else "I"
        return f"{self.observation[0]}/{bound}/{self.pages}/{self.requests}"


class Entry(NamedTuple):
    name: str
    created: str
    roles: str
    revision: Revision | None
    live_relation: str
    issues: tuple[str, ...]

    @property
    def consistency(self) -> str:
        if self.revision is None:
            return "Unknown"
        return "Inconsistent" if inconsistent(self.revision) else "Consistent"


def inconsistent(revision: Revision) -> bool:
    """A disabled spec is a sound revision; every other issue is a contradiction."""
    return any(issue != "RevisionDisabled" for issue in revision.issues)


class History(NamedTuple):
    window: Window
    entries: Sequence[Entry]
    report_issues: tuple[str, ...]


def alias(name: str) -> str:
    """Up to 14 characters whole; longer: two characters, `...#`, and the digest of the whole name."""
    return name if len(name) <= 14 else f"{name[:2]}...#{digest(name)}"


def _roles(name: str, found: Effective, requested: str, reported: str, listed: bool) -> str:
    held = {"A": name == found.active.revision, "Q": name == requested, "R": name == reported, "H": listed}
    return "".join(letter for letter, holds in held.items() if holds)


def history(
    service: Any, found: Effective, named: dict[str, RevisionEvidence], listed: Sequence[Revision], window: Window
) -> History:
    """The listing joined with the revisions the service names."""
    requested = objects.text(service, "spec", "runtime", "revision")
    reported = objects.text(service, "status", "pinnedRevisionName")
    live = found.live.full_hash
    names = {revision.name for revision in listed}
    entries = [
        Entry(
            revision.name,
            objects.text(revision.obj, "metadata", "creationTimestamp"),
            _roles(revision.name, found, requested, reported, True),
            revision,
            relation(live, revision.full_hash),
            revision.issues,
        )
        for revision in listed
    ]
    entries.sort(key=lambda entry: entry.name)
    # Creation times have whole seconds; within one the later write has the higher version.
    entries.sort(key=lambda entry: (entry.created, _version(entry)), reverse=True)
    for name, read in named.items():
        if name in names:
            continue
        issues = read.revision.issues if read.revision else (_missing(read.reason),)
        created = objects.text(read.revision.obj, "metadata", "creationTimestamp") if read.revision else ""
        full = read.revision.full_hash if read.revision else ""
        roles = _roles(name, found, requested, reported, False)
        entries.append(Entry(name, created, roles, read.revision, relation(live, full), issues))
    report_issues = [issue.code for issue in found.issues if not issue.revision]
    if window.unavailable:
        report_issues.append("HistoryUnavailable")
    elif window.truncated:
        report_issues.append("HistoryTruncated")
    return History(window, entries, tuple(report_issues))


def _version(entry: Entry) -> int:
    version = objects.resource_version(entry.revision.obj) if entry.revision else ""
    return int(version) if version.isdecimal() else 0


def _missing(reason: str) -> str:
    return "RevisionNotFound" if reason == "NotFound" else "RevisionUnavailable"


def _counted(number: int) -> str:
    return "9+" if number > 9 else str(number)


def _issue_cell(entry: Entry | None, found: History) -> str:
    return f"R{_counted(len(entry.issues) if entry else 0)}/G{_counted(len(found.report_issues))}"


def rows(found: History) -> list[list[str]]:
    checks = {"Consistent": "OK", "Inconsistent": "BAD", "Unknown": "?"}
    lines = []
    for entry in found.entries:
        created = parse_time(entry.created)
        lines.append(
            [
                found.window.cell,
                alias(entry.name),
                minute_time(created) if created else "-",
                entry.roles or "-",
                checks[entry.consistency],
                _RELATIONS[entry.live_relation][0],
                _issue_cell(entry, found),
            ]
        )
    return lines or [[found.window.cell, "-", "-", "-", "-", "-", _issue_cell(None, found)]]


def wide_rows(found: History) -> list[list[str]]:
    window = [found.window.observation, found.window.completeness, f"{found.window.pages}/{found.window.requests}"]
    report_issues = ",".join(found.report_issues) or "-"
    lines = []
    for entry in found.entries:
        cells = [
            entry.name,
            entry.created,
            entry.revision.hash8 if entry.revision else "",
            ",".join(_ROLES[letter] for letter in entry.roles),
            entry.revision.source.long if entry.revision else "",
            entry.consistency,
            _RELATIONS[entry.live_relation][1],
            ",".join(entry.issues),
        ]
        lines.append([*window, *(cell or "-" for cell in cells), report_issues])
    return lines or [[*window, *["-"] * 8, report_issues]]


def content(found: History) -> dict[str, Any]:
    return {
        "window": {
            "observation": found.window.observation,
            "completeness": found.window.completeness,
            "pages": found.window.pages,
            "requests": found.window.requests,
        },
        "revisions": [_entry_content(entry) for entry in found.entries],
        "issues": list(found.report_issues),
    }


def _entry_content(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {"name": entry.name}
    if entry.created:
        document["created"] = entry.created
    if entry.revision is not None:
        source = entry.revision.source
        document["hash"], document["fullHash"] = entry.revision.hash8, entry.revision.full_hash
        document["source"] = {"kind": source.kind, "namespace": source.namespace, "name": source.name}
    document["roles"] = [_ROLES[letter] for letter in entry.roles]
    document["consistency"] = entry.consistency
    document["liveRelation"] = _RELATIONS[entry.live_relation][1]
    document["issues"] = list(entry.issues)
    return document
