"""Which indices exist: adoption, scale-up, scale-down, deletion of Instances, teardown (`spec/omenative.md` section
11). Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ome.api.duration import format_duration
from ome.api.meta import timestamp
from ome.api.types.inference_replica import InstanceStatus

from . import force, gangs, names
from .actions import WARNING, Notice, RemoveFinalizer
from .work import Work

HOLD = "Delete"
TEARDOWN_PATIENCE = timedelta(seconds=30)
"""How long a teardown may take before a Warning says what it waits for."""


def adopt(work: Work) -> None:
    """Give a row to every pod of ours that has none: a status that was lost must not make a second set of pods."""
    for index, members in sorted(work.members.items()):
        live = [member for member in members if member.live]
        if index in work.rows or not live:
            continue
        best = min(live, key=lambda member: (not member.serving, not member.ready, member.name))
        runs = names.revision_name(work.base, best.digest) if best.digest else ""
        known = runs if work.recorded(runs) else ""
        work.put(
            InstanceStatus(
                index=index,
                incarnation=max(1, best.incarnation or 1),
                phase="Ready" if best.ready and known else "Failed",
                running_revision=known if best.ready else "",
                target_revision=known or work.target,
                active_ordinal=best.ordinal if best.ordinal in (0, 1) else 0,
                ready_since=work.stamp if best.ready and known else None,
            )
        )


def plan_indices(work: Work) -> None:
    """Open new rows at the lowest free indices, or start deleting the rows that are too many."""
    made = work.replacements()
    kept = [row for row in work.ordered() if row.phase != "Deleting" and row.index not in made]
    if len(kept) > work.size:
        order = sorted(
            kept, key=lambda row: (not _surging(row), row.phase != "Ready", not _serves(work, row), row.index)
        )
        for row in order[work.size :]:
            delete(work, row)
        return
    if work.paused or not work.target:
        return
    free = (index for index in range(len(work.rows) + work.size) if index not in work.rows)
    for _ in range(work.size - len(kept)):
        work.put(InstanceStatus(index=next(free), incarnation=1, phase="Creating", target_revision=work.target))


def _surging(row: InstanceStatus) -> bool:
    """The source of a gang surge: it and its replacement are kept first."""
    return row.operation is not None and row.operation.surge_index is not None


def _serves(work: Work, row: InstanceStatus) -> bool:
    """Whether the Instance serves whatever its phase: a failed surge leaves it `Failed` with its old pod in rotation,
    and a new Instance that never ran must not be kept in its place.
    """
    return sum(member.serving for member in work.pods(row.index)) >= work.per_instance


def delete(work: Work, row: InstanceStatus) -> None:
    """Open the row's `Delete` operation; the replacement of a gang surge goes with its source."""
    surge_index = row.operation.surge_index if row.operation is not None else None
    if surge_index is not None and surge_index in work.rows:
        work.open(work.rows[surge_index], "Delete", "Drain", "", phase="Deleting")
    work.open(row, "Delete", "Drain", "", phase="Deleting")


def advance_deletes(work: Work) -> None:
    """Drain and delete the pods of rows that go; a row ends with its last pod."""
    for row in work.ordered():
        if row.phase != "Deleting":
            continue
        if row.operation is None:
            delete(work, row)
        members = work.pods(row.index)
        if not members:
            if gangs.gone(work, row.index):
                work.drop(row.index)
            continue
        live = [member for member in members if member.live]
        for member in live:
            work.close_gate(member, HOLD)
            if work.drained(member):
                work.delete(member)
        _overdue(work, work.rows[row.index])


def _overdue(work: Work, row: InstanceStatus) -> None:
    operation = row.operation
    deadline = operation.deadline if operation is not None else None
    if deadline is None:
        return
    if deadline > work.now:
        work.wake(deadline)
        return
    told = work.once(row, "DrainOverdue")
    if told is None:
        return
    going = [member.name for member in work.pods(row.index) if not member.live]
    late = format_duration(work.stamp - deadline)
    work.notices.append(
        Notice(
            WARNING,
            "DrainOverdue",
            f"OMENative component={work.replica.spec.component} instance={row.index}: drain overdue by {late} "
            f"(deadline "
            f"{timestamp(deadline)}); {len(going)} pod(s) still Terminating ({', '.join(going)})",
        )
    )


def teardown(work: Work) -> None:
    """The replica is being deleted: every Instance goes, then the finalizer. With `--cascade=orphan` the pods stay."""
    if names.ORPHAN_FINALIZER in work.replica.metadata.finalizers:
        if names.FINALIZER in work.replica.metadata.finalizers:
            work.actions.append(RemoveFinalizer())
        return
    for row in work.ordered():
        if row.phase != "Deleting":
            delete(work, row)
    for index in sorted(set(work.members) - set(work.rows)):
        work.put(InstanceStatus(index=index, incarnation=1))
        delete(work, work.rows[index])
    advance_deletes(work)
    gangs.sweep(work)
    force.force_delete(work)
    if names.FINALIZER not in work.replica.metadata.finalizers:
        return
    left = len(work.snapshot.pods)
    if left == 0 and not work.groups:
        work.actions.append(RemoveFinalizer())
        return
    _watch_deadline(work, left)


def _watch_deadline(work: Work, left: int) -> None:
    since = work.replica.metadata.deletion_timestamp
    assert since is not None
    allowed = work.settings.teardown_deadline
    if allowed is not None:
        if since + allowed > work.now:
            work.wake(since + allowed)
            return
        work.notices.append(
            Notice(
                WARNING,
                "TeardownDeadlineExceeded",
                f"teardown deadline {format_duration(allowed)} exceeded ({left} owned pod(s) observed; "
                f"{_selector(work)}); "
                f"releasing finalizer {names.FINALIZER} to background GC; {_escape(work)}",
                on_replica=True,
            )
        )
        work.actions.append(RemoveFinalizer())
        return
    _tell_blocked(work, left, since)


def _tell_blocked(work: Work, left: int, since: datetime) -> None:
    if since + TEARDOWN_PATIENCE > work.now:
        work.wake(since + TEARDOWN_PATIENCE)
        return
    first = next(iter(work.ordered()), None)
    if first is None or work.once(first, "TeardownBlocked") is None:
        return
    invalid = work.settings.teardown_deadline_invalid
    why = (
        "lifecycle.teardown.deadline configured but invalid" if invalid else "no lifecycle.teardown.deadline configured"
    )
    work.notices.append(
        Notice(
            WARNING,
            "TeardownBlocked",
            f"teardown blocked: {left} owned pod(s) and {len(work.groups)} owned PodGroup(s) remain "
            f"({_selector(work)}); finalizer {names.FINALIZER} holds until cleanup completes ({why}); {_escape(work)}",
            on_replica=True,
        )
    )


def _selector(work: Work) -> str:
    return f'selector: parent="{names.service_of(work.replica)}", component="{work.replica.spec.component}"'


def _escape(work: Work) -> str:
    meta = work.replica.metadata
    return (
        f"manual escape: kubectl patch inferencereplica {meta.name} -n {meta.namespace} --type=merge -p "
        '\'{"metadata":{"finalizers":null}}\''
    )
