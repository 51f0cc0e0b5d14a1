"""No body breaks anything: it is refused in words, or it is stored."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver import kinds, ownership, patches, schema
from ome.local.apiserver.errors import Problem

from .support import NOW, PROPERTY, container, context, identified, pod, workload

Object = dict[str, Any]
JUNK = st.sampled_from(
    [None, True, 0, -1, 1.5, 1e20, 2**63, "", "x", "Ünï", "a" * 300, [], [None], [[]], {}, {"x": None}, [{"name": "c"}]]
)

BODIES: dict[str, tuple[str, str, Object]] = {
    "Pod": (
        "",
        "Pod",
        pod(
            containers=[
                container(
                    ports=[{"containerPort": 80, "name": "web"}],
                    env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                    livenessProbe={"httpGet": {"port": "web"}},
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                )
            ],
            volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": "x"}}]}}],
            tolerations=[{"key": "k", "operator": "Exists"}],
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}},
        ),
    ),
    "Deployment": ("apps", "Deployment", workload(strategy={"rollingUpdate": {"maxSurge": "10%"}})),
    "Service": ("", "Service", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    "Ingress": (
        "networking.k8s.io",
        "Ingress",
        {
            "metadata": {"name": "i"},
            "spec": {"rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix"}]}}]},
        },
    ),
    "MutatingWebhookConfiguration": (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        {
            "metadata": {"name": "h"},
            "webhooks": [
                {
                    "name": "a.b.c",
                    "clientConfig": {"service": {"name": "s", "namespace": "n"}},
                    "rules": [
                        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
                    ],
                    "matchConditions": [{"name": "m", "expression": "true"}],
                }
            ],
        },
    ),
}


@contextlib.contextmanager
def refusals_in_words() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        if problem.code < 400 or not problem.message:
            raise


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def spoiled(body: Object, path: tuple[Any, ...], junk: Any) -> Object:
    result = copy.deepcopy(body)
    target: Any = result
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = copy.deepcopy(junk)
    return result


def stored(group: str, kind: str, body: Object, old: Object | None = None) -> Object:
    """The object after the whole way of a write, its faults found but not raised."""
    strategy = kinds.strategy(group, "v1", kind)
    obj, _ = strategy.decode(body)
    identified(obj, group, "v1", kind)
    strategy.default(obj)
    obj["metadata"]["managedFields"] = ownership.record_update(old, obj, context(group, "v1", kind))
    if old is None:
        strategy.prepare_create(obj)
        [str(error) for error in strategy.validate_create(obj)]
    else:
        strategy.prepare_update(obj, old)
        [str(error) for error in strategy.validate_update(obj, old)]
    return obj


@pytest.mark.parametrize("name", BODIES)
@PROPERTY
@given(data=st.data())
def test_a_spoiled_body_is_refused_or_stored(name: str, data: st.DataObject) -> None:
    group, kind, body = BODIES[name]
    bad = spoiled(body, data.draw(st.sampled_from(places(body))), data.draw(JUNK))
    good = stored(group, kind, body)
    with refusals_in_words():
        stored(group, kind, bad)
        stored(group, kind, bad, good)
        stored(group, kind, body, stored(group, kind, bad))


@pytest.mark.parametrize("name", BODIES)
@PROPERTY
@given(data=st.data())
def test_a_spoiled_configuration_or_patch_is_refused_or_merged(name: str, data: st.DataObject) -> None:
    group, kind, body = BODIES[name]
    bad = spoiled(body, data.draw(st.sampled_from(places(body))), data.draw(JUNK))
    good = stored(group, kind, body)
    bad.update(apiVersion=f"{group}/v1" if group else "v1", kind=kind)
    definition = kinds.strategy(group, "v1", kind).type.definition
    for write in (
        lambda: ownership.apply(good, bad, context(group, "v1", kind), force=True)[0],
        lambda: patches.strategic_merge(good, bad, definition),
        lambda: patches.merge_patch(good, bad),
    ):
        with refusals_in_words():
            stored(group, kind, write(), good)


CUSTOM = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["a"],
            "x-kubernetes-validations": [{"rule": "self.a.size() < 5", "message": "m"}],
            "properties": {
                "a": {"type": "string", "pattern": "^a", "format": "date-time", "maxLength": 4},
                "n": {"type": "integer", "format": "int32", "minimum": 1, "multipleOf": 2, "default": 2},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                },
                "more": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"z": {"type": "boolean"}}},
                },
                "raw": {"x-kubernetes-preserve-unknown-fields": True},
                "emb": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
            },
        }
    },
}
THING: Object = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "t", "namespace": "ns", "labels": {"a": "b"}},
    "spec": {
        "a": "a",
        "n": 4,
        "set": ["x"],
        "map": [{"k": "a"}],
        "more": {"k": {"z": True}},
        "raw": {"y": [1]},
        "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
    },
}
STRATEGY = kinds.custom_strategy("example.com", "v1", "Thing", schema.compile(CUSTOM), namespaced=True, status=True)


def thing(body: Object, old: Object | None = None) -> Object:
    obj, _ = STRATEGY.decode(body)
    STRATEGY.default(obj)
    asked = ownership.Context("m", "example.com/v1", STRATEGY.type, NOW, STRATEGY.zero(), "", STRATEGY.reset_fields())
    obj["metadata"]["managedFields"] = ownership.record_update(old, obj, asked)
    if old is None:
        STRATEGY.prepare_create(obj)
        [str(error) for error in STRATEGY.validate_create(obj)]
    else:
        STRATEGY.prepare_update(obj, old)
        [str(error) for error in STRATEGY.validate_update(obj, old)]
    return obj


@PROPERTY
@given(data=st.data())
def test_a_spoiled_custom_object_is_refused_or_stored(data: st.DataObject) -> None:
    bad = spoiled(THING, data.draw(st.sampled_from(places(THING))), data.draw(JUNK))
    asked = ownership.Context("n", "example.com/v1", STRATEGY.type, NOW, STRATEGY.zero(), "", STRATEGY.reset_fields())
    with refusals_in_words():
        thing(bad, thing(THING))
        thing(THING, thing(bad))
        merged, _ = ownership.apply(thing(THING), bad, asked, force=True)
        thing(merged, thing(THING))
