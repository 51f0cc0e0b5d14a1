"""Sets of fields in the form in which managedFields keep them (FieldsV1), and their arithmetic.

A set is a nested dict: `f:name` a field, `k:{...}` an element of a keyed list, `v:...` an element of a set, `.` the
thing itself. `{}` is a lone member. Sets are never changed once made; results share parts with their operands. None is
the empty set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

FieldSet = Mapping[str, Any]


def make(member: bool, children: dict[str, Any]) -> dict[str, Any] | None:
    """A node: whether it is itself in the set, and what is below it."""
    if not children:
        return {} if member else None
    return {".": {}, **children} if member else children


def is_member(node: FieldSet) -> bool:
    return not node or "." in node


def union(left: FieldSet | None, right: FieldSet | None) -> FieldSet | None:
    if left is None or right is None:
        return right if left is None else left
    if left is right:
        return left
    children = {key: item for key, item in left.items() if key != "."}
    for key, item in right.items():
        if key != ".":
            mine = children.get(key)
            children[key] = item if mine is None else union(mine, item)
    return make(is_member(left) or is_member(right), children)


def difference(left: FieldSet | None, right: FieldSet | None) -> FieldSet | None:
    """What is in `left` and not in `right`; members below a removed one stay."""
    if left is None or right is None:
        return left
    children = {key: item for key, item in left.items() if key != "."}
    changed = is_member(left) and is_member(right)
    for key, item in right.items():
        if key == "." or key not in children:
            continue
        rest = difference(children[key], item)
        if rest is children[key]:
            continue
        changed = True
        if rest is None:
            del children[key]
        else:
            children[key] = rest
    if not changed:
        return left
    return make(is_member(left) and not is_member(right), children)


def intersection(left: FieldSet | None, right: FieldSet | None) -> FieldSet | None:
    if left is None or right is None:
        return None
    small, large = (left, right) if len(left) <= len(right) else (right, left)
    children = {}
    for key, item in small.items():
        if key != "." and key in large:
            both = intersection(item, large[key])
            if both is not None:
                children[key] = both
    return make(is_member(left) and is_member(right), children)


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members as texts, `.spec.containers[name="c"].image`, in the order in which conflicts are listed."""
    keys = sorted((key for key in fields if key != "."), key=_order)
    for key in keys:
        if is_member(fields[key]):
            yield prefix + element_text(key)
    for key in keys:
        if fields[key]:
            yield from paths(fields[key], prefix + element_text(key))


def _order(key: str) -> tuple[int, str]:
    return ("fkv".find(key[0]), key)


def element_text(key: str) -> str:
    """One path element as messages show it."""
    kind, text = key[0], key[2:]
    if kind == "f":
        return "." + text
    if kind == "v":
        return f"[={text}]"
    fields = orjson.loads(text)
    shown = ",".join(f"{name}={orjson.dumps(fields[name]).decode()}" for name in sorted(fields))
    return f"[{shown}]"
