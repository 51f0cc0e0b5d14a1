"""The synchronous client of the plugin: http.client over the same sans-I/O requests. Never imports asyncio or aiohttp.

One keep-alive connection, opened at the first request. Used by `ome.cli` and by commands of `ome local`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ome.kube import requests
from ome.kube.config import ClusterConfig
from ome.kube.errors import TransportError, error_from_response
from ome.kube.requests import PatchType, Request
from ome.kube.resources import Resource
from ome.kube.transport import Response

T = TypeVar("T")

_SMALL_BODY = 512 * 1024


@dataclass(slots=True)
class Page:
    """One page of a list: raw items, and the token of the next page ("" on the last)."""

    items: list[dict[str, Any]]
    resource_version: str
    continue_token: str
    remaining: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class SyncClient:
    """Requests one after another. Raises ApiError leaves from status 400 up, TransportError without an answer."""

    def __init__(self, config: ClusterConfig, *, timeout: float = 30.0, user_agent: str = "kubectl-ome") -> None:
        self.config = config
        self._timeout = timeout
        self._user_agent = user_agent
        self._connection: http.client.HTTPConnection | None = None
        self.warnings: list[str] = []

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> dict[str, Any]:
        """One object as a dict. Raises NotFound."""
        return self.json(requests.get(resource, name, namespace, subresource=subresource))

    def list_page(self, resource: Resource, namespace: str = "", **options: Any) -> Page:
        """One page; the options are those of `requests.list_page`."""
        document = self.json(requests.list_page(resource, namespace, **options))
        meta = document.get("metadata") or {}
        return Page(
            items=document.get("items") or [],
            resource_version=str(meta.get("resourceVersion") or ""),
            continue_token=str(meta.get("continue") or ""),
            remaining=meta.get("remainingItemCount"),
            metadata=meta,
        )

    def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """All items, page by page."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self.list_page(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                continue_token=token,
            )
            found += page.items
            token = page.continue_token
            if not token:
                return found

    def create(self, resource: Resource, obj: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Create an object; the options are those of `requests.create`."""
        return self.json(requests.create(resource, obj, **options))

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: Any,
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """Patch an object and return it."""
        return self.json(
            requests.patch(
                resource,
                name,
                namespace,
                body,
                type=type,
                subresource=subresource,
                dry_run=dry_run,
                field_manager=field_manager,
            )
        )

    def apply(
        self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str, **options: Any
    ) -> dict[str, Any]:
        """Server-side apply."""
        return self.json(requests.apply(resource, obj, field_manager=field_manager, **options))

    def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> None:
        """Delete an object; the options are those of `requests.delete`."""
        self.request(requests.delete(resource, name, namespace, **options))

    def json(self, request: Request) -> dict[str, Any]:
        """Send a request and decode the answer. A body that is no JSON object is a TransportError."""
        response = self.request(request)
        try:
            document = _decoded(response.body)
        except ValueError as error:
            raise TransportError(f"the server's answer is no JSON object: {error}") from error
        if not isinstance(document, dict):
            raise TransportError("the server's answer is no JSON object")
        return document

    def request(self, request: Request) -> Response:
        """Send a request; a 401 is tried once more with a fresh credential."""
        response = self._exchange(request)
        if response.status == 401:
            response = self._exchange(request, refresh=True)
        if response.status >= 400:
            raise error_from_response(response.status, response.headers, response.body)
        return response

    def stream_lines(self, request: Request) -> Iterator[bytes]:
        """The lines of a stream (a watch, a followed log) as they come, without their newline.

        Runs on a connection of its own, so other requests may be made meanwhile. Ends when the server ends it.
        """
        connection = self._connect(request.timeout)
        try:
            self._send(connection, request, refresh=False)
            try:
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise _lost(error, request) from error
            if answer.status >= 400:
                raise error_from_response(answer.status, _headers(answer), answer.read())
            pending = b""
            while True:
                try:
                    chunk = answer.read1(65536)
                except TimeoutError as error:
                    raise TransportError("the stream was silent for too long", outcome_unknown=False) from error
                except (OSError, http.client.HTTPException) as error:
                    raise _lost(error, request) from error
                if not chunk:
                    break
                *lines, pending = (pending + chunk).split(b"\n")
                yield from lines
            if pending:
                yield pending
        finally:
            connection.close()

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(self.config.server)
        host, port = parts.hostname or "", parts.port
        limit = self._timeout if timeout is None else min(timeout, self._timeout)
        context = self.config.ssl_context()
        if context is None:
            return http.client.HTTPConnection(host, port or 80, timeout=limit)
        if not self.config.server_name:
            return http.client.HTTPSConnection(host, port or 443, timeout=limit, context=context)
        return _NamedTlsConnection(host, port or 443, limit, context, self.config.server_name)

    def _send(self, connection: http.client.HTTPConnection, request: Request, *, refresh: bool) -> None:
        base = urlsplit(self.config.server).path.rstrip("/")
        try:
            connection.putrequest(request.method, base + request.target, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.putheader("user-agent", self._user_agent)
            for name, value in self.config.headers(refresh=refresh):
                connection.putheader(name, value)
            if request.body is not None:
                connection.putheader("content-length", str(len(request.body)))
            connection.endheaders(request.body)
        except (OSError, http.client.HTTPException) as error:
            raise _lost(error, request) from error

    def _exchange(self, request: Request, *, refresh: bool = False) -> Response:
        reused = self._connection is not None
        try:
            return self._exchange_once(request, refresh=refresh)
        except TransportError:
            self.close()
            # An idle keep-alive connection may have been closed by the server: a read can safely be sent again.
            if not reused or request.is_write:
                raise
            return self._exchange_once(request, refresh=refresh)

    def _exchange_once(self, request: Request, *, refresh: bool) -> Response:
        connection = self._connection or self._connect(request.timeout)
        self._connection = connection
        if connection.sock is not None and request.timeout is not None:
            connection.sock.settimeout(min(request.timeout, self._timeout))
        self._send(connection, request, refresh=refresh)
        try:
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _lost(error, request) from error
        headers = _headers(answer)
        if "warning" in headers:
            self.warnings += headers["warning"].split("\n")
        if answer.will_close:
            self.close()
        return Response(answer.status, headers, body)


class _NamedTlsConnection(http.client.HTTPSConnection):
    """TLS to one address under another server name (`tls-server-name` of a kubeconfig)."""

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._server_name = server_name

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._server_name)


def _headers(answer: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in answer.getheaders():
        name = name.lower()
        found[name] = f"{found[name]}\n{value}" if name == "warning" and name in found else value
    return found


def _lost(error: Exception, request: Request) -> TransportError:
    reached = not isinstance(error, (ConnectionRefusedError, socket.gaierror, ssl.SSLError))
    what = "timed out" if isinstance(error, TimeoutError) else (getattr(error, "strerror", None) or str(error))
    return TransportError(
        f"{request.method} {request.path}: {what or type(error).__name__}",
        outcome_unknown=reached and request.is_write,
    )


def _decoded(body: bytes) -> Any:
    """JSON of any size. Importing msgspec costs more than the standard library needs for a small answer."""
    if len(body) < _SMALL_BODY:
        return json.loads(body)
    import msgspec

    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def decode(raw: bytes, type: type[T]) -> T:
    """Decode an answer into a narrow Struct, as the asynchronous client does: a null field counts as absent."""
    import msgspec

    from ome.kube.decoding import decode as typed

    return typed(msgspec.json.Decoder(type), raw)
