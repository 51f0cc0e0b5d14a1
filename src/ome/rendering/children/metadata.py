"""Owner and metadata of generated objects. What may be copied to them is `ome.rendering.metadata`'s rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The InferenceService that owns the objects."""

    namespace: str
    name: str
    uid: str

    def reference(self) -> Json:
        """The controlling owner reference: children are collected when the service goes."""
        return {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceService",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def object_metadata(
    owner: Owner,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """`metadata` of a generated object; empty maps are left out, so that no empty field is ever owned."""
    metadata: Json = {"name": name, "namespace": owner.namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [owner.reference()]
    return metadata
