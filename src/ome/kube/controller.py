"""The loop every controller runs in: changes become keys, a key becomes one pass, a pass ends in an Outcome.

Not a framework for deciding: what a pass does is the room's own observe, decide, act, report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ome.kube.cache import Cache, Caches, Change, Key
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import Disposition, KubeError
from ome.kube.events import EventRecorder
from ome.kube.queue import WorkQueue

T = TypeVar("T")
log = logging.getLogger("ome.kube.controller")


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing left to do until something changes."""


@dataclass(frozen=True, slots=True)
class After:
    """Look again after this many seconds, even if nothing changes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Retry:
    """The pass failed; look again with backoff."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Terminal:
    """The pass failed for a reason that only a change of the object can mend."""

    error: BaseException


Outcome = Done | After | Retry | Terminal


class ControllerMetrics(Protocol):
    """What the manager's metrics want to know."""

    def declared(self, controller: str, workers: int, depth: Callable[[], int]) -> None: ...

    def started(self, controller: str) -> None: ...

    def finished(self, controller: str, result: str, seconds: float) -> None: ...


class NoMetrics:
    """Counts nothing."""

    def declared(self, controller: str, workers: int, depth: Callable[[], int]) -> None: ...

    def started(self, controller: str) -> None: ...

    def finished(self, controller: str, result: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """A cache whose changes concern a controller, and the keys that each change concerns."""

    cache: Cache[T]
    keys: Callable[[Change[T]], Iterable[Key]]


@dataclass(frozen=True)
class Environment:
    """What a room's `build(environment)` gets: everything outside itself."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    clock: Clock
    namespace: str  # OME's own
    config: Callable[[], Awaitable[Any]]  # ome.api.config.OperatorConfig, cached for its TTL
    flags: Any = None  # the manager's parsed flags, or a stand-in with the attributes a room reads
    metrics: ControllerMetrics = field(default_factory=NoMetrics)
    username: str = ""  # whom the API server takes this process for
    served: frozenset[str] = frozenset()  # optional resources served at start, as group_resource


class Controller:
    """Workers over one queue. `run` ends only by cancellation; one bad key never stops the others."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[Key], Awaitable[Outcome]],
        watches: Sequence[Watch[Any]],
        *,
        clock: Clock,
        workers: int = 1,
        resync: float | None = None,
        rest: float = 0.0,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`resync` runs every key of the first watch again after that many seconds; `rest` is the least time between
        two passes over a key that changes keep bringing back.
        """
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(rest=rest)
        self._reconcile = reconcile
        self._watches = watches
        self._clock = clock
        self._workers = workers
        self._resync = resync
        self._metrics = metrics or NoMetrics()
        self._metrics.declared(name, workers, lambda: len(self.queue))

    @property
    def idle(self) -> bool:
        """Whether no key is ready or being worked on."""
        return self.queue.idle

    async def run(self) -> None:
        """Wait for the caches' first lists, then work until cancelled."""
        for watch in self._watches:
            await watch.cache.wait_synced()
        for watch in self._watches:
            watch.cache.subscribe(self._handler(watch))
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} worker {number}")
            if self._resync:
                group.create_task(self._resyncing(self._resync), name=f"{self.name} resync")

    def _handler(self, watch: Watch[Any]) -> Callable[[Change[Any]], None]:
        def handle(change: Change[Any]) -> None:
            for key in watch.keys(change):
                self.queue.add(key)

        return handle

    async def _resyncing(self, seconds: float) -> None:
        watch = self._watches[0]
        while True:
            await asyncio.sleep(seconds)
            for obj in watch.cache.list():
                for key in watch.keys(Change(obj, obj)):
                    self.queue.add(key)

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._pass(key)
            finally:
                self.queue.done(key)

    async def _pass(self, key: Key) -> None:
        self._metrics.started(self.name)
        began = self._clock.monotonic()
        result = "error"
        try:
            outcome = await self._outcome(key)
            result = self._settle(key, outcome)
        finally:
            self._metrics.finished(self.name, result, self._clock.monotonic() - began)

    async def _outcome(self, key: Key) -> Outcome:
        try:
            return await self._reconcile(key)
        except KubeError as error:
            return Retry(error)
        except Exception as error:
            log.exception("%s: pass over %s/%s failed unexpectedly", self.name, *key)
            return Retry(error)

    def _settle(self, key: Key, outcome: Outcome) -> str:
        match outcome:
            case Done():
                self.queue.forget(key)
                return "success"
            case After(seconds):
                self.queue.forget(key)
                self.queue.add_after(key, seconds)
                return "requeue_after"
            case Terminal(error):
                self.queue.forget(key)
                log.error("%s: %s/%s: %s", self.name, *key, error)
                return "error"
            case Retry(error):
                delay = self.queue.add_rate_limited(key)
                conflict = isinstance(error, KubeError) and error.disposition is Disposition.CONFLICT
                level = logging.DEBUG if conflict else logging.WARNING
                log.log(level, "%s: %s/%s, again in %.2f s: %s", self.name, *key, delay, error)
                return "requeue" if conflict else "error"
