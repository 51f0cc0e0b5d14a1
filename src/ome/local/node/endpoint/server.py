"""The HTTPS server of the node stand-in, one on loopback for all its nodes.

Paths and query parameters are those that an API server asks a kubelet for. Streams are WebSockets: the nodes declare
`ExtendWebSocketsToKubelet`, so that an API server hands its client's WebSocket on as it is. Who may ask is decided in
`access.py`, certificates are kept in `certificate.py`, and `PodStreams` has the answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web

from ome.kube.errors import KubeError
from ome.local.apiserver.errors import Problem
from ome.local.apiserver.http import ExecOptions, ExecSource, LogOptions, LogSource
from ome.local.apiserver.serve import upgraded
from ome.local.node.endpoint.access import Access, peer_of
from ome.local.node.endpoint.certificate import Certificates
from ome.local.objects import Object

ADDRESS: Final = "127.0.0.1"
HOST: Final = "localhost"
STREAMING: Final = ("exec", "attach", "portForward")


class Sources(LogSource, ExecSource, Protocol):
    """Whoever holds the logs of pods and can enter them."""


@dataclass(frozen=True, slots=True)
class Pods:
    """How the endpoint finds pods: `find(namespace, name)`, and whether their node is alive."""

    find: Callable[[str, str], Object | None]
    is_alive: Callable[[Object], bool]


class Endpoint:
    """Serves until cancelled."""

    def __init__(self, sources: Sources, pods: Pods, access: Access, certificates: Certificates) -> None:
        self._sources = sources
        self._pods = pods
        self._access = access
        self._certificates = certificates
        self._runner: web.ServerRunner | None = None

    async def listen(self, port: int = 0) -> int:
        """Take a port of loopback (0: a free one) and say which."""
        handler = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(handler, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, ADDRESS, port, ssl_context=self._certificates.context, backlog=128)
        await site.start()
        listening: Any = site._server
        return int(listening.sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Keep the certificates until cancelled; the server listens meanwhile."""
        try:
            await self._certificates.keep()
        finally:
            if self._runner is not None:
                await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Problem as problem:
            return _refusal(request, problem)
        except KubeError as error:
            text = f"the cluster cannot say who may ask: {error}"
            return _refusal(request, Problem(503, "ServiceUnavailable", text))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        what, *rest = request.path.strip("/").split("/")
        if what == "healthz":
            await self._authorize(request, "get", "")
            return web.Response(text="ok")
        named = _named(what, rest)
        if named is None:
            raise Problem(404, "NotFound", "404 page not found")
        namespace, name, container = named
        pod = self._pods.find(namespace, name)
        node = str(pod.spec.get("nodeName") or "") if pod is not None else ""
        await self._authorize(request, "create" if what in STREAMING else "get", node)
        if pod is None:
            raise Problem(404, "NotFound", f'pod "{name}" not found')
        if not self._pods.is_alive(pod):
            # A dead machine answers nothing.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        seen = {"metadata": {"name": pod.name, "uid": pod.uid}, "spec": pod.spec, "status": pod.status}
        if what == "containerLogs":
            return await _text(request, self._sources.logs(seen, log_options(container, request.query)))
        if what == "portForward":
            return await upgraded(request, self._sources.port_forward(seen, ()))
        options = exec_options(container, request.query, request.query.getall("command", []), attach=what == "attach")
        return await upgraded(request, self._sources.exec(seen, options))

    async def _authorize(self, request: web.BaseRequest, verb: str, node: str) -> None:
        transport = request.transport
        peer = peer_of(transport.get_extra_info("peercert") if transport is not None else None)
        if peer is None:
            raise Problem(401, "Unauthorized", "Unauthorized")
        if not await self._access.allows(peer, verb, node):
            text = f"Forbidden (user={peer.name}, verb={verb}, resource=nodes, subresource(s)=[proxy])"
            raise Problem(403, "Forbidden", text)


def _named(what: str, rest: list[str]) -> tuple[str, str, str] | None:
    """(namespace, pod, container) of a path; a pod's uid may stand before the container. Pure."""
    if what == "portForward" and len(rest) in (2, 3):
        return rest[0], rest[1], ""
    if what == "containerLogs" and len(rest) == 3:
        return rest[0], rest[1], rest[2]
    if what in ("exec", "attach") and len(rest) in (3, 4):
        return rest[0], rest[1], rest[-1]
    return None


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "") in ("1", "true")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Problem(400, "BadRequest", f"{name}: {text!r} is not a number") from None


def log_options(container: str, query: Mapping[str, str]) -> LogOptions:
    """The query of containerLogs. Raises Problem. Pure."""
    return LogOptions(
        container,
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tailLines"),
        since_seconds=_number(query, "sinceSeconds"),
        since_time=query.get("sinceTime") or None,
        limit_bytes=_number(query, "limitBytes"),
    )


def exec_options(container: str, query: Mapping[str, str], command: list[str], *, attach: bool) -> ExecOptions:
    """The query of exec and attach: `input`, `output`, `error` and `tty` are set to 1. Pure."""
    return ExecOptions(
        container,
        tuple(command),
        stdin=_flag(query, "input"),
        stdout=_flag(query, "output"),
        stderr=_flag(query, "error"),
        tty=_flag(query, "tty"),
        attach=attach,
    )


def _refusal(request: web.BaseRequest, problem: Problem) -> web.Response:
    """The API server makes a Status of a log's refusal, of its text; a stream's it hands on as it is."""
    if request.path.strip("/").partition("/")[0] in STREAMING:
        return web.json_response(problem.status(), status=problem.code)
    return web.Response(status=problem.code, text=problem.message)


async def _text(request: web.BaseRequest, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-type": "text/plain"})
    try:
        await answer.prepare(request)
        async for chunk in chunks:
            await answer.write(chunk)
        await answer.write_eof()
    except ConnectionError:
        pass  # the reader went away
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    return answer
