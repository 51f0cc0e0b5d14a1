"""Whether OME is in the middle of something on a service or one of its InferenceReplicas. Pure; shared by the guarded
actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.cli.actions.target import MAX_ROWS, has_identity
from ome.cli.evidence import objects, rows
from ome.cli.evidence.replicas import belongs_to, component_of, is_current
from ome.cli.evidence.retry_blocks import stored_blocks

TERMINAL_MIGRATIONS = ("Completed", "Failed", "Relocated")


def has_rollout_work(service: Mapping[str, Any]) -> bool:
    """An active rollout run, a last run that was rolled back, or a canary that holds a rolled-back revision."""
    rollout = objects.mapping(service, "status", "rollout")
    if rollout.get("activeRun") is not None or objects.text(rollout, "lastRun", "outcome") == "RolledBack":
        return True
    canaries = [objects.mapping(service, "status", "canary")]
    canaries += [
        objects.mapping(component, "canary") for component in objects.mapping(service, "status", "components").values()
    ]
    return any(objects.text(canary, "rolledBackRevisionHash") for canary in canaries)


def replica_is_busy(replica: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Lifecycle work, a transient scale, a migration, a retry block, lag, or counts that do not add up (section 2.6
    row 3).
    """
    component = component_of(replica)
    if not has_identity(replica) or not belongs_to(replica, service) or component not in objects.COMPONENTS:
        return True
    if objects.name(replica) != f"{objects.name(service)}-{component}" or objects.is_deleting(replica):
        return True
    if not is_current(replica, service) or objects.text(replica, "spec", "pacing", "rollbackToRevision"):
        return True
    if stored_blocks(replica) != [] or objects.get(replica, "status", "rolloutHold") is not None:
        return True
    if any(
        objects.text(entry, "phase") not in TERMINAL_MIGRATIONS
        for entry in objects.items(replica, "status", "migrations")
    ):
        return True
    return _rows_are_busy(replica)


def _rows_are_busy(replica: Mapping[str, Any]) -> bool:
    status = objects.mapping(replica, "status")
    try:
        instances = rows.decode(replica, MAX_ROWS)
    except rows.RowsError:
        return True
    # No replica count at all runs one Instance (spec/omenative.md section 2.1).
    wanted = objects.count(replica, "spec", "replicas") or 1
    if not wanted == objects.count(status, "replicas") == len(instances):
        return True
    counts = [objects.count(status, key) for key in ("readyReplicas", "servingReplicas", "availableReplicas")]
    if any(not 0 <= count <= len(instances) for count in counts):
        return True
    current, update = objects.text(status, "currentRevision"), objects.text(status, "updateRevision")
    if update and update != current:
        return True
    return any(
        row.get("phase") != "Ready"
        or row.get("operation") is not None
        or (current and objects.text(row, "runningRevision") not in ("", current))
        for row in instances
    )
