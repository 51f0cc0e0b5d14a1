"""Watches: the past replayed from the ring, then every change as it is committed, cut to what the client selects.

One queue a watcher, woken once a loop turn; the line of an event is encoded once and shared by all watchers that see it
the same way. A watch ends by its timeout, when its client falls too far behind, or when its resource goes away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ome.local.apiserver import answers, negotiate
from ome.local.apiserver.answers import TableMaker
from ome.local.apiserver.calls import Call
from ome.local.apiserver.encoding import encode
from ome.local.apiserver.errors import (
    FieldError,
    Problem,
    forbidden_field,
    go_quote,
    gone,
    invalid,
    not_supported,
    server_error,
)
from ome.local.apiserver.http import HttpResponse
from ome.local.apiserver.negotiate import JSON, PROTOBUF, YAML, Form
from ome.local.apiserver.reads import Selection, selection, unsigned
from ome.local.apiserver.store import Event, EventType, Forgotten, Record, Store, event_line, subscribe
from ome.local.apiserver.versions import served_body

BOOKMARK_SECONDS: Final = 60.0
SHORTEST_TIMEOUT: Final = 1800.0
# A watch that falls so far behind ends, as on a real server; its client lists again.
BACKLOG: Final = 20_000
BACKLOG_BYTES: Final = 32 * 1024 * 1024
CHUNK_EVENTS: Final = 512
CHUNK_BYTES: Final = 256 * 1024
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(eq=False, slots=True)
class _Watcher:
    """What a watch still has to send, and the means to wake and to end it."""

    namespace: str
    chosen: Selection
    pending: deque[Event] = field(default_factory=deque)
    pending_bytes: int = 0
    ended: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, event: Event) -> None:
        if self.ended or (self.namespace and event.record.namespace != self.namespace):
            return
        self.pending.append(event)
        self.pending_bytes += len(event.record.body)
        if len(self.pending) > BACKLOG or (self.pending_bytes > BACKLOG_BYTES and len(self.pending) > CHUNK_EVENTS):
            self.ended = True
        self.wake.set()

    def take(self) -> Event:
        event = self.pending.popleft()
        self.pending_bytes -= len(event.record.body)
        return event

    def end(self) -> None:
        self.ended = True
        self.wake.set()


def check_watch_options(call: Call) -> None:
    """What ListOptions may not say of a watch. Raises Problem 422."""
    query = call.query
    match = query.get("resourceVersionMatch")
    errors: list[FieldError] = []
    field_name = "resourceVersionMatch"
    if query.get("continue") and (match or "sendInitialEvents" not in query):
        errors.append(forbidden_field(field_name, "resourceVersionMatch is forbidden when continue is provided"))
    if "sendInitialEvents" not in query:
        if match:
            errors.append(
                forbidden_field(
                    field_name, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
    else:
        if match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            errors.append(forbidden_field(field_name, detail))
        if match and match != "NotOlderThan":
            errors.append(not_supported(field_name, match, ["NotOlderThan"]))
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)


class Watches:
    """Every open watch. `jitter()` gives a number in [0, 1) for the timeout of watches that ask for none."""

    def __init__(self, store: Store, tables: TableMaker, jitter: Callable[[], float]) -> None:
        self._store = store
        self._tables = tables
        self._jitter = jitter
        self._open: dict[str, set[_Watcher]] = {}

    def __len__(self) -> int:
        return sum(len(watchers) for watchers in self._open.values())

    def end(self, storage: str = "") -> None:
        """End the watches of one resource, or all of them."""
        for resource, watchers in self._open.items():
            if not storage or resource == storage:
                for watcher in tuple(watchers):
                    watcher.end()

    def watch(self, call: Call) -> HttpResponse:
        """Open a watch; the answer's body yields lines until it ends. Raises Problem for what cannot be watched."""
        if "watch" not in call.type.verbs:
            kind = call.type.plural
            text = f'watch is not supported on resources of kind "{kind}"'
            raise Problem(405, "MethodNotAllowed", text, {})
        check_watch_options(call)
        chosen = selection(call)
        form = call.form()
        revision = self._revision(call)
        timeout = call.query.integer("timeoutSeconds")
        seconds = float(timeout) if timeout else SHORTEST_TIMEOUT * (1 + self._jitter())
        watcher = _Watcher(call.namespace, chosen)
        initial = self._initial(call, chosen, revision, watcher)
        unsubscribe = subscribe(self._store.collection(call.type.storage), watcher.hear)
        self._open.setdefault(call.type.storage, set()).add(watcher)
        encoder = _Encoder(call, form, self._tables)
        stream = self._stream(call, watcher, initial, encoder, seconds, unsubscribe)
        content_type = form.media_type if form.media_type != PROTOBUF else f"{PROTOBUF};stream=watch"
        return HttpResponse(200, answers.headers(content_type), stream, tuple(call.warnings))

    def _revision(self, call: Call) -> int | None:
        text = call.query.get("resourceVersion")
        if not text:
            return None
        try:
            return unsigned(text)
        except ValueError:
            reason = f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
            raise server_error(f"resourceVersion: Invalid value: {go_quote(text)}: {reason}") from None

    def _initial(
        self, call: Call, chosen: Selection, revision: int | None, watcher: _Watcher
    ) -> list[tuple[str, Event | Record | Problem | int]]:
        """What the watch begins with: (type, event, record, refusal or bookmark version)."""
        collection = self._store.collection(call.type.storage)
        send = call.query.optional_flag("sendInitialEvents")
        out: list[tuple[str, Event | Record | Problem | int]] = []
        if send or (send is None and not revision):
            if send and revision is not None and revision > self._store.revision:
                return out
            records = collection.all(call.namespace)
            out += [("ADDED", record) for record in records if chosen.matches(record)]
            if send and call.query.flag("allowWatchBookmarks"):
                out.append(("END", self._store.revision))
            return out
        if send is False and not revision:
            return out
        try:
            for event in collection.since(revision or 0):
                watcher.hear(event)
        except Forgotten:
            message = f"too old resource version: {revision} ({collection.forgotten + 1})"
            return [("ERROR", gone(message))]
        return out

    async def _stream(
        self,
        call: Call,
        watcher: _Watcher,
        initial: list[tuple[str, Event | Record | Problem | int]],
        encoder: _Encoder,
        seconds: float,
        unsubscribe: Callable[[], None],
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        bookmarks = call.query.flag("allowWatchBookmarks")
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        try:
            lines: list[bytes] = []
            for type_, what in initial:
                lines.append(encoder.initial(type_, what))
                if len(lines) >= 256:
                    yield b"".join(lines)
                    lines = []
            if lines:
                yield b"".join(lines)
            if initial and initial[0][0] == "ERROR":
                return
            while True:
                watcher.wake.clear()
                chunk = self._drain(watcher, encoder)
                if chunk:
                    yield chunk
                    continue
                now = loop.time()
                if watcher.ended or now >= deadline:
                    return
                until = min(deadline, next_bookmark) if bookmarks else deadline
                try:
                    async with asyncio.timeout_at(until):
                        await watcher.wake.wait()
                except TimeoutError:
                    if bookmarks and loop.time() >= next_bookmark and loop.time() < deadline:
                        next_bookmark += BOOKMARK_SECONDS
                        yield encoder.bookmark(self._store.revision)
        finally:
            unsubscribe()
            self._open.get(call.type.storage, set()).discard(watcher)

    def _drain(self, watcher: _Watcher, encoder: _Encoder) -> bytes:
        chosen = watcher.chosen
        out: list[bytes] = []
        size = 0
        while watcher.pending and len(out) < CHUNK_EVENTS and size < CHUNK_BYTES:
            event = watcher.take()
            size += len(event.record.body)
            if chosen.everything:
                out.append(encoder.event(event.type, event))
                continue
            type_ = _seen_as(event, chosen)
            if type_ is not None:
                out.append(encoder.event(type_, event))
        return b"".join(out)


def _seen_as(event: Event, chosen: Selection) -> EventType | None:
    """How a watcher with selectors sees a change: entering is ADDED, leaving is DELETED."""
    before = event.previous is not None and chosen.matches(event.previous)
    if event.type is EventType.DELETED:
        return EventType.DELETED if before else None
    now = chosen.matches(event.record)
    if now and before:
        return EventType.MODIFIED
    if now:
        return EventType.ADDED
    return EventType.DELETED if before else None


class _Encoder:
    """Events to lines in the form of one watch."""

    def __init__(self, call: Call, form: Form, tables: TableMaker) -> None:
        self._call = call
        self._form = form
        self._tables = tables
        self._plain = form.media_type == JSON and not form.transform and call.type.stored_as_served
        self._first_table = True

    def event(self, type_: EventType, event: Event) -> bytes:
        left = type_ is EventType.DELETED and event.type is not EventType.DELETED and event.previous is not None
        if self._plain:
            if left:
                return event_line("DELETED", _with_version(self._call, event))
            return event.line(type_)
        body = _with_version(self._call, event) if left else event.record.body
        return self._line(type_, body)

    def initial(self, type_: str, what: Event | Record | Problem | int) -> bytes:
        if isinstance(what, Problem):
            return self._frame("ERROR", what.status())
        if isinstance(what, int):
            return self.bookmark(what, end=True)
        body = what.body if isinstance(what, Record) else what.record.body
        return event_line(type_, body) if self._plain else self._line(type_, body)

    def bookmark(self, revision: int, *, end: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        type_ = self._call.type
        head = {"kind": type_.kind, "apiVersion": type_.api_version, "metadata": metadata}
        if self._form.transform == "Table":
            table = self._tables(self._call, type_, [], self._first_table)
            self._first_table = False
            table["metadata"] = {"resourceVersion": str(revision)}
            table["apiVersion"] = f"meta.k8s.io/{self._form.version}"
            return self._frame("BOOKMARK", table | {"rows": [_bookmark_row(type_, metadata)]})
        if self._form.transform:
            head |= {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{self._form.version}"}
        return self._frame("BOOKMARK", head)

    def _line(self, type_: str, body: bytes) -> bytes:
        resource = self._call.type
        data = served_body(resource, body)
        if self._form.media_type == JSON and not self._form.transform:
            return event_line(type_, data)
        obj = orjson.loads(data)
        if self._form.transform == "Table":
            table = self._tables(self._call, resource, [obj], self._first_table)
            self._first_table = False
            table["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            table["apiVersion"] = f"meta.k8s.io/{self._form.version}"
            return self._frame(type_, table)
        if self._form.transform:
            return self._frame(type_, answers.metadata_only(obj, self._form.version))
        return self._frame(type_, obj)

    def _frame(self, type_: str, obj: dict[str, Any]) -> bytes:
        if self._form.media_type == PROTOBUF:
            from ome.local.apiserver.protobuf import encode_watch_event

            return encode_watch_event(type_, obj)
        if self._form.media_type == YAML:
            return negotiate.dump_yaml({"type": type_, "object": obj}) + b"---\n"
        return event_line(type_, negotiate.dump_json(obj))


def _bookmark_row(type_: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {"cells": [], "object": partial}


def _with_version(call: Call, event: Event) -> bytes:
    """The content before the change under the change's version: what a watcher sees of an object that left."""
    previous = event.previous
    if previous is None:
        return event.record.body
    obj = previous.parse()
    obj["metadata"]["resourceVersion"] = str(event.rv)
    type_ = call.type
    return encode(obj, type_.storage_api_version, type_.kind, custom=type_.custom is not None)
