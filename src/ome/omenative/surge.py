"""`SurgeThenDrain` of a single-pod Instance: a new pod beside the old one, then the old one drains (`spec/omenative.md`
8.1).

Pure. The two name slots (ordinals) alternate; the incarnation stays.
"""

from __future__ import annotations

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus

from . import names
from .bringup import may_create, recycle, refused, run_clock, serve, watch_for_failure
from .observe import Member
from .strategy import SURGE
from .work import Work

HOLD = "Update"


def start(work: Work, row: InstanceStatus) -> None:
    """Open the operation and act on it."""
    row = work.open(row, "Update", "Surge", work.target, phase="Updating", strategy=SURGE)
    work.normal(row, "RecreateUpdateStarted", f"surge to revision {work.target} (newOrdinal={1 - row.active_ordinal})")
    advance(work, row)


def advance(work: Work, row: InstanceStatus) -> None:
    """Go on with a surge, in either step."""
    orphan = _orphan(work, row)
    if orphan is not None:
        if (told := work.once(row, "FoundOrphan")) is not None:
            namespace = work.replica.metadata.namespace
            work.warning(
                told,
                "FoundOrphan",
                f"found pod {namespace}/{orphan.name} with unexpected ordinal label; refusing to surge-update",
            )
        return
    operation = row.operation
    assert operation is not None
    if operation.step == "SurgeDrain":
        _drain(work, row)
    else:
        _surge(work, row)


def _orphan(work: Work, row: InstanceStatus) -> Member | None:
    return next((m for m in work.pods(row.index) if m.live and m.ordinal not in (0, 1)), None)


def _slots(work: Work, row: InstanceStatus) -> tuple[Member | None, Member | None]:
    """The live old pod, and the live pod in the new slot, whatever it is."""
    live = [member for member in work.pods(row.index) if member.live]
    old = next((m for m in live if m.ordinal == row.active_ordinal), None)
    new = next((m for m in live if m.ordinal == 1 - row.active_ordinal), None)
    return old, new


def _own(row: InstanceStatus, member: Member | None) -> bool:
    """Whether the pod in the new slot is this operation's, and not an earlier attempt's."""
    operation = row.operation
    assert operation is not None
    return (
        member is not None
        and member.digest == names.digest_of(operation.target_revision)
        and member.operation == operation.id
    )


def _surge(work: Work, row: InstanceStatus) -> None:
    operation = row.operation
    assert operation is not None
    old, new = _slots(work, row)
    own = new if _own(row, new) else None
    if operation.target_revision != work.target and not work.paused and (own is None or not own.containers_ready):
        _abandon(work, row, new)
        return
    unrouted = old is None or not old.ready
    row = run_clock(work, row, [own] if own is not None else [], source_unrouted=unrouted)
    if new is not None and own is None:
        work.delete(new)
        return
    if own is not None and recycle(work, row, [own]):
        return
    name = work.pod_name(row.index, 1 - row.active_ordinal)
    if refused(work, row, name):
        return
    if own is None:
        if may_create(work, row):
            work.create(row, 1 - row.active_ordinal, operation.target_revision)
        watch_for_failure(work, row, [])
        return
    if serve(work, [own]):
        if not work.paused:
            _drain(work, work.step(row, "SurgeDrain"))
        return
    watch_for_failure(work, row, [own])


def _abandon(work: Work, row: InstanceStatus, new: Member | None) -> None:
    """A newer target, and the new pod is not ready: back to Ready on what runs. Not a failure, no charge."""
    operation = row.operation
    assert operation is not None
    if new is not None:
        work.delete(new)
    row = work.put(replace(row, phase="Ready", target_revision=row.running_revision, operation=None, announced=()))
    work.normal(
        row,
        "RecreateUpdateStarted",
        f"abandoned superseded surge to {operation.target_revision}; re-surging toward {work.target}",
    )


def _drain(work: Work, row: InstanceStatus) -> None:
    operation = row.operation
    assert operation is not None
    old, new = _slots(work, row)
    if old is not None and old.gate and not work.paused and (new is None or not new.containers_ready):
        # The new pod was lost before the old one left rotation: nothing is drained yet, and nothing must be.
        _surge(work, work.step(row, "Surge"))
        return
    row = run_clock(work, row, [new] if new is not None else [])
    if new is None:
        if may_create(work, row) and not refused(work, row, work.pod_name(row.index, 1 - row.active_ordinal)):
            work.create(row, 1 - row.active_ordinal, operation.target_revision)
        return
    if new.terminal:
        recycle(work, row, [new])
        return
    if new.containers_ready:
        work.open_gate(new)
    if old is not None:
        work.close_gate(old, HOLD)
        if work.drained(old):
            work.delete(old)
        return
    row = work.ready(replace(row, active_ordinal=1 - row.active_ordinal), operation.target_revision)
    work.normal(
        row,
        "RecreateUpdateCompleted",
        f"surge to revision {operation.target_revision} complete (activeOrdinal={row.active_ordinal})",
    )
