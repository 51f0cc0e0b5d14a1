"""Kubernetes objects as the local controllers and nodes read them, and the small questions they all ask of them.

Narrower than the API, wider than `ome.api.core`: `spec` and `status` stay raw, because these controllers copy
templates and write whole statuses. Used by `ome.local.workloads` and `ome.local.node`; nothing here does input or
output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from ome.api.meta import Model, ObjectMeta, ObjectReference, OwnerReference, parse_timestamp, timestamp
from ome.kube.resources import Resource
from ome.kube.selectors import LabelSelector

Json = dict[str, Any]
Key = tuple[str, str]


class Object(Model, frozen=True, kw_only=True):
    """Any object with a spec and a status. Shared with the cache: never change it, nor a dict inside it."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.metadata.key

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid


class SliceObject(Model, frozen=True, kw_only=True):
    """An EndpointSlice or Endpoints object, whose content has no spec."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: list[Json] = msgspec.field(default_factory=list)
    ports: list[Json] = msgspec.field(default_factory=list)
    subsets: list[Json] = msgspec.field(default_factory=list)


class RevisionObject(Model, frozen=True, kw_only=True):
    """A ControllerRevision."""

    metadata: ObjectMeta = ObjectMeta()
    data: Json = msgspec.field(default_factory=dict)
    revision: int = 0


class ConfigObject(Model, frozen=True, kw_only=True):
    """A ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


def owner_reference(owner: Object, resource: Resource) -> Json:
    """The controller reference that a child of `owner` carries."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_references_json(references: Iterable[OwnerReference]) -> list[Json]:
    """Owner references as they are written."""
    found = []
    for reference in references:
        built: Json = {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
        }
        if reference.controller:
            built["controller"] = True
        if reference.block_owner_deletion:
            built["blockOwnerDeletion"] = True
        found.append(built)
    return found


def reference_to(obj: Object, resource: Resource, *, field_path: str = "") -> ObjectReference:
    """What an Event about `obj` names."""
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=obj.name,
        namespace=obj.namespace,
        uid=obj.uid,
        resource_version=obj.metadata.resource_version,
        field_path=field_path,
    )


def condition(status: Mapping[str, Any], type_: str) -> Json | None:
    """The condition of this type in a raw status, if any."""
    for found in status.get("conditions") or ():
        if found.get("type") == type_:
            return dict(found)
    return None


def condition_true(status: Mapping[str, Any], type_: str) -> bool:
    found = condition(status, type_)
    return found is not None and found.get("status") == "True"


def with_condition(
    conditions: Iterable[Json],
    type_: str,
    status: str,
    now: datetime,
    *,
    reason: str = "",
    message: str = "",
    **more: Any,
) -> list[Json]:
    """The conditions with this one set: its transition time changes only when its status does; order is kept."""
    built: Json = {"type": type_, "status": status, "lastTransitionTime": timestamp(now)}
    if reason:
        built["reason"] = reason
    if message:
        built["message"] = message
    built.update(more)
    found = []
    seen = False
    for old in conditions:
        if old.get("type") != type_:
            found.append(old)
            continue
        seen = True
        if old.get("status") == status and old.get("lastTransitionTime"):
            built["lastTransitionTime"] = old["lastTransitionTime"]
        found.append(built)
    return found if seen else [*found, built]


def time_of(text: Any) -> datetime | None:
    """A time in a raw object, or None when it is absent or no time."""
    if not text:
        return None
    try:
        return parse_timestamp(str(text))
    except ValueError:
        return None


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json | None:
    """A merge patch body that turns one status into another, or None when they are the same.

    Lists are compared and written whole. Maps are replaced key by key, absent keys as null.
    """
    changed: Json = {}
    for name, value in new.items():
        if old.get(name) != value:
            changed[name] = _replaced(old.get(name), value)
    for name in old:
        if name not in new:
            changed[name] = None
    return {"status": changed} if changed else None


def _replaced(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    built: Json = {name: _replaced(old.get(name), value) for name, value in new.items()}
    built.update({name: None for name in old if name not in new})
    return built


def is_pod_active(pod: Object) -> bool:
    """Neither ended nor being deleted: what a workload counts as its own."""
    return pod.status.get("phase") not in ("Succeeded", "Failed") and not pod.metadata.deleting


def is_pod_ready(pod: Object) -> bool:
    return condition_true(pod.status, "Ready")


def ready_since(pod: Object) -> datetime | None:
    """When the pod became ready, or None when it is not."""
    found = condition(pod.status, "Ready")
    if found is None or found.get("status") != "True":
        return None
    return time_of(found.get("lastTransitionTime"))


def seconds_until_available(pod: Object, min_ready_seconds: int, now: datetime) -> float | None:
    """0 when the pod is available, the seconds still missing when it is ready, None when it is not ready."""
    since = ready_since(pod)
    if since is None:
        return 0.0 if min_ready_seconds == 0 and is_pod_ready(pod) else None
    if min_ready_seconds == 0:
        return 0.0
    return max(0.0, min_ready_seconds - (now - since).total_seconds())


def without_empty(values: Mapping[str, Any]) -> Json:
    """The mapping without zero counts, empty strings and None, which Kubernetes omits. False stays."""
    return {name: value for name, value in values.items() if value is False or value not in (None, 0, "")}


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether an object-form selector matches. An empty one matches everything, None nothing."""
    return selector is not None and LabelSelector.from_spec(selector).matches(labels)
