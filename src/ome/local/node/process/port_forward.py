"""kubectl's port-forward: for each connection an error and a data stream of SPDY, which `spdy.py` makes of bytes.

A connection is made when both streams of a request are open. What goes wrong is said on the error stream. Used by
`streams.py` over a WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ome.local.apiserver.http import WebSocket
from ome.local.node.process import spdy
from ome.local.node.process.backend import Stream
from ome.local.node.process.framing import reason

CHUNK: Final = 16 * 1024
WAITING: Final = 64  # data frames that may wait for the pod; then nothing more is read from kubectl
REFUSED: Final = 3  # RST_STREAM status of a stream that makes no sense here

Dial = Callable[[int], Awaitable[Stream]]


@dataclass
class _Pair:
    """The two streams of one forwarded connection."""

    port: int
    error: int = 0
    data: int = 0
    incoming: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(WAITING))
    over: bool = False


class PortForward:
    """One kubectl port-forward session."""

    def __init__(self, socket: WebSocket, dial: Dial) -> None:
        self._socket = socket
        self._dial = dial
        self._session = spdy.Session()
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Until kubectl goes, or says what cannot be understood."""
        try:
            while (message := await self._socket.receive()) is not None:
                for event in self._session.receive(message):
                    await self._take(event)
        except spdy.ProtocolError:
            return  # the connection is closed by whoever opened it to us
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, frame: bytes) -> None:
        """Whole frames only, one after the other. That kubectl is gone shows where it is listened to."""
        async with self._sending:
            with contextlib.suppress(ConnectionError):
                await self._socket.send(frame)

    async def _take(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened(stream, headers):
                await self._open(stream, headers)
            case spdy.Data(stream, data, last):
                await self._data(stream, data, last)
            case spdy.Reset(stream):
                pair = self._by_stream.pop(stream, None)
                if pair is not None:
                    await self._pass_on(pair, b"")
            case spdy.Pinged(number):
                await self._send(self._session.ponged(number))

    async def _open(self, stream: int, headers: Mapping[str, str]) -> None:
        request, port = headers.get("requestid", ""), headers.get("port", "")
        if headers.get("streamtype") not in ("error", "data") or not port.isdigit():
            await self._send(self._session.reset(stream, REFUSED))
            return
        pair = self._pairs.setdefault(request, _Pair(int(port)))
        if headers["streamtype"] == "error":
            pair.error = stream
        else:
            pair.data = stream
        self._by_stream[stream] = pair
        await self._send(self._session.replied(stream))
        if pair.error and pair.data:
            del self._pairs[request]
            task = asyncio.create_task(self._forward(pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _data(self, stream: int, data: bytes, last: bool) -> None:
        pair = self._by_stream.get(stream)
        if pair is None or stream != pair.data:
            return
        if data:
            await self._pass_on(pair, data)
            await self._send(self._session.consumed(stream, len(data)))
        if last:
            await self._pass_on(pair, b"")

    async def _pass_on(self, pair: _Pair, data: bytes) -> None:
        if not pair.over:
            await pair.incoming.put(data)

    async def _forward(self, pair: _Pair) -> None:
        try:
            reader, writer = await self._dial(pair.port)
        except OSError as error:
            text = f"failed to connect to port {pair.port} in the pod: {reason(error)}"
            await self._end(pair, text)
            return
        feeding = asyncio.create_task(_feed(pair.incoming, writer))
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK):
                    await self._send(self._session.data(pair.data, data))
            await self._end(pair, "")
        finally:
            feeding.cancel()
            writer.close()

    async def _end(self, pair: _Pair, error: str) -> None:
        """Close both streams, and let go of who waits to pass something on to the pod."""
        pair.over = True
        self._by_stream.pop(pair.data, None)
        self._by_stream.pop(pair.error, None)
        while not pair.incoming.empty():
            pair.incoming.get_nowait()
        await self._send(self._session.data(pair.error, error.encode(), last=True))
        await self._send(self._session.data(pair.data, b"", last=True))


async def _feed(incoming: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    """Pass what comes from kubectl to the pod; one that hears nothing any more lets the rest fall."""
    open_ = True
    while data := await incoming.get():
        if not open_:
            continue
        try:
            writer.write(data)
            await writer.drain()
        except OSError:
            open_ = False
    if open_:
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()
