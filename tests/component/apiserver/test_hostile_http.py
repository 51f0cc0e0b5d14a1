"""What arrives on the socket and is odd or no HTTP at all: each connection gets its answer, and the log stays quiet."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest

from ome.local.apiserver.http import User
from ome.local.apiserver.serve import serve
from ome.local.apiserver.server import ApiServer
from tests.component.apiserver.api import ADMIN, CONFIG_MAPS

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

WHO = f"Authorization: Bearer {ADMIN}\r\n"
GET = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\n{WHO}"
POST = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\n{WHO}Content-Type: application/json\r\n"


async def _talk(port: int, data: bytes, *, slowly: bool = False) -> list[int]:
    """Send raw bytes, read until the server says no more; the status codes of all answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for at in range(0, len(data), 16) if slowly else (0,):
        writer.write(data[at : at + 16] if slowly else data)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        answer = await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
    return [int(part.split(b" ", 2)[1]) for part in answer.split(b"HTTP/1.")[1:]]


def _serving(test: Callable[[int], Awaitable[None]]) -> None:
    async def main() -> None:
        server = ApiServer(tokens={ADMIN: User("admin", groups=("system:masters",))}, seed=1)
        await server.start()
        serving = await serve(server)
        try:
            await test(serving.port)
        finally:
            await serving.close()

    asyncio.run(asyncio.wait_for(main(), 60))


LAST = "Connection: close\r\n\r\n"
SENT: dict[str, tuple[str, list[int]]] = {
    "a request of HTTP 1.0 is answered, and the connection closed": (f"GET /version HTTP/1.0\r\n{WHO}\r\n", [200]),
    "requests may follow one another without waiting": (f"{GET}\r\n" * 9 + GET + LAST, [200] * 10),
    "a header may be as long as Go lets it": (f"{GET}X-Long: {'a' * 100_000}\r\n{LAST}", [200]),
    "so may an address": (GET.replace("configmaps", f"configmaps?x={'a' * 100_000}") + LAST, [200]),
    "a body is taken as it comes, whatever encoding it claims": (
        f"{POST}Content-Encoding: gzip\r\nContent-Length: 4\r\n{LAST}oops",
        [400],
    ),
    "also when it could be read": (f"{POST}Content-Encoding: deflate\r\nContent-Length: 2\r\n{LAST}{{}}", [422]),
    "what is no HTTP is refused": ("\x16\x03\x01 hello\r\n\r\n", [400]),
    "so is an unknown version": ("GET / HTTP/9.9\r\n\r\n", [400]),
    "so is a length below zero": (f"{POST}Content-Length: -5\r\n\r\n", [400]),
    "so are two ways of telling the length": (
        f"{POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        [400],
    ),
}


@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "slowly"])
@pytest.mark.parametrize("sentence", SENT)
def test_every_connection_gets_its_answer(sentence: str, slowly: bool, caplog: pytest.LogCaptureFixture) -> None:
    sent, wanted = SENT[sentence]
    if slowly and len(sent) > 10_000:
        pytest.skip("slow and long is only long")

    async def test(port: int) -> None:
        assert await _talk(port, sent.encode(), slowly=slowly) == wanted

    with caplog.at_level(logging.WARNING):
        _serving(test)
    assert caplog.records == []


def test_a_client_that_goes_in_the_middle_leaves_the_server_serving(caplog: pytest.LogCaptureFixture) -> None:
    async def test(port: int) -> None:
        begun = [
            GET.encode(),
            f"{POST}Content-Length: 100\r\n\r\n{{".encode(),
            f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\n".encode(),
            f"GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: a\r\n{WHO}\r\n".encode(),
        ]
        for data in begun:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.transport.abort()
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "after"}})
        request = f"{POST}Content-Length: {len(body)}\r\n{LAST}{body}"
        assert await _talk(port, request.encode()) == [201]

    with caplog.at_level(logging.WARNING):
        _serving(test)
    assert caplog.records == []
