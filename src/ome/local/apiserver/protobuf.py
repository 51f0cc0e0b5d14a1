"""Kubernetes protobuf to JSON objects and back, over a table of field numbers instead of generated classes.

kubectl's typed commands and helm send bodies this way; Go clients that accept nothing else are answered this way. The
wire cannot tell zero from unset for fields that are no pointers in Go; the kinds' decoding sorts that out. Pure.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import orjson

from ome.api.kubernetes import definitions, protobuf_messages
from ome.local.apiserver.errors import Problem, bad_request

PREFIX: Final = b"k8s\x00"
_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1."
_META_KINDS: Final = frozenset(
    {
        "APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "DeleteOptions", "GetOptions",
        "ListOptions", "PatchOptions", "Status", "UpdateOptions", "ApplyOptions", "WatchEvent",
    }
)  # fmt: skip
_PACKAGES: Final[Mapping[str, str]] = {
    "": "k8s.io.api.core",
    "apiextensions.k8s.io": "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions",
    "meta.k8s.io": "k8s.io.apimachinery.pkg.apis.meta",
}


class _MalformedError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    name: str
    type: str
    repeated: bool
    inline: bool
    map_value: str


def message_name(api_version: str, kind: str) -> str:
    """The message of a kind, whether or not it exists."""
    group, _, version = api_version.rpartition("/")
    if kind in _META_KINDS:
        return _META + kind
    if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return _META + kind
    package = _PACKAGES.get(group) or f"k8s.io.api.{group.partition('.')[0]}"
    return f"{package}.{version}.{kind}"


def _definition(message: str) -> str:
    return message.replace("k8s.io.apiextensions_apiserver", "io.k8s.apiextensions-apiserver").replace(
        "k8s.io.", "io.k8s.", 1
    )


@cache
def _fields(message: str) -> Mapping[int, _Field]:
    table = protobuf_messages().get(message)
    if table is None:
        raise _MalformedError(f"no message {message}")
    schema = definitions().get(_definition(message))
    properties = schema.get("properties") if schema is not None else None
    package = message.rpartition(".")[0]
    out: dict[int, _Field] = {}
    for number, (name, type_, repeated) in table.items():
        value = ""
        if type_.startswith("map<"):
            value = _resolved(type_[4:-1].split(",", 1)[1].strip(), package)
        inline = properties is not None and name not in properties and "." in type_ and not value
        out[int(number)] = _Field(
            int(number), name, _resolved(type_, package) if not value else "map", bool(repeated), inline, value
        )
    return out


_PLAIN: Final = frozenset({"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float"})


def _resolved(type_: str, package: str) -> str:
    if type_ in _PLAIN:
        return type_
    if type_.startswith("."):
        return type_[1:]
    return type_ if "." in type_ else f"{package}.{type_}"


# -- reading


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _MalformedError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _items(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value) of a message: bytes for length-delimited fields, else an integer."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise _MalformedError("illegal tag 0")
        if wire == 0:
            value, at = _varint(data, at)
            yield number, wire, value
        elif wire == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise _MalformedError("unexpected EOF")
            yield number, wire, data[at : at + length]
            at += length
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if at + size > len(data):
                raise _MalformedError("unexpected EOF")
            yield number, wire, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise _MalformedError(f"illegal wireType {wire}")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _read_message(data: bytes, message: str, depth: int = 0) -> dict[str, Any]:
    if depth > 200:
        raise _MalformedError("exceeded max depth")
    fields = _fields(message)
    out: dict[str, Any] = {}
    for number, wire, raw in _items(data):
        spec = fields.get(number)
        if spec is None:
            continue
        if spec.map_value:
            key, value = _read_entry(_expect_bytes(raw, wire), spec.map_value, depth)
            out.setdefault(spec.name, {})[key] = value
            continue
        if spec.repeated and wire == 2 and spec.type in ("int32", "int64", "uint32", "uint64", "bool"):
            out.setdefault(spec.name, []).extend(_packed(raw, spec.type))
            continue
        value = _read_value(raw, wire, spec.type, depth)
        if spec.repeated:
            out.setdefault(spec.name, []).append(value)
        elif spec.inline and isinstance(value, dict):
            out.update(value)
        elif value is not None:
            out[spec.name] = value
    return out


def _packed(raw: bytes, type_: str) -> list[Any]:
    out: list[Any] = []
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at)
        out.append(_number(value, type_))
    return out


def _number(value: int, type_: str) -> Any:
    return bool(value) if type_ == "bool" else _signed(value)


def _expect_bytes(raw: Any, wire: int) -> bytes:
    if wire != 2:
        raise _MalformedError("wrong wireType")
    data: bytes = raw
    return data


def _read_entry(data: bytes, value_type: str, depth: int) -> tuple[str, Any]:
    key = ""
    value: Any = _empty(value_type)
    for number, wire, raw in _items(data):
        if number == 1:
            key = _expect_bytes(raw, wire).decode("utf-8", "replace")
        elif number == 2:
            value = _read_value(raw, wire, value_type, depth)
    return key, value


def _empty(type_: str) -> Any:
    return {"string": "", "bytes": "", "bool": False}.get(type_, {} if "." in type_ else 0)


def _read_value(raw: Any, wire: int, type_: str, depth: int) -> Any:
    if type_ == "string":
        return _expect_bytes(raw, wire).decode("utf-8", "replace")
    if type_ == "bytes":
        return base64.b64encode(_expect_bytes(raw, wire)).decode()
    if type_ in ("double", "float"):
        return struct.unpack("<d" if wire == 1 else "<f", raw.to_bytes(8 if wire == 1 else 4, "little"))[0]
    if type_ in _PLAIN:
        if wire == 2:
            raise _MalformedError("wrong wireType")
        return _number(raw, type_)
    data = _expect_bytes(raw, wire)
    special = _READ_SPECIAL.get(type_)
    return special(data) if special is not None else _read_message(data, type_, depth + 1)


def _read_time(data: bytes) -> str | None:
    seconds, _ = _seconds(data)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_micro_time(data: bytes) -> str | None:
    seconds, nanos = _seconds(data)
    if seconds is None:
        return None
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z"


def _seconds(data: bytes) -> tuple[int | None, int]:
    seconds: int | None = None
    nanos = 0
    for number, wire, raw in _items(data):
        if number == 1 and wire == 0:
            seconds = _signed(raw)
        elif number == 2 and wire == 0:
            nanos = _signed(raw)
    if seconds is not None and not -62135596800 < seconds < 253402300800:
        return None, 0
    return seconds, nanos


def _read_int_or_string(data: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for field, wire, raw in _items(data):
        if field == 1 and wire == 0:
            kind = raw
        elif field == 2 and wire == 0:
            number = _signed(raw)
        elif field == 3:
            text = _expect_bytes(raw, wire).decode("utf-8", "replace")
    return text if kind == 1 else number


def _read_text(data: bytes) -> str:
    return next((_expect_bytes(raw, wire).decode("utf-8", "replace") for n, wire, raw in _items(data) if n == 1), "")


def _read_json(data: bytes) -> Any:
    raw = next((_expect_bytes(raw, wire) for number, wire, raw in _items(data) if number == 1), b"")
    if not raw:
        return None
    if raw.startswith(PREFIX):
        return _read_unknown(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _MalformedError("invalid JSON in a raw field") from error


def _read_strings(data: bytes) -> list[str]:
    return [_expect_bytes(raw, wire).decode("utf-8", "replace") for number, wire, raw in _items(data) if number == 1]


def _read_schema_or_bool(data: bytes) -> Any:
    for number, wire, raw in _items(data):
        if number == 2:
            return _read_message(_expect_bytes(raw, wire), _SCHEMA)
    return any(number == 1 and raw for number, _, raw in _items(data))


def _read_schema_or_array(data: bytes) -> Any:
    items = list(_items(data))
    for number, wire, raw in items:
        if number == 1:
            return _read_message(_expect_bytes(raw, wire), _SCHEMA)
    return [_read_message(_expect_bytes(raw, wire), _SCHEMA) for number, wire, raw in items if number == 2]


_EXTENSIONS: Final = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1."
_SCHEMA: Final = _EXTENSIONS + "JSONSchemaProps"
_READ_SPECIAL: Final[Mapping[str, Callable[[bytes], Any]]] = {
    _META + "Time": _read_time,
    _META + "MicroTime": _read_micro_time,
    _META + "Verbs": _read_strings,
    _META + "FieldsV1": _read_json,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _read_json,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _read_int_or_string,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _read_text,
    "k8s.io.api.authentication.v1.ExtraValue": _read_strings,
    "k8s.io.api.authorization.v1.ExtraValue": _read_strings,
    "k8s.io.api.certificates.v1.ExtraValue": _read_strings,
    _EXTENSIONS + "JSON": _read_json,
    _EXTENSIONS + "JSONSchemaPropsOrBool": _read_schema_or_bool,
    _EXTENSIONS + "JSONSchemaPropsOrArray": _read_schema_or_array,
}


def _read_unknown(data: bytes) -> dict[str, Any]:
    envelope = {number: raw for number, _, raw in _items(data[len(PREFIX) :])}
    head = {number: raw for number, _, raw in _items(envelope.get(1, b""))}
    api_version = bytes(head.get(1, b"")).decode("utf-8", "replace")
    kind = bytes(head.get(2, b"")).decode("utf-8", "replace")
    out: dict[str, Any] = {"kind": kind, "apiVersion": api_version}
    message = message_name(api_version, kind)
    if message in protobuf_messages():
        out.update(_read_message(envelope.get(2, b""), message))
    return out


def decode_unknown(data: bytes, kind: str) -> dict[str, Any]:
    """The object in a body that says it is protobuf. Raises Problem 400."""
    if not data.startswith(PREFIX):
        shown = data.hex() if len(data) <= 30 else data[:30].hex() + " ..."
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): provided data does not appear to be a "
            f"protobuf message, expected prefix [107 56 115 0] ({shown})"
        )
    try:
        decoded = _read_unknown(data)
    except (_MalformedError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unreadable(kind, str(error)) from error
    if not decoded["kind"] and not decoded["apiVersion"] and len(data) == len(PREFIX):
        raise _unreadable(kind, "empty data")
    return decoded


def _unreadable(kind: str, reason: str) -> Problem:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {reason}")


# -- writing


def _put_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _put_bytes(number: int, data: bytes) -> bytes:
    return _put_varint(number << 3 | 2) + _put_varint(len(data)) + data


def _put_int(number: int, value: int) -> bytes:
    return _put_varint(number << 3) + _put_varint(value)


def _write_message(obj: Mapping[str, Any], message: str) -> bytes:
    out: list[bytes] = []
    for number in sorted(_fields(message)):
        spec = _fields(message)[number]
        if spec.inline:
            inner = _write_message(obj, spec.type)
            if inner:
                out.append(_put_bytes(number, inner))
            continue
        value = obj.get(spec.name)
        if value is None:
            continue
        if spec.map_value:
            for key in sorted(value):
                entry = _put_bytes(1, key.encode()) + _write_value(2, value[key], spec.map_value)
                out.append(_put_bytes(number, entry))
        elif spec.repeated:
            out += [_write_value(number, item, spec.type) for item in value]
        else:
            out.append(_write_value(number, value, spec.type))
    return b"".join(out)


def _write_value(number: int, value: Any, type_: str) -> bytes:
    if type_ == "string":
        return _put_bytes(number, str(value).encode("utf-8", "replace"))
    if type_ == "bytes":
        return _put_bytes(number, base64.b64decode(value))
    if type_ == "double":
        return _put_varint(number << 3 | 1) + struct.pack("<d", float(value))
    if type_ in _PLAIN:
        return _put_int(number, int(value))
    special = _WRITE_SPECIAL.get(type_)
    return _put_bytes(number, special(value) if special is not None else _write_message(value, type_))


def _write_time(value: Any) -> bytes:
    moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    out = _put_int(1, int(moment.timestamp() // 1))
    return out + _put_int(2, moment.microsecond * 1000)


def _write_int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return _put_int(1, 1) + _put_int(2, 0) + _put_bytes(3, value.encode())
    return _put_int(1, 0) + _put_int(2, int(value)) + _put_bytes(3, b"")


def _write_text(value: Any) -> bytes:
    return _put_bytes(1, str(value).encode())


def _write_json(value: Any) -> bytes:
    return _put_bytes(1, orjson.dumps(value))


def _write_strings(value: Any) -> bytes:
    return b"".join(_put_bytes(1, str(item).encode()) for item in value)


def _write_schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return _put_int(1, int(value))
    return _put_int(1, 1) + _put_bytes(2, _write_message(value, _SCHEMA))


def _write_schema_or_array(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_put_bytes(2, _write_message(item, _SCHEMA)) for item in value)
    return _put_bytes(1, _write_message(value, _SCHEMA))


def _write_list_meta(value: Any) -> bytes:
    texts = (("selfLink", 1), ("resourceVersion", 2), ("continue", 3))
    out = b"".join(_put_bytes(number, str(value.get(name) or "").encode()) for name, number in texts)
    remaining = value.get("remainingItemCount")
    return out if remaining is None else out + _put_int(4, remaining)


_WRITE_SPECIAL: Final[Mapping[str, Callable[[Any], bytes]]] = {
    _META + "Time": _write_time,
    _META + "MicroTime": _write_time,
    _META + "Verbs": _write_strings,
    _META + "FieldsV1": _write_json,
    _META + "ListMeta": _write_list_meta,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _write_json,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _write_int_or_string,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _write_text,
    "k8s.io.api.authentication.v1.ExtraValue": _write_strings,
    "k8s.io.api.authorization.v1.ExtraValue": _write_strings,
    "k8s.io.api.certificates.v1.ExtraValue": _write_strings,
    _EXTENSIONS + "JSON": _write_json,
    _EXTENSIONS + "JSONSchemaPropsOrBool": _write_schema_or_bool,
    _EXTENSIONS + "JSONSchemaPropsOrArray": _write_schema_or_array,
}


def encode_object(obj: Mapping[str, Any]) -> bytes:
    """An object (with kind and apiVersion) in its protobuf envelope."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    raw = _write_message(obj, message_name(api_version, kind))
    head = _put_bytes(1, api_version.encode()) + _put_bytes(2, kind.encode())
    return PREFIX + _put_bytes(1, head) + _put_bytes(2, raw) + _put_bytes(3, b"") + _put_bytes(4, b"")


def encode_watch_event(type_: str, obj: Mapping[str, Any]) -> bytes:
    """One frame of a watch: its length in four bytes, then the event."""
    event = _put_bytes(1, type_.encode()) + _put_bytes(2, _put_bytes(1, encode_object(obj)))
    return struct.pack(">I", len(event)) + event
