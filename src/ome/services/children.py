"""A service's generated objects as the caches hold them: what OME owns of them, reduced to a digest.

Server-side apply records which fields a manager owns (`metadata.managedFields`). The part of a live object that
OME's manager owns, its *projection*, equals the body last applied unless somebody changed or took over a field; so
comparing projections tells, also right after a restart and without a write, whether an apply would do anything.
Only the digest of the projection is kept: a Deployment costs a few hundred bytes instead of several kilobytes.

Not here: what the bodies should be (`ome.rendering.children`) and writing them (`actions.py`).
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from ome.api.keys import COMPONENT
from ome.api.meta import Model, ObjectMeta
from ome.api.quantity import canonical_quantity, is_quantity

Json = dict[str, Any]

MANAGER = "ome-manager"

# Parts of an object that are identity, the server's own or (finalizers) its engine's, never content to put back.
_UNCOMPARED_METADATA = frozenset({"name", "namespace", "resourceVersion", "uid", "finalizers"})
# Maps whose values, and fields that, are quantities: the server rewrites them in canonical form.
_QUANTITY_MAPS = frozenset({"limits", "requests", "capacity", "overhead", "allocatable"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "averageValue", "divisor"})
# What a later pass must know of the projection besides its digest.
_KEPT_SPEC = ("replicas", "type", "loadBalancerIP", "lifecycle")

# Shared by all objects; never changed, as nothing in a cache is.
_NOTHING: Json = {}
_NO_FIELDS: list[Any] = []
_LABELS: dict[str, dict[str, str]] = {
    component: {COMPONENT: component} for component in ("engine", "decoder", "router", "external-service")
}

_encode = msgspec.json.Encoder(order="deterministic").encode


class ManagedFields(Model, frozen=True, kw_only=True):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: Json = msgspec.field(default_factory=dict, name="fieldsV1")


class ChildMeta(ObjectMeta, frozen=True, kw_only=True):
    """Metadata with managedFields, which are dropped as soon as they have been read."""

    managed_fields: list[ManagedFields] = []


class Child(Model, frozen=True, kw_only=True):
    """A generated object of any kind, after decoding:

    - `digest`: of the projection; empty when OME's manager owns nothing of it (a foreign object).
    - `kept`: the owned ones of `replicas`, `type`, `loadBalancerIP` and `lifecycle`.
    - `replicas`: the live count, whoever wrote it.
    - `selects`: the component whose pods a Service selects.
    - `status`: JSON text of the parts that are reported on; `reported()` decodes it.

    `spec`, `data` and the rest of the content are None by then; of the labels only `component` is left, of the
    annotations none. A service has six of these or more, so every field counts.
    """

    KEEPS_METADATA: ClassVar[bool] = False
    KEEPS_STATUS: ClassVar[tuple[str, ...]] = ("conditions", "parents")

    metadata: ChildMeta = ChildMeta()
    spec: Any = None
    data: Any = None
    rules: Any = None
    role_ref: Any = None
    subjects: Any = None
    status: Any = None
    digest: bytes = b""
    kept: Json = _NOTHING
    creation: bytes = b""
    replicas: int | None = None
    selects: str = ""

    def __post_init__(self) -> None:
        content = {
            "metadata": self._content_metadata(),
            "spec": self.spec,
            "data": self.data,
            "rules": self.rules,
            "roleRef": self.role_ref,
            "subjects": self.subjects,
        }
        owned = projection({key: value for key, value in content.items() if value is not None}, self._own_fields())
        put = msgspec.structs.force_setattr
        if owned is not None:
            put(self, "digest", digest(owned))
            spec = owned.get("spec") or {}
            put(self, "kept", {name: spec[name] for name in _KEPT_SPEC if name in spec} or _NOTHING)
            if self.KEEPS_METADATA:
                metadata = owned.get("metadata", {})
                kept = {name: metadata[name] for name in ("labels", "annotations") if name in metadata}
                put(self, "creation", _encode(kept))
        if isinstance(self.spec, dict):
            put(self, "replicas", self.spec.get("replicas"))
            put(self, "selects", _selected(self.spec.get("selector")))
        for field in ("spec", "data", "rules", "role_ref", "subjects"):
            put(self, field, None)
        self._keep_status()
        _slim(self.metadata)

    def _keep_status(self) -> None:
        status = self.status if isinstance(self.status, dict) else {}
        kept = {name: status[name] for name in self.KEEPS_STATUS if name in status}
        msgspec.structs.force_setattr(self, "status", _encode(kept) if kept else b"")

    def reported(self) -> Json:
        """The kept parts of the status."""
        return msgspec.json.decode(self.status, type=dict[str, Any]) if self.status else {}

    def created_with(self) -> Json:
        """The owned labels and annotations, of kinds that keep those of their creation."""
        return msgspec.json.decode(self.creation, type=dict[str, Any]) if self.creation else {}

    def _content_metadata(self) -> Json:
        return {
            "labels": self.metadata.labels,
            "annotations": self.metadata.annotations,
            "ownerReferences": msgspec.to_builtins(self.metadata.owner_references),
        }

    def _own_fields(self) -> Json | None:
        for entry in self.metadata.managed_fields:
            if entry.manager == MANAGER and entry.operation == "Apply" and not entry.subresource:
                return entry.fields
        return None

    @property
    def version(self) -> int:
        """The resource version as a number: within one resource, greater is newer."""
        return int(self.metadata.resource_version or 0)


class KeptChild(Child, frozen=True, kw_only=True):
    """A kind that keeps the metadata of its creation (Services, PodDisruptionBudgets); its status says nothing here."""

    KEEPS_METADATA: ClassVar[bool] = True
    KEEPS_STATUS: ClassVar[tuple[str, ...]] = ()


class Scaler(Child, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler or ScaledObject, whose whole report is mirrored."""

    KEEPS_STATUS: ClassVar[tuple[str, ...]] = (
        "currentReplicas",
        "desiredReplicas",
        "lastScaleTime",
        "lastActiveTime",
        "conditions",
    )


