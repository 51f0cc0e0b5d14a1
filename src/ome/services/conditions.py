"""Conditions of an InferenceService, by Knative's living-set rules (spec/inference-service.md section 9).

A pass builds the whole set anew: `previous` only lends the transition times of what did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from ome.api.meta import Condition as StoredCondition
from ome.api.meta import timestamp

Status = Literal["True", "False", "Unknown"]
Json = dict[str, Any]

READY = "Ready"
ENGINE_READY = "EngineReady"
INGRESS_READY = "IngressReady"
RUNTIME_READY = "RuntimeReady"
RUNTIME_DRIFTED = "RuntimeDrifted"
OVERLAYS_READY = "OverlaysReady"

# What `Ready` depends on, in the order in which the first failing one lends its reason.
_DEPENDENTS = (ENGINE_READY, INGRESS_READY)
_INFORMATIONAL = frozenset({"DecoderReady", "RouterReady", RUNTIME_READY})
# Its message names revisions: a change of it is a transition.
_DATED_BY_CONTENT = frozenset({RUNTIME_DRIFTED})


@dataclass(frozen=True, slots=True)
class Condition:
    """What a pass says about one aspect of the service."""

    type: str
    status: Status
    reason: str = ""
    message: str = ""


def component_condition_type(component: str) -> str:
    """`EngineReady`, `DecoderReady` or `RouterReady`."""
    return f"{component.capitalize()}Ready"


def ready(conditions: Mapping[str, Condition]) -> Condition:
    """`Ready`: True when every dependent is, else the first that is False, else the first that is not True."""
    found = [conditions.get(name) or Condition(name, "Unknown") for name in _DEPENDENTS]
    for status in ("False", "Unknown"):
        failing = next((condition for condition in found if condition.status == status), None)
        if failing is not None:
            return replace(failing, type=READY)
    return Condition(READY, "True")


def stored(conditions: Iterable[Condition], previous: Iterable[StoredCondition], now: datetime) -> list[Json]:
    """The `status.conditions` list, sorted by type; a transition time moves only when the status flips."""
    before = {condition.type: condition for condition in previous}
    return [
        _stored(condition, before.get(condition.type), now)
        for condition in sorted(conditions, key=lambda condition: condition.type)
    ]


def _stored(condition: Condition, before: StoredCondition | None, now: datetime) -> Json:
    moment = now
    if before is not None and before.last_transition_time is not None and not _moved(condition, before):
        moment = before.last_transition_time
    result: Json = {"type": condition.type, "status": condition.status, "lastTransitionTime": timestamp(moment)}
    if condition.type in _INFORMATIONAL:
        result["severity"] = "Info"
    if condition.reason:
        result["reason"] = condition.reason
    if condition.message:
        result["message"] = condition.message
    return result


def _moved(condition: Condition, before: StoredCondition) -> bool:
    if condition.status != before.status:
        return True
    if condition.type not in _DATED_BY_CONTENT:
        return False
    return (condition.reason, condition.message) != (before.reason, before.message)


def kept(previous: Iterable[StoredCondition], type_: str) -> Condition | None:
    """A condition as it was stored, for what a pass neither confirms nor removes."""
    for condition in previous:
        if condition.type == type_:
            status: Status = condition.status if condition.status in ("True", "False") else "Unknown"  # type: ignore[assignment]
            return Condition(condition.type, status, condition.reason, condition.message)
    return None
