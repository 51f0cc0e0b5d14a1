"""The InferenceReplica that an OMENative component projects (spec/omenative.md sections 1.2 to 2.2).

The projection is one-way: the InferenceService controller writes it, the InferenceReplica engine acts on it, a user
edits the InferenceService. Replicas that users write themselves are not built here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api import keys
from ome.rendering.model import Component, RenderedComponent

from .metadata import Json, Owner, object_metadata

_MAILBOXES = (keys.RELEASE_HELD_REVISION, keys.RESET_INSTANCES)


def pause_fields(annotations: Mapping[str, str]) -> Json:
    """`paused` and `pauseMode` from the service's `ome.io/rollout-paused`; any other spelling is no pause."""
    wanted = annotations.get(keys.ROLLOUT_PAUSED)
    if wanted == "true":
        return {"paused": True}
    if wanted == "freeze":
        return {"paused": True, "pauseMode": "Freeze"}
    return {}


def history_limit(annotations: Mapping[str, str]) -> int | None:
    """The service's own limit of kept revisions; what is not a positive integer is none."""
    wanted = annotations.get(keys.REVISION_HISTORY_LIMIT, "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else None


def runners(component: RenderedComponent) -> list[Json]:
    """One runner, or a leader with its workers."""
    if component.worker_template is None:
        return [{"name": "default", "size": 1, "template": component.template}]
    return [
        {"name": "leader", "size": 1, "template": component.template},
        {"name": "worker", "size": component.worker_size, "template": component.worker_template},
    ]


def inference_replica(
    owner: Owner,
    component: RenderedComponent,
    *,
    generation: int,
    annotations: Mapping[str, str],
    pairing_protocol: str | None = None,
    replicas: int | None = None,
) -> Json:
    """Body of the InferenceReplica `{isvc}-{c}`.

    `generation` and `annotations` are the InferenceService's; `replicas` is None where an autoscaler or a user owns the
    count.
    """
    optional: dict[str, Any] = {
        "replicas": replicas,
        "minReadySeconds": component.min_ready_seconds or None,
        "lifecycle": component.lifecycle or None,
        "topologyKey": component.topology_key,
        "topologySpread": component.topology_spread,
        "topologySpreadKey": component.topology_spread_key,
        "revisionHistoryLimit": history_limit(annotations),
        "pairingProtocol": None if component.component is Component.ROUTER else pairing_protocol,
    }
    spec: Json = {
        "component": component.component.value,
        "parentRef": {"name": owner.name},
        "runners": runners(component),
        **pause_fields(annotations),
        **{key: value for key, value in optional.items() if value},
    }
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "metadata": object_metadata(
            owner, component.name, labels=component.labels, annotations=_annotations(component, generation)
        ),
        "spec": spec,
    }


def _annotations(component: RenderedComponent, generation: int) -> dict[str, str]:
    # A mailbox key that stands on the service by mistake must not become a request to the replica.
    inherited = {key: value for key, value in component.annotations.items() if key not in _MAILBOXES}
    own = {keys.CONTROLLER_WRITE: "true", keys.PARENT_GENERATION: str(generation)}
    if component.revision_excluded_annotations:
        own[keys.REVISION_EXCLUDED_KEYS] = ",".join(component.revision_excluded_annotations)
    return {**inherited, **own}
