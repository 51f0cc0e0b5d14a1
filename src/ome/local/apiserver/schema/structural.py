"""A structural schema at work on custom objects: pruning, defaulting, validation with the words of a real API server.

Nodes are compiled when an object first reaches them, so a schema of megabytes costs nothing until it is used. Rules in
CEL are in `schema.rules`, checks of the schema itself in `ome.local.apiserver.definitions`. Called by the custom
strategy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from ome.local.apiserver.schema import types, values

_EMBEDDED_REQUIRED: Final = ("apiVersion", "kind")


class Node:
    """One position of the schema. `types` is empty where any type goes."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool = False) -> None:
        self.schema = schema
        self.root = root
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        self.nullable = bool(schema.get("nullable"))
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        kind = schema.get("type")
        self.types: tuple[str, ...] = ("integer", "string") if self.int_or_string else (kind,) if kind else ()
        self._properties: Mapping[str, Any] = schema.get("properties") or {}
        self._children: dict[str, Node] = {}
        self.compiled_rules: tuple[Any, ...] | None = None
        self.mentions_rules: bool | None = None

    def declared(self, name: str) -> Node | None:
        """The node of a declared property."""
        node = self._children.get(name)
        if node is None:
            schema = self._properties.get(name)
            if schema is None:
                return None
            node = self._children[name] = Node(schema)
        return node

    def child(self, name: str) -> Node | None:
        """The node of a member: a property, else the values' node of a map."""
        return self.declared(name) or self.map_values

    @property
    def property_names(self) -> Mapping[str, Any]:
        return self._properties

    @cached_property
    def map_values(self) -> Node | None:
        schema = self.schema.get("additionalProperties")
        return Node(schema) if isinstance(schema, Mapping) else None

    @cached_property
    def items(self) -> Node | None:
        schema = self.schema.get("items")
        return Node(schema) if isinstance(schema, Mapping) else None

    @cached_property
    def open(self) -> bool:
        """Whether undeclared members are kept."""
        return self.preserve or self.schema.get("additionalProperties") is True

    @cached_property
    def defaults(self) -> tuple[tuple[str, Any], ...]:
        """(property, default) of the properties that have one."""
        return tuple((name, prop["default"]) for name, prop in self._properties.items() if "default" in prop)

    @cached_property
    def list_type(self) -> str:
        return str(self.schema.get("x-kubernetes-list-type", "atomic"))

    @cached_property
    def map_keys(self) -> tuple[str, ...]:
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @cached_property
    def map_type(self) -> str:
        return str(self.schema.get("x-kubernetes-map-type", "granular"))

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        text = self.schema.get("pattern")
        return go_regex(text) if text is not None else None

    @cached_property
    def alternatives(self) -> Mapping[str, tuple[Node, ...]]:
        """Nodes under anyOf, oneOf, allOf and not."""
        out = {
            word: tuple(map(Node, self.schema[word])) for word in ("anyOf", "oneOf", "allOf") if self.schema.get(word)
        }
        if isinstance(self.schema.get("not"), Mapping):
            out["not"] = (Node(self.schema["not"]),)
        return out

    def item_key(self, item: Any) -> Any:
        """What identifies an element of a keyed list: its key fields, defaults of the schema standing in."""
        if not isinstance(item, dict):
            return None
        keys = []
        for name in self.map_keys:
            value = item.get(name)
            if value is None and self.items is not None and (node := self.items.declared(name)) is not None:
                value = node.schema.get("default")
            keys.append(values.identity(value))
        return tuple(keys)


def go_regex(text: str) -> re.Pattern[str]:
    """Go's regular expression as Python's: `\\z` and POSIX classes rewritten. Raises re.error."""
    for name, chars in _POSIX.items():
        text = text.replace(f"[:{name}:]", chars)
    text = text.replace(r"\z", r"\Z").replace("(?P<", "(?P<")
    return re.compile(text.replace("$", r"(?!\n)$") if text.endswith("$") and not text.endswith("\\$") else text)


_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": r"0-9A-Za-z_",
}
_COERCED: Final = ("apiVersion", "kind", "metadata")


def prune(obj: dict[str, Any], root: Node) -> tuple[dict[str, Any], list[str]]:
    """(A copy without undeclared fields and without nulls that are not allowed, the paths of the dropped fields).

    The root's apiVersion, kind and metadata are left as they are. Paths are sorted, those in the metadata of embedded
    objects last, as a real server warns.
    """
    unknown: list[str] = []
    embedded: list[str] = []
    out = _prune_object(obj, root, "", unknown, embedded)
    return out, sorted(unknown) + sorted(embedded)


def _prune(value: Any, node: Node, path: str, unknown: list[str], embedded: list[str]) -> Any:
    if isinstance(value, dict):
        return _prune_object(value, node, path, unknown, embedded)
    if isinstance(value, list):
        items = node.items
        if items is None:
            return value
        return [_prune(item, items, f"{path}[{index}]", unknown, embedded) for index, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer() and node.types in (("integer",), ("number",)):
        return int(value)
    return value


def _prune_object(
    value: dict[str, Any], node: Node, path: str, unknown: list[str], embedded: list[str]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    special = node.root or node.embedded
    for name, item in value.items():
        place = f"{path}.{name}" if path else name
        if special and name in _COERCED:
            out[name] = _embedded_metadata(item, place, embedded) if name == "metadata" and not node.root else item
            continue
        child = node.child(name)
        if child is None:
            if node.open:
                out[name] = item
            else:
                unknown.append(place)
        elif item is None and not child.nullable and (child.types or child.property_names):
            continue
        else:
            out[name] = _prune(item, child, place, unknown, embedded)
    return out


def _embedded_metadata(value: Any, path: str, embedded: list[str]) -> Any:
    if not isinstance(value, dict):
        return value
    known = types.builtin().get(types.OBJECT_META).fields
    embedded += [f"{path}.{name}" for name in value if name not in known]
    return {name: item for name, item in value.items() if name in known}


def apply_defaults(value: Any, node: Node) -> None:
    """Set the schema's defaults in place, outer ones first, so that a default object gets its inner defaults too."""
    if isinstance(value, dict):
        for name, default in node.defaults:
            if name not in value or (value[name] is None and not (node.declared(name) or node).nullable):
                value[name] = values.copy(default)
        for name, item in value.items():
            if isinstance(item, (dict, list)) and (child := node.child(name)) is not None:
                apply_defaults(item, child)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            apply_defaults(item, node.items)


def embedded_required(node: Node) -> tuple[str, ...]:
    """What an embedded object must carry."""
    return _EMBEDDED_REQUIRED if node.embedded and not node.root else ()


_CARRYING: Final = ("x-kubernetes-validations", "properties", "items", "additionalProperties")


def mentions_rules(schema: Mapping[str, Any]) -> bool:
    """Whether a schema, or one below it, carries rules in CEL."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if node.keys().isdisjoint(_CARRYING):
            continue
        if node.get("x-kubernetes-validations"):
            return True
        if properties := node.get("properties"):
            pending += properties.values()
        for word in ("items", "additionalProperties"):
            child = node.get(word)
            if isinstance(child, dict):
                pending.append(child)
    return False
