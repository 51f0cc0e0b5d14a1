"""What changed between two versions of an object, as field sets. Only changed subtrees are walked."""

from __future__ import annotations

from typing import Any, Final

from ome.local.apiserver.ownership.elements import Repeated, index
from ome.local.apiserver.ownership.fieldsets import FieldSet, make
from ome.local.apiserver.schema import types
from ome.local.apiserver.schema.types import Shape, TypeNode


class _Absent:
    pass


ABSENT: Final = _Absent()
Delta = tuple[FieldSet | None, FieldSet | None]
_NOTHING: Final[Delta] = (None, None)


def delta(old: Any, new: Any, node: TypeNode) -> Delta:
    """(Fields added or modified, fields removed)."""
    if old is ABSENT:
        return whole(new, node), None
    if new is ABSENT:
        return None, whole(old, node)
    if old == new:
        return _NOTHING
    shape = node.shape
    if shape is Shape.ANY:
        shape = _deduced(old, new)
    if shape is Shape.SCALAR or isinstance(old, Repeated) or isinstance(new, Repeated):
        return _leaf(old, new)
    if shape is Shape.LIST:
        if node.shape is Shape.ANY or node.list_type == "atomic" or (not _filled(old, list) and not _filled(new, list)):
            return _leaf(old, new)
        before = index(old, node) if isinstance(old, list) else {}
        after = index(new, node) if isinstance(new, list) else {}
        return _members(old, new, before, after, node)
    if node.atomic or (not _filled(old, dict) and not _filled(new, dict)):
        return _leaf(old, new)
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    return _fields(old, new, before, after, node)


def whole(value: Any, node: TypeNode) -> FieldSet:
    """All fields of a value that came or went as a whole, itself among them."""
    shape = node.shape
    if shape is Shape.ANY:
        shape = Shape.MAP if isinstance(value, dict) else Shape.SCALAR
    if isinstance(value, Repeated) or shape is Shape.SCALAR or not value:
        return {}
    if node.atomic or (shape is Shape.LIST and node.list_type == "atomic"):
        return {}
    found: dict[str, Any] = {".": {}}
    if shape is Shape.LIST:
        if not isinstance(value, list):
            return {}
        element = node.element or types.ANY
        for key, item in index(value, node).items():
            found[key] = whole(item, element)
        return found
    if not isinstance(value, dict):
        return {}
    for name, item in value.items():
        found[f"f:{name}"] = whole(item, node.child(name) or types.ANY)
    return found


def _deduced(old: Any, new: Any) -> Shape:
    """The shape that a value without a declared type shows; both must show the same to be compared inside."""
    kinds = {type(value) for value in (old, new) if value is not ABSENT and value is not None}
    if kinds == {dict}:
        return Shape.MAP
    return Shape.LIST if kinds == {list} else Shape.SCALAR


def _filled(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


def _leaf(old: Any, new: Any) -> Delta:
    return (None, {}) if new is ABSENT else ({}, None)


def _fields(old: Any, new: Any, before: dict[str, Any], after: dict[str, Any], node: TypeNode) -> Delta:
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    for name, value in after.items():
        was = before.get(name, ABSENT)
        if was is value or was == value:
            continue
        _note(f"f:{name}", delta(was, value, node.child(name) or types.ANY), changed, removed)
    for name, was in before.items():
        if name not in after:
            _note(f"f:{name}", delta(was, ABSENT, node.child(name) or types.ANY), changed, removed)
    return make(old is ABSENT, changed), make(new is ABSENT, removed)


def _members(old: Any, new: Any, before: dict[str, Any], after: dict[str, Any], node: TypeNode) -> Delta:
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    element = node.element or types.ANY
    for key, value in after.items():
        was = before.get(key, ABSENT)
        if was != value:
            _note(key, delta(was, value, element), changed, removed)
    for key, was in before.items():
        if key not in after:
            _note(key, delta(was, ABSENT, element), changed, removed)
    return make(old is ABSENT, changed), make(new is ABSENT, removed)


def _note(key: str, found: Delta, changed: dict[str, Any], removed: dict[str, Any]) -> None:
    if found[0] is not None:
        changed[key] = found[0]
    if found[1] is not None:
        removed[key] = found[1]
