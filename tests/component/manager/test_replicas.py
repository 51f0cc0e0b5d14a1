"""Three replicas of the manager at once: one leads, and all answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from ome.install import UrlWebhook, manifests
from ome.kube.clock import SystemClock
from ome.kube.resources import LEASES
from ome.local.inprocess import InProcessTransport
from ome.manager.flags import parse_flags
from ome.manager.metrics import ManagerMetrics
from ome.manager.process import LEASE_NAME, Manager
from tests.support.world import ADMIN, World, embedded_world, resource_of

LEADS = re.compile(rf'leader_election_master_status{{name="{LEASE_NAME}"}} 1\.0')


RUNTIME = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "ClusterServingRuntime",
    "metadata": {"name": "rt"},
    "spec": {"engineConfig": {"runner": {"name": "ome-container", "image": "busybox:1"}}},
}


def passes(manager: Manager) -> float:
    """How often its controllers have reconciled something."""
    text = manager.metrics.render().decode()
    return sum(map(float, re.findall(r"^controller_runtime_reconcile_total\{.*\} (.*)$", text, re.MULTILINE)))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]


@contextlib.asynccontextmanager
async def replica(world: World, metrics: int, probes: int, webhooks: int) -> AsyncIterator[Manager]:
    assert world.server is not None
    flags = parse_flags(
        [
            "--leader-elect",
            f"--leader-election-namespace={world.namespace}",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            "--metrics-secure=false",
            f"--health-probe-addr=127.0.0.1:{probes}",
            "--webhook",
            "--webhook-host=127.0.0.1",
            f"--webhook-port={webhooks}",
        ]
    )
    transport = InProcessTransport(world.server, ADMIN)
    manager = Manager(flags, transport, clock=SystemClock(), namespace=world.namespace, metrics=ManagerMetrics())
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def answers(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url, ssl=False) as response:
        return response.status, await response.text()


async def until_ready(session: aiohttp.ClientSession, port: int) -> None:
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            if (await answers(session, f"http://127.0.0.1:{port}/readyz"))[0] == 200:
                return
        await asyncio.sleep(0.05)


@pytest.mark.embedded_only("builds managers in the API server's own loop")
@pytest.mark.spec("MA-3", "MA-9")
def test_one_of_three_replicas_leads_and_all_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "ome-controller-manager-0")

    async def scenario() -> None:
        ports = free_ports(9)
        async with asyncio.timeout(60), embedded_world() as world, contextlib.AsyncExitStack() as stack:
            for obj in manifests(namespace=world.namespace, webhook=UrlWebhook(f"https://127.0.0.1:{ports[2]}")):
                await world.client.apply(resource_of(obj), dict(obj), field_manager="install")
            session = await stack.enter_async_context(aiohttp.ClientSession())
            managers = [
                await stack.enter_async_context(replica(world, *ports[n : n + 3])) for n in range(0, len(ports), 3)
            ]
            for probes in ports[1::3]:
                await until_ready(session, probes)
            while not any(LEADS.search(manager.metrics.render().decode()) for manager in managers):
                await asyncio.sleep(0.05)
            lease = await world.get(LEASES, LEASE_NAME, world.namespace)
            assert re.fullmatch(r"ome-controller-manager-0_[0-9a-f-]{36}", lease["spec"]["holderIdentity"])
            texts = [(await answers(session, f"http://127.0.0.1:{port}/metrics")) for port in ports[0::3]]
            assert [status for status, _ in texts] == [200] * 3
            assert sum(bool(LEADS.search(text)) for _, text in texts) == 1
            for port in ports[1::3]:
                assert await answers(session, f"http://127.0.0.1:{port}/healthz") == (200, "ok")
            for port in ports[2::3]:
                url = f"https://127.0.0.1:{port}/mutate-pods"
                async with session.post(url, data=b"nonsense", ssl=False) as response:
                    assert response.status == 400, "it is answered, if only with why not"
            await world.apply(RUNTIME)
            while not any(map(passes, managers)):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            leading = [bool(LEADS.search(manager.metrics.render().decode())) for manager in managers]
            assert [passes(manager) > 0 for manager in managers] == leading

    asyncio.run(scenario())
