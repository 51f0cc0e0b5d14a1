"""The asynchronous client: requests with meaning. One per process, shared by caches, controllers and webhooks.

Not a cache: every call here is a request. `ome.kube.cache` keeps what is watched.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from ome.kube import requests
from ome.kube.decoding import decode
from ome.kube.errors import Gone, NotFound, TransportError, error_from_response, error_from_status
from ome.kube.requests import PatchType, Request
from ome.kube.resources import Resource
from ome.kube.transport import Response, Transport

T = TypeVar("T")
FIELD_MANAGER = "ome-manager"
PAGE = 500
WARNINGS_REMEMBERED = 256
SLOW_REQUEST = 1.0  # seconds a request may be held back before a log line says so

log = logging.getLogger("ome.kube.client")

_DICT: Any = dict  # what callers get who do not ask for a Struct


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list and the version it shows."""

    items: list[T]
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch; `object` is still raw JSON. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class _ListEnvelope(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class RateLimit:
    """A token bucket: `qps` requests a second, bursts of `burst`. Waits; never refuses."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    async def wait(self) -> float:
        """Take a token and return the seconds it took to get one."""
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        delay = -self._tokens / self._qps
        await asyncio.sleep(delay)
        return delay


class Client:
    """Typed verbs over a transport. Raises the leaves of `ome.kube.errors`."""

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = FIELD_MANAGER,
        rate_limit: Callable[[], RateLimit] | None = None,
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        """`rate_limit` makes a bucket for each resource; `on_request` sees every request (for metrics)."""
        self._transport = transport
        self._field_manager = field_manager
        self._rate_limit = rate_limit
        self._limits: dict[str, RateLimit] = {}
        self._on_request = on_request
        self._warned: set[str] = set()

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def request(self, request: Request, *, resource: Resource | None = None) -> Response:
        """Send one request. Raises an ApiError leaf from status 400 up."""
        await self._throttle(request, resource)
        response = await self._transport.send(request)
        if response.status >= 400:
            raise error_from_response(response.status, response.headers, response.body)
        return response

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = _DICT, subresource: str = ""
    ) -> T:
        """One object. Raises NotFound."""
        response = await self.request(
            requests.get(resource, name, namespace, subresource=subresource), resource=resource
        )
        return decode(msgspec.json.Decoder(into), response.body)

    async def find(self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = _DICT) -> T | None:
        """One object, or None when it is not there."""
        try:
            return await self.get(resource, name, namespace, into=into)
        except NotFound:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        into: type[T] = _DICT,
    ) -> Listing[T]:
        """All objects, in pages of 500."""
        items: list[T] = []
        version = ""
        pages = self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector, into=into)
        async for page, shown in pages:
            items += page
            version = shown
        return Listing(items, version)

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        into: type[T] = _DICT,
    ) -> AsyncIterator[tuple[builtins.list[T], str]]:
        """Pages of at most 500 decoded objects, each with the version of the list. Raises Gone when a token expires."""
        decoder = msgspec.json.Decoder(into)
        token = ""
        while True:
            request = requests.list_page(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=PAGE,
                continue_token=token,
            )
            response = await self.request(request, resource=resource)
            envelope = msgspec.json.decode(response.body, type=_ListEnvelope)
            page = [decode(decoder, raw) for raw in envelope.items or ()]
            yield page, str(envelope.metadata.get("resourceVersion") or "")
            token = str(envelope.metadata.get("continue") or "")
            if not token:
                return

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        dry_run: bool = False,
        name: str = "",
        subresource: str = "",
    ) -> dict[str, Any]:
        """Create an object and return it as stored. Raises AlreadyExists, Invalid, Forbidden."""
        return await self._write(
            requests.create(
                resource,
                obj,
                namespace,
                dry_run=dry_run,
                field_manager=self._field_manager,
                name=name,
                subresource=subresource,
            ),
            resource,
        )

    async def replace(self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = "") -> dict[str, Any]:
        """PUT a whole object that was read as a dict."""
        request = requests.replace(resource, obj, subresource=subresource, field_manager=self._field_manager)
        return await self._write(request, resource)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: Any,
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch an object and return it. A `resourceVersion` inside `body.metadata` makes it conditional."""
        request = requests.patch(
            resource,
            name,
            namespace,
            body,
            type=type,
            subresource=subresource,
            dry_run=dry_run,
            field_manager=self._field_manager,
        )
        return await self._write(request, resource)

    async def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        force: bool = True,
        subresource: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Server-side apply; `obj` names only the fields we own. Creates the object if it is absent."""
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        request = requests.apply(
            resource,
            obj,
            field_manager=field_manager or self._field_manager,
            force=force,
            subresource=subresource,
            dry_run=dry_run,
        )
        return await self._write(request, resource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete an object. Raises NotFound, and Conflict when a precondition fails."""
        request = requests.delete(
            resource,
            name,
            namespace,
            grace_period=grace_period,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
        )
        await self.request(request, resource=resource)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 290,
        silence: float | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """The events after `resource_version`, until the server ends the stream.

        Raises Gone when the version is too old, any other leaf for an ERROR event or a refusal, and TransportError when
        the stream breaks or stays silent for `silence` seconds (bookmarks count as a sign of life).
        """
        request = requests.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        await self._throttle(request, resource)
        decoder = msgspec.json.Decoder(WatchEvent)
        async with self._transport.stream(request) as stream:
            if stream.status >= 400:
                raise error_from_response(stream.status, stream.headers, await stream.read())
            async for line in lines(stream.chunks, silence):
                event = decoder.decode(line)
                if event.type == "ERROR":
                    status = msgspec.json.decode(event.object, type=dict[str, Any])
                    raise error_from_status(int(status.get("code") or 500), status)
                yield event

    async def serves(self, resource: Resource) -> bool:
        """Whether the server knows this resource now (a CRD may be installed later)."""
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        try:
            response = await self.request(Request("GET", base, headers={"accept": requests.JSON}))
        except (NotFound, Gone):
            return False
        document = msgspec.json.decode(response.body, type=dict[str, Any])
        return any(item.get("name") == resource.plural for item in document.get("resources") or ())

    async def _write(self, request: Request, resource: Resource) -> dict[str, Any]:
        response = await self.request(request, resource=resource)
        for warning in response.headers.get("warning", "").split("\n"):
            if warning and warning not in self._warned:  # said once: the same write is warned of again and again
                if len(self._warned) == WARNINGS_REMEMBERED:
                    self._warned.clear()
                self._warned.add(warning)
                log.info("the API server warns: %s", warning, extra={"path": request.path})
        return msgspec.json.decode(response.body, type=dict[str, Any])

    async def _throttle(self, request: Request, resource: Resource | None) -> None:
        if self._on_request is not None:
            self._on_request(request)
        if self._rate_limit is None:
            return
        family = resource.group_resource if resource is not None else ""
        limit = self._limits.get(family)
        if limit is None:
            limit = self._limits[family] = self._rate_limit()
        waited = await limit.wait()
        if waited > SLOW_REQUEST:
            log.info(
                "Waited before sending request",
                extra={"delay": f"{waited:.3f}s", "verb": request.method, "URL": request.target},
            )


async def lines(chunks: AsyncIterator[bytes], silence: float | None = None) -> AsyncIterator[bytes]:
    """The non-empty lines of a stream, of any length. Raises TransportError after `silence` seconds of nothing."""
    pending: list[bytes] = []
    iterator = aiter(chunks)
    while True:
        try:
            async with asyncio.timeout(silence):
                chunk = await anext(iterator)
        except StopAsyncIteration:
            break
        except TimeoutError as error:
            raise TransportError(f"the stream was silent for {silence:g} s", outcome_unknown=False) from error
        if b"\n" not in chunk:
            pending.append(chunk)
            continue
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        for line in (b"".join(pending), *rest[:-1]):
            if line:
                yield line
        pending = [rest[-1]]
    tail = b"".join(pending)
    if tail:
        yield tail
