"""Forwarded connections: pairs of streams, what goes wrong, and how much may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ome.local.node.process.backend import Stream
from ome.local.node.process.port_forward import PortForward
from tests.unit.local_node.test_spdy import Client, control, data


class Socket:
    """A WebSocket whose other end is the test."""

    protocol: str | None = "SPDY/3.1+portforward.k8s.io"

    def __init__(self) -> None:
        self.typed: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        self.heard.put_nowait(data)

    async def receive(self) -> bytes | None:
        return await self.typed.get()

    async def close(self) -> None:
        self.typed.put_nowait(None)

    async def on(self, stream: int) -> tuple[bytes, bool]:
        """The next data frame of a stream, and whether it is the last; other frames are passed over."""
        while True:
            frame = await self.heard.get()
            if not frame[0] & 0x80 and int.from_bytes(frame[:4], "big") == stream:
                return frame[8:], bool(frame[4])


def pair(client: Client, request: str = "0", port: int = 8080) -> bytes:
    number = 1 + 4 * int(request)
    return client.open(number, {"streamtype": "error", "port": str(port), "requestid": request}) + client.open(
        number + 2, {"streamtype": "data", "port": str(port), "requestid": request}
    )


def forwarding(
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    body: Callable[[Socket], Awaitable[None]],
) -> None:
    """Run `body` beside a session whose connections reach `accept`."""

    async def run() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def dial(wanted: int) -> Stream:
            if wanted != 8080:
                raise ConnectionRefusedError(111, "Connection refused")
            return await asyncio.open_connection("127.0.0.1", port)

        socket = Socket()
        session = asyncio.create_task(PortForward(socket, dial).run())
        try:
            async with asyncio.timeout(20):
                await body(socket)
                socket.typed.put_nowait(None)
                await session
        finally:
            session.cancel()
            server.close()

    asyncio.run(run())


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while text := await reader.read(1000):
        writer.write(text.upper())
        await writer.drain()
    writer.close()


def test_bytes_go_both_ways_on_several_connections_at_once() -> None:
    async def body(socket: Socket) -> None:
        client = Client()
        await socket.typed.put(pair(client, "0") + pair(client, "1"))
        await socket.typed.put(data(3, b"first") + data(7, b"second"))
        assert await socket.on(3) == (b"FIRST", False)
        await socket.typed.put(data(7, b"", flags=1))
        assert [await socket.on(7), await socket.on(7)] == [(b"SECOND", False), (b"", True)]
        await socket.typed.put(data(3, b"again"))
        assert await socket.on(3) == (b"AGAIN", False)

    forwarding(_echo, body)


def test_a_refused_connection_is_said_on_the_error_stream() -> None:
    async def body(socket: Socket) -> None:
        await socket.typed.put(pair(Client(), port=81))
        assert await socket.on(1) == (b"failed to connect to port 81 in the pod: Connection refused", True)

    forwarding(_echo, body)


def test_a_stream_that_is_neither_error_nor_data_is_refused() -> None:
    async def body(socket: Socket) -> None:
        await socket.typed.put(Client().open(1, {"streamtype": "other", "port": "8080"}))
        assert await socket.heard.get() == control(3, b"\0\0\0\1\0\0\0\3")

    forwarding(_echo, body)


def test_a_ping_is_answered() -> None:
    async def body(socket: Socket) -> None:
        ping = control(6, b"\0\0\0\x09")
        await socket.typed.put(ping)
        assert await socket.heard.get() == ping

    forwarding(_echo, body)


def test_a_pod_that_reads_nothing_holds_kubectl_back() -> None:
    async def body(socket: Socket) -> None:
        await socket.typed.put(pair(Client()))
        for _ in range(400):
            await socket.typed.put(data(3, b"x" * 65536))
        waiting = -1
        while waiting != socket.typed.qsize():
            waiting = socket.typed.qsize()
            await asyncio.sleep(0.3)
        assert waiting > 100
        released.set()
        while socket.typed.qsize():
            await asyncio.sleep(0.02)

    released: asyncio.Event

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        while await reader.read(65536):
            pass
        writer.close()

    async def begin(socket: Socket) -> None:
        nonlocal released
        released = asyncio.Event()
        await body(socket)

    forwarding(deaf, begin)


def test_a_pod_that_closes_ends_both_streams_and_what_still_comes_is_dropped() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        await reader.read(10)
        writer.close()

    async def body(socket: Socket) -> None:
        client = Client()
        await socket.typed.put(pair(client) + data(3, b"hello"))
        assert await socket.on(1) == (b"", True)
        for _ in range(200):
            await socket.typed.put(data(3, b"x" * 1000))
        await socket.typed.put(control(6, b"\0\0\0\x09"))
        while await socket.heard.get() != control(6, b"\0\0\0\x09"):
            pass

    forwarding(hang_up, body)
