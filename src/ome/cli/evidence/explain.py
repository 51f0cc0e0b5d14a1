"""`runtime explain` as a table: which runtimes automatic selection could choose, and the first check the others fail.

spec/cli-runtime-and-wait.md section 2.1. Pure; the judgement is `ome.runtimes.selection`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ome.cli.evidence.effective import Effective
from ome.cli.evidence.effective_report import chain_reason
from ome.cli.evidence.effective_report import rows as effective_rows
from ome.rendering.formats import entry_mismatches
from ome.runtimes.reading import RuntimeKind
from ome.runtimes.selection import Candidate

HEADER = ("RUNTIME", "SCOPE", "COMPATIBLE", "PRIORITY", "WEIGHT", "REASON")
WIDTH = 80
CONTEXT_TITLE = "Effective context (separate observation; selector verdict unchanged):"


def _weight(entry: Mapping[str, Any]) -> int:
    """Format and framework weight times priority; a weight of 0 or less is left out, unset counts as 1."""
    weights = [(entry.get(key) or {}).get("weight") for key in ("modelFormat", "modelFramework")]
    counted = sum(1 if weight is None else weight for weight in weights if weight is None or weight > 0)
    return counted * _priority(entry)


def _priority(entry: Mapping[str, Any]) -> int:
    priority = entry.get("priority")
    return 1 if priority is None else int(priority)


def rows(candidates: Sequence[Candidate], model: Mapping[str, Any]) -> list[list[str]]:
    """Candidates in the order given: possible ones by rank, then the excluded."""
    lines = []
    for candidate in candidates:
        scope = "Cluster" if candidate.runtime.kind is RuntimeKind.CLUSTER else "Namespaced"
        if candidate.exclusion is not None:
            lines.append([candidate.runtime.name, scope, "No", "-", "-", candidate.exclusion.reason])
            continue
        entries = candidate.runtime.spec.get("supportedModelFormats") or []
        first: Mapping[str, Any] = next((entry for entry in entries if not entry_mismatches(entry, model)), {})
        lines.append([candidate.runtime.name, scope, "Yes", str(_priority(first)), str(_weight(first)), "-"])
    return lines


def context_rows(found: Effective) -> list[list[str]]:
    """The rows of `--with-effective`: where the runtime comes from, then what `effective` prints."""
    lines = [["Service", "SELECTION", found.selection]]
    if found.live.runtime:
        lines.append(["Service", "SOURCE", found.live.runtime])
    chain = found.chain
    if chain is None or chain.issue:
        reason = chain_reason(chain.issue) if chain else found.live.reason or "Unreadable"
        lines += [["Source", "INHERITANCE", "Unavailable"], ["Source", "REASON", reason]]
    else:
        lines.append(["Source", "INHERITANCE", "Observed"])
        lines += [["Source", "ROOT-FIRST", entry.short] for entry in chain.members]
    lines.append(["Service", "CAVEAT", "Independent snapshot; not rollout convergence"])
    return lines + effective_rows(found)


NO_CONTEXT = [
    ["Service", "EVIDENCE", "Unavailable"],
    ["Service", "CAVEAT", "Selector verdict above is unchanged"],
]
