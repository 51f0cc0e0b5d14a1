"""How a status is written and how two of them differ: dense or columnar rows, the smallest merge patch between them.

`spec/omenative.md` section 14. The engine works on dense rows; the columnar codec is `ome.api.columnar`. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ome.api.columnar import ENCODING, ColumnarError, decode_rows, encode_rows
from ome.api.meta import to_dict
from ome.api.types.inference_replica import InferenceReplicaStatus


class UndecodableStatus(Exception):
    """The rows of a stored status cannot be read: the replica must be left alone."""


def dense(status: InferenceReplicaStatus, limit: int) -> InferenceReplicaStatus:
    """The status with its rows as a list, whatever it was stored as. Raises `UndecodableStatus`."""
    if not status.instance_status_encoding and status.instance_status_columns is None:
        return status
    if status.instance_status_encoding != ENCODING:
        raise UndecodableStatus(f"unknown instanceStatusEncoding {status.instance_status_encoding!r}")
    if status.instance_statuses:
        raise UndecodableStatus("rows stand both as a list and as columns")
    try:
        rows = decode_rows(status.instance_status_columns or {}, limit=limit)
    except ColumnarError as error:
        raise UndecodableStatus(str(error)) from error
    return replace(status, instance_statuses=rows, instance_status_encoding="", instance_status_columns=None)


def wire(status: InferenceReplicaStatus, *, columnar: bool, limit: int) -> dict[str, Any]:
    """The status as JSON. Columns are written only where they are smaller than the list, and up to `limit` rows."""
    listed = to_dict(status)
    if not columnar or not 0 < len(status.instance_statuses) <= limit:
        return listed
    columns = encode_rows(status.instance_statuses)
    if len(msgspec.json.encode(columns)) >= len(msgspec.json.encode(listed["instanceStatuses"])):
        return listed
    del listed["instanceStatuses"]
    return {**listed, "instanceStatusEncoding": ENCODING, "instanceStatusColumns": columns}


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns `before` into `after`; {} when they are equal. Keys known to neither are kept."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        patch[key] = merge_patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch
