"""A simulated cluster with the real engine in it: API server, nodes, one or more managers, all in one virtual-time
loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from ome.api.columnar import decode_rows
from ome.api.config import OperatorConfig, StatusEncoding
from ome.api.meta import to_dict
from ome.kube.clock import LoopClock
from ome.kube.controller import Environment
from ome.kube.events import EventRecorder
from ome.manager.flags import StartupProblem, parse_flags
from ome.manager.metrics import ManagerMetrics
from ome.manager.process import COMPONENT
from ome.manager.process import Manager as Process
from ome.omenative import build
from ome.rendering.model import Json

from .nodes import Nodes
from .server import Gateway, Server, clone

EPOCH = datetime(2026, 9, 28, 14, 0, 0, tzinfo=UTC)
CHART: Json = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "60s",
    "unschedulableGracePeriod": "15m",
    "revisionHistoryLimit": 10,
    "updateRetry": {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0},
    "teardown": {"deadline": "30m"},
}
SERVICE_UID = "service-uid"


class Manager:
    """One process: the product's own `Manager` (its client, caches, Lease election) around this room's controllers.

    `kill` ends it as SIGKILL does, `stop` as SIGTERM does. A leader that loses its Lease ends by itself.
    """

    def __init__(self, world: World, *, elected: bool = False) -> None:
        self.gateway = Gateway(world.server)
        self.elected = elected
        flags = parse_flags(["--leader-elect"] if elected else [])
        self.process = Process(flags, self.gateway, clock=world.clock, namespace="ome", metrics=world.metrics)
        environment = Environment(
            client=self.process.client,
            caches=self.process.caches,
            recorder=EventRecorder(self.process.client, COMPONENT, world.clock),
            clock=world.clock,
            namespace="ome",
            config=world.config,
            flags=flags,
        )
        self.process.controllers = build(environment)
        loop = asyncio.get_running_loop()
        self._caches = loop.create_task(self.process.caches.run())
        self._leads = loop.create_task(self._lead())

    async def _lead(self) -> None:
        await self.process.caches.wait_synced()
        try:
            await self.process._lead_for_ever()
        except StartupProblem:  # the Lease is lost: the process ends
            self.kill()

    @property
    def alive(self) -> bool:
        return self.gateway.alive

    def kill(self) -> None:
        self.gateway.alive = False
        self._caches.cancel()
        self._leads.cancel()

    async def stop(self) -> None:
        """A clean stop: no pass goes on, the Lease is released, then the process ends."""
        self._leads.cancel()
        await asyncio.wait({self._leads}, timeout=30)
        self.kill()

    def check(self) -> None:
        """Raise what a task of the process died of."""
        for task in (self._caches, self._leads):
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise AssertionError("a task of the manager ended") from task.exception()


class World:
    """Everything, and what a user does to it."""

    def __init__(self, *, lifecycle: Json | None = None, capacity: int = 8, columnar: bool = False) -> None:
        self.clock = LoopClock(EPOCH)
        self.server = Server(self.clock.now)
        self.nodes = Nodes(self.server, capacity=capacity)
        self.metrics = ManagerMetrics()
        self.lifecycle: Json = CHART if lifecycle is None else lifecycle
        self.columnar = columnar
        self.managers: list[Manager] = []
        self.every_step: Callable[[], None] = lambda: None
        self._spawned: set[asyncio.Task[None]] = set()

    async def config(self) -> OperatorConfig:
        encoding = StatusEncoding(instance_status_encoding="ColumnarV2" if self.columnar else "DenseV1")
        return OperatorConfig(lifecycle=self.lifecycle, status_encoding=encoding)

    def start(self, *, elected: bool = False) -> Manager:
        manager = Manager(self, elected=elected)
        self.managers.append(manager)
        return manager

    def stop(self) -> None:
        for manager in self.managers:
            manager.kill()

    def spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        """Let something go on beside the story."""
        task = asyncio.get_running_loop().create_task(doing)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def run(self, seconds: float) -> None:
        """Let virtual time pass, nodes and invariants stepping once a second."""
        for _ in range(int(seconds)):
            self.nodes.step()
            await asyncio.sleep(1)
            for manager in self.managers:
                if manager.alive:
                    manager.check()
            self.every_step()

    async def until(self, condition: Callable[[], object], *, limit: int = 3600) -> float:
        """Run until the condition holds; the virtual seconds it took."""
        began = asyncio.get_running_loop().time()
        for _ in range(limit):
            if condition():
                return asyncio.get_running_loop().time() - began
            await self.run(1)
        raise AssertionError(f"not true within {limit} virtual seconds")

    # -- the user ------------------------------------------------------------------------------------------------------

    def apply(self, name: str = "chat", *, image: str = "sglang:v1", replicas: int = 3, **spec: Any) -> None:
        """Write the InferenceReplica as the InferenceService controller projects it."""
        key = ("inferencereplicas", "prod", f"{name}-engine")
        known = self.server.objects.get(key)
        wanted = projected(name, image=image, replicas=replicas, **spec)
        if known is None:
            self.server.create("inferencereplicas", wanted)
            return
        new = clone(known)
        new["spec"] = wanted["spec"]
        self.server.update(key, new)

    def change(self, name: str = "chat", **spec: Any) -> None:
        """Set fields of the spec; None removes one."""
        key = ("inferencereplicas", "prod", f"{name}-engine")
        new = clone(self.server.objects[key])
        for field, value in spec.items():
            if value is None:
                new["spec"].pop(field, None)
            else:
                new["spec"][field] = value
        self.server.update(key, new)

    def image(self, image: str, name: str = "chat") -> None:
        runners = clone(self.replica(name)["spec"]["runners"])
        for runner in runners:
            runner["template"]["spec"]["containers"][0]["image"] = image
        self.change(name, runners=runners)

    def environment(self, value: str, name: str = "chat") -> None:
        runners = clone(self.replica(name)["spec"]["runners"])
        for runner in runners:
            runner["template"]["spec"]["containers"][0]["env"] = [{"name": "CHANGED", "value": value}]
        self.change(name, runners=runners)

    def annotate(self, key: str, value: str | None, name: str = "chat") -> None:
        where = ("inferencereplicas", "prod", f"{name}-engine")
        new = clone(self.server.objects[where])
        annotations = new["metadata"].setdefault("annotations", {})
        if value is None:
            annotations.pop(key, None)
        else:
            annotations[key] = value
        self.server.update(where, new)

    # -- looking -------------------------------------------------------------------------------------------------------

    def replica(self, name: str = "chat") -> Json:
        found = self.server.get("inferencereplicas", "prod", f"{name}-engine")
        assert found is not None
        return found

    def status(self, name: str = "chat") -> Json:
        return self.replica(name).get("status") or {}

    def rows(self, name: str = "chat") -> list[Json]:
        return rows_of(self.status(name))

    def phases(self, name: str = "chat") -> list[str]:
        return [row["phase"] for row in self.rows(name)]

    def blocks(self, name: str = "chat") -> list[Json]:
        return self.status(name).get("retryBlocks") or []

    def pods(self, name: str = "chat") -> list[Json]:
        label = "ome.io/inferenceservice"
        return [p for p in self.server.list("pods", "prod") if p["metadata"].get("labels", {}).get(label) == name]

    def pod_names(self, name: str = "chat") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(name)]

    def events(self, reason: str = "") -> list[Json]:
        found = sorted(self.server.list("events"), key=lambda event: event["metadata"]["name"])
        return [event for event in found if reason in ("", event["reason"])]

    def settled(self, name: str = "chat") -> bool:
        """Every Instance Ready on the update revision."""
        status = self.status(name)
        rows = self.rows(name)
        return (
            bool(rows)
            and status.get("observedGeneration") == self.replica(name)["metadata"]["generation"]
            and status.get("currentRevision") == status.get("updateRevision")
            and all(row["phase"] == "Ready" for row in rows)
            and len(rows) == max(1, self.replica(name)["spec"].get("replicas") or 0)
            and status.get("servingReplicas") == len(rows)
        )


def rows_of(status: Json) -> list[Json]:
    """The Instances' rows, whichever way they are written."""
    if "instanceStatusColumns" in status:
        return [to_dict(row) for row in decode_rows(status["instanceStatusColumns"], limit=1000)]
    return status.get("instanceStatuses") or []


