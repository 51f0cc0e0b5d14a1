"""Retry blocks as `kubectl ome instance retry-blocks` reports them, and as `release-held` judges them
(spec/cli-instance.md 4, 5.1).

Pure. The state machine that makes the blocks lives in `ome.omenative`; this module only reads what it stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ome.api.keys import PARENT_GENERATION
from ome.cli.evidence import objects
from ome.cli.evidence.replicas import Replicas, component_of, is_current, observed_generation, parent_stamp
from ome.cli.output.report import minute_time, parse_time, second_time
from ome.cli.output.text import cut, digest

HEADER = ("COMP", "STATE", "TARGET", "ATT", "NEXT", "REL", "REASON")
MAX_BLOCKS = 256
MAX_REASON = 1024

STATES = {"Backoff": "BACKOFF", "Held": "HELD", "RetryInProgress": "RUNNING"}

ALIASES = {
    "StatusUnobserved": "STATUS_UNOBS",
    "StatusStale": "STATUS_STALE",
    "ObservedGenerationInvalid": "OBSGEN_BAD",
    "ParentGenerationMissing": "PARENT_MISS",
    "ParentGenerationInvalid": "PARENT_BAD",
    "ParentGenerationStale": "PARENT_STALE",
    "ParentGenerationAhead": "PARENT_AHEAD",
    "ComponentNotProjected": "NO_COMPONENT",
    "DuplicateComponent": "DUP_COMP",
    "CollectionUnavailable": "COLL_UNAV",
    "IdentityRejected": "ID_REJECT",
    "CollectionTruncated": "COLL_TRUNC",
    "RetryBlocksTruncated": "BLOCK_TRUNC",
    "TargetRevisionInvalid": "TARGET_BAD",
    "StateInvalid": "STATE_BAD",
    "AttemptsInvalid": "ATT_BAD",
    "TimestampsInvalid": "TIME_BAD",
    "DuplicateTarget": "DUP_TARGET",
}


@dataclass(frozen=True, slots=True)
class Issue:
    code: str
    component: str = ""
    replica: str = ""
    target: str = ""
    unavailable_reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        found = {"code": self.code}
        optional = {
            "component": self.component,
            "inferenceReplica": self.replica,
            "targetRevision": self.target,
            "unavailableReason": self.unavailable_reason,
        }
        return found | {key: value for key, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class Block:
    component: str
    replica: str
    target: str
    state: str
    attempts: int
    reason: str
    next_retry: datetime | None
    first_failure: datetime | None
    last_failure: datetime | None
    eligible: bool
    freshness: str

    def to_dict(self) -> dict[str, Any]:
        times = {
            "nextRetryAt": self.next_retry,
            "firstFailureAt": self.first_failure,
            "lastFailureAt": self.last_failure,
        }
        found: dict[str, Any] = {
            "component": self.component,
            "inferenceReplica": self.replica,
            "targetRevision": self.target,
            "state": self.state,
            "attemptsStarted": self.attempts,
        }
        found |= {key: second_time(value) for key, value in times.items() if value is not None}
        if self.reason:
            found["reason"] = self.reason[:MAX_REASON]
        found["reasonTruncated"] = len(self.reason) > MAX_REASON
        found["releaseEligible"] = self.eligible
        found["freshness"] = self.freshness
        return found


@dataclass(frozen=True, slots=True)
class RetryBlocksReport:
    state: str
    blocks: Sequence[Block]
    issues: Sequence[Issue]
    truncated: bool = False
    warnings: Sequence[str] = field(default=())

    def content(self) -> dict[str, Any]:
        return {
            "summary": {
                "state": self.state,
                "blocks": len(self.blocks),
                "held": sum(block.state == "Held" for block in self.blocks),
                "eligible": sum(block.eligible for block in self.blocks),
                "truncated": self.truncated,
            },
            "blocks": [block.to_dict() for block in self.blocks],
            "issues": [issue.to_dict() for issue in self.issues],
        }

    def rows(self) -> list[list[str]]:
        rows = [_block_row(block) for block in self.blocks] + [_issue_row(issue) for issue in self.issues]
        return rows or [["-", "EMPTY", "-", "-", "-", "NO", "-"]]


def _block_row(block: Block) -> list[str]:
    return [
        cut(block.component, 7),
        STATES.get(block.state, "INVALID"),
        target_cell(block.target),
        attempts_cell(block.attempts),
        minute_time(block.next_retry) if block.next_retry else "-",
        "YES" if block.eligible else "NO",
        cut(block.reason, 13) or "-",
    ]


def _issue_row(issue: Issue) -> list[str]:
    alias = ALIASES.get(issue.code) or f"X#{digest(issue.code, 10)}"
    target = target_cell(issue.target) if issue.target else "-"
    return [cut(issue.component, 7) or "-", "ISSUE", target, "-", "-", "NO", alias]


def target_cell(name: str) -> str:
    """Up to 14 characters as is; longer: five characters, `#`, and the digest; no DNS-1123 subdomain: `!` and the
    digest.
    """
    if not objects.is_subdomain(name):
        return f"!{digest(name)}"
    return name if len(name) <= 14 else f"{name[:5]}#{digest(name)}"


def attempts_cell(attempts: int) -> str:
    if attempts < 0:
        return "?"
    return "99+" if attempts > 99 else str(attempts)


def target_pattern(service: str, component: str) -> re.Pattern[str]:
    """The form of a pod-template revision's full name: `<isvc>-<component>-<8 lowercase hex>`."""
    return re.compile(rf"{re.escape(service)}-{re.escape(component)}-[0-9a-f]{{8}}")


