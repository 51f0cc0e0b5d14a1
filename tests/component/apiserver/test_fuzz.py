"""Whatever is asked, the answer is an answer: a Status at worst, and the server lives on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ome.kube.clock import LoopClock
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.server import ApiServer
from tests.component.apiserver.api import (
    ADMIN,
    APPLY,
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    Api,
    definition,
    pod,
)
from tests.support.virtual_time import run_virtual

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TYPES = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    MERGE,
    JSON_PATCH,
    STRATEGIC,
    APPLY,
]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
keys = st.sampled_from(
    ["apiVersion", "kind", "metadata", "name", "spec", "containers", "labels", "image", "$patch", "op", "path"]
) | st.text(max_size=6)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=20
)
segments = st.sampled_from(
    ["api", "apis", "v1", "apps", "namespaces", "default", "pods", "p", "status", "log", "scale", "watch",
     "example.com", "boats", "deployments", "finalize", "binding", "eviction", "token",
     "serviceaccounts", "exec", "openapi", "v3", ""]
) | st.text(max_size=8)  # fmt: skip
queries = st.dictionaries(
    st.sampled_from(
        ["limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "watch",
         "sendInitialEvents", "dryRun", "fieldValidation", "fieldManager", "force", "timeoutSeconds", "pretty",
         "propagationPolicy", "gracePeriodSeconds", "container", "tailLines", "includeObject"]
    ),
    st.sampled_from(["", "0", "1", "-1", "true", "All", "a=b", "a in (b", "metadata.name=x", "\x00", "x" * 300])
    | st.text(max_size=10),
    max_size=4,
)  # fmt: skip


async def _answer(api: Api, request: HttpRequest) -> tuple[int, Any]:
    response = await api.server.handle(request)
    if isinstance(response.body, bytes):
        return response.status, response.body
    first = await anext(response.body, b"")
    await response.body.aclose()  # type: ignore[attr-defined]
    return response.status, first


def _check(status: int, body: Any, request: HttpRequest) -> None:
    assert 100 <= status < 600
    assert status != 500 or b"Internal error occurred: " not in body or b"Error" not in body, (request, body)
    if status >= 400 and body[:1] == b"{":
        answered = json.loads(body)
        assert answered["kind"] == "Status"
        assert answered["code"] == status


def _play(requests: list[HttpRequest]) -> None:
    async def main() -> None:
        server = ApiServer(tokens={ADMIN: User("admin", groups=("system:masters",))}, clock=LoopClock(), seed=1)
        await server.start()
        api = Api(server)
        await api.post(PODS, pod("p", spec={"nodeName": "n"}))
        await api.post(DEFINITIONS, definition())
        for request in requests:
            _check(*await _answer(api, request), request)
        assert (await api.get(f"{PODS}?limit=1")).status == 200
        await server.stop()

    run_virtual(main())


def _request(method: str, path: str, query: dict[str, str], body: bytes, type: str) -> HttpRequest:
    from urllib.parse import urlencode

    headers = {"authorization": f"Bearer {ADMIN}", "content-type": type, "user-agent": "fuzz"}
    return HttpRequest(method, path, urlencode({"timeoutSeconds": "1", **query}), headers, body)


@EXAMPLES
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]), st.lists(segments, max_size=8), queries
        ),
        max_size=5,
    )
)
def test_any_path_and_query(asked: list[tuple[str, list[str], dict[str, str]]]) -> None:
    _play([_request(method, "/" + "/".join(parts), query, b"", "application/json") for method, parts, query in asked])


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(TYPES), values), min_size=1, max_size=4))
def test_any_body(bodies: list[tuple[str, Any]]) -> None:
    requests = []
    for type, value in bodies:
        data = json.dumps(value).encode()
        requests.append(_request("POST", PODS, {}, data, type))
        requests.append(_request("PUT", f"{PODS}/p", {}, data, type))
        requests.append(_request("PATCH", f"{PODS}/p", {"fieldManager": "m"}, data, type))
        requests.append(
            _request("PATCH", "/apis/example.com/v1/namespaces/default/boats/b", {"fieldManager": "m"}, data, type)
        )
        requests.append(_request("POST", DEFINITIONS, {}, data, type))
        requests.append(_request("DELETE", f"{PODS}/q", {}, data, type))
    _play(requests)


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(TYPES), st.binary(max_size=80)), min_size=1, max_size=4))
def test_any_bytes(bodies: list[tuple[str, bytes]]) -> None:
    paths = [("POST", PODS), ("PATCH", f"{PODS}/p"), ("POST", f"{PODS}/p/eviction"), ("POST", f"{PODS}/p/binding")]
    _play([_request(method, path, {}, data, type) for type, data in bodies for method, path in paths])


@EXAMPLES
@given(values, st.sampled_from([MERGE, STRATEGIC, APPLY]))
def test_any_patch_of_a_pods_spec(value: Any, type: str) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": value, "status": value}
    _play(
        [
            _request(
                "PATCH",
                path,
                {"fieldManager": "m", "force": "true"} if type == APPLY else {},
                json.dumps(body).encode(),
                type,
            )
            for path in (f"{PODS}/p", f"{PODS}/p/status")
        ]
    )


@EXAMPLES
@given(values)
def test_any_definition(value: Any) -> None:
    body = definition(plural="odds", kind="Odd")
    body["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": value}
    other = {**definition(plural="evens", kind="Even"), "spec": value}
    _play([_request("POST", DEFINITIONS, {}, json.dumps(obj).encode(), "application/json") for obj in (body, other)])
