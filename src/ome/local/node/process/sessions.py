"""A conversation with a command or a container: frames of the relay on one side, pipes or a terminal on the other.

Used by whoever is the parent of the processes (`supervisor.py`, `plain.py`). Channels are those of `framing.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import struct
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ome.local.node.process.framing import read_frame, write_frame
from ome.local.node.process.logs import LogWriter

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
EXIT: Final = 3
RESIZE: Final = 4
CHUNK: Final = 65536
BEHIND: Final = 256  # chunks that a listener may be behind before it is let go
LAST_WORDS: Final = 1.0  # seconds that output may still come after the end of its process
FAREWELL: Final = 10.0  # seconds that the other side has to read the end


# -- pipes and terminals -----------------------------------------------------------------------------------------------


async def pipe_reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """A stream of what comes out of a pipe or a terminal; the transport owns the descriptor."""
    reader = asyncio.StreamReader(limit=2**20)
    file = os.fdopen(descriptor, "rb", 0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader, transport


class PipeWriter(asyncio.BaseProtocol):
    """Writes into a pipe or a terminal without holding up the loop."""

    def __init__(self) -> None:
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def of(cls, descriptor: int) -> PipeWriter:
        """Of this descriptor, which it owns."""
        file = os.fdopen(descriptor, "wb", 0)
        transport, protocol = await asyncio.get_running_loop().connect_write_pipe(cls, file)
        protocol._transport = transport
        return protocol

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Returns when there is room again; what a reader that is gone would have got is dropped."""
        if self._transport is not None:
            self._transport.write(data)
            await self._room.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def take_terminal(descriptor: int) -> None:
    """Make a terminal the controlling one of this process, which leads its session, and its input and outputs."""
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
    for target in (0, 1, 2):
        os.dup2(descriptor, target)