def _timestamp_issue(raw: Mapping[str, Any], now: datetime) -> bool:
    """Whether the times contradict the state, each other, or this machine's clock (spec/cli-instance.md section
    5.1).
    """
    moments: dict[str, datetime | None] = {}
    for key in ("nextRetryAt", "firstFailureAt", "lastFailureAt"):
        value = raw.get(key)
        moments[key] = parse_time(value)
        if value is not None and (moments[key] is None or moments[key].year < 1970):  # type: ignore[union-attr]
            return True
    following, first, last = moments["nextRetryAt"], moments["firstFailureAt"], moments["lastFailureAt"]
    state = raw.get("state")
    if (state == "Backoff" and following is None) or (state == "Held" and following is not None):
        return True
    if any(moment is not None and moment > now for moment in (first, last)):
        return True
    if first is not None and last is not None and last < first:
        return True
    return first is not None and following is not None and following < first


def block_issues(raw: Mapping[str, Any], service: str, component: str, repeated: bool, now: datetime) -> list[str]:
    """The issue codes of one stored block, in the order of the table of section 4; empty when the block is valid."""
    found = []
    if not target_pattern(service, component).fullmatch(objects.text(raw, "targetRevision")):
        found.append("TargetRevisionInvalid")
    if objects.text(raw, "state") not in STATES:
        found.append("StateInvalid")
    attempts = objects.get(raw, "attemptsStarted")
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts <= 0:
        found.append("AttemptsInvalid")
    if _timestamp_issue(raw, now):
        found.append("TimestampsInvalid")
    if repeated:
        found.append("DuplicateTarget")
    return found


