"""Creating Instances, and making lost or failed ones anew (`spec/omenative.md` sections 6.2 and 6.4).

A `Create` operation makes all missing pods of an Instance and ends when they are Ready. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus

from . import names, retry
from .bringup import any_refused, may_create, may_start, recycle, run_clock, serve, watch_for_failure
from .observe import Member
from .strategy import SURGE
from .work import Work

HOLD = "Create"


def rebuild_target(work: Work, row: InstanceStatus) -> str:
    """What a Create makes: the revision the Instance ran, if it still exists (a repair), else the one rolled out."""
    running = row.running_revision
    return running if running and work.recorded(running) else work.target


def start_all(work: Work) -> None:
    """Open `Create` on rows that have no pods to show: new, `Pending`, and failed before they ever ran."""
    if work.paused:
        return
    in_flight = retry.creating([*work.rows.values()])
    for row in work.ordered():
        if row.operation is None and _wants_create(row) and not _serves(work, row) and may_start(work, row):
            in_flight = start(work, row, in_flight=in_flight) or in_flight


def _wants_create(row: InstanceStatus) -> bool:
    return row.phase in ("Creating", "Pending") or (row.phase == "Failed" and not row.running_revision)


def _serves(work: Work, row: InstanceStatus) -> bool:
    """A failed attempt whose pods serve after all is about to be Ready: an update replaces it then, in rotation."""
    own = work.canonical(row)
    return len(own) >= work.per_instance and all(member.serving for member in own)


def start(work: Work, row: InstanceStatus, *, in_flight: bool) -> bool:
    """Open the operation if the retry gate allows; whether it did. An earlier attempt's leftovers are deleted first."""
    target = rebuild_target(work, row)
    answer = retry.gate(work.blocks, target, in_flight=in_flight, now=work.now)
    if not answer.start and not _held_though_it_ran(work, row, target):
        work.wake(answer.wake)
        return False
    work.blocks = retry.started(work.blocks, target)
    announce = not row.last_failure and row.phase == "Creating" and not row.running_revision
    row = work.open(row, "Create", "CreatePods", target, phase="Creating")
    if announce:
        work.normal(row, "InstanceCreated", f"creating at revision {target} (incarnation={row.incarnation})")
    advance(work, row)
    return True


def _held_though_it_ran(work: Work, row: InstanceStatus, target: str) -> bool:
    """Whether the Instance lost its pods of a revision on which it was Ready, and which is Held since: more Instances
    were asked for while a registry was out of order. Its pods are made anew, for nobody else would ever ask for them.
    """
    block = retry.find(work.blocks, target)
    return row.phase == "Pending" and row.running_revision == target and block is not None and block.state == retry.HELD


def advance(work: Work, row: InstanceStatus) -> None:
    """Go on with a `Create` operation."""
    operation = row.operation
    assert operation is not None
    if _supersede(work, row):
        return
    attempt, leftovers = _split(work, row)
    row = run_clock(work, row, attempt)
    for member in leftovers:
        work.close_gate(member, HOLD)
        if work.drained(member):
            work.delete(member)
    if recycle(work, row, attempt):
        return
    if any_refused(work, row):
        return
    if serve(work, attempt):
        target = operation.target_revision
        row = work.ready(row, target)
        work.normal(row, "InstanceReady", f"ready at revision {target}")
        return
    if len(attempt) < work.per_instance and may_create(work, row):
        work.create_missing(row, operation.target_revision)
    watch_for_failure(work, work.rows[row.index], attempt)


def _split(work: Work, row: InstanceStatus) -> tuple[Sequence[Member], Sequence[Member]]:
    """The attempt's own pods, and what an earlier attempt left.

    A pod of the right revision that already serves is taken over: deleting it would be the only harm done.
    """
    operation = row.operation
    assert operation is not None
    digest = names.digest_of(operation.target_revision)
    attempt: list[Member] = []
    leftovers: list[Member] = []
    for member in work.pods(row.index):
        if not member.live:
            continue
        slot = member.digest == digest and (member.runner, member.ordinal) in work.slots(row)
        own = member.operation == operation.id or member.serving
        (attempt if slot and own else leftovers).append(member)
    return attempt, leftovers


