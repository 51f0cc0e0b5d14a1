"""OpenAPI v2: the schemas of all kinds in one document, as JSON or in the protobuf form that clients ask for.

Older kubectl and Helm read it, and `kubectl explain --output=plaintext-openapiv2`. Paths are left out: what clients
look up in them they find in v3. Built from the documents of v3 when first asked for. Called by `openapi.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from ome.api.kubernetes import VERSION

Json = Mapping[str, Any]
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
# What a schema of v2 has no word for.
_UNKNOWN: Final = frozenset({"nullable", "oneOf", "anyOf", "not"})


def definitions(schemas: Json) -> dict[str, Any]:
    """The schemas of v3 as v2 writes them, by name."""
    return {name: _converted(schema) for name, schema in sorted(schemas.items())}


def document(found: Json) -> bytes:
    """The whole document as JSON, in lines: what works line by line chokes on one line of a megabyte."""
    info = {"title": "Kubernetes", "version": VERSION}
    whole = {"swagger": "2.0", "info": info, "paths": {}, "definitions": found}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def _converted(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        schema = {key: value for key, value in schema.items() if key not in ("type", "properties", "items")}
    out: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _UNKNOWN:
            continue
        if word == "$ref":
            out[word] = str(value).replace(_V3, _V2)
        elif word == "properties":
            out[word] = {name: _converted(child) for name, child in value.items()}
        elif word in ("items", "additionalProperties"):
            out[word] = _converted(value)
        elif word == "allOf" and len(value) == 1 and "$ref" in value[0]:
            out["$ref"] = str(value[0]["$ref"]).replace(_V3, _V2)
        elif word != "allOf":
            out[word] = value
    return out


# -- protobuf: openapi.v2.Document of github.com/google/gnostic-models -------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))


_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES: Final = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_FLAGS: Final = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_INTEGERS: Final = {
    "maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18,
}  # fmt: skip


def protobuf(found: Json) -> bytes:
    """The whole document in protobuf."""
    info = _text(1, "Kubernetes") + _text(2, VERSION)
    return _text(1, "2.0") + _bytes(2, info) + _bytes(8, b"") + _bytes(9, _named(found))


def _named(schemas: Json) -> bytes:
    return b"".join(_bytes(1, _text(1, name) + _bytes(2, _schema(schema))) for name, schema in schemas.items())


def _any(value: Any) -> bytes:
    """A value as YAML, of which JSON is a part."""
    return _bytes(2, orjson.dumps(value) + b"\n")


def _schema(schema: Json) -> bytes:
    return b"".join(part for word, value in schema.items() for part in _member(word, value))


def _member(word: str, value: Any) -> Iterable[bytes]:
    if word in _TEXTS:
        yield _text(_TEXTS[word], str(value))
    elif word in _DOUBLES:
        yield _varint(_DOUBLES[word] << 3 | 1) + struct.pack("<d", value)
    elif word in _FLAGS or word in _INTEGERS:
        field = _FLAGS.get(word) or _INTEGERS[word]
        yield _varint(field << 3) + _varint(int(value))
    elif word == "default":
        yield _bytes(5, _any(value))
    elif word == "required":
        yield from (_text(19, name) for name in value)
    elif word == "enum":
        yield from (_bytes(20, _any(item)) for item in value)
    elif word == "additionalProperties":
        yield _bytes(21, _bytes(1, _schema(value)) if isinstance(value, Mapping) else b"\x10" + _varint(int(value)))
    elif word == "type":
        yield _bytes(22, _text(1, value))
    elif word == "items":
        yield _bytes(23, _bytes(1, _schema(value)))
    elif word == "properties":
        yield _bytes(25, _named(value))
    elif word == "example":
        yield _bytes(30, _any(value))
    elif word.startswith("x-"):
        yield _bytes(31, _text(1, word) + _bytes(2, _any(value)))


__all__ = ["definitions", "document", "protobuf"]
