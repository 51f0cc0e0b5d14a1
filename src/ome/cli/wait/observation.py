"""What one look at a service showed: the common half of every predicate's report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

UNMET = "PredicateUnmet"
UNAVAILABLE = "<unavailable>"


class Observation(NamedTuple):
    """`values` are the predicate's own findings by name; which rows and keys they become is the predicate's
    business.
    """

    matched: bool
    reason: str
    evidence: str
    values: Mapping[str, Any]


class Counts(NamedTuple):
    gets: int = 0
    watches: int = 0
    polls: int = 0
    events: int = 0
    observations: int = 0


class Ended(NamedTuple):
    """A finished wait."""

    namespace: str
    name: str
    outcome: str
    last: Observation
    counts: Counts
    source_method: str
    polling_fallback: bool
    elapsed_milliseconds: int

    @property
    def reads(self) -> str:
        return f"{self.counts.gets} / {self.counts.watches} / {self.counts.polls}"

    @property
    def looks(self) -> str:
        return f"{self.counts.events} / {self.counts.observations}"

    @property
    def fallback(self) -> str:
        return str(self.polling_fallback).lower()


class Snapshot(NamedTuple):
    """One look: the service, and its InferenceReplicas when the predicate reads them (`truncated`: more than were
    read).
    """

    service: Mapping[str, Any]
    replicas: Sequence[Mapping[str, Any]] = ()
    truncated: bool = False


class Predicate(Protocol):
    """One thing to wait for. It may remember what it is bound to; it reads nothing itself."""

    requested: str
    watches: bool
    reads_replicas: bool

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation: ...

    def absent(self) -> Observation:
        """What is known of a service that is missing, deleted or replaced."""
        ...

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]: ...

    def content(self, ended: Ended) -> dict[str, Any]:
        """The predicate's own keys of the report's content."""
        ...


def interpretation(ended: Ended, matched: str, never: str) -> str:
    """The Interpretation row: exact at a match, a last look at the timeout, nothing otherwise."""
    if ended.outcome == "Matched":
        return matched
    if ended.outcome == "TimedOut" and ended.last.values.get("validity") == "Valid":
        return "Last observation; currentness unverified"
    return never
