"""Pods and rows in one line each: `pod("chat-engine-0-default-1").ready()`, `row(0, phase="Updating")`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from ome.api.core import Pod
from ome.api.meta import Condition, ObjectMeta
from ome.api.types.inference_replica import InstanceOperation, InstanceStatus, RetryBlock
from ome.omenative.observe import Member

NOW = datetime(2026, 9, 28, 14, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment relative to NOW."""
    return NOW + timedelta(seconds=seconds)


def member(name: str, *, revision: str = "aaaaaaaa", gone_in: float | None = None, **conditions: bool) -> Member:
    """A pod by its name (`<base>-<index>-default-<ordinal>`); keyword arguments are conditions."""
    index, _, ordinal = name.split("-")[-3:]
    labels = {
        "ome.io/instance-index": index,
        "ome.io/pod-ordinal": ordinal,
        "ome.io/instance-incarnation": "1",
        "ome.io/revision-hash": revision,
    }
    metadata = ObjectMeta(
        name=name,
        namespace="prod",
        uid=f"uid-{name}",
        labels=labels,
        creation_timestamp=NOW,
        deletion_timestamp=None if gone_in is None else at(gone_in),
    )
    shown = tuple(
        Condition(type="ome.io/serving" if key == "gate" else key, status="True" if value else "False")
        for key, value in conditions.items()
    )
    pod = Pod(metadata=metadata)
    return Member(replace(pod, status=replace(pod.status, conditions=shown)))


def row(index: int, phase: str = "Ready", **fields: Any) -> InstanceStatus:
    """An Instance's row."""
    return InstanceStatus(index=index, incarnation=1, phase=phase, **fields)


def updating(index: int, step: str, target: str = "chat-engine-bbbbbbbb") -> InstanceStatus:
    """A row with an update in flight."""
    operation = InstanceOperation(id=f"update-{index}", type="Update", step=step, target_revision=target)
    return row(index, "Updating", operation=operation)


def block(revision: str, state: str = "Backoff", attempts: int = 1, **fields: Any) -> RetryBlock:
    """A retry block."""
    return RetryBlock(target_revision=revision, state=state, attempts_started=attempts, **fields)