def _selected(selector: Any) -> str:
    component = selector.get(COMPONENT) if isinstance(selector, dict) else None
    return sys.intern(component) if isinstance(component, str) else ""


def _slim(metadata: ChildMeta) -> None:
    """Drop what nobody reads, share what a service's objects have in common."""
    put = msgspec.structs.force_setattr
    component = metadata.labels.get(COMPONENT)
    put(metadata, "labels", _LABELS.get(component) or {COMPONENT: component} if component else _NOTHING)
    put(metadata, "annotations", _NOTHING)
    put(metadata, "managed_fields", _NO_FIELDS)
    put(metadata, "creation_timestamp", None)
    put(metadata, "namespace", sys.intern(metadata.namespace))
    for owner in metadata.owner_references:
        for field in ("api_version", "kind", "name", "uid"):
            put(owner, field, sys.intern(getattr(owner, field)))


def projection(live: Json, fields: Json | None) -> Json | None:
    """The part of `live` that a FieldsV1 set names; None without a set."""
    if fields is None:
        return None
    result = _project(live, fields)
    return result if isinstance(result, dict) else {}


def _project(value: Any, fields: Json) -> Any:
    if _is_leaf(fields):
        return value
    if isinstance(value, list):
        return _project_list(value, fields)
    if not isinstance(value, dict):
        return value
    result: Json = {}
    for key, inner in fields.items():
        name = key[2:]
        if name in value and key.startswith("f:"):
            item = value[name]
            result[name] = _project(item, inner) if inner and isinstance(item, dict | list) else item
    return result


def _is_leaf(fields: Json) -> bool:
    return not fields or (len(fields) == 1 and "." in fields)


def _project_list(items: list[Any], fields: Json) -> list[Any]:
    keyed = [(msgspec.json.decode(key[2:]), inner) for key, inner in fields.items() if key.startswith("k:")]
    members = {key[2:] for key in fields if key.startswith("v:")}
    result = []
    for item in items:
        if isinstance(item, dict):
            inner = next((found for key, found in keyed if _matches(item, key)), None)
            if inner is not None:
                result.append(_project(item, inner))
        elif _encode(item).decode() in members:
            result.append(item)
    return result


def _matches(item: Json, key: Json) -> bool:
    return all(item.get(name) == value for name, value in key.items())


def digest(body: Mapping[str, Any]) -> bytes:
    """Digest of the content of an apply body or of a projection: equal when an apply of one would not change the other.

    Quantities count by value, an absent field like an empty one; names, namespace and versions do not count.
    """
    content = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "status", "metadata")}
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in _UNCOMPARED_METADATA}
    normal = _normal({"metadata": metadata, **content}, "")
    return hashlib.blake2b(_encode(normal), digest_size=16).digest()


def _normal(value: Any, key: str) -> Any:
    """A mapping or list without what counts like an absent field, its quantities in canonical form."""
    if isinstance(value, list):
        return [_normal(item, "") if isinstance(item, dict | list) else item for item in value]
    if key in _QUANTITY_MAPS:
        return {name: _amount(item) for name, item in value.items()}
    result: Json = {}
    for name, item in value.items():
        if isinstance(item, dict | list):
            if item and (inner := _normal(item, name)):
                result[name] = inner
        elif item is not None:
            result[name] = _amount(item) if name in _QUANTITY_FIELDS else item
    return result


def _amount(value: Any) -> Any:
    if not isinstance(value, str | int):
        return value
    amount = _canonical(str(value))
    return value if amount is None else amount


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str | None:
    """Few spellings are in use, and each is met in every object."""
    return canonical_quantity(text) if is_quantity(text) else None
