"""SPDY/3.1 frames as kubectl sends them through a WebSocket to forward ports. Sans I/O.

`Session.receive` takes bytes and gives events, the other methods give bytes to send. Only what a server of
port-forwarding needs: streams are opened by the client, each is answered by an empty SYN_REPLY. Frames follow the SPDY
draft 3.1; headers are compressed with its fixed dictionary. No library that is kept up speaks it (2026).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FLAG_FIN: Final = 1
LONGEST_FRAME: Final = 2**24 - 1
LONGEST_HEADERS: Final = 2**16  # bytes of one header block, unpacked
_VERSION: Final = 3
_HEAD: Final = 8
_STREAM: Final = 0x7FFFFFFF
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
DICTIONARY: Final = b"".join(struct.pack("!I", len(word)) + word.encode() for word in _WORDS.split()) + _TAIL


class ProtocolError(Exception):
    """The other side does not speak SPDY/3.1; the connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream was opened; header names are in lower case. `last`: nothing comes on it."""

    stream: int
    headers: Mapping[str, str]
    last: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream. `last`: no more come."""

    stream: int
    data: bytes
    last: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream was given up."""

    stream: int


@dataclass(frozen=True, slots=True)
class Pinged:
    """To be answered with the same number."""

    number: int


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The other side opens no more streams."""


Event = Opened | Data | Reset | Pinged | GoneAway


class Session:
    """One connection: what is not yet a whole frame, and the state of the header compression both ways."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Event]:
        """The events of the frames that are whole now. Raises ProtocolError."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[5:8], "big")
            if len(self._buffer) < end:
                return
            head, body = bytes(self._buffer[:_HEAD]), bytes(self._buffer[_HEAD:end])
            del self._buffer[:end]
            event = self._event(head, body)
            if event is not None:
                yield event

    def _event(self, head: bytes, body: bytes) -> Event | None:
        last = bool(head[4] & FLAG_FIN)
        first = int.from_bytes(head[:4], "big")
        if not head[0] & 0x80:
            return Data(first & _STREAM, body, last)
        version, kind = (first >> 16) & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"SPDY version {version} is not spoken here")
        if kind in (SYN_STREAM, RST_STREAM, PING) and len(body) < {SYN_STREAM: 10, RST_STREAM: 8, PING: 4}[kind]:
            raise ProtocolError(f"frame of type {kind} is too short: {len(body)} bytes")
        number = int.from_bytes(body[:4], "big")
        if kind == SYN_STREAM:
            return Opened(number & _STREAM, self._headers(body[10:]), last)
        if kind == HEADERS:
            self._headers(body[4:])  # the compression goes on over all header blocks
        elif kind == RST_STREAM:
            return Reset(number & _STREAM)
        elif kind == PING:
            return Pinged(number)
        elif kind == GOAWAY:
            return GoneAway()
        return None  # SETTINGS and WINDOW_UPDATE: the connection below holds back by itself

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            raw = self._inflate.decompress(block, LONGEST_HEADERS)
        except zlib.error as error:
            raise ProtocolError(f"a header block cannot be unpacked: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ProtocolError("a header block is too long")
        count = int.from_bytes(raw[:4], "big")
        position, found = 4, {}
        for _ in range(count):
            name, position = _word(raw, position)
            value, position = _word(raw, position)
            found[name.lower()] = value
        return found

    def replied(self, stream: int) -> bytes:
        """The answer to an opened stream."""
        packed = self._deflate.compress(struct.pack("!I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, struct.pack("!I", stream) + packed)

    def ponged(self, number: int) -> bytes:
        """The answer to a ping."""
        return _control(PING, struct.pack("!I", number))

    def consumed(self, stream: int, size: int) -> bytes:
        """Room for as many bytes more on a stream."""
        return _control(WINDOW_UPDATE, struct.pack("!II", stream, size))

    def reset(self, stream: int, status: int) -> bytes:
        """Give a stream up. Status 1 is a protocol error, 3 refuses it, 5 cancels it."""
        return _control(RST_STREAM, struct.pack("!II", stream, status))

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """A data frame of at most `LONGEST_FRAME` bytes."""
        return struct.pack("!I", stream) + bytes([FLAG_FIN if last else 0]) + len(data).to_bytes(3, "big") + data


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack("!HHI", 0x8000 | _VERSION, kind, len(body)) + body


def _word(raw: bytes, position: int) -> tuple[str, int]:
    begin = position + 4
    end = begin + int.from_bytes(raw[position:begin], "big")
    if end > len(raw):
        raise ProtocolError("a header block ends in the middle of a word")
    return raw[begin:end].decode("utf-8", "replace"), end
