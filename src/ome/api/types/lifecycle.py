"""OMENative's lifecycle types: on services, runtimes and InferenceReplicas (`spec/api-types.md` section 4)."""

from __future__ import annotations

from datetime import datetime

from ome.api.meta import Model

IntOrString = int | str
"""A count, or a percentage such as `"25%"`."""


class RollingUpdate(Model, frozen=True, kw_only=True):
    partition: int | None = None
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class InPlaceUpdateStrategy(Model, frozen=True, kw_only=True):
    grace_period_seconds: int | None = None
    mark_not_ready_during_lifecycle: bool | None = None


class UpdateStrategy(Model, frozen=True, kw_only=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None
    in_place_update_strategy: InPlaceUpdateStrategy | None = None


class MigrationPolicy(Model, frozen=True, kw_only=True):
    mode: str = ""


class LifecycleSpec(Model, frozen=True, kw_only=True):
    """As written by a user: an empty string or None means "not set here, look at the next layer"."""

    restart_policy: str = ""
    update_strategy: UpdateStrategy | None = None
    ready_policy: str = ""
    instance_ready_timeout: str | None = None
    min_ready_seconds: int | None = None
    migration_policy: MigrationPolicy | None = None


class RolloutHold(Model, frozen=True, kw_only=True):
    """Why a rollout stands still. `since` is kept while gate and target stay the same."""

    gate: str = ""
    reason: str = ""
    target: str = ""
    since: datetime | None = None
