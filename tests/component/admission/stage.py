"""An API server that calls OME's webhooks in one loop of virtual time: reviews go to the checks without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ome.admission.server import Webhooks
from ome.install import UrlWebhook, manifests
from ome.kube.client import Client
from ome.kube.clock import LoopClock
from ome.local.apiserver.http import User
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.webhooks import SendError
from ome.local.inprocess import InProcessTransport
from tests.support.world import EPOCH, MANAGER, TOKENS, World, resource_of

ANN, ANN_TOKEN = "ann", "ann-token"


@dataclass
class Stage:
    """`world` acts as the administrator, `ann` as a user who may get and patch replicas in `prod`."""

    world: World
    ann: Client
    manager: Client
    reviews: list[str]
    down: bool = False
    """Whether the manager is stopped: nobody answers a review."""


@asynccontextmanager
async def stage(*, features: tuple[str, ...] = (), webhooks: bool = True) -> AsyncIterator[Stage]:
    """A cluster with OME's definitions, roles and webhooks, and no controller."""
    reviews: list[str] = []
    served: list[Webhooks] = []
    staged: list[Stage] = []

    async def send(url: str, authority: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
        path = urlsplit(url).path
        reviews.append(path)
        if staged[0].down:
            raise SendError("connect: connection refused")
        return await served[0].respond(path, body)

    clock = LoopClock(EPOCH)
    tokens = {**TOKENS, ANN_TOKEN: User(ANN, groups=("system:authenticated",))}
    server = ApiServer(tokens=tokens, clock=clock, seed=0, send=send)
    await server.start()

    def client(token: str) -> Client:
        return Client(InProcessTransport(server, token))

    world = World(client("admin-token"), clock, client, server)
    try:
        async with world._stack:
            await install(world, features, webhooks=webhooks)
            environment = world.environment()
            environment = type(environment)(**{**vars(environment), "served": frozenset(map(_served, features))})
            served.append(Webhooks(environment))
            world.start(environment.caches.run())
            await environment.caches.wait_synced()
            staged.append(Stage(world, client(ANN_TOKEN), client(MANAGER), reviews))
            yield staged[0]
    finally:
        await server.stop()


def _served(feature: str) -> str:
    return {"rolloutPolicy": "rolloutpolicies.ome.io", "autoscalerPolicy": "autoscalerpolicies.ome.io"}[feature]


async def install(world: World, features: tuple[str, ...], *, webhooks: bool) -> None:
    endpoint = UrlWebhook("https://127.0.0.1:9443") if webhooks else None
    for entry in manifests(webhook=endpoint, namespace=world.namespace, features=features):
        await world.client.apply(resource_of(entry), dict(entry), field_manager="install")
    for namespace in ("prod", "llama-demo"):
        await world.make_namespace(namespace)
    rules = [{"apiGroups": ["ome.io"], "resources": ["inferencereplicas"], "verbs": ["get", "patch"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": ANN, "namespace": "prod"},
    }
    await world.apply({**role, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ANN}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ANN}]
    await world.apply({**role, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects})


async def settle() -> None:
    """Let watches deliver."""
    await asyncio.sleep(1)


def runtime(name: str = "sglang", namespace: str = "llama-demo", **more: Any) -> dict[str, Any]:
    entry = {
        "modelFormat": {"name": "safetensors"},
        "modelFramework": {"name": "transformers"},
        "autoSelect": True,
    }
    engine = {"runner": {"name": "ome-container", "image": "sglang:1", "ports": [{"containerPort": 8080}]}}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ServingRuntime",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"supportedModelFormats": [entry], "engineConfig": engine, **more},
    }


def model(name: str = "llama") -> dict[str, Any]:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterBaseModel",
        "metadata": {"name": name},
        "spec": {
            "modelFormat": {"name": "safetensors"},
            "modelFramework": {"name": "transformers"},
            "storage": {"storageUri": "hf://meta/llama", "path": "/models/llama"},
        },
    }


def service(name: str = "chat", namespace: str = "llama-demo", **spec: Any) -> dict[str, Any]:
    usual = {"model": {"name": "llama"}, "runtime": {"name": "sglang", "kind": "ServingRuntime"}, "engine": {}}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": usual | spec,
    }
