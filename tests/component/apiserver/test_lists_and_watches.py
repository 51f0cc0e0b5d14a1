"""Lists with pages, versions and selectors; watches from any point, and what they are refused."""

from __future__ import annotations

import asyncio

import pytest

from tests.component.apiserver.api import CONFIG_MAPS, PODS, TABLE, Api, config_map, pod, with_api

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

SECRETS = "/api/v1/namespaces/default/secrets"


async def _secrets(api: Api, *names: str, **labels: str) -> None:
    for name in names:
        created = await api.post(SECRETS, {"metadata": {"name": name, "labels": labels}})
        assert created.status == 201


def _names(answer: object) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]  # type: ignore[index]


@with_api()
async def test_pages_show_one_moment(api: Api) -> None:
    await _secrets(api, *"abcdefg")
    first = await api.get(f"{SECRETS}?limit=3")
    assert (_names(first.body), first["metadata.remainingItemCount"]) == (["a", "b", "c"], 4)
    await _secrets(api, "cc")
    await api.delete(f"{SECRETS}/e")
    second = await api.get(f"{SECRETS}?limit=3&continue={first['metadata.continue']}")
    assert _names(second.body) == ["d", "e", "f"]
    assert second["metadata.resourceVersion"] == first["metadata.resourceVersion"]
    last = await api.get(f"{SECRETS}?limit=3&continue={second['metadata.continue']}")
    assert (_names(last.body), last["metadata.continue"]) == (["g"], None)


@with_api()
async def test_a_forgotten_page_says_how_to_go_on(api: Api) -> None:
    await _secrets(api, *"abcd")
    first = await api.get(f"{SECRETS}?limit=2")
    await _secrets(api, "bb")
    api.server.store.forget()
    expired = await api.get(f"{SECRETS}?limit=2&continue={first['metadata.continue']}")
    assert (expired.status, expired["reason"]) == (410, "Expired")
    rest = await api.get(f"{SECRETS}?continue={expired['metadata.continue']}")
    assert _names(rest.body) == ["bb", "c", "d"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("labelSelector=app%3Dx", ["a"]),
        ("labelSelector=app!%3Dx", ["b", "c"]),
        ("labelSelector=app+in+(x,y)", ["a", "b"]),
        ("labelSelector=app+notin+(x)", ["b", "c"]),
        ("labelSelector=app", ["a", "b"]),
        ("labelSelector=!app", ["c"]),
        ("fieldSelector=metadata.name%3Db", ["b"]),
        ("fieldSelector=status.phase%3DRunning", ["c"]),
        ("fieldSelector=spec.nodeName%3D", ["a", "b"]),
    ],
)
def test_selectors(selector: str, names: list[str]) -> None:
    @with_api()
    async def run(api: Api) -> None:
        await api.post(PODS, pod("a", metadata={"labels": {"app": "x"}}))
        await api.post(PODS, pod("b", metadata={"labels": {"app": "y"}}))
        await api.post(PODS, pod("c", spec={"nodeName": "n"}))
        await api.patch(f"{PODS}/c/status", {"status": {"phase": "Running"}})
        assert _names((await api.get(f"{PODS}?{selector}")).body) == names

    run()


@with_api()
async def test_the_past_can_be_read_and_the_future_not(api: Api) -> None:
    await _secrets(api, "a")
    then = (await api.get(SECRETS))["metadata.resourceVersion"]
    await _secrets(api, "b")
    assert _names((await api.get(f"{SECRETS}?resourceVersion={then}&resourceVersionMatch=Exact")).body) == ["a"]
    future = await api.get(f"{SECRETS}?resourceVersion=900000")
    assert (future.status, future["details.retryAfterSeconds"]) == (504, 1)


@with_api()
async def test_a_watch_replays_and_goes_on(api: Api) -> None:
    start = (await api.get(CONFIG_MAPS))["metadata.resourceVersion"]
    await api.post(CONFIG_MAPS, config_map("a"))
    watching = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}")
    assert await watching.names(1) == [("ADDED", "a")]
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    await api.delete(f"{CONFIG_MAPS}/a")
    assert await watching.names(2) == [("MODIFIED", "a"), ("DELETED", "a")]
    await watching.close()
    assert len(api.server._watches) == 0


@with_api()
async def test_objects_enter_and_leave_a_selector(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", data={"k": "1"}))
    start = (await api.get(CONFIG_MAPS))["metadata.resourceVersion"]
    watching = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}&labelSelector=on")
    await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "1"}}})
    left = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": None}, "data": {"k": "2"}})
    assert (await watching.next())[0] == "ADDED"
    kind, gone = await watching.next()
    assert (kind, gone["data"]) == ("DELETED", {"k": "1"})
    assert gone["metadata"]["resourceVersion"] == left["metadata.resourceVersion"]


@with_api()
async def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    await _secrets(api, "a")
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    watching = await api.watch(f"{SECRETS}?{query}")
    assert (await watching.names(1)) == [("ADDED", "a")]
    kind, mark = await watching.next()
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@with_api()
async def test_bookmarks_come_every_minute_and_the_watch_ends_on_time(api: Api) -> None:
    watching = await api.watch(f"{SECRETS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150")
    began = asyncio.get_running_loop().time()
    events = await watching.rest()
    assert [kind for kind, _ in events] == ["BOOKMARK", "BOOKMARK"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(150)


@with_api()
async def test_a_watch_from_a_forgotten_version_is_told_so(api: Api) -> None:
    await _secrets(api, "a")
    api.server.store.forget()
    await _secrets(api, "b")
    watching = await api.watch(f"{SECRETS}?watch=1&resourceVersion=1")
    kind, status = await watching.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert await watching.rest() == []


@with_api()
async def test_a_table_watch_names_its_columns_once(api: Api) -> None:
    await _secrets(api, "a", "b")
    response = await api.respond("GET", f"{SECRETS}?watch=1&timeoutSeconds=1", accept=TABLE)
    chunks = b"".join([chunk async for chunk in response.body]) if not isinstance(response.body, bytes) else b""
    assert chunks.count(b'"columnDefinitions":[{') == 1
    assert chunks.count(b'"columnDefinitions":[]') == 1


@with_api()
async def test_a_slow_watcher_is_cut_off_and_others_are_not(api: Api) -> None:
    from ome.local.apiserver import watching as module

    slow, quick = await api.watch(f"{SECRETS}?watch=1"), await api.watch(f"{SECRETS}?watch=1")
    watchers = list(api.server._watches._open["secrets"])
    await _secrets(api, "a")
    assert await quick.names(1) == [("ADDED", "a")]
    for watcher in watchers:
        if watcher.pending:
            watcher.pending.extend([watcher.pending[0]] * module.BACKLOG)
    await _secrets(api, "b")
    assert await quick.names(1) == [("ADDED", "b")]
    assert len(await slow.rest()) > 0


@with_api()
async def test_a_watcher_that_never_reads_keeps_no_more_than_so_many_bytes(api: Api) -> None:
    from ome.local.apiserver import watching as module

    await api.watch(f"{CONFIG_MAPS}?watch=1")
    (watcher,) = api.server._watches._open["configmaps"]
    await api.post(CONFIG_MAPS, config_map("a", data={"large": "x" * 200_000}))
    for number in range(module.CHUNK_EVENTS + 100):
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})
    assert watcher.ended
    assert len(watcher.pending) <= module.CHUNK_EVENTS + 1
