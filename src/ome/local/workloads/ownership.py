"""Which objects a controller owns: those it controls, those it adopts, and those it lets go. Pure.

The rule is Kubernetes' own: an object with a controller reference belongs to that controller as long as the selector
matches; a matching object without one is adopted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ome.kube.resources import Resource
from ome.local.objects import Json, Object, owner_reference, owner_references_json, selects
from ome.local.plan import Patch


@dataclass(frozen=True, slots=True)
class Claim:
    """The owned objects, and the patches that make the ownership true."""

    owned: tuple[Object, ...]
    patches: tuple[Patch, ...]


def claim(owner: Object, resource: Resource, selector: Json, candidates: Iterable[Object], kind: Resource) -> Claim:
    """Divide the candidates, which are of the resource `kind` and in the owner's namespace."""
    owned: list[Object] = []
    patches: list[Patch] = []
    for candidate in candidates:
        controller = candidate.metadata.controller
        matching = bool(selector) and selects(selector, candidate.metadata.labels)
        if controller is not None and controller.uid != owner.uid:
            continue
        if controller is not None:
            if matching:
                owned.append(candidate)
            elif not owner.metadata.deleting:
                patches.append(_release(owner, candidate, kind))
            continue
        if matching and not owner.metadata.deleting and not candidate.metadata.deleting:
            owned.append(candidate)
            patches.append(_adopt(owner, resource, candidate, kind))
    return Claim(tuple(owned), tuple(patches))


def _adopt(owner: Object, resource: Resource, candidate: Object, kind: Resource) -> Patch:
    references = [*owner_references_json(candidate.metadata.owner_references), owner_reference(owner, resource)]
    return _references(candidate, kind, references)


def _release(owner: Object, candidate: Object, kind: Resource) -> Patch:
    kept = [reference for reference in candidate.metadata.owner_references if reference.uid != owner.uid]
    return _references(candidate, kind, owner_references_json(kept))


def _references(candidate: Object, kind: Resource, references: list[Json]) -> Patch:
    metadata = {
        "uid": candidate.uid,
        "resourceVersion": candidate.metadata.resource_version,
        "ownerReferences": references or None,
    }
    return Patch(kind, candidate.namespace, candidate.name, {"metadata": metadata})
