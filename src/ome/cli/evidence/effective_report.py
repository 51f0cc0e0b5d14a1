"""`runtime effective` as rows, wide rows and report content (spec/cli-runtime-and-wait.md section 2.2). Pure.

No report contains a runtime's spec, only its hashes.
"""

from __future__ import annotations

from typing import Any

from ome.cli.evidence.effective import Effective, View
from ome.cli.output.text import bounded_name

HEADER = ("SCOPE", "FIELD", "VALUE")
WIDE_HEADER = (
    "VIEW",
    "STATE",
    "REASON",
    "RUNTIME",
    "REVISION",
    "HASH",
    "COMPONENT",
    "MODE",
    "MODE-SOURCE",
    "PIN",
    "PIN-STATE",
    "SYNC",
    "STATUS",
    "DRIFT",
    "LIVE-RELATION",
    "ISSUES",
)
CELL = 54


def _view_rows(scope: str, view: View) -> list[list[str]]:
    values = [
        ("REASON", view.reason),
        ("RUNTIME", bounded_name(view.runtime, CELL)),
        ("REVISION", bounded_name(view.revision, CELL)),
        ("HASH", view.hash8),
    ]
    rows = [[scope, "STATE", view.state]]
    rows += [[scope, field, value] for field, value in values if value]
    return rows + [[scope, mode.component.upper(), f"{mode.mode} ({mode.source})"] for mode in view.modes]


def rows(found: Effective) -> list[list[str]]:
    service = [
        ("PIN", found.pin),
        ("SYNC", found.sync),
        ("STATUS", found.status),
        ("DRIFT", found.drift),
        ("LIVE-RELATION", found.live_relation),
        *(("ISSUE", bounded_name(str(issue), CELL)) for issue in found.issues),
    ]
    return [
        *_view_rows("Live", found.live),
        *_view_rows("Active", found.active),
        *(["Service", field, value] for field, value in service),
    ]


def wide_rows(found: Effective) -> list[list[str]]:
    issues = ",".join(str(issue) for issue in found.issues)
    tail = [found.pin_mode, found.pin_state, found.sync, found.status, found.drift, found.live_relation, issues]
    lines = []
    for name, view in (("Live", found.live), ("Active", found.active)):
        head = [name, view.state, view.reason, view.long_runtime, view.revision, view.hash8]
        for mode in view.modes or (None,):
            cells = [mode.component, mode.mode, mode.source] if mode else ["", "", ""]
            lines.append([cell or "-" for cell in (*head, *cells, *tail)])
    return lines


def _view_content(view: View) -> dict[str, Any]:
    found: dict[str, Any] = {"state": view.state}
    if view.reason:
        found["reason"] = view.reason
    if view.name:
        found["runtime"] = {"kind": view.kind, "name": view.name}
        if view.namespace:
            found["runtime"]["namespace"] = view.namespace
    if view.revision:
        found["revision"] = view.revision
    if view.full_hash:
        found["hash"] = view.hash8
        found["fullHash"] = view.full_hash
    found["components"] = [
        {"component": mode.component, "deploymentMode": mode.mode, "source": mode.source} for mode in view.modes
    ]
    return found


def inheritance(found: Effective) -> dict[str, Any]:
    """The chain, root first, with evidence and the reason when it is broken."""
    chain = found.chain
    if chain is None:
        return {"evidence": "Unavailable", "reason": found.live.reason or "Unreadable", "chain": []}
    members = [
        {"kind": entry.kind, "name": entry.name} | ({"namespace": entry.namespace} if entry.namespace else {})
        for entry in chain.members
    ]
    if chain.issue:
        return {"evidence": "Unavailable", "reason": chain_reason(chain.issue), "chain": members}
    return {"evidence": "Observed", "chain": members}


def chain_reason(issue: str) -> str:
    return {"ParentMissing": "NotFound", "CycleDetected": "Cycle"}.get(issue, issue)


def content(found: Effective) -> dict[str, Any]:
    drift, _, cause = found.drift.partition("/")
    return {
        "selection": {"mode": found.selection, "runtime": found.live.runtime},
        "inheritance": inheritance(found),
        "live": _view_content(found.live),
        "active": _view_content(found.active),
        "service": {
            "pinMode": found.pin_mode,
            "pinState": found.pin_state,
            "sync": found.sync,
            "statusFreshness": found.status,
            "drift": drift,
            **({"driftCause": cause} if cause else {}),
            "liveRelation": found.live_relation,
        },
        "issues": [
            {"code": issue.code} | ({"revision": issue.revision} if issue.revision else {}) for issue in found.issues
        ],
    }


def warnings(found: Effective) -> list[str]:
    return ["PartialData"] if found.issues else []