def projected(name: str, *, image: str, replicas: int, **spec: Any) -> Json:
    """The InferenceReplica of a service's engine."""
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "ome-container", "image": image, "ports": [{"containerPort": 8080}]}]},
    }
    lifecycle = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}}
    owner = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "name": name,
        "uid": SERVICE_UID,
        "controller": True,
    }
    return {
        "metadata": {
            "name": f"{name}-engine",
            "namespace": "prod",
            "labels": {"ome.io/inferenceservice": name},
            "annotations": {"ome.io/controller-write": "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "component": "engine",
            "parentRef": {"name": name},
            "replicas": replicas,
            "lifecycle": lifecycle,
            "runners": [{"name": "default", "size": 1, "template": template}],
            **spec,
        },
    }


def gang(image: str = "sglang:v1", workers: int = 2) -> list[Json]:
    """Runners of an Instance of one leader and some workers."""

    def template(command: str) -> Json:
        container = {"name": "ome-container", "image": image, "command": [command]}
        return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}

    return [
        {"name": "leader", "size": 1, "template": template("lead")},
        {"name": "worker", "size": workers, "template": template("work")},
    ]


def summary(world: World) -> str:
    """The state in a few lines, for a failing test."""
    lines = [json.dumps(row) for row in world.rows()]
    lines += [json.dumps(block) for block in world.blocks()]
    for pod in world.pods():
        conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or []}
        going = pod["metadata"].get("deletionTimestamp", "")
        lines.append(f"{pod['metadata']['name']} {pod['spec']['containers'][0]['image']} {conditions} {going}")
    return "\n".join(lines)


Steps = Callable[[World], Awaitable[None]]
