"""`RecreatePod` updates and restarts: drain the old incarnation, delete it, create the next one under the same names.

`spec/omenative.md` sections 8.3 and 9. Both share one shape: an incarnation that rises by one, and step `Drain`. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus

from .bringup import any_refused, may_create, recycle, run_clock, serve, watch_for_failure
from .work import Work


def start_recreate(work: Work, row: InstanceStatus, strategy: str) -> None:
    """Open a recreate update toward the work's target."""
    change = f"revision {row.running_revision} -> {work.target}"
    row = replace(row, incarnation=row.incarnation + 1)
    row = work.open(row, "Update", "Drain", work.target, phase="Updating", strategy=strategy, reason=change)
    work.normal(row, "RecreateUpdateStarted", f"recreate ({change}, incarnation={row.incarnation})")
    advance(work, row)


def start_restart(work: Work, row: InstanceStatus, trigger: str) -> None:
    """Open a restart on the revision the Instance runs."""
    row = replace(row, incarnation=row.incarnation + 1)
    row = work.open(row, "Restart", "Drain", row.running_revision, phase="Restarting", reason=trigger)
    work.warning(row, "RestartTriggered", f"restart triggered: {trigger} (incarnation={row.incarnation})")
    advance(work, row)


def advance(work: Work, row: InstanceStatus) -> None:
    """Go on: old incarnation out, new one in."""
    operation = row.operation
    assert operation is not None
    members = work.pods(row.index)
    orphan = next((member for member in members if member.live and member.incarnation is None), None)
    if orphan is not None:
        if (told := work.once(row, "FoundOrphan")) is not None:
            namespace = work.replica.metadata.namespace
            refusing = "recreate-update" if operation.type == "Update" else "restart"
            work.warning(
                told,
                "FoundOrphan",
                f"found orphan pod {namespace}/{orphan.name} without ome.io/instance-incarnation; refusing to "
                f"{refusing}",
            )
        return
    old = [member for member in members if (member.incarnation or 0) < row.incarnation]
    new = [member for member in members if member.live and (member.incarnation or 0) >= row.incarnation]
    row = run_clock(work, row, new)
    if old:
        _drain(work, row)
        return
    if recycle(work, row, new):
        return
    if any_refused(work, row):
        return
    if serve(work, new):
        _complete(work, row)
        return
    if len(new) < work.per_instance and may_create(work, row):
        work.create_missing(row, operation.target_revision)
    watch_for_failure(work, work.rows[row.index], new)


def _drain(work: Work, row: InstanceStatus) -> None:
    operation = row.operation
    assert operation is not None
    old = [m for m in work.pods(row.index) if m.live and (m.incarnation or 0) < row.incarnation]
    for member in old:
        work.close_gate(member, operation.type)
    if all(work.drained(member) for member in old):
        for member in old:
            work.delete(member)


def _complete(work: Work, row: InstanceStatus) -> None:
    operation = row.operation
    assert operation is not None
    target = operation.target_revision
    row = work.ready(row, target)
    if operation.type == "Update":
        work.normal(row, "RecreateUpdateCompleted", f"recreate to revision {target} complete")
    else:
        work.normal(row, "RestartCompleted", f"restart complete (incarnation={row.incarnation})")
