"""Containers of a pod: ports, environment, mounts, resources, probes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import checks, names, quantities

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_NOT_FOR_INIT: Final = "may not be set for init containers without restartPolicy=Always"
_INTEGER_TEXT: Final = "must be an integer"


def containers(
    listed: Iterable[Mapping[str, Any]],
    path: str,
    volumes: Mapping[str, Mapping[str, Any]],
    seen: set[str],
    *,
    init: bool,
) -> list[FieldError]:
    """The faults of a list of containers. seen: names of the lists before it, which may not come again."""
    errors: list[FieldError] = []
    for index, container in enumerate(listed):
        place = f"{path}[{index}]"
        name = container.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.label(name)]
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen.add(name)
        if not container.get("image"):
            errors.append(required(f"{place}.image"))
        errors += _container(container, place, volumes, init=init)
    return errors


def _container(
    container: Mapping[str, Any], path: str, volumes: Mapping[str, Mapping[str, Any]], *, init: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    if container.get("terminationMessagePolicy") not in ("File", "FallbackToLogsOnError"):
        policy = container.get("terminationMessagePolicy", "")
        errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, ("FallbackToLogsOnError", "File")))
    errors += _ports(container.get("ports") or (), f"{path}.ports")
    errors += _env(container.get("env") or (), f"{path}.env")
    errors += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    if "imagePullPolicy" in container:
        errors += checks.one_of(container["imagePullPolicy"], f"{path}.imagePullPolicy", _PULL_POLICIES)
    errors += _resources(container.get("resources") or {}, f"{path}.resources")
    if "lifecycle" in container:
        errors += _lifecycle(container, f"{path}.lifecycle", init=init)
    errors += _privileges(container.get("securityContext") or {}, f"{path}.securityContext")
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            if init and container.get("restartPolicy") != "Always":
                errors.append(forbidden_field(f"{path}.{field}", _NOT_FOR_INIT))
            else:
                errors += _probe(container[field], f"{path}.{field}", liveness=field != "readinessProbe")
    return errors


def host_ports(listed: Iterable[Mapping[str, Any]], path: str, *, host_network: bool) -> list[FieldError]:
    """Ports of the node that two containers want, or that differ from the container's on the node's own network."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(listed):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort")
            place = f"{path}[{index}].ports[{number}]"
            if host_network and host != port.get("containerPort"):
                text = "must match `hostPort` when `hostNetwork` is true"
                errors.append(invalid_value(f"{place}.containerPort", port.get("containerPort"), text))
            if not host:
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{host}"
            if key in seen:
                errors.append(duplicate(f"{place}.hostPort", key))
            seen.add(key)
    return errors


