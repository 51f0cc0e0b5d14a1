"""How requests reach Services of process pods: from pods by their addresses, from this machine by a loopback port.

A ready endpoint is chosen for every connection; one that refuses is passed over, so that a pod that ends loses nothing.
The loopback ports are kept in `urls.json` of the data folder, where `ome local url` reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ome.api.core import EndpointSlice, Service
from ome.kube.cache import Cache
from ome.local.node.process.backend import Backend, ServiceAddress, Stream
from ome.local.node.process.framing import pump
from ome.local.node.process.materials import Materials, has_address

SERVICE_LABEL = "kubernetes.io/service-name"
BY_SERVICE = "service"
SETTLE = 0.05  # seconds to gather changes before the pods' networks are told

log = logging.getLogger("ome.local.node.forwarding")

Endpoint = tuple[str, int]
Key = tuple[str, str]


def service_of(slice_: EndpointSlice) -> tuple[str, ...]:
    """The index of slices by their Service: `namespace/name`."""
    name = slice_.metadata.labels.get(SERVICE_LABEL)
    return (f"{slice_.metadata.namespace}/{name}",) if name else ()


def ready_endpoints(slices: Iterable[EndpointSlice], port_name: str) -> list[Endpoint]:
    """The addresses and ports behind a Service's port, in a stable order. Pure."""
    found: set[Endpoint] = set()
    for slice_ in slices:
        ports = [port for port in slice_.ports if (port.get("name") or "") == port_name]
        for endpoint in slice_.endpoints:
            if endpoint.conditions.ready is False:
                continue
            for port in ports:
                found.update((address, int(port["port"])) for address in endpoint.addresses)
    return sorted(found)


@dataclass
class _Door:
    """A loopback port of this machine that leads to one Service."""

    server: asyncio.Server
    port: int
    turn: int = 0


@dataclass
class Forwarder:
    """Follows Services and EndpointSlices."""

    backend: Backend
    materials: Materials
    services: Cache[Service]
    slices: Cache[EndpointSlice]
    is_process_pod: Callable[[str], bool]
    urls: Path
    api_server: bool
    _doors: dict[Key, _Door] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled."""
        await self.services.wait_synced()
        await self.slices.wait_synced()
        self.services.subscribe(lambda _: self._wake.set())
        self.slices.subscribe(lambda _: self._wake.set())
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(SETTLE)
                self._wake.clear()
                await self._follow()
        finally:
            for door in self._doors.values():
                door.server.close()
            self.urls.unlink(missing_ok=True)

    async def _follow(self) -> None:
        self.materials.refresh_hosts()
        try:
            await self.backend.services(self._addresses())
        except OSError as error:
            log.warning("the pods' networks could not be told of the Services: %s", error)
        await self._keep_doors()

    def _addresses(self) -> list[ServiceAddress]:
        found = []
        for service in self.services.list():
            if not has_address(service):
                continue
            for port in service.spec.ports:
                kubernetes = service.metadata.key == ("default", "kubernetes")
                endpoints: Sequence[Endpoint] = self._endpoints(service.metadata.key, str(port.get("name") or ""))
                if kubernetes and self.api_server:
                    endpoints = [("", 0)]
                found.append(ServiceAddress(service.spec.cluster_ip, int(port["port"]), endpoints))
        return found

    def _endpoints(self, key: Key, port_name: str) -> list[Endpoint]:
        return ready_endpoints(self.slices.by_index(BY_SERVICE, f"{key[0]}/{key[1]}"), port_name)

    async def _keep_doors(self) -> None:
        wanted = {
            service.metadata.key: service for service in self.services.list() if self._leads_to_processes(service)
        }
        changed = False
        for key in [key for key in self._doors if key not in wanted and self.services.get(*key) is None]:
            self._doors.pop(key).server.close()
            changed = True
        for key in [key for key in wanted if key not in self._doors]:
            server = await asyncio.start_server(self._accept(key), "127.0.0.1", 0, backlog=512)
            self._doors[key] = _Door(server, server.sockets[0].getsockname()[1])
            changed = True
        if changed:
            self._write_urls()

    def _leads_to_processes(self, service: Service) -> bool:
        if not service.spec.ports:
            return False
        slices = self.slices.by_index(BY_SERVICE, f"{service.metadata.namespace}/{service.metadata.name}")
        return any(self.is_process_pod(a) for s in slices for e in s.endpoints for a in e.addresses)

    def _write_urls(self) -> None:
        document = {f"{ns}/{name}": f"http://127.0.0.1:{door.port}" for (ns, name), door in sorted(self._doors.items())}
        beside = self.urls.with_suffix(".new")
        beside.write_text(json.dumps(document, indent=1))
        beside.replace(self.urls)

    def _accept(self, key: Key) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.CancelledError):  # at the end; asyncio would log each as an error
                found = await self._dial(key)
                if found is None:
                    await _unavailable(writer, key)
                    return
                await pump(reader, writer, *found)

        return accept

    async def _dial(self, key: Key) -> Stream | None:
        """A connection to a ready pod of the Service's first port, each in turn; None when none accepts."""
        door, service = self._doors[key], self.services.get(*key)
        if service is None:
            return None
        endpoints = self._endpoints(key, str(service.spec.ports[0].get("name") or ""))
        door.turn += 1
        for offset in range(len(endpoints)):
            ip, port = endpoints[(door.turn + offset) % len(endpoints)]
            with contextlib.suppress(OSError):
                return await self.backend.connect(ip, port)
        return None


async def _unavailable(writer: asyncio.StreamWriter, key: Key) -> None:
    text = json.dumps({"error": {"message": f"no pod of {key[0]}/{key[1]} is ready", "code": 503}})
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
    with contextlib.suppress(OSError):
        writer.write(f"{head}connection: close\r\n\r\n{text}".encode())
        await writer.drain()
    writer.close()
