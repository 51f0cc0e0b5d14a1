"""How elements of lists are identified in field sets."""

from __future__ import annotations

from typing import Any

import orjson

from ome.local.apiserver.schema.types import MISSING, TypeNode


class NoKeyError(ValueError):
    """An element of a keyed list that lacks a key without a default."""


def element(item: Any, node: TypeNode) -> str:
    """The path element of an item of a list with identities: `k:{"name":"c"}` or `v:"x"`. Raises NoKeyError."""
    if node.list_type == "set":
        return "v:" + orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode()
    if not isinstance(item, dict):
        raise NoKeyError("associative list with keys may not have non-map elements")
    if len(node.keys) == 1 and isinstance(value := item.get(node.keys[0]), str):
        return f'k:{{"{node.keys[0]}":{orjson.dumps(value).decode()}}}'
    keys: dict[str, Any] = {}
    for name in node.keys:
        value = item.get(name)
        if value is None:
            child = node.element.child(name) if node.element is not None else None
            value = child.default if child is not None else MISSING
            if value is MISSING:
                continue
        keys[name] = value
    if not keys:
        raise NoKeyError("associative list with keys has an element that omits key field " + _first(node))
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def _first(node: TypeNode) -> str:
    return f'"{node.keys[0]}" (and doesn\'t have default value)' if node.keys else '""'


def index(items: list[Any], node: TypeNode) -> dict[str, Any]:
    """Path element -> item; repeated ones as the list of their items. Items without identity are left out."""
    found: dict[str, Any] = {}
    repeated: set[str] = set()
    for item in items:
        try:
            key = element(item, node)
        except NoKeyError:
            continue
        if key not in found:
            found[key] = item
        elif key in repeated:
            found[key].append(item)
        else:
            repeated.add(key)
            found[key] = Repeated([found[key], item])
    return found


class Repeated(list[Any]):
    """Several items under one identity, compared as one whole."""
