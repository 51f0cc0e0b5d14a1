"""Strategic merge patch: a merge patch that knows which lists merge, and by which key.

Merge keys and strategies come from the OpenAPI definitions. Directives: `$patch` (replace, delete),
`$setElementOrder/`, `$deleteFromPrimitiveList/`, `$retainKeys`. Elements of the patch that the object lacks go to the
front unless an order is given, as on a real server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ome.local.apiserver.errors import Problem, bad_request, server_error
from ome.local.apiserver.schema import types
from ome.local.apiserver.schema.types import TypeNode

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_BAD_RETAIN: Final = "invalid patch format of retainKeys"


def strategic_merge(doc: dict[str, Any], patch: Any, definition_name: str) -> dict[str, Any]:
    """The document after a strategic merge patch for the type of that OpenAPI definition.

    Raises 400 for a malformed directive, 500 with the plain text of a real server for a missing merge key or an order
    that does not fit, 422 for lists of lists.
    """
    if not isinstance(patch, dict):
        raise bad_request("Invalid JSON Patch")
    return _merge_map(doc, patch, types.builtin().get(definition_name))


def go_text(value: Any) -> str:
    """Go's `%v` of a JSON value: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _bad_directive(directive: Any, patch: dict[str, Any]) -> Problem:
    return server_error(f"unknown patch type: {directive} in map: {go_text(patch)}")


def _merge_map(original: dict[str, Any], patch: dict[str, Any], node: TypeNode) -> dict[str, Any]:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise _bad_directive(directive, patch)
    result, patch = dict(original), dict(patch)
    _retain_keys(result, patch)
    _merge_ordered(result, patch, node)
    for name, value in patch.items():
        deleting = name.startswith(_DELETE)
        key = name.removeprefix(_DELETE) if deleting else name
        if value is None:
            result.pop(key, None)
        elif key not in result or _kind(result[key]) is not _kind(value):
            if not deleting:
                result[key] = _without_directives(value)
        else:
            result[key] = _merge_value(result[key], value, _child(node, key), deleting=deleting)
    return result


def _merge_value(original: Any, patch: Any, node: TypeNode, *, deleting: bool) -> Any:
    if isinstance(patch, dict):
        return patch if "replace" in node.strategies else _merge_map(original, patch, node)
    if not isinstance(patch, list):
        return patch
    if deleting:
        return [item for item in original if item not in patch]
    return _merge_list(original, patch, node)


def _child(node: TypeNode, key: str) -> TypeNode:
    return node.child(key) or types.ANY


def _kind(value: Any) -> type:
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def _without_directives(value: Any) -> Any:
    """A part of the patch that is new in the object: without nulls, directives and elements to be deleted."""
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and _DIRECTIVE in item)]
        return [_without_directives(item) for item in kept]
    if not isinstance(value, dict):
        return value
    if value.get(_DIRECTIVE, "replace") != "replace":
        return {}
    return {
        key: _without_directives(item)
        for key, item in value.items()
        if item is not None and key not in (_DIRECTIVE, _RETAIN) and not key.startswith((_DELETE, _ORDER))
    }


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN not in patch:
        return
    keys = patch.pop(_RETAIN)
    if not isinstance(keys, list):
        raise bad_request(_BAD_RETAIN)
    for key, value in patch.items():
        if value is not None and key not in keys and not key.startswith((_DELETE, _ORDER)):
            raise bad_request(_BAD_RETAIN)
    for key in [key for key in original if key not in keys]:
        del original[key]


