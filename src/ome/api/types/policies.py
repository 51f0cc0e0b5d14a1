"""AutoscalerPolicy, RolloutPolicy and BenchmarkJob: specs and status raw (`spec/api-types.md` sections 5, 6 and 11)."""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from typing import Any

from ome.api.meta import Model, ObjectMeta


class AutoscalerPolicy(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class RolloutPolicy(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class BenchmarkJob(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
