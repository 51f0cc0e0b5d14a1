"""Bringing an attempt's pods into service, and its clock: gates, the readiness window, holds and deadlines.

`spec/omenative.md` sections 4.1, 6.2 and 6.5. Used by every operation that makes a pod serve. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ome.api.meta import whole_second
from ome.api.types.inference_replica import InstanceStatus

from . import evidence as ev
from . import gangs
from .observe import Member, Refused
from .work import PATROL, REFUSED_RETRY, Work

QUOTA: str = "QuotaExceeded"
SOURCE_UNROUTED: str = "SourceUnrouted"
_RUNNING_CLOCK = frozenset({"", SOURCE_UNROUTED})
_PATIENT = frozenset({ev.NAMESPACE_TERMINATING, ev.POD_GROUP_OWNED})
"""Failures that only somebody else can end: trying at once would change nothing."""
_REASONS = {
    Refused.INVALID: ev.INVALID_POD_SPEC,
    Refused.NAMESPACE: ev.NAMESPACE_TERMINATING,
    Refused.OWNED: ev.POD_GROUP_OWNED,
}


def serve(work: Work, members: Sequence[Member]) -> bool:
    """Open the gates once all pods' containers are ready; True when all have been Ready for minReadySeconds."""
    if len(members) < work.per_instance or not all(member.containers_ready for member in members):
        return False
    for member in members:
        work.open_gate(member)
    since = [member.ready_since for member in members if member.ready]
    if len(since) < len(members):
        return False
    end = max(start for start in since if start is not None) + work.strategy.min_ready
    if end > work.now:
        work.wake(end)
        return False
    return True


def run_clock(
    work: Work, row: InstanceStatus, members: Sequence[Member], *, source_unrouted: bool = False
) -> InstanceStatus:
    """Record what the operation waits for; park its deadline meanwhile, and grant a full window when the hold ends."""
    operation = row.operation
    if operation is None:
        return row
    waiting, parked = _hold(work, row, members)
    if not parked and source_unrouted:
        waiting = SOURCE_UNROUTED
    timeout = work.strategy.ready_timeout
    deadline = operation.deadline
    if parked:
        deadline = None
    elif deadline is None and timeout is not None:
        deadline = whole_second(work.stamp + timeout)
    refused_at = operation.capacity_refused_at if waiting == QUOTA else None
    after = replace(operation, waiting=waiting, deadline=deadline, capacity_refused_at=refused_at)
    return row if after == operation else work.put(replace(row, operation=after))


def _hold(work: Work, row: InstanceStatus, members: Sequence[Member]) -> tuple[str, bool]:
    live = [member for member in members if member.live]
    operation = row.operation
    if operation is not None and operation.waiting == QUOTA and len(live) < work.per_instance:
        # Before the pause, which would forget when the quota was asked last; a gang with some of its pods waits too.
        return QUOTA, True
    if work.paused:
        return "Paused", True
    if len(live) < work.per_instance and gangs.waits(work, _builds(row)):
        return gangs.TERMINATING, True
    if any(member.gated for member in live):
        return "", True
    if any(member.unknown for member in members):
        return "NodeUnknown", True
    if any(member.unschedulable_since is not None for member in live):
        return ev.UNSCHEDULABLE, True
    return "", False


def _builds(row: InstanceStatus) -> int:
    """The index at which the operation makes pods: a gang surge makes them beside its source."""
    surge_index = row.operation.surge_index if row.operation is not None else None
    return row.index if surge_index is None else surge_index


def may_create(work: Work, row: InstanceStatus) -> bool:
    """Whether a refused pod may be tried again: a quota is asked once in a while."""
    refused_at = row.operation.capacity_refused_at if row.operation is not None else None
    if refused_at is None or refused_at + REFUSED_RETRY <= work.now:
        return True
    work.wake(refused_at + REFUSED_RETRY)
    return False


def may_start(work: Work, row: InstanceStatus) -> bool:
    """Whether an idle row may start: not in the pass that failed it, nor at once where somebody else must act first."""
    if row.index in work.failed:
        work.wake(work.now)
        return False
    last = row.last_failure
    if row.phase != "Failed" or last is None or last.time is None or last.reason not in _PATIENT:
        return True
    again = last.time + REFUSED_RETRY
    if again > work.now:
        work.wake(again)
    return again <= work.now


def any_refused(work: Work, row: InstanceStatus) -> bool:
    """Whether the API server just refused a pod in the Instance's slots, or its PodGroup."""
    if refused(work, row, gangs.name_of(work, row.index), "PodGroup"):
        return True
    return any(refused(work, row, work.pod_name(row.index, ordinal, runner)) for runner, ordinal in work.slots(row))


def refused(work: Work, row: InstanceStatus, name: str, kind: str = "pod") -> bool:
    """Whether the API server just refused the object of this name; decides what that means for the operation."""
    refusal = work.snapshot.refusals.get(name)
    if refusal is None or row.operation is None:
        return False
    if refusal.kind is Refused.QUOTA:
        held = replace(row.operation, waiting=QUOTA, deadline=None, capacity_refused_at=work.stamp)
        row = work.put(replace(row, operation=held))
        work.wake(work.stamp + REFUSED_RETRY)
        if (told := work.once(row, "InstanceQuotaBlocked")) is not None:
            work.warning(told, "InstanceQuotaBlocked", f"{kind} {name} refused: {refusal.message}")
        return True
    reason = _REASONS[refusal.kind]
    work.warning(row, "InstanceRejected", f"{kind} {name} rejected: {refusal.message}")
    work.fail(row.index, ev.Evidence(reason=reason, pod=name if kind == "pod" else "", message=refusal.message))
    return True


def recycle(work: Work, row: InstanceStatus, members: Sequence[Member]) -> bool:
    """Delete pods that ended for good, so that they are made anew. True when there was one."""
    ended = [member for member in members if member.live and member.terminal]
    for member in ended:
        proof = ev.terminated(member)
        row = work.record_failure(work.rows[row.index], proof)
        work.warning(
            row,
            "TerminalPodRecycled",
            f"pod {member.name} ended in phase {member.pod.status.phase} ({proof.reason}); deleting it to create "
            f"it again",
        )
        work.delete(member)
    return bool(ended)


def watch_for_failure(
    work: Work, row: InstanceStatus, members: Sequence[Member], *, since: datetime | None = None
) -> None:
    """Fail the operation when its pods are stuck, unschedulable for too long, or late. Never while paused."""
    operation = row.operation
    if operation is None or work.paused:
        return
    live = [member for member in members if member.live]
    proof = ev.stuck(live, work.settings.stuck_grace, work.now, since)
    if proof is None:
        proof = ev.unschedulable(live, work.settings.unschedulable_grace, work.now)
    if proof is None and operation.deadline is not None and operation.deadline <= work.now:
        proof = ev.at_deadline(live)
    if proof is not None:
        work.fail(row.index, proof)
        return
    work.wake(ev.stuck_at(live, work.settings.stuck_grace, since))
    work.wake(ev.unschedulable_at(live, work.settings.unschedulable_grace))
    work.wake(operation.deadline)
    if operation.deadline is None or work.settings.stuck_grace is None:
        work.wake(work.now + PATROL)
