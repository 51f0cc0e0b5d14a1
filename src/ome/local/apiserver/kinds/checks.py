"""Small checks that the rules of several kinds share."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import metadata, names
from ome.local.apiserver.schema import values

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def not_negative(value: Any, path: str) -> list[FieldError]:
    return [invalid_value(path, value, NOT_NEGATIVE)] if isinstance(value, int) and value < 0 else []


def immutable(
    obj: Mapping[str, Any], old: Mapping[str, Any], field: str, path: str, shown: Any = ...
) -> list[FieldError]:
    """The fault of a field that may not change. shown: printed instead of the new value."""
    if values.equal(obj.get(field), old.get(field)):
        return []
    return [invalid_value(path, obj.get(field) if shown is ... else shown, metadata.IMMUTABLE)]


def one_of(value: Any, path: str, allowed: Iterable[str]) -> list[FieldError]:
    allowed = tuple(allowed)
    return [] if value in allowed else [not_supported(path, value, allowed)]


def port_number(value: Any, path: str) -> list[FieldError]:
    if isinstance(value, int) and 1 <= value <= 65535:
        return []
    return [invalid_value(path, value, "must be between 1 and 65535, inclusive")]


def port_number_or_name(value: Any, path: str) -> list[FieldError]:
    if isinstance(value, str):
        return [invalid_value(path, value, text) for text in names.port_name(value)]
    return port_number(value, path)


def is_address(text: str) -> bool:
    """Whether a text is an IP address of either family."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_percent(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("%") and value[:-1].isdigit()


def int_or_percent(value: Any, path: str) -> list[FieldError]:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        if is_percent(value):
            return []
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )
        return [invalid_value(path, value, text)]
    return not_negative(value, path)


def no_more_than_100_percent(value: Any, path: str) -> list[FieldError]:
    if is_percent(value) and int(value[:-1]) > 100:
        return [invalid_value(path, value, "must not be greater than 100%")]
    return []


def is_zero(value: Any) -> bool:
    return value == 0 or (is_percent(value) and int(value[:-1]) == 0)


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """Faults of a label selector."""
    if not selector:
        return []
    errors: list[FieldError] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        errors += [invalid_value(f"{path}.matchLabels", key, text) for text in names.qualified(key)]
        errors += [invalid_value(f"{path}.matchLabels", value, text) for text in names.label_value(value)]
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        errors += _requirement(term, f"{path}.matchExpressions[{index}]")
    return errors


def _requirement(term: Mapping[str, Any], path: str) -> list[FieldError]:
    operator, listed = term.get("operator", ""), term.get("values") or []
    errors: list[FieldError] = []
    if operator in ("In", "NotIn") and not listed:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and listed:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden_field(f"{path}.values", text))
    elif operator not in _OPERATORS:
        errors.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    errors += [invalid_value(f"{path}.key", term.get("key", ""), text) for text in names.qualified(term.get("key", ""))]
    for index, value in enumerate(listed):
        errors += [invalid_value(f"{path}.values[{index}]", value, text) for text in names.label_value(value)]
    return errors


def selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a label selector matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_term_matches(term, labels) for term in selector.get("matchExpressions") or ())


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, listed = term.get("key", ""), term.get("operator"), term.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in listed
    if operator == "NotIn":
        return key not in labels or labels[key] not in listed
    return (key in labels) is (operator == "Exists")


def selector_is_empty(selector: Mapping[str, Any] | None) -> bool:
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))
