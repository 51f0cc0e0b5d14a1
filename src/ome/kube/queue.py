"""A queue of keys: each waits at most once, none is worked on twice at a time, delays and backoff included."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

BACKOFF_FIRST = 0.25  # seconds after the first failure of a key
BACKOFF_LAST = 60.0


class WorkQueue(Generic[K]):
    """Keys to work on. A key added while it is being worked on comes back when that work is `done`."""

    def __init__(self, *, first: float = BACKOFF_FIRST, last: float = BACKOFF_LAST, rest: float = 0.0) -> None:
        """`first` and `last` bound the delay, in seconds, of `add_rate_limited`, which doubles with each failure.

        A key is worked on no sooner than `rest` seconds after its last work: changes come in swarms, our own writes
        among them, and one look at the end of a swarm sees them all.
        """
        self._first = first
        self._last = last
        self._rest = rest
        self._resting: set[K] = set()
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Keys that are ready and not yet worked on."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready, nothing is being worked on, and nothing comes back after its rest.

        Delayed keys do not count.
        """
        return not self._ready and not self._working and not self._again

    def add(self, key: K) -> None:
        """Make a key ready now. An earlier delay of it is forgotten."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._working or key in self._resting:
            self._again.add(key)
            return
        if key in self._waiting:
            return
        self._waiting.add(key)
        self._ready.append(key)
        while self._wake:
            waiter = self._wake.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break

    def add_after(self, key: K, seconds: float) -> None:
        """Make a key ready after a delay; of several delays the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        known = self._timers.get(key)
        if known is not None:
            if known.when() <= due:
                return
            known.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def add_rate_limited(self, key: K) -> float:
        """Make a key ready after its own backoff, and return that delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._last, self._first * 2.0 ** min(failures, 40))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts the backoff anew."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; it counts as being worked on until `done`."""
        while not self._ready:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wake.append(waiter)
            await waiter
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """The work on a key ended; if it was added meanwhile, it is ready again, after its rest."""
        self._working.discard(key)
        if self._rest:
            self._resting.add(key)
            asyncio.get_running_loop().call_later(self._rest, self._rested, key)
        else:
            self._rested(key)

    def _rested(self, key: K) -> None:
        self._resting.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
