"""SPDY/3.1 frames: what a client's bytes mean, and the bytes of the answers."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.node.process.spdy import (
    DICTIONARY,
    Data,
    Event,
    GoneAway,
    Opened,
    Pinged,
    ProtocolError,
    Reset,
    Session,
)

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9


class Client:
    """The other side, written from the draft alone."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def block(self, headers: Mapping[str, str]) -> bytes:
        raw = struct.pack("!I", len(headers))
        for name, value in headers.items():
            raw += struct.pack("!I", len(name)) + name.encode() + struct.pack("!I", len(value)) + value.encode()
        return self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def open(self, stream: int, headers: Mapping[str, str], flags: int = 0) -> bytes:
        body = struct.pack("!IIBB", stream, 0, 0, 0) + self.block(headers)
        return control(SYN_STREAM, body, flags)

    def unpack(self, block: bytes) -> bytes:
        return self._inflate.decompress(block)


def control(kind: int, body: bytes, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack("!HH", 0x8000 | version, kind) + bytes([flags]) + len(body).to_bytes(3, "big") + body


def data(stream: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack("!I", stream) + bytes([flags]) + len(body).to_bytes(3, "big") + body


def events(*frames: bytes) -> list[Event]:
    return [*Session().receive(b"".join(frames))]


def test_the_dictionary_is_that_of_the_draft() -> None:
    # Every SPDY/3 header block begins with these bytes: zlib's head and the checksum of the dictionary.
    assert zlib.compressobj(zdict=DICTIONARY).flush(zlib.Z_FINISH)[2:6].hex() == "e3c6a7c2"


def test_streams_are_opened_with_headers_one_block_after_the_other() -> None:
    client = Client()
    first = {"StreamType": "error", "port": "8080", "requestID": "0"}
    second = {"streamtype": "data", "port": "8080", "requestid": "0"}
    assert events(client.open(1, first), client.open(3, second, flags=1)) == [
        Opened(1, {"streamtype": "error", "port": "8080", "requestid": "0"}),
        Opened(3, second, last=True),
    ]


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        (data(3, b"bytes"), [Data(3, b"bytes")]),
        (data(3, b"", flags=1), [Data(3, b"", last=True)]),
        (control(RST_STREAM, struct.pack("!II", 3, 5)), [Reset(3)]),
        (control(PING, struct.pack("!I", 7)), [Pinged(7)]),
        (control(GOAWAY, struct.pack("!II", 3, 0)), [GoneAway()]),
        (control(SETTINGS, struct.pack("!III", 1, 4, 100)), []),
        (control(WINDOW_UPDATE, struct.pack("!II", 3, 65536)), []),
        (control(99, b"anything"), []),
    ],
)
def test_frames_are_events(frame: bytes, wanted: list[Event]) -> None:
    assert events(frame) == wanted


def test_a_headers_frame_keeps_the_compression_in_step() -> None:
    client = Client()
    first = client.open(1, {"x": "y"})
    more = control(HEADERS, struct.pack("!I", 1) + client.block({"a": "b"}))
    assert events(first, more, client.open(3, {"z": "w"})) == [
        Opened(1, {"x": "y"}),
        Opened(3, {"z": "w"}),
    ]


@given(cuts=st.lists(st.integers(min_value=0, max_value=200)))
def test_where_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    whole = Client().open(1, {"streamtype": "data"}) + data(1, b"x" * 40) + control(PING, struct.pack("!I", 9))
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    session = Session()
    found = [event for begin, end in itertools.pairwise(places) for event in session.receive(whole[begin:end])]
    assert found == [Opened(1, {"streamtype": "data"}), Data(1, b"x" * 40), Pinged(9)]


@pytest.mark.parametrize(
    "frame",
    [
        control(PING, b"\0\0\0\1", version=2),
        control(PING, b"\0"),
        control(RST_STREAM, b"\0\0\0\1"),
        control(SYN_STREAM, b"\0" * 9),
        control(SYN_STREAM, b"\0" * 10 + b"no header block"),
        control(SYN_STREAM, b"\0" * 10 + zlib.compressobj(zdict=DICTIONARY).compress(b"") + b"\xff\xff"),
    ],
)
def test_what_is_no_spdy_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        events(frame)


def test_a_header_block_that_says_more_words_than_it_has_is_refused() -> None:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    block = deflate.compress(struct.pack("!II", 1, 1000) + b"short") + deflate.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(ProtocolError, match="middle of a word"):
        events(control(SYN_STREAM, b"\0" * 10 + block))


def test_a_header_block_that_unpacks_to_too_much_is_refused() -> None:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    block = deflate.compress(struct.pack("!II", 1, 2**24) + b"\0" * 2**24) + deflate.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(ProtocolError, match="too long"):
        events(control(SYN_STREAM, b"\0" * 10 + block))


def test_answers_are_frames_that_the_other_side_reads() -> None:
    session, client = Session(), Client()
    for stream in (1, 3):
        reply = session.replied(stream)
        assert reply[:4] == struct.pack("!HH", 0x8003, SYN_REPLY)
        assert int.from_bytes(reply[5:8], "big") == len(reply) - 8
        assert reply[8:12] == struct.pack("!I", stream)
        assert client.unpack(reply[12:]) == b"\0\0\0\0"
    assert session.ponged(7) == control(PING, struct.pack("!I", 7))
    assert session.consumed(3, 100) == control(WINDOW_UPDATE, struct.pack("!II", 3, 100))
    assert session.reset(3, 5) == control(RST_STREAM, struct.pack("!II", 3, 5))
    assert session.data(3, b"bytes", last=True) == data(3, b"bytes", flags=1)
