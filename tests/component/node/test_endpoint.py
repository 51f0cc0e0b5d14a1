"""The node endpoint over TLS: who gets in, what is found, and where its certificate comes from."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientResponse, ClientSession, TCPConnector, WSServerHandshakeError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from ome.kube.client import Client
from ome.kube.clock import SystemClock
from ome.kube.requests import Request
from ome.local.apiserver import certificates as authority
from ome.local.apiserver.errors import Problem
from ome.local.apiserver.http import ExecOptions, LogOptions, Upgrade, WebSocket
from ome.local.node.endpoint.access import Access
from ome.local.node.endpoint.certificate import SIGNER, Certificates
from ome.local.node.endpoint.server import HOST, Endpoint, Pods
from ome.local.objects import Object
from tests.support.decode import decoded_as
from tests.support.fake_transport import Answer, FakeTransport, answer, failure

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
API_SERVER = "kube-apiserver-kubelet-client"


class ControlPlane:
    """What the endpoint needs of a cluster: an authority, a signer, and somebody who knows who may."""

    def __init__(self, folder: Path) -> None:
        self.files = authority.ensure(folder / "pki", ["127.0.0.1"], authority.utc_now())
        self.transport = FakeTransport(self._answer)
        self.publishes = True
        self.signs = True
        self.requests: dict[str, dict[str, Any]] = {}
        self.reviews: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    def _answer(self, request: Request) -> Answer:
        body = json.loads(request.body) if request.body else {}
        if request.path.endswith("/subjectaccessreviews"):
            self.reviews.append(body["spec"])
            return answer(201, {**body, "status": {"allowed": body["spec"]["user"] == API_SERVER}})
        if request.path.endswith("/configmaps/extension-apiserver-authentication"):
            if not self.publishes:
                return failure(404, "NotFound")
            return answer(200, {"data": {"client-ca-file": self.files.bundle()}})
        return self._signing(request, body)

    def _signing(self, request: Request, body: dict[str, Any]) -> Answer:
        if request.method == "POST" and request.path == CSRS:
            if not self.signs:
                return failure(403, "Forbidden", "no signing here")
            self.requests[body["metadata"]["name"]] = body
            return answer(201, body)
        name = request.path.removeprefix(f"{CSRS}/").partition("/")[0]
        if request.method == "DELETE":
            self.deleted.append(name)
            return answer(200, {"kind": "Status", "status": "Success"})
        if request.path.endswith("/approval"):
            self.requests[name] = body
            return answer(200, body)
        return answer(200, self._issued(self.requests[name]))

    def _issued(self, made: dict[str, Any]) -> dict[str, Any]:
        approved = [c["type"] for c in (made.get("status") or {}).get("conditions") or ()]
        if approved != ["Approved"] or made["spec"]["signerName"] != SIGNER:
            return made
        wish = x509.load_pem_x509_csr(base64.b64decode(made["spec"]["request"]))
        root = x509.load_pem_x509_certificate(self.files.authority.read_bytes())
        key = serialization.load_pem_private_key(self.files.authority_key.read_bytes(), None)
        now = authority.utc_now()
        names = wish.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        signed = (
            x509.CertificateBuilder()
            .subject_name(wish.subject)
            .issuer_name(root.subject)
            .public_key(wish.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(names, critical=False)
            .sign(key, hashes.SHA256())  # type: ignore[arg-type]
        )
        text = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
        return {**made, "status": {**made["status"], "certificate": text}}


class Sources:
    """Answers with what it was asked."""

    async def _log(self, options: LogOptions) -> AsyncIterator[bytes]:
        yield f"{options}\n".encode()

    def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        if options.previous:
            raise Problem(400, "BadRequest", f"no log of {pod['metadata']['name']} before")
        return self._log(options)

    def exec(self, pod: dict[str, Any], options: ExecOptions) -> Upgrade:
        if options.container == "simulated":
            raise Problem(400, "BadRequest", "nothing to enter")

        async def run(socket: WebSocket) -> None:
            await socket.send(str(options).encode())

        return Upgrade(("v5.channel.k8s.io",), run)

    def port_forward(self, pod: dict[str, Any], ports: Sequence[int]) -> Upgrade:
        async def run(socket: WebSocket) -> None:
            await socket.send(pod["metadata"]["uid"].encode())

        return Upgrade(("SPDY/3.1+portforward.k8s.io",), run)


class Desk:
    """A listening endpoint, and a client before it."""

    def __init__(self, plane: ControlPlane, port: int, folder: Path) -> None:
        self.plane = plane
        self.port = port
        self._folder = folder
        self._sessions: list[ClientSession] = []

    def session(self, name: str = API_SERVER, *, verify: bool = True, files: Any = None) -> ClientSession:
        """A client with a certificate of this name ("" has none), which trusts the cluster's authority."""
        context = ssl.create_default_context(cafile=str(self.plane.files.authority))
        if not verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if name:
            pair = authority.client_certificate(files or self.plane.files, name, ["nodes"], authority.utc_now())
            path = self._folder / f"{name}.pem"
            path.write_text("".join(pair))
            context.load_cert_chain(path)
        made = ClientSession(f"https://{HOST}:{self.port}", connector=TCPConnector(ssl=context, force_close=True))
        self._sessions.append(made)
        return made

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        async with self.session(**options).get(path) as found:
            return found.status, await found.text()

    async def trusted(self) -> None:
        """Wait until the endpoint's certificate is the one that the cluster signed."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.get("/healthz")
                except ClientConnectionError:
                    await asyncio.sleep(0.05)
                    continue
                return

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u-1"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "c"}]},
}
LOST: dict[str, Any] = {
    **POD,
    "metadata": {"name": "lost", "namespace": "n", "uid": "u-2"},
    "spec": {"nodeName": "node-9"},
}
Scenario = Callable[[Desk], Awaitable[None]]


def at_the_endpoint(scenario: Scenario) -> Callable[..., None]:
    @functools.wraps(scenario)
    def test(tmp_path: Path) -> None:
        asyncio.run(_run(scenario, tmp_path))

    del test.__wrapped__
    return test


async def _run(scenario: Scenario, folder: Path) -> None:
    plane, clock = ControlPlane(folder), SystemClock()
    client = Client(plane.transport, field_manager="test")
    known = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): decoded_as(Object, pod) for pod in (POD, LOST)}
    pods = Pods(find=lambda *key: known.get(key), is_alive=lambda pod: pod.spec["nodeName"] == "node-1")
    endpoint = Endpoint(Sources(), pods, Access(client, clock), Certificates(client, clock, HOST))
    desk = Desk(plane, await endpoint.listen(), folder)
    running = asyncio.create_task(endpoint.run())
    try:
        async with asyncio.timeout(120):
            await scenario(desk)
    finally:
        await desk.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@at_the_endpoint
async def test_the_cluster_signs_the_certificate_and_the_request_is_removed(desk: Desk) -> None:
    await desk.trusted()
    assert [*desk.plane.requests] == desk.plane.deleted
    (made,) = desk.plane.requests.values()
    assert made["spec"]["usages"] == ["digital signature", "server auth"]
    assert x509.load_pem_x509_csr(base64.b64decode(made["spec"]["request"])).subject.rfc4514_string() == (
        "CN=system:node:ome-nodes,O=system:nodes"
    )


@at_the_endpoint
async def test_where_nobody_signs_the_certificate_is_its_own(desk: Desk) -> None:
    desk.plane.signs = False
    await asyncio.sleep(0.2)
    with pytest.raises(ClientConnectionError):
        await desk.get("/healthz")
    assert await desk.get("/healthz", verify=False) == (200, "ok")


@at_the_endpoint
async def test_without_a_certificate_of_the_cluster_nobody_gets_in(desk: Desk) -> None:
    await desk.trusted()
    with pytest.raises((ClientConnectionError, OSError)):
        await desk.get("/containerLogs/n/p/c", name="")
    other = ControlPlane(desk._folder / "other")
    with pytest.raises((ClientConnectionError, OSError)):
        await desk.get("/containerLogs/n/p/c", files=other.files)


@at_the_endpoint
async def test_whom_the_cluster_does_not_let_through_is_refused_once_and_for_a_while(desk: Desk) -> None:
    await desk.trusted()
    desk.plane.reviews.clear()
    for _ in range(2):
        code, text = await desk.get("/containerLogs/n/p/c", name="somebody")
        assert (code, text) == (
            403,
            "Forbidden (user=somebody, verb=get, resource=nodes, subresource(s)=[proxy])",
        )
    assert desk.plane.reviews == [
        {
            "user": "somebody",
            "groups": ["nodes"],
            "resourceAttributes": {
                "verb": "get",
                "version": "v1",
                "resource": "nodes",
                "subresource": "proxy",
                "name": "node-1",
            },
        }
    ]
    with pytest.raises(WSServerHandshakeError) as refused:
        await desk.session("somebody").ws_connect("/exec/n/p/c?command=true")
    assert refused.value.status == 403
    assert desk.plane.reviews[-1]["resourceAttributes"]["verb"] == "create"


@at_the_endpoint
async def test_logs_are_asked_for_as_of_a_kubelet(desk: Desk) -> None:
    await desk.trusted()
    query = "follow=true&timestamps=true&tailLines=5&sinceSeconds=60&limitBytes=100&sinceTime=2026-01-01T00:00:00Z"
    wanted = LogOptions("c", True, False, True, 5, 60, "2026-01-01T00:00:00Z", 100)
    assert await desk.get(f"/containerLogs/n/p/c?{query}") == (200, f"{wanted}\n")
    assert await desk.get("/containerLogs/n/p/c?previous=true") == (400, "no log of p before")
    assert await desk.get("/containerLogs/n/p/c?tailLines=few") == (400, "tailLines: 'few' is not a number")


@at_the_endpoint
async def test_streams_are_web_sockets(desk: Desk) -> None:
    await desk.trusted()
    session = desk.session()
    query = "command=sh&command=-c&input=1&output=1&tty=1"
    for path, attach in ((f"/exec/n/p/c?{query}", False), (f"/attach/n/p/u-1/c?{query}", True)):
        async with session.ws_connect(path, protocols=("v5.channel.k8s.io",)) as socket:
            wanted = ExecOptions("c", ("sh", "-c"), True, True, False, True, attach)
            assert await socket.receive_bytes() == str(wanted).encode()
    async with session.ws_connect("/portForward/n/p", protocols=("SPDY/3.1+portforward.k8s.io",)) as socket:
        assert await socket.receive_bytes() == b"u-1"


@at_the_endpoint
async def test_a_refused_stream_is_refused_with_a_status(desk: Desk) -> None:
    await desk.trusted()

    async def status(found: ClientResponse) -> tuple[int, str]:
        return found.status, (await found.json())["message"]

    session = desk.session()
    async with session.get("/exec/n/p/simulated") as found:
        assert await status(found) == (400, "nothing to enter")
    async with session.post("/exec/n/none/c") as found:
        assert await status(found) == (404, 'pod "none" not found')


@at_the_endpoint
async def test_a_client_that_speaks_only_spdy_is_told_so(desk: Desk) -> None:
    await desk.trusted()
    headers = {"connection": "upgrade", "upgrade": "SPDY/3.1"}
    async with desk.session().post("/exec/n/p/c?command=true", headers=headers) as found:
        assert found.status == 400
        assert (await found.text()).startswith("SPDY is not spoken here, WebSocket is")


@at_the_endpoint
async def test_a_dead_node_answers_nothing(desk: Desk) -> None:
    await desk.trusted()
    with pytest.raises((ClientConnectionError, OSError)):
        await desk.get("/containerLogs/n/lost/c")


@at_the_endpoint
async def test_other_paths_are_not_there(desk: Desk) -> None:
    await desk.trusted()
    for path in ("/", "/pods", "/run/n/p/c", "/exec/n", "/containerLogs/n/p", "/metrics"):
        code, text = await desk.get(path)
        assert code == 404, path
        assert "404 page not found" in text
