"""Puts the process runtime together: isolated pods where the kernel allows it, else plain ones, and says which."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ome.api.core import EndpointSlice, Service
from ome.kube.cache import Cache, Caches
from ome.kube.client import Client
from ome.kube.resources import ENDPOINT_SLICES, PODS, SERVICES
from ome.local.node.kubelet import Kubelet
from ome.local.node.process.backend import Backend
from ome.local.node.process.forwarding import BY_SERVICE, Forwarder, service_of
from ome.local.node.process.isolated import IsolatedBackend
from ome.local.node.process.materials import Materials
from ome.local.node.process.plain import PlainBackend
from ome.local.node.process.runtime import ProcessRuntime
from ome.local.node.process.volumes import Volumes
from ome.local.objects import Object

PLAIN_VARIABLE = "OME_LOCAL_PLAIN_PODS"  # set: do without isolation, as on a kernel that forbids it

log = logging.getLogger("ome.local.node")


@dataclass(frozen=True, slots=True)
class ProcessPods:
    """What the node stand-in plugs in: the runtime, and the forwarder to run beside it."""

    runtime: ProcessRuntime
    forwarder: Forwarder


@asynccontextmanager
async def process_pods(
    client: Client,
    caches: Caches,
    data: Path,
    *,
    address_of: Callable[[str], str],
    api_server: tuple[str, int] | None,
    domain: str = "cluster.local",
) -> AsyncIterator[ProcessPods]:
    """The process runtime of one node stand-in, its processes ended with the block.

    `data` is the data folder; `address_of` gives a pod's address by uid; `api_server` is what pods reach as
    `kubernetes.default`.
    """
    services = caches.of(SERVICES, Service)
    slices = caches.of(ENDPOINT_SLICES, EndpointSlice, indexes={BY_SERVICE: service_of})
    backend = await open_backend(data, api_server)
    materials = Materials(client, services, address_of, data, domain)
    volumes = Volumes(data)
    runtime = ProcessRuntime(backend, volumes, materials)
    forwarder = Forwarder(
        backend,
        materials,
        services,
        slices,
        runtime.owns,
        data / "urls.json",
        api_server is not None,
    )
    sweeping = asyncio.create_task(_sweep(volumes, caches.of(PODS, Object)))
    try:
        yield ProcessPods(runtime, forwarder)
    finally:
        sweeping.cancel()
        await backend.close()


async def _sweep(volumes: Volumes, pods: Cache[Object]) -> None:
    """Remove the folders of pods that went while no stand-in was there to see it."""
    found = volumes.uids()
    await pods.wait_synced()
    for uid in found - {pod.uid for pod in pods.list()}:
        await asyncio.to_thread(volumes.remove, uid)


async def open_backend(data: Path, api_server: tuple[str, int] | None) -> Backend:
    """The isolated backend, or the plain one with the reason in the log."""
    if os.environ.get(PLAIN_VARIABLE):
        return PlainBackend()
    backend = IsolatedBackend(data / "run")
    try:
        await backend.open(api_server)
    except OSError as error:
        log.info("pods run without isolation: %s", error.strerror or error)
        return PlainBackend()
    return backend


def report_to(kubelet: Kubelet, pods: ProcessPods) -> None:
    """Let the kubelet know what processes do by themselves: their ends, turned probes, failed looks."""
    tasks: set[asyncio.Task[None]] = set()

    def failed(pod: Object, container: str, text: str) -> None:
        task = asyncio.get_running_loop().create_task(kubelet.report(pod, container, "Unhealthy", text))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    pods.runtime.on_change = kubelet.poke
    pods.runtime.on_probe_failure = failed
