"""Living-set rules and transition times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ome.api.meta import Condition as Stored
from ome.services.conditions import Condition, ready, stored

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
BEFORE = datetime(2026, 4, 1, tzinfo=UTC)

READY: dict[str, tuple[list[Condition], Condition]] = {
    "both dependents are True": (
        [Condition("EngineReady", "True", "X", "x"), Condition("IngressReady", "True", "Y", "y")],
        Condition("Ready", "True"),
    ),
    "a failing router does not count": (
        [
            Condition("EngineReady", "True"),
            Condition("IngressReady", "True"),
            Condition("RouterReady", "False", "R", "r"),
        ],
        Condition("Ready", "True"),
    ),
    "the first False lends its reason": (
        [Condition("EngineReady", "Unknown"), Condition("IngressReady", "False", "R", "m")],
        Condition("Ready", "False", "R", "m"),
    ),
    "nothing is False, one is not known": (
        [Condition("EngineReady", "True"), Condition("IngressReady", "Unknown", "W", "w")],
        Condition("Ready", "Unknown", "W", "w"),
    ),
    "what was never observed is Unknown": ([Condition("EngineReady", "True")], Condition("Ready", "Unknown")),
}


@pytest.mark.parametrize("sentence", READY)
def test_ready(sentence: str) -> None:
    conditions, expected = READY[sentence]
    assert ready({condition.type: condition for condition in conditions}) == expected


def previous(status: str, reason: str = "R", type_: str = "EngineReady") -> Stored:
    return Stored(type=type_, status=status, reason=reason, last_transition_time=BEFORE)


TIMES: dict[str, tuple[Condition, Stored | None, str]] = {
    "new": (Condition("EngineReady", "True"), None, "2026-05-01T12:00:00Z"),
    "flipped": (Condition("EngineReady", "True"), previous("False"), "2026-05-01T12:00:00Z"),
    "another reason only": (Condition("EngineReady", "True", "S"), previous("True"), "2026-04-01T00:00:00Z"),
    "drift with another reason": (
        Condition("RuntimeDrifted", "True", "S"),
        previous("True", type_="RuntimeDrifted"),
        "2026-05-01T12:00:00Z",
    ),
    "drift unchanged": (
        Condition("RuntimeDrifted", "True", "R"),
        previous("True", type_="RuntimeDrifted"),
        "2026-04-01T00:00:00Z",
    ),
}


@pytest.mark.parametrize("sentence", TIMES)
def test_transition_times(sentence: str) -> None:
    condition, before, time = TIMES[sentence]
    (document,) = stored([condition], [before] if before else [], NOW)
    assert document["lastTransitionTime"] == time


def test_conditions_that_do_not_count_say_so_and_the_list_is_sorted() -> None:
    documents = stored([Condition("RouterReady", "False"), Condition("EngineReady", "True")], [], NOW)
    assert [(document["type"], document.get("severity")) for document in documents] == [
        ("EngineReady", None),
        ("RouterReady", "Info"),
    ]
