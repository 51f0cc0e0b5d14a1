"""A cluster in one loop of virtual time: API server, workload controllers, pods that a script plays, and OME's
controllers.

Not a test. `run(scenario)` gives every test a fresh cluster; a scenario gets a `Stage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import ome.models
import ome.services
from ome.api.config import OperatorConfig, parse_config
from ome.api.crds import crds
from ome.install.configuration import config_maps
from ome.kube.cache import Caches, Change
from ome.kube.client import Client
from ome.kube.clock import LoopClock
from ome.kube.controller import Controller, Environment
from ome.kube.errors import NotFound
from ome.kube.events import EventRecorder
from ome.kube.requests import Request
from ome.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    INFERENCE_SERVICES,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
from ome.local.apiserver.customs import DEFINITIONS
from ome.local.apiserver.faults import Fault
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.store import Record
from ome.local.inprocess import InProcessTransport
from ome.local.objects import Object
from ome.local.workloads.controllers import Workshop
from ome.local.workloads.controllers import build as build_workloads
from ome.manager.process import OPTIONAL
from tests.support.virtual_time import run_virtual, until

Json = dict[str, Any]

OME = "ome"
_ADMIN = "admin"
_MANAGER = "manager"
_DEFINED: list[Record] = []
"""OME's definitions as the first cluster stored them: to make them again for every test would be most of its time."""


@dataclass
class Stage:
    """Handles on the running cluster. `calls` are the manager's requests other than reads of watches."""

    client: Client
    server: ApiServer
    clock: LoopClock
    calls: list[tuple[str, str]] = field(default_factory=list)
    hold_pods: bool = False
    fault: Callable[[HttpRequest], Fault | None] | None = None
    """Chooses a fault for a request of the manager; None = all pass."""
    controllers: list[Controller] = field(default_factory=list)
    restart: Callable[[], Awaitable[None]] | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the scenario."""
        return asyncio.get_running_loop().create_task(work)

    async def apply(self, resource: Resource, obj: Json) -> Json:
        """Create or change an object as a user does."""
        return await self.client.apply(resource, obj, field_manager="kubectl")

    async def define(self, resource: Resource) -> None:
        """Serve a resource of another project, its content unchecked, and restart the manager to notice it."""
        open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": open_schema},
            "subresources": {"status": {}},
        }
        names = {"kind": resource.kind, "plural": resource.plural}
        spec = {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [version]}
        metadata = {
            "name": resource.group_resource,
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        }
        await self.create(CRDS, {"metadata": metadata, "spec": spec})
        assert self.restart is not None
        await self.restart()

    async def create(self, resource: Resource, obj: Json) -> Json:
        """Create an object whose kind the resource tells."""
        return await self.client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **obj})

    async def get(self, resource: Resource, name: str, namespace: str = "prod") -> Json:
        return await self.client.get(resource, name, namespace if resource.namespaced else "")

    async def find(self, resource: Resource, name: str, namespace: str = "prod") -> Json | None:
        return await self.client.find(resource, name, namespace if resource.namespaced else "")

    async def service(self, name: str = "chat") -> Json:
        return await self.get(INFERENCE_SERVICES, name)

    async def status(self, name: str = "chat") -> Json:
        return (await self.service(name)).get("status") or {}

    async def condition(self, type_: str, name: str = "chat") -> Json | None:
        conditions = (await self.status(name)).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == type_), None)

    async def eventually(self, check: Callable[[], Awaitable[object]], timeout: float = 30.0) -> Any:
        """The first truthy answer of `check`, asked every 50 virtual milliseconds."""
        deadline = self.clock.monotonic() + timeout
        while True:
            try:
                answer = await check()
            except NotFound:
                answer = None
            if answer:
                return answer
            if self.clock.monotonic() > deadline:
                raise AssertionError(
                    f"not true within {timeout} s: {check}; service: {await self.client.list(INFERENCE_SERVICES)}"
                )
            await asyncio.sleep(0.05)

    async def ready(self, name: str = "chat") -> None:
        async def is_ready() -> bool:
            condition = await self.condition("Ready", name)
            return condition is not None and condition["status"] == "True"

        await self.eventually(is_ready, 60)

    async def ready_pods(self) -> None:
        """Make every pod ready that was held."""
        for pod in (await self.client.list(PODS, "prod")).items:
            await set_pod(self, pod["metadata"]["name"], ready=True)

    async def settle(self, seconds: float = 5.0) -> None:
        """Let everything that is going to happen without a change happen."""
        await asyncio.sleep(seconds)

    async def events(self, reason: str = "", name: str = "chat") -> list[Json]:
        listing = await self.client.list(EVENTS, "prod")
        return [
            event
            for event in listing.items
            if event["involvedObject"]["name"] == name
            and event["involvedObject"]["kind"] == "InferenceService"
            and reason in ("", event["reason"])
        ]

    async def args(self, name: str = "chat-engine") -> list[str]:
        deployment = await self.get(DEPLOYMENTS, name)
        container: Json = deployment["spec"]["template"]["spec"]["containers"][0]
        return list(container.get("args", []))

    async def revisions(self) -> list[str]:
        listing = await self.client.list(CONTROLLER_REVISIONS, OME)
        return [item["metadata"]["name"] for item in listing.items]


def run(scenario: Callable[[Stage], Coroutine[Any, Any, None]], *, config: Mapping[str, str] | None = None) -> None:
    """Run a scenario in a fresh cluster; `config` replaces entries of the chart's configuration."""

    async def main() -> None:
        async with _cluster(config or {}) as stage:
            await scenario(stage)

    run_virtual(main())


