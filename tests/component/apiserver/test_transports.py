"""The two ways in: HTTPS with certificates, and the in-process transport; and the faults that may be injected."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ome.kube.client import Client
from ome.kube.clock import LoopClock
from ome.kube.errors import Conflict, NotFound, TransportError
from ome.kube.resources import CONFIG_MAPS as RESOURCE
from ome.local.apiserver import certificates
from ome.local.apiserver.faults import Fault, FaultKind
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.serve import serve
from ome.local.apiserver.server import ApiServer
from ome.local.inprocess import InProcessTransport
from tests.component.apiserver.api import ADMIN, CONFIG_MAPS, Api, config_map, with_api
from tests.support.virtual_time import run_virtual

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

TOKENS = {ADMIN: User("admin", groups=("system:masters",))}


def _client(server: ApiServer) -> Client:
    return Client(InProcessTransport(server, ADMIN))


def _in_process(
    faults: Callable[[HttpRequest], Fault | None] | None = None,
) -> Callable[[Callable[[Client, ApiServer], Awaitable[None]]], Callable[[], None]]:
    def decorate(test: Callable[[Client, ApiServer], Awaitable[None]]) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                server = ApiServer(tokens=TOKENS, clock=LoopClock(), seed=1)
                await server.start()
                server.faults = faults
                await test(_client(server), server)
                await server.stop()

            run_virtual(main())

        return run

    return decorate


@_in_process()
async def test_the_client_works_in_process_as_over_http(client: Client, server: ApiServer) -> None:
    await client.create(RESOURCE, config_map("a", data={"k": "v"}), namespace="default")
    found = await client.get(RESOURCE, "a", "default")
    assert found["data"] == {"k": "v"}
    with pytest.raises(NotFound):
        await client.get(RESOURCE, "b", "default")
    listing = await client.list(RESOURCE, "default")
    assert {item["metadata"]["name"] for item in listing.items} == {"a", "kube-root-ca.crt"}


def _writes(kind: FaultKind, **more: Any) -> Callable[[HttpRequest], Fault | None]:
    return lambda request: Fault(kind, **more) if request.method == "POST" else None


@_in_process(_writes(FaultKind.CONFLICT))
async def test_an_injected_conflict(client: Client, server: ApiServer) -> None:
    with pytest.raises(Conflict):
        await client.create(RESOURCE, config_map("a"), namespace="default")
    assert await client.find(RESOURCE, "a", "default") is None


@_in_process(_writes(FaultKind.TIMEOUT_AFTER))
async def test_a_timeout_after_the_commit_leaves_the_object(client: Client, server: ApiServer) -> None:
    with pytest.raises(TransportError) as lost:
        await client.create(RESOURCE, config_map("a"), namespace="default")
    assert lost.value.outcome_unknown
    assert await client.find(RESOURCE, "a", "default") is not None


@_in_process(_writes(FaultKind.TIMEOUT_BEFORE))
async def test_a_timeout_before_the_commit_leaves_nothing(client: Client, server: ApiServer) -> None:
    with pytest.raises(TransportError):
        await client.create(RESOURCE, config_map("a"), namespace="default")
    assert await client.find(RESOURCE, "a", "default") is None


@_in_process(lambda request: Fault(FaultKind.SLOW, seconds=7) if request.method == "POST" else None)
async def test_a_slow_answer_takes_virtual_time(client: Client, server: ApiServer) -> None:
    began = asyncio.get_running_loop().time()
    await client.create(RESOURCE, config_map("a"), namespace="default")
    assert asyncio.get_running_loop().time() - began == pytest.approx(7)


@_in_process(lambda request: Fault(FaultKind.DROP_STREAM, after=1) if "watch" in request.query else None)
async def test_a_dropped_watch(client: Client, server: ApiServer) -> None:
    events = client.watch(RESOURCE, "default", resource_version="1")
    with pytest.raises(TransportError):
        async for _ in events:
            pass


def test_https_with_a_token_a_certificate_or_neither(tmp_path: Path) -> None:
    async def main() -> None:
        files = certificates.ensure(tmp_path / "pki", ["127.0.0.1"], certificates.utc_now())
        server = ApiServer(tokens=TOKENS, certificate=files.bundle())
        await server.start()
        serving = await serve(server, tls=files.server_context())
        url = f"https://127.0.0.1:{serving.port}"
        plain = ssl.create_default_context(cafile=str(files.authority))
        known = ssl.create_default_context(cafile=str(files.authority))
        certificate, key = certificates.client_certificate(files, "boss", ["system:masters"], certificates.utc_now())
        (tmp_path / "c.pem").write_text(certificate + key)
        known.load_cert_chain(tmp_path / "c.pem")
        async with aiohttp.ClientSession() as session:
            assert (await session.get(url + CONFIG_MAPS, ssl=plain)).status == 403
            assert (await session.get(url + CONFIG_MAPS, ssl=known)).status == 200
            headers = {"Authorization": f"Bearer {ADMIN}"}
            made = await session.post(url + CONFIG_MAPS, json=config_map("a", odd=1), ssl=plain, headers=headers)
            assert (made.status, made.headers["Warning"]) == (201, '299 - "unknown field \\"odd\\""')
            watch = await session.get(f"{url}{CONFIG_MAPS}?watch=1", ssl=plain, headers=headers)
            first = json.loads(await watch.content.readline())
            assert first["type"] == "ADDED"
            watch.close()
            for _ in range(1000):
                if not len(server._watches):
                    break
                await asyncio.sleep(0.02)
            assert not len(server._watches), "a watch outlived its client"
            huge = await session.post(url + CONFIG_MAPS, data=b"x" * (4 * 1024 * 1024), ssl=plain, headers=headers)
            assert huge.status == 413
        await serving.close()

    asyncio.run(main())


def test_certificates_are_made_once_and_kept(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path, ["127.0.0.1"], certificates.utc_now())
    texts = [path.read_bytes() for path in (first.authority, first.serving, first.token_key)]
    again = certificates.ensure(tmp_path, ["127.0.0.1"], certificates.utc_now())
    assert [path.read_bytes() for path in (again.authority, again.serving, again.token_key)] == texts
    assert first.authority_key.stat().st_mode & 0o777 == 0o600
    other = certificates.ensure(tmp_path, ["127.0.0.1", "10.0.0.1"], certificates.utc_now())
    assert other.serving.read_bytes() != texts[1]
    assert other.authority.read_bytes() == texts[0]


@with_api()
async def test_discovery_openapi_and_health_answer(api: Api) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = await api.get("/apis", accept=aggregated)
    assert found["kind"] == "APIGroupDiscoveryList"
    assert found.headers["content-type"] == aggregated
    index = await api.get("/openapi/v3")
    url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    document = await api.get(url)
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "immutable" in document.headers["cache-control"]
    assert (await api.get(url, if_none_match=document.headers["etag"])).status == 304
    second = (await api.get("/openapi/v2"))["definitions"]
    pod = next(found for name, found in second.items() if name.endswith(".v1.Pod"))
    assert pod["properties"]["spec"]["$ref"].removeprefix("#/definitions/") in second
    assert (await api.get("/livez?verbose")).body == "[+]ping ok\nlivez check passed\n"
    assert (await api.get("/version"))["gitVersion"].startswith("v1.")
