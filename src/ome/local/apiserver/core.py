"""What every verb works with: store, registry, clock, randomness, and the three kinds of commit.

A commit takes an object as a dict in its storage version, serialises it once and makes it visible; `settled()` waits
until it is durable. Nothing here validates.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final

from ome.kube.clock import Clock
from ome.local.apiserver.encoding import encode, make_record
from ome.local.apiserver.registry import Registry, ResourceType
from ome.local.apiserver.store import Event, Record, Store

NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


AfterCommit = Callable[[str, Event], None]


def timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Core:
    """The server's state and its sources of time and chance."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: random.Random,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self.chance = chance
        self._settle = settle
        self._after: list[AfterCommit] = []

    def after_commit(self, hook: AfterCommit) -> None:
        """`hook(resource, event)` runs when a commit is complete; it may commit itself."""
        self._after.append(hook)

    def _committed(self, resource: str, event: Event) -> None:
        for hook in self._after:
            hook(resource, event)

    def now(self) -> str:
        """The current second as objects show it."""
        return timestamp(self.clock.now())

    def later(self, seconds: float) -> str:
        return timestamp(self.clock.now() + timedelta(seconds=seconds))

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Five letters for a generated name."""
        return "".join(self.chance.choice(NAME_LETTERS) for _ in range(5))

    async def settled(self) -> None:
        """Wait until everything committed so far survives the end of the process."""
        if self._settle is not None:
            await self._settle()

    def get(self, type_: ResourceType, namespace: str, name: str) -> Record | None:
        return self.store.collection(type_.storage).get(namespace, name)

    def read(self, storage: str, namespace: str, name: str) -> dict[str, Any] | None:
        """A stored object by its collection's name, as a fresh dict."""
        record = self.store.collection(storage).get(namespace, name)
        return record.parse() if record is not None else None

    def stamp(self, obj: dict[str, Any]) -> None:
        """Give a new object what only the server gives: uid and creation time, nothing of deletion."""
        metadata = obj["metadata"]
        for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            metadata.pop(name, None)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = self.now()

    def create(self, type_: ResourceType, obj: dict[str, Any]) -> Record:
        record = make_record(type_, obj, self.store.next_revision())
        self._committed(type_.storage, self.store.create(type_.storage, record))
        return record

    def update(self, type_: ResourceType, obj: dict[str, Any], previous: Record) -> Record:
        """Commit a change; an object equal to the stored one stays as it is, version and all."""
        obj["metadata"]["resourceVersion"] = str(previous.rv)
        body = encode(obj, type_.storage_api_version, type_.kind, custom=type_.custom is not None)
        # Equal objects are equal in every byte, or, with keys in another order, in length.
        if body == previous.body or (len(body) == len(previous.body) and obj == previous.parse()):
            return previous
        record = make_record(type_, obj, self.store.next_revision())
        self._committed(type_.storage, self.store.update(type_.storage, record, previous))
        return record

    def delete(self, type_: ResourceType, previous: Record, obj: dict[str, Any] | None = None) -> Event:
        """Remove an object; `obj` is its last content when that differs from what is stored."""
        last = obj if obj is not None else previous.parse()
        record = make_record(type_, last, self.store.next_revision())
        event = self.store.delete(type_.storage, record, previous)
        self._committed(type_.storage, event)
        return event
