"""Deletions of our own that the caches have still to show. A pass waits for them before it acts on the caches again.

Never for ever: after the deadline the owner goes on with what the caches show. That is safe, for its writes carry uids
and versions; only work is lost. What is created needs no waiting: caches take in the answer of the create.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ome.kube.clock import Clock

TIMEOUT = 30.0


@dataclass(slots=True)
class _Expected:
    uids: set[str] = field(default_factory=set)
    since: float = 0.0


class Expectations:
    """The uids that each owner has deleted and its caches still hold."""

    def __init__(self, clock: Clock, *, timeout: float = TIMEOUT) -> None:
        """`timeout` in seconds, from an owner's last deletion."""
        self._clock = clock
        self._timeout = timeout
        self._expected: dict[Hashable, _Expected] = {}

    def expect_deletion(self, owner: Hashable, uid: str) -> None:
        """A delete of the object with this uid was sent."""
        entry = self._expected.setdefault(owner, _Expected())
        entry.uids.add(uid)
        entry.since = self._clock.monotonic()

    def observe_deletion(self, owner: Hashable, uid: str) -> None:
        """The cache shows the object gone, or going (a deletionTimestamp); or the delete certainly did not happen."""
        entry = self._expected.get(owner)
        if entry is None:
            return
        entry.uids.discard(uid)
        if not entry.uids:
            del self._expected[owner]

    def satisfied(self, owner: Hashable) -> bool:
        """Whether the caches show all of the owner's deletions. False at most until the deadline."""
        return owner not in self._expected

    def expired(self, owner: Hashable) -> bool:
        """Whether the deadline has passed; what was expected is then dropped."""
        if owner not in self._expected or self.seconds_left(owner) > 0:
            return False
        self.forget(owner)
        return True

    def seconds_left(self, owner: Hashable) -> float:
        """Until the deadline; 0 when nothing is expected."""
        entry = self._expected.get(owner)
        return 0.0 if entry is None else max(0.0, self._timeout - (self._clock.monotonic() - entry.since))

    def forget(self, owner: Hashable) -> None:
        """Expect nothing of the owner any more."""
        self._expected.pop(owner, None)
