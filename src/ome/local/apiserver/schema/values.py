"""Comparing and naming JSON values as the validation of a real API server does."""

from __future__ import annotations

from typing import Any

import orjson


def json_type(value: Any) -> str:
    """`object`, `array`, `string`, `boolean`, `integer`, `number` or `null`; a whole float is an integer."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    return "integer" if isinstance(value, int) or value.is_integer() else "number"


def equal(left: Any, right: Any) -> bool:
    """Deep equality of JSON values: numbers by value, booleans apart from numbers."""
    if left is right:
        return True
    if not isinstance(left, (dict, list)):
        return _equal(left, right)
    if left != right:
        return False
    # Python takes True for 1. Most values that are equal are so in every byte, which is quickly seen.
    if orjson.dumps(left, option=orjson.OPT_SORT_KEYS) == orjson.dumps(right, option=orjson.OPT_SORT_KEYS):
        return True
    return _equal(left, right)


def _equal(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(_equal(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def identity(value: Any) -> Any:
    """A hashable stand-in: equal JSON values have equal identities."""
    if isinstance(value, dict):
        return ("o", frozenset((key, identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("a", tuple(map(identity, value)))
    if isinstance(value, bool):
        return ("b", value)
    return value


def number_text(value: float) -> str:
    """Go's `%v` of a number."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def copy(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value
