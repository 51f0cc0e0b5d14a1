"""A server in virtual time and a client of few words, for tests of the embedded API server."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ome.kube.clock import LoopClock
from ome.local.apiserver.http import HttpRequest, HttpResponse, User
from ome.local.apiserver.server import ApiServer
from tests.support.virtual_time import run_virtual

ADMIN = "admin-token"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Answer:
    """status, the body parsed when it is JSON, the warnings' texts."""

    status: int
    body: Any
    warnings: tuple[str, ...]
    headers: dict[str, str]
    raw: bytes = b""

    def __getitem__(self, path: str) -> Any:
        """`answer["metadata.name"]`; None for what is not there."""
        value = self.body
        for part in path.split("."):
            if isinstance(value, list) and part.isdigit():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value


@dataclass
class Api:
    """Requests to one server, as the administrator unless `token` says otherwise."""

    server: ApiServer
    token: str = ADMIN
    agent: str = "tests"
    headers: dict[str, str] = field(default_factory=dict)

    async def send(
        self, method: str, path: str, body: Any = None, *, type: str = "application/json", **headers: str
    ) -> Answer:
        response = await self.respond(method, path, body, type=type, **headers)
        data = response.body if isinstance(response.body, bytes) else b"".join([c async for c in response.body])
        try:
            parsed = json.loads(data)
        except ValueError:
            parsed = data.decode("utf-8", "replace")
        return Answer(response.status, parsed, response.warnings, response.headers, data)

    async def respond(
        self, method: str, path: str, body: Any = None, *, type: str = "application/json", **headers: str
    ) -> HttpResponse:
        plain, _, query = path.partition("?")
        sent = {"user-agent": self.agent, **self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if self.token:
            sent.setdefault("authorization", f"Bearer {self.token}")
        data = b""
        if body is not None:
            sent["content-type"] = type
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.server.handle(HttpRequest(method, plain, query, sent, data))

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.send("GET", path, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.send("POST", path, body, **headers)

    async def put(self, path: str, body: Any) -> Answer:
        return await self.send("PUT", path, body)

    async def patch(self, path: str, body: Any, type: str = MERGE) -> Answer:
        return await self.send("PATCH", path, body, type=type)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.send("DELETE", path, body)

    async def watch(self, path: str) -> Watching:
        response = await self.respond("GET", path)
        assert response.status == 200, response.body
        assert not isinstance(response.body, bytes)
        return Watching(response.body)


class Watching:
    """An open watch; `next()` gives (type, object)."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = []

    async def next(self) -> tuple[str, dict[str, Any]]:
        while not self._lines:
            self._lines = [line for line in (await anext(self._chunks)).split(b"\n") if line]
        event = json.loads(self._lines.pop(0))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        return [(kind, obj["metadata"].get("name", "")) for kind, obj in [await self.next() for _ in range(count)]]

    async def rest(self) -> list[tuple[str, dict[str, Any]]]:
        """Everything until the server ends it."""
        out: list[tuple[str, dict[str, Any]]] = []
        while True:
            try:
                out.append(await self.next())
            except StopAsyncIteration:
                return out

    async def close(self) -> None:
        await self._chunks.aclose()  # type: ignore[attr-defined]


def with_api(
    **settings: Any,
) -> Callable[[Callable[[Api], Awaitable[None]]], Callable[[], None]]:
    """Run an async test with a fresh server in virtual time."""

    def decorate(test: Callable[[Api], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            async def main() -> None:
                server = ApiServer(
                    tokens={ADMIN: User("admin", groups=("system:masters",))}, clock=LoopClock(), seed=7, **settings
                )
                await server.start()
                try:
                    await test(Api(server))
                finally:
                    await server.stop()

            run_virtual(main())

        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return decorate


def config_map(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def pod(name: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "local/engine:1"}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec}


def definition(plural: str = "boats", kind: str = "Boat", group: str = "example.com", **version: Any) -> dict[str, Any]:
    """A definition with a spec, a status and their subresource, its schema open for `version` to change."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "sail": {"type": "string"}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BOATS = "/apis/example.com/v1/namespaces/default/boats"


def boat(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec}
