"""Which runtime revisions go, which are marked, which are unmarked (`spec/runtime-revisions.md section 8`).

Pure; the controller that runs it is `ome.runtimes.revision_collector`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ome.api import keys
from ome.api.meta import parse_timestamp, timestamp
from ome.runtimes.revisions import StoredRevision

_OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Mark:
    """Set `ome.io/gc-eligible-since`: the grace period starts."""

    revision: StoredRevision
    since: str


@dataclass(frozen=True, slots=True)
class Unmark:
    """Remove the mark: the clock restarts if it becomes eligible again."""

    revision: StoredRevision


@dataclass(frozen=True, slots=True)
class Delete:
    revision: StoredRevision


Action = Mark | Unmark | Delete


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """`actions` in a stable order; `next_due`: when the first waiting grace period ends, None = nothing waits."""

    actions: tuple[Action, ...]
    next_due: datetime | None = None


def plan_collection(
    revisions: Iterable[StoredRevision],
    referenced: Collection[str],
    *,
    retention: int,
    grace: timedelta,
    now: datetime,
) -> CollectionPlan:
    """One pass over the world. `referenced`: every name in `spec.runtime.revision` and `status.pinnedRevisionName`.

    Groups by runtime name only: namesakes of other namespaces and scopes share one quota, and referenced ones count
    in it."""
    groups: defaultdict[str, list[StoredRevision]] = defaultdict(list)
    for revision in sorted(revisions, key=lambda revision: revision.name):
        if revision.made_by_ome:
            groups[revision.runtime].append(revision)
    actions: list[Action] = []
    due: list[datetime] = []
    for _, group in sorted(groups.items()):
        newest_first = sorted(group, key=lambda revision: revision.created or _OLDEST, reverse=True)
        for position, revision in enumerate(newest_first):
            since = _marked_since(revision)
            if position < retention or revision.name in referenced:
                if keys.GC_ELIGIBLE_SINCE in revision.annotations:
                    actions.append(Unmark(revision))
            elif since is None:
                actions.append(Mark(revision, timestamp(now)))
                due.append(now + grace)
            elif now - since >= grace:
                actions.append(Delete(revision))
            else:
                due.append(since + grace)
    return CollectionPlan(tuple(actions), min(due, default=None))


def _marked_since(revision: StoredRevision) -> datetime | None:
    """None when unmarked or unparsable: both get a fresh mark."""
    text = revision.annotations.get(keys.GC_ELIGIBLE_SINCE)
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except ValueError:
        return None
