"""Checks that every guarded action makes on its InferenceService first (spec/cli-runtime-and-wait.md section 4.2).
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.cli.errors import CliError
from ome.cli.evidence import objects

IDENTITY = "action refused: target identity is missing or unsafe"
DELETING = "action refused: target is being deleted"
BOUNDS = "action refused: safety inputs exceed inspection bounds"
PLACEMENT = "action refused: placement sources and derived services cannot be mutated"
EVIDENCE = "action refused: controller safety evidence is stale or inconsistent"
RUNTIME = "action refused: active runtime is unavailable, inconsistent or unbound"
MAILBOX = "action refused: a rollout promote or rollback mailbox is present"
UNSAFE_VALUE = "action refused: a logical annotation value is unsafe to preview"

MAX_ANNOTATIONS = 256
MAX_FINALIZERS = 64
MAX_OWNERS = 16
MAX_CONDITIONS = 64
MAX_REPLICAS = 32
MAX_ROWS = 2048
MAX_MIGRATIONS = 256
MAX_BYTES = 1 << 20

PLACEMENT_FINALIZER = "ome.io/placement"
_PLACEMENT_KEYS = (
    "ome.io/accelerator-requirements",
    "ome.io/cluster-selector",
    "ome.io/placement-origin",
    "ome.io/placement-origin-uid",
    "ome.io/placement-control-plane",
)


class Refused(CliError):
    """Nothing was sent: the message says which safety rule stopped the action."""


def has_identity(obj: Mapping[str, Any]) -> bool:
    """Name, namespace, UID, resourceVersion and generation are there and safe to print and to test against."""
    return (
        objects.is_subdomain(objects.name(obj))
        and objects.is_label_name(objects.namespace(obj))
        and objects.is_safe_identity(objects.uid(obj))
        and objects.is_safe_identity(objects.resource_version(obj))
        and (objects.generation(obj) or 0) > 0
    )


def exceeds_bounds(obj: Mapping[str, Any]) -> bool:
    """Too large to be checked as a whole."""
    return (
        len(objects.mapping(obj, "metadata", "annotations")) > MAX_ANNOTATIONS
        or len(objects.mapping(obj, "metadata", "labels")) > MAX_ANNOTATIONS
        or len(objects.items(obj, "metadata", "finalizers")) > MAX_FINALIZERS
        or len(objects.items(obj, "metadata", "ownerReferences")) > MAX_OWNERS
        or len(objects.items(obj, "status", "conditions")) > MAX_CONDITIONS
        or len(objects.items(obj, "status", "migrations")) > MAX_MIGRATIONS
        or len(objects.encoded(obj)) > MAX_BYTES
    )


def is_placed(obj: Mapping[str, Any]) -> bool:
    """Multi-cluster placement: the object is a source of, or derived from, another cluster's."""
    return (
        objects.get(obj, "spec", "placement") is not None
        or objects.get(obj, "status", "placement") is not None
        or PLACEMENT_FINALIZER in objects.items(obj, "metadata", "finalizers")
        or any(objects.annotation(obj, key) is not None for key in _PLACEMENT_KEYS)
        or any(objects.label(obj, key) is not None for key in _PLACEMENT_KEYS)
    )


def check_service(service: Mapping[str, Any], namespace: str, name: str) -> None:
    """T1 to T4 of spec/cli-instance.md section 5.3; raises Refused."""
    if not has_identity(service) or (objects.namespace(service), objects.name(service)) != (namespace, name):
        raise Refused(IDENTITY)
    if objects.is_deleting(service):
        raise Refused(DELETING)
    if exceeds_bounds(service):
        raise Refused(BOUNDS)
    if is_placed(service):
        raise Refused(PLACEMENT)
