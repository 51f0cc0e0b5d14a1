"""Pod templates of workloads: their hash, when two are the same, and the pod that one makes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ome.kube.resources import Resource
from ome.local.objects import Json, Object, owner_reference

POD_TEMPLATE_HASH: Final = "pod-template-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def fnv32a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def safe_name(text: str) -> str:
    """The text in the alphabet that Kubernetes names use: no vowels, nothing that reads like another letter."""
    return "".join(_ALPHABET[ord(char) % len(_ALPHABET)] for char in text)


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """The name-safe hash of a template. Stable for equal templates; the value is not the one Kubernetes computes."""
    data = json.dumps(template, sort_keys=True, separators=(",", ":")).encode()
    if collisions:
        data += collisions.to_bytes(8, "little")
    return safe_name(str(fnv32a(data)))


def without_hash(template: Mapping[str, Any]) -> Json:
    """The template without the label that a Deployment adds to its ReplicaSets."""
    metadata = dict(template.get("metadata") or {})
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != POD_TEMPLATE_HASH}
    metadata.pop("labels", None)
    metadata.pop("creationTimestamp", None)
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two templates make the same pods."""
    return without_hash(one) == without_hash(other)


def pod_from(template: Mapping[str, Any], owner: Object, resource: Resource, *, name: str = "") -> Json:
    """The pod that `owner` makes from its template; without a name the server makes one from `<owner>-`."""
    source = template.get("metadata") or {}
    metadata: Json = {"namespace": owner.namespace, "ownerReferences": [owner_reference(owner, resource)]}
    metadata.update({"name": name} if name else {"generateName": f"{owner.name}-"})
    for field in ("labels", "annotations", "finalizers"):
        if source.get(field):
            metadata[field] = source[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}
