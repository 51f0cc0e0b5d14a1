"""InferenceReplica as the caches hold it: one OMENative component, its Instances as rows of its status.

`spec/api-types.md` section 4, `spec/omenative.md` section 2. The status is typed completely: the engine computes it.
Rows are dense here; the columnar spelling on the wire is `ome.api.columnar`'s business.
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ome.api.meta import Condition, Model, ObjectMeta
from ome.api.types.inference_service import ModelRef, ServingRuntimeRef
from ome.api.types.lifecycle import IntOrString, LifecycleSpec, RolloutHold


class Runner(Model, frozen=True, kw_only=True):
    """One kind of pod of an Instance: `default` (single pod), or `leader` and `worker`."""

    name: str = ""
    size: int = 1
    template: dict[str, Any] = {}


class Pacing(Model, frozen=True, kw_only=True):
    partition: int | None = None
    max_unavailable: IntOrString | None = None
    rollback_to_revision: str = ""


class ParentReference(Model, frozen=True, kw_only=True):
    name: str = ""


class InferenceReplicaSpec(Model, frozen=True, kw_only=True):
    component: str = ""
    runners: tuple[Runner, ...] = ()
    model_ref: ModelRef | None = None
    runtime_ref: ServingRuntimeRef | None = None
    replicas: int | None = None
    min_ready_seconds: int | None = None
    topology_key: str = ""
    topology_spread: str = ""
    topology_spread_key: str = ""
    lifecycle: LifecycleSpec | None = None
    revision_history_limit: int | None = None
    autoscaler: dict[str, Any] | None = None
    pacing: Pacing | None = None
    paused: bool = False
    pause_mode: str = ""
    pairing_protocol: str = ""
    parent_ref: ParentReference | None = None
    placement_execution: dict[str, Any] | None = None
    placement_replica_limit: int | None = None


class InstanceOperation(Model, frozen=True, kw_only=True):
    id: str = ""
    type: str = ""
    step: str = ""
    started_at: datetime | None = None
    last_progress_at: datetime | None = None
    deadline: datetime | None = None
    retry_count: int = 0
    target_revision: str = ""
    reason: str = ""
    waiting: str = ""
    capacity_refused_at: datetime | None = None
    strategy: str = ""
    surge_index: int | None = None
    from_node: str = ""
    hint_target_nodes: tuple[str, ...] = ()
    request_uuid: str = msgspec.field(default="", name="requestUUID")


class InstanceTermination(Model, frozen=True, kw_only=True):
    pod_name: str = ""
    container_name: str = ""
    reason: str = ""
    exit_code: int = 0
    message: str = ""
    time: datetime | None = None


class InstanceStatus(Model, frozen=True, kw_only=True):
    """OMENativeInstanceStatus: one Instance. `index` is always written, also 0."""

    index: int = msgspec.field(default_factory=int)
    incarnation: int = 0
    phase: str = ""
    running_revision: str = ""
    target_revision: str = ""
    pod_count: int = 0
    serving_pod_count: int = 0
    available_pod_count: int = 0
    admitted: bool = False
    conditions: tuple[Condition, ...] = ()
    ready_since: datetime | None = None
    operation: InstanceOperation | None = None
    active_ordinal: int = 0
    last_failure: InstanceTermination | None = None
    announced: tuple[str, ...] = ()


class RetryBlock(Model, frozen=True, kw_only=True):
    target_revision: str = ""
    state: str = ""
    attempts_started: int = 0
    next_retry_at: datetime | None = None
    first_failure_at: datetime | None = None
    last_failure_at: datetime | None = None
    reason: str = ""


class MigrationStatus(Model, frozen=True, kw_only=True):
    request_uuid: str = msgspec.field(default="", name="requestUUID")
    trigger: str = ""
    source_instance: int = msgspec.field(default_factory=int)
    surge_instance: int | None = None
    allocated_at: datetime | None = None
    from_node: str = ""
    hint_target_nodes: tuple[str, ...] = ()
    phase: str = ""
    attempt: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    deadline: datetime | None = None
    completed_at: datetime | None = None
    succeeded: bool | None = None


class InferenceReplicaStatus(Model, frozen=True, kw_only=True):
    """Counts are always written, also when 0, so that `kubectl get` shows a number and not a blank."""

    observed_generation: int = 0
    placement_observed_generation: int = 0
    replicas: int = msgspec.field(default_factory=int)
    ready_replicas: int = msgspec.field(default_factory=int)
    serving_replicas: int = msgspec.field(default_factory=int)
    available_replicas: int = msgspec.field(default_factory=int)
    updated_replicas: int = msgspec.field(default_factory=int)
    updated_ready_replicas: int = msgspec.field(default_factory=int)
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int = 0
    label_selector: str = ""
    instance_statuses: tuple[InstanceStatus, ...] = ()
    instance_status_encoding: str = ""
    instance_status_columns: dict[str, Any] | None = None
    retry_blocks: tuple[RetryBlock, ...] = ()
    migrations: tuple[MigrationStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    traffic: list[dict[str, Any]] = []
    coordination_group_ref: str = ""
    rollout_hold: RolloutHold | None = None


class InferenceReplica(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: InferenceReplicaSpec = InferenceReplicaSpec()
    status: InferenceReplicaStatus = InferenceReplicaStatus()
