"""The store: versions, events, the past, the index of owners."""

from __future__ import annotations

import pytest

from ome.local.apiserver import store as module
from ome.local.apiserver.store import Event, EventType, Forgotten, Record, Store, subscribe


def record(name: str, rv: int, *, namespace: str = "n", owners: tuple[str, ...] = (), uid: str = "") -> Record:
    body = f'{{"metadata":{{"name":"{name}","resourceVersion":"{rv}"}}}}'.encode()
    return Record(namespace, name, rv, uid or f"uid-{name}", body, {}, {}, owners)


def put(store: Store, name: str, **more: object) -> Record:
    made = record(name, store.next_revision(), **more)  # type: ignore[arg-type]
    before = store.collection("things").get(made.namespace, made.name)
    if before is None:
        store.create("things", made)
    else:
        store.update("things", made, before)
    return made


def drop(store: Store, name: str) -> None:
    before = store.collection("things").get("n", name)
    assert before is not None
    store.delete("things", record(name, store.next_revision()), before)


def names(records: list[Record]) -> list[str]:
    return [found.name for found in records]


def test_objects_are_listed_by_namespace_and_name() -> None:
    store = Store()
    put(store, "b")
    put(store, "a")
    put(store, "c", namespace="m")
    assert names(store.collection("things").all()) == ["c", "a", "b"]
    assert names(store.collection("things").all("n")) == ["a", "b"]


def test_the_past_is_what_the_events_undo() -> None:
    store = Store()
    put(store, "a")
    then = store.revision
    put(store, "b")
    put(store, "a")
    drop(store, "a")
    past = store.collection("things").all_at(then)
    assert [(found.name, found.rv) for found in past] == [("a", then)]
    assert names(store.collection("things").all_at(store.revision)) == ["b"]


def test_old_events_are_forgotten_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RING_EVENTS", 3)
    store = Store()
    for name in "abcde":
        put(store, name)
    collection = store.collection("things")
    assert [event.record.name for event in collection.since(collection.forgotten)] == ["c", "d", "e"]
    with pytest.raises(Forgotten):
        collection.since(1)


def test_a_commit_out_of_order_is_a_fault() -> None:
    store = Store()
    with pytest.raises(AssertionError):
        store.create("things", record("a", store.revision + 5))


def test_listeners_hear_until_they_leave() -> None:
    store, heard = Store(), []

    def listen(event: Event) -> None:
        heard.append((event.type, event.record.name))

    leave = subscribe(store.collection("things"), listen)
    put(store, "a")
    leave()
    put(store, "b")
    assert heard == [(EventType.ADDED, "a")]


def test_dependents_are_found_by_their_owners_uid() -> None:
    store = Store()
    put(store, "a", owners=("uid-o",))
    put(store, "b", owners=("uid-o", "uid-p"))
    assert [found.name for _, found in store.dependents("uid-o")] == ["a", "b"]
    put(store, "a", owners=())
    assert [found.name for _, found in store.dependents("uid-o")] == ["b"]
    drop(store, "b")
    assert list(store.dependents("uid-p")) == []
    assert store.by_uid("uid-b") is None


def test_an_events_line_is_made_once() -> None:
    event = Event(2, EventType.ADDED, record("a", 2), None)
    assert event.line("ADDED") is event.line("ADDED")
    assert event.line("MODIFIED").startswith(b'{"type":"MODIFIED","object":{')
