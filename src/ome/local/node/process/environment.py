"""A container's command, arguments and environment, as the kubelet makes them. Pure.

`$(VAR)` is expanded from the container's own environment, `$$(VAR)` is not, and a name that is not set stays as it is
(Kubernetes, "Define a Command and Arguments for a Container").
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ome.api.quantity import parse_quantity
from ome.local.engines import built_in_module
from ome.local.objects import Object

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


@dataclass(frozen=True, slots=True)
class Sources:
    """What values may come from. `secrets` and `config_maps` map names to data; an absent optional one is missing."""

    secrets: Mapping[str, Mapping[str, str]]
    config_maps: Mapping[str, Mapping[str, str]]
    pod_ip: str
    host_ip: str
    services: Mapping[str, str]  # the environment that Services give (KUBERNETES_SERVICE_HOST ...)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Expand `$(VAR)` and `$$`."""

    def replace(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return values.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


def environment_of(pod: Object, container: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    """The container's environment, in the order in which later entries may refer to earlier ones."""
    values = base_environment(pod)
    values.update(sources.services)
    for entry in container.get("envFrom") or ():
        prefix = str(entry.get("prefix") or "")
        values.update({prefix + key: value for key, value in _whole_source(entry, sources).items()})
    for entry in container.get("env") or ():
        name = str(entry["name"])
        if entry.get("valueFrom"):
            found = _value_from(entry["valueFrom"], pod, container, sources)
            if found is not None:
                values[name] = found
            continue
        values[name] = expand(str(entry.get("value") or ""), values)
    return values


def base_environment(pod: Object) -> dict[str, str]:
    """What every process pod has: a path on which `python3` is the product's own interpreter."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/tmp",
        "HOSTNAME": str(pod.spec.get("hostname") or pod.name),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }


def command_of(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """The argument vector. Raises OSError (a CreateContainerError) for an image without a built-in program."""
    command = [expand(str(part), environment) for part in container.get("command") or ()]
    arguments = [expand(str(part), environment) for part in container.get("args") or ()]
    if command:
        return command + arguments
    module = built_in_module(str(container.get("image") or ""))
    if module is None:
        raise OSError(f"image {container.get('image')} has no built-in program: set command")
    return [sys.executable, "-m", module, *arguments]


def _whole_source(entry: Mapping[str, Any], sources: Sources) -> Mapping[str, str]:
    if entry.get("configMapRef"):
        return sources.config_maps.get(str(entry["configMapRef"].get("name")), {})
    if entry.get("secretRef"):
        return sources.secrets.get(str(entry["secretRef"].get("name")), {})
    return {}


def _value_from(source: Mapping[str, Any], pod: Object, container: Mapping[str, Any], sources: Sources) -> str | None:
    if source.get("fieldRef"):
        return field_value(pod, str(source["fieldRef"].get("fieldPath") or ""), sources.pod_ip, sources.host_ip)
    if source.get("resourceFieldRef"):
        return resource_value(pod, container, source["resourceFieldRef"])
    for key, found in (("secretKeyRef", sources.secrets), ("configMapKeyRef", sources.config_maps)):
        if source.get(key):
            return found.get(str(source[key].get("name")), {}).get(str(source[key].get("key")))
    return None


def field_value(pod: Object, path: str, pod_ip: str, host_ip: str) -> str:
    """A downward API field: metadata.*, spec.nodeName, spec.serviceAccountName, status.podIP and its siblings."""
    simple: Mapping[str, Callable[[], Any]] = {
        "metadata.name": lambda: pod.name,
        "metadata.namespace": lambda: pod.namespace,
        "metadata.uid": lambda: pod.uid,
        "spec.nodeName": lambda: pod.spec.get("nodeName") or "",
        "spec.serviceAccountName": lambda: pod.spec.get("serviceAccountName") or "default",
        "status.podIP": lambda: pod_ip,
        "status.podIPs": lambda: pod_ip,
        "status.hostIP": lambda: host_ip,
        "status.hostIPs": lambda: host_ip,
    }
    if path in simple:
        return str(simple[path]())
    for field, values in (("metadata.labels", pod.metadata.labels), ("metadata.annotations", pod.metadata.annotations)):
        if path == field:
            return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(values.items()))
        match = re.fullmatch(rf"{re.escape(field)}\['(.+)'\]", path)
        if match:
            return values.get(match[1], "")
    return ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(pod: Object, container: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """`requests.cpu` and its siblings, divided by the divisor and rounded up."""
    name = reference.get("containerName")
    if name:
        all_of_them = [*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())]
        container = next((found for found in all_of_them if found.get("name") == name), container)
    section, _, resource = str(reference.get("resource") or "").partition(".")
    have = ((container.get("resources") or {}).get(section) or {}).get(resource)
    if have is None:
        return "0"
    divisor = parse_quantity(reference.get("divisor") or "1") or 1
    amount = parse_quantity(have) / divisor
    return str(-int(-amount // 1))


def service_environment(services: Sequence[tuple[str, str, Sequence[tuple[str, int]]]]) -> dict[str, str]:
    """The variables of Services `(name, address, [(port name, port)])`: `{NAME}_SERVICE_HOST`, `_SERVICE_PORT`."""
    found: dict[str, str] = {}
    for name, address, ports in services:
        prefix = name.upper().replace("-", "_")
        found[f"{prefix}_SERVICE_HOST"] = address
        for number, (port_name, port) in enumerate(ports):
            if number == 0:
                found[f"{prefix}_SERVICE_PORT"] = str(port)
            if port_name:
                found[f"{prefix}_SERVICE_PORT_{port_name.upper().replace('-', '_')}"] = str(port)
    return found
