"""How requests reach a server: the protocol that transports fulfil. `ome.kube.client` gives meaning to answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ome.kube.requests import Request


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whole. Header names are lower case; repeated `warning` headers are joined by newlines."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class StreamResponse:
    """An answer whose body arrives in chunks of any size (a watch, a log)."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """The rest of the body."""
        return b"".join([chunk async for chunk in self.chunks])


class Transport(Protocol):
    """Sends requests. Raises `TransportError` when no answer came; never interprets a status code."""

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]: ...

    async def close(self) -> None: ...
