"""Lease election in virtual time: one leader, takeover after the duration, a clean stop that frees the Lease."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ome.kube.client import Client
from ome.kube.clock import LoopClock
from ome.kube.errors import TransportError
from ome.kube.lease import LeaderElection, LeadershipLost, LeaseTiming
from ome.kube.requests import Request
from tests.support.fake_transport import FakeTransport, answer, failure
from tests.support.virtual_time import run_virtual

TIMING = LeaseTiming(15, 10, 2)


class LeaseServer:
    """One Lease with optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.unreachable: set[str] = set()

    def client(self, who: str) -> Client:
        def handle(request: Request) -> Any:
            if who in self.unreachable:
                return TransportError("no route")
            return self.handle(request)

        return Client(FakeTransport(handle))

    def handle(self, request: Request) -> Any:
        if request.method == "GET":
            return answer(200, self.lease) if self.lease else failure(404, "NotFound")
        body = json.loads(request.body or b"")
        if request.method == "POST" and self.lease:
            return failure(409, "AlreadyExists")
        if request.method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            return failure(409, "Conflict")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return answer(200, body)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Candidate:
    def __init__(self, server: LeaseServer, name: str) -> None:
        self.leads = False
        self.election = LeaderElection(server.client(name), LoopClock(), "ome", "lock", name, TIMING)
        self.task = asyncio.create_task(self.election.run(self.lead))

    async def lead(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.mark.spec("MA-3")
def test_one_leads_and_the_other_waits_for_a_clean_stop() -> None:
    async def main() -> None:
        server = LeaseServer()
        first = Candidate(server, "one")
        await asyncio.sleep(5)
        second = Candidate(server, "two")
        await asyncio.sleep(100)
        assert (first.leads, second.leads, server.holder) == (True, False, "one")
        await first.stop()
        assert server.holder == ""
        await asyncio.sleep(TIMING.retry_period + 0.1)
        assert (second.leads, server.holder) == (True, "two")
        await second.stop()

    run_virtual(main())


@pytest.mark.spec("MA-4")
def test_a_standby_takes_over_when_the_lease_stood_unrenewed_and_the_old_leader_has_stopped_before() -> None:
    async def main() -> None:
        server = LeaseServer()
        first = Candidate(server, "one")
        await asyncio.sleep(5)
        second = Candidate(server, "two")
        await asyncio.sleep(20)
        server.unreachable.add("one")
        both = False
        for _ in range(300):
            await asyncio.sleep(0.1)
            both = both or (first.leads and second.leads)
        assert not both
        assert second.leads
        with pytest.raises(LeadershipLost, match="leader election lost"):
            await first.task
        await second.stop()

    run_virtual(main())


def test_a_short_outage_does_not_cost_the_lead() -> None:
    async def main() -> None:
        server = LeaseServer()
        first = Candidate(server, "one")
        await asyncio.sleep(5)
        server.unreachable.add("one")
        await asyncio.sleep(6)
        server.unreachable.clear()
        await asyncio.sleep(60)
        assert first.leads
        await first.stop()

    run_virtual(main())
