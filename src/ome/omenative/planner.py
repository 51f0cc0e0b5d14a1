"""`plan`: one frozen observation in, one decided pass out (`spec/omenative.md` section 6, the order of passes).

Pure: nothing here awaits, reads a clock or draws a random number. The controller observes, calls this, and has the
executor
carry the plan out; a refusal of the API server comes back as part of the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ome.api.types.inference_replica import InferenceReplicaStatus

from . import create, failures, force, gangs, mailboxes, names, repair, retry, revisions, scale, services, update
from .actions import WARNING, AddFinalizer, DeleteRevision, Notice, Plan
from .observe import Snapshot
from .report import report
from .settings import Settings
from .work import Work


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
        block_notices=tuple(work.block_notices),
        notices=tuple(work.notices),
        actions=tuple(work.actions),
        wake=work.wake_at,
        again=again,
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
