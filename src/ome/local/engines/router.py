"""`local/router`: spreads requests over the engine's pods, found through the Kubernetes API as real routers do.

Needs the pod's ServiceAccount (get, list and watch pods in its namespace), `OME_INFERENCESERVICE_NAME` or
`--service-discovery-selector`, and `--engine-port`. Least busy engine first; a refused connection moves on to the next.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from ome.api.core import Pod
from ome.kube.aiohttp_transport import AiohttpTransport
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.clock import SystemClock
from ome.kube.config import ClusterConfig
from ome.kube.resources import PODS
from ome.local.engines.serving import InFlight, argument_parser, counting, parse, refusal, run

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}


@dataclass
class Engines:
    """The ready engine pods and how busy each is."""

    cache: Cache[Pod]
    port: int
    busy: dict[str, int] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)

    def took(self, address: str) -> None:
        """A request went to this pod: the others are next."""
        self._turns[address] = max(self._turns.values(), default=0) + 1

    def ready(self) -> list[str]:
        """Addresses of pods that are Ready and not ending, the least busy first, those equally busy in turn."""
        found = [
            pod.status.pod_ip
            for pod in self.cache.list()
            if pod.status.pod_ip
            and not pod.metadata.deleting
            and any(condition.type == "Ready" and condition.true for condition in pod.status.conditions)
        ]
        return sorted(found, key=lambda address: (self.busy.get(address, 0), self._turns.get(address, 0), address))


def build_app(engines: Engines, in_flight: InFlight, session: aiohttp.ClientSession) -> web.Application:
    """`/health` answers for the router itself; everything else goes to an engine."""

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "engines": len(engines.ready())})

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        for address in engines.ready():
            engines.busy[address] = engines.busy.get(address, 0) + 1
            engines.took(address)
            try:
                return await _through(session, f"http://{address}:{engines.port}", request, headers, body)
            except aiohttp.ClientConnectorError:
                continue
            finally:
                engines.busy[address] -= 1
        return refusal("no engine is ready", 503, "unavailable_error")

    app = web.Application(middlewares=[counting(in_flight)], client_max_size=64 * 2**20)
    for path in ("/health", "/healthz", "/ready"):
        app.router.add_get(path, health)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


async def _through(
    session: aiohttp.ClientSession, base: str, request: web.Request, headers: dict[str, str], body: bytes
) -> web.StreamResponse:
    async with session.request(request.method, base + request.path_qs, headers=headers, data=body) as inner:
        kept = {name: value for name, value in inner.headers.items() if name.lower() not in HOP_BY_HOP}
        answer = web.StreamResponse(status=inner.status, headers={**kept, "x-ome-engine": base})
        await answer.prepare(request)
        async for chunk in inner.content.iter_any():
            await answer.write(chunk)
        await answer.write_eof()
        return answer


def selector(service: str, given: Sequence[str]) -> str:
    """The label selector of the engine's pods: the given `key=value` parts, else the service's engine."""
    return ",".join(given) if given else f"component=engine,ome.io/inferenceservice={service}"


def main(arguments: list[str] | None = None) -> int:
    parser = argument_parser("A router over an InferenceService's engine pods.")
    parser.add_argument("--engine-port", type=int, default=8080, help="port of the engine's pods")
    parser.add_argument("--service-discovery-selector", nargs="*", default=[], help="labels of the engine's pods")
    parser.add_argument("--inference-service", default=os.environ.get("OME_INFERENCESERVICE_NAME", ""))
    options = parse(parser, arguments)
    if not options.inference_service and not options.service_discovery_selector:
        print("the router needs --inference-service or --service-discovery-selector", file=sys.stderr)
        return 2

    async def build() -> tuple[web.Application, InFlight]:
        config = ClusterConfig.discover()
        client = Client(AiohttpTransport(config, user_agent="ome-local-router"))
        cache = Cache(
            client,
            PODS,
            Pod,
            clock=SystemClock(),
            namespace=config.namespace,
            label_selector=selector(options.inference_service, options.service_discovery_selector),
        )
        in_flight = InFlight()
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=2))
        app = build_app(Engines(cache, options.engine_port), in_flight, session)
        app["watching"] = asyncio.create_task(cache.run())
        return app, in_flight

    return run(build, options.host, options.port)


if __name__ == "__main__":
    sys.exit(main())
