"""The webhooks' own certificate: shared in a Secret, trusted by both configurations, served over TLS."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from ome.admission.certificates import (
    SECRET_NAME,
    Bundle,
    SharedCertificate,
    keep,
    make_bundle,
    server_context,
    serving_names,
)
from ome.admission.server import WebhookServer
from ome.kube.clock import LoopClock
from ome.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from tests.component.admission.conftest import Theatre
from tests.component.admission.stage import Stage
from tests.support.world import EPOCH


async def trusted(made: Stage) -> set[str]:
    """Every CA bundle in both configurations, decoded."""
    found: set[str] = set()
    for resource, name in (
        (MUTATING_WEBHOOKS, "ome-mutating-webhooks"),
        (VALIDATING_WEBHOOKS, "ome-validating-webhooks"),
    ):
        for hook in (await made.world.get(resource, name))["webhooks"]:
            found.add(base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode())
    return found


async def stored(made: Stage) -> Bundle:
    bundle = Bundle.of_secret(await made.world.get(SECRETS, SECRET_NAME, "ome"))
    assert bundle is not None
    return bundle


def keeper(made: Stage, *, ahead: timedelta = timedelta(0)) -> SharedCertificate:
    """As the manager's ServiceAccount, whose role reaches that Secret and those two configurations only."""
    return SharedCertificate(made.manager, LoopClock(EPOCH + ahead), "ome", server_context())


def test_replicas_share_one_certificate_and_one_renews_it(theatre: Theatre) -> None:
    async def scene(made: Stage) -> None:
        await asyncio.gather(*(keeper(made).ensure() for _ in range(3)))
        first = await stored(made)
        assert await trusted(made) == {first.authority.decode()}
        await keeper(made, ahead=timedelta(days=200)).ensure()
        assert (await stored(made)).certificate == first.certificate, "it is good for a while"
        late = timedelta(days=320)
        await asyncio.gather(*(keeper(made, ahead=late).ensure() for _ in range(3)))
        renewed = await stored(made)
        assert renewed.certificate != first.certificate
        assert renewed.authority == first.authority, "connections to replicas with the old one stay trusted"

    theatre.play(scene)


def test_a_spoilt_secret_and_a_lost_bundle_are_mended(theatre: Theatre) -> None:
    async def scene(made: Stage) -> None:
        await keeper(made).ensure()
        await made.world.merge(SECRETS, SECRET_NAME, "ome", {"data": {"tls.crt": "bm9uc2Vuc2U="}})
        await keeper(made).ensure()
        mended = await stored(made)
        assert mended.names() >= {"127.0.0.1"}
        patch = {
            "webhooks": [{**hook, "clientConfig": {"url": hook["clientConfig"]["url"]}} for hook in await hooks(made)]
        }
        await made.world.merge(VALIDATING_WEBHOOKS, "ome-validating-webhooks", "", patch)
        assert "" in await trusted(made)
        await keeper(made).ensure()
        assert await trusted(made) == {mended.authority.decode()}

    async def hooks(made: Stage) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await made.world.get(VALIDATING_WEBHOOKS, "ome-validating-webhooks"))["webhooks"]
        return found

    theatre.play(scene)


@pytest.mark.embedded_only("a socket of this process, which the API server need not reach")
def test_the_server_answers_over_tls_and_counts(tmp_path: Any) -> None:
    """In real time: sockets do not fit into virtual time."""

    async def scene() -> None:
        from tests.component.admission.stage import stage

        bundle = make_bundle(serving_names("ome"), datetime.now(UTC))
        (tmp_path / "tls.crt").write_bytes(bundle.certificate)
        (tmp_path / "tls.key").write_bytes(bundle.key)
        counted: list[tuple[str, int]] = []
        async with stage(webhooks=False) as made:
            server = WebhookServer(
                made.world.environment(),
                host="127.0.0.1",
                port=0,
                certificate_dir=str(tmp_path),
                on_answer=lambda path, code: counted.append((path, code)),
            )
            await server.start()
            try:
                trusting = ssl.create_default_context(cadata=bundle.authority.decode())
                review = b'{"request":{"uid":"u","operation":"CREATE","object":{"spec":{"storage":{"storageUri":"pvc://x"}}}}}'
                path = "/validate-ome-io-v1beta1-basemodel"
                async with aiohttp.ClientSession() as session:
                    url = f"https://127.0.0.1:{server.port}"
                    async with session.post(url + path, data=review, ssl=trusting) as answer:
                        assert answer.status == 200
                        response = (await answer.json())["response"]
                        assert response["status"]["reason"] == "Forbidden"
                        assert "missing subpath" in response["status"]["message"]
                    async with session.post(url + path, data=b"?", ssl=trusting) as answer:
                        assert answer.status == 400
                    async with session.post(url + "/elsewhere", data=review, ssl=trusting) as answer:
                        assert answer.status == 404
            finally:
                await server.stop()
        assert counted == [(path, 200), (path, 400)]

    asyncio.run(scene())


def test_a_configuration_made_anew_is_trusted_again_at_once(theatre: Theatre) -> None:
    async def scene(made: Stage) -> None:
        environment = made.world.environment()
        server = WebhookServer(environment, host="127.0.0.1", port=0)
        running = asyncio.ensure_future(environment.caches.run())
        await environment.caches.wait_synced()
        keeping = asyncio.ensure_future(keep(server._keeper, server._changed))
        try:
            await server._keeper.ensure()
            before = await made.world.get(MUTATING_WEBHOOKS, "ome-mutating-webhooks")
            await made.world.client.delete(MUTATING_WEBHOOKS, "ome-mutating-webhooks")
            for hook in before["webhooks"]:
                hook["clientConfig"].pop("caBundle")
            fresh = {**before, "metadata": {"name": "ome-mutating-webhooks"}}
            await made.world.client.create(MUTATING_WEBHOOKS, fresh)
            await asyncio.sleep(2)
            assert await trusted(made) == {(await stored(made)).authority.decode()}
        finally:
            keeping.cancel()
            running.cancel()
            await asyncio.gather(keeping, running, return_exceptions=True)

    theatre.play(scene)