def _ports(ports: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.port_name(name)]
            if name in seen:
                errors.append(duplicate(f"{place}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            errors.append(required(f"{place}.containerPort"))
        else:
            errors += checks.port_number(number, f"{place}.containerPort")
        if port.get("hostPort"):
            errors += checks.port_number(port["hostPort"], f"{place}.hostPort")
        if not port.get("protocol"):
            errors.append(required(f"{place}.protocol"))
        else:
            errors += checks.one_of(port["protocol"], f"{place}.protocol", _PROTOCOLS)
    return errors


def _env(env: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(env):
        place = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.env_name(name)]
        source = variable.get("valueFrom")
        if source is None:
            continue
        errors += _env_source(source, f"{place}.valueFrom")
        if not source:
            text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            errors.append(invalid_value(f"{place}.valueFrom", "", text))
        elif variable.get("value"):
            errors.append(invalid_value(f"{place}.valueFrom", "", "may not be specified when `value` is not empty"))
        elif len(source) > 1:
            text = "may not have more than one field specified at a time"
            errors.append(invalid_value(f"{place}.valueFrom", "", text))
    return errors


_FIELD_PATHS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip


_OTHER_LABELS: Final = (
    "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "spec.hostNetwork",
    "status.phase",
)  # fmt: skip


def _env_source(source: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "fieldRef" in source:
        field = source["fieldRef"].get("fieldPath", "")
        subscript = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", field)
        if not field:
            errors.append(required(f"{path}.fieldRef.fieldPath"))
        elif subscript is None and field not in _FIELD_PATHS:
            if field in _OTHER_LABELS:
                errors.append(not_supported(f"{path}.fieldRef.fieldPath", field, sorted(_FIELD_PATHS)))
            else:
                text = f"error converting fieldPath: field label not supported: {field}"
                errors.append(invalid_value(f"{path}.fieldRef.fieldPath", field, text))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            place = f"{path}.{kind}"
            if not source[kind].get("name"):
                errors.append(required(f"{place}.name"))
            key = source[kind].get("key", "")
            if not key:
                errors.append(required(f"{place}.key"))
            else:
                errors += [invalid_value(f"{place}.key", key, text) for text in names.config_key(key)]
    return errors


def _mounts(
    mounts: Iterable[Mapping[str, Any]], path: str, volumes: Mapping[str, Mapping[str, Any]]
) -> list[FieldError]:
    errors: list[FieldError] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        place = f"{path}[{index}]"
        name = mount.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        elif name not in volumes:
            errors.append(not_found_value(f"{place}.name", name))
        where = mount.get("mountPath", "")
        if not where:
            errors.append(required(f"{place}.mountPath"))
        if where in places:
            errors.append(invalid_value(f"{place}.mountPath", where, "must be unique"))
        places.add(where)
        sub = mount.get("subPath", "")
        if sub.startswith("/"):
            errors.append(invalid_value(f"{place}.subPath", sub, "must be a relative path"))
        elif ".." in sub.split("/"):
            errors.append(invalid_value(f"{place}.subPath", sub, "must not contain '..'"))
        if sub and mount.get("subPathExpr"):
            errors.append(
                invalid_value(
                    f"{place}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
                )
            )
    return errors


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _needs_limit(name: str) -> bool:
    """Whether a resource cannot be overcommitted: extended resources and huge pages."""
    return _is_extended(name) or name.startswith("hugepages-")


def _resource_list(resources: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in resources.items():
        place = f"{path}[{name}]"
        errors += [invalid_value(place, name, text) for text in names.qualified(name)]
        if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
            text = "must be a standard resource for containers"
            errors.append(invalid_value(place, name, "must be a standard resource type or fully qualified"))
            errors.append(invalid_value(place, name, text))
        value = quantities.parse(amount)
        if value < 0:
            errors.append(invalid_value(place, amount, "must be greater than or equal to 0"))
        if (_is_extended(name) or name.startswith("hugepages-")) and value != value.to_integral_value():
            errors.append(invalid_value(place, amount, _INTEGER_TEXT))
    return errors


def _resources(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = _resource_list(limits, f"{path}.limits")
    errors += _resource_list(requests, f"{path}.requests")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if _needs_limit(name):
                text = "Limit must be set for non overcommitable resources"
                errors.append(required(f"{path}.limits", text))
            continue
        wanted, most = quantities.parse(amount), quantities.parse(limit)
        if _needs_limit(name) and wanted != most:
            errors.append(invalid_value(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
        elif wanted > most:
            text = f"must be less than or equal to {name} limit of {limit}"
            errors.append(invalid_value(f"{path}.requests", amount, text))
    return errors


def _lifecycle(container: Mapping[str, Any], path: str, *, init: bool) -> list[FieldError]:
    if init and container.get("restartPolicy") != "Always":
        return [forbidden_field(path, _NOT_FOR_INIT)]
    errors: list[FieldError] = []
    for field in ("postStart", "preStop"):
        handler = container["lifecycle"].get(field)
        if handler is not None and not set(handler) & {"exec", "httpGet", "tcpSocket", "sleep"}:
            errors.append(required(f"{path}.{field}", "must specify a handler type"))
    return errors


def _privileges(context: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [
        invalid_value(f"{path}.{field}", context[field], "must be between 0 and 2147483647, inclusive")
        for field in ("runAsUser", "runAsGroup")
        if field in context and not 0 <= context[field] < 2**31
    ]
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid_value(path, dict(context), text))
    return errors


def _probe(probe: Mapping[str, Any], path: str, *, liveness: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    handlers = [field for field in ("exec", "httpGet", "tcpSocket", "grpc") if field in probe]
    for position, handler in enumerate(handlers):
        if position:
            errors.append(forbidden_field(f"{path}.{handler}", "may not specify more than 1 handler type"))
    if not handlers:
        errors.append(required(path, "must specify a handler type"))
    elif handlers[0] in ("httpGet", "tcpSocket", "grpc"):
        port = probe[handlers[0]].get("port", 0)
        errors += checks.port_number_or_name(port, f"{path}.{handlers[0]}.port")
    elif not probe["exec"].get("command"):
        errors.append(required(f"{path}.exec.command"))
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        errors += checks.not_negative(probe.get(field), f"{path}.{field}")
    if liveness and probe.get("successThreshold", 1) != 1:
        errors.append(invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors
