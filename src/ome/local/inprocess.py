"""A transport for `ome.kube.Client` that calls the API server directly: no sockets, no threads, one event loop.

With a loop of virtual time a whole cluster runs deterministically. The client's code is the same as over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ome.kube.errors import TransportError
from ome.kube.requests import Request
from ome.kube.transport import Response, StreamResponse
from ome.local.apiserver.faults import Dropped, NoAnswer
from ome.local.apiserver.http import HttpRequest, HttpResponse
from ome.local.apiserver.server import ApiServer


class InProcessTransport:
    """Sends requests to an `ApiServer` in the same loop, with the given bearer token."""

    def __init__(self, server: ApiServer, token: str, *, user_agent: str = "ome") -> None:
        self._server = server
        self._headers = {"authorization": f"Bearer {token}", "user-agent": user_agent}

    async def send(self, request: Request) -> Response:
        """The whole answer. Raises TransportError when a fault leaves the request unanswered, or it takes too long."""
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._server.handle(self._asked(request))
                body = await _whole(response)
        except NoAnswer as error:
            raise TransportError(str(error), outcome_unknown=request.is_write) from error
        except TimeoutError as error:
            raise TransportError("timed out", outcome_unknown=request.is_write) from error
        return Response(response.status, _joined(response), body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        """An answer in chunks. Chunks raise TransportError when a fault breaks the stream."""
        await asyncio.sleep(0)
        try:
            response = await self._server.handle(self._asked(request))
        except NoAnswer as error:
            raise TransportError(str(error), outcome_unknown=False) from error
        chunks = _chunks(response)
        try:
            yield StreamResponse(response.status, _joined(response), chunks)
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Nothing to close: the server belongs to somebody else."""

    def _asked(self, request: Request) -> HttpRequest:
        path, _, query = request.target.partition("?")
        headers = {**self._headers, **request.headers}
        return HttpRequest(request.method, path, query, headers, request.body or b"")


def _joined(response: HttpResponse) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for name, value in response.header_items():
        out[name] = f"{out[name]}\n{value}" if name in out else value
    return out


async def _whole(response: HttpResponse) -> bytes:
    if isinstance(response.body, bytes):
        return response.body
    return b"".join([chunk async for chunk in response.body])


async def _chunks(response: HttpResponse) -> AsyncIterator[bytes]:
    if isinstance(response.body, bytes):
        yield response.body
        return
    body = response.body
    try:
        async for chunk in body:
            yield chunk
    except Dropped as error:
        raise TransportError(str(error), outcome_unknown=False) from error
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()
