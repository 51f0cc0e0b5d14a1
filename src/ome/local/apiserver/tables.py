"""Objects to Tables, as `kubectl get` asks for them: rows of cells, and with each row its object or metadata.

Which columns a kind has is `printing/`. Called by `answers.py` and by watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from ome.local.apiserver.answers import metadata_only
from ome.local.apiserver.calls import Call
from ome.local.apiserver.errors import bad_request, go_quote
from ome.local.apiserver.printing import Layout, layout
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.versions import to_stored

Object = dict[str, Any]
INCLUDE: Final = ("Metadata", "Object", "None")


class Tables:
    """Makes Tables; `now` is for ages."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._layouts: dict[int, tuple[ResourceType, Layout]] = {}

    def _layout(self, type_: ResourceType) -> Layout:
        """The columns of a resource, compiled once for as long as its definition stays as it is."""
        found = self._layouts.get(id(type_))
        if found is None or found[0] is not type_:
            found = self._layouts[id(type_)] = (type_, layout(type_))
        return found[1]

    def __call__(self, call: Call, type_: ResourceType, objects: Sequence[Object], with_columns: bool) -> Object:
        include = call.query.get("includeObject") or "Metadata"
        if include not in INCLUDE:
            detail = f"Invalid value: {go_quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: includeObject: {detail}")
        now = self._now()
        printed = self._layout(type_)
        table: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
        table["columnDefinitions"] = printed.definitions if with_columns else []
        table["rows"] = [self._row(type_, printed, obj, include, now) for obj in objects]
        return table

    def _row(self, type_: ResourceType, printed: Layout, obj: Object, include: str, now: datetime) -> Object:
        shown = obj if type_.custom is not None or type_.stored_as_served else to_stored(type_, dict(obj))
        cells, conditions = printed.cells(shown, now)
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
