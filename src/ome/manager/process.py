"""The manager's life: read the configuration, serve what every replica serves, lead when it is our turn, stop cleanly.

Every replica answers webhooks, metrics and probes and keeps the caches warm; only the holder of the Lease runs
controllers (`spec/manager.md` sections 1 and 4).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ome.api.config import ConfigError
from ome.api.types.inference_replica import InferenceReplica
from ome.api.types.inference_service import InferenceService
from ome.kube.aiohttp_transport import AiohttpTransport
from ome.kube.cache import Caches
from ome.kube.client import Client, RateLimit
from ome.kube.clock import Clock, SystemClock
from ome.kube.config import ClusterConfig
from ome.kube.controller import Controller, Environment
from ome.kube.errors import KubeError
from ome.kube.events import EventRecorder
from ome.kube.lease import LeaderElection, LeadershipLost, LeaseTiming
from ome.kube.resources import (
    HTTP_ROUTES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    LEADER_WORKER_SETS,
    POD_GROUPS,
    POD_MONITORS,
    SCALED_OBJECTS,
    SELF_SUBJECT_REVIEWS,
    Resource,
)
from ome.kube.transport import Transport
from ome.manager.config_source import ConfigSource
from ome.manager.flags import Flags, StartupProblem
from ome.manager.metrics import ManagerMetrics
from ome.manager.servers import metrics_app, probes_app, serve, split_address
from ome.manager.state_metrics import StateMetrics

LEASE_NAME = "ome-controller-manager-leader-lock"
COMPONENT = "ome-controller-manager"
DEFAULT_NAMESPACE = "ome"
OPTIONAL: Sequence[Resource] = (HTTP_ROUTES, SCALED_OBJECTS, POD_MONITORS, LEADER_WORKER_SETS, POD_GROUPS)
ROOMS = ("ome.models", "ome.runtimes", "ome.services", "ome.omenative")

log = logging.getLogger("ome.manager")
setup_log = logging.getLogger("setup")


def ome_namespace() -> str:
    """OME's own namespace: `POD_NAMESPACE`, else `ome`."""
    return os.environ.get("POD_NAMESPACE") or DEFAULT_NAMESPACE


def pod_name() -> str:
    """The name this replica goes by in the Lease."""
    return os.environ.get("POD_NAME") or socket.gethostname()


