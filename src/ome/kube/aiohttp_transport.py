"""The asynchronous transport: aiohttp over the sans-I/O requests. One session for a process.

A 401 is tried once more with a fresh credential (a renewed token file, an exec plugin run again).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from ome.kube.config import ClusterConfig
from ome.kube.errors import TransportError
from ome.kube.requests import Request
from ome.kube.transport import Response, StreamResponse

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError)


class AiohttpTransport:
    """Sends requests to the server of a `ClusterConfig`. Must be made inside a running event loop."""

    def __init__(self, config: ClusterConfig, *, user_agent: str = "ome-manager", connections: int = 64) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        context = config.ssl_context()
        connector = aiohttp.TCPConnector(limit=connections, ssl=context if context is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"user-agent": user_agent},
            auto_decompress=True,
            read_bufsize=2**18,
            # aiohttp's own look at the environment is made for every request, in a thread: more than the request costs.
            trust_env=False,
        )
        self._proxy, self._proxy_auth = _proxy(config)

    async def __aenter__(self) -> AiohttpTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def send(self, request: Request) -> Response:
        answer = await self._send(request, refresh=False)
        return await self._send(request, refresh=True) if answer.status == 401 else answer

    async def _send(self, request: Request, *, refresh: bool) -> Response:
        timeout = aiohttp.ClientTimeout(total=request.timeout)
        try:
            async with self._open(request, timeout, refresh=refresh) as answer:
                body = await answer.read()
                return Response(answer.status, _headers(answer), body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(error, request) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=30)
        try:
            answer = await self._open(request, timeout, refresh=False)
            if answer.status == 401:
                answer.release()
                answer = await self._open(request, timeout, refresh=True)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(error, request) from error
        try:
            yield StreamResponse(answer.status, _headers(answer), _chunks(answer, request))
        finally:
            answer.close()

    def _open(self, request: Request, timeout: aiohttp.ClientTimeout, *, refresh: bool) -> Any:
        headers = dict(request.headers)
        headers.update(self._config.headers(refresh=refresh))
        return self._session.request(
            request.method,
            URL(self._base + request.target, encoded=True),
            headers=headers,
            data=request.body,
            timeout=timeout,
            proxy=self._proxy,
            proxy_auth=self._proxy_auth,
            server_hostname=self._config.server_name or None,
            allow_redirects=False,
        )


def _proxy(config: ClusterConfig) -> tuple[URL | None, aiohttp.BasicAuth | None]:
    """The proxy to the server and its credentials: the kubeconfig's, else the environment's; never to this machine."""
    server = urlsplit(config.server)
    text = config.proxy_url
    if not text and not _is_loopback(server.hostname or "") and not proxy_bypass(server.netloc):
        text = getproxies().get(server.scheme, "")
    if not text:
        return None, None
    url = URL(text)
    auth = aiohttp.BasicAuth(url.user, url.password or "") if url.user else None
    return url.with_user(None), auth


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def _chunks(answer: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _lost(error, request) from error


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    if "warning" in headers:
        headers["warning"] = "\n".join(answer.headers.getall("Warning"))
    return headers


def _lost(error: BaseException, request: Request) -> TransportError:
    if isinstance(error, asyncio.TimeoutError):
        what = f"no answer within {request.timeout:g} s" if request.timeout else "timed out"
    else:
        what = str(error) or type(error).__name__
    return TransportError(
        f"{request.method} {request.path}: {what}",
        outcome_unknown=request.is_write and not isinstance(error, _NEVER_SENT),
    )