@asynccontextmanager
async def _cluster(config: Mapping[str, str]) -> Any:
    clock = LoopClock()
    groups = ("system:masters",)
    users = {token: User(name, groups=groups) for token, name in ((_ADMIN, "admin"), (_MANAGER, "ome-manager"))}
    staged: list[Stage] = []

    def fault(request: HttpRequest) -> Fault | None:
        chosen = staged[0].fault if staged else None
        of_manager = request.headers.get("authorization") == f"Bearer {_MANAGER}"
        return chosen(request) if chosen is not None and of_manager else None

    server = ApiServer(tokens=users, clock=clock, seed=1, faults=fault)
    if _DEFINED:
        server.store.load(DEFINITIONS, _DEFINED)
        server.store.begin(max(record.rv for record in _DEFINED))
    await server.start()
    admin = Client(InProcessTransport(server, _ADMIN), field_manager="test")
    stage = Stage(admin, server, clock)
    staged.append(stage)
    await _prepare(server, admin, config)
    shop = Workshop(admin, Caches(admin, clock), clock)
    workloads = build_workloads(shop)
    tasks = [asyncio.create_task(shop.caches.run())]
    tasks += [asyncio.create_task(controller.run()) for controller in workloads]
    tasks.append(asyncio.create_task(_play_pods(stage, shop.caches)))
    manager: list[asyncio.Task[None]] = []

    async def start() -> None:
        manager.extend(await _start_manager(stage))

    async def restart() -> None:
        await _end(manager)
        manager.clear()
        await start()

    stage.restart = restart
    await start()
    try:
        yield stage
    finally:
        await _end([*manager, *tasks])
        await server.stop()


async def _prepare(server: ApiServer, admin: Client, config: Mapping[str, str]) -> None:
    if not _DEFINED:
        for crd in crds():
            await admin.create(CRDS, crd)
        _DEFINED.extend(server.store.collection(DEFINITIONS).all())
    for name in (OME, "prod"):
        await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for config_map in config_maps(OME, "chart", tag="test"):
        config_map["data"].update(config if config_map["metadata"]["name"] == "inferenceservice-config" else {})
        await admin.create(CONFIG_MAPS, config_map)
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        await admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


async def _start_manager(stage: Stage) -> list[asyncio.Task[None]]:
    def note(request: Request) -> None:
        if "watch=" not in request.target and "watch=1" not in request.target:
            stage.calls.append((request.method, request.path))

    client = Client(InProcessTransport(stage.server, _MANAGER), on_request=note)
    caches = Caches(client, stage.clock)
    found = await client.get(CONFIG_MAPS, "inferenceservice-config", OME)
    parsed = parse_config(found["data"])

    async def config() -> OperatorConfig:
        return parsed

    served = [resource.group_resource for resource in OPTIONAL if await client.serves(resource)]
    environment = Environment(
        client=client,
        caches=caches,
        recorder=EventRecorder(client, "ome-controller-manager", stage.clock),
        clock=stage.clock,
        namespace=OME,
        config=config,
        served=frozenset(served),
    )
    stage.controllers = [*ome.services.build(environment), *ome.models.build(environment)]
    tasks = [asyncio.create_task(caches.run())]
    await caches.wait_synced()
    tasks += [asyncio.create_task(controller.run()) for controller in stage.controllers]
    return tasks


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _play_pods(stage: Stage, caches: Caches) -> None:
    """Pods start after a second and are ready after two, unless they are held or deleted."""
    pods = caches.of(PODS, Object)
    await pods.wait_synced()
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def note(change: Change[Object]) -> None:
        if change.old is None and change.new is not None:
            seen.put_nowait((change.new.metadata.namespace, change.new.metadata.name))

    pods.subscribe(note)
    plays = set()
    while True:
        namespace, name = await seen.get()
        task = asyncio.create_task(_play(stage, namespace, name))
        plays.add(task)
        task.add_done_callback(plays.discard)


async def _play(stage: Stage, namespace: str, name: str) -> None:
    try:
        await asyncio.sleep(1)
        await set_pod(stage, name, ready=False, namespace=namespace)
        await asyncio.sleep(1)
        if not stage.hold_pods:
            await set_pod(stage, name, ready=True, namespace=namespace)
    except NotFound:
        return


async def set_pod(
    stage: Stage,
    name: str,
    *,
    ready: bool,
    namespace: str = "prod",
    state: Json | None = None,
    last: Json | None = None,
) -> None:
    """Write a pod's status as its kubelet would."""
    pod = await stage.client.get(PODS, name, namespace)
    container = pod["spec"]["containers"][0]["name"]
    now = "2026-01-01T00:00:00Z"
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True" if ready else "False", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ],
        "containerStatuses": [
            {
                "name": container,
                "image": "x",
                "imageID": "x",
                "ready": ready,
                "restartCount": 0,
                "state": state or {"running": {"startedAt": now}},
                **({"lastState": last} if last else {}),
            }
        ],
    }
    await stage.client.patch(PODS, name, namespace, {"status": status}, subresource="status")


__all__ = ["OME", "Stage", "run", "set_pod", "until"]