class Manager:
    """One replica. `run` returns after a clean stop and raises StartupProblem when it cannot go on."""

    def __init__(
        self, flags: Flags, transport: Transport, *, clock: Clock, namespace: str, metrics: ManagerMetrics
    ) -> None:
        self.flags = flags
        self.clock = clock
        self.namespace = namespace
        self.metrics = metrics
        self.client = Client(transport, rate_limit=self._rate_limit(), on_request=metrics.request)
        self.caches = Caches(self.client, clock)
        self.controllers: list[Controller] = []
        self._webhooks_ready = not flags.webhook

    def _rate_limit(self) -> Any:
        flags = self.flags
        if flags.kube_api_qps <= 0:
            return None
        return lambda: RateLimit(flags.kube_api_qps, flags.kube_api_burst)

    def not_ready(self) -> list[str]:
        """Why this replica is not ready; empty when it is."""
        problems = []
        if not self.caches.synced:
            problems.append("caches are not synced")
        problems += [f"the watch of {name} is silent" for name in self.caches.deaf()]
        if not self._webhooks_ready:
            problems.append("webhooks are not served yet")
        return problems

    @property
    def idle(self) -> bool:
        """Whether no controller has anything to do now."""
        return all(controller.idle for controller in self.controllers)

    async def environment(self) -> Environment:
        """What the rooms are built with. Raises StartupProblem for an unusable configuration."""
        config = ConfigSource(self.client, self.clock, self.namespace, self.flags.config_cache_ttl)
        try:
            await config.start()
        except ConfigError as error:
            raise StartupProblem(f"Failed to initialize {error.entry} configuration", str(error)) from error
        served = [resource.group_resource for resource in OPTIONAL if await self.client.serves(resource)]
        return Environment(
            client=self.client,
            caches=self.caches,
            recorder=EventRecorder(self.client, COMPONENT, self.clock, host=pod_name()),
            clock=self.clock,
            namespace=self.namespace,
            config=config,
            flags=self.flags,
            metrics=self.metrics,
            username=await self._username(),
            served=frozenset(served),
        )

    async def _username(self) -> str:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await self.client.create(SELF_SUBJECT_REVIEWS, review)
        return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")

    async def run(self) -> None:
        """Serve and lead until cancelled."""
        async with AsyncExitStack() as stack:
            await self._serve_ports(stack)
            environment = await self.environment()
            self.controllers = self._build(environment)
            self._export_state()
            webhooks = await self._build_webhooks(environment, stack) if self.flags.webhook else None
            caches = asyncio.create_task(self.caches.run(), name="caches")
            stack.push_async_callback(_end, caches)
            await self.caches.wait_synced()
            if webhooks is not None:
                await webhooks.start()
                stack.push_async_callback(webhooks.stop)
            self._webhooks_ready = True
            # What is here now stays: the collector need not walk it again and again.
            gc.collect()
            gc.freeze()
            setup_log.info("Starting manager")
            await self._lead_for_ever()

    def _build(self, environment: Environment) -> list[Controller]:
        built: list[Controller] = []
        for room in ROOMS:
            if room == "ome.omenative" and not self.flags.enable_inferencereplica_controller:
                continue
            built += importlib.import_module(room).build(environment)
        return built

    def _export_state(self) -> None:
        services = self.caches.of(INFERENCE_SERVICES, InferenceService)
        replicas = self.caches.of(INFERENCE_REPLICAS, InferenceReplica)
        state = StateMetrics(services.list, replicas.list, leads=lambda: self.metrics.leads)
        self.metrics.registry.register(state)

    async def _build_webhooks(self, environment: Environment, stack: AsyncExitStack) -> Any:
        from ome.admission.server import WebhookServer

        return WebhookServer(
            environment,
            host=self.flags.webhook_host or None,
            port=self.flags.webhook_port,
            certificate_dir=self.flags.webhook_cert_dir,
            on_answer=self.metrics.webhook,
        )

    async def _serve_ports(self, stack: AsyncExitStack) -> None:
        try:
            if self.flags.metrics_bind_address not in ("", "0"):
                host, port = split_address(self.flags.metrics_bind_address)
                tls = _self_signed_context() if self.flags.metrics_secure else None
                stack.push_async_callback((await serve(metrics_app(self.metrics), host, port, tls)).cleanup)
            if self.flags.health_probe_addr not in ("", "0"):
                host, port = split_address(self.flags.health_probe_addr)
                stack.push_async_callback((await serve(probes_app(self.not_ready), host, port)).cleanup)
        except (OSError, ValueError) as error:
            raise StartupProblem("Failed to start manager", str(error)) from error

    async def _lead_for_ever(self) -> None:
        self.metrics.leading(LEASE_NAME, not self.flags.leader_elect)
        if not self.flags.leader_elect:
            await self._run_controllers()
            return
        election = LeaderElection(
            self.client,
            self.clock,
            self.flags.leader_election_namespace,
            LEASE_NAME,
            f"{pod_name()}_{uuid.uuid4()}",
            LeaseTiming(
                self.flags.leader_elect_lease_duration,
                self.flags.leader_elect_renew_deadline,
                self.flags.leader_elect_retry_period,
            ),
        )
        try:
            await election.run(self._run_controllers)
        except LeadershipLost as error:
            raise StartupProblem("Failed to start manager", str(error)) from error
        finally:
            self.metrics.leading(LEASE_NAME, False)

    async def _run_controllers(self) -> None:
        self.metrics.leading(LEASE_NAME, True)
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                setup_log.info("Starting controller", extra={"controller": controller.name})
                group.create_task(controller.run(), name=f"controller {controller.name}")


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _self_signed_context() -> Any:
    from ome.admission.certificates import self_signed_context

    return self_signed_context()


@asynccontextmanager
async def connected(flags: Flags) -> AsyncIterator[Manager]:
    """A manager connected to the cluster that the flags and the environment name."""
    config = ClusterConfig.discover(flags.kubeconfig or None)
    transport = AiohttpTransport(config)
    manager = Manager(flags, transport, clock=SystemClock(), namespace=ome_namespace(), metrics=ManagerMetrics())
    try:
        yield manager
    finally:
        await manager.client.close()


async def run_process(flags: Flags) -> None:
    """Run one replica in this process. Raises StartupProblem; returns after a clean stop."""
    try:
        async with connected(flags) as manager:
            await manager.run()
    except KubeError as error:
        raise StartupProblem("Failed to start manager", str(error)) from error
