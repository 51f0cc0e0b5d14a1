"""Request bodies to dicts: JSON, YAML or protobuf, with a real server's words for what cannot be read.

Pure. Duplicate keys are found here, because the fast parser drops them; unknown fields are `kinds/`'s business.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ome.local.apiserver.errors import Problem, bad_request, go_quote, unsupported_media_type
from ome.local.apiserver.negotiate import JSON, MEDIA_TYPES, PROTOBUF, YAML

BODY_LIMIT: Final = 3 * 1024 * 1024
MAX_DEPTH: Final = 10_000


@dataclass(slots=True)
class Body:
    """A decoded body. duplicates: what strict decoding has to say of repeated keys. typed: it came as protobuf."""

    value: Any
    duplicates: list[str] = field(default_factory=list)
    typed: bool = False


def media_type(header: str | None) -> str:
    """The media type of a Content-Type header; JSON when there is none."""
    if not header:
        return JSON
    return header.partition(";")[0].strip().lower()


def decode(data: bytes, content_type: str | None, kind: str, *, check_duplicates: bool, protobuf: bool = True) -> Body:
    """The body of a create or update of `kind`. Raises Problem 400 or 415."""
    wanted = media_type(content_type)
    if wanted == JSON:
        return decode_json(data, kind, check_duplicates=check_duplicates)
    if wanted == YAML:
        return decode_yaml(data, kind, check_duplicates=check_duplicates)
    if wanted == PROTOBUF and protobuf:
        from ome.local.apiserver.protobuf import decode_unknown

        return Body(decode_unknown(data, kind), typed=True)
    accepted: Sequence[str] = MEDIA_TYPES if protobuf else (JSON, YAML)
    raise unsupported_media_type(accepted)


def _unrecognized(kind: str, reason: str, data: bytes) -> Problem:
    shown = data.decode("utf-8", "replace")
    text = "<empty>" if not data else shown if len(data) <= 1024 and reason.startswith("Object") else _shortened(data)
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {reason} ({text})")


def _shortened(data: bytes) -> str:
    """The first bytes of a body as error messages show them: text when it is JSON-like, else hexadecimal."""
    if data[:1] == b"{":
        return data.decode("utf-8", "replace") if len(data) <= 30 else data[:30].decode("utf-8", "replace") + " ..."
    return data.hex() if len(data) <= 30 else data[:30].hex() + " ..."


def parse_json(data: bytes) -> Any:
    """JSON as Go reads it: invalid UTF-8 and lone surrogates are replaced. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        text = data.decode("utf-8", "replace")
        if depth_of(data) > MAX_DEPTH:
            raise ValueError("exceeded max depth") from error
        try:
            return json.loads(_lone_surrogates(text), parse_constant=_no_constant, parse_int=_number)
        except RecursionError:
            return _deep(text)


def depth_of(data: bytes) -> int:
    """An upper bound of the nesting."""
    return data.count(b"{") + data.count(b"[")


def _number(text: str) -> int | float:
    """A number as Go reads it where nothing says what it is: what is no integer of 64 bits is a float."""
    if len(text) <= 20 and -(2**63) <= (found := int(text)) < 2**63:
        return found
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"invalid character {go_quote(name[0])} looking for beginning of value")


_SURROGATE: Final = re.compile(r"\\u[dD][89aAbB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F]..")


def _lone_surrogates(text: str) -> str:
    return _SURROGATE.sub(lambda match: match[0] if match[1] else "\\ufffd", text)


def _deep(text: str) -> Any:
    """JSON nested deeper than the interpreter's stack: the value without its innermost levels.

    Nothing that deep is a field of any kind, so what is kept is enough to say so.
    """
    depth, out = 0, []
    in_string = escaped = False
    for char in text:
        if in_string:
            escaped = char == "\\" and not escaped
            in_string = char != '"' or escaped
        elif char == '"':
            in_string = True
        elif char in "{[":
            depth += 1
            if depth == 200:
                out.append("null")
        elif char in "}]":
            depth -= 1
            if depth >= 199:
                continue
        if depth < 200:
            out.append(char)
    return json.loads("".join(out))


def decode_json(data: bytes, kind: str, *, check_duplicates: bool) -> Body:
    try:
        value = parse_json(data)
    except ValueError as error:
        reason = f"couldn't get version/kind; json parse error: {go_json_error(data, error)}"
        raise _unrecognized(kind, reason, data) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        kind_of = "array" if isinstance(value, list) else _go_kind(value)
        reason = (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind_of} into Go value of type "
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise _unrecognized(kind, reason, data)
    return Body(value, duplicate_keys(data, value) if check_duplicates else [])


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def go_json_error(data: bytes, error: ValueError) -> str:
    """Go's words for malformed JSON, as far as they help: where it ended, or what it did not expect."""
    text = data.decode("utf-8", "replace")
    if not text.strip():
        return "unexpected end of JSON input"
    if str(error).startswith(("exceeded", "invalid character")):
        return str(error)
    position = getattr(error, "pos", None)
    if not isinstance(position, int) or position >= len(text.rstrip()):
        return "unexpected end of JSON input"
    char = text[position]
    if char == '"' and "Unterminated" in str(error):
        return "unexpected end of JSON input"
    message = str(getattr(error, "msg", "")) or str(error)
    if "Extra data" in message or "unexpected content after document" in message:
        return f"invalid character {_go_char(char)} after top-level value"
    if "property name" in message or "Expecting property" in message:
        return f"invalid character {_go_char(char)} looking for beginning of object key string"
    return f"invalid character {_go_char(char)} looking for beginning of value"


