"""The Pod: its defaults, its first status, what of it may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.local.apiserver.errors import FieldError, invalid_value
from ome.local.apiserver.kinds import metadata, pod_defaults, pod_updates, pod_validation, quantities
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values

_COMPUTE = ("cpu", "memory")


class Pod(Strategy):
    status_fixed_metadata = ("deletionTimestamp", "ownerReferences")

    def set_defaults(self, obj: dict[str, Any]) -> None:
        pod_defaults.pod_spec(obj["spec"])

    def on_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"].get("creationTimestamp"),
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "reason": "SchedulingGated",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ]

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        """The doors `ephemeralcontainers` and `resize` change one thing each; the rest is put back."""
        if subresource == "ephemeralcontainers":
            wanted = obj["spec"].get("ephemeralContainers")
            obj["spec"] = values.copy(old["spec"])
            obj["spec"].pop("ephemeralContainers", None)
            if wanted:
                obj["spec"]["ephemeralContainers"] = wanted
        elif subresource == "resize":
            sized = {container.get("name"): container for container in obj["spec"].get("containers") or ()}
            obj["spec"] = values.copy(old["spec"])
            for container in obj["spec"].get("containers") or ():
                if container.get("name") in sized:
                    container["resources"] = sized[container["name"]].get("resources", {})

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        return pod_validation.pod(obj)

    def validate_update(
        self, obj: Mapping[str, Any], old: Mapping[str, Any], subresource: str = ""
    ) -> list[FieldError]:
        if subresource not in ("ephemeralcontainers", "resize"):
            return super().validate_update(obj, old, subresource)
        errors = metadata.validate_update(obj["metadata"], old["metadata"], builtin=True)
        if subresource == "resize":
            return errors + pod_validation.pod(obj) + self._quality_errors(obj["spec"], old["spec"])
        return errors + pod_updates.ephemeral(obj["spec"], old["spec"])

    @staticmethod
    def _quality_errors(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
        if qos_class(after) == qos_class(before):
            return []
        return [invalid_value("spec", qos_class(after), "Pod QOS Class may not change as a result of resizing")]

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return pod_updates.update(obj, old)

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        after, before = obj.get("status", {}).get("qosClass"), old.get("status", {}).get("qosClass")
        if after and before and after != before:
            return [invalid_value("status.qosClass", after, metadata.IMMUTABLE)]
        return []


def qos_class(spec: Mapping[str, Any]) -> str:
    """BestEffort, Burstable or Guaranteed, from the cpu and memory of all containers."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    any_set = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in _COMPUTE:
            limit, request = quantities.parse(limits.get(name, "0")), quantities.parse(requests.get(name, "0"))
            any_set = any_set or limit > 0 or request > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
