"""A scripted server at the HTTP edge: for tests of the client layer alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ome.kube.requests import Request
from ome.kube.transport import Response, StreamResponse

Answer = Response | Exception


def answer(status: int, body: Any, **headers: str) -> Response:
    """A JSON response."""
    return Response(status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def failure(code: int, reason: str, message: str = "", **details: Any) -> Response:
    """A Status failure."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return answer(code, {**body, "details": details})


class FakeTransport:
    """`handler` answers plain requests; `streams` are played for watches, one after another."""

    def __init__(self, handler: Callable[[Request], Answer]) -> None:
        self._handler = handler
        self.requests: list[Request] = []
        self.streams: list[Callable[[Request], AsyncIterator[bytes]]] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        found = self._handler(request)
        if isinstance(found, Exception):
            raise found
        return found

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self.requests.append(request)
        if not self.streams:
            yield StreamResponse(200, {}, _silent())
            return
        yield StreamResponse(200, {}, self.streams.pop(0)(request))

    async def close(self) -> None: ...


async def _silent() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""  # pragma: no cover
