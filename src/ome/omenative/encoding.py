"""How a status is written and how two of them differ: dense rows, and the smallest merge patch between them.

`spec/omenative.md` section 14. The engine works on dense rows. Pure.
"""

from __future__ import annotations

from typing import Any

from ome.api.meta import to_dict
from ome.api.types.inference_replica import InferenceReplicaStatus


class UndecodableStatus(Exception):
    """The rows of a stored status cannot be read: the replica must be left alone."""


def dense(status: InferenceReplicaStatus, limit: int) -> InferenceReplicaStatus:
    """The status with its rows as a list, whatever it was stored as. Raises `UndecodableStatus`."""
    if not status.instance_status_encoding and status.instance_status_columns is None:
        return status
    raise UndecodableStatus(f"unknown instanceStatusEncoding {status.instance_status_encoding!r}")


def wire(status: InferenceReplicaStatus, *, columnar: bool) -> dict[str, Any]:
    """The status as JSON."""
    return to_dict(status)


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns `before` into `after`; {} when they are equal. Keys known to neither are kept."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        patch[key] = merge_patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch
