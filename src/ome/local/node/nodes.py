"""The Node objects: made, kept alive by their Leases, and able to fail and recover.

`ome local node fail NAME` sets an annotation; from then on the stand-in does nothing for the node, as a dead machine
would, and the control plane finds out by itself. Any Node object becomes a simulated node, also one a user made,
unless it carries `local.ome.io/managed: "false"`.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address
from typing import Any, Final

from ome.api.meta import micro_timestamp, timestamp
from ome.kube.cache import Cache, Caches
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import After, Controller, Done, Outcome, Watch
from ome.kube.errors import AlreadyExists, NotFound
from ome.kube.requests import PatchType
from ome.kube.resources import LEASES, NODES
from ome.local.objects import Json, Key, Object, condition, status_patch

FAILED: Final = "local.ome.io/failed"
MANAGED: Final = "local.ome.io/managed"
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
HEARTBEAT: Final = 10.0
KUBELET_VERSION: Final = "v1.37.2"
FIRST_NODE_ADDRESS: Final = IPv4Address("198.18.0.1")
# By this a node says that its endpoint speaks WebSocket, which the API server then hands on (from Kubernetes 1.36 on).
STREAMS_AS_WEB_SOCKETS: Final = "ExtendWebSocketsToKubelet"
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the API server finds the endpoint of all nodes: a host name and a port."""

    host: str
    port: int


def is_alive(node: Object) -> bool:
    """Whether the stand-in plays this node now."""
    annotations = node.metadata.annotations
    return annotations.get(FAILED) != "true" and annotations.get(MANAGED) != "false"


def architecture() -> str:
    """The laptop's architecture as Kubernetes names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine or "amd64")


def node_labels(name: str) -> dict[str, str]:
    """The labels a kubelet gives its own node."""
    arch = architecture()
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
    }


def capacity(gpus: int) -> dict[str, str]:
    """What a simulated node has, whatever the laptop has."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "2Ti"}
    if gpus:
        room["nvidia.com/gpu"] = str(gpus)
    return room


def node_object(name: str) -> Json:
    """A new Node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node_labels(name)}, "spec": {}}


def node_status(node: Object, address: str, gpus: int, now: datetime, endpoint: Reached | None = None) -> Json:
    """The whole status of a living node. What a user gave as capacity stays. `endpoint` None: nothing listens."""
    status = dict(node.status)
    room = node.status.get("capacity") or node.status.get("allocatable") or capacity(gpus)
    status["capacity"] = room
    status["allocatable"] = node.status.get("allocatable") or room
    status["conditions"] = _conditions(node.status, now)
    status["addresses"] = _addresses(node, address, endpoint)
    status["nodeInfo"] = _info(node)
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": endpoint.port if endpoint is not None else 10250}}
    if endpoint is not None:
        declared = {*(node.status.get("declaredFeatures") or ()), STREAMS_AS_WEB_SOCKETS}
        status["declaredFeatures"] = sorted(declared)
    return status


def _conditions(status: Mapping[str, Any], now: datetime) -> list[Json]:
    ours = {type_ for type_, *_ in _CONDITIONS}
    kept = [found for found in status.get("conditions") or () if found.get("type") not in ours]
    built = []
    for type_, value, reason, message in _CONDITIONS:
        old = condition(status, type_)
        if old is not None and (old.get("status"), old.get("reason")) == (value, reason):
            built.append(old)
            continue
        moment = timestamp(now)
        built.append(
            {
                "type": type_,
                "status": value,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
            }
        )
    return [*kept, *built]


def _addresses(node: Object, address: str, endpoint: Reached | None) -> list[Json]:
    have = list(node.status.get("addresses") or ())
    found = have or [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": node.name}]
    if endpoint is None:
        return found
    # The API server dials the Hostname first, then the InternalDNS name, and no resolver knows a made-up node.
    ours: Json = {"type": "InternalDNS", "address": endpoint.host}
    return [*(a for a in found if a.get("type") not in ("Hostname", "InternalDNS")), ours]


def _info(node: Object) -> Json:
    known = node.status.get("nodeInfo") or {}
    if known.get("kubeletVersion"):
        return dict(known)
    return {
        "architecture": architecture(),
        "bootID": node.uid,
        "containerRuntimeVersion": "simulated://1.0.0",
        "kernelVersion": "0.0.0",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": node.uid,
        "operatingSystem": "linux",
        "osImage": "OME node stand-in",
        "systemUUID": node.uid,
    }


class Nodes:
    """Makes the wanted nodes and keeps every living one Ready."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        clock: Clock,
        *,
        count: int,
        gpus: int,
        endpoint: Reached | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._client = client
        self._clock = clock
        self._heartbeat = heartbeat
        self._count = count
        self._gpus = gpus
        self._endpoint = endpoint
        self._nodes: Cache[Object] = caches.of(NODES, Object)
        self._addresses: dict[str, str] = {}
        self._leased_at: dict[str, float] = {}

    async def create_wanted(self) -> None:
        """Create `node-1` to `node-N` where they are missing."""
        for number in range(1, self._count + 1):
            try:
                await self._client.create(NODES, node_object(f"node-{number}"))
            except AlreadyExists:
                continue

    def controller(self) -> Controller:
        watches: list[Watch[Any]] = [Watch(self._nodes, lambda change: (change.object.key,))]
        return Controller("nodes", self._sync, watches, clock=self._clock, workers=2)

    async def _sync(self, key: Key) -> Outcome:
        node = self._nodes.get(*key)
        if node is None or not is_alive(node):
            self._leased_at.pop(key[1], None)
            return Done()
        try:
            await self._label(node)
            await self._report(node)
            await self._renew(node)
        except NotFound:
            return After(1.0)  # the node is gone, or the namespace of the Leases is not there yet
        return After(self._heartbeat)

    async def _label(self, node: Object) -> None:
        missing = {k: v for k, v in node_labels(node.name).items() if k not in node.metadata.labels}
        missing = {k: v for k, v in missing.items() if k.startswith("kubernetes.io/")}
        if missing:
            written = await self._client.patch(NODES, node.name, "", {"metadata": {"labels": missing}})
            self._nodes.observe(written)

    async def _report(self, node: Object) -> None:
        status = node_status(node, self._address(node), self._gpus, self._clock.now(), self._endpoint)
        body = status_patch(node.status, status)
        if body is None:
            return
        written = await self._client.patch(NODES, node.name, "", body, type=PatchType.MERGE, subresource="status")
        self._nodes.observe(written)

    def _address(self, node: Object) -> str:
        known = self._addresses.get(node.name)
        if known is None:
            known = self._addresses[node.name] = self._free_address()
        return known

    def _free_address(self) -> str:
        used = set(self._addresses.values())
        for node in self._nodes.list():
            used.update(str(found.get("address")) for found in node.status.get("addresses") or ())
        address = FIRST_NODE_ADDRESS
        while str(address) in used:
            address += 1
        return str(address)

    async def _renew(self, node: Object) -> None:
        """Renew the node's Lease, at most once in a heartbeat."""
        now = self._clock.monotonic()
        last = self._leased_at.get(node.name)
        if last is not None and now - last < self._heartbeat * 0.9:
            return
        spec = {
            "holderIdentity": node.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(self._clock.now()),
        }
        try:
            await self._client.patch(LEASES, node.name, LEASE_NAMESPACE, {"spec": spec})
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            metadata = {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, lease)
        self._leased_at[node.name] = now
