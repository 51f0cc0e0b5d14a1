"""The webhook server: one HTTPS listener, one path a webhook (`spec/install-and-operate.md` section 3).

Decodes reviews, finds the check, answers. The checks are pure and know nothing of HTTP. Started by `ome.manager` in
every replica, leader or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from ome.admission.certificates import (
    CONFIGURATIONS,
    Keeper,
    MountedCertificate,
    SharedCertificate,
    keep,
    server_context,
)
from ome.admission.models import validate_model
from ome.admission.pods import mutate_pod
from ome.admission.pods.mutator import named_weight
from ome.admission.policies import validate_benchmark, validate_policy
from ome.admission.replicas import ReplicaProposal, validate_replica
from ome.admission.review import ALLOWED, Request, Verdict, decode, deny, encode
from ome.admission.revisions import validate_revision
from ome.admission.runtimes import default_runtime, validate_runtime
from ome.admission.services.proposal import Features
from ome.admission.services.validator import validate_service
from ome.admission.world import Sources, judge
from ome.api.config import ConfigError, OperatorConfig
from ome.api.meta import ObjectHead
from ome.kube.controller import Environment
from ome.kube.errors import KubeError
from ome.kube.resources import FINE_TUNED_WEIGHTS
from ome.runtimes.reading import RuntimeKind

log = logging.getLogger("ome.admission")

BODY_LIMIT: Final = 16 * 1024 * 1024
"""Bytes. An object is at most 3 MiB for the API server; an update carries two."""

_POD_ENTRIES: Final = ("fineTunedAdapter", "modelInit", "servingSidecar", "metricsAggregator")

Answer = Callable[[str, int], None]
Json = dict[str, Any]


class Webhooks:
    """The checks by path, bound to what they look up. Build it before the environment's caches run."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._sources = Sources.of(environment)
        self._features = Features(
            autoscaler_policy="autoscalerpolicies.ome.io" in environment.served,
            rollout_policy="rolloutpolicies.ome.io" in environment.served,
        )

    async def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and body that answer a review sent to one of `paths()`."""
        try:
            request = decode(body)
        except msgspec.DecodeError as error:
            return 400, f"no AdmissionReview: {error}\n".encode()
        return 200, encode(request, await self._verdict(path, request))

    async def _verdict(self, path: str, request: Request) -> Verdict:
        """A check that cannot be made denies, and says why: letting through what nobody looked at would be worse."""
        try:
            verdict = await _checks()[path](self, request)
        except msgspec.ValidationError as error:
            return deny(f"the object cannot be read: {error}")
        except (KubeError, ConfigError) as error:
            log.error("a check could not be made", extra={"webhook": path, "error": str(error)})
            return deny(f"the check could not be made, try again: {error}")
        if not verdict.allowed:
            log.debug("denied", extra={"webhook": path, "namespace": request.namespace, "object": request.name})
        return verdict

    @staticmethod
    def paths() -> list[str]:
        """Every path that is served."""
        return [*_checks()]

    async def _unchanged(self, request: Request) -> Verdict:
        """Defaults are the schema's alone: nothing is written back (`spec/inference-service.md` section 2)."""
        return ALLOWED

    async def _service(self, request: Request) -> Verdict:
        new = _placed(request)
        return await judge(
            lambda world: validate_service(new, request.old_object, world, self._features), self._sources
        )

    async def _namespaced_runtime(self, request: Request) -> Verdict:
        return await self._runtime(RuntimeKind.NAMESPACED, request)

    async def _cluster_runtime(self, request: Request) -> Verdict:
        return await self._runtime(RuntimeKind.CLUSTER, request)

    async def _runtime(self, kind: RuntimeKind, request: Request) -> Verdict:
        new = _placed(request)
        return await judge(lambda world: validate_runtime(new, kind, world), self._sources)

    async def _runtime_preset(self, request: Request) -> Verdict:
        return default_runtime(_placed(request))

    async def _base_model(self, request: Request) -> Verdict:
        return validate_model(_placed(request), cluster=False)

    async def _cluster_base_model(self, request: Request) -> Verdict:
        return validate_model(_placed(request), cluster=True)

    async def _replica(self, request: Request) -> Verdict:
        new, manager = _placed(request), self._environment.username
        return await judge(
            lambda world: validate_replica(ReplicaProposal(new, request.old_object, request.username, manager, world)),
            self._sources,
        )

    async def _revision(self, request: Request) -> Verdict:
        return validate_revision(_placed(request), request.old_object or {})

    async def _benchmark(self, request: Request) -> Verdict:
        return validate_benchmark(_placed(request))

    async def _rollout_policy(self, request: Request) -> Verdict:
        return await self._policy("RolloutPolicy", request)

    async def _autoscaler_policy(self, request: Request) -> Verdict:
        return await self._policy("AutoscalerPolicy", request)

    async def _policy(self, kind: str, request: Request) -> Verdict:
        new = None if request.object is None else _placed(request)
        return await judge(lambda world: validate_policy(kind, new, request.old_object, world), self._sources)

    async def _pod(self, request: Request) -> Verdict:
        pod = _placed(request)
        name = named_weight(pod)
        weight = await self._environment.client.find(FINE_TUNED_WEIGHTS, name, into=dict) if name else None
        try:
            config = await self._environment.config()
        except ConfigError as error:
            if error.entry in _POD_ENTRIES:
                return deny(f"unable to unmarshal {error.entry} json string: {error}")
            # Another entry's fault must not keep a running service from getting its pods back.
            config = OperatorConfig()
        return mutate_pod(pod, config, weight)


