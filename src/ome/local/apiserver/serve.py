"""HTTP and TLS before the API server: aiohttp's low-level server, one handler, no routes.

Turns HTTP requests into `HttpRequest`s and answers into HTTP, streams and WebSockets included.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError

from ome.local.apiserver.bodies import BODY_LIMIT
from ome.local.apiserver.faults import Dropped, NoAnswer
from ome.local.apiserver.http import HttpRequest, HttpResponse, Upgrade, User
from ome.local.apiserver.server import ApiServer

# Go's, in bytes: of a line, and of a header.
HEADER_LIMIT: Final = 1 << 20


@dataclass(slots=True)
class Serving:
    """A server that listens. `close()` ends open watches first."""

    server: ApiServer
    runner: web.ServerRunner
    port: int

    async def close(self) -> None:
        await self.server.stop()
        await self.runner.cleanup()


async def serve(
    server: ApiServer, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Serving:
    """Listen; port 0 takes a free one. The API server must have been started."""
    handler = web.Server(
        _Handler(server).handle,
        handler_cancellation=True,
        access_log=None,
        logger=_logger(),
        auto_decompress=False,  # a real server takes bodies as they come
        max_line_size=HEADER_LIMIT,
        max_field_size=HEADER_LIMIT,
    )
    runner = web.ServerRunner(handler, shutdown_timeout=2.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=512)
    await site.start()
    listening: Any = site._server
    port = int(listening.sockets[0].getsockname()[1])
    server.listen_at(f"{host}:{port}")
    return Serving(server, runner, port)


class _NotOurs(logging.Filter):
    """Keeps what is no HTTP out of the log: the client is told, and nobody else can do anything about it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _logger() -> logging.Logger:
    found = logging.getLogger("ome.local.apiserver.http")
    if not any(isinstance(known, _NotOurs) for known in found.filters):
        found.addFilter(_NotOurs())
    return found


class _Handler:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _read(request) if request.can_read_body else b""
        path, _, query = request.raw_path.partition("?")
        asked = HttpRequest(request.method, path, query, _headers(request), body, _certificate(request))
        try:
            response = await self._server.handle(asked)
        except NoAnswer:
            _abort(request)
            raise
        if response.upgrade is not None:
            return await upgraded(request, response.upgrade)
        if isinstance(response.body, bytes):
            answer = web.Response(status=response.status, body=response.body)
            _set_headers(answer, response)
            return answer
        return await _streamed(request, response, response.body)


async def _read(request: web.BaseRequest) -> bytes:
    """The body, but no more than what already is too much."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        if size <= BODY_LIMIT:
            chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _headers(request: web.BaseRequest) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in request.headers.items():
        name = key.lower()
        out[name] = f"{out[name]}\n{value}" if name in out and name.startswith("impersonate-") else value
    return out


def _certificate(request: web.BaseRequest) -> User | None:
    """The identity of a verified client certificate: its common name, its organizations as groups."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    parts = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
    name = next((value for key, value in parts if key == "commonName"), "")
    groups = tuple(value for key, value in parts if key == "organizationName")
    return User(name, groups=groups) if name else None


def _set_headers(answer: web.StreamResponse, response: HttpResponse) -> None:
    for name, value in response.header_items():
        answer.headers.add(name, value)


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _streamed(
    request: web.BaseRequest, response: HttpResponse, chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    answer = web.StreamResponse(status=response.status)
    _set_headers(answer, response)
    try:
        await answer.prepare(request)
        async for chunk in chunks:
            await answer.write(chunk)
        await answer.write_eof()
    except Dropped:
        _abort(request)
        raise
    except ConnectionError:
        pass
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    return answer


class _Socket:
    """A WebSocket as the API server knows it."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def close(self) -> None:
        await self._socket.close()


async def upgraded(request: web.BaseRequest, upgrade: Upgrade) -> web.StreamResponse:
    """Make a WebSocket of the request and let `upgrade` talk; 400 when it asks for none."""
    socket = web.WebSocketResponse(protocols=upgrade.protocols, max_msg_size=0)
    ready = socket.can_prepare(request)
    if not ready.ok:
        if request.headers.get("upgrade", "").upper().startswith("SPDY"):
            text = "SPDY is not spoken here, WebSocket is: kubectl 1.31 and newer use it"
            return web.Response(status=400, text=text)
        return web.Response(status=400, text="unable to upgrade: WebSocket headers are missing\n")
    await socket.prepare(request)
    try:
        await upgrade.run(_Socket(socket))
    except (ConnectionError, asyncio.CancelledError):
        raise
    finally:
        if not socket.closed:
            await socket.close()
    return socket
