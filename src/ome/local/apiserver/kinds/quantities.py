"""Kubernetes quantities: parsing, comparing, and the canonical form in which the built-in kinds store them.

`1024Gi` is stored as `1Ti`, `1000m` as `1`, `0.5Gi` as `512Mi`. Exact arithmetic, no floats. Used by decoding and
validation.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from typing import Any, Final

_PATTERN: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
FORMAT_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_TEXT: Final = "unable to parse quantity's suffix"
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_NANO: Final = Decimal("1e-9")
_EXACT: Final = Context(prec=80, rounding=ROUND_CEILING)
_LARGEST: Final = Decimal(2**63 - 1)
_FARTHEST: Final = 1000


class QuantityError(ValueError):
    """Not a quantity; the text is that of a real API server."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[Decimal, str]:
    match = _PATTERN.fullmatch(text)
    if match is None or not _is_number(match[1]):
        raise QuantityError(FORMAT_TEXT)
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _BINARY:
        value, form = number * 2 ** _BINARY[suffix], "binary"
    elif suffix in _DECIMAL:
        value, form = _EXACT.scaleb(number, _DECIMAL[suffix]), "decimal"
    elif suffix[:1] in ("e", "E") and re.fullmatch(r"[-+]?[0-9]+", suffix[1:]):
        exponent = max(-_FARTHEST, min(int(suffix[1:]), _FARTHEST))
        value, form = _EXACT.scaleb(number, exponent), "exponent"
    else:
        raise QuantityError(SUFFIX_TEXT)
    value = max(min(value, _LARGEST), -_LARGEST)
    return value.quantize(_NANO, context=_EXACT).normalize(_EXACT), form


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", text) is not None


def _text(raw: Any) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise QuantityError(FORMAT_TEXT)
    return raw.strip() if isinstance(raw, str) else _number_text(raw)


def _number_text(raw: float) -> str:
    return repr(raw).replace("e+", "e") if isinstance(raw, float) else str(raw)


def parse(raw: Any) -> Decimal:
    """The value of a quantity as text or JSON number; fractions below 1n are rounded up. Raises QuantityError."""
    return _parse(_text(raw))[0]


def canonical(raw: Any) -> str:
    """The form in which the built-in kinds store it. Raises QuantityError."""
    return _canonical(_text(raw))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    value, form = _parse(text)
    if value == 0:
        return "0"
    if form == "binary" and abs(value) >= 1024 and value == value.to_integral_value():
        number, steps = int(value), 0
        while number % 1024 == 0 and steps < 6:
            number, steps = number // 1024, steps + 1
        return f"{number}{_BINARY_SUFFIXES[steps]}"
    sign, digits, exponent = _EXACT.normalize(value).as_tuple()
    assert isinstance(exponent, int)
    mantissa = int("".join(map(str, digits)))
    shift = exponent % 3
    mantissa, exponent = mantissa * 10**shift, exponent - shift
    if exponent > 18:
        mantissa, exponent = mantissa * 10 ** (exponent - 18), 18
    minus = "-" if sign else ""
    if form == "exponent":
        return f"{minus}{mantissa}e{exponent}" if exponent else f"{minus}{mantissa}"
    return f"{minus}{mantissa}{_DECIMAL_SUFFIXES[exponent]}"
