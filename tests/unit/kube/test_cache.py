"""Watch caches: lists, resumes, lists again, and never hides what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ome.api.core import ConfigMap
from ome.kube.cache import Cache, Change
from ome.kube.client import Client
from ome.kube.clock import LoopClock
from ome.kube.errors import TransportError
from ome.kube.requests import Request
from ome.kube.resources import CONFIG_MAPS
from tests.support.fake_transport import FakeTransport, answer, failure
from tests.support.virtual_time import run_virtual, until


def config_map(name: str, version: int, uid: str = "", **labels: str) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "a",
        "resourceVersion": str(version),
        "uid": uid or f"uid-{name}",
        "labels": labels,
    }
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"v": str(version)}}


def listing(version: int, *items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ConfigMapList", "metadata": {"resourceVersion": str(version)}, "items": list(items)}


def event(type_: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def stream(*events: bytes, end: bool = False, after: float = 0.0) -> Any:
    async def play(_: Request) -> AsyncIterator[bytes]:
        for line in events:
            await asyncio.sleep(after)
            yield line
        if not end:
            await asyncio.Event().wait()

    return play


class World:
    def __init__(self, *lists: Any) -> None:
        self.lists = list(lists)
        self.transport = FakeTransport(lambda _: self.lists.pop(0) if len(self.lists) > 1 else self.lists[0])
        self.changes: list[Change[ConfigMap]] = []

    async def start(self) -> Cache[ConfigMap]:
        client = Client(self.transport)
        by_label = {"color": lambda obj: [obj.metadata.labels["color"]] if "color" in obj.metadata.labels else []}
        self.cache = Cache(client, CONFIG_MAPS, ConfigMap, clock=LoopClock(), indexes=by_label)
        self.cache.subscribe(self.changes.append)
        self.task = asyncio.create_task(self.cache.run())
        await self.cache.wait_synced()
        return self.cache

    @property
    def watched_from(self) -> list[str]:
        queries = [dict(request.query) for request in self.transport.requests]
        return [query["resourceVersion"] for query in queries if "watch" in query]

    @property
    def lists_made(self) -> int:
        return sum("watch" not in dict(request.query) for request in self.transport.requests)


def names(cache: Cache[ConfigMap]) -> set[str]:
    return {obj.metadata.name for obj in cache.list()}


def test_events_move_objects_and_indexes() -> None:
    async def main() -> None:
        world = World(answer(200, listing(5, config_map("x", 3, color="red"))))
        world.transport.streams.append(
            stream(
                event("MODIFIED", config_map("x", 6, color="blue")),
                event("ADDED", config_map("y", 7, color="red")),
                event("DELETED", config_map("x", 8, color="blue")),
            )
        )
        cache = await world.start()
        await until(lambda: len(world.changes) == 4)
        assert names(cache) == {"y"}
        assert [obj.metadata.name for obj in cache.by_index("color", "red")] == ["y"]
        assert cache.by_index("color", "blue") == []
        kinds = [(change.old is None, change.new is None) for change in world.changes]
        assert kinds == [(True, False), (False, False), (True, False), (False, True)]

    run_virtual(main())


def test_a_stream_that_ends_resumes_from_the_last_bookmark_without_a_list() -> None:
    async def main() -> None:
        world = World(answer(200, listing(5)))
        bookmark = event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": "40"}})
        world.transport.streams += [stream(bookmark, end=True), stream(event("ADDED", config_map("late", 41)))]
        cache = await world.start()
        await until(lambda: names(cache) == {"late"})
        assert world.watched_from == ["5", "40"]
        assert world.lists_made == 1

    run_virtual(main())


def test_410_lists_again_and_reports_what_was_missed_deletions_included() -> None:
    async def main() -> None:
        gone = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
        world = World(
            answer(200, listing(5, config_map("kept", 1), config_map("lost", 2), config_map("remade", 3, uid="old"))),
            answer(200, listing(50, config_map("kept", 1), config_map("remade", 44, uid="new"))),
        )
        world.transport.streams += [stream(event("MODIFIED", config_map("kept", 1)), gone)]
        cache = await world.start()
        await until(lambda: names(cache) == {"kept", "remade"})
        assert world.watched_from == ["5", "50"]
        ends = [change.old.metadata.uid for change in world.changes if change.new is None and change.old is not None]
        assert sorted(ends) == ["old", "uid-lost"]

    run_virtual(main())


def test_a_server_that_always_says_410_is_not_hammered() -> None:
    async def main() -> None:
        gone = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
        world = World(answer(200, listing(5)))
        world.transport.streams += [stream(gone) for _ in range(500)]
        await world.start()
        await asyncio.sleep(60)
        assert world.lists_made < 20

    run_virtual(main())


def test_a_silent_stream_is_ended_and_resumed() -> None:
    async def main() -> None:
        world = World(answer(200, listing(5)))
        world.transport.streams += [stream(), stream(event("ADDED", config_map("x", 6)))]
        cache = await world.start()
        await until(lambda: names(cache) == {"x"}, timeout=400)
        assert asyncio.get_running_loop().time() >= 150
        assert world.watched_from == ["5", "5"]

    run_virtual(main())


def test_a_cache_that_hears_nothing_for_long_is_deaf_until_it_hears_again() -> None:
    async def main() -> None:
        world = World(answer(200, listing(5)))
        cache = await world.start()
        assert not cache.deaf

        def refuse(_: Request) -> AsyncIterator[bytes]:
            raise TransportError("refused")

        world.transport.streams += [refuse] * 12
        await asyncio.sleep(330)
        assert cache.deaf
        world.transport.streams[:] = [stream(event("ADDED", config_map("x", 6)))]
        await until(lambda: names(cache) == {"x"}, timeout=100)
        assert not cache.deaf

    run_virtual(main())


@pytest.mark.parametrize(
    ("written", "seen"),
    [(8, "8"), (6, "7")],
    ids=["an own write newer than the watch is seen at once", "a write the watch is past already changes nothing"],
)
def test_own_writes(written: int, seen: str) -> None:
    async def main() -> None:
        world = World(answer(200, listing(5, config_map("x", 5))))
        world.transport.streams.append(stream(event("MODIFIED", config_map("x", 7))))
        cache = await world.start()
        await until(lambda: len(world.changes) == 2)
        cache.observe(config_map("x", written))
        found = cache.get("a", "x")
        assert found is not None
        assert found.metadata.resource_version == seen

    run_virtual(main())


def test_an_own_write_cannot_undo_a_deletion() -> None:
    async def main() -> None:
        world = World(answer(200, listing(5, config_map("x", 5))))
        world.transport.streams.append(stream(event("DELETED", config_map("x", 9))))
        cache = await world.start()
        await until(lambda: not names(cache))
        cache.observe(config_map("x", 8))
        assert not names(cache)

    run_virtual(main())


def test_a_resource_that_stops_being_served_leaves_an_empty_cache() -> None:
    async def main() -> None:
        world = World(
            answer(200, listing(5, config_map("x", 5))),
            failure(404, "NotFound", "the server could not find the requested resource"),
        )
        gone = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
        world.transport.streams.append(stream(event("MODIFIED", config_map("x", 6)), gone))
        cache = await world.start()
        await until(lambda: not names(cache))

    run_virtual(main())
