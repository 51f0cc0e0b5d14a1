"""Events do not last: each is removed an hour after it was last written, as etcd's leases do on a real server.

Hears every commit; one task removes what is due. Only for the resource `events`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Event, EventType, Record, Store

EVENTS: Final = "events"
HOUR: Final = 3600.0
Remove = Callable[[ResourceType, Record, str], None]


class EventExpiry:
    """Removes events `ttl` seconds after their last change."""

    def __init__(self, store: Store, type_: ResourceType, remove: Remove, ttl: float) -> None:
        self._store = store
        self._type = type_
        self._remove = remove
        self._ttl = ttl
        self._due: deque[tuple[float, str, str, int]] = deque()
        self._written = asyncio.Event()

    def hear(self, resource: str, event: Event) -> None:
        if resource == EVENTS and event.type is not EventType.DELETED:
            self._note(event.record)

    def _note(self, record: Record) -> None:
        due = asyncio.get_running_loop().time() + self._ttl
        self._due.append((due, record.namespace, record.name, record.rv))
        self._written.set()

    def survey(self) -> None:
        """Give what is stored at start a whole life more."""
        for record in self._store.collection(EVENTS).all():
            self._note(record)

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._due:
                self._written.clear()
                await self._written.wait()
            due, namespace, name, version = self._due[0]
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            self._due.popleft()
            record = self._store.collection(EVENTS).get(namespace, name)
            if record is not None and record.rv == version:
                self._remove(self._type, record, "")
