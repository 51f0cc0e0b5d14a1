"""Force-deleting pods that can no longer end by themselves because their node is dead (`spec/omenative.md` section 11).
Pure.
"""

from __future__ import annotations

from datetime import timedelta

from ome.api.core import Node
from ome.api.duration import format_duration
from ome.api.meta import find_condition

from .actions import WARNING, DeletePod, Notice
from .observe import Member
from .work import Work

_UNREACHABLE = "node.kubernetes.io/unreachable"


def force_delete(work: Work) -> None:
    """Look at every Terminating pod; both settings must be set. Not during a restart."""
    limits = work.settings.force_delete
    if limits is None:
        return
    for index, members in sorted(work.members.items()):
        row = work.rows.get(index)
        if row is not None and row.operation is not None and row.operation.type == "Restart":
            continue
        for member in members:
            gone_at = member.pod.metadata.deletion_timestamp
            if gone_at is None:
                continue
            if gone_at + limits.overdue_slack > work.now:
                work.wake(gone_at + limits.overdue_slack)
                continue
            _look(work, index, member, work.now - gone_at, limits.unreachable_threshold)


def _look(work: Work, index: int, member: Member, past: timedelta, threshold: timedelta) -> None:
    about = f"OMENative component={work.replica.spec.component} instance={index}: "
    late = format_duration(timedelta(seconds=int(past.total_seconds())))
    row = work.rows.get(index)
    pinned = member.pod.metadata.finalizers
    if pinned:
        if row is not None and work.once(row, f"PodDeleteBlockedByFinalizer/{member.name}") is not None:
            text = (
                f"{about}pod {member.name} is {late} past its own deletion deadline but pinned by finalizers "
                f"[{', '.join(pinned)}]; OME never strips another controller's finalizer — the finalizer owner must "
                f"resolve it"
            )
            work.notices.append(Notice(WARNING, "PodDeleteBlockedByFinalizer", text))
        return
    proof = _dead(work, member, threshold)
    if not proof:
        return
    work.actions.append(DeletePod(member.name, member.uid, force=True))
    work.notices.append(
        Notice(
            WARNING,
            "PodForceDeleted",
            f"{about}force-deleted stuck-Terminating pod {member.name} on node {member.node} (evidence={proof}, "
            f"{late} past "
            "the pod's own deletion deadline)",
        )
    )


def _dead(work: Work, member: Member, threshold: timedelta) -> str:
    """Evidence that the pod's node is dead, or nothing. A node that says Ready never is."""
    if not member.node:
        return ""
    node: Node | None = work.snapshot.nodes.get(member.node)
    if node is None:
        return "node-gone"
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.true or ready.last_transition_time is None:
        return ""
    if ready.last_transition_time + threshold > work.now:
        work.wake(ready.last_transition_time + threshold)
        return ""
    tainted = any(taint.key == _UNREACHABLE for taint in node.spec.taints)
    return "node-unreachable-taint" if tainted else "node-not-ready"
