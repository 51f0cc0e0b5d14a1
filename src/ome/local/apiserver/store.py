"""The objects: memory is the authority, records are immutable, every change is an event that watches replay.

Bytes first: a record holds the JSON that GET, LIST and WATCH send. Not durable by itself (`durable.py` hooks into
commits) and knows nothing of kinds, validation or HTTP. Called by the verbs; never awaits.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import orjson

NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
RING_EVENTS: Final = 4096
RING_BYTES: Final = 32 * 1024 * 1024
RING_ALWAYS_KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class Record:
    """One version of one object. body: its JSON, resourceVersion included. owners: the uids of its owner references."""

    namespace: str
    name: str
    rv: int
    uid: str
    body: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    owners: tuple[str, ...]

    def parse(self) -> dict[str, Any]:
        """A fresh dict of the object, the caller's own."""
        parsed: dict[str, Any] = orjson.loads(self.body)
        return parsed


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True, eq=False)
class Event:
    """A committed change. `record` is the new version; of a deletion the last one, with the deletion's own rv."""

    rv: int
    type: EventType
    record: Record
    previous: Record | None
    _lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, type_: str) -> bytes:
        """The watch line of this event, shared by all watchers that see it as `type_`."""
        cached = self._lines.get(type_)
        if cached is None:
            cached = self._lines[type_] = event_line(type_, self.record.body)
        return cached


