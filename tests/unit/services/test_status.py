"""The smallest patch from the stored status to the new one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ome.api.types.inference_service import InferenceService
from ome.services.conditions import Condition
from ome.services.status import OwnStatus, merge_patch, status_patch

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STORED: dict[str, Any] = {
    "observedGeneration": 3,
    "conditions": [
        {"type": "EngineReady", "status": "True", "reason": "R", "lastTransitionTime": "2026-04-01T00:00:00Z"},
        {"type": "RolloutPlanReady", "status": "True", "lastTransitionTime": "2026-04-01T00:00:00Z"},
    ],
    "components": {"engine": {"url": "http://e", "rolloutPhase": "Stable"}, "router": {"url": "http://r"}},
    "url": "http://x",
    "rollout": {"groups": [1]},
}


def service(status: dict[str, Any]) -> InferenceService:
    return msgspec.convert({"metadata": {"name": "chat"}, "status": status}, InferenceService)


def own(**changes: Any) -> OwnStatus:
    values: dict[str, Any] = {
        "observed_generation": 3,
        "conditions": (Condition("EngineReady", "True", "R"),),
        "components": {"engine": {"url": "http://e"}, "router": {"url": "http://r"}},
        "url": "http://x",
        **changes,
    }
    return OwnStatus(**values)


def test_nothing_changed_is_no_patch() -> None:
    assert status_patch(service(STORED), own(), NOW) == {}


def test_only_what_changed_is_sent_and_others_parts_stay() -> None:
    changed = own(observed_generation=4, components={"engine": {"url": "http://new"}}, url="")
    assert status_patch(service(STORED), changed, NOW) == {
        "observedGeneration": 4,
        "components": {"engine": {"url": "http://new"}, "router": None},
        "url": None,
    }


def test_conditions_of_others_stay_in_the_list() -> None:
    patch = status_patch(service(STORED), own(conditions=(Condition("EngineReady", "False", "S"),)), NOW)
    assert [(item["type"], item["status"]) for item in patch["conditions"]] == [
        ("EngineReady", "False"),
        ("RolloutPlanReady", "True"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": 1}, {}, {"a": None}),
    ],
)
def test_merge_patch(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(old, new) == patch