def _go_char(char: str) -> str:
    return "'\\''" if char == "'" else "'" + go_quote(char)[1:-1].replace('\\"', '"') + "'"


def duplicate_keys(data: bytes, value: Any) -> list[str]:
    """`duplicate field "data.a"` for every repeated key, in the order of the body.

    A body that is as long as its own compact form repeats nothing; only others are parsed a second time.
    """
    if len(orjson.dumps(value)) == len(data):
        return []
    found: list[str] = []
    try:
        _repeated(json.loads(data, object_pairs_hook=_Pairs), "", found)
    except (ValueError, RecursionError):
        return []
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object as it stands in the text, repeated keys and all."""


def _repeated(node: Any, path: str, found: list[str]) -> None:
    if isinstance(node, _Pairs):
        seen: set[str] = set()
        for key, child in node:
            below = f"{path}.{key}" if path else key
            if key in seen:
                text = f'duplicate field "{below}"'
                if text not in found:
                    found.append(text)
            seen.add(key)
            _repeated(child, below, found)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            _repeated(child, f"{path}[{index}]", found)


def parse_yaml(data: bytes) -> tuple[Any, list[str]]:
    """The first document of a YAML text (YAML 1.1 booleans and all) and its repeated keys. Raises ValueError."""
    plain = _plain_json(data)
    if plain is not None:
        return plain, []
    import yaml

    repeated: list[str] = []
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    def construct(loader: Any, node: Any) -> dict[str, Any]:
        loader.flatten_mapping(node)
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _yaml_key(loader.construct_object(key_node, deep=True))
            if key in out:
                repeated.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            out[key] = loader.construct_object(value_node, deep=True)
        return out

    Loader.add_constructor("tag:yaml.org,2002:map", construct)
    Loader.yaml_implicit_resolvers = {
        key: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for key, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(y|Y|n|N)$"), list("yYnN"))
    Loader.bool_values = {**Loader.bool_values, "y": True, "n": False}
    text = data.decode("utf-8", "replace")
    try:
        if b"&" in data and b"*" in data:
            _refuse_excessive_aliases(yaml.parse(text, Loader=base), len(data))
        loader = Loader(text)
        value = loader.get_data() if loader.check_data() else None
        return json.loads(json.dumps(value), parse_constant=_no_constant, parse_int=_number), repeated
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(str(error)) from error


def _refuse_excessive_aliases(events: Iterable[Any], length: int) -> None:
    """Raise ValueError for a text that is small as it stands and huge once its aliases are written out."""
    import yaml

    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = [(None, 0)]
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, 1))
            continue
        anchor, size = None, 0
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_.pop()
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1
        elif isinstance(event, yaml.AliasEvent):
            if any(name == event.anchor for name, _ in open_):
                raise ValueError(f"anchor '{event.anchor}' value contains itself")
            size = sizes.get(str(event.anchor), 0)
        if anchor is not None:
            sizes[anchor] = size
        open_[-1] = (open_[-1][0], open_[-1][1] + size)
        if open_[-1][1] > _ALIASED_AT_MOST + 10 * length:
            raise ValueError("document contains excessive aliasing")


_ALIASED_AT_MOST: Final = 10_000


def _plain_json(data: bytes) -> Any | None:
    """The value of a JSON object without repeated keys: YAML reads it the same way, at a hundred times the cost."""
    if data.lstrip()[:1] != b"{":
        return None

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("repeated key")
        return found

    try:
        return json.loads(data, object_pairs_hook=once, parse_constant=_no_constant, parse_int=_number)
    except (ValueError, RecursionError):
        return None


def _yaml_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


def decode_yaml(data: bytes, kind: str, *, check_duplicates: bool) -> Body:
    if data.lstrip()[:1] == b"{":
        try:
            return decode_json(data, kind, check_duplicates=check_duplicates)
        except Problem:
            pass
    try:
        value, repeated = parse_yaml(data)
    except ValueError as error:
        reason = f"couldn't get version/kind; json parse error: error converting YAML to JSON: yaml: {error}"
        raise _unrecognized(kind, reason, data) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise _unrecognized(kind, "couldn't get version/kind; json parse error: json: cannot unmarshal", data)
    lines = ["yaml: unmarshal errors:\n  " + "\n  ".join(repeated)] if repeated and check_duplicates else []
    return Body(value, lines)


def missing_kind(data: bytes, kind: str) -> Problem:
    """A custom object without kind or apiVersion."""
    text = data.decode("utf-8", "replace")
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{text}' ({text})"
    )
