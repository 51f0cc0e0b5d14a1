"""Durations, quantities, percentages and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ome.api.duration import format_duration, normal_form, parse_duration, parse_seconds
from ome.api.intstr import is_int_or_percent, is_zero, scaled
from ome.api.meta import micro_timestamp, parse_timestamp, timestamp, whole_second
from ome.api.quantity import canonical_quantity, parse_quantity, same_quantity


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("5m", "5m0s"),
        ("1h30m", "1h30m0s"),
        ("72h", "72h0m0s"),
        ("0", "0s"),
        ("1.5s", "1.5s"),
        ("100ms", "100ms"),
        ("1500us", "1.5ms"),
        ("-1m", "-1m0s"),
        (".5s", "500ms"),
        ("1h0m0.5s", "1h0m0.5s"),
    ],
)
def test_a_duration_in_its_normal_form(written: str, normal: str) -> None:
    assert normal_form(written) == normal


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("5", 'time: missing unit in duration "5"'),
        ("abc", 'time: invalid duration "abc"'),
    ],
)
def test_no_duration(written: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}$"):
        parse_duration(written)


def test_durations_as_numbers() -> None:
    assert parse_duration("1m30s") == timedelta(seconds=90)
    assert parse_seconds("250ms") == 0.25
    assert format_duration(timedelta(minutes=1)) == "1m0s"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("10", "10"),
        (10, "10"),
        ("1000m", "1"),
        ("1100m", "1100m"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1024Gi", "1Ti"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0.1n", "1n"),
    ],
)
def test_a_quantity_in_its_canonical_form(written: str | int, canonical: str) -> None:
    assert canonical_quantity(written) == canonical


def test_quantities_compare_by_value() -> None:
    assert same_quantity("1024Gi", "1Ti")
    assert parse_quantity("500m") < parse_quantity("1")
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity("ten")


@pytest.mark.parametrize(
    ("value", "total", "count"),
    [(3, 10, 3), ("25%", 4, 1), ("25%", 2, 1), ("25%", 5, 2), ("0%", 9, 0), ("100%", 7, 7)],
)
def test_percentages_round_up(value: int | str, total: int, count: int) -> None:
    assert scaled(value, total) == count


def test_what_counts_as_a_budget() -> None:
    assert is_int_or_percent("10%")
    assert not is_int_or_percent("ten")
    assert not is_int_or_percent(True)
    assert is_zero(0)
    assert is_zero("0%")
    assert not is_zero("1%")


def test_times() -> None:
    moment = datetime(2026, 11, 29, 15, 4, 39, 123456, tzinfo=UTC)
    assert timestamp(moment) == "2026-11-29T15:04:39Z"
    assert micro_timestamp(moment) == "2026-11-29T15:04:39.123456Z"
    assert parse_timestamp("2026-11-29T16:04:39+01:00") == whole_second(moment)
    with pytest.raises(ValueError, match="is not an RFC 3339 time"):
        parse_timestamp("yesterday")