def resize(terminal: int, data: bytes) -> None:
    """Give a terminal the size that kubectl sends: `{"Width": 80, "Height": 24}`."""
    with contextlib.suppress(ValueError, TypeError, KeyError, struct.error, OSError):
        size = json.loads(data)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What comes, until the end. A terminal whose last user is gone ends with EIO."""
    try:
        while data := await reader.read(CHUNK):
            yield data
    except OSError as error:
        if error.errno != errno.EIO:
            raise


# -- a container's output and input ------------------------------------------------------------------------------------


class Output:
    """What a container says: into its log, and to whoever listens."""

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._ended = False

    async def follow(self, reader: asyncio.StreamReader) -> None:
        """Until the end of the stream."""
        try:
            async for data in chunks(reader):
                self._log.feed(data)
                for listener in [*self._listeners]:
                    self._tell(listener, data)
        finally:
            self._ended = True
            self._log.close()
            for listener in [*self._listeners]:
                self._tell(listener, b"")

    def _tell(self, listener: asyncio.Queue[bytes], data: bytes) -> None:
        if listener.qsize() >= BEHIND:
            self._listeners.discard(listener)
            data = b""
        listener.put_nowait(data)

    async def listen(self) -> AsyncIterator[bytes]:
        """What is said from now on, until the end; a listener that falls far behind is let go."""
        if self._ended:
            return
        listener: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners.add(listener)
        try:
            while data := await listener.get():
                yield data
        finally:
            self._listeners.discard(listener)


class Input:
    """Where what somebody types goes: a pipe, a terminal, or nowhere."""

    def __init__(
        self, writer: PipeWriter | None, terminal: int | None, screens: Sequence[asyncio.ReadTransport]
    ) -> None:
        """`terminal` is a descriptor of our side of it, owned from now on; `screens` are what is read from it."""
        self._writer = writer
        self._terminal = terminal
        self._screens = screens

    async def feed(self, reader: asyncio.StreamReader, *, closing: bool) -> None:
        """Pass frames on until the other side is gone. With `closing` the end of what it sends is passed on too."""
        while frame := await read_frame(reader):
            channel, data = frame
            if channel == RESIZE and self._terminal is not None:
                resize(self._terminal, data)
            elif channel == STDIN and data and self._writer is not None:
                await self._writer.write(data)
            elif channel == STDIN and not data and closing:
                self._end()
        if closing:
            self.close()

    def _end(self) -> None:
        """End the input of a pipe; a terminal has no such end."""
        if self._terminal is None and self._writer is not None:
            self._writer.close()

    def close(self) -> None:
        """End the input; a terminal is hung up, which ends what runs there."""
        if self._writer is not None:
            self._writer.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
            for screen in self._screens:
                screen.close()


@dataclass(frozen=True, slots=True)
class Ends:
    """The descriptors between us and a process to be: pipes, or the two sides of a terminal."""

    theirs: tuple[int, int, int]
    writing: int | None
    reading: Mapping[int, int]
    terminal: int | None = None

    @classmethod
    def of(cls, *, tty: bool, stdin: bool, merged: bool) -> Ends:
        """Make them. Without `stdin` the process has nothing to read; `merged` has one pipe for both its outputs."""
        if tty:
            ours, theirs = os.openpty()
            return cls((theirs, theirs, theirs), os.dup(ours) if stdin else None, {STDOUT: ours}, os.dup(ours))
        theirs_in, writing = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
        ours_out, theirs_out = os.pipe()
        if merged:
            return cls((theirs_in, theirs_out, theirs_out), writing, {STDOUT: ours_out})
        ours_error, theirs_error = os.pipe()
        return cls((theirs_in, theirs_out, theirs_error), writing, {STDOUT: ours_out, STDERR: ours_error})

    def take(self) -> None:
        """In the process to be, leader of its session: make them its own."""
        if self.terminal is not None:
            take_terminal(self.theirs[0])
            return
        for target, descriptor in enumerate(self.theirs):
            os.dup2(descriptor, target)

    def drop(self) -> None:
        """Close all of them: nothing was started."""
        mine = [self.writing, self.terminal, *self.reading.values()]
        for descriptor in {*self.theirs, *(found for found in mine if found is not None)}:
            os.close(descriptor)

    async def ours(self) -> tuple[Input, dict[int, asyncio.StreamReader]]:
        """After the fork: let go of their side, and open ours."""
        for descriptor in {*self.theirs}:
            os.close(descriptor)
        outputs, screens = {}, []
        for channel, descriptor in self.reading.items():
            outputs[channel], screen = await pipe_reader(descriptor)
            screens.append(screen)
        writer = await PipeWriter.of(self.writing) if self.writing is not None else None
        return Input(writer, self.terminal, screens), outputs


# -- conversations -----------------------------------------------------------------------------------------------------


async def run_command(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    typed: Input,
    outputs: Mapping[int, asyncio.StreamReader],
    ended: asyncio.Future[int],
) -> None:
    """Talk with a command until it has ended; then its exit code goes out."""

    async def drain(channel: int, stream: asyncio.StreamReader) -> None:
        async for data in chunks(stream):
            await write_frame(writer, channel, data)

    feeding = asyncio.ensure_future(typed.feed(reader, closing=True))
    draining = [asyncio.ensure_future(drain(channel, stream)) for channel, stream in outputs.items()]
    try:
        code = await ended
        # What the command left running may keep its output open.
        await asyncio.wait(draining, timeout=LAST_WORDS)
        await write_frame(writer, EXIT, str(code).encode())
    finally:
        await _cancel(feeding, *draining)
        typed.close()


async def attach(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    typed: Input,
    output: Output,
    ended: asyncio.Future[int],
    *,
    once: bool,
) -> None:
    """Talk with a running container until it ends or the other side goes; `once` ends its input with that."""

    async def drain() -> None:
        async for data in output.listen():
            await write_frame(writer, STDOUT, data)
        await write_frame(writer, EXIT, str(await asyncio.shield(ended)).encode())

    tasks = [asyncio.ensure_future(drain()), asyncio.ensure_future(typed.feed(reader, closing=once))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(*tasks)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    """End them, and wait for it; one that failed before is still reported by the loop."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def see_off(reader: asyncio.StreamReader) -> None:
    """Wait until the other side, which has been told the end, closes the connection.

    Closed from here it would break under what the other side still writes (the end of an input, say), and then it would
    lose what it had not read yet: the last output and the exit code.
    """
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(FAREWELL):
            while await reader.read(CHUNK):
                pass
