"""Objects to Tables, as `kubectl get` asks for them: rows of cells, and with each row its object or metadata.

Which columns a built-in kind has is `columns.py`; a custom kind's come from its definition (`printing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from ome.local.apiserver import columns
from ome.local.apiserver.answers import metadata_only
from ome.local.apiserver.calls import Call
from ome.local.apiserver.errors import invalid, not_supported
from ome.local.apiserver.registry import ResourceType

Object = dict[str, Any]
INCLUDE: Final = ("Metadata", "Object", "None")


class Tables:
    """Makes Tables; `now` is for ages."""

    def __init__(self, now: Any) -> None:
        self._now = now

    def __call__(self, call: Call, type_: ResourceType, objects: Sequence[Object], with_columns: bool) -> Object:
        include = call.query.get("includeObject") or "Metadata"
        if include not in INCLUDE:
            error = not_supported("includeObject", include, ["Metadata", "None", "Object", ""])
            raise invalid("TableOptions", "meta.k8s.io", "", [error])
        now: datetime = self._now()
        layout = columns.layout(type_)
        table: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
        table["columnDefinitions"] = layout.definitions if with_columns else []
        table["rows"] = [self._row(layout, obj, include, now) for obj in objects]
        return table

    def _row(self, layout: columns.Layout, obj: Object, include: str, now: datetime) -> Object:
        cells, conditions = layout.cells(obj, now)
        row: Object = {"cells": cells}
        if conditions:
            row["conditions"] = conditions
        if include == "Object":
            row["object"] = obj
        elif include == "None":
            row["object"] = None
        else:
            row["object"] = metadata_only(obj)
        return row
