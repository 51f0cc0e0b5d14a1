"""kubectl's port-forward: SPDY/3.1 frames inside a WebSocket, an error and a data stream for each connection.

Only what kubectl sends is understood: SYN_STREAM with `streamtype`, `port` and `requestid`, data, RST_STREAM, PING,
GOAWAY, WINDOW_UPDATE and SETTINGS. Frames follow the SPDY draft 3.1; headers are compressed with its fixed dictionary.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ome.local.apiserver.http import WebSocket
from ome.local.node.process.backend import Stream

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FLAG_FIN = 1
_VERSION = 3
_CHUNK = 16 * 1024
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_TAIL = (
    b"\x00\x00\x00\x06200 OK\x00\x00\x00\x07version\x00\x00\x00\x08HTTP/1.1\x00\x00\x00\x03url\x00\x00\x00\x06public"
    b"\x00\x00\x00\nset-cookie\x00\x00\x00\nkeep-alive\x00\x00\x00\x06origin"
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug "
    b"Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    b"application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    b"charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# The dictionary that the SPDY/3 draft fixes: length-prefixed words, then common values.
DICTIONARY = b"".join(struct.pack("!I", len(word)) + word.encode() for word in _WORDS.split()) + _TAIL

Dial = Callable[[int], Awaitable[Stream]]


@dataclass
class _Pair:
    """The two streams of one forwarded connection."""

    port: int
    error: int = 0
    data: int = 0
    incoming: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)


class PortForward:
    """One kubectl port-forward session."""

    def __init__(self, socket: WebSocket, dial: Dial) -> None:
        self._socket = socket
        self._dial = dial
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Until kubectl goes."""
        buffer = b""
        try:
            while (message := await self._socket.receive()) is not None:
                buffer += message
                while len(buffer) >= 8:
                    length = int.from_bytes(buffer[5:8], "big")
                    if len(buffer) < 8 + length:
                        break
                    await self._frame(buffer[:8], buffer[8 : 8 + length])
                    buffer = buffer[8 + length :]
        finally:
            for task in self._tasks:
                task.cancel()

    async def _frame(self, head: bytes, body: bytes) -> None:
        flags = head[4]
        if not head[0] & 0x80:
            await self._data(int.from_bytes(head[:4], "big") & 0x7FFFFFFF, body, bool(flags & FLAG_FIN))
            return
        kind = int.from_bytes(head[2:4], "big")
        if kind == SYN_STREAM:
            await self._open(int.from_bytes(body[:4], "big") & 0x7FFFFFFF, self._headers(body[10:]))
        elif kind == PING:
            await self._send_control(PING, 0, body)
        elif kind == RST_STREAM:
            pair = self._by_stream.pop(int.from_bytes(body[:4], "big") & 0x7FFFFFFF, None)
            if pair is not None:
                pair.incoming.put_nowait(b"")

    def _headers(self, block: bytes) -> dict[str, str]:
        raw = self._inflate.decompress(block)
        count = int.from_bytes(raw[:4], "big")
        position, found = 4, {}
        for _ in range(count):
            words = []
            for _ in range(2):
                length = int.from_bytes(raw[position : position + 4], "big")
                words.append(raw[position + 4 : position + 4 + length].decode())
                position += 4 + length
            found[words[0].lower()] = words[1]
        return found

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        raw = struct.pack("!I", len(headers))
        for name, value in headers.items():
            for word in (name.encode(), value.encode()):
                raw += struct.pack("!I", len(word)) + word
        return self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    async def _open(self, stream: int, headers: Mapping[str, str]) -> None:
        request = headers.get("requestid", "")
        pair = self._pairs.setdefault(request, _Pair(int(headers.get("port") or 0)))
        if headers.get("streamtype") == "error":
            pair.error = stream
        else:
            pair.data = stream
        self._by_stream[stream] = pair
        await self._send_control(SYN_REPLY, 0, struct.pack("!I", stream) + self._packed({}))
        if pair.error and pair.data:
            task = asyncio.create_task(self._forward(request, pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _data(self, stream: int, data: bytes, last: bool) -> None:
        pair = self._by_stream.get(stream)
        if pair is None or stream != pair.data:
            return
        if data:
            pair.incoming.put_nowait(data)
            await self._send_control(WINDOW_UPDATE, 0, struct.pack("!II", stream, len(data)))
        if last:
            pair.incoming.put_nowait(b"")

    async def _forward(self, request: str, pair: _Pair) -> None:
        try:
            reader, writer = await self._dial(pair.port)
        except OSError as error:
            text = f"failed to connect to port {pair.port} in the pod: {error.strerror or error}"
            await self._send_data(pair.error, text.encode(), last=True)
            await self._send_data(pair.data, b"", last=True)
            return
        finally:
            self._pairs.pop(request, None)

        async def inward() -> None:
            with contextlib.suppress(OSError):
                while data := await pair.incoming.get():
                    writer.write(data)
                    await writer.drain()
                writer.write_eof()

        feeding = asyncio.create_task(inward())
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK):
                    await self._send_data(pair.data, data)
            await self._send_data(pair.data, b"", last=True)
            await self._send_data(pair.error, b"", last=True)
        finally:
            feeding.cancel()
            writer.close()
            self._by_stream.pop(pair.data, None)
            self._by_stream.pop(pair.error, None)

    async def _send_data(self, stream: int, data: bytes, *, last: bool = False) -> None:
        head = struct.pack("!I", stream) + bytes([FLAG_FIN if last else 0]) + len(data).to_bytes(3, "big")
        async with self._sending:
            await self._socket.send(head + data)

    async def _send_control(self, kind: int, flags: int, body: bytes) -> None:
        head = struct.pack("!HH", 0x8000 | _VERSION, kind) + bytes([flags]) + len(body).to_bytes(3, "big")
        async with self._sending:
            await self._socket.send(head + body)
