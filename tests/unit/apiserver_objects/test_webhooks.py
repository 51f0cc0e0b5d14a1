"""Webhooks: which are asked, what they are sent, what their answers do."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ome.local.apiserver.admission import Attributes
from ome.local.apiserver.errors import Problem
from ome.local.apiserver.http import User
from ome.local.apiserver.registry import ResourceType, Subresource
from ome.local.apiserver.webhooks import Dispatcher, SendError, World

Object = dict[str, Any]
Answer = Callable[[Object], Object]

CONFIG_MAPS = ResourceType(
    "",
    "v1",
    "configmaps",
    "configmap",
    "ConfigMap",
    True,
    subresources={"scale": Subresource("scale", group="autoscaling", version="v1", kind="Scale")},
)
NAMESPACES = ResourceType("", "v1", "namespaces", "namespace", "Namespace", False)
OLD_THINGS = ResourceType("example.com", "v1", "things", "thing", "Thing", True)
NEW_THINGS = ResourceType("example.com", "v2", "things", "thing", "Thing", True)
HOOKS = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "validatingwebhookconfiguration",
    "ValidatingWebhookConfiguration",
    False,
)


def attributes(type_: ResourceType = CONFIG_MAPS, operation: str = "CREATE", **fields: Any) -> Attributes:
    given: Object = {
        "subresource": "",
        "namespace": "ns" if type_.namespaced else "",
        "name": "a",
        "user": User("me", groups=("admins",)),
        "dry_run": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **fields,
    }
    return Attributes(operation=operation, type=type_, **given)


def hook(name: str = "h", **fields: Any) -> Object:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:1/{name}"},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def config_map(**fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}, **fields}


class Cluster:
    """A server with webhooks whose answers are functions of the request."""

    def __init__(
        self, *hooks: Object, answers: Mapping[str, Answer | Exception | tuple[int, bytes]] | None = None
    ) -> None:
        self.hooks = [{"metadata": {"name": "configuration"}, "webhooks": list(hooks)}]
        self.answers = dict(answers or {})
        self.calls: list[tuple[str, Object]] = []
        self.warnings: list[str] = []
        self.labels: Mapping[str, str] | None = {"team": "x"}
        self.types: tuple[ResourceType, ...] = ()
        self._uids = 0
        world = World(
            mutating=lambda: self.hooks,
            validating=lambda: self.hooks,
            namespace_labels=lambda _namespace: self.labels,
            decode=lambda _attributes, obj: obj,
            new_uid=self._uid,
            equivalents=lambda type_: [other for other in self.types if other is not type_],
        )
        self.dispatcher = Dispatcher(world, self._send, self._resolve)

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _resolve(self, namespace: str, name: str, port: int) -> str:
        if name == "absent":
            raise SendError(f'service "{name}" not found')
        return f"https://10.0.0.1:{port}"

    async def _send(self, url: str, _bundle: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
        request = json.loads(body)["request"]
        self.calls.append((url, json.loads(body)))
        path = url.split("?")[0].rsplit("/", 1)[-1]
        answer = self.answers.get(path, lambda _request: {"allowed": True})
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, tuple):
            return answer
        response = {"uid": request["uid"], **answer(request)}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return 200, json.dumps(review).encode()

    def validate(self, asked: Attributes, obj: Object | None, old: Object | None = None) -> None:
        asyncio.run(self.dispatcher.validate(asked, obj, old, self.warnings))

    def mutate(self, asked: Attributes, obj: Object | None, old: Object | None = None) -> Object | None:
        return asyncio.run(self.dispatcher.mutate(asked, obj, old, self.warnings))

    @property
    def called(self) -> list[str]:
        return [url.split("?")[0].rsplit("/", 1)[-1] for url, _ in self.calls]


def refusal(cluster: Cluster, asked: Attributes | None = None, obj: Object | None = None) -> Problem:
    with pytest.raises(Problem) as caught:
        cluster.validate(asked or attributes(), obj or config_map())
    return caught.value


def test_the_review() -> None:
    cluster = Cluster(hook())
    cluster.validate(attributes(), config_map(data={"k": "v"}))
    url, review = cluster.calls[0]
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert url == "https://127.0.0.1:1/h?timeout=10s"
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "uid-1",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "a",
            "namespace": "ns",
            "operation": "CREATE",
            "userInfo": {"username": "me", "groups": ["admins"]},
            "object": config_map(data={"k": "v"}),
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def test_the_review_of_a_subresource_has_its_own_kind() -> None:
    cluster = Cluster(hook(rules=[{**hook()["rules"][0], "resources": ["configmaps/scale"]}]))
    cluster.validate(attributes(operation="UPDATE", subresource="scale"), config_map(), config_map())
    request = cluster.calls[0][1]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["subResource"], request["requestSubResource"]) == ("scale", "scale")


def test_a_deletion_has_an_old_object_only() -> None:
    cluster = Cluster(hook())
    cluster.validate(attributes(operation="DELETE"), None, config_map())
    request = cluster.calls[0][1]["request"]
    assert (request["object"], request["oldObject"]) == (None, config_map())


def rule(**fields: Any) -> Object:
    return hook(rules=[{**hook()["rules"][0], **fields}])


LABELLED = {"metadata": {"name": "a", "labels": {"h": "1"}}}
MATCHES: dict[str, tuple[Object, Attributes, Object | None, Object | None, bool]] = {
    "an operation that is listed": (rule(operations=["CREATE"]), attributes(), config_map(), None, True),
    "an operation that is not": (rule(operations=["UPDATE"]), attributes(), config_map(), None, False),
    "another group": (rule(apiGroups=["apps"]), attributes(), config_map(), None, False),
    "another resource": (rule(resources=["pods"]), attributes(), config_map(), None, False),
    "a resource is not its subresources": (
        rule(resources=["configmaps"]),
        attributes(subresource="scale"),
        config_map(),
        None,
        False,
    ),
    "a subresource of any resource": (
        rule(resources=["*/scale"]),
        attributes(subresource="scale"),
        config_map(),
        None,
        True,
    ),
    "everything": (rule(resources=["*/*"]), attributes(subresource="scale"), config_map(), None, True),
    "cluster scope": (rule(scope="Cluster"), attributes(), config_map(), None, False),
    "a namespace is of the cluster": (rule(scope="Cluster"), attributes(NAMESPACES), LABELLED, None, True),
    "labels of the namespace": (
        hook(namespaceSelector={"matchLabels": {"team": "x"}}),
        attributes(),
        config_map(),
        None,
        True,
    ),
    "other labels of the namespace": (
        hook(namespaceSelector={"matchLabels": {"team": "y"}}),
        attributes(),
        config_map(),
        None,
        False,
    ),
    "a namespace's own labels": (
        hook(namespaceSelector={"matchLabels": {"h": "1"}}),
        attributes(NAMESPACES),
        LABELLED,
        None,
        True,
    ),
    "labels of the object": (hook(objectSelector={"matchLabels": {"h": "1"}}), attributes(), LABELLED, None, True),
    "labels of the old object": (
        hook(objectSelector={"matchLabels": {"h": "1"}}),
        attributes(operation="UPDATE"),
        config_map(),
        LABELLED,
        True,
    ),
    "no such labels": (hook(objectSelector={"matchLabels": {"h": "1"}}), attributes(), config_map(), None, False),
    "a condition that holds": (
        hook(matchConditions=[{"name": "c", "expression": "object.metadata.name == 'a'"}]),
        attributes(),
        config_map(),
        None,
        True,
    ),
    "a condition that does not": (
        hook(matchConditions=[{"name": "c", "expression": "request.operation == 'DELETE'"}]),
        attributes(),
        config_map(),
        None,
        False,
    ),
    "a false condition outweighs a broken one": (
        hook(matchConditions=[{"name": "b", "expression": "object.spec.x == 1"}, {"name": "c", "expression": "false"}]),
        attributes(),
        config_map(),
        None,
        False,
    ),
    "webhook configurations themselves": (hook(), attributes(HOOKS), {"metadata": {"name": "x"}}, None, False),
}


@pytest.mark.parametrize("sentence", MATCHES)
def test_who_is_asked(sentence: str) -> None:
    source, asked, obj, old, wanted = MATCHES[sentence]
    cluster = Cluster(source)
    cluster.validate(asked, obj, old)
    assert bool(cluster.calls) is wanted


def test_a_rule_for_another_version_matches_and_gets_that_version() -> None:
    cluster = Cluster(rule(apiGroups=["example.com"], apiVersions=["v1"]))
    cluster.types = (OLD_THINGS, NEW_THINGS)
    cluster.validate(attributes(NEW_THINGS), {"apiVersion": "example.com/v2", "metadata": {"name": "a"}})
    request = cluster.calls[0][1]["request"]
    assert (request["object"]["apiVersion"], request["kind"]["version"]) == ("example.com/v1", "v1")
    assert (request["requestKind"]["version"], request["requestResource"]["version"]) == ("v2", "v2")


def test_an_exact_rule_does_not() -> None:
    cluster = Cluster({**rule(apiGroups=["example.com"], apiVersions=["v1"]), "matchPolicy": "Exact"})
    cluster.types = (OLD_THINGS, NEW_THINGS)
    cluster.validate(attributes(NEW_THINGS), {"apiVersion": "example.com/v2", "metadata": {"name": "a"}})
    assert cluster.calls == []


DENIALS: dict[str, tuple[Object, int, str, str, Object | None]] = {
    "without a word": ({"allowed": False}, 400, "", "denied the request without explanation", None),
    "with a message": (
        {"allowed": False, "status": {"message": "not today"}},
        400,
        "",
        "denied the request: not today",
        None,
    ),
    "with a code, a reason and details": (
        {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "bad", "details": {"name": "x"}}},
        422,
        "Invalid",
        "denied the request: bad",
        {"name": "x"},
    ),
    "with a code of success": (
        {"allowed": False, "status": {"code": 200, "message": "fine"}},
        400,
        "",
        "denied the request: fine",
        None,
    ),
    "with a reason only": (
        {"allowed": False, "status": {"reason": "Forbidden", "code": 403}},
        403,
        "Forbidden",
        "denied the request: Forbidden",
        None,
    ),
}


@pytest.mark.parametrize("sentence", DENIALS)
def test_denials(sentence: str) -> None:
    response, code, reason, text, details = DENIALS[sentence]
    problem = refusal(Cluster(hook(), answers={"h": lambda _request: response}))
    assert (problem.code, problem.reason, problem.details) == (code, reason, details)
    assert problem.message == f'admission webhook "h.example.com" {text}'


def test_warnings_are_passed_on_even_with_a_denial() -> None:
    cluster = Cluster(hook(), answers={"h": lambda _request: {"allowed": False, "warnings": ["careful"]}})
    refusal(cluster)
    assert cluster.warnings == ["careful"]


FAILURES: dict[str, tuple[Answer | Exception | tuple[int, bytes], str]] = {
    "nobody there": (
        SendError("dial tcp 127.0.0.1:1: connect: connection refused"),
        'failed to call webhook: Post "https://127.0.0.1:1/h?timeout=10s": dial tcp 127.0.0.1:1: connect: connection '
        "refused",
    ),
    "an error of its own": (
        (500, b"broken"),
        'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding',
    ),
    "an empty answer": ((200, b"{}"), "received invalid webhook response: webhook response was absent"),
    "an answer to another question": (
        lambda _request: {"uid": "other", "allowed": True},
        'received invalid webhook response: expected response.uid="uid-1", got "other"',
    ),
    "a patch from one that may only judge": (
        lambda _request: {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"},
        "received invalid webhook response: validating webhook may not return response.patch",
    ),
}


@pytest.mark.parametrize("sentence", FAILURES)
def test_a_call_that_fails_refuses_the_request(sentence: str) -> None:
    answer, text = FAILURES[sentence]
    problem = refusal(Cluster(hook(), answers={"h": answer}))
    message = f'failed calling webhook "h.example.com": {text}'
    assert (problem.code, problem.reason) == (500, "InternalError")
    assert problem.message == f"Internal error occurred: {message}"
    assert problem.details == {"causes": [{"message": message}]}


@pytest.mark.parametrize("sentence", FAILURES)
def test_a_call_that_fails_is_ignored_when_asked(sentence: str) -> None:
    cluster = Cluster(hook(failurePolicy="Ignore"), answers={"h": FAILURES[sentence][0]})
    cluster.validate(attributes(), config_map())


def test_who_is_too_slow_fails() -> None:
    cluster = Cluster(hook(timeoutSeconds=1), answers={"h": TimeoutError()})
    assert "?timeout=1s" in refusal(cluster).message


def test_a_service_is_looked_up() -> None:
    client = {"service": {"namespace": "ns", "name": "s", "path": "/x", "port": 8443}}
    cluster = Cluster(hook(clientConfig=client))
    cluster.validate(attributes(), config_map())
    assert cluster.calls[0][0] == "https://10.0.0.1:8443/x?timeout=10s"


def test_a_service_that_is_not_there() -> None:
    client = {"service": {"namespace": "ns", "name": "absent", "path": "/x", "port": 443}}
    assert refusal(Cluster(hook(clientConfig=client))).message == (
        'Internal error occurred: failed calling webhook "h.example.com": failed to call webhook: Post '
        '"https://absent.ns.svc:443/x?timeout=10s": service "absent" not found'
    )


def test_a_dry_run_spares_those_with_side_effects() -> None:
    problem = refusal(Cluster(hook(sideEffects="Some")), attributes(dry_run=True))
    assert (problem.code, problem.message) == (400, 'admission webhook "h.example.com" does not support dry run')


def test_a_broken_condition_refuses_or_is_ignored() -> None:
    broken = [{"name": "b", "expression": "object.spec.x == 1"}]
    assert refusal(Cluster(hook(matchConditions=broken))).code == 403
    Cluster(hook(matchConditions=broken, failurePolicy="Ignore")).validate(attributes(), config_map())


def patching(*operations: Object) -> Object:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def first(request: Object) -> Object:
    seen = "second" in request["object"]["data"]
    return patching(add("/data/first-saw-second", "yes") if seen else add("/data/first", "1"))


def test_mutating_webhooks_follow_one_another_and_are_asked_again_when_they_want() -> None:
    cluster = Cluster(
        hook("first", reinvocationPolicy="IfNeeded"),
        hook("second"),
        answers={"first": first, "second": lambda _request: patching(add("/data/second", "2"))},
    )
    obj = config_map(data={"k": "v"})
    result = cluster.mutate(attributes(), obj)
    assert result is not None
    assert result["data"] == {"k": "v", "first": "1", "second": "2", "first-saw-second": "yes"}
    assert cluster.called == ["first", "second", "first"]
    assert obj == config_map(data={"k": "v"})


def test_nobody_is_asked_again_when_nothing_changed() -> None:
    cluster = Cluster(hook("first", reinvocationPolicy="IfNeeded"), hook("second"), answers={"first": first})
    cluster.mutate(attributes(), config_map(data={}))
    assert cluster.called == ["first", "second"]


def test_a_patch_that_does_not_apply_is_an_internal_error() -> None:
    cluster = Cluster(
        hook(), answers={"h": lambda _request: patching({"op": "replace", "path": "/data/absent/deep", "value": "x"})}
    )
    with pytest.raises(Problem) as caught:
        cluster.mutate(attributes(), config_map(data={}))
    assert (caught.value.code, caught.value.message) == (
        500,
        "Internal error occurred: replace operation does not apply: doc is missing path: /data/absent/deep: missing "
        "value",
    )


def test_a_patch_needs_its_type() -> None:
    cluster = Cluster(hook(), answers={"h": lambda _request: {"allowed": True, "patch": "W10="}})
    with pytest.raises(Problem) as caught:
        cluster.mutate(attributes(), config_map())
    assert caught.value.message.endswith("webhook returned response.patch but not response.patchType")


def test_a_mutating_webhook_may_refuse() -> None:
    cluster = Cluster(hook(), answers={"h": lambda _request: {"allowed": False, "status": {"message": "no"}}})
    with pytest.raises(Problem) as caught:
        cluster.mutate(attributes(), config_map())
    assert caught.value.message == 'admission webhook "h.example.com" denied the request: no'


def test_all_are_asked_and_the_first_refusal_counts() -> None:
    def no(text: str) -> Answer:
        return lambda _request: {"allowed": False, "status": {"message": text}}

    cluster = Cluster(hook("x"), hook("y"), hook("z"), answers={"y": no("why"), "z": no("zed")})
    assert refusal(cluster).message == 'admission webhook "y.example.com" denied the request: why'
    assert sorted(cluster.called) == ["x", "y", "z"]
