"""Holds the operator's Lease in a process of its own, so that no manager leads: `lease_holder KUBECONFIG`."""

from __future__ import annotations

import asyncio
import signal
import sys

from ome.kube.aiohttp_transport import AiohttpTransport
from ome.kube.client import Client
from ome.kube.clock import SystemClock
from ome.kube.config import ClusterConfig
from ome.kube.lease import LeaderElection, LeaseTiming

NAME = "ome-controller-manager-leader-lock"


async def main(kubeconfig: str) -> None:
    client = Client(AiohttpTransport(ClusterConfig.load(kubeconfig)))
    election = LeaderElection(client, SystemClock(), "ome", NAME, "test_holder", LeaseTiming(15, 10, 1))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def lead() -> None:
        print("held", flush=True)
        await stop.wait()

    try:
        await election.run(lead)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
