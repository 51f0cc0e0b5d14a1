"""ConfigMap, Secret, Namespace, Node, ServiceAccount, quotas and limits, priorities, leases, events."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from ome.local.apiserver.kinds import checks, names, quantities
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values

_LIMIT: Final = 1_048_576


def _size_errors(size: int, path: str) -> list[FieldError]:
    return [too_long(path, _LIMIT)] if size > _LIMIT else []


def _fixed_when_immutable(obj: Mapping[str, Any], old: Mapping[str, Any], fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    errors = [] if obj.get("immutable") else [forbidden_field("immutable", text)]
    return errors + [
        forbidden_field(field, text) for field in fields if not values.equal(obj.get(field), old.get(field))
    ]


class ConfigMap(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        size = 0
        binary = obj.get("binaryData") or {}
        for key, value in (obj.get("data") or {}).items():
            errors += [invalid_value(f"data[{key}]", key, text) for text in names.config_key(key)]
            if key in binary:
                errors.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += len(value.encode())
        for key, value in binary.items():
            errors += [invalid_value(f"binaryData[{key}]", key, text) for text in names.config_key(key)]
            size += len(value) * 3 // 4
        return errors + _size_errors(size, "[]")

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return _fixed_when_immutable(obj, old, ("data", "binaryData")) + self.errors(obj)


_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class Secret(Strategy):
    def decode(self, body: Any) -> tuple[dict[str, Any], list[str]]:
        """As others; `stringData` is taken into `data` at once, as the conversion of a real server does."""
        obj, unknown = super().decode(body)
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()
        return obj, unknown

    def set_defaults(self, obj: dict[str, Any]) -> None:
        obj.setdefault("type", "Opaque")

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        data = obj.get("data") or {}
        errors = [invalid_value(f"data[{key}]", key, text) for key in data for text in names.config_key(key)]
        errors += _size_errors(sum(len(value) * 3 // 4 for value in data.values()), "data")
        for key in _SECRET_KEYS.get(obj.get("type", ""), ()):
            if key not in data:
                errors.append(required(f"data[{key}]"))
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        errors = checks.immutable(obj, old, "type", "type")
        return errors + _fixed_when_immutable(obj, old, ("data",)) + self.errors(obj)


_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Namespace(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[_NAME_LABEL] = name

    def on_create(self, obj: dict[str, Any]) -> None:
        finalizers = obj["spec"].setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["metadata"].setdefault("labels", {})[_NAME_LABEL] = obj["metadata"].get("name", "")
        obj["status"] = {"phase": "Active"}

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        if subresource == "":
            self._keep(obj["spec"], old.get("spec", {}), "finalizers")

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        phase = obj.get("status", {}).get("phase")
        if old["metadata"].get("deletionTimestamp") and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [invalid_value("status.Phase", phase, text)]
        if not old["metadata"].get("deletionTimestamp") and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [invalid_value("status.Phase", phase, text)]
        return []


class Node(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        status = obj["status"]
        if "capacity" in status and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def _reset_status(self, obj: dict[str, Any]) -> None:
        """A node may come with its status: a kubelet registers itself so."""

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, taint in enumerate(obj["spec"].get("taints") or ()):
            path = f"spec.taints[{index}]"
            errors += [
                invalid_value(f"{path}.key", taint.get("key", ""), text)
                for text in names.qualified(taint.get("key", ""))
            ]
            errors += checks.one_of(
                taint.get("effect", ""), f"{path}.effect", ("NoSchedule", "PreferNoSchedule", "NoExecute")
            )
        return errors


_QUOTA_NAMES: Final = frozenset(
    {
        "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
        "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
        "services.nodeports", "services.loadbalancers", "storage",
    }
)  # fmt: skip
_WHOLE_NAMES: Final = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims",
        "configmaps", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_SCOPES: Final = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip


class ResourceQuota(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        for name, amount in (obj["spec"].get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            errors += [invalid_value(path, name, text) for text in names.qualified(name)]
            if (
                "/" not in name
                and name not in _QUOTA_NAMES
                and not name.startswith(("hugepages-", "requests.hugepages-"))
            ):
                errors.append(invalid_value(path, name, "must be a standard resource type or fully qualified"))
                errors.append(invalid_value(path, name, "must be a standard resource for quota"))
            value = quantities.parse(amount)
            if value < 0:
                errors.append(invalid_value(path, amount, "must be greater than or equal to 0"))
            whole = name in _WHOLE_NAMES or name.startswith("count/")
            if whole and value != value.to_integral_value():
                errors.append(invalid_value(path, amount, "must be an integer"))
        for scope in obj["spec"].get("scopes") or ():
            if scope not in _SCOPES:
                errors.append(invalid_value("spec.scopes", obj["spec"]["scopes"], "unsupported scope"))
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return self.errors(obj) + checks.immutable(obj["spec"], old["spec"], "scopes", "spec.scopes")


class LimitRange(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        for item in obj["spec"].get("limits") or ():
            if item.get("type") != "Container":
                continue
            default = item.setdefault("default", {})
            for name, value in (item.get("max") or {}).items():
                default.setdefault(name, value)
            request = item.setdefault("defaultRequest", {})
            for name, value in {**(item.get("min") or {}), **default}.items():
                request.setdefault(name, value)
            for field in ("default", "defaultRequest"):
                if not item[field]:
                    del item[field]

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate(obj["spec"].get("limits") or ()):
            path = f"spec.limits[{index}]"
            kind = item.get("type", "")
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _limit_errors(item, path)
        return errors


_BOUNDS: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)


def _limit_errors(item: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if item.get("type") == "Pod":
        errors += [
            forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if item.get(field)
        ]
    named = {name for field in ("min", "max", "default", "defaultRequest") for name in item.get(field) or ()}
    for name in sorted(named):
        for lower, upper, shown, text in _BOUNDS:
            least, most = (item.get(lower) or {}).get(name), (item.get(upper) or {}).get(name)
            if least is not None and most is not None and quantities.parse(least) > quantities.parse(most):
                value = (item.get(shown) or {}).get(name)
                errors.append(invalid_value(f"{path}.{shown}[{name}]", value, text.format(least, most)))
    return errors


_SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_HIGHEST: Final = 1_000_000_000


class PriorityClass(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        name = obj["metadata"].get("name", "")
        if name.startswith("system-"):
            if _SYSTEM_CLASSES.get(name) == obj["value"]:
                return []
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            return [forbidden_field("metadata.name", f"{text}{name} is not a known system priority class")]
        if obj["value"] > _HIGHEST:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            return [forbidden_field("value", text)]
        return []

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.get("value") != old.get("value"):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        return errors + checks.immutable(obj, old, "preemptionPolicy", "preemptionPolicy")


class Lease(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return errors + checks.not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions")


class Event(Strategy):
    """Both groups. Events of the core group are hardly checked, those of events.k8s.io are."""

    error_group = ""

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors = self._namespace_errors(obj)
        return errors if self.group == "" else errors + _strict_event_errors(obj)

    def _namespace_errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        about = obj.get("involvedObject" if self.group == "" else "regarding") or {}
        namespace, own = about.get("namespace", ""), obj["metadata"].get("namespace", "")
        if namespace == own or (not namespace and own == "default"):
            return []
        return [invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]

    _FIXED: Final = (
        ("regarding", "involvedObject"), ("reason", "reason"), ("note", "message"), ("type", "type"),
        ("eventTime", "eventTime"), ("action", "action"), ("related", "related"),
        ("reportingController", "reportingController"), ("reportingInstance", "reportingInstance"),
    )  # fmt: skip

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        if self.group == "":
            return self.errors(obj)
        errors: list[FieldError] = []
        for field, shown in self._FIXED:
            errors += checks.immutable(obj, old, field, shown)
        return errors


def _strict_event_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    if obj.get("eventTime") is None:
        kind = obj.get("type", "")
        errors = [required("eventTime")]
        if kind not in ("Normal", "Warning"):
            errors.append(invalid_value("type", kind, f"has invalid value: {kind}"))
        return errors
    errors = []
    controller = obj.get("reportingController", "")
    if not controller:
        errors.append(required("reportingController"))
    errors += [
        invalid_value("reportingController", controller, text) for text in names.qualified(controller) if controller
    ]
    for field in ("reportingInstance", "action", "reason"):
        value = obj.get(field, "")
        if not value:
            errors.append(required(field))
        elif len(value) > 128:
            errors.append(invalid_value(field, "", "can have at most 128 characters"))
    if len(obj.get("note", "")) > 1024:
        errors.append(invalid_value("message", "", "can have at most 1024 characters"))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(invalid_value("type", obj.get("type", ""), f"has invalid value: {obj.get('type', '')}"))
    return errors


class ControllerRevision(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors = [] if obj.get("data") is not None else [required("data", "data is mandatory")]
        return errors + checks.not_negative(obj.get("revision"), "revision")

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return self.errors(obj) + checks.immutable(obj, old, "data", "data")


__all__ = [
    "ConfigMap", "ControllerRevision", "Event", "Lease", "LimitRange", "Namespace", "Node", "PriorityClass",
    "ResourceQuota", "Secret",
]  # fmt: skip
