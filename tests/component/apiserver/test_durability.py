"""What was acknowledged survives a kill -9, and a restart goes on from there."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ome.kube.clock import SystemClock
from ome.local.apiserver.durable import JUMP, Database
from ome.local.apiserver.http import User
from ome.local.apiserver.server import ApiServer
from tests.component.apiserver.api import ADMIN, BOATS, CONFIG_MAPS, DEFINITIONS, Api, boat, config_map, definition

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

WRITER = """
import asyncio, json, sys
from pathlib import Path
from ome.kube.clock import SystemClock
from ome.local.apiserver.durable import Database
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.server import ApiServer

HEADERS = {"authorization": "Bearer t", "user-agent": "writer", "content-type": "application/json"}
ROOT = "/api/v1/namespaces/default/configmaps"

async def main(path, round):
    server = ApiServer(tokens={"t": User("w", groups=("system:masters",))}, database=Database(Path(path)))
    await server.start()
    print("ready", flush=True)
    async def write(worker):
        number = 0
        while True:
            name = f"r{round}-w{worker}-n{number}"
            body = json.dumps({"metadata": {"name": name}, "data": {"n": str(number)}}).encode()
            answer = await server.handle(HttpRequest("POST", ROOT, "", HEADERS, body))
            assert answer.status == 201, answer.body
            version = json.loads(answer.body)["metadata"]["resourceVersion"]
            print(f"+ {name} {version}", flush=True)
            if number % 3 == 0:
                answer = await server.handle(HttpRequest("DELETE", f"{ROOT}/{name}", "", HEADERS))
                assert answer.status == 200
                print(f"- {name} 0", flush=True)
            number += 1
            await asyncio.sleep(0)
    await asyncio.gather(*(write(worker) for worker in range(4)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def _write_until_killed(database: Path, round: int, seconds: float) -> list[tuple[str, str, int]]:
    """Start a writer, kill it without warning, and say what it was told: (sign, name, version)."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database), str(round)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        first = process.stdout.readline()
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
    said = first + process.stdout.read()
    process.wait(timeout=10)
    lines = said.splitlines() if said.endswith("\n") else said.splitlines()[:-1]
    return [(sign, name, int(version)) for sign, name, version in (line.split() for line in lines)]


def _stored(database: Path) -> tuple[int, dict[str, int]]:
    """(the revision a restarted server begins with, the versions of the objects it has)."""

    async def main() -> tuple[int, dict[str, int]]:
        server = ApiServer(tokens={ADMIN: User("a", groups=("system:masters",))}, database=Database(database))
        await server.start()
        revision = server.store.revision
        listed = await Api(server).get(CONFIG_MAPS)
        await server.stop()
        return revision, {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in listed["items"]}

    return asyncio.run(main())


def _rounds(folder: Path, count: int) -> None:
    database, chance = folder / "cluster.db", random.Random(3)
    kept: dict[str, int] = {}
    for round in range(count):
        said = _write_until_killed(database, round, 0.1 + chance.random() / 3)
        assert said, "nothing was written: the test proves nothing"
        for sign, name, version in said:
            if sign == "+":
                kept[name] = version
            else:
                kept.pop(name, None)
        revision, stored = _stored(database)
        lost = {name: version for name, version in kept.items() if stored.get(name) not in (version,)}
        last = {name for sign, name, _ in said[-12:]}
        assert not lost.keys() - last, lost
        for name in lost:
            assert name not in stored, "an acknowledged creation changed"
        assert revision > max([version for _, _, version in said])
        kept = {name: stored[name] for name in kept if name in stored}


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    _rounds(tmp_path, 2)


@pytest.mark.slow
def test_acknowledged_writes_survive_twenty_kills(tmp_path: Path) -> None:
    _rounds(tmp_path, 20)


def _session(database: Path, work: Any) -> Any:
    async def main() -> Any:
        server = ApiServer(
            tokens={ADMIN: User("a", groups=("system:masters",))}, clock=SystemClock(), database=Database(database)
        )
        await server.start()
        try:
            return await work(Api(server))
        finally:
            await server.stop()

    return asyncio.run(main())


def test_a_restart_finds_objects_definitions_and_their_instances(tmp_path: Path) -> None:
    async def first(api: Api) -> tuple[int, Any]:
        await api.post(DEFINITIONS, definition())
        await api.post(BOATS, boat("b", size=3))
        owner = await api.post(CONFIG_MAPS, config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata.uid"]}
        await api.post(
            CONFIG_MAPS, config_map("child", metadata={"ownerReferences": [reference], "labels": {"l": "1"}})
        )
        return api.server.store.revision, (await api.get(f"{BOATS}/b")).body

    async def second(api: Api) -> None:
        assert api.server.store.revision >= before[0] + JUMP
        assert (await api.get(f"{BOATS}/b")).body == before[1]
        assert (await api.get(f"{CONFIG_MAPS}?labelSelector=l"))["items.0.metadata.name"] == "child"
        old = await api.watch(f"{BOATS}?watch=1&resourceVersion={before[0]}")
        assert (await old.next())[1]["code"] == 410
        await api.delete(f"{CONFIG_MAPS}/owner")
        for _ in range(50):
            if (await api.get(f"{CONFIG_MAPS}/child")).status == 404:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the owner's dependent stayed")

    before = _session(tmp_path / "cluster.db", first)
    _session(tmp_path / "cluster.db", second)


def test_a_changed_storage_version_is_stored(tmp_path: Path) -> None:
    async def first(api: Api) -> None:
        body = definition()
        body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
        await api.post(DEFINITIONS, body)
        await api.post(BOATS, boat("b", size=3))
        current = await api.get(f"{DEFINITIONS}/boats.example.com")
        body["spec"]["versions"][0]["storage"], body["spec"]["versions"][1]["storage"] = False, True
        body["metadata"]["resourceVersion"] = current["metadata.resourceVersion"]
        assert (await api.put(f"{DEFINITIONS}/boats.example.com", body)).status == 200

    async def second(api: Api) -> None:
        for version in ("v1", "v2"):
            found = await api.get(BOATS.replace("v1", version) + "/b")
            assert (found["apiVersion"], found["spec.size"]) == (f"example.com/{version}", 3)

    _session(tmp_path / "cluster.db", first)
    _session(tmp_path / "cluster.db", second)


def test_bytes_on_disk_are_the_bytes_that_are_sent(tmp_path: Path) -> None:
    async def work(api: Api) -> bytes:
        await api.post(CONFIG_MAPS, config_map("a", data={"k": "<&>"}))
        return (await api.get(f"{CONFIG_MAPS}/a")).raw

    sent = _session(tmp_path / "cluster.db", work)
    _, rows = Database(tmp_path / "cluster.db").rows()
    bodies = {name: body for _, name, _, body in rows["configmaps"]}
    assert bodies["a"] + b"\n" == sent
    assert json.loads(sent)["data"] == {"k": "<&>"}


def test_a_write_that_cannot_be_stored_is_not_acknowledged_and_is_stored_later(tmp_path: Path) -> None:
    async def work(api: Api) -> None:
        database = api.server._database
        assert database is not None
        write = database._write

        def broken(pending: Any) -> None:
            raise sqlite3.OperationalError("disk full")

        database._write = broken  # type: ignore[method-assign]
        assert (await api.post(CONFIG_MAPS, config_map("a"))).status == 500
        database._write = write  # type: ignore[method-assign]
        assert (await api.post(CONFIG_MAPS, config_map("b"))).status == 201

    async def after(api: Api) -> list[str]:
        listed = await api.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt")
        return [item["metadata"]["name"] for item in listed["items"]]

    _session(tmp_path / "cluster.db", work)
    assert _session(tmp_path / "cluster.db", after) == ["a", "b"]


def test_a_full_disk_is_named_every_time_and_what_waits_is_stored_at_the_end(tmp_path: Path) -> None:
    async def work(api: Api) -> None:
        assert api.server._database is not None
        connection = api.server._database._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        for name in ("a", "b"):
            refused = await api.post(CONFIG_MAPS, config_map(name, data={"k": "x" * 100_000}))
            assert refused.status == 500
            assert "disk is full" in refused["message"]
        connection.execute(f"PRAGMA max_page_count = {pages + 1000}")

    async def after(api: Api) -> list[str]:
        listed = await api.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt")
        return [item["metadata"]["name"] for item in listed["items"]]

    _session(tmp_path / "cluster.db", work)
    assert _session(tmp_path / "cluster.db", after) == ["a", "b"]
