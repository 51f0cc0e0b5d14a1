"""Structural schemas at work: pruning, defaults, validation, ratcheting."""

from __future__ import annotations

from typing import Any

import pytest

from ome.local.apiserver import schema
from ome.local.apiserver.errors import FieldError

CHECKS: dict[str, Any] = {
    "must": {"type": "string"},
    "enum": {"type": "string", "enum": ["red", "green"]},
    "pattern": {"type": "string", "pattern": "^a+$"},
    "min": {"type": "integer", "minimum": 3, "maximum": 9},
    "excl": {"type": "number", "minimum": 3, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
    "multiple": {"type": "integer", "multipleOf": 5},
    "len": {"type": "string", "minLength": 2, "maxLength": 4},
    "items": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
    "props": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "string"}},
    "date": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "ip": {"type": "string", "format": "ipv4"},
    "uri": {"type": "string", "format": "uri"},
    "duration": {"type": "string", "format": "duration"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "ios": {"x-kubernetes-int-or-string": True},
    "nul": {"type": "string", "nullable": True},
    "notnul": {"type": "string"},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 9}},
        },
    },
    "one": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "any": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "nope": {"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["a"]}},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
CHECK = schema.compile(
    {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
            "spec": {"type": "object", "required": ["must"], "properties": CHECKS},
        },
    }
)


def faults(spec: dict[str, Any] | None, *, old: dict[str, Any] | None = None, name: str = "c") -> list[str]:
    return [f"{error.field}|{error.body()}" for error in errors(spec, old=old, name=name)]


def errors(spec: dict[str, Any] | None, *, old: dict[str, Any] | None, name: str) -> list[FieldError]:
    def whole(part: dict[str, Any] | None) -> dict[str, Any]:
        obj: dict[str, Any] = {"apiVersion": "x/v1", "kind": "Check", "metadata": {"name": name}}
        if part is not None:
            obj["spec"] = {"must": "m", **part}
        return CHECK.prune(obj)[0]

    return CHECK.validate(whole(spec), whole(old) if old is not None else None)


