"""How bytes travel over the relay: frames with a channel for exec, a plain pump for connections, and its sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_HEAD = struct.Struct("!BI")


@contextlib.contextmanager
def short_path(socket: Path) -> Iterator[str]:
    """A name of a Unix socket that the kernel takes however deep its folder is (it allows 107 bytes). Linux only."""
    folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)


async def write_frame(writer: asyncio.StreamWriter, channel: int, data: bytes) -> None:
    """One frame: channel, length, bytes.

    Channels: 0 stdin (empty: its end), 1 stdout, 2 stderr, 3 exit code, 4 the terminal's size as kubectl sends it.
    """
    writer.write(_HEAD.pack(channel, len(data)) + data)
    with contextlib.suppress(ConnectionError):
        await writer.drain()


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes] | None:
    """The next frame, or None at the end of the stream."""
    try:
        channel, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return channel, await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


def reason(error: OSError) -> str:
    """Why something failed, in the system's words: asyncio's name the address and not the reason."""
    return os.strerror(error.errno) if error.errno else error.strerror or str(error) or "timed out"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, OSError):
        return
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


async def pump(
    left_reader: asyncio.StreamReader,
    left_writer: asyncio.StreamWriter,
    right_reader: asyncio.StreamReader,
    right_writer: asyncio.StreamWriter,
) -> None:
    """Copy both ways until both ends are done; then both are closed."""
    try:
        await asyncio.gather(_copy(left_reader, right_writer), _copy(right_reader, left_writer))
    finally:
        for writer in (left_writer, right_writer):
            writer.close()
