"""Webhooks in the write pipeline: they change, refuse and fail; and objects move while they think."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ome.kube.clock import LoopClock
from ome.local.apiserver.http import User
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.webhooks import SendError
from tests.component.apiserver.api import ADMIN, CONFIG_MAPS, Api, config_map
from tests.support.virtual_time import run_virtual

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

HOOKS = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def with_hook(answer: Answer, *, kind: str = "Validating", **hook: Any) -> Any:
    """Run a test with one webhook on ConfigMaps, answered by `answer(request)`."""

    def decorate(test: Callable[[Api, list[dict[str, Any]]], Awaitable[None]]) -> Callable[[], None]:
        def run() -> None:
            seen: list[dict[str, Any]] = []

            async def send(url: str, bundle: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
                request = json.loads(body)["request"]
                seen.append(request)
                response = {"uid": request["uid"], **await answer(request)}
                review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
                return 200, json.dumps(review).encode()

            async def main() -> None:
                tokens = {ADMIN: User("admin", groups=("system:masters",))}
                server = ApiServer(tokens=tokens, clock=LoopClock(), seed=1, send=send)
                await server.start()
                api = Api(server)
                rules = [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["configmaps"],
                    }
                ]
                configured = {
                    "name": "hook.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": "https://hook.example.com/"},
                    "rules": rules,
                    **hook,
                }
                name = f"{kind}WebhookConfiguration"
                body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": name}
                made = await api.post(
                    f"{HOOKS}/{name.lower()}s", {**body, "metadata": {"name": "hook"}, "webhooks": [configured]}
                )
                assert made.status == 201, made.body
                await test(api, seen)
                await server.stop()

            run_virtual(main())

        return run

    return decorate


async def _allow(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


async def _deny(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "not today", "code": 403}, "warnings": ["mind the gap"]}


async def _think(request: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(1)
    return {"allowed": True}


async def _label(request: dict[str, Any]) -> dict[str, Any]:
    patch = json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}]).encode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}


async def _fail(request: dict[str, Any]) -> dict[str, Any]:
    raise SendError("connection refused")


@with_hook(_deny)
async def test_a_denial_names_the_webhook_and_warns(api: Api, seen: list[dict[str, Any]]) -> None:
    refused = await api.post(CONFIG_MAPS, config_map("a"))
    assert (refused.status, refused["message"]) == (
        403,
        'admission webhook "hook.example.com" denied the request: not today',
    )
    assert refused.warnings == ("mind the gap",)
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


@with_hook(_label, kind="Mutating")
async def test_a_mutating_webhook_changes_what_is_stored(api: Api, seen: list[dict[str, Any]]) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    assert (await api.get(f"{CONFIG_MAPS}/a"))["metadata.labels"] == {"by": "hook"}
    assert seen[0]["operation"] == "CREATE"
    assert seen[0]["userInfo"]["username"] == "admin"


@with_hook(_fail)
async def test_a_webhook_that_cannot_be_reached_stops_the_write(api: Api, seen: list[dict[str, Any]]) -> None:
    failed = await api.post(CONFIG_MAPS, config_map("a"))
    assert failed.status == 500
    assert 'failed calling webhook "hook.example.com"' in failed["message"]


@with_hook(_fail, failurePolicy="Ignore")
async def test_unless_its_failure_is_ignored(api: Api, seen: list[dict[str, Any]]) -> None:
    assert (await api.post(CONFIG_MAPS, config_map("a"))).status == 201


@with_hook(_think)
async def test_a_patch_is_made_anew_when_the_object_moved_meanwhile(api: Api, seen: list[dict[str, Any]]) -> None:
    await api.post(CONFIG_MAPS, config_map("a", data={}))
    first, second = await asyncio.gather(
        api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}), api.patch(f"{CONFIG_MAPS}/a", {"data": {"y": "2"}})
    )
    assert (first.status, second.status) == (200, 200)
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"x": "1", "y": "2"}


@with_hook(_think)
async def test_a_replace_of_a_moved_object_conflicts(api: Api, seen: list[dict[str, Any]]) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a"))
    version = {"resourceVersion": created["metadata.resourceVersion"]}
    answers = await asyncio.gather(
        *(api.put(f"{CONFIG_MAPS}/a", config_map("a", metadata=version, data={"n": str(n)})) for n in range(2))
    )
    assert sorted(answer.status for answer in answers) == [200, 409]


@with_hook(_think)
async def test_two_creations_of_one_name_leave_one(api: Api, seen: list[dict[str, Any]]) -> None:
    answers = await asyncio.gather(*(api.post(CONFIG_MAPS, config_map("a", data={"n": str(n)})) for n in range(2)))
    assert sorted(answer.status for answer in answers) == [201, 409]


@with_hook(_allow)
async def test_a_dry_run_is_told_to_the_webhook_and_a_deletion_has_no_new_object(
    api: Api, seen: list[dict[str, Any]]
) -> None:
    await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert seen[-1]["dryRun"] is True
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.delete(f"{CONFIG_MAPS}/a")
    assert (seen[-1]["operation"], seen[-1]["object"]) == ("DELETE", None)
    assert seen[-1]["oldObject"]["metadata"]["name"] == "a"
