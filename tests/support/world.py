"""A whole cluster for a component test: API server, OME's definitions, nodes, workloads and controllers.

Embedded (the default) everything runs in one event loop with virtual time and no socket. With `--cluster kube` the same
test runs against the real control plane of `make kube-up NODES=none`, over HTTP and in real time; what a test made is
removed at its end.

    @in_world(nodes=2, rooms=("ome.services", "ome.models", "ome.runtimes"))
    async def test_something(world: World) -> None:
        await world.apply({...})
        await world.until(lambda: ...)

`until` polls a condition; `eventually` polls an awaitable that asserts. `world.sleep` passes time.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ome.api.config import parse_config
from ome.api.core import ConfigMap
from ome.api.crds import crds
from ome.install import Certificates, Flavour, manifests
from ome.install.webhooks import Endpoint
from ome.kube import resources
from ome.kube.aiohttp_transport import AiohttpTransport
from ome.kube.cache import Caches
from ome.kube.client import Client
from ome.kube.clock import LoopClock, SystemClock
from ome.kube.config import ClusterConfig
from ome.kube.controller import Controller, Environment
from ome.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from ome.kube.events import EventRecorder
from ome.kube.requests import PatchType, Request
from ome.kube.resources import Resource
from ome.local.apiserver.customs import DEFINITIONS
from ome.local.apiserver.http import User
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.store import Record
from ome.local.cluster import LocalWorkloads, NodeStandIn
from ome.local.inprocess import InProcessTransport
from tests.support.virtual_time import run_virtual

ADMIN, MANAGER = "admin-token", "manager-token"
MANAGER_NAME = "system:serviceaccount:ome:ome-controller-manager"
EPOCH = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)
TOKENS = {
    ADMIN: User("admin", groups=("system:masters", "system:authenticated")),
    MANAGER: User(
        MANAGER_NAME,
        groups=("system:serviceaccounts", "system:serviceaccounts:ome", "system:authenticated"),
    ),
}
LONGEST_REAL_SLEEP = 10.0
REAL_PATIENCE = 3.0  # times as long as virtual time needs: real controllers share a loaded machine
SYSTEM_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}
KUBECONFIG_VARIABLE = "OME_TEST_KUBECONFIG"
_DEFINED: list[Record] = []
"""OME's definitions as the first embedded world stored them: making them again would be most of a test's time."""
_INSTALLED: list[bool] = []  # whether the real control plane of this run has OME's definitions
FLAGS = {
    "inferenceservice_max_concurrent_reconciles": 4,
    "inferencereplica_max_concurrent_reconciles": 4,
    "runtime_revision_retention": 10,
    "runtime_revision_grace_period": 24 * 3600.0,
    "config_cache_ttl": 30.0,
    "accelerators": (),
}

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in vars(resources).values()
    if isinstance(resource, Resource)
}


def resource_of(obj: Mapping[str, Any]) -> Resource:
    """The resource of an object by its apiVersion and kind."""
    return _BY_KIND[str(obj["apiVersion"]), str(obj["kind"])]


@dataclass
class World:
    """One cluster, and what a test does with it as its administrator."""

    client: Client
    clock: Any
    make_client: Callable[[str], Client]
    server: ApiServer | None = None
    namespace: str = "ome"
    requests: list[Request] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _workers: list[Any] = field(default_factory=list)

    @property
    def embedded(self) -> bool:
        return self.server is not None

    # -- writing -----------------------------------------------------------------------------------------------------

    async def apply(self, *objects: Mapping[str, Any], manager: str = "kubectl") -> dict[str, Any]:
        """Server-side apply each object as a user would; returns the last one as stored."""
        stored: dict[str, Any] = {}
        for obj in objects:
            stored = await self.client.apply(resource_of(obj), dict(obj), field_manager=manager)
        return stored

    async def create(self, *objects: Mapping[str, Any]) -> None:
        """Create each object unless it is there already."""
        for obj in objects:
            try:
                await self.client.create(resource_of(obj), obj)
            except AlreadyExists:
                continue

    async def merge(
        self, resource: Resource, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> dict[str, Any]:
        """A merge patch."""
        return await self.client.patch(resource, name, namespace, body, type=PatchType.MERGE, subresource=subresource)

    async def annotate(self, resource: Resource, name: str, namespace: str, **annotations: str | None) -> None:
        """Set annotations; None removes. Write `.` and `/` of a key as they are: `**{"ome.io/x": "1"}`."""
        await self.merge(resource, name, namespace, {"metadata": {"annotations": annotations}})

    async def make_namespace(self, name: str) -> None:
        """Create a namespace unless it is there, and wait until it takes objects.

        On the real control plane the account that pods run as comes a moment later, and until then one may also be told
        of an earlier namespace of the name.
        """
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if not self.embedded:
            await self.until(lambda: self.find(resources.SERVICE_ACCOUNTS, "default", name))

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        found: dict[str, Any] = await self.client.get(resource, name, namespace)
        return found

    async def find(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self.client.find(resource, name, namespace)
        return found

    async def list(self, resource: Resource, namespace: str = "", labels: str = "") -> list[dict[str, Any]]:
        listing = await self.client.list(resource, namespace, label_selector=labels)
        return listing.items

    async def events(self, namespace: str, reason: str = "") -> list_of[dict[str, Any]]:
        """Events of a namespace, oldest first."""
        found = await self.list(resources.EVENTS, namespace)
        found = [event for event in found if not reason or event["reason"] == reason]
        return sorted(found, key=lambda event: (_moment_of(event), event["metadata"]["name"]))

    # -- time --------------------------------------------------------------------------------------------------------

    async def sleep(self, seconds: float) -> None:
        """Let time pass: virtual seconds, or real ones on the real control plane, where nobody waits for many."""
        if not self.embedded and seconds > LONGEST_REAL_SLEEP:
            pytest.skip(f"lets {seconds:g} seconds pass, which only virtual time does quickly")
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], Any], *, timeout: float = 60.0) -> Any:
        """Wait until `condition()` (a value or an awaitable) is truthy, and return it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout * (1.0 if self.embedded else REAL_PATIENCE)
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            if loop.time() >= deadline:
                raise AssertionError(f"not true after {timeout:g} s")
            await asyncio.sleep(0.1)

    async def eventually(self, check: Callable[[], Awaitable[Any]], *, timeout: float = 60.0) -> Any:
        """Repeat `check()` until it raises no AssertionError, KeyError or NotFound; then return its result."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout * (1.0 if self.embedded else REAL_PATIENCE)
        while True:
            try:
                return await check()
            except (AssertionError, KeyError, IndexError, NotFound):
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(0.1)

    async def settle(self, seconds: float = 1.0) -> None:
        """Let everything that is due now happen: idle controllers for a moment on end."""
        quiet = 0
        while quiet < 5:
            await asyncio.sleep(seconds / 5)
            quiet = quiet + 1 if all(worker.idle for worker in self._workers) else 0

    # -- parts -------------------------------------------------------------------------------------------------------

    async def install(
        self,
        config: Flavour = "chart",
        webhook: Endpoint | None = None,
        certificates: Certificates = "self-made",
    ) -> None:
        """OME's namespace, definitions, roles and ConfigMap; webhooks only with an endpoint."""
        for obj in manifests(namespace=self.namespace, config=config, webhook=webhook, certificates=certificates):
            resource = resource_of(obj)
            if resource is resources.CRDS and (_DEFINED if self.embedded else _INSTALLED):
                continue
            await self.client.apply(resource, dict(obj), field_manager="install")
        if self.server is not None and not _DEFINED:
            _DEFINED.extend(self.server.store.collection(DEFINITIONS).all())
        if not self.embedded and not _INSTALLED:
            for definition in crds():  # one after the other, each a moment after it was stored
                names, version = definition["spec"]["names"], definition["spec"]["versions"][0]["name"]
                served = Resource(definition["spec"]["group"], version, names["plural"], names["kind"], False)
                await self.until(functools.partial(self.client.serves, served))
            _INSTALLED.append(True)

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run something in the background until the test ends or the task is cancelled; its failure fails the test."""
        task = asyncio.ensure_future(coroutine)
        self._stack.push_async_callback(_end, task)
        return task

    def start_nodes(self, nodes: int = 1, gpus: int = 8) -> NodeStandIn:
        stand_in = NodeStandIn(self.client, self.clock, nodes=nodes, gpus=gpus)
        self._workers.append(stand_in)
        self.start(stand_in.run())
        return stand_in

    async def schedulable(self, nodes: int) -> None:
        """Wait until this many nodes take pods: the real node controller removes their first taints a moment later."""

        async def ready() -> None:
            found = await self.list(resources.NODES)
            free = [node for node in found if not node["spec"].get("taints")]
            assert len(free) == nodes

        await self.eventually(ready)

    def start_workloads(self) -> None:
        """Deployment and the other controllers, and the scheduler; the real control plane has its own."""
        if not self.embedded:
            return
        workloads = LocalWorkloads(self.client, self.clock)
        self._workers.append(workloads)
        self.start(workloads.run())

    def environment(self, *, client: Client | None = None, **flags: Any) -> Environment:
        """What a room's `build` takes, acting as the manager's ServiceAccount."""
        client = client or self.make_client(MANAGER)
        caches = Caches(client, self.clock)

        async def config() -> Any:
            found = await self.client.find(
                resources.CONFIG_MAPS, "inferenceservice-config", self.namespace, into=ConfigMap
            )
            return parse_config(found.data if found else {})

        return Environment(
            client=client,
            caches=caches,
            recorder=EventRecorder(client, "ome-controller-manager", self.clock),
            clock=self.clock,
            namespace=self.namespace,
            config=config,
            flags=SimpleNamespace(**{**FLAGS, **flags}),
            username=MANAGER_NAME,
        )

    def start_manager(
        self, rooms: Sequence[str], environment: Environment | None = None, **flags: Any
    ) -> RunningManager:
        """The controllers of these rooms; `stop()` ends them as a crash would."""
        environment = environment or self.environment(**flags)
        built = [c for room in rooms for c in importlib.import_module(room).build(environment)]
        running = RunningManager(environment, built)
        running.task = self.start(running.run())
        self._workers.append(running)
        return running


@dataclass
class RunningManager:
    """Controllers at work."""

    environment: Environment
    controllers: list[Controller]
    task: asyncio.Task[Any] | None = None

    @property
    def idle(self) -> bool:
        ended = self.task is None or self.task.done()
        return ended or all(controller.idle for controller in self.controllers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.environment.caches.run())
            for controller in self.controllers:
                group.create_task(controller.run())

    async def stop(self) -> None:
        assert self.task is not None
        await _end(self.task)


list_of = list  # `World.list` hides the builtin inside the class


async def _end(task: asyncio.Task[Any]) -> None:
    if task.done():
        if not task.cancelled():
            task.result()
        return
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _moment_of(event: Mapping[str, Any]) -> str:
    """When an Event first happened; those of the real scheduler have only an `eventTime`."""
    return str(event.get("firstTimestamp") or event.get("eventTime") or "")


@asynccontextmanager
async def embedded_world(seed: int = 0, faults: Any = None, send: Any = None) -> AsyncIterator[World]:
    """An empty cluster in this loop. `faults` and `send` are what `ApiServer` takes."""
    clock = LoopClock(EPOCH)
    server = ApiServer(tokens=TOKENS, clock=clock, seed=seed, faults=faults, send=send)
    if _DEFINED:
        server.store.load(DEFINITIONS, _DEFINED)
        server.store.begin(max(record.rv for record in _DEFINED))
    await server.start()
    sent: list[Request] = []

    def make_client(token: str) -> Client:
        record = sent.append if token == MANAGER else None
        return Client(InProcessTransport(server, token), on_request=record)

    world = World(make_client(ADMIN), clock, make_client, server, requests=sent)
    try:
        async with world._stack:
            yield world
    finally:
        await server.stop()


@asynccontextmanager
async def real_world(kubeconfig: str) -> AsyncIterator[World]:
    """The real control plane; what a test made there is removed at its end."""
    config = ClusterConfig.load(kubeconfig)
    sent: list[Request] = []
    clients: list[Client] = []

    def make_client(token: str) -> Client:
        acting = config
        if token == MANAGER:
            user = TOKENS[MANAGER]
            acting = config.impersonating(user.name, user.groups)
        client = Client(AiohttpTransport(acting), on_request=sent.append if token == MANAGER else None)
        clients.append(client)
        return client

    world = World(make_client(ADMIN), SystemClock(), make_client, requests=sent)
    try:
        try:
            async with world._stack:
                yield world
        finally:
            await _sweep(world)  # after a failure too: what is left would fail the next test
    finally:
        for client in clients:
            await client.close()


async def _sweep(world: World) -> None:
    """Remove namespaces, cluster-scoped OME objects and nodes; finalizers whose owner is gone are taken off."""
    kinds = [r for r in vars(resources).values() if isinstance(r, Resource) and r.group == "ome.io"]
    for resource in kinds:
        try:
            found = await world.list(resource)
        except NotFound:
            continue
        for obj in found:
            await _remove(world, resource, obj)
    for node in await world.list(resources.NODES):
        await _remove(world, resources.NODES, node)
    await _remove_pods(world)
    kept = {*SYSTEM_NAMESPACES, world.namespace}
    for namespace in await world.list(resources.NAMESPACES):
        if namespace["metadata"]["name"] not in kept:
            await _remove(world, resources.NAMESPACES, namespace)
    for resource in (resources.CONTROLLER_REVISIONS, resources.CONFIG_MAPS, resources.SECRETS, resources.LEASES):
        for obj in await world.list(resource, world.namespace):
            if obj["metadata"]["name"] != "kube-root-ca.crt":
                await _remove(world, resource, obj)

    async def gone() -> bool:
        await _remove_pods(world)  # a controller may have made one after the first look, on a node that is no more
        names = {n["metadata"]["name"] for n in await world.list(resources.NAMESPACES)}
        return names <= kept

    await world.until(gone, timeout=180)


async def _remove_pods(world: World) -> None:
    """At once: nobody is left to confirm that their containers have ended."""
    for pod in await world.list(resources.PODS):
        await _remove(world, resources.PODS, pod, grace_period=0)


async def _remove(world: World, resource: Resource, obj: Mapping[str, Any], **options: Any) -> None:
    meta = obj["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    try:
        if meta.get("finalizers"):
            await world.merge(resource, name, namespace, {"metadata": {"finalizers": None}})
        await world.client.delete(resource, name, namespace, **options)
    except (NotFound, Conflict):
        return
    except ApiError as error:
        if error.status_code != 404:
            raise


def in_world(
    *,
    nodes: int = 0,
    gpus: int = 8,
    workloads: bool = True,
    rooms: Sequence[str] = (),
    installed: bool = True,
    seed: int = 0,
    faults: Any = None,
    flags: Mapping[str, Any] | None = None,
    limit: float = 7 * 24 * 3600.0,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run an async test in a world with these parts. Further arguments (parametrize) are passed on by name."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        async def scenario(world: World, arguments: Mapping[str, Any]) -> None:
            if installed:
                await world.install()
            if nodes:
                world.start_nodes(nodes, gpus)
                if not world.embedded:
                    await world.schedulable(nodes)
            if workloads:
                world.start_workloads()
            if rooms:
                world.start_manager(rooms, **(flags or {}))
            await test(world, **arguments)

        async def embedded(arguments: Mapping[str, Any]) -> None:
            async with embedded_world(seed, faults) as world:
                await scenario(world, arguments)

        async def real(kubeconfig: str, arguments: Mapping[str, Any]) -> None:
            async with real_world(kubeconfig) as world:
                await scenario(world, arguments)

        @functools.wraps(test)
        def wrapper(**arguments: Any) -> None:
            kubeconfig = os.environ.get(KUBECONFIG_VARIABLE)
            if not kubeconfig:
                run_virtual(embedded(arguments), limit=limit)
                return
            if faults is not None:
                pytest.skip("faults are injected into the embedded API server only")
            asyncio.run(real(kubeconfig, arguments))

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name != "world"]
        wrapper.__signature__ = signature.replace(parameters=rest, return_annotation=None)  # type: ignore[attr-defined]
        return wrapper

    return decorate
