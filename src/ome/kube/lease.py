"""Who leads: a `coordination.k8s.io` Lease held by one replica at a time (`spec/manager.md` section 4).

The holder renews every retry period; one that cannot renew within the renew deadline stops leading before anybody else
may start. A standby takes over when the Lease has stood unrenewed for the lease duration by the standby's own clock. A
clean stop releases the Lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ome.api.meta import micro_timestamp
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from ome.kube.resources import LEASES

log = logging.getLogger("ome.kube.lease")


class LeadershipLost(Exception):
    """The Lease could not be renewed in time; the process must stop what only a leader may do."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. Valid when duration > renew_deadline > 1.2 x retry_period."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(
        self, client: Client, clock: Clock, namespace: str, name: str, identity: str, timing: LeaseTiming
    ) -> None:
        self.identity = identity
        self.leading = False
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._seen: tuple[str, str, int] | None = None
        self._seen_at = 0.0
        self._lease: dict[str, Any] | None = None

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Become the leader, then run `lead` while renewing. Releases the Lease when `lead` ends or we are cancelled.

        Raises LeadershipLost when a renewal did not get through in time; `lead` is cancelled before that.
        """
        await self._acquire()
        self.leading = True
        work = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew_for_ever())
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():
                self.leading = False
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                renewing.result()
            work.result()
        finally:
            renewing.cancel()
            work.cancel()
            await asyncio.gather(work, renewing, return_exceptions=True)
            if self.leading:
                self.leading = False
                await self._release()

    async def _acquire(self) -> None:
        while True:
            try:
                if await self._try_acquire():
                    log.info("successfully acquired lease %s/%s", self._namespace, self._name)
                    return
            except KubeError as error:
                log.warning("cannot acquire lease %s/%s: %s", self._namespace, self._name, error)
            await asyncio.sleep(self._timing.retry_period)

    async def _try_acquire(self) -> bool:
        try:
            lease: dict[str, Any] = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        spec = lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        seen = (holder, str(spec.get("renewTime") or ""), int(spec.get("leaseTransitions") or 0))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        duration = float(spec.get("leaseDurationSeconds") or 0)
        unrenewed = self._clock.monotonic() - self._seen_at
        if holder and holder != self.identity and unrenewed < duration:
            return False
        transitions = seen[2] + (holder != self.identity)
        return await self._write(lease, self._spec(spec, transitions))

    async def _create(self) -> bool:
        body = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": self._spec({}, 0)}
        try:
            self._lease = await self._client.create(LEASES, body)
        except AlreadyExists:
            return False
        return True

    def _spec(self, old: dict[str, Any], transitions: int) -> dict[str, Any]:
        now = micro_timestamp(self._clock.now())
        renewing = old.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "acquireTime": old.get("acquireTime") if renewing else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _write(self, lease: dict[str, Any], spec: dict[str, Any]) -> bool:
        try:
            self._lease = await self._client.replace(LEASES, {**lease, "spec": spec})
        except Conflict:
            return False
        return True

    async def _renew_for_ever(self) -> None:
        deadline = self._clock.monotonic() + self._timing.renew_deadline
        while True:
            await asyncio.sleep(self._timing.retry_period)
            left = deadline - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(0.05, left)):
                    renewed = await self._renew()
            except (KubeError, TimeoutError) as error:
                log.warning("failed to renew lease %s/%s: %s", self._namespace, self._name, error)
                renewed = False
            if renewed:
                deadline = self._clock.monotonic() + self._timing.renew_deadline
            elif self._clock.monotonic() >= deadline:
                raise LeadershipLost("leader election lost")

    async def _renew(self) -> bool:
        lease = self._lease
        assert lease is not None
        spec = lease.get("spec") or {}
        if await self._write(lease, self._spec(spec, int(spec.get("leaseTransitions") or 0))):
            return True
        # Somebody else wrote the Lease (or an answer was lost): only its holder now tells whether we still lead.
        current: dict[str, Any] = await self._client.get(LEASES, self._name, self._namespace)
        spec = current.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            raise LeadershipLost("leader election lost")
        self._lease = current
        return await self._write(current, self._spec(spec, int(spec.get("leaseTransitions") or 0)))

    async def _release(self) -> None:
        if self._lease is None:
            return
        spec = {**(self._lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        spec["renewTime"] = micro_timestamp(self._clock.now())
        try:
            async with asyncio.timeout(5):
                if not await self._write(self._lease, spec):
                    current: dict[str, Any] = await self._client.get(LEASES, self._name, self._namespace)
                    if (current.get("spec") or {}).get("holderIdentity") == self.identity:
                        await self._write(current, spec)
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s/%s not released: %s", self._namespace, self._name, error)