@cache
def _checks() -> dict[str, Callable[[Webhooks, Request], Awaitable[Verdict]]]:
    return {
        "/mutate-ome-io-v1beta1-inferenceservice": Webhooks._unchanged,
        "/mutate-ome-io-v1beta1-servingruntime": Webhooks._runtime_preset,
        "/mutate-ome-io-v1beta1-clusterservingruntime": Webhooks._runtime_preset,
        "/mutate-pods": Webhooks._pod,
        "/validate-ome-io-v1beta1-inferenceservice": Webhooks._service,
        "/validate-ome-io-v1beta1-servingruntime": Webhooks._namespaced_runtime,
        "/validate-ome-io-v1beta1-clusterservingruntime": Webhooks._cluster_runtime,
        "/validate-ome-io-v1beta1-basemodel": Webhooks._base_model,
        "/validate-ome-io-v1beta1-clusterbasemodel": Webhooks._cluster_base_model,
        "/validate-ome-io-v1beta1-inferencereplica": Webhooks._replica,
        "/validate-ome-io-v1beta1-benchmarkjob": Webhooks._benchmark,
        "/validate-ome-io-v1beta1-rolloutpolicy": Webhooks._rollout_policy,
        "/validate-ome-io-v1beta1-autoscalerpolicy": Webhooks._autoscaler_policy,
        "/validate-apps-v1-controllerrevision": Webhooks._revision,
    }


def _placed(request: Request) -> Json:
    """The object with the namespace it will have: at a create the request alone may know it."""
    obj = request.object or {}
    metadata = obj.get("metadata") or {}
    if not request.namespace or metadata.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": request.namespace}}


class _Door:
    """HTTP before the checks. aiohttp's low-level server: a review needs no routes, and every write waits for one."""

    def __init__(self, webhooks: Webhooks, on_answer: Answer | None) -> None:
        self._webhooks = webhooks
        self._paths = frozenset(webhooks.paths())
        self._on_answer = on_answer

    async def answer(self, http: web.BaseRequest) -> web.Response:
        path = http.path
        if path not in self._paths:
            return web.Response(status=404, text="404: Not Found")
        if http.method != "POST":
            return web.Response(status=405, text="405: Method Not Allowed", headers={"allow": "POST"})
        status, body = await self._webhooks.respond(path, await http.read())
        if self._on_answer is not None:
            self._on_answer(path, status)
        kind = "application/json" if status == 200 else "text/plain"
        return web.Response(status=status, body=body, content_type=kind)


def build_server(environment: Environment, on_answer: Answer | None = None) -> web.Server:
    """The HTTP server, not yet listening. `on_answer(path, HTTP code)` is told of every answer of a check."""

    def asked(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)

    door = _Door(Webhooks(environment), on_answer)
    return web.Server(door.answer, request_factory=asked, access_log=None)


class WebhookServer:
    """The listener with its certificate. Made in the loop before the caches run, started after their first lists."""

    def __init__(
        self,
        environment: Environment,
        *,
        host: str | None = None,
        port: int = 9443,
        certificate_dir: str = "",
        on_answer: Answer | None = None,
    ) -> None:
        """A `certificate_dir` that holds `tls.crt` and `tls.key` is used; otherwise the shared Secret is kept."""
        self._server = build_server(environment, on_answer)
        self._host = host
        self._port = port
        self._context = server_context()
        self._changed = asyncio.Event()
        directory = Path(certificate_dir) if certificate_dir else None
        self._keeper: Keeper
        if directory is not None and MountedCertificate.present(directory):
            self._keeper = MountedCertificate(directory, self._context)
        else:
            self._keeper = SharedCertificate(
                environment.client, environment.clock, environment.namespace, self._context
            )
            for resource, name in CONFIGURATIONS:
                cache = environment.caches.of(resource, ObjectHead, field_selector=f"metadata.name={name}")
                cache.subscribe(lambda _change: self._changed.set())
        self._runner: web.ServerRunner | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def context(self) -> ssl.SSLContext:
        return self._context

    @property
    def port(self) -> int:
        """The port in use; the one asked for until the server listens."""
        addresses = self._runner.addresses if self._runner is not None else []
        return int(addresses[0][1]) if addresses else self._port

    async def start(self) -> None:
        """Have a certificate and be trusted, then listen. Raises `KubeError`, `OSError`, `ssl.SSLError`."""
        await self._keeper.ensure()
        self._runner = web.ServerRunner(self._server)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._context).start()
        self._keeping = asyncio.create_task(keep(self._keeper, self._changed), name="webhook certificate")

    async def stop(self) -> None:
        """Finish what is being answered, then close."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        if self._runner is not None:
            await self._runner.cleanup()
