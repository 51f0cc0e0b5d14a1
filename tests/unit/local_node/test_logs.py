"""Container logs: what is written, and what of it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ome.local.node.process import logs
from ome.local.node.process.logs import LONGEST_LINE, LogWriter, Wish, read_log

ROWS = [f"2026-01-01T00:00:0{number}.000000000Z line {number}\n" for number in range(5)]
LIMIT = 10.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_text("".join(ROWS))
    return path


async def whole(chunks: AsyncIterator[bytes]) -> str:
    async with asyncio.timeout(LIMIT):
        return b"".join([chunk async for chunk in chunks]).decode()


def texts(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


@pytest.mark.parametrize(
    ("wish", "wanted"),
    [
        (Wish(), texts(0, 1, 2, 3, 4)),
        (Wish(timestamps=True), "".join(ROWS)),
        (Wish(tail_lines=2), texts(3, 4)),
        (Wish(tail_lines=0), ""),
        (Wish(tail_lines=99), texts(0, 1, 2, 3, 4)),
        (Wish(since=datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)), texts(3, 4)),
        (Wish(since=datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), tail_lines=3, limit_bytes=9), "line 2\nli"),
    ],
)
def test_a_log_is_read_as_it_is_asked_for(log: Path, wish: Wish, wanted: str) -> None:
    assert asyncio.run(whole(read_log(log, wish))) == wanted


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert asyncio.run(whole(read_log(tmp_path / "none.log", Wish()))) == ""


def test_lines_are_written_whole_with_their_times_and_long_ones_are_broken(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "0.log")
    writer.feed(b"one\ntw")
    writer.feed(b"o\r\n" + b"x" * (LONGEST_LINE + 5) + b"\nlast")
    writer.close()
    rows = [row.split(" ", 1) for row in (tmp_path / "0.log").read_text().splitlines()]
    assert [text for _, text in rows] == ["one", "two", "x" * LONGEST_LINE, "xxxxx", "last"]
    assert all(datetime.fromisoformat(time[:26] + "+00:00").tzinfo for time, _ in rows)


def followed(path: Path, wish: Wish, body: Any) -> str:
    """What a follower saw while `body` ran; then the container has ended. The log that is there was read before."""
    has_begun = path.exists()

    async def run() -> str:
        ended, begun = asyncio.Event(), asyncio.Event()

        async def noting() -> AsyncIterator[bytes]:
            async for chunk in read_log(path, wish, follow=True, ended=ended):
                begun.set()
                yield chunk

        reading = asyncio.create_task(whole(noting()))
        if has_begun:
            await asyncio.wait_for(begun.wait(), LIMIT)
        else:
            await asyncio.sleep(0.15)
        await body()
        ended.set()
        return await reading

    return asyncio.run(run())


def test_a_followed_log_goes_on_until_the_container_has_ended(log: Path) -> None:
    async def body() -> None:
        writer = LogWriter(log)
        writer.feed(b"line 5\n")
        await asyncio.sleep(0.15)
        writer.feed(b"line 6\nunfinished")
        writer.close()

    assert followed(log, Wish(tail_lines=1), body) == texts(4, 5, 6) + "unfinished\n"


def test_a_log_is_followed_from_before_it_is_there(tmp_path: Path) -> None:
    async def body() -> None:
        LogWriter(tmp_path / "0.log").feed(b"line 1\n")
        await asyncio.sleep(0.15)

    assert followed(tmp_path / "0.log", Wish(), body) == texts(1)


def test_what_is_followed_counts_for_the_limit(log: Path) -> None:
    async def body() -> None:
        LogWriter(log).feed(b"line 5\nline 6\n")
        await asyncio.sleep(0.15)

    assert followed(log, Wish(tail_lines=1, limit_bytes=16), body) == "line 4\nline 5\nli"


def test_a_followed_log_that_is_turned_over_loses_no_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LIMIT", 40_000)

    async def body() -> None:
        writer = LogWriter(log)
        for number in range(5, 3000):
            writer.feed(b"line %d\n" % number)
            if number % 500 == 0:
                await asyncio.sleep(0.25)
        writer.close()

    assert followed(log, Wish(), body) == texts(*range(3000))
    assert log.with_name("0.log.1").exists()
