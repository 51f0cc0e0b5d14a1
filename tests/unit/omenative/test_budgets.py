"""Budgets, surge slots and partition: the arithmetic of `docs/spec/omenative.md` section 7, in tables."""

from __future__ import annotations

from typing import Any

import pytest

from ome.omenative import budgets

from .builders import NOW, at, member, row, updating

C = "chat-engine"


@pytest.mark.spec("ON-10")
@pytest.mark.parametrize(
    ("value", "total", "count"),
    [
        ("25%", 4, 1),
        ("25%", 2, 1),
        ("25%", 5, 2),
        ("0%", 9, 0),
        (0, 9, 0),
        (-3, 9, 0),
        (7, 3, 7),
        ("100%", 3, 3),
        (None, 3, None),
        ("many", 3, None),
    ],
)
def test_a_budget_resolves_to_instances_rounded_up(value: Any, total: int, count: int | None) -> None:
    assert budgets.resolve(value, total) == count


@pytest.mark.parametrize(("value", "floor"), [(None, 4), ("25%", 3), (9, 0), (0, 4)])
def test_the_floor_is_what_the_budget_leaves(value: Any, floor: int) -> None:
    assert budgets.floor(value, 4) == floor


def start(index: int, rows: list[Any], members: list[Any], budget: int | None = 1) -> budgets.Denial | None:
    grouped: dict[int, list[Any]] = {}
    for one in members:
        grouped.setdefault(one.index, []).append(one)
    return budgets.surge(budget, index, {r.index: r for r in rows}, grouped, NOW)


@pytest.mark.spec("ON-10", "ON-11")
def test_surge_slots() -> None:
    two = [row(0), row(1)]
    old = [member(f"{C}-0-default-0"), member(f"{C}-1-default-0")]
    assert start(0, two, old) is None
    assert start(0, two, old, None) is None
    assert start(0, two, old, 0) == budgets.Denial("per-Component surge budget 0 exhausted (would become 1)")

    pending = [updating(0, "Surge"), row(1)]
    assert start(1, pending, old) == budgets.Denial("per-Component surge budget 1 exhausted (would become 2)")
    shown = [*old, member(f"{C}-0-default-1")]
    assert start(1, pending, shown) == budgets.Denial("per-Component surge budget 1 exhausted (would become 2)")
    assert start(1, pending, shown, 2) is None
    # The old pod is lost and only an earlier attempt's leftover is there: the surge's own pod is still to come.
    lost = [member(f"{C}-0-default-1"), member(f"{C}-1-default-0")]
    assert start(1, pending, lost) == budgets.Denial("per-Component surge budget 1 exhausted (would become 2)")

    going = [*old, member(f"{C}-0-default-1", gone_in=600)]
    text = (
        "per-Component surge budget 1 exhausted (would become 2); Terminating pod chat-engine-0-default-1 still counts "
        "against the surge budget until its deletion grace elapses"
    )
    assert start(1, two, going) == budgets.Denial(text, at(600))
    assert start(0, two, going) == budgets.Denial(text, at(600))
    assert start(1, two, [*old, member(f"{C}-0-default-1", gone_in=0)]) is None

    leftover = [*old, member(f"{C}-0-default-1")]
    text = (
        "per-Component surge budget 1 exhausted (would become 2); extra pod chat-engine-0-default-1 holds a surge slot "
        "until a start on its Instance replaces it"
    )
    assert start(1, [row(0, "Failed"), row(1)], leftover) == budgets.Denial(text)
    assert start(0, [row(0, "Failed"), row(1)], leftover) is None


@pytest.mark.spec("ON-10")
def test_unavailability_counts_rows_that_an_update_keeps_down() -> None:
    rows = {0: updating(0, "Drain"), 1: updating(1, "InPlace"), 2: updating(2, "Surge"), 3: row(3, "Failed")}
    assert budgets.unavailable(rows) == 2
    assert budgets.unavailability(1, 1) == budgets.Denial(
        "per-Component unavailability budget 1 exhausted (would become 2)"
    )
    assert budgets.unavailability(2, 1) is None
    assert budgets.unavailability(None, 9) is None


@pytest.mark.spec("ON-12")
@pytest.mark.parametrize(
    ("candidates", "partition", "held"),
    [([0, 1, 2], 1, {0}), ([5, 7, 9], 2, {5, 7}), ([1], 3, {1}), ([0, 1], 0, set()), ([0, 1], None, set())],
)
def test_a_partition_holds_the_lowest_candidates(candidates: list[int], partition: int | None, held: set[int]) -> None:
    assert budgets.partitioned(candidates, partition) == held
