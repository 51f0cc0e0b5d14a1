"""An applied configuration as typed data: its checks, its field set, its merge into the live object, and pruning.

The rules are those of structured merge: what a configuration names is merged by identity, atomic parts are replaced
whole, the applied order of a list wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.local.apiserver.errors import go_quote
from ome.local.apiserver.ownership.elements import NoKeyError, element, index
from ome.local.apiserver.ownership.fieldsets import FieldSet, element_text, is_member, make
from ome.local.apiserver.schema import types
from ome.local.apiserver.schema.types import Shape, TypeNode

_NUMERIC = frozenset({"int32", "int64", "integer", "number", "float", "double"})


def faults(value: Any, node: TypeNode) -> list[str]:
    """Why a configuration is no data of that type: undeclared fields, wrong types, repeated elements.

    Each text begins with the path below the value; paths are made only where something is wrong.
    """
    if value is None or node.shape is Shape.ANY:
        return []
    if node.shape is Shape.SCALAR:
        return _scalar_faults(value, node)
    if node.shape is Shape.LIST:
        return _list_faults(value, node)
    if not isinstance(value, dict):
        return [f": expected map, got {_go_value(value)}"]
    found: list[str] = []
    for name, item in value.items():
        child = node.child(name)
        if child is None:
            found.append(f".{name}: field not declared in schema")
        elif below := faults(item, child):
            found += [f".{name}{text}" for text in below]
    return found


def _list_faults(value: Any, node: TypeNode) -> list[str]:
    if not isinstance(value, list):
        return [f": expected list, got {_go_value(value)}"]
    found: list[str] = []
    seen: set[str] = set()
    child = node.element or types.ANY
    for position, item in enumerate(value):
        key = ""
        if node.list_type != "atomic":
            try:
                key = element(item, node)
            except NoKeyError as error:
                found.append(f": element {position}: {error}")
                continue
            if key in seen:
                found.append(f": duplicate entries for key {element_text(key)}")
            seen.add(key)
        if below := faults(item, child):
            place = element_text(key) if key else f"[{position}]"
            found += [place + text for text in below]
    return found


def _go_value(value: Any) -> str:
    return f"&value.valueUnstructured{{Value:{_go_syntax(value)}}}"


def _go_syntax(value: Any) -> str:
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        shown = ", ".join(f"{go_quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{shown}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return str(value)


_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map[string]interface {}"}


def _scalar_faults(value: Any, node: TypeNode) -> list[str]:
    scalar = node.scalar
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if scalar in _NUMERIC and not is_number:
        return [f": expected numeric (int or float), got {_GO_TYPES.get(type(value), '[]interface {}')}"]
    if scalar in ("string", "byte", "time", "microtime") and not isinstance(value, str):
        return [f": expected string, got {_go_value(value)}"]
    if scalar == "boolean" and not isinstance(value, bool):
        return [f": expected boolean, got {_go_value(value)}"]
    if isinstance(value, (dict, list)):
        return [f": expected any scalar, got {_go_value(value)}"]
    return []


def field_set(value: Any, node: TypeNode) -> FieldSet | None:
    """The fields that a configuration names; the set below the position of `value`."""
    shape = node.shape
    if shape is Shape.ANY:
        if not isinstance(value, dict):
            return None if value is None else {}
    elif shape is Shape.SCALAR:
        return {}
    elif node.shape is Shape.LIST:
        if node.list_type == "atomic":
            return {}
        return make(False, _item_sets(value, node)) if isinstance(value, list) else None
    elif node.atomic:
        return {}
    if not isinstance(value, dict):
        return None
    children: dict[str, Any] = {}
    for name, item in value.items():
        child = node.child(name) or types.ANY
        below = field_set(item, child)
        declared = node.shape is Shape.STRUCT and name in node.fields
        if item is None or item == {} or not declared:
            below = _with_self(below)
        if below is not None:
            children[f"f:{name}"] = below
    return make(False, children)


def _with_self(below: FieldSet | None) -> FieldSet:
    if not below:
        return {}
    return below if "." in below else {".": {}, **below}


def _item_sets(items: list[Any], node: TypeNode) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        try:
            key = element(item, node)
        except NoKeyError:
            continue
        found[key] = _with_self(field_set(item, node.element or types.ANY))
    return found


def merge(live: Any, applied: Any, node: TypeNode) -> Any:
    """The live value with a configuration laid over it. Neither is changed."""
    if live == applied:
        return live
    shape = node.shape
    if shape is Shape.ANY:
        shape = Shape.MAP if isinstance(live, dict) and isinstance(applied, dict) else Shape.SCALAR
    if shape is Shape.SCALAR:
        return applied
    if shape is Shape.LIST:
        if node.list_type == "atomic" or not (isinstance(live, list) and live) or not applied:
            return applied if applied or not live or node.list_type == "atomic" else live
        return _merge_list(live, applied, node)
    if node.atomic or not (isinstance(live, dict) and live):
        return applied
    if not applied:
        return live
    result = dict(live)
    for name, item in applied.items():
        result[name] = merge(live[name], item, node.child(name) or types.ANY) if name in live else item
    return result


def _merge_list(live: list[Any], applied: list[Any], node: TypeNode) -> list[Any]:
    """The applied elements in their order, the live ones between them where they stood."""
    child = node.element or types.ANY
    left = _keys(live, node)
    right = _keys(applied, node)
    here, there = index(live, node), index(applied, node)
    shared = [key for key in right if key in here]
    merged: set[str] = set()
    result: list[Any] = []
    lpos = rpos = spos = 0
    while lpos < len(left) or rpos < len(right):
        if lpos < len(left) and rpos < len(right):
            key = left[lpos]
            if key == right[rpos]:
                merged.add(key)
                result.append(merge(here[key], there[key], child))
                lpos, rpos, spos = lpos + 1, rpos + 1, spos + 1
                continue
            if key in there and spos < len(shared) and shared[spos] != key:
                lpos += 1
                continue
        if lpos < len(left):
            key = left[lpos]
            if key not in there:
                result.append(live[lpos])
                lpos += 1
                continue
            if key in merged:
                lpos += 1
        if rpos < len(right):
            key = right[rpos]
            merged.add(key)
            result.append(merge(here[key], there[key], child) if key in here else there[key])
            rpos += 1
            if spos < len(shared) and shared[spos] == key:
                spos += 1
    return result


def _keys(items: list[Any], node: TypeNode) -> list[str]:
    keys = []
    for position, item in enumerate(items):
        try:
            keys.append(element(item, node))
        except NoKeyError:
            keys.append(f"i:{position}")
    return keys


def prune(value: Any, given_up: FieldSet, kept: FieldSet | None, node: TypeNode) -> Any:
    """The value without the fields that its applier no longer names and nobody else owns.

    given_up: what the applier named the last time. kept: what anybody owns now. A removed thing takes along what is in
    it.
    """
    if isinstance(value, dict) and not node.atomic:
        return _prune_fields(value, given_up, kept or {}, node)
    if isinstance(value, list) and node.shape is Shape.LIST and node.list_type != "atomic":
        return _prune_items(value, given_up, kept or {}, node)
    return value


def _prune_fields(value: dict[str, Any], given_up: FieldSet, kept: Mapping[str, Any], node: TypeNode) -> dict[str, Any]:
    result = dict(value)
    for key, below in given_up.items():
        name = key[2:]
        if key[0] != "f" or name not in value:
            continue
        declared = node.shape is Shape.STRUCT and name in node.fields
        stays = key in kept and (declared or is_member(kept[key]))
        if (declared or is_member(below)) and not stays:
            del result[name]
        elif below:
            result[name] = prune(value[name], below, kept.get(key), node.child(name) or types.ANY)
    return result


def _prune_items(value: list[Any], given_up: FieldSet, kept: Mapping[str, Any], node: TypeNode) -> list[Any]:
    result = []
    for item in value:
        try:
            key = element(item, node)
        except NoKeyError:
            result.append(item)
            continue
        below = given_up.get(key)
        if below is None:
            result.append(item)
        elif is_member(below) and not (key in kept and is_member(kept[key])):
            continue
        else:
            result.append(prune(item, below, kept.get(key), node.element or types.ANY) if below else item)
    return result
