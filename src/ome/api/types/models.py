"""BaseModel, ClusterBaseModel and FineTunedWeight (`spec/api-types.md` section 9)."""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from datetime import datetime
from typing import Any

from ome.api.meta import Condition, Model, ObjectMeta


class ModelStatus(Model, frozen=True, kw_only=True):
    state: str = ""
    observed_generation: int = 0
    last_reconcile_time: datetime | None = None
    nodes_ready: tuple[str, ...] = ()
    nodes_failed: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class BaseModel(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ModelStatus = ModelStatus()


class ClusterBaseModel(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ModelStatus = ModelStatus()


class FineTunedWeight(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ModelStatus = ModelStatus()
