"""Container logs on disk: time, then the text, a line each. Written by whoever holds the output, read by kubectl.

A log keeps at most two files of 10 MiB: the current one and the one before (`.1`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

LIMIT = 10 * 2**20
LONGEST_LINE = 2**20
LOOK_EVERY = 0.1  # seconds between looks at a followed log
PIECE = 64 * 2**10


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
            self.line(self._broken(text.rstrip(b"\r")))
        self._rest = self._broken(rest)

    def _broken(self, text: bytes) -> bytes:
        """Write what is too long for one line, and return the rest."""
        while len(text) > LONGEST_LINE:
            self.line(text[:LONGEST_LINE])
            text = text[LONGEST_LINE:]
        return text

    def close(self) -> None:
        """Write the last line, if it has no end."""
        if self._rest:
            self.line(self._rest)
            self._rest = b""
        self._file.close()


def _since(row: bytes, moment: datetime) -> bool:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(row.split(b" ", 1)[0].decode()[:26] + "+00:00") >= moment
    return True


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a log is asked for. `tail_lines` and `limit_bytes` None: all."""

    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None

    def shown(self, rows: Iterable[bytes]) -> bytes:
        """Whole rows as they are shown."""
        return b"".join(row if self.timestamps else row.partition(b" ")[2] for row in rows)


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _until_now(path: Path, wish: Wish) -> tuple[bytes, BinaryIO | None]:
    """What is asked for of what is there, and the current file, read to its end."""
    rows: list[bytes] = []
    with contextlib.suppress(FileNotFoundError):
        rows += path.with_name(path.name + ".1").read_bytes().splitlines(keepends=True)
    file = _open(path)
    if file is not None:
        rows += file.read().splitlines(keepends=True)
    if wish.since is not None:
        since = wish.since
        rows = [row for row in rows if _since(row, since)]
    if wish.tail_lines is not None:
        rows = rows[-wish.tail_lines :] if wish.tail_lines > 0 else []
    return wish.shown(rows), file


def _turned_over(file: BinaryIO, path: Path) -> bool:
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


async def read_log(
    path: Path, wish: Wish, *, follow: bool = False, ended: asyncio.Event | None = None
) -> AsyncIterator[bytes]:
    """The log as kubectl asks for it. With `follow` it goes on until `ended` is set, when the container has ended."""
    left = wish.limit_bytes
    async with contextlib.aclosing(_pieces(path, wish, follow, ended)) as pieces:
        async for piece in pieces:
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return


async def _pieces(path: Path, wish: Wish, follow: bool, ended: asyncio.Event | None) -> AsyncGenerator[bytes, None]:
    # A log may have 20 MiB: whoever reads it must not hold up the cluster.
    text, file = await asyncio.to_thread(_until_now, path, wish)
    last_look = False
    try:
        for begin in range(0, len(text), PIECE):
            yield text[begin : begin + PIECE]
        while follow:
            file = file or _open(path)
            added = file.read(PIECE) if file is not None else b""
            if not added and file is not None and _turned_over(file, path):
                added = file.read()  # written after the look above and before the turn
                file.close()
                file = None
                if not added:
                    continue
            if added:
                added += file.readline() if file is not None else b""  # rows are written whole, pieces are not read so
                yield wish.shown(added.splitlines(keepends=True))
            elif last_look:
                return
            elif ended is not None and ended.is_set():
                last_look = True
            else:
                await asyncio.sleep(LOOK_EVERY)
    finally:
        if file is not None:
            file.close()