def _merge_ordered(original: dict[str, Any], patch: dict[str, Any], node: TypeNode) -> None:
    """Lists whose whole order the patch gives: merged and ordered here, taken out of `patch`."""
    for name in [name for name in patch if name.startswith(_ORDER)]:
        order = patch.pop(name)
        key = name.removeprefix(_ORDER)
        if not isinstance(order, list):
            raise bad_request("invalid patch format of setElementOrder list")
        before, change = original.get(key), patch.get(key)
        list_node = _child(node, key)
        if isinstance(change, list):
            _check_order(change, order, list_node.merge_key)
        if before is None and change is None:
            continue
        if change is None:
            merged = before or []
        elif before is None:
            merged = _without_directives(change)
        else:
            merged = _merge_list(before, change, list_node)
        original[key] = _ordered(merged, order, before or [], list_node.merge_key)
        patch.pop(key, None)


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Every element of the patch must stand in the order list, in the same sequence."""
    position = 0
    for item in patch:
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        wanted = _identity(item, merge_key)
        while position < len(order) and _identity(order[position], merge_key) != wanted:
            position += 1
        if position == len(order):
            raise server_error(
                f"The order in patch list:\n{go_text(patch)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n"
            )
        position += 1


def _identity(item: Any, merge_key: str) -> Any:
    if merge_key and isinstance(item, dict):
        return item.get(merge_key)
    return item


def _merge_list(original: list[Any], patch: list[Any], node: TypeNode) -> list[Any]:
    if "merge" not in node.strategies:
        return patch
    if not original and not patch:
        return original
    kinds = {type(item) for item in (*original, *patch)}
    if list in kinds:
        raise Problem(422, "Invalid", "lists of lists are not supported", {})
    if dict not in kinds:
        merged = list(original)
        merged += [item for item in dict.fromkeys(patch) if item not in original]
        return _ordered(merged, patch, original, "")
    merge_key = node.merge_key
    if not merge_key:
        raise server_error("cannot merge lists without merge key for " + node.go)
    original, patch = _special_elements(original, patch, merge_key)
    merged = list(original)
    element = node.element or types.ANY
    for item in patch:
        _require_key(item, merge_key)
        found = _find(merged, merge_key, item[merge_key])
        if found is None:
            merged.append(_without_directives(item))
        else:
            merged[found] = _merge_map(merged[found], item, element)
    return _ordered(merged, patch, original, merge_key)


def _require_key(item: Any, merge_key: str) -> None:
    if not isinstance(item, dict) or merge_key not in item:
        raise server_error(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def _find(items: Sequence[Any], merge_key: str, value: Any) -> int | None:
    for index, item in enumerate(items):
        if isinstance(item, dict) and merge_key in item and item[merge_key] == value:
            return index
    return None


def _special_elements(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Elements that are directives: `delete` takes one out of the object, `replace` empties the list first."""
    plain: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_DIRECTIVE) if isinstance(item, dict) else None
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            _require_key(item, merge_key)
            original = [
                old for old in original if not (isinstance(old, dict) and old.get(merge_key) == item[merge_key])
            ]
        elif directive == "replace":
            replace = True
        else:
            raise _bad_directive(directive, item)
    return (plain, []) if replace else (original, plain)


def _ordered(merged: list[Any], order: list[Any], server: list[Any], merge_key: str) -> list[Any]:
    """The merged list: elements of `order` in that order, the others where the server had them.

    Where both an element of the order and one of the server are known to the server, the server's sequence decides;
    else the element of the order goes first.
    """
    ranks = [_identity(item, merge_key) for item in order]
    known = [_identity(item, merge_key) for item in server]
    in_order = [item for item in merged if _identity(item, merge_key) in ranks]
    others = [item for item in merged if _identity(item, merge_key) not in ranks]
    in_order.sort(key=lambda item: ranks.index(_identity(item, merge_key)))
    others.sort(key=lambda item: _rank(known, _identity(item, merge_key)))
    result: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(in_order):
        here, there = _identity(others[left], merge_key), _identity(in_order[right], merge_key)
        if here in known and there in known and known.index(here) < known.index(there):
            result.append(others[left])
            left += 1
        else:
            result.append(in_order[right])
            right += 1
    return result + others[left:] + in_order[right:]


def _rank(known: list[Any], identity: Any) -> int:
    return known.index(identity) if identity in known else len(known)
