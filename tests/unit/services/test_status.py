"""The smallest patch from the stored status to the new one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ome.api.types.inference_service import InferenceService
from ome.services.conditions import Condition
from ome.services.status import OwnStatus, is_only_status, merge_patch, new_document, own_document

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


def status_patch(stored: InferenceService, wanted: OwnStatus, now: datetime) -> dict[str, Any]:
    return merge_patch(own_document(stored.status), new_document(stored, wanted, now))


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


CAME_IN = {
    "what was written": ({}, {}, True),
    "an edit of the spec": ({"generation": 2}, {}, False),
    "an annotation": ({"annotations": {"ome.io/rollout-paused": "true"}}, {}, False),
    "a label": ({"labels": {"team": "a"}}, {}, False),
    "a finalizer": ({"finalizers": ["example.com/hold"]}, {}, False),
    "the beginning of a deletion": ({"deletionTimestamp": "2026-05-01T00:00:00Z"}, {}, False),
    "another's hand in the status": ({}, {"url": "http://elsewhere"}, False),
}


@pytest.mark.parametrize("case", CAME_IN.values(), ids=CAME_IN.keys())
def test_only_what_was_written_is_known(case: tuple[dict[str, Any], dict[str, Any], bool]) -> None:
    metadata, status, known = case
    old = service({})
    written = new_document(old, own(), NOW)
    document = {"metadata": {"name": "chat", **metadata}, "status": {**written, **status}}
    new = msgspec.convert(msgspec.json.decode(msgspec.json.encode(document)), InferenceService)
    assert is_only_status(old, new, written) is known
