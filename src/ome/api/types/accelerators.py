"""AcceleratorClass (`spec/api-types.md` section 10)."""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from datetime import datetime
from typing import Any

from ome.api.meta import Condition, Model, ObjectMeta


class AcceleratorClassStatus(Model, frozen=True, kw_only=True):
    nodes: tuple[str, ...] = ()
    total_accelerators: int = 0
    available_accelerators: int = 0
    available_nodes: int = 0
    last_updated: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class AcceleratorClass(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: AcceleratorClassStatus = AcceleratorClassStatus()
