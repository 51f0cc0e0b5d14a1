"""The update pass: which Instances start moving to the target, by which strategy, and what keeps the others.

`spec/omenative.md` section 8 (trigger, order of gates) and section 7 (budgets). Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus

from . import budgets, gangsurge, inplace, names, rebuild, retry, surge
from .bringup import may_start
from .revisions import payload_of
from .strategy import IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, RECREATE, SURGE
from .work import NOT_IN_PLACE, POLL, Work

_IN_PLACE, _RECREATE, _SURGE, _GANG, _REFUSE = "in place", "recreate", "surge", "gang surge", "refuse"


def advance_all(work: Work) -> None:
    """Go on with the updates in flight."""
    for row in work.ordered():
        operation = row.operation
        if row.phase != "Updating" or operation is None:
            continue
        if operation.surge_index is not None:
            gangsurge.advance(work, row)
        elif operation.step in ("Surge", "SurgeDrain"):
            surge.advance(work, row)
        elif operation.step == "InPlace":
            inplace.advance(work, row)
        else:
            rebuild.advance(work, row)
        work.wake(work.now + POLL)


def start_all(work: Work) -> None:
    """Start what every gate admits, lowest index first: pause, retry block, partition, budget."""
    if work.paused or not work.target:
        return
    candidates = [row for row in work.ordered() if _candidate(work, row)]
    staged = budgets.partitioned(
        [row.index for row in work.ordered() if _counts_for_partition(work, row)], work.strategy.partition
    )
    in_flight = retry.updating([*work.rows.values()], work.target)
    for row in candidates:
        answer = retry.gate(work.blocks, work.target, in_flight=in_flight, now=work.now)
        if not answer.start:
            work.wake(answer.wake)
            continue
        if row.index in staged:
            continue
        in_flight = _try(work, row) or in_flight
    work.advancing = any(row.operation is not None and row.operation.type == "Update" for row in work.rows.values())
    _free_slots(work, next((row.index for row in candidates if row.index not in staged), None))


def _free_slots(work: Work, first: int | None) -> None:
    """Let go of leftovers that keep one another's Instances from starting.

    With leftovers of failed surges on several Instances and a budget below their number, each start waits for the
    others' slots: nobody would ever move. The first candidate keeps its leftover, for its start reuses that slot; the
    others' leftovers are deleted.
    """
    if work.advancing or not work.denials or work.strategy.type != SURGE or work.gang:
        return
    budget = budgets.resolve(work.strategy.max_surge, work.size)
    if not budget or any(not member.live for members in work.members.values() for member in members):
        return
    for row in work.ordered():
        if row.index == first or row.operation is not None:
            continue
        for member in work.pods(row.index):
            if member.live and member.ordinal != row.active_ordinal and not member.gate:
                work.delete(member)


def off_target(work: Work, row: InstanceStatus) -> bool:
    """Whether the Instance runs something else than the target: by its row, or by the pod in its active slot."""
    if row.running_revision != work.target:
        return True
    active = [member for member in work.canonical(row) if member.digest]
    return any(member.digest != names.digest_of(work.target) for member in active)


def _candidate(work: Work, row: InstanceStatus) -> bool:
    operation = row.operation
    idle = operation is None or (row.phase == "Failed" and operation.type in ("Restart", "Update"))
    if row.phase not in ("Ready", "Failed") or not idle or not row.running_revision:
        return False
    return off_target(work, row) and may_start(work, row)


def _counts_for_partition(work: Work, row: InstanceStatus) -> bool:
    updating = row.operation is not None and row.operation.type == "Update"
    leaving = row.phase in ("Updating", "Deleting", "Creating", "Pending")
    return not updating and not leaving and bool(row.running_revision) and off_target(work, row)


def _try(work: Work, row: InstanceStatus) -> bool:
    """Start an update of the Instance if its budget allows; whether it started."""
    work.update_pass_ran = True
    idle = row.operation is None and not budgets.held_slots(row, work.pods(row.index), work.now)
    if work.denials and idle:
        return False  # holds no slot of its own to reuse, so it is denied like the one before it
    how = _how(work, row)
    if how == _REFUSE:
        _refuse(work, row)
        return False
    denial = _denial(work, row, how)
    if denial is not None:
        work.denials.append(denial)
        work.wake(denial.wake)
        return False
    work.blocks = retry.started(work.blocks, work.target)
    work.wake(work.now + POLL)
    if how == _GANG:
        gangsurge.start(work, row)
    elif how == _SURGE:
        surge.start(work, row)
    elif how == _RECREATE:
        rebuild.start_recreate(work, row, work.strategy.type)
    else:
        inplace.start(work, row, work.strategy.type)
    return True


def _how(work: Work, row: InstanceStatus) -> str:
    kind = work.strategy.type
    if work.gang:
        return _GANG if kind == SURGE else _RECREATE
    if any(member.runner != names.DEFAULT_RUNNER for member in work.pods(row.index)):
        return _RECREATE  # the Instance had several pods; a single-pod surge cannot stand beside them
    if kind in (SURGE, RECREATE):
        return _SURGE if kind == SURGE else _RECREATE
    active = next((m for m in work.pods(row.index) if m.live and m.ordinal == row.active_ordinal), None)
    if active is None:
        return _RECREATE
    runs = names.revision_name(work.base, active.digest) if active.digest else row.running_revision
    revisions = work.snapshot.revisions
    if inplace.eligible(payload_of(revisions, runs), payload_of(revisions, work.target)):
        return _IN_PLACE
    return _RECREATE if kind == IN_PLACE_IF_POSSIBLE else _REFUSE


def _refuse(work: Work, row: InstanceStatus) -> None:
    marker = f"{NOT_IN_PLACE}@{work.target}"
    if marker in row.announced:
        return
    work.put(replace(row, announced=(*row.announced, marker)))
    work.warning(
        row,
        NOT_IN_PLACE,
        f"rejected update: {IN_PLACE_ONLY} strategy but diff exceeds container images",
    )


def _denial(work: Work, row: InstanceStatus, how: str) -> budgets.Denial | None:
    if how in (_SURGE, _GANG):
        budget = budgets.resolve(work.strategy.max_surge, work.size)
        if how == _GANG:
            return budgets.gang_surge(budget, work.per_instance, work.rows, work.members, work.now)
        return budgets.surge(budget, row.index, work.rows, work.members, work.now)
    budget = budgets.resolve(work.strategy.max_unavailable, work.size)
    if row.operation is not None and row.operation.type == "Update":
        return None  # a failed update that is kept is counted already: going on takes nobody else down
    return budgets.unavailability(budget, budgets.unavailable(work.rows))
