"""IntOrString: a count, or a percentage of a total (`25%`). Budgets, surges and capacities are written this way."""

from __future__ import annotations

import re
from typing import Final

_PERCENT: Final = re.compile(r"^(\d+)%$")


def parse_percent(value: str) -> int:
    """The number before the `%`. Raises `ValueError` for anything else."""
    match = _PERCENT.match(value)
    if match is None:
        raise ValueError(f'invalid value for IntOrString: "{value}" is not a percentage')
    return int(match[1])


def is_int_or_percent(value: object) -> bool:
    """Whether the value is an integer or a percentage string."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and _PERCENT.match(value) is not None)


def scaled(value: int | str, total: int, *, round_up: bool = True) -> int:
    """The count that the value means for `total`; a percentage is rounded up by default. Raises `ValueError`."""
    if isinstance(value, int):
        return value
    product = parse_percent(value) * total
    return -(-product // 100) if round_up else product // 100


def is_zero(value: int | str) -> bool:
    """Whether the value is 0 or `0%`, i.e. nothing of any total. Raises `ValueError`."""
    return value == 0 if isinstance(value, int) else parse_percent(value) == 0
