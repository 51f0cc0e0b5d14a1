"""PersistentVolumeClaim, PersistentVolume, StorageClass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import FieldError, forbidden_field, invalid_value, not_supported, required
from ome.local.apiserver.kinds import checks, metadata, quantities
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CLAIM_TEXT: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _access_modes(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    modes = spec.get("accessModes") or ()
    if not modes:
        return [required(f"{path}.accessModes", "at least 1 access mode is required")]
    return [not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]


class PersistentVolumeClaim(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        obj["spec"].setdefault("volumeMode", "Filesystem")
        obj["status"].setdefault("phase", "Pending")

    def on_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Pending"}

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = _access_modes(spec, "spec")
        errors += checks.label_selector(spec.get("selector"), "spec.selector")
        storage = (spec.get("resources", {}).get("requests") or {}).get("storage")
        if storage is None:
            errors.append(required("spec.resources[storage]"))
        elif quantities.parse(storage) <= 0:
            errors.append(invalid_value("spec.resources[storage]", storage, "must be greater than zero"))
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        after, before = dict(obj["spec"]), dict(old["spec"])
        if not before.get("volumeName") and after.get("volumeName"):
            before["volumeName"] = after["volumeName"]
        if "storageClassName" not in before and "storageClassName" in after:
            before["storageClassName"] = after["storageClassName"]
        for field in ("resources", "volumeAttributesClassName"):
            if field in after:
                before[field] = after[field]
            else:
                before.pop(field, None)
        errors = self.errors(obj)
        if not values.equal(after, before):
            errors.append(forbidden_field("spec", _CLAIM_TEXT))
        return errors


class PersistentVolume(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        obj["status"].setdefault("phase", "Pending")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def on_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Pending"}

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = _access_modes(spec, "spec")
        if not spec.get("capacity"):
            errors.append(required("spec.capacity"))
        elif "storage" not in spec["capacity"]:
            errors.append(not_supported("spec.capacity", spec["capacity"], ("storage",)))
        policy = spec.get("persistentVolumeReclaimPolicy")
        return errors + checks.one_of(policy, "spec.persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain"))


class StorageClass(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors = [] if obj.get("provisioner") else [required("provisioner", obj.get("provisioner", ""))]
        errors += checks.one_of(obj.get("reclaimPolicy"), "reclaimPolicy", ("Delete", "Retain"))
        return errors + checks.one_of(
            obj.get("volumeBindingMode"), "volumeBindingMode", ("Immediate", "WaitForFirstConsumer")
        )

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        errors = self.errors(obj)
        if not values.equal(obj.get("parameters"), old.get("parameters")):
            errors.append(invalid_value("parameters", None, metadata.IMMUTABLE))
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += checks.immutable(obj, old, field, field, None)
        return errors
