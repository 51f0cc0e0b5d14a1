"""The status a pass reports: counts, revisions, conditions, rollout hold (`spec/omenative.md` sections 4.2 and 13).
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ome.api.duration import format_duration
from ome.api.meta import Condition
from ome.api.types.inference_replica import InferenceReplicaStatus, InstanceStatus
from ome.api.types.lifecycle import RolloutHold

from . import budgets, gangs, names, retry
from .observe import Member
from .work import Work


def report(work: Work) -> InferenceReplicaStatus:
    """The whole new status."""
    rows = tuple(_counted(work, row) for row in work.ordered())
    needed = {row.index: work.needed(row) for row in rows}
    ready = [r for r in rows if sum(member.containers_ready for member in work.pods(r.index)) >= needed[r.index]]
    updated = [row for row in rows if row.running_revision == work.update_revision and work.update_revision]
    ready_indices = {row.index for row in ready}
    status = replace(
        work.status,
        observed_generation=work.replica.metadata.generation,
        replicas=len(rows),
        ready_replicas=len(ready),
        serving_replicas=sum(1 for row in rows if row.serving_pod_count >= needed[row.index]),
        available_replicas=sum(1 for row in rows if row.available_pod_count >= needed[row.index]),
        updated_replicas=len(updated),
        updated_ready_replicas=sum(1 for row in updated if row.index in ready_indices),
        current_revision=_current(work, rows),
        update_revision=work.update_revision,
        collision_count=work.snapshot.collision_count,
        label_selector=names.selector_text(work.replica),
        instance_statuses=rows,
        retry_blocks=work.blocks,
    )
    status = replace(status, rollout_hold=_hold(work, status))
    return replace(status, conditions=_conditions(work, status))


def _counted(work: Work, row: InstanceStatus) -> InstanceStatus:
    members = work.pods(row.index)
    live = [member for member in members if member.live]
    return replace(
        row,
        pod_count=len(live),
        serving_pod_count=sum(1 for member in live if member.serving),
        available_pod_count=sum(1 for member in live if _available(work, member)),
        admitted=bool(live) and not any(member.gated for member in live),
    )


def _available(work: Work, member: Member) -> bool:
    if member.name not in work.snapshot.listed:
        return False
    window = work.strategy.min_ready
    if not window:
        return True
    since = member.ready_since
    if since is None:
        return False
    if since + window > work.now:
        work.wake(since + window)
        return False
    return True


def _current(work: Work, rows: Sequence[InstanceStatus]) -> str:
    """Advances to the update revision when every Instance is Ready on it."""
    update = work.update_revision
    if rows and update and all(row.phase == "Ready" and row.running_revision == update for row in rows):
        return update
    return work.status.current_revision


# -- rollout hold ------------------------------------------------------------------------------------------------------


def _hold(work: Work, status: InferenceReplicaStatus) -> RolloutHold | None:
    hold = _hold_now(work, status)
    before = work.status.rollout_hold
    if hold is None:
        return None
    same = before is not None and (before.gate, before.target) == (hold.gate, hold.target)
    since = before.since if before is not None and same else work.stamp
    return replace(hold, since=since)


def _hold_now(work: Work, status: InferenceReplicaStatus) -> RolloutHold | None:
    if not status.update_revision or status.update_revision == status.current_revision:
        return None
    if work.advancing:
        return None
    if work.update_pass_ran:
        if not work.denials:
            return None
        return RolloutHold(gate="Budget", reason=work.denials[0].reason, target=work.target)
    return retry.hold(work.blocks, work.target, work.now)


# -- conditions --------------------------------------------------------------------------------------------------------


def _conditions(work: Work, status: InferenceReplicaStatus) -> tuple[Condition, ...]:
    fresh = [_ready(work, status), _stalled(work, status), _drain_overdue(work, status), _timeout(work)]
    if work.gang:
        fresh.append(_gang_scheduling(work))
    return merge(status.conditions, fresh, work.stamp)


def merge(before: Sequence[Condition], fresh: Sequence[Condition], now: datetime) -> tuple[Condition, ...]:
    """Conditions with the fresh ones put in place; the transition time moves only when a status flips."""
    old = {condition.type: condition for condition in before}
    merged = dict(old)
    for condition in fresh:
        known = old.get(condition.type)
        kept = known is not None and known.status == condition.status
        since = known.last_transition_time if known is not None and kept else now
        merged[condition.type] = replace(condition, last_transition_time=since or now)
    return tuple(merged.values())


def _ready(work: Work, status: InferenceReplicaStatus) -> Condition:
    problem = work.snapshot.problem
    if problem is not None:
        return Condition(type="Ready", status="False", reason=problem.reason, message=problem.message)
    reason, value, message = _ready_row(work, status)
    return Condition(type="Ready", status=value, reason=reason, message=message)


def _ready_row(work: Work, status: InferenceReplicaStatus) -> tuple[str, str, str]:
    rows = status.instance_statuses
    total, serving = status.replicas, status.serving_replicas
    update = status.update_revision
    if any(row.phase == "Failed" for row in rows):
        return "InstanceFailed", "False", "At least one Instance has Phase=Failed"
    staged = work.strategy.partition or 0
    if staged > 0 and _staged(rows, update, staged):
        moved = f"{total - staged}/{total} Instances on {update}"
        text = f"Staged at partition {staged}: {moved}, {staged} held on the prior revision"
        return "Staged", "True", text
    if update and update != status.current_revision:
        return "RolloutInProgress", "Unknown", _rolling_out(status)
    if total == 0:
        return "NoReplicas", "False", "InferenceReplica has no desired Instances"
    if status.ready_replicas == total:
        return "AllInstancesReady", "True", f"{total}/{total} Instances Ready"
    floor = budgets.floor(work.strategy.max_unavailable, work.size)
    if serving >= floor:
        return "MinimumAvailable", "True", f"{serving}/{total} Instances serving (min {floor})"
    text = f"{serving}/{total} Instances serving, need {floor} (no rollout in flight)"
    return "ReplicaCountMismatch", "False", text


def _rolling_out(status: InferenceReplicaStatus) -> str:
    return (
        f"Rolling out {status.update_revision} ({status.updated_ready_replicas}/{status.replicas} Instances on target)"
    )


def _staged(rows: Sequence[InstanceStatus], update: str, partition: int) -> bool:
    if not update or any(row.phase != "Ready" for row in rows):
        return False
    off = sum(1 for row in rows if row.running_revision != update)
    return off == partition and len(rows) >= partition


def _stalled(work: Work, status: InferenceReplicaStatus) -> Condition:
    failing = [row for row in status.instance_statuses if _fails_rollout(work, row)]
    if failing:
        reasons = Counter(row.last_failure.reason for row in failing if row.last_failure is not None)
        listed = ", ".join(f"{reason} x{count}" for reason, count in sorted(reasons.items()))
        text = f"{len(failing)}/{status.replicas} Instance(s) failing rollout to {work.target} ({listed})"
        return Condition(type="RolloutStalled", status="True", reason="InstancesFailing", message=text)
    rolling = status.update_revision and status.update_revision != status.current_revision
    text = _rolling_out(status) if rolling else "no rollout in flight"
    return Condition(type="RolloutStalled", status="False", reason="Progressing", message=text)


def _fails_rollout(work: Work, row: InstanceStatus) -> bool:
    last = row.last_failure
    if last is None or last.reason == "DrainOverdue" or row.running_revision == work.target:
        return False
    operation = row.operation
    if operation is None:
        return row.phase == "Failed"
    if last.time is None or operation.started_at is None:
        return False
    return last.time >= operation.started_at


def _drain_overdue(work: Work, status: InferenceReplicaStatus) -> Condition:
    late = [
        row.index
        for row in status.instance_statuses
        if row.operation is not None
        and row.operation.type == "Delete"
        and row.operation.deadline is not None
        and row.operation.deadline <= work.now
    ]
    if late:
        text = f"{len(late)} Instance(s) draining past their deadline ({', '.join(map(str, late))})"
        return Condition(type="DrainOverdue", status="True", reason="DrainsOverdue", message=text)
    return Condition(
        type="DrainOverdue", status="False", reason="DrainsWithinDeadline", message="no drain is past its deadline"
    )


def _gang_scheduling(work: Work) -> Condition:
    kind = "GangSchedulingUnavailable"
    if gangs.schedules(work):
        text = "each Instance of several pods has a PodGroup"
        return Condition(type=kind, status="False", reason="GangSchedulingAvailable", message=text)
    text = "no PodGroup is created for Instances of several pods: the scheduler places their pods one by one"
    return Condition(type=kind, status="True", reason="PodGroupCRDNotInstalled", message=text)


def _timeout(work: Work) -> Condition:
    kind = "InstanceReadyTimeoutUnconfigured"
    timeout = work.strategy.ready_timeout
    if timeout is None:
        text = "no instanceReadyTimeout is set: an Instance that never becomes ready is never failed for being late"
        return Condition(type=kind, status="True", reason=kind, message=text)
    text = f"Instance readiness deadline is {format_duration(timeout)}"
    return Condition(type=kind, status="False", reason="InstanceReadyTimeoutConfigured", message=text)
