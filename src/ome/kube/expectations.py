"""What our own writes should make the caches show. A pass waits for them before it acts on the caches again.

Never for ever: after the deadline the caller reads live, and a counter says that it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from ome.kube.clock import Clock

TIMEOUT = 30.0


@dataclass(slots=True)
class _Expected:
    created: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    since: float = 0.0


class Expectations:
    """Creations (by name) and deletions (by uid) that the caches of an owner have still to show."""

    def __init__(self, clock: Clock, *, timeout: float = TIMEOUT) -> None:
        self._clock = clock
        self._timeout = timeout
        self._expected: dict[Hashable, _Expected] = {}
        self.overdue = 0  # how often a deadline passed; exported as a metric

    def expect_creation(self, owner: Hashable, name: str) -> None:
        """A create of `name` was sent; call `failed` if it is known not to have happened."""
        self._entry(owner).created.add(name)

    def expect_deletion(self, owner: Hashable, uid: str) -> None:
        """A delete of the object with this uid was sent."""
        self._entry(owner).deleted.add(uid)

    def observe_creation(self, owner: Hashable, name: str) -> None:
        """The cache shows the object."""
        self._settle(owner, lambda entry: entry.created.discard(name))

    def observe_deletion(self, owner: Hashable, uid: str) -> None:
        """The cache shows the object gone, or going (a deletionTimestamp)."""
        self._settle(owner, lambda entry: entry.deleted.discard(uid))

    def failed(self, owner: Hashable, *, name: str = "", uid: str = "") -> None:
        """The write certainly did not happen."""
        self.observe_creation(owner, name)
        self.observe_deletion(owner, uid)

    def satisfied(self, owner: Hashable) -> bool:
        """Whether the caches show all of the owner's writes. False at most until the deadline."""
        entry = self._expected.get(owner)
        return entry is None

    def expired(self, owner: Hashable) -> bool:
        """Whether the deadline has passed: the expectation is dropped, and the caller must read live."""
        entry = self._expected.get(owner)
        if entry is None or self._clock.monotonic() - entry.since < self._timeout:
            return False
        del self._expected[owner]
        self.overdue += 1
        return True

    def seconds_left(self, owner: Hashable) -> float:
        """Until the deadline; 0 when nothing is expected."""
        entry = self._expected.get(owner)
        return 0.0 if entry is None else max(0.0, self._timeout - (self._clock.monotonic() - entry.since))

    def forget(self, owner: Hashable) -> None:
        """The owner is gone."""
        self._expected.pop(owner, None)

    def _entry(self, owner: Hashable) -> _Expected:
        entry = self._expected.setdefault(owner, _Expected())
        entry.since = self._clock.monotonic()
        return entry

    def _settle(self, owner: Hashable, change: Callable[[_Expected], None]) -> None:
        entry = self._expected.get(owner)
        if entry is None:
            return
        change(entry)
        if not entry.created and not entry.deleted:
            del self._expected[owner]
