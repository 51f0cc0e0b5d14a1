"""ServingRuntime and ClusterServingRuntime: the spec is raw, because it is merged, hashed and rendered, never edited.

`spec/api-types.md` section 8.
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from typing import Any

from ome.api.meta import Condition, Model, ObjectMeta


class ServingRuntimeStatus(Model, frozen=True, kw_only=True):
    inheritance_chain: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ServingRuntime(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ServingRuntimeStatus = ServingRuntimeStatus()


class ClusterServingRuntime(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ServingRuntimeStatus = ServingRuntimeStatus()
