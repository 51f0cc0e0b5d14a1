"""Entries of the per-node ConfigMaps: what a model agent says about one model on one node (spec/models.md section 3).

Pure. The agent writes them, the model controller reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ome.rendering.models import shorten, shorten_pair

Json = dict[str, Any]

UPDATING, READY, FAILED, DELETED = "Updating", "Ready", "Failed", "Deleted"

_CLUSTER_NAME_LIMIT = 236
_NAMESPACED_BUDGET = 242
_ARTIFACT_PREFIX = "artifact."

# Fields of an entry's `config` and the fields of the model's spec that they fill.
_FILLED = {
    "modelType": "modelType",
    "modelArchitecture": "modelArchitecture",
    "modelFormat": "modelFormat",
    "modelFramework": "modelFramework",
    "modelParameterSize": "modelParameterSize",
    "maxTokens": "maxTokens",
    "modelCapabilities": "modelCapabilities",
    "quantization": "quantization",
    "decodedModelConfiguration": "modelConfiguration",
    "diffusionPipeline": "diffusionPipeline",
}


class EntryError(ValueError):
    """The text under a model's key is not an entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one node; `config` is the metadata parsed from its files, {} when there is none."""

    status: str
    config: Json = field(default_factory=dict)


def data_key(name: str, namespace: str = "") -> str:
    """The ConfigMap key of a BaseModel (`namespace` set) or ClusterBaseModel."""
    if not namespace:
        return f"clusterbasemodel.{shorten(name, _CLUSTER_NAME_LIMIT)}"
    short_namespace, short_name = shorten_pair(namespace, name, _NAMESPACED_BUDGET)
    return f"{short_namespace}.basemodel.{short_name}"


def is_model_key(key: str) -> bool:
    """Whether a data key names a model; other keys belong to the agent alone."""
    return not key.startswith(_ARTIFACT_PREFIX)


def parse_entry(text: str) -> Entry:
    """Raises EntryError."""
    try:
        decoded = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise EntryError(str(error)) from error
    status, config = decoded.get("status"), decoded.get("config")
    config = {} if config is None else config
    if not isinstance(status, str) or not isinstance(config, dict):
        raise EntryError("status must be a string and config an object")
    return Entry(status, config)


def missing_fields(spec: Mapping[str, Any], configs: Iterable[Mapping[str, Any]]) -> Json:
    """The spec fields to fill: those that are empty, from the first node that knows them. An author's value always
    wins.
    """
    filled: Json = {}
    for config in configs:
        for source, target in _FILLED.items():
            value = config.get(source)
            if value and not spec.get(target) and target not in filled:
                filled[target] = value
    return filled


@dataclass(frozen=True, slots=True)
class NodeStates:
    """Which nodes have the model, and the state that follows."""

    ready: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def state(self) -> str:
        """`Ready` with any node ready, else `Failed` with any node failed, else `In_Transit`."""
        if self.ready:
            return READY
        return FAILED if self.failed else "In_Transit"


def node_states(entries: Mapping[str, Entry]) -> NodeStates:
    """`entries` by node name."""
    return NodeStates(
        tuple(sorted(node for node, entry in entries.items() if entry.status == READY)),
        tuple(sorted(node for node, entry in entries.items() if entry.status == FAILED)),
    )
