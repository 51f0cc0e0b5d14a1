"""Kubernetes quantities (`30Gi`, `500m`): parse, compare, and write in canonical form.

The canonical form is what the API server stores for its own kinds and what runtime revisions hash
(`spec/runtime-revisions.md` section 3). Values are exact: `fractions.Fraction`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_PATTERN: Final = re.compile(
    r"^(?P<sign>[+-]?)(?P<digits>\d+(?:\.\d*)?|\.\d+)(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+|)$"
)
_BINARY: Final = {suffix: 1024 ** (index + 1) for index, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_NANO: Final = Fraction(1, 10**9)
_LARGEST: Final = 2**63 - 1

QUANTITY_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse_quantity(value: str | int | float) -> Fraction:
    """The exact value. Raises `ValueError` with Kubernetes' own wording."""
    return _parse(str(value))[0]


def same_quantity(one: str | int | float, other: str | int | float) -> bool:
    """Whether two quantities are the same amount, however they are spelled."""
    return parse_quantity(one) == parse_quantity(other)


def is_quantity(value: str | int | float) -> bool:
    return _PATTERN.match(str(value)) is not None


def canonical_quantity(value: str | int | float) -> str:
    """Kubernetes' canonical form: `1000m` -> `1`, `1024Mi` -> `1Gi`, `0.5` -> `500m`. Raises `ValueError`."""
    amount, style = _parse(str(value))
    if amount == 0:
        return "0"
    if style == "binary" and abs(amount) >= 1024 and amount.denominator == 1:
        return _binary(int(amount))
    return _decimal(amount, exponential=style == "exponent")


def _parse(text: str) -> tuple[Fraction, str]:
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError(QUANTITY_ERROR)
    number = Fraction(match["digits"] if match["digits"][0] != "." else "0" + match["digits"])
    suffix = match["suffix"]
    if suffix in _BINARY:
        amount, style = number * _BINARY[suffix], "binary"
    elif suffix[:1] in ("e", "E") and len(suffix) > 1:
        amount, style = number * Fraction(10) ** int(suffix[1:]), "exponent"
    else:
        amount, style = number * Fraction(10) ** _DECIMAL[suffix], "decimal"
    # Kubernetes keeps no more than nano precision and rounds up; a magnitude above int64 is capped.
    units = amount / _NANO
    if units.denominator != 1:
        amount = (units.numerator // units.denominator + 1) * _NANO
    amount = min(amount, Fraction(_LARGEST)) if style != "exponent" else amount
    return (-amount if match["sign"] == "-" else amount), style


def _binary(amount: int) -> str:
    suffix = ""
    for name, size in _BINARY.items():
        if amount % size:
            break
        suffix = name
    size = _BINARY[suffix] if suffix else 1
    return f"{amount // size}{suffix}"


def _decimal(amount: Fraction, *, exponential: bool) -> str:
    exponent = 0
    while amount.denominator != 1:
        amount *= 1000
        exponent -= 3
    mantissa = int(amount)
    while mantissa % 1000 == 0 and exponent < 18:
        mantissa //= 1000
        exponent += 3
    if exponential:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_SUFFIX_OF[exponent]}"
