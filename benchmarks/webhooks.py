"""How long the InferenceService validator takes at 500 reviews a second over TLS, and what a review costs in CPU.

Budget: p99 at most 10 ms. The client is a process of its own; both share this machine, so times on a busy one say
little.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import ssl
import time
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from ome.admission.certificates import Bundle, make_bundle, serving_names
from ome.admission.server import WebhookServer
from ome.api.config import parse_config
from ome.install import manifests
from ome.kube.cache import Caches
from ome.kube.client import Client
from ome.kube.clock import SystemClock
from ome.kube.controller import Environment
from ome.kube.events import EventRecorder
from ome.kube.resources import CLUSTER_BASE_MODELS, CRDS, NAMESPACES, SERVING_RUNTIMES
from ome.local.apiserver.http import User
from ome.local.apiserver.server import ApiServer
from ome.local.inprocess import InProcessTransport

RATE, REVIEWS, WARM_UP = 500, 3_000, 64
PATH = "/validate-ome-io-v1beta1-inferenceservice"
FORMAT = {"modelFormat": {"name": "safetensors"}, "modelFramework": {"name": "transformers"}}


def review() -> bytes:
    """An update of a service that names a model and a runtime: the usual, admitted case."""
    spec = {"model": {"name": "llama"}, "runtime": {"name": "sglang", "kind": "ServingRuntime"}, "engine": {}}
    service = {"metadata": {"name": "chat", "namespace": "prod"}, "spec": spec}
    request = {"uid": "u", "operation": "UPDATE", "namespace": "prod", "object": service, "oldObject": service}
    return json.dumps({"request": request}).encode()


def load(port: int, authority: str, results: Queue[tuple[float, float, float]]) -> None:
    """Send reviews on time, whether or not earlier ones are answered; put p50, p99 and the longest, in seconds."""

    async def run() -> list[float]:
        trusting = ssl.create_default_context(cadata=authority)
        body, waits = review(), []
        connector = aiohttp.TCPConnector(limit=32, ssl=trusting)
        async with aiohttp.ClientSession(connector=connector, base_url=f"https://127.0.0.1:{port}") as session:

            async def one(due: float) -> None:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                started = time.perf_counter()
                async with session.post(PATH, data=body) as answer:
                    assert (await answer.json())["response"]["allowed"]
                waits.append(time.perf_counter() - started)

            await asyncio.gather(*(one(0) for _ in range(WARM_UP)))
            waits.clear()
            start = time.perf_counter()
            await asyncio.gather(*(one(start + number / RATE) for number in range(REVIEWS)))
        return sorted(waits)

    waits = asyncio.run(run())
    results.put((waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1]))


async def prepared(client: Client) -> Environment:
    """An environment of caches with one model and one runtime in them."""
    clock = SystemClock()
    definitions = ("clusterbasemodels", "basemodels", "acceleratorclasses", "inferencereplicas", "inferenceservices")
    wanted = (*definitions, "servingruntimes", "clusterservingruntimes")
    for entry in manifests():
        if entry["kind"] == "CustomResourceDefinition" and entry["metadata"]["name"].partition(".")[0] in wanted:
            await client.create(CRDS, entry)
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
    head = {"apiVersion": "ome.io/v1beta1"}
    storage = {"storageUri": "hf://meta/llama", "path": "/models/llama"}
    model: dict[str, Any] = {**head, "kind": "ClusterBaseModel", "metadata": {"name": "llama"}}
    await client.create(CLUSTER_BASE_MODELS, {**model, "spec": {**FORMAT, "storage": storage}})
    runtime: dict[str, Any] = {**head, "kind": "ServingRuntime", "metadata": {"name": "sglang", "namespace": "prod"}}
    engine = {"runner": {"name": "ome-container", "image": "sglang:1"}}
    spec = {"supportedModelFormats": [{**FORMAT, "autoSelect": True}], "engineConfig": engine}
    await client.create(SERVING_RUNTIMES, {**runtime, "spec": spec}, namespace="prod")

    async def config() -> Any:
        return parse_config({})

    recorder = EventRecorder(client, "benchmark", clock)
    return Environment(client, Caches(client, clock), recorder, clock, "ome", config)


async def measure(bundle: Bundle, folder: str) -> None:
    server = ApiServer(tokens={"admin": User("admin", groups=("system:masters",))})
    await server.start()
    environment = await prepared(Client(InProcessTransport(server, "admin")))
    webhooks = WebhookServer(environment, host="127.0.0.1", port=0, certificate_dir=folder)
    caches = asyncio.create_task(environment.caches.run())
    await environment.caches.wait_synced()
    await webhooks.start()
    results: Queue[tuple[float, float, float]] = multiprocessing.get_context("spawn").Queue()
    client = multiprocessing.get_context("spawn").Process(
        target=load, args=(webhooks.port, bundle.authority.decode(), results)
    )
    client.start()
    spent = time.process_time()
    middle, tail, longest = await asyncio.to_thread(results.get)
    spent = time.process_time() - spent
    print(f"reviews a second            {RATE}")
    print(f"p50                         {middle * 1e3:6.2f} ms")
    print(f"p99                         {tail * 1e3:6.2f} ms   (budget 10)")
    print(f"longest                     {longest * 1e3:6.2f} ms")
    print(f"CPU of a review, TLS and all {spent / (REVIEWS + WARM_UP) * 1e3:5.2f} ms")
    await webhooks.stop()
    caches.cancel()
    await asyncio.gather(caches, return_exceptions=True)
    await server.stop()


def main() -> None:
    bundle = make_bundle(serving_names("ome"), datetime.now(UTC))
    with TemporaryDirectory() as folder:
        Path(folder, "tls.crt").write_bytes(bundle.certificate)
        Path(folder, "tls.key").write_bytes(bundle.key)
        asyncio.run(measure(bundle, folder))


if __name__ == "__main__":
    main()
