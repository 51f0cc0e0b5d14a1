"""Container logs on disk: time, then the text, a line each. Written by whoever holds the output, read by kubectl.

A log keeps at most two files of 10 MiB: the current one and the one before (`.1`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

LIMIT = 10 * 2**20
LONGEST_LINE = 16 * 2**10
LOOK_EVERY = 0.1  # seconds between looks at a followed log


def stamp(moment: datetime) -> str:
    """RFC 3339 with nanoseconds, as kubectl's `--timestamps` shows."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


class LogWriter:
    """Puts lines into a log file, each with its time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size
        self._rest = b""

    def line(self, text: bytes) -> None:
        """Append one line (without its newline)."""
        raw = stamp(datetime.now(UTC)).encode() + b" " + text + b"\n"
        if self._size + len(raw) > LIMIT:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._path.open("ab", buffering=0)
            self._size = 0
        self._file.write(raw)
        self._size += len(raw)

    def feed(self, chunk: bytes) -> None:
        """Write the lines that are whole now; a line that is too long is broken."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        for text in lines:
            self.line(text.rstrip(b"\r"))
        while len(rest) > LONGEST_LINE:
            self.line(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest

    def close(self) -> None:
        """Write the last line, if it has no end."""
        if self._rest:
            self.line(self._rest)
            self._rest = b""
        self._file.close()


def _rows(path: Path) -> list[bytes]:
    older = path.with_name(path.name + ".1")
    found: list[bytes] = []
    for file in (older, path):
        with contextlib.suppress(FileNotFoundError):
            found += file.read_bytes().splitlines(keepends=True)
    return found


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _part(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(end - begin)


def _since(row: bytes, moment: datetime) -> bool:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(row.split(b" ", 1)[0].decode()[:26] + "+00:00") >= moment
    return True


def _shown(row: bytes, timestamps: bool) -> bytes:
    return row if timestamps else row.partition(b" ")[2]


async def read_log(
    path: Path,
    *,
    follow: bool = False,
    alive: asyncio.Event | None = None,
    timestamps: bool = False,
    tail_lines: int | None = None,
    since: datetime | None = None,
    since_seconds: float | None = None,
    limit_bytes: int | None = None,
) -> AsyncIterator[bytes]:
    """The log as kubectl asks for it. With `follow` it goes on until `alive` (set when the container ended) is set."""
    if since_seconds is not None:
        since = datetime.now(UTC) - timedelta(seconds=since_seconds)
    rows = _rows(path)
    position = _size(path)
    if since is not None:
        rows = [row for row in rows if _since(row, since)]
    if tail_lines is not None:
        rows = rows[-tail_lines:] if tail_lines > 0 else []
    text = b"".join(_shown(row, timestamps) for row in rows)
    if limit_bytes is not None:
        text = text[:limit_bytes]
    if text:
        yield text
    if not follow:
        return
    ended = False
    rest = b""
    while True:
        size = _size(path)
        if size < position:
            position = 0  # the log was turned over
        if size > position:
            chunk = _part(path, position, size)
            position = size
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield b"".join(_shown(line + b"\n", timestamps) for line in lines)
            continue
        if ended:
            return
        ended = alive is not None and alive.is_set()
        await asyncio.sleep(LOOK_EVERY)
