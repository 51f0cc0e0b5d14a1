"""`SurgeThenDrain` of a multi-pod Instance: a whole replacement Instance at a new index, then the source goes.

`spec/omenative.md` section 8.2. The source row carries the operation (`surgeIndex` names the replacement), the
replacement row one of its own. A replacement that fails is taken back: the source is Ready again on what it runs. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus, InstanceTermination

from . import gangs
from .bringup import any_refused, may_create, recycle, run_clock, serve, watch_for_failure
from .evidence import Evidence
from .observe import Member
from .strategy import SURGE
from .work import Work

HOLD = "Update"
CLEANUP = "GangSurgeTargetCleanup"
SUPERSEDED = "superseded"


def start(work: Work, row: InstanceStatus) -> None:
    """Open both operations and act on them."""
    index = next(
        i for i in range(len(work.rows) + len(work.members) + 1) if i not in work.rows and i not in work.members
    )
    row = work.open(row, "Update", "Surge", work.target, phase="Updating", strategy=SURGE)
    assert row.operation is not None
    row = work.put(replace(row, operation=replace(row.operation, surge_index=index)))
    made = InstanceStatus(index=index, incarnation=1, target_revision=work.target)
    work.open(work.put(made), "Update", "GangSurgeTarget", work.target, phase="Creating", strategy=SURGE)
    work.normal(row, "RecreateUpdateStarted", f"gang surge to revision {work.target} (surge-index={index})")
    advance(work, row)


def advance(work: Work, row: InstanceStatus) -> None:
    """Go on with a gang surge. Paused, it stops at its step, even mid-drain."""
    operation = row.operation
    assert operation is not None
    assert operation.surge_index is not None
    made = work.rows.get(operation.surge_index)
    if made is None or made.operation is None or made.phase == "Deleting":
        _back(work, row)
        return
    attempt = [member for member in work.pods(made.index) if member.live]
    row = run_clock(work, row, attempt)
    made = run_clock(work, made, attempt)
    if work.paused:
        return
    if operation.step == "SurgeDrain":
        _drain(work, row, made)
        return
    if made.operation is not None and made.operation.step == CLEANUP:
        _clean(work, row, made)
        return
    ready = len(attempt) >= work.per_instance and all(member.containers_ready for member in attempt)
    if operation.target_revision != work.target and not ready:
        abandon(work, row, SUPERSEDED)
        return
    _build(work, row, made, attempt)


def _build(work: Work, row: InstanceStatus, made: InstanceStatus, attempt: list[Member]) -> None:
    operation = row.operation
    assert operation is not None
    if recycle(work, made, attempt):
        return
    if any_refused(work, made):
        if any(failing.index == made.index for failing in work.failing):
            _fail_source(work, row, made)
        return
    if serve(work, attempt):
        _drain(work, work.step(row, "SurgeDrain"), made)
        return
    if len(attempt) < work.per_instance and may_create(work, made):
        work.create_missing(made, operation.target_revision)
    watch_for_failure(work, row, attempt)


def _fail_source(work: Work, row: InstanceStatus, made: InstanceStatus) -> None:
    """A refused pod of the replacement fails the surge, and the surge is the source's."""
    failing = next(found for found in work.failing if found.index == made.index)
    work.failing.remove(failing)
    work.fail(row.index, failing.evidence)


def abandon(work: Work, row: InstanceStatus, why: str) -> None:
    """Take the replacement back; `why` is `superseded` or the failure that the source's `lastFailure` holds."""
    operation = row.operation
    assert operation is not None
    assert operation.surge_index is not None
    made = work.rows[operation.surge_index]
    assert made.operation is not None
    cleaning = replace(made.operation, step=CLEANUP, reason=why, last_progress_at=work.stamp)
    _clean(work, row, work.put(replace(made, operation=cleaning)))


def _clean(work: Work, row: InstanceStatus, made: InstanceStatus) -> None:
    """Delete the replacement's pods; when they are gone, remove its row and end the surge, in one write."""
    members = work.pods(made.index)
    for member in members:
        work.close_gate(member, HOLD)
        if work.drained(member):
            work.delete(member)
    if members or not gangs.gone(work, made.index):
        return
    assert made.operation is not None
    _back(work, row, made)


def _back(work: Work, row: InstanceStatus, made: InstanceStatus | None = None) -> None:
    operation = row.operation
    assert operation is not None
    index = operation.surge_index
    why = made.operation.reason if made is not None and made.operation is not None else SUPERSEDED
    if made is not None:
        work.drop(made.index)
    work.put(replace(row, phase="Ready", target_revision=row.running_revision, operation=None, announced=()))
    told = f"abandoned {'superseded' if why == SUPERSEDED else 'failed'} gang surge (surge-index={index})"
    text = f"{told}; resetting to revision {row.running_revision} for a fresh rollout"
    if why == SUPERSEDED:
        work.normal(row, "GangSurgeAbandoned", text)
        return
    work.warning(row, "GangSurgeAbandoned", text)
    work.abandoned(operation.target_revision, row.last_failure or InstanceTermination(reason=why))


def _drain(work: Work, row: InstanceStatus, made: InstanceStatus) -> None:
    """The replacement serves: the source's pods leave rotation and go, then the replacement takes over."""
    operation = row.operation
    assert operation is not None
    for member in work.pods(made.index):
        if member.containers_ready:
            work.open_gate(member)
    old = [member for member in work.pods(row.index) if member.live]
    for member in old:
        work.close_gate(member, HOLD)
    if old:
        if all(work.drained(member) for member in old):
            for member in old:
                work.delete(member)
        return
    work.ready(made, operation.target_revision)
    work.drop(row.index)
    work.normal(
        row,
        "RecreateUpdateCompleted",
        f"gang surge complete: instance {made.index} promoted to revision {operation.target_revision}",
    )


def failure(work: Work, row: InstanceStatus, proof: Evidence) -> None:
    """A gang surge failed: keep the evidence on the source, and take the replacement back."""
    row = work.record_failure(row, proof)
    abandon(work, row, proof.reason)
