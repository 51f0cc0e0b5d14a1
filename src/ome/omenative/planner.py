"""`plan`: one frozen observation in, one decided pass out (`spec/omenative.md` section 6, the order of passes).

Pure: nothing here awaits, reads a clock or draws a random number. The controller observes, calls this, and has the
executor carry the plan out; a refusal of the API server comes back as part of the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ome.api.types.inference_replica import InferenceReplicaStatus, RetryBlock

from . import create, failures, force, gangs, mailboxes, names, repair, retry, revisions, scale, services, update
from .actions import WARNING, AddFinalizer, DeleteRevision, Held, Notice, Plan
from .observe import Snapshot
from .report import report
from .settings import Settings
from .work import Work

_SAY_HELD: Final = timedelta(minutes=10)
"""How long after its last failure a Held block's event is made sure of: a restart is over by then, and the API server
forgets events only after an hour.
"""


def plan(snapshot: Snapshot, settings: Settings, now: datetime) -> Plan:
    """Decide one pass over an InferenceReplica at `now` (aware, UTC)."""
    work = Work(snapshot, settings, now)
    if work.replica.metadata.deleting:
        scale.teardown(work)
        return _finish(work, report(work))
    if names.FINALIZER not in work.replica.metadata.finalizers:
        return Plan(status=work.status, actions=(AddFinalizer(),), again=True)
    if mailboxes.pending(work):
        mailboxes.answer(work)
        return _finish(work, report(work), again=True)
    if snapshot.problem is not None:
        return _unrenderable(work)
    _choose_target(work)
    for decide in _PASSES:
        decide(work)
    if not work.paused:
        _prune_blocks(work)
    status = report(work)
    if not names.orphaned(work.replica):  # its Services were left with it; who takes it over brings its own
        services.plan_services(work, owner_of_children(snapshot))
    _prune_revisions(work, status)
    return _finish(work, status)


_PASSES: tuple[Callable[[Work], None], ...] = (
    scale.adopt,
    scale.plan_indices,
    scale.advance_deletes,
    create.settle_failed,
    update.advance_all,
    repair.advance_all,
    lambda work: _advance_creates(work),
    failures.dispose,
    create.keep_serving,
    repair.start_all,
    create.demote_lost,
    create.start_all,
    update.start_all,
    gangs.keep,
    gangs.sweep,
    force.force_delete,
)


def _advance_creates(work: Work) -> None:
    for row in work.ordered():
        if row.phase == "Creating" and row.operation is not None and row.operation.type == "Create":
            create.advance(work, row)


def _choose_target(work: Work) -> None:
    """An explicit roll-back moves Instances to a recorded revision; one that is gone means the spec's."""
    pacing = work.replica.spec.pacing
    wanted = pacing.rollback_to_revision if pacing is not None else ""
    if wanted and work.recorded(wanted):
        work.target = wanted


def _prune_blocks(work: Work) -> None:
    """X, superseded: the end of a pass drops the blocks of revisions that nothing names any more."""
    wanted = {work.status.current_revision, work.update_revision, work.target}
    wanted |= {row.operation.target_revision for row in work.rows.values() if row.operation is not None}
    work.blocks = retry.superseded(work.blocks, wanted)


def _prune_revisions(work: Work, status: InferenceReplicaStatus) -> None:
    limit = revisions.history_limit(work.replica, work.settings.history_limit)
    live = revisions.live(status, (work.target, *(block.target_revision for block in work.blocks)))
    pods = {names.revision_name(work.base, m.digest) for members in work.members.values() for m in members if m.digest}
    for old in revisions.prunable(work.snapshot.revisions, live | pods, limit):
        work.actions.append(DeleteRevision(old.metadata.name, old.metadata.uid))


def _unrenderable(work: Work) -> Plan:
    """No template: existing pods stay, nothing starts; the condition and one event say why."""
    problem = work.snapshot.problem
    assert problem is not None
    work.update_revision = work.target = work.status.update_revision
    scale.advance_deletes(work)
    status = report(work)
    before = next((condition for condition in work.status.conditions if condition.type == "Ready"), None)
    if before is None or (before.reason, before.message) != (problem.reason, problem.message):
        work.notices.append(Notice(WARNING, problem.reason, problem.message))
    return _finish(work, status)


def _finish(work: Work, status: InferenceReplicaStatus, *, again: bool = False) -> Plan:
    return Plan(
        status=status,
        blocks=work.charged,
        held=_held(work),
        notices=tuple(work.notices),
        actions=tuple(work.actions),
        wake=work.wake_at,
        again=again,
    )


def _held(work: Work) -> tuple[Held, ...]:
    """What is to be said of the Held blocks that are written when it is said: those charged now, or those that stand.

    A manager may have died between a block and its event. So the event of a block is due as long as the block is young,
    and its name is made of the block. Once the event is there, writing it again does nothing; when the block is old,
    the event was there, and the API server may have forgotten it.
    """
    written = work.charged if work.charged is not None else work.status.retry_blocks
    stands = {block.target_revision for block in work.blocks}
    return tuple(
        Held(_event_name(block), _held_message(work, block), block.target_revision in work.newly_held)
        for block in written
        if block.state == retry.HELD and block.target_revision in stands and _young(block, work.now)
    )


def _young(block: RetryBlock, now: datetime) -> bool:
    return block.last_failure_at is not None and now - block.last_failure_at < _SAY_HELD


def _event_name(block: RetryBlock) -> str:
    first = int(block.first_failure_at.timestamp()) if block.first_failure_at is not None else 0
    return f"{block.target_revision}.held.{first:x}"


def _held_message(work: Work, block: RetryBlock) -> str:
    meta = work.replica.metadata
    return (
        f"InferenceReplica {meta.namespace}/{meta.name} component={work.replica.spec.component} update to revision "
        f"{block.target_revision} held after {block.attempts_started} failed attempt(s) (last failure: "
        f"{block.reason}); "
        "publish a corrected revision or raise lifecycle.updateRetry limits"
    )


def owner_of_children(snapshot: Snapshot) -> Mapping[str, Any]:
    """Owner reference of Services and ControllerRevisions: the InferenceService, or a standalone replica itself."""
    replica = snapshot.replica
    owner = replica.metadata.controller
    if owner is not None and names.projected(replica):
        return {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "name": replica.metadata.name,
        "uid": replica.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
