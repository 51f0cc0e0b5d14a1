"""Retry blocks: how failed attempts at one revision are counted, paced, held and let go (`spec/retry-blocks.md`).

Pure functions over the tuple of blocks as `status.retryBlocks` holds it. The letters are those of section 5: the gate
(G), the charge (C), the start (S), what removes a block (X). Called by the passes; never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus, RetryBlock
from ome.api.types.lifecycle import RolloutHold

from .evidence import Blame
from .settings import RetryPolicy

BACKOFF: Final = "Backoff"
IN_PROGRESS: Final = "RetryInProgress"
HELD: Final = "Held"
_KEPT_OTHERS: Final = 3

Blocks = tuple[RetryBlock, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The gate's word: may an attempt start now, and if not, when to ask again (None: only an event changes it)."""

    start: bool
    wake: datetime | None = None


def find(blocks: Sequence[RetryBlock], revision: str) -> RetryBlock | None:
    return next((block for block in blocks if block.target_revision == revision), None)


def gate(blocks: Sequence[RetryBlock], revision: str, *, in_flight: bool, now: datetime) -> Answer:
    """G: may an attempt at `revision` start. `in_flight`: an attempt at it is under way (`updating` or `creating`)."""
    block = find(blocks, revision)
    if block is None:
        return Answer(True)
    if block.state == HELD:
        return Answer(False)
    if block.state == BACKOFF and block.next_retry_at is not None and block.next_retry_at > now:
        return Answer(False, block.next_retry_at)
    if block.state == IN_PROGRESS and in_flight:
        return Answer(False)
    return Answer(True)


def updating(rows: Sequence[InstanceStatus], revision: str) -> bool:
    """Whether an Update operation toward `revision` is in flight."""
    return any(
        row.operation is not None and row.operation.type == "Update" and row.operation.target_revision == revision
        for row in rows
    )


def creating(rows: Sequence[InstanceStatus]) -> bool:
    """Whether a Create operation is in flight, whatever its target."""
    return any(row.phase == "Creating" and row.operation is not None and row.operation.type == "Create" for row in rows)


@dataclass(frozen=True, slots=True)
class Charge:
    """The blocks after a failure, and the block that became Held by it."""

    blocks: Blocks
    held: RetryBlock | None = None


def charge(
    blocks: Blocks,
    revision: str,
    *,
    blame: Blame,
    reason: str,
    policy: RetryPolicy | None,
    now: datetime,
    update_revision: str,
    paces: bool = False,
) -> Charge:
    """C: an attempt at `revision` failed at `now` (a whole second).

    `paces`: it was a gang surge, which makes a block also where none is, without a charge (C2).
    """
    before = find(blocks, revision)
    if blame is Blame.REVISION:
        return _counting(blocks, before, revision, reason, policy, now, update_revision)
    if paces and blame is Blame.NOBODY and policy is not None and before is None:
        fresh = RetryBlock(
            target_revision=revision,
            state=BACKOFF,
            next_retry_at=now + policy.delay(1),
            first_failure_at=now,
            last_failure_at=now,
            reason=reason,
        )
        return Charge(put(blocks, fresh, update_revision))
    if blame is Blame.NOBODY and policy is not None and before is not None:
        return Charge(_unattributed(blocks, before, reason, policy, now, update_revision))
    return Charge(blocks)


def _counting(
    blocks: Blocks,
    before: RetryBlock | None,
    revision: str,
    reason: str,
    policy: RetryPolicy | None,
    now: datetime,
    update_revision: str,
) -> Charge:
    if before is not None and before.state in (BACKOFF, HELD):  # the same wave: C3, C4
        return Charge(put(blocks, replace(before, last_failure_at=now, reason=reason), update_revision))
    attempts = (before.attempts_started if before is not None else 0) + 1
    first = before.first_failure_at if before is not None else None
    hold = policy is None or policy.exhausted(attempts)
    after = RetryBlock(
        target_revision=revision,
        state=HELD if hold else BACKOFF,
        attempts_started=attempts,
        next_retry_at=None if policy is None or hold else now + policy.delay(attempts),
        first_failure_at=first or now,
        last_failure_at=now,
        reason=reason,
    )
    return Charge(put(blocks, after, update_revision), held=after if hold else None)


def _unattributed(
    blocks: Blocks, before: RetryBlock, reason: str, policy: RetryPolicy, now: datetime, update_revision: str
) -> Blocks:
    """C2, C3, C5: it paces a block that is there, never counts and never holds."""
    if before.state == HELD:
        return blocks
    after = replace(before, last_failure_at=now, reason=reason)
    if before.state == IN_PROGRESS:
        after = replace(after, state=BACKOFF, next_retry_at=now + policy.delay(max(before.attempts_started, 1)))
    return put(blocks, after, update_revision)


def started(blocks: Blocks, revision: str) -> Blocks:
    """S: an attempt has passed every gate and starts."""
    return tuple(
        replace(block, state=IN_PROGRESS) if block.target_revision == revision and block.state == BACKOFF else block
        for block in blocks
    )


def without(blocks: Blocks, revision: str) -> Blocks:
    """X: converged, released."""
    return tuple(block for block in blocks if block.target_revision != revision)


def superseded(blocks: Blocks, wanted: Collection[str]) -> Blocks:
    """X: only the blocks of revisions that something still names."""
    return tuple(block for block in blocks if block.target_revision in wanted)


def put(blocks: Blocks, block: RetryBlock, update_revision: str) -> Blocks:
    """Replace or append a block, then keep the update revision's block and the three newest others (section 7)."""
    if find(blocks, block.target_revision) is None:
        changed = (*blocks, block)
    else:
        changed = tuple(block if old.target_revision == block.target_revision else old for old in blocks)
    others = [old for old in changed if old.target_revision != update_revision]
    oldest = sorted(others, key=lambda old: old.last_failure_at.timestamp() if old.last_failure_at else float("-inf"))
    dropped = {old.target_revision for old in oldest[: max(0, len(others) - _KEPT_OTHERS)]}
    return tuple(old for old in changed if old.target_revision not in dropped)


def matching(blocks: Sequence[RetryBlock], value: str) -> RetryBlock | None:
    """The block a release request names: by full revision name or bare hash; empty matches nothing."""
    if not value:
        return None
    return next(
        (b for b in blocks if value in (b.target_revision, b.target_revision.rpartition("-")[2])),
        None,
    )


def hold(blocks: Sequence[RetryBlock], revision: str, now: datetime) -> RolloutHold | None:
    """The rollout hold a block accounts for; `since` is the caller's business (section 8)."""
    block = find(blocks, revision)
    if block is None:
        return None
    failures = f"after {block.attempts_started} failed attempt(s): {block.reason}"
    if block.state == HELD:
        return RolloutHold(gate="Held", reason=f"update to {revision} held {failures}", target=revision)
    if block.state == BACKOFF and block.next_retry_at is not None and block.next_retry_at > now:
        return RolloutHold(gate="RetryBlock", reason=f"update to {revision} in backoff {failures}", target=revision)
    return None
