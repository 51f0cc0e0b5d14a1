"""Restarts of running Instances: restart policy, crash-loop repair (`spec/omenative.md` section 9). Pure."""

from __future__ import annotations

from ome.api.types.inference_replica import InstanceStatus

from . import budgets, rebuild
from . import evidence as ev
from .work import POLL, Work


def advance_all(work: Work) -> None:
    """Go on with the restarts in flight. One that failed waits in `Failed` for its pods, a reset or a new revision."""
    for row in work.ordered():
        if row.phase == "Restarting" and row.operation is not None:
            rebuild.advance(work, row)
            work.wake(work.now + POLL)


def start_all(work: Work) -> None:
    """Restart what the policy or a crash loop calls for. Frozen: none starts."""
    if work.frozen:
        return
    for row in work.ordered():
        if row.phase != "Ready" or row.operation is not None or not work.recorded(row.running_revision):
            continue
        if work.reshaped(row):  # from one pod to several or back: only an update can say what it consists of
            continue
        trigger = _policy_trigger(work, row) if work.strategy.restart_on_pod_restart else ""
        if trigger:
            rebuild.start_restart(work, row, trigger)
            continue
        _repair(work, row)


def _policy_trigger(work: Work, row: InstanceStatus) -> str:
    own = work.canonical(row)
    for member in own:
        if member.terminal:
            proof = ev.terminated(member)
            return f"pod {member.name} failed: {proof.reason} (exit {proof.exit_code})"
        ended = ev.restarted(member, row.ready_since)
        if ended is not None:
            return (
                f"pod {ended.pod} container {ended.container} restarted after Ready: {ended.reason} "
                f"(exit {ended.exit_code})"
            )
    there = {(member.runner, member.ordinal) for member in own}
    missing = [work.pod_name(row.index, slot[1], slot[0]) for slot in work.slots(row) if slot not in there]
    return f"pod {missing[0]} missing" if missing else ""


def _repair(work: Work, row: InstanceStatus) -> None:
    own = work.canonical(row)
    proof = ev.stuck(own, work.settings.stuck_grace, work.now)
    if proof is None:
        work.wake(ev.stuck_at(own, work.settings.stuck_grace))
        return
    budget = budgets.resolve(work.strategy.max_unavailable, work.size)
    prior = budgets.unavailable(work.rows) + sum(1 for other in work.rows.values() if other.phase == "Restarting")
    denial = budgets.unavailability(budget, prior)
    if denial is None:
        row = work.record_failure(row, proof)
        trigger = f"pod {proof.pod} container {proof.container} wedged in {proof.reason} past the stuck-pod grace"
        rebuild.start_restart(work, row, trigger)
    elif (told := work.once(row, "RepairHeld")) is not None:
        work.warning(told, "RepairHeld", f"repair of pod {proof.pod} ({proof.reason}) held by Budget: {denial.reason}")
