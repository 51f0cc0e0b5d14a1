"""The document of OpenAPI v2: what of v3 it can say, and its protobuf form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from ome.local.apiserver import openapi_v2

V3: dict[str, Any] = {
    "b.Part": {"type": "object", "properties": {"n": {"type": "integer", "format": "int32", "minimum": 1.5}}},
    "a.Whole": {
        "type": "object",
        "required": ["part"],
        "description": "Whole.",
        "properties": {
            "part": {"allOf": [{"$ref": "#/components/schemas/b.Part"}], "default": {}, "description": "One."},
            "many": {"type": "array", "items": {"$ref": "#/components/schemas/b.Part"}, "nullable": True},
            "map": {"type": "object", "additionalProperties": {"type": "string", "enum": ["x"]}},
            "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
        },
        "x-kubernetes-group-version-kind": [{"group": "a", "kind": "Whole", "version": "v1"}],
    },
}


def test_what_version_two_cannot_say_is_left_out() -> None:
    found = openapi_v2.definitions(V3)
    assert list(found) == ["a.Whole", "b.Part"]
    assert found["a.Whole"]["properties"] == {
        "part": {"$ref": "#/definitions/b.Part", "default": {}, "description": "One."},
        "many": {"type": "array", "items": {"$ref": "#/definitions/b.Part"}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "enum": ["x"]}},
        "either": {"x-kubernetes-int-or-string": True},
        "open": {"x-kubernetes-preserve-unknown-fields": True},
    }


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        length = 8
        if tag & 7 == 2:
            length, at = _varint(data, at)
        yield tag >> 3, data[at : at + length]
        at += length


def _all(data: bytes, number: int) -> list[Any]:
    return [value for found, value in _fields(data) if found == number]


def _one(data: bytes, *path: int) -> Any:
    for number in path:
        (data,) = _all(data, number)
    return data


def _named(data: bytes) -> dict[str, bytes]:
    return {_one(entry, 1).decode(): _one(entry, 2) for entry in _all(data, 1)}


def test_the_protobuf_form_says_the_same() -> None:
    data = openapi_v2.protobuf(openapi_v2.definitions(V3))
    assert _one(data, 1) == b"2.0"
    found = _named(_one(data, 9))
    whole = found["a.Whole"]
    assert (_one(whole, 22, 1), _one(whole, 4), _all(whole, 19)) == (b"object", b"Whole.", [b"part"])
    extension = _one(whole, 31)
    assert _one(extension, 1) == b"x-kubernetes-group-version-kind"
    assert orjson.loads(_one(extension, 2, 2)) == [{"group": "a", "kind": "Whole", "version": "v1"}]
    members = _named(_one(whole, 25))
    assert _one(members["part"], 1) == b"#/definitions/b.Part"
    assert _one(members["many"], 23, 1, 1) == b"#/definitions/b.Part"
    value = _one(members["map"], 21, 1)
    assert (_one(value, 22, 1), orjson.loads(_one(value, 20, 2))) == (b"string", "x")
    number = _named(_one(found["b.Part"], 25))["n"]
    assert (_one(number, 2), _one(number, 9)) == (b"int32", b"\x00\x00\x00\x00\x00\x00\xf8\x3f")