FAULTS: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "all well": (
        {"enum": "red", "pattern": "aa", "min": 4, "ios": "5%", "nul": None, "date": "2026-01-01T00:00:00Z", "excl": 4},
        [],
    ),
    "a required part is missing": (None, ["spec|Required value"]),
    "an integer where a text belongs": (
        {"must": 5},
        ['spec.must|Invalid value: "integer": spec.must in body must be of type string: "integer"'],
    ),
    "a fraction for an integer is wrong twice": (
        {"min": 4.5},
        [
            'spec.min|Invalid value: "number": spec.min in body must be of type integer: "number"',
            '<nil>|Invalid value: "": Checked value must be of type integer (default format) in spec.min',
        ],
    ),
    "a whole float is an integer": ({"min": 4.0}, []),
    "a list where an object belongs": (
        {"props": []},
        ['spec.props|Invalid value: "array": spec.props in body must be of type object: "array"'],
    ),
    "not among the values": (
        {"enum": "blue"},
        ['spec.enum|Unsupported value: "blue": supported values: "red", "green"'],
    ),
    "not of the pattern": (
        {"pattern": "b"},
        ["spec.pattern|Invalid value: \"b\": spec.pattern in body should match '^a+$'"],
    ),
    "too little": ({"min": 1}, ["spec.min|Invalid value: 1: spec.min in body should be greater than or equal to 3"]),
    "too much": ({"min": 10}, ["spec.min|Invalid value: 10: spec.min in body should be less than or equal to 9"]),
    "at an exclusive bound": ({"excl": 5}, ["spec.excl|Invalid value: 5: spec.excl in body should be less than 5"]),
    "no multiple": (
        {"multiple": 7},
        ["spec.multiple|Invalid value: 7: spec.multiple in body should be a multiple of 5"],
    ),
    "too short": ({"len": "x"}, ['spec.len|Invalid value: "x": spec.len in body should be at least 2 chars long']),
    "too long": ({"len": "xxxxx"}, ["spec.len|Too long: may not be more than 4 bytes"]),
    "too many items": ({"items": [1, 2, 3]}, ["spec.items|Too many: 3: must have at most 2 items"]),
    "too few items": ({"items": []}, ["spec.items|Invalid value: 0: spec.items in body should have at least 1 items"]),
    "too few members": (
        {"props": {}},
        ["spec.props|Invalid value: 0: spec.props in body should have at least 1 properties"],
    ),
    "too many members": (
        {"props": {"a": "1", "b": "2", "c": "3"}},
        ["spec.props|Too many: 3: must have at most 2 items"],
    ),
    "no date": (
        {"date": "yesterday"},
        ['spec.date|Invalid value: "yesterday": spec.date in body must be of type date-time: "yesterday"'],
    ),
    "no address of the fourth version": (
        {"ip": "1.2.3"},
        ['spec.ip|Invalid value: "1.2.3": spec.ip in body must be of type ipv4: "1.2.3"'],
    ),
    "no URI": (
        {"uri": "not a uri"},
        ['spec.uri|Invalid value: "not a uri": spec.uri in body must be of type uri: "not a uri"'],
    ),
    "no mail": ({"email": "x"}, ['spec.email|Invalid value: "x": spec.email in body must be of type email: "x"']),
    "no duration": (
        {"duration": "1 fortnight"},
        ['spec.duration|Invalid value: "1 fortnight": spec.duration in body must be of type duration: "1 fortnight"'],
    ),
    "no base64": (
        {"bytes": "%%%"},
        ['spec.bytes|Invalid value: "%%%": spec.bytes in body must be of type byte: "%%%"'],
    ),
    "too big for its format": (
        {"int32": 3000000000},
        ['<nil>|Invalid value: "": Checked value must be of type integer with format int32 in spec.int32'],
    ),
    "neither integer nor text": (
        {"ios": True},
        ['spec.ios|Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"'],
    ),
    "a null that is not allowed is as if absent": ({"notnul": None}, []),
    "a set with a repeat": ({"set": ["a", "b", "a"]}, ['spec.set[2]|Duplicate value: "a"']),
    "a keyed list with a repeat": (
        {"map": [{"k": "a"}, {"k": "a", "v": 2}]},
        ['spec.map[1]|Duplicate value: {"k":"a"}'],
    ),
    "a keyed list without its key": ({"map": [{"v": 1}]}, ["spec.map[0].k|Required value"]),
    "none of the one": (
        {"one": {}},
        [
            '<nil>|Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid',
            "spec.one.a|Required value",
        ],
    ),
    "both of the one": (
        {"one": {"a": "1", "b": "2"}},
        [
            '<nil>|Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid '
            "alternatives"
        ],
    ),
    "none of any": (
        {"any": {}},
        [
            '<nil>|Invalid value: "": "spec.any" must validate at least one schema (anyOf)',
            "spec.any.a|Required value",
        ],
    ),
    "what must not be": (
        {"nope": {"a": "x"}},
        ['<nil>|Invalid value: "": "spec.nope" must not validate the schema (not)'],
    ),
    "an embedded object is an object": (
        {"embedded": {"metadata": {"name": "x"}}},
        ["spec.embedded.apiVersion|Required value", "spec.embedded.kind|Required value"],
    ),
    "an element of a list": (
        {"items": ["x"]},
        ['spec.items[0]|Invalid value: "string": spec.items[0] in body must be of type integer: "string"'],
    ),
    "a value of a map": (
        {"props": {"a": 1}},
        ['spec.props.a|Invalid value: "integer": spec.props.a in body must be of type string: "integer"'],
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_validation_speaks_as_a_real_server(sentence: str) -> None:
    spec, wanted = FAULTS[sentence]
    assert faults(spec) == wanted


def test_the_name_is_validated_too() -> None:
    assert faults({}, name="elevenchars") == ["metadata.name|Too long: may not be more than 10 bytes"]


RATCHETS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "an old bad value may stay while others change": ({"enum": "blue"}, {"enum": "blue", "len": "ok"}, []),
    "a bad value may not become another": (
        {"enum": "blue"},
        {"enum": "pink"},
        ['spec.enum|Unsupported value: "pink": supported values: "red", "green"'],
    ),
    "elements of keyed lists are found by their key": (
        {"map": [{"k": "a", "v": 99}]},
        {"map": [{"k": "b", "v": 1}, {"k": "a", "v": 99}]},
        [],
    ),
    "a changed element is judged": (
        {"map": [{"k": "a", "v": 99}]},
        {"map": [{"k": "a", "v": 98}]},
        ["spec.map[0].v|Invalid value: 98: spec.map[0].v in body should be less than or equal to 9"],
    ),
    "an unchanged repeat may stay": ({"set": ["a", "a"]}, {"set": ["a", "a"], "len": "ok"}, []),
}


