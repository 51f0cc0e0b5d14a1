"""Go durations (`1h30m`, `500ms`): parse, and write in Go's normal form. Used wherever the API holds a Duration."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_UNIT: Final = re.compile(r"[^\d.]+")
_LIMIT: Final = 2**63


def parse_nanoseconds(text: str) -> int:
    """Nanoseconds of a Go duration string. Raises `ValueError` with Go's own wording."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise _invalid(text)
    total = Decimal(0)
    while rest:
        match = _TERM.match(rest)
        if match is None:
            raise _explain(text, rest)
        total += Decimal(match[1] if match[1] != "." else 0) * _NANOSECONDS[match[2]]
        rest = rest[match.end() :]
    value = int(total)
    if value >= _LIMIT:
        raise _invalid(text)
    return -value if text[0] == "-" else value


def parse_duration(text: str) -> timedelta:
    """A Go duration string as a timedelta (whole microseconds). Raises `ValueError` with Go's own wording."""
    return timedelta(microseconds=parse_nanoseconds(text) // 1_000)


def parse_seconds(text: str) -> float:
    """Seconds of a Go duration string. Raises `ValueError`."""
    return parse_nanoseconds(text) / 1e9


def format_nanoseconds(value: int) -> str:
    """Go's normal form: `1h30m0s`, `5m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if value < 0 else ""
    rest = abs(value)
    if rest == 0:
        return "0s"
    if rest < 1_000_000_000:
        unit, size = next((unit, size) for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)) if rest >= size)
        return f"{sign}{_decimal(rest, size)}{unit}"
    minutes, nanoseconds = divmod(rest, _NANOSECONDS["m"])
    seconds = f"{_decimal(nanoseconds, _NANOSECONDS['s'])}s"
    if minutes == 0:
        return f"{sign}{seconds}"
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{sign}{minutes}m{seconds}"
    return f"{sign}{hours}h{minutes}m{seconds}"


def format_duration(value: timedelta) -> str:
    """A timedelta in Go's normal form."""
    microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return format_nanoseconds(microseconds * 1_000)


def normal_form(text: str) -> str:
    """A duration string as Go would write it again (`5m` -> `5m0s`). Raises `ValueError`."""
    return format_nanoseconds(parse_nanoseconds(text))


def _decimal(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if part == 0:
        return str(whole)
    digits = str(part).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"


def _explain(text: str, rest: str) -> ValueError:
    number = _NUMBER.match(rest)
    if number is None:
        return _invalid(text)
    unit = _UNIT.match(rest[number.end() :])
    if unit is None:
        return ValueError(f'time: missing unit in duration "{text}"')
    return ValueError(f'time: unknown unit "{unit[0]}" in duration "{text}"')


def _invalid(text: str) -> ValueError:
    return ValueError(f'time: invalid duration "{text}"')
