"""What a component's workload says about itself: the `{C}Ready` condition and the mirrored lifecycle.

Reads children as they are, in frozen passes too (spec/inference-service.md section 9, spec/omenative.md section
13.2). Writes nothing.
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from ome.api import keys
from ome.api.meta import Condition as StoredCondition
from ome.api.meta import Model
from ome.kube.resources import HPAS, SCALED_OBJECTS
from ome.rendering.children.autoscaling import SCALED_OBJECT_PREFIX, Autoscaler

from .children import Child
from .conditions import Condition, component_condition_type

Json = dict[str, Any]

_COUNTS = (
    "replicas",
    "readyReplicas",
    "servingReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
)


class Hold(Model, frozen=True, kw_only=True):
    gate: str = ""
    reason: str = ""
    target: str = ""
    since: datetime | None = None


class ReplicaStatus(Model, frozen=True, kw_only=True):
    """An InferenceReplica's status without its rows, which may be many."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    serving_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int = 0
    label_selector: str = ""
    conditions: tuple[StoredCondition, ...] = ()
    rollout_hold: Hold | None = None
    migrations: list[Json] = []


class Replica(Child, frozen=True, kw_only=True):
    """An InferenceReplica as this controller sees it: `component`, whether it is `standalone`, and the ports of the
    first container of its pods, as far as its spec tells them."""

    status: ReplicaStatus = ReplicaStatus()
    parent_generation: int = 0
    component: str = ""
    standalone: bool = True
    container: Json = {}

    def __post_init__(self) -> None:
        spec = self.spec or {}
        put = msgspec.structs.force_setattr
        put(self, "component", spec.get("component", ""))
        put(self, "standalone", "parentRef" not in spec)
        generation = self.metadata.annotations.get(keys.PARENT_GENERATION, "")
        put(self, "parent_generation", int(generation) if generation.isdigit() else 0)
        runners = spec.get("runners") or [{}]
        containers = ((runners[0].get("template") or {}).get("spec") or {}).get("containers") or [{}]
        first = containers[0]
        put(self, "container", {"name": first.get("name", ""), "ports": first.get("ports") or []})
        super().__post_init__()

    def _keep_status(self) -> None:
        """The status is typed, and small already."""


def initializing(component: str) -> Condition:
    """A component whose workload has not said anything yet."""
    return Condition(
        component_condition_type(component), "False", "Initializing", f"{component} component initializing"
    )


def deployment_condition(component: str, deployment: Child | None) -> Condition:
    """Status, reason and message of the Deployment's Available condition."""
    available = _condition(deployment, "Available")
    if available is None:
        return initializing(component)
    status = available.get("status")
    return Condition(
        component_condition_type(component),
        status if status in ("True", "False") else "Unknown",
        available.get("reason", ""),
        available.get("message", ""),
    )


def leader_set_condition(component: str, leader_set: Child | None) -> Condition:
    """As the LeaderWorkerSet's Available condition says; Unknown before there is one."""
    if _condition(leader_set, "Available") is None:
        return Condition(component_condition_type(component), "Unknown")
    return deployment_condition(component, leader_set)


def _condition(child: Child | None, type_: str) -> Json | None:
    if child is None:
        return None
    conditions = child.reported().get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def replica_condition(component: str, replica: Replica | None) -> Condition:
    """The first case that applies: none desired, all ready, enough serving, too few."""
    if replica is None or not replica.status.observed_generation:
        return initializing(component)
    type_ = component_condition_type(component)
    status = replica.status
    total, serving = status.replicas, status.serving_replicas
    if total == 0:
        return Condition(type_, "False", "NoReplicas", "Component has no desired Instances")
    floor = availability_floor(replica)
    if status.ready_replicas == total and serving >= floor:
        return Condition(type_, "True", "Ready", "All Instances are Ready")
    if serving >= floor:
        return Condition(type_, "True", "MinimumAvailable", f"{serving}/{total} Instances serving (min {floor})")
    return Condition(type_, "False", "InsufficientAvailable", f"{serving}/{total} Instances serving, need {floor}")


