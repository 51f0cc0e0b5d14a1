"""Validation of an object against a structural schema, wording and order of a real API server.

With an old object, faults of values that did not change are let pass (ratcheting).
"""

from __future__ import annotations

from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from ome.local.apiserver.schema import formats, values
from ome.local.apiserver.schema.structural import Node, embedded_required
from ome.local.apiserver.schema.values import json_type, number_text

_NOWHERE: Final = "<nil>"
_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "uint32": (0, 2**32 - 1)}


class _Absent:
    pass


ABSENT: Final = _Absent()
"""As the old value: there is none to compare with."""


def correlate(old: Any, node: Node) -> dict[Any, Any]:
    """Elements of an old keyed list by their keys; empty for lists whose elements have no identity."""
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {node.item_key(item): item for item in old}


def validate(value: Any, node: Node, path: str = "", old: Any = ABSENT) -> list[FieldError]:
    """The faults of a value. path: where it stands, `` at the root. old: what stood there before, or ABSENT."""
    errors: list[FieldError] = []
    _validate(value, node, path, old, errors)
    return errors


def _validate(value: Any, node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    if old is not ABSENT and values.equal(value, old):
        return
    kind = json_type(value)
    _check_type(kind, node, path, errors)
    if kind != "null":
        if node.alternatives:
            _check_alternatives(value, node, path, errors)
        _check_kind(value, kind, node, path, old, errors)


_DATA_FORMATS: Final = {"integer": "int64", "number": "float64"}


def _check_type(kind: str, node: Node, path: str, errors: list[FieldError]) -> None:
    if not node.types or kind in node.types or (kind == "null" and node.nullable):
        return
    if kind == "integer" and "number" in node.types:
        return
    wanted, found = ",".join(node.types), kind
    shape = node.schema.get("format")
    if shape and kind not in ("null", "string", "array"):
        wanted, found = shape, _DATA_FORMATS.get(kind, "")
    elif shape and kind != "null" and "number" not in node.types and "integer" not in node.types:
        return
    errors.append(type_invalid(path or _NOWHERE, found, f'{path} in body must be of type {wanted}: "{found}"'))


def _check_kind(value: Any, kind: str, node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    if kind == "string":
        _check_string(value, node, path, errors)
    elif kind in ("integer", "number"):
        _check_number(value, node, path, errors)
    elif kind == "array":
        _check_array(value, node, path, old, errors)
    enum = node.schema.get("enum")
    if enum is not None and not any(values.equal(value, allowed) for allowed in enum):
        errors.append(not_supported(path, value, [item if isinstance(item, str) else _text(item) for item in enum]))
    if kind == "object":
        _check_object(value, node, path, old, errors)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, (int, float)) else str(value)


def _check_string(value: str, node: Node, path: str, errors: list[FieldError]) -> None:
    schema = node.schema
    limit = schema.get("maxLength")
    if limit is not None and len(value) > limit:
        errors.append(too_long(path, limit))
        return
    least = schema.get("minLength")
    if least is not None and len(value) < least:
        errors.append(invalid_value(path, value, f"{path} in body should be at least {least} chars long"))
        return
    if node.pattern is not None and node.pattern.search(value) is None:
        errors.append(invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'"))
        return
    name = schema.get("format")
    check = formats.CHECKS.get(name) if name else None
    if check is not None and not check(value):
        errors.append(type_invalid(path, value, f'{path} in body must be of type {name}: "{value}"'))


def _check_number(value: float, node: Node, path: str, errors: list[FieldError]) -> None:
    schema = node.schema
    name = schema.get("format")
    if "integer" in node.types and not node.int_or_string:
        least, most = _RANGES.get(name or "int64", _RANGES["int64"])
        if json_type(value) != "integer" or not least <= value <= most:
            kind = f"integer with format {name}" if name else "integer (default format)"
            errors.append(invalid_value(_NOWHERE, "", f"Checked value must be of type {kind} in {path}"))
    if "multipleOf" in schema:
        errors += _multiple_errors(value, _bound(schema["multipleOf"], value), path)
    if "maximum" in schema:
        high, exclusive = _bound(schema["maximum"], value), schema.get("exclusiveMaximum")
        if value > high or (exclusive and value == high):
            words = "less than" if exclusive else "less than or equal to"
            errors.append(invalid_value(path, value, f"{path} in body should be {words} {number_text(high)}"))
    if "minimum" in schema:
        low, exclusive = _bound(schema["minimum"], value), schema.get("exclusiveMinimum")
        if value < low or (exclusive and value == low):
            words = "greater than" if exclusive else "greater than or equal to"
            errors.append(invalid_value(path, value, f"{path} in body should be {words} {number_text(low)}"))


def _bound(bound: float, value: float) -> float:
    """A bound as it is compared: for an integer its fraction is cut off, as a real server does."""
    return int(bound) if isinstance(value, int) else bound


def _multiple_errors(value: float, factor: float, path: str) -> list[FieldError]:
    if factor <= 0:
        detail = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
        return [invalid_value(path, factor, detail)]
    if isinstance(value, int) and isinstance(factor, int):
        remains = value % factor != 0
    else:
        quotient = value / factor
        remains = abs(quotient - round(quotient)) > 1e-9
    detail = f"{path} in body should be a multiple of {number_text(factor)}"
    return [invalid_value(path, value, detail)] if remains else []


def _check_array(value: list[Any], node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    schema = node.schema
    items = node.items
    least, most = schema.get("minItems"), schema.get("maxItems")
    if items is not None:
        before = correlate(old, node)
        for index, item in enumerate(value):
            was = before.get(node.item_key(item), ABSENT) if before else ABSENT
            _validate(item, items, f"{path}[{index}]", was, errors)
    if least is not None and len(value) < least:
        errors.append(invalid_value(path, len(value), f"{path} in body should have at least {least} items"))
    if most is not None and len(value) > most:
        errors.append(too_many(path, len(value), most))


def _check_object(value: dict[str, Any], node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    schema = node.schema
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        errors.append(invalid_value(path, len(value), f"{path} in body should have at least {least} properties"))
        return
    if most is not None and len(value) > most:
        errors.append(too_many(path, len(value), most))
        return
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        child = node.child(name)
        if child is not None:
            _validate(item, child, f"{path}.{name}" if path else name, before.get(name, ABSENT), errors)
    wanted = (*schema.get("required", ()), *embedded_required(node))
    errors += [required(f"{path}.{name}" if path else name) for name in wanted if name not in value]


def _check_alternatives(value: Any, node: Node, path: str, errors: list[FieldError]) -> None:
    groups = node.alternatives
    if "anyOf" in groups:
        results = [validate(value, option, path) for option in groups["anyOf"]]
        if all(results):
            text = f'"{path}" must validate at least one schema (anyOf)'
            errors.append(invalid_value(_NOWHERE, "", text))
            errors += results[0]
    if "oneOf" in groups:
        results = [validate(value, option, path) for option in groups["oneOf"]]
        passed = sum(not result for result in results)
        if passed != 1:
            found = "Found none valid" if passed == 0 else f"Found {passed} valid alternatives"
            text = f'"{path}" must validate one and only one schema (oneOf). {found}'
            errors.append(invalid_value(_NOWHERE, "", text))
            errors += results[0] if passed == 0 else []
    if "allOf" in groups:
        results = [validate(value, option, path) for option in groups["allOf"]]
        passed = sum(not result for result in results)
        if passed != len(results):
            none = "" if passed else ". None validated"
            text = f'"{path}" must validate all the schemas (allOf){none}'
            errors.append(invalid_value(_NOWHERE, "", text))
            errors += [error for result in results for error in result]
    if "not" in groups and not validate(value, groups["not"][0], path):
        errors.append(invalid_value(_NOWHERE, "", f'"{path}" must not validate the schema (not)'))


def list_errors(value: Any, node: Node, path: str = "", old: Any = ABSENT) -> list[FieldError]:
    """Repeated elements of sets and keyed lists."""
    errors: list[FieldError] = []
    _list_errors(value, node, path, old, errors)
    return errors


def _list_errors(value: Any, node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    if old is not ABSENT and values.equal(value, old):
        return
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            if isinstance(item, (dict, list)) and (child := node.child(name)) is not None:
                place = f"{path}.{name}" if path else name
                _list_errors(item, child, place, before.get(name, ABSENT), errors)
    elif isinstance(value, list) and node.items is not None:
        _repeated(value, node, path, errors)
        previous = correlate(old, node)
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                was = previous.get(node.item_key(item), ABSENT) if previous else ABSENT
                _list_errors(item, node.items, f"{path}[{index}]", was, errors)


def _repeated(value: list[Any], node: Node, path: str, errors: list[FieldError]) -> None:
    if node.list_type not in ("set", "map"):
        return
    seen = set()
    for index, item in enumerate(value):
        key = values.identity(item) if node.list_type == "set" else node.item_key(item)
        if key in seen:
            shown = (
                item if node.list_type == "set" else {name: item.get(name) for name in node.map_keys if name in item}
            )
            errors.append(duplicate(f"{path}[{index}]", shown))
        seen.add(key)
