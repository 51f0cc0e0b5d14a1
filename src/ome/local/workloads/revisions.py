"""ControllerRevisions of StatefulSets and DaemonSets: what they hold and which are to go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from ome.kube.resources import Resource
from ome.local.objects import Json, Object, RevisionObject, owner_reference

REVISION_LABEL: Final = "controller-revision-hash"


def next_revision(known: Sequence[RevisionObject]) -> int:
    """The number after the highest."""
    return max((found.revision for found in known), default=0) + 1


def revision_body(owner: Object, resource: Resource, name: str, number: int, data: Any) -> Json:
    """A ControllerRevision of the owner's template."""
    labels = {**((owner.spec.get("template") or {}).get("metadata") or {}).get("labels", {})}
    labels[REVISION_LABEL] = name.removeprefix(f"{owner.name}-")
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(owner, resource)],
        },
        "data": data,
        "revision": number,
    }


def surplus(known: Sequence[RevisionObject], limit: int, in_use: Collection[str]) -> list[RevisionObject]:
    """The oldest revisions beyond the limit that nothing uses."""
    idle = sorted((found for found in known if found.metadata.name not in in_use), key=lambda found: found.revision)
    return idle[: max(0, len(idle) - limit)]
