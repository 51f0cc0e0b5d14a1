"""Whether an openAPIV3Schema is one that custom resources may have: structural, without what is forbidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ome.local.apiserver.definitions import quick
from ome.local.apiserver.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from ome.local.apiserver.schema import structural, values
from ome.local.apiserver.schema.validate import list_errors
from ome.local.apiserver.schema.validate import validate as validate_value

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN: Final = {
    "id": "id is not supported",
    "additionalItems": "additionalItems is not supported",
    "patternProperties": "patternProperties is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "$ref": "$ref is not supported",
}
Schema = Mapping[str, Any]


def _named(schema: Schema, word: str) -> Iterator[tuple[str, Schema]]:
    for name, child in (schema.get(word) or {}).items():
        if isinstance(child, Mapping):
            yield name, child


def _listed(schema: Schema, word: str) -> Iterator[tuple[int, Schema]]:
    for index, child in enumerate(schema.get(word) or ()):
        if isinstance(child, Mapping):
            yield index, child


def children(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """All schemas right below one, with their paths."""
    for name, child in _named(schema, "properties"):
        yield child, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), Mapping):
            yield schema[word], f"{path}.{word}"
    for word in ("allOf", "anyOf", "oneOf"):
        for index, child in _listed(schema, word):
            yield child, f"{path}.{word}[{index}]"


def validate(schema: Schema, path: str) -> list[FieldError]:
    """The faults of a version's schema. path: where it stands, as a real server calls it."""
    errors = [] if quick.is_sound(schema) else slow_faults(schema, path)
    if not errors and structural.mentions_rules(schema):  # else the compiler of CEL need not even be loaded
        from ome.local.apiserver.definitions import rules

        errors += rules.validate(schema, path)
    return errors


def slow_faults(schema: Schema, path: str) -> list[FieldError]:
    """The same without the fast look and without the rules in CEL."""
    errors = _metadata_defaults(schema, path)
    errors += _general(schema, path)
    if any(error.type == "FieldValueForbidden" and error.field.endswith(_UNREADABLE) for error in errors):
        return errors
    errors += sorted(_structure(schema, path, "root"), key=str) or _completeness(schema, path)
    if not errors:
        errors += _defaults(schema, path, structural.Node(schema, root=True))
    return errors


_UNREADABLE: Final = (".$ref", ".items", ".additionalProperties", ".definitions", ".dependencies", ".patternProperties")


def _metadata_defaults(schema: Schema, path: str) -> list[FieldError]:
    meta = (schema.get("properties") or {}).get("metadata") or {}
    place = f"{path}.properties[metadata]"
    errors: list[FieldError] = []
    if "default" in meta:
        errors.append(forbidden_field(f"{place}.default", "must not be set in top-level metadata"))
    return errors + [
        forbidden_field(f"{place}.properties[{name}].default", "must not be set in top-level metadata")
        for name, child in _named(meta, "properties")
        if "default" in child
    ]


def _general(schema: Schema, path: str) -> list[FieldError]:
    errors = [
        forbidden_field(f"{path}.{word}", text)
        for word, text in _FORBIDDEN.items()
        if schema.get(word) not in (None, "", {})
    ]
    if isinstance(schema.get("items"), list):
        errors.append(forbidden_field(f"{path}.items", "items must be a schema object and not an array"))
    kind = schema.get("type", "")
    if kind == "null":
        errors.append(forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    elif kind and kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden_field(f"{path}.uniqueItems", text))
    errors += _pattern(schema, path)
    more = schema.get("additionalProperties")
    if schema.get("properties") and (more is False or isinstance(more, Mapping)):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden_field(f"{path}.additionalProperties", text))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    errors += _list_and_map_types(schema, path)
    for child, place in children(schema, path):
        errors += _general(child, place)
    return errors


def _pattern(schema: Schema, path: str) -> list[FieldError]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        structural.go_regex(pattern)
    except re.error as error:
        detail = (
            f"must be a valid regular expression, but isn't: error parsing regexp: {_go_regex_fault(error, pattern)}"
        )
        return [invalid_value(f"{path}.pattern", pattern, detail)]
    return []


def _go_regex_fault(error: re.error, pattern: str) -> str:
    if "unterminated subpattern" in str(error) or "missing )" in str(error):
        return f"missing closing ): `{pattern}`"
    if "unterminated character set" in str(error):
        return f"missing closing ]: `{pattern[error.pos or 0 :]}`"
    if "unbalanced parenthesis" in str(error):
        return f"unexpected ): `{pattern}`"
    if "nothing to repeat" in str(error):
        return f"missing argument to repetition operator: `{pattern[error.pos or 0 : (error.pos or 0) + 1]}`"
    return f"{error.msg}: `{pattern}`"


