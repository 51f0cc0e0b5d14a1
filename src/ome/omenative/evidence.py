"""Why an attempt failed: what pods say, classed and put in order (`spec/omenative.md` section 6.5, `spec/retry-
blocks.md` 4).

Not what follows from it (`failures.py`). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from . import names
from .observe import Member

INVALID_POD_SPEC: Final = "InvalidPodSpec"
UNSCHEDULABLE: Final = "Unschedulable"
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
POD_GROUP_OWNED: Final = "PodGroupOwnershipConflict"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
POD_FAILED: Final = "PodFailed"

_PULL_OR_CONFIG: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"}
)
REVISION_CAUSED: Final = _PULL_OR_CONFIG | {INVALID_POD_SPEC}
STUCK: Final = _PULL_OR_CONFIG | {"CrashLoopBackOff", "CreateContainerError", "RunContainerError"}
_ENVIRONMENT: Final = frozenset({UNSCHEDULABLE, NAMESPACE_TERMINATING, POD_GROUP_OWNED})


class Blame(StrEnum):
    """Whom a failure counts against."""

    REVISION = "revision"
    NOBODY = "nobody"
    ENVIRONMENT = "environment"


def blame(reason: str) -> Blame:
    """The class of a failure reason."""
    if reason in REVISION_CAUSED:
        return Blame.REVISION
    return Blame.ENVIRONMENT if reason in _ENVIRONMENT else Blame.NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason, and the pod and container that show it."""

    reason: str
    pod: str = ""
    container: str = ""
    exit_code: int = 0
    message: str = ""


def waiting(members: Sequence[Member], reasons: frozenset[str]) -> Evidence | None:
    """The first live pod's first container (init containers last) that waits in one of these reasons."""
    for member in members:
        if not member.live:
            continue
        for status in member.statuses():
            state = status.state.waiting
            if state is not None and state.reason in reasons:
                ended = status.last_state.terminated
                return Evidence(
                    reason=state.reason,
                    pod=member.name,
                    container=status.name,
                    exit_code=ended.exit_code if ended is not None else 0,
                    message=state.message,
                )
    return None


def stuck(
    members: Sequence[Member], grace: timedelta | None, now: datetime, since: datetime | None = None
) -> Evidence | None:
    """A pod that waits in a stuck reason past the grace, revision-caused ones first. No grace: no fast failure.

    The age runs from the pod's creation, or from `since` when that is later: a pod changed in place is as old as its
    change.
    """
    if grace is None:
        return None
    old = [member for member in members if (age_start(member, since) or now) + grace <= now]
    return waiting(old, _PULL_OR_CONFIG) or waiting(old, STUCK)


def stuck_at(members: Sequence[Member], grace: timedelta | None, since: datetime | None = None) -> datetime | None:
    """When the grace of the pods that wait in a stuck reason ends, the earliest."""
    if grace is None:
        return None
    ends = [
        start + grace
        for member in members
        if waiting([member], STUCK) is not None and (start := age_start(member, since)) is not None
    ]
    return min(ends, default=None)


def age_start(member: Member, since: datetime | None) -> datetime | None:
    created = member.created
    if created is None or since is None:
        return created
    return max(created, since)


def at_deadline(members: Sequence[Member]) -> Evidence:
    """Best evidence for a missed deadline."""
    seen = waiting(members, _PULL_OR_CONFIG) or waiting(members, STUCK)
    if seen is not None:
        return seen
    for member in members:
        if member.live and not member.containers_ready and _runs(member):
            return Evidence(reason="ContainersNotReady", pod=member.name)
    for member in members:
        if member.containers_ready and not member.ready:
            return Evidence(reason="ReadinessGateNotSatisfied", pod=member.name)
    first = next((member.name for member in members if member.live), "")
    return Evidence(reason=DEADLINE_EXCEEDED, pod=first)


def _runs(member: Member) -> bool:
    return any(status.state.running is not None for status in member.pod.status.container_statuses)


def unschedulable(members: Sequence[Member], grace: timedelta | None, now: datetime) -> Evidence | None:
    """A pod that found no node for longer than the grace; without a grace it waits for ever."""
    if grace is None:
        return None
    for member in members:
        since = member.unschedulable_since
        if member.live and since is not None and since + grace <= now:
            condition = member.pod.condition("PodScheduled")
            return Evidence(
                reason=UNSCHEDULABLE, pod=member.name, message=condition.message if condition is not None else ""
            )
    return None


def unschedulable_at(members: Sequence[Member], grace: timedelta | None) -> datetime | None:
    """When the grace of an unschedulable pod ends."""
    if grace is None:
        return None
    return min(
        (since + grace for m in members if m.live and (since := m.unschedulable_since) is not None), default=None
    )


def terminated(member: Member) -> Evidence:
    """What ended a pod in phase Failed or Succeeded."""
    for status in member.statuses():
        ended = status.state.terminated
        if ended is not None and ended.exit_code != 0:
            return Evidence(
                reason=ended.reason or POD_FAILED,
                pod=member.name,
                container=status.name,
                exit_code=ended.exit_code,
                message=ended.message,
            )
    return Evidence(reason=member.pod.status.reason or POD_FAILED, pod=member.name, message=member.pod.status.message)


def restarted(member: Member, ready_since: datetime | None) -> Evidence | None:
    """The main container ended after the Instance was Ready; sidecars and init containers do not count."""
    if not member.live or ready_since is None:
        return None
    for status in member.pod.status.container_statuses:
        ended = status.last_state.terminated or status.state.terminated
        if status.name != names.MAIN_CONTAINER or ended is None or ended.finished_at is None:
            continue
        if ended.finished_at > ready_since:
            return Evidence(
                reason=ended.reason or "Error",
                pod=member.name,
                container=status.name,
                exit_code=ended.exit_code,
                message=ended.message,
            )
    return None
