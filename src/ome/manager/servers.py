"""The manager's own ports: metrics and probes. The webhooks' port is `ome.admission`'s."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence

from aiohttp import web

from ome.manager.metrics import ManagerMetrics


def split_address(address: str) -> tuple[str | None, int]:
    """`:8081` or `127.0.0.1:8081` or `[::1]:8081` as host (None: all) and port. Raises ValueError."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(f"address {address}: missing port in address")
    return host.strip("[]") or None, int(port)


async def serve(app: web.Application, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    """Start serving; `cleanup()` of the runner ends it. Raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls, reuse_address=True).start()
    return runner


def metrics_app(metrics: ManagerMetrics) -> web.Application:
    """`GET /metrics`."""

    async def render(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.router.add_get("/metrics", render)
    return app


def probes_app(not_ready: Callable[[], Sequence[str]]) -> web.Application:
    """`GET /healthz` answers while the event loop turns; `/readyz` says what is not ready yet, or not any more."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        problems = not_ready()
        if problems:
            return web.Response(status=500, text="\n".join(f"[-] {problem}" for problem in problems))
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app