def _must_be(schema: Schema, path: str, kind: str, extension: str) -> list[FieldError]:
    found = schema.get("type", "")
    text = f"must be {kind} if {extension} is specified"
    if not found:
        return [required(f"{path}.type", text)]
    return [invalid_value(f"{path}.type", found, text)] if found != kind else []


def _list_and_map_types(schema: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if map_type is not None:
        errors += _must_be(schema, path, "object", "x-kubernetes-map-type")
        if map_type not in ("atomic", "granular"):
            errors.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular")))
    if list_type is not None:
        errors += _must_be(schema, path, "array", "x-kubernetes-list-type")
        if list_type not in ("atomic", "set", "map"):
            errors.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        errors.append(required(place, text) if list_type is None else invalid_value(place, list_type, text))
    if list_type == "map":
        errors += _map_list(schema, keys, path)
    elif list_type == "set" and isinstance(schema.get("items"), Mapping):
        errors += _set_list(schema["items"], f"{path}.items")
    return errors


def _set_list(items: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if items.get("nullable"):
        text = "cannot be nullable when x-kubernetes-list-type is set"
        errors.append(forbidden_field(f"{path}.nullable", text))
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        errors.append(invalid_value(f"{path}.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text))
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        errors.append(invalid_value(f"{path}.x-kubernetes-list-type", items.get("x-kubernetes-list-type"), text))
    return errors


def _map_list(schema: Schema, keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    place = f"{path}.x-kubernetes-list-map-keys"
    items = schema.get("items")
    if not keys:
        errors.append(required(place, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
    if not isinstance(items, Mapping):
        return errors
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid_value(f"{path}.items.type", items.get("type", ""), text))
        return errors
    if len(set(keys)) != len(keys):
        errors.append(invalid_value(place, keys, "must not contain duplicate entries"))
    properties = items.get("properties") or {}
    for key in keys:
        where = f"{path}.items.properties[{key}]"
        found = properties.get(key)
        if found is None:
            errors.append(invalid_value(place, keys, "entries must all be names of item properties"))
            continue
        if found.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid_value(f"{where}.type", found["type"], text))
        prefix = "this property is in x-kubernetes-list-map-keys, so it "
        if "default" not in found and key not in (items.get("required") or ()):
            errors.append(required(f"{where}.default", prefix + "must have a default or be a required property"))
        if found.get("nullable"):
            errors.append(forbidden_field(f"{where}.nullable", prefix + "cannot be nullable"))
    return errors


_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _structure(schema: Schema, path: str, level: str) -> list[FieldError]:
    """What every structural schema must keep, at one node and below it."""
    errors: list[FieldError] = []
    kind = schema.get("type", "")
    embedded = schema.get("x-kubernetes-embedded-resource")
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        errors.append(required(f"{path}.items", "must be specified"))
    if isinstance(schema.get("items"), Mapping):
        errors += _structure(schema["items"], f"{path}.items", "item")
    for name, child in _named(schema, "properties"):
        errors += _structure(child, f"{path}.properties[{name}]", "field")
    if isinstance(schema.get("additionalProperties"), Mapping):
        errors += _structure(schema["additionalProperties"], f"{path}.additionalProperties", "field")
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        place = f"{path}.type"
        errors.append(invalid_value(place, kind, text) if kind else required(place, text))
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not _keeps_unknown(schema):
        errors.append(required(f"{path}.type", _NO_TYPE[level]))
    if level == "root" and kind and kind != "object":
        errors.append(invalid_value(f"{path}.type", kind, "must be object at the root"))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden_field(f"{path}.additionalProperties", text))
    if embedded and not _keeps_unknown(schema) and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", text))
    if level == "root" or embedded:
        errors += _object_fields(schema, path)
    for word in ("allOf", "anyOf", "oneOf"):
        for index, child in _listed(schema, word):
            plain = word == "anyOf" and schema.get("x-kubernetes-int-or-string")
            errors += [] if plain else _nested(child, f"{path}.{word}[{index}]", schema)
    if isinstance(schema.get("not"), Mapping):
        errors += _nested(schema["not"], f"{path}.not", schema)
    return errors


def _keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _object_fields(schema: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    properties = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        found = properties.get(name)
        if found is not None and found.get("type") != "string":
            errors.append(invalid_value(f"{path}.properties[{name}].type", found.get("type", ""), "must be string"))
    meta = properties.get("metadata")
    if meta is None:
        return errors
    place = f"{path}.properties[metadata]"
    if meta.get("type") != "object":
        errors.append(invalid_value(f"{place}.type", meta.get("type", ""), "must be object"))
    extra = [word for word in meta if word not in ("type", "properties", "description", "default")]
    if extra or set(meta.get("properties") or {}) - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden_field(place, text))
    return errors


_NESTED_EMPTY: Final = ("type", "description", "title")
_NESTED_FALSE: Final = (
    "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
)  # fmt: skip


def _is_int_or_string(owner: Schema, path: str) -> bool:
    return bool(owner.get("x-kubernetes-int-or-string")) and ".allOf[0].anyOf[" in path


def _nested(schema: Schema, path: str, owner: Schema) -> list[FieldError]:
    """Below anyOf and the like there may be value checks only."""
    errors: list[FieldError] = []
    for name, child in _named(schema, "properties"):
        errors += _nested(child, f"{path}.properties[{name}]", owner)
    if isinstance(schema.get("items"), Mapping):
        errors += _nested(schema["items"], f"{path}.items", owner)
    for word in ("allOf", "anyOf", "oneOf"):
        for index, child in _listed(schema, word):
            errors += _nested(child, f"{path}.{word}[{index}]", owner)
    if isinstance(schema.get("not"), Mapping):
        errors += _nested(schema["not"], f"{path}.not", owner)
    if _is_int_or_string(owner, path):
        return errors
    errors += [
        forbidden_field(f"{path}.{word}", "must be empty to be structural")
        for word in _NESTED_EMPTY
        if schema.get(word)
    ]
    errors += [
        forbidden_field(f"{path}.{word}", "must be false to be structural")
        for word in _NESTED_FALSE
        if schema.get(word)
    ]
    for word in ("default", "additionalProperties"):
        if word in schema:
            errors.append(forbidden_field(f"{path}.{word}", "must be undefined to be structural"))
    return errors


def _completeness(schema: Schema, path: str) -> list[FieldError]:
    """Fields that value checks name must be declared in the structure."""
    errors: list[FieldError] = []
    for word in ("allOf", "anyOf", "oneOf"):
        for index, child in _listed(schema, word):
            errors += _declared(child, f"{path}.{word}[{index}]", schema, path)
    if isinstance(schema.get("not"), Mapping):
        errors += _declared(schema["not"], f"{path}.not", schema, path)
    for name, child in _named(schema, "properties"):
        errors += _completeness(child, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            errors += _completeness(schema[word], f"{path}.{word}")
    return errors


def _declared(nested: Schema, nested_path: str, main: Schema, main_path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, child in _named(nested, "properties"):
        place = f"{nested_path}.properties[{name}]"
        found = (main.get("properties") or {}).get(name)
        if isinstance(found, Mapping):
            errors += _declared(child, place, found, f"{main_path}.properties[{name}]")
        elif not isinstance(main.get("additionalProperties"), Mapping):
            errors.append(required(f"{main_path}.properties[{name}]", f"because it is defined in {place}"))
    if isinstance(nested.get("items"), Mapping):
        if isinstance(main.get("items"), Mapping):
            errors += _declared(nested["items"], f"{nested_path}.items", main["items"], f"{main_path}.items")
        else:
            errors.append(required(f"{main_path}.items", f"because it is defined in {nested_path}.items"))
    return errors


def _defaults(schema: Schema, path: str, node: structural.Node) -> list[FieldError]:
    """Defaults must be valid and pruned values of their own schema."""
    errors: list[FieldError] = []
    if "default" in schema:
        errors += _default_faults(schema["default"], f"{path}.default", node)
    for name, child in _named(schema, "properties"):
        below = node.declared(name)
        if below is not None:
            errors += _defaults(child, f"{path}.properties[{name}]", below)
    if isinstance(schema.get("items"), Mapping) and node.items is not None:
        errors += _defaults(schema["items"], f"{path}.items", node.items)
    if isinstance(schema.get("additionalProperties"), Mapping) and node.map_values is not None:
        errors += _defaults(schema["additionalProperties"], f"{path}.additionalProperties", node.map_values)
    return errors


def _default_faults(value: Any, path: str, node: structural.Node) -> list[FieldError]:
    if isinstance(value, dict):
        pruned, unknown = structural.prune(value, node)
        if unknown:
            return [invalid_value(path, value, "must not have unknown fields")]
        structural.apply_defaults(pruned, node)
        value = pruned
    else:
        value = values.copy(value)
    faults = validate_value(value, node) + list_errors(value, node)
    return [
        FieldError(
            path if fault.field in ("", "<nil>") else f"{path}.{fault.field}", fault.type, fault.detail, fault.bad_value
        )
        for fault in faults
    ]
