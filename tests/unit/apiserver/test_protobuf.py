"""Kubernetes protobuf: what kubectl sends, and objects there and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ome.local.apiserver.errors import Problem
from ome.local.apiserver.protobuf import decode_unknown, encode_object

SECRET = "azhzAAoMCgJ2MRIGU2VjcmV0EikKEgoCcGISABoAIgAqADIAOABCABILCgFrEgZzZWNyZXQaBk9wYXF1ZRoAIgA="


def _compact(value: Any) -> Any:
    """Without what the wire cannot tell from unset."""
    if isinstance(value, dict):
        return {k: c for k, v in value.items() if (c := _compact(v)) not in ("", None, {}, [], 0, False)}
    return [_compact(item) for item in value] if isinstance(value, list) else value


def test_a_secret_as_kubectl_sends_it() -> None:
    assert _compact(decode_unknown(base64.b64decode(SECRET), "Secret")) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pb"},
        "data": {"k": base64.b64encode(b"secret").decode()},
        "type": "Opaque",
    }


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "volumes": [{"name": "v", "configMap": {"name": "x"}}],
                "containers": [
                    {
                        "name": "c",
                        "resources": {"limits": {"cpu": "500m"}},
                        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    }
                ],
            },
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"renewTime": "2026-01-01T00:00:00.123456Z", "leaseDurationSeconds": 15},
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "x"},
            "spec": {
                "group": "g",
                "versions": [
                    {
                        "name": "v1",
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": ["x"]}},
                                "additionalProperties": True,
                            }
                        },
                    }
                ],
            },
        },
    ],
    ids=lambda obj: obj["kind"],
)
def test_objects_survive_the_way_there_and_back(obj: dict[str, Any]) -> None:
    assert _compact(decode_unknown(encode_object(obj), obj["kind"])) == obj


def _code(data: bytes, kind: str) -> int:
    try:
        decode_unknown(data, kind)
    except Problem as problem:
        return problem.code
    return 200


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert _code(b"k8s\x00" + data, "ConfigMap") in (200, 400)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_body_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(base64.b64decode(SECRET))
    at = data.draw(st.integers(4, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    assert _code(bytes(raw), "Secret") in (200, 400)