def stored_blocks(replica: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """`status.retryBlocks`; None when it is not a list of objects."""
    value = objects.get(replica, "status", "retryBlocks")
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        return None
    return value


def repeated_targets(blocks: Iterable[Mapping[str, Any]]) -> set[str]:
    seen: set[str] = set()
    repeated: set[str] = set()
    for block in blocks:
        target = objects.text(block, "targetRevision")
        (repeated if target in seen else seen).add(target)
    return repeated


def freshness_issues(replica: Mapping[str, Any], service: Mapping[str, Any]) -> list[str]:
    """Why the replica's status may be old, as issue codes; empty when it is current."""
    found = []
    observed, generation = observed_generation(replica), objects.generation(replica) or 0
    if observed is None or observed == 0:
        found.append("StatusUnobserved")
    elif observed < 0 or observed > generation:
        found.append("ObservedGenerationInvalid")
    elif observed < generation:
        found.append("StatusStale")
    stamp, written = parent_stamp(replica), objects.annotation(replica, PARENT_GENERATION)
    parent = objects.generation(service) or 0
    if written is None:
        found.append("ParentGenerationMissing")
    elif stamp is None or stamp == 0:
        found.append("ParentGenerationInvalid")
    elif stamp < parent:
        found.append("ParentGenerationStale")
    elif stamp > parent:
        found.append("ParentGenerationAhead")
    return found


def _read_block(raw: Mapping[str, Any], replica: Mapping[str, Any], eligible: bool, freshness: str) -> Block:
    return Block(
        component=component_of(replica),
        replica=objects.name(replica),
        target=objects.text(raw, "targetRevision"),
        state=objects.text(raw, "state"),
        attempts=objects.count(raw, "attemptsStarted"),
        reason=objects.text(raw, "reason"),
        next_retry=parse_time(raw.get("nextRetryAt")),
        first_failure=parse_time(raw.get("firstFailureAt")),
        last_failure=parse_time(raw.get("lastFailureAt")),
        eligible=eligible,
        freshness=freshness,
    )


def _replica_part(
    service: Mapping[str, Any], replica: Mapping[str, Any], complete: bool, now: datetime
) -> tuple[list[Block], list[Issue], bool]:
    component, name = component_of(replica), objects.name(replica)
    issues = [Issue(code, component, name) for code in freshness_issues(replica, service)]
    raw_blocks = stored_blocks(replica)
    if raw_blocks is None:
        return (
            [],
            [*issues, Issue("CollectionUnavailable", component, name, unavailable_reason="MalformedPayload")],
            False,
        )
    truncated = len(raw_blocks) > MAX_BLOCKS
    if truncated:
        issues.append(Issue("RetryBlocksTruncated", component, name))
    repeated = repeated_targets(raw_blocks)
    current = is_current(replica, service) and complete and not truncated
    releasable = current and not objects.is_deleting(service) and not objects.is_deleting(replica)
    blocks = []
    for raw in raw_blocks[:MAX_BLOCKS]:
        target = objects.text(raw, "targetRevision")
        codes = block_issues(raw, objects.name(service), component, target in repeated, now)
        issues += [Issue(code, component, name, target) for code in codes]
        eligible = releasable and not codes and raw.get("state") == "Held"
        blocks.append(_read_block(raw, replica, eligible, "Current" if is_current(replica, service) else "Stale"))
    return blocks, issues, truncated


def _text_time(value: datetime | None) -> str:
    return second_time(value) if value else ""


def retry_blocks_report(
    service: Mapping[str, Any], replicas: Replicas, component: str, now: datetime
) -> RetryBlocksReport:
    """The report of one component from what was listed (spec/cli-instance.md section 4)."""
    issues: list[Issue] = []
    blocks: list[Block] = []
    truncated = replicas.truncated
    if replicas.unavailable:
        issues.append(Issue("CollectionUnavailable", component, unavailable_reason=replicas.unavailable))
    issues += [Issue("IdentityRejected", component)] * replicas.rejected
    if replicas.truncated:
        issues.append(Issue("CollectionTruncated", component))
    mine = replicas.of(component)
    if len(mine) > 1:
        issues.append(Issue("DuplicateComponent", component))
    elif mine:
        blocks, found, cut_off = _replica_part(service, mine[0], replicas.complete, now)
        issues += found
        truncated = truncated or cut_off
    elif not replicas.unavailable:
        issues.append(Issue("ComponentNotProjected", component))
    blocks.sort(
        key=lambda b: (
            objects.component_order(b.component),
            b.replica,
            b.target,
            b.state,
            b.attempts,
            _text_time(b.next_retry),
            _text_time(b.first_failure),
            _text_time(b.last_failure),
            b.reason,
        )
    )
    issues.sort(key=lambda i: (objects.component_order(i.component), i.code, i.replica, i.target))
    return RetryBlocksReport(_state(replicas, blocks, issues), blocks, issues, truncated, _warnings(replicas, issues))


def _state(replicas: Replicas, blocks: Sequence[Block], issues: Sequence[Issue]) -> str:
    if replicas.unavailable:
        return "Unavailable"
    if issues:
        return "Partial"
    return "Reported" if blocks else "Empty"


def _warnings(replicas: Replicas, issues: Sequence[Issue]) -> list[str]:
    found = []
    if issues:
        found.append("PartialData")
    if replicas.unavailable:
        found.append("SourceUnavailable")
    if replicas.truncated or any(issue.code == "RetryBlocksTruncated" for issue in issues):
        found.append("Truncated")
    return found