def availability_floor(replica: Replica) -> int:
    """The Instances that must serve: the desired ones less `maxUnavailable`, all of them when that is unset."""
    desired = max(1, replica.replicas or 0)
    lifecycle = replica.kept.get("lifecycle") or {}
    rolling = (lifecycle.get("updateStrategy") or {}).get("rollingUpdate") or {}
    unavailable = rolling.get("maxUnavailable")
    if unavailable is None:
        return desired
    if isinstance(unavailable, str):
        percent = unavailable.removesuffix("%")
        unavailable = -(-desired * int(percent) // 100) if percent.isdigit() else 0
    return max(0, desired - max(0, int(unavailable)))


def lifecycle_status(replica: Replica) -> Json:
    """`status.components.{c}.lifecycle`: totals, revisions, conditions and hold; zero counts are left out."""
    status = replica.status
    lifecycle: Json = {}
    if replica.parent_generation:
        lifecycle["observedGeneration"] = replica.parent_generation
    texts = {
        "currentRevision": status.current_revision,
        "updateRevision": status.update_revision,
        "labelSelector": status.label_selector,
    }
    lifecycle.update({key: value for key, value in texts.items() if value})
    if status.collision_count:
        lifecycle["collisionCount"] = status.collision_count
    counts = (
        status.replicas,
        status.ready_replicas,
        status.serving_replicas,
        status.available_replicas,
        status.updated_replicas,
        status.updated_ready_replicas,
    )
    lifecycle.update({name: count for name, count in zip(_COUNTS, counts, strict=True) if count})
    if status.conditions:
        lifecycle["conditions"] = [msgspec.to_builtins(condition) for condition in status.conditions]
    if status.rollout_hold is not None:
        lifecycle["rolloutHold"] = msgspec.to_builtins(status.rollout_hold)
    return lifecycle


def revision_names(replica: Replica, before: Mapping[str, Any]) -> Json:
    """`latestReadyRevision` and the two rolled-out revisions, in the form `{isvc}-{c}-rev-{hash}`."""
    status = replica.status
    current = _rev(replica.metadata.name, status.current_revision)
    result: Json = {}
    latest = current if status.ready_replicas else before.get("latestReadyRevision")
    rolled_out = before.get("latestRolledoutRevision")
    previous = before.get("previousRolledoutRevision") if rolled_out in (None, current) else rolled_out
    named = {
        "latestReadyRevision": latest,
        "latestRolledoutRevision": current or rolled_out,
        "previousRolledoutRevision": previous,
    }
    result.update({key: value for key, value in named.items() if value})
    return result


def _rev(component: str, revision: str) -> str:
    prefix = f"{component}-"
    return f"{prefix}rev-{revision.removeprefix(prefix)}" if revision else ""


def autoscaler_status(autoscaler: Autoscaler, children: Mapping[tuple[str, str], Child], name: str) -> Json:
    """`status.components.{c}.autoscaler`: the choice, and what its object reports; counts of 0 are left out."""
    result: Json = {"class": autoscaler.kind, "managedBy": autoscaler.managed_by, "specSource": autoscaler.source}
    if autoscaler.kind == "HPA":
        scaler, time_field = children.get((HPAS.plural, name)), "lastScaleTime"
    elif autoscaler.kind == "KEDA":
        scaler, time_field = children.get((SCALED_OBJECTS.plural, f"{SCALED_OBJECT_PREFIX}{name}")), "lastActiveTime"
    else:
        return result
    if scaler is None:
        return result
    status = scaler.reported()
    result.update({key: status[key] for key in ("currentReplicas", "desiredReplicas") if status.get(key)})
    if status.get(time_field):
        result["lastScaleTime"] = status[time_field]
    if status.get("conditions"):
        result["conditions"] = status["conditions"]
    return result