def _supersede(work: Work, row: InstanceStatus) -> bool:
    """Restart the attempt on a newer target, unless paused, already serving, or kept from it by a block."""
    operation = row.operation
    assert operation is not None
    target = rebuild_target(work, row)
    if work.paused or operation.target_revision == target:
        return False
    if any(member.serving for member in work.pods(row.index)):
        return False
    if not retry.gate(work.blocks, target, in_flight=False, now=work.now).start:
        return False
    old = operation.target_revision
    work.blocks = retry.started(work.blocks, target)
    row = work.open(row, "Create", "CreatePods", target, phase="Creating")
    work.normal(row, "CreateAttemptSuperseded", f"create attempt at {old} superseded; creating at revision {target}")
    advance(work, row)
    return True


def settle_failed(work: Work) -> None:
    """A `Failed` Instance is Ready again once its pods are ready on its target; what it ran and lost meanwhile is made
    again.
    """
    for row in work.ordered():
        kept = row.operation is not None and row.operation.type in ("Restart", "Update")
        if row.phase != "Failed" or not (row.operation is None or kept):
            continue
        aim = _recovered(work, row)
        if aim:
            row = work.ready(row, aim)
            work.normal(row, "InstanceReady", f"ready at revision {aim}")
            continue
        _revive(work, row)


def _recovered(work: Work, row: InstanceStatus) -> str:
    """The revision on which all pods of the Instance are ready again, or nothing.

    What it ran before counts only when that is the target again: an old pod that serves through a failed surge heals
    nothing.
    """
    aims = [row.target_revision]
    if row.running_revision == work.target:
        aims.append(row.running_revision)
    for aim in aims:
        own = [member for member in work.canonical(row) if member.digest == names.digest_of(aim)]
        if aim and serve(work, own):
            return aim
    return ""


def _revive(work: Work, row: InstanceStatus) -> None:
    """Replace the lost pod of an Instance that ran its target, or that kept its old pod through a failed surge."""
    running = row.running_revision
    if work.paused or not running or not work.recorded(running) or work.reshaped(row):
        return
    if running != work.target and work.strategy.type != SURGE and row.operation is None:
        return
    if len(work.canonical(row)) < work.per_instance:
        work.create_missing(row, running)


def demote_lost(work: Work) -> None:
    """Policy `None`: an Instance that lost all its pods is `Pending` until it is made anew."""
    if work.strategy.restart_on_pod_restart or work.frozen:
        return
    for row in work.ordered():
        if row.phase != "Ready" or row.operation is not None:
            continue
        if work.reshaped(row) or recycle(work, row, work.pods(row.index)):
            continue
        if any(member.live for member in work.pods(row.index)):
            if work.gang and not work.paused and work.recorded(row.running_revision):
                work.create_missing(row, row.running_revision)
            continue
        row = work.put(replace(work.rows[row.index], phase="Pending", ready_since=None))
        work.warning(row, "InstanceDemoted", "demoted: all pods are lost; the Instance is created again")


def keep_serving(work: Work) -> None:
    """Idle Instances: the gate of what they run is open whenever its containers are ready; extra pods of a settled one
    go.
    """
    for row in work.ordered():
        if row.operation is not None or row.phase not in ("Ready", "Failed"):
            continue
        running = names.digest_of(row.running_revision)
        for member in work.pods(row.index):
            if not member.live:
                continue
            if (member.runner, member.ordinal) in work.slots(row) or work.reshaped(row):
                if member.containers_ready and member.digest == running:
                    work.open_gate(member)
            elif row.phase == "Ready" and row.running_revision == work.target:
                work.delete(member)
