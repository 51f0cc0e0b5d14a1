"""Runtime revisions are immutable (`spec/runtime-revisions.md` section 9.4)."""

from __future__ import annotations

from typing import Any

from ome.admission.review import ALLOWED, Verdict, deny
from ome.api.keys import CREATED_BY, CREATED_BY_OME

Json = dict[str, Any]


def validate_revision(new: Json, old: Json) -> Verdict:
    """An update. Annotations, finalizers and owner references of OME's revisions may change, and nothing else."""
    metadata = old.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(CREATED_BY) != CREATED_BY_OME:
        return ALLOWED
    start = f"ControllerRevision {metadata.get('namespace', '')}/{metadata.get('name', '')} is owned by OME; "
    if new.get("data") != old.get("data"):
        return deny(start + ".data is immutable")
    if ((new.get("metadata") or {}).get("labels") or {}) != (metadata.get("labels") or {}):
        return deny(start + ".labels are immutable")
    if new.get("revision") != old.get("revision"):
        return deny(start + ".revision is immutable")
    return ALLOWED