@pytest.mark.parametrize("sentence", RATCHETS)
def test_ratcheting(sentence: str) -> None:
    before, after, wanted = RATCHETS[sentence]
    assert faults(after, old=before) == wanted


DEFAULTED = schema.compile(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "a": {"type": "string", "default": "one"},
                    "n": {"type": "integer", "default": 7},
                    "deep": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
                    "made": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
                    "list": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"p": {"type": "string", "default": "TCP"}, "q": {"type": "integer"}},
                        },
                    },
                    "map": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "properties": {"z": {"type": "boolean", "default": True}},
                        },
                    },
                    "nul": {"type": "string", "nullable": True, "default": "dd"},
                    "keep": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"known": {"type": "object", "properties": {"k": {"type": "string"}}}},
                    },
                    "raw": {"x-kubernetes-preserve-unknown-fields": True},
                    "emb": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": {"type": "object", "properties": {"s": {"type": "string"}}}},
                    },
                },
            },
        },
    }
)
BASE = {"a": "one", "n": 7, "made": {"x": "y"}, "nul": "dd"}
DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "everything by default": ({}, BASE),
    "what is absent stays absent unless it has a default": ({"spec": {"deep": {}}}, {**BASE, "deep": {"x": "y"}}),
    "inside lists and maps": (
        {"spec": {"list": [{}, {"q": 1}], "map": {"k": {}, "l": {"z": False}}}},
        {**BASE, "list": [{"p": "TCP"}, {"p": "TCP", "q": 1}], "map": {"k": {"z": True}, "l": {"z": False}}},
    ),
    "nulls are dropped or defaulted, allowed ones stay": (
        {"spec": {"n": None, "deep": None, "nul": None}},
        {**BASE, "nul": None},
    ),
    "a whole null": ({"spec": None}, BASE),
}


@pytest.mark.parametrize("sentence", DEFAULTS)
def test_defaults(sentence: str) -> None:
    body, wanted = DEFAULTS[sentence]
    obj, _ = DEFAULTED.prune(body)
    DEFAULTED.default(obj)
    assert obj["spec"] == wanted


def test_defaulting_is_final() -> None:
    obj, _ = DEFAULTED.prune({})
    DEFAULTED.default(obj)
    once = repr(obj)
    DEFAULTED.default(obj)
    assert repr(obj) == once


def test_unknown_fields_are_pruned_and_named_in_order() -> None:
    body = {
        "top": 1,
        "spec": {
            "odd": 1,
            "keep": {"any": [1, {"x": 2}], "known": {"k": "v", "odd": 3}},
            "raw": [1, None, {"a": None}],
            "list": [{"q": 1, "lost": 1}],
            "emb": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "x", "odd": 1},
                "spec": {"s": "t", "odd": 5},
                "status": {},
            },
        },
    }
    obj, unknown = DEFAULTED.prune(body)
    assert obj["spec"] == {
        "keep": {"any": [1, {"x": 2}], "known": {"k": "v"}},
        "raw": [1, None, {"a": None}],
        "list": [{"q": 1}],
        "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"s": "t"}},
    }
    assert unknown == [
        "spec.emb.spec.odd",
        "spec.emb.status",
        "spec.keep.known.odd",
        "spec.list[0].lost",
        "spec.odd",
        "top",
        "spec.emb.metadata.odd",
    ]


def test_pruning_leaves_the_body_alone() -> None:
    body = {"spec": {"list": [{"q": 1, "lost": 1}]}}
    obj, _ = DEFAULTED.prune(body)
    DEFAULTED.default(obj)
    assert body == {"spec": {"list": [{"q": 1, "lost": 1}]}}
