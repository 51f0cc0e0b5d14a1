"""A fast look at a schema that is most likely sound, without paths and messages.

Real definitions hold whole pod templates and reach megabytes; nearly all of their nodes are of a few ordinary forms.
What is not is left to `definitions.schemas`, which also finds the words. A schema that passes here has no fault there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from ome.local.apiserver.schema import structural

Schema = Mapping[str, Any]
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_PLAIN: Final = frozenset(
    {
        "description", "type", "format", "nullable", "title", "enum", "pattern", "properties", "items",
        "additionalProperties", "required", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "anyOf",
    }
)  # fmt: skip
_LIMITS: Final = frozenset({"enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "format"})
# What no scalar can get wrong.
_HARMLESS: Final = frozenset(
    {
        "description", "type", "format", "nullable", "title", "enum", "minimum", "maximum", "minLength", "maxLength",
    }
)  # fmt: skip
_RULES: Final = "x-kubernetes-validations"
_CHOICES: Final = frozenset({"anyOf", "oneOf", "allOf", "not"})
_EITHER: Final = ({"type": "integer"}, {"type": "string"})
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def is_sound(schema: Schema) -> bool:
    """Whether the schema of a version is certainly without fault, its rules in CEL apart. False says nothing."""
    properties = schema.get("properties") or {}
    if schema.get("type") != "object" or not _is_string(properties.get("kind")) or "default" in schema:
        return False
    if not _is_string(properties.get("apiVersion")) or properties.get("metadata", _OBJECT) != _OBJECT:
        return False
    return _sound(schema)


_OBJECT: Final = {"type": "object"}


def _is_string(schema: Schema | None) -> bool:
    return schema is None or schema.get("type") == "string"


def _sound(schema: Schema) -> bool:
    if schema.keys() <= _HARMLESS and schema.get("type") in _SCALARS:
        return True
    if not schema.keys() <= _PLAIN and not _plain_but_for_choices(schema):
        return False
    if "pattern" in schema and not _compiles(schema["pattern"]):
        return False
    if "x-kubernetes-int-or-string" in schema:
        return tuple(schema.get("anyOf", _EITHER)) == _EITHER and "type" not in schema and "default" not in schema
    if "anyOf" in schema and not _names_required(schema["anyOf"]):
        return False
    kind = schema.get("type")
    if kind == "object":
        return _sound_object(schema)
    if kind == "array":
        return _sound_array(schema)
    if kind in _SCALARS:
        return _sound_scalar(schema, kind)
    return kind is None and schema.get("x-kubernetes-preserve-unknown-fields") is True and len(schema) <= 2


def _plain_but_for_choices(schema: Schema) -> bool:
    """Whether what is out of the ordinary are rules in CEL (checked elsewhere) and choices between required fields."""
    extra = schema.keys() - _PLAIN
    return all(word == _RULES or (word in _CHOICES and _names_required(schema[word])) for word in extra)


def _names_required(options: Any) -> bool:
    listed = options if isinstance(options, list) else [options]
    return all(isinstance(option, Mapping) and option.keys() == {"required"} for option in listed)


def _sound_object(schema: Schema) -> bool:
    if "items" in schema or "x-kubernetes-list-type" in schema or "x-kubernetes-list-map-keys" in schema:
        return False
    if schema.get("x-kubernetes-map-type", "atomic") not in ("atomic", "granular"):
        return False
    if schema.get("x-kubernetes-preserve-unknown-fields", True) is not True:
        return False
    if "default" in schema and (schema["default"] != {} or "required" in schema or "minProperties" in schema):
        return False
    values = schema.get("additionalProperties")
    properties = schema.get("properties")
    if values is not None:
        return not properties and isinstance(values, Mapping) and _sound(values)
    return properties is None or all(map(_sound, properties.values()))


def _sound_scalar(schema: Schema, kind: str) -> bool:
    if "properties" in schema or "items" in schema or any(key.startswith("x-") and key != _RULES for key in schema):
        return False
    if "default" not in schema:
        return True
    value = schema["default"]
    if not isinstance(value, _PYTHON[kind]) or (kind != "boolean" and isinstance(value, bool)):
        return False
    if "enum" in schema:
        return value in schema["enum"] and not schema.keys() & (_LIMITS - {"enum"})
    return kind == "integer" or not schema.keys() & _LIMITS if not schema.keys() & (_LIMITS - {"format"}) else False


def _sound_array(schema: Schema) -> bool:
    items = schema.get("items")
    if not isinstance(items, Mapping) or "properties" in schema or "default" in schema:
        return False
    if "additionalProperties" in schema or "x-kubernetes-map-type" in schema:
        return False
    list_type, keys = schema.get("x-kubernetes-list-type", "atomic"), schema.get("x-kubernetes-list-map-keys")
    if list_type == "map":
        return _sound_keys(items, keys) and _sound(items)
    if keys is not None or list_type not in ("atomic", "set"):
        return False
    if list_type == "set" and (items.get("nullable") or items.get("type") not in _SCALARS):
        return False
    return _sound(items)


def _sound_keys(items: Schema, keys: Any) -> bool:
    if not keys or items.get("type") != "object" or len(set(keys)) != len(keys):
        return False
    properties, required = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        found = properties.get(key)
        if found is None or found.get("nullable") or found.get("type") in ("array", "object"):
            return False
        if "default" not in found and key not in required:
            return False
    return True


@lru_cache(maxsize=512)
def _compiles(pattern: str) -> bool:
    try:
        structural.go_regex(pattern)
    except re.error:
        return False
    return True
