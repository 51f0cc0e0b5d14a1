"""An InferenceService's status as a value: composed whole in every pass, written as the smallest patch.

The parts this controller owns are given; everything else in the status (rollout, canary, traffic, migrations)
stays. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ome.api.meta import timestamp
from ome.api.types.inference_service import InferenceService, InferenceServiceStatus

from .conditions import Condition, stored

Json = dict[str, Any]

# Conditions that this controller decides about; others in the list are somebody else's and stay.
OWN_CONDITIONS = frozenset(
    {
        "Ready",
        "EngineReady",
        "DecoderReady",
        "RouterReady",
        "IngressReady",
        "RuntimeReady",
        "RuntimeDrifted",
        "OverlaysReady",
    }
)
# Parts of `status.components.{c}` that this controller decides about.
_OWN_COMPONENT = frozenset(
    {
        "url",
        "scaleTargetRef",
        "autoscaler",
        "lifecycle",
        "selectedAccelerator",
        "latestReadyRevision",
        "latestRolledoutRevision",
        "previousRolledoutRevision",
    }
)


@dataclass(frozen=True, slots=True)
class OwnStatus:
    """The parts of the status that this controller owns."""

    observed_generation: int
    conditions: tuple[Condition, ...]
    components: Mapping[str, Json]
    url: str = ""
    address: Json | None = None
    addresses: tuple[Json, ...] = ()
    model_status: Json | None = None
    mounted_overlays: tuple[Json, ...] = ()
    pinned_revision_name: str = ""
    last_runtime_sync_token: str = ""


def own_document(status: InferenceServiceStatus) -> Json:
    """The stored status, reduced to the parts this controller owns, as JSON."""
    document = {
        "observedGeneration": status.observed_generation or None,
        "conditions": [_condition(condition) for condition in status.conditions] or None,
        "components": status.components or None,
        "url": status.url or None,
        "address": status.address,
        "addresses": status.addresses or None,
        "modelStatus": status.model_status,
        "mountedOverlays": status.mounted_overlays or None,
        "pinnedRevisionName": status.pinned_revision_name or None,
        "lastRuntimeSyncToken": status.last_runtime_sync_token or None,
    }
    return {key: value for key, value in document.items() if value is not None}


def _condition(condition: Any) -> Json:
    document: Json = msgspec.to_builtins(condition)
    document["type"], document["status"] = condition.type, condition.status
    if condition.last_transition_time is not None:
        document["lastTransitionTime"] = timestamp(condition.last_transition_time)
    return document


def new_document(service: InferenceService, own: OwnStatus, now: datetime) -> Json:
    """The same parts as they should be stored now."""
    before = service.status
    foreign = [_condition(item) for item in before.conditions if item.type not in OWN_CONDITIONS]
    conditions = sorted([*foreign, *stored(own.conditions, before.conditions, now)], key=lambda item: item["type"])
    document = {
        "observedGeneration": own.observed_generation,
        "conditions": conditions,
        "components": _components(before.components, own.components),
        "url": own.url,
        "address": own.address,
        "addresses": list(own.addresses),
        "modelStatus": own.model_status,
        "mountedOverlays": list(own.mounted_overlays),
        "pinnedRevisionName": own.pinned_revision_name,
        "lastRuntimeSyncToken": own.last_runtime_sync_token,
    }
    return {key: value for key, value in document.items() if value}


def _components(before: Mapping[str, Json], own: Mapping[str, Json]) -> Json:
    """Each declared component's entry: ours new, what others keep in it untouched; undeclared components go."""
    return {
        name: {**{key: value for key, value in before.get(name, {}).items() if key not in _OWN_COMPONENT}, **entry}
        for name, entry in own.items()
    }


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The smallest JSON merge patch from `old` to `new`; {} when they are equal."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            inner = merge_patch(old[key], value)
            if inner:
                patch[key] = inner
        elif old[key] != value:
            patch[key] = value
    return patch


def is_only_status(old: InferenceService, new: InferenceService, written: Mapping[str, Any]) -> bool:
    """Whether `new` is `old` with the status that was `written`, and nothing else.

    The answer to a status write shows the whole object: an edit that no watch has told of yet may have come in with it.
    """
    return _all_but_status(old) == _all_but_status(new) and own_document(new.status) == written


def _all_but_status(service: InferenceService) -> tuple[Any, ...]:
    meta = service.metadata
    return meta.uid, meta.generation, meta.labels, meta.annotations, meta.finalizers, meta.deletion_timestamp