def event_line(type_: str, body: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"


Listener = Callable[[Event], None]
CommitHook = Callable[[str, Event], None]


class Forgotten(Exception):
    """The events back to the version asked for are no longer kept."""


class Collection:
    """All objects of one resource, in key order, with the events that watches may still ask for."""

    def __init__(self, resource: str, forgotten: int) -> None:
        self.resource = resource
        self.events: deque[Event] = deque()
        self.forgotten = forgotten
        """Events up to this version may be gone."""
        self.listeners: list[Listener] = []
        self._records: dict[tuple[str, str], Record] = {}
        self._order: list[tuple[str, str]] = []
        self._event_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, namespace: str, name: str) -> Record | None:
        return self._records.get((namespace, name))

    def all(self, namespace: str = "") -> list[Record]:
        """The records of a namespace, or of all, ordered by namespace and name."""
        records = self._records
        if not namespace:
            return [records[key] for key in self._order]
        start = bisect.bisect_left(self._order, (namespace, ""))
        out: list[Record] = []
        for index in range(start, len(self._order)):
            key = self._order[index]
            if key[0] != namespace:
                break
            out.append(records[key])
        return out

    def all_at(self, rv: int, namespace: str = "") -> list[Record]:
        """The records as they were at version `rv`. Raises Forgotten."""
        if rv < self.forgotten:
            raise Forgotten
        later = [event for event in self._since(rv) if not namespace or event.record.namespace == namespace]
        current = self.all(namespace)
        if not later:
            return current
        state = {(record.namespace, record.name): record for record in current}
        for event in reversed(later):
            key = (event.record.namespace, event.record.name)
            if event.previous is None:
                state.pop(key, None)
            else:
                state[key] = event.previous
        return [state[key] for key in sorted(state)]

    def since(self, rv: int) -> list[Event]:
        """The events after version `rv`, oldest first. Raises Forgotten."""
        if rv < self.forgotten:
            raise Forgotten
        return self._since(rv)

    def _since(self, rv: int) -> list[Event]:
        out: list[Event] = []
        for event in reversed(self.events):
            if event.rv <= rv:
                break
            out.append(event)
        out.reverse()
        return out

    def put(self, record: Record) -> None:
        key = (record.namespace, record.name)
        if key not in self._records:
            bisect.insort(self._order, key)
        self._records[key] = record

    def drop(self, record: Record) -> None:
        key = (record.namespace, record.name)
        del self._records[key]
        del self._order[bisect.bisect_left(self._order, key)]

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty collection at start."""
        for record in records:
            self._records[(record.namespace, record.name)] = record
        self._order = sorted(self._records)

    def remember(self, event: Event) -> None:
        self.events.append(event)
        self._event_bytes += len(event.record.body)
        while len(self.events) > RING_EVENTS or (
            self._event_bytes > RING_BYTES and len(self.events) > RING_ALWAYS_KEPT
        ):
            self.forget_oldest()

    def forget_oldest(self) -> None:
        event = self.events.popleft()
        self._event_bytes -= len(event.record.body)
        self.forgotten = event.rv


class Store:
    """Every collection, the one counter of versions, the index of owners. `resource` is `plural.group` or `plural`."""

    def __init__(self, revision: int = 1) -> None:
        self.revision = revision
        self._started_at = 0
        self._collections: dict[str, Collection] = {}
        self._dependents: dict[str, dict[tuple[str, str, str], None]] = {}
        self._uids: dict[str, tuple[str, str, str]] = {}
        self._hooks: list[CommitHook] = []
        self._rewrite_hooks: list[CommitHook] = []

    def on_commit(self, hook: CommitHook) -> None:
        """`hook(resource, event)` runs in every commit, before watchers hear of it."""
        self._hooks.append(hook)

    def on_rewrite(self, hook: CommitHook) -> None:
        """`hook(resource, event)` runs when an object is put in another form."""
        self._rewrite_hooks.append(hook)

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(resource, self._started_at)
        return found

    def resources(self) -> list[str]:
        return list(self._collections)

    def begin(self, revision: int) -> None:
        """Go on from a version, at start: everything before it is forgotten."""
        self._started_at = self.revision = max(self.revision, revision)

    def load(self, resource: str, records: Iterable[Record]) -> None:
        """Take over stored records at start."""
        loaded = list(records)
        self.collection(resource).load(loaded)
        for record in loaded:
            self._index(resource, record)

    def next_revision(self) -> int:
        """The version that the next commit will carry."""
        return self.revision + 1

    def create(self, resource: str, record: Record) -> Event:
        return self._commit(resource, Event(record.rv, EventType.ADDED, record, None))

    def update(self, resource: str, record: Record, previous: Record) -> Event:
        return self._commit(resource, Event(record.rv, EventType.MODIFIED, record, previous))

    def delete(self, resource: str, record: Record, previous: Record) -> Event:
        """`record`: the last version under the deletion's own rv."""
        return self._commit(resource, Event(record.rv, EventType.DELETED, record, previous))

    def _commit(self, resource: str, event: Event) -> Event:
        if event.rv != self.revision + 1:
            raise AssertionError(f"version {event.rv} does not follow {self.revision}")
        self.revision = event.rv
        collection = self.collection(resource)
        if event.previous is not None:
            self._unindex(resource, event.previous)
        if event.type is EventType.DELETED:
            collection.drop(event.record)
        else:
            collection.put(event.record)
            self._index(resource, event.record)
        collection.remember(event)
        for hook in self._hooks:
            hook(resource, event)
        for listener in tuple(collection.listeners):
            listener(event)
        return event

    def _index(self, resource: str, record: Record) -> None:
        key = (resource, record.namespace, record.name)
        self._uids[record.uid] = key
        for owner in record.owners:
            self._dependents.setdefault(owner, {})[key] = None

    def _unindex(self, resource: str, record: Record) -> None:
        key = (resource, record.namespace, record.name)
        self._uids.pop(record.uid, None)
        for owner in record.owners:
            dependents = self._dependents.get(owner)
            if dependents is None:
                continue
            dependents.pop(key, None)
            if not dependents:
                del self._dependents[owner]

    def by_uid(self, uid: str) -> tuple[str, Record] | None:
        """(resource, record) of the living object with this uid."""
        key = self._uids.get(uid)
        if key is None:
            return None
        record = self.collection(key[0]).get(key[1], key[2])
        return (key[0], record) if record is not None else None

    def dependents(self, uid: str) -> Iterator[tuple[str, Record]]:
        """(resource, record) of every object that names `uid` as an owner, oldest first."""
        for resource, namespace, name in list(self._dependents.get(uid, ())):
            record = self.collection(resource).get(namespace, name)
            if record is not None:
                yield resource, record

    def rewrite(self, resource: str, record: Record) -> None:
        """Put an object in another form under the same version; only whoever keeps objects durable hears of it."""
        collection = self.collection(resource)
        before = collection.get(record.namespace, record.name)
        if before is not None:
            self._unindex(resource, before)
        collection.put(record)
        self._index(resource, record)
        for hook in self._rewrite_hooks:
            hook(resource, Event(record.rv, EventType.MODIFIED, record, before))

    def forget(self) -> None:
        """Drop every kept event, as a compaction does: older versions answer 410 from now on."""
        for collection in self._collections.values():
            while collection.events:
                collection.forget_oldest()
            collection.forgotten = self.revision
        self._started_at = self.revision


def subscribe(collection: Collection, listener: Listener) -> Callable[[], None]:
    """Call `listener` with every later event of the collection; the answer ends it."""
    collection.listeners.append(listener)

    def unsubscribe() -> None:
        if listener in collection.listeners:
            collection.listeners.remove(listener)

    return unsubscribe
