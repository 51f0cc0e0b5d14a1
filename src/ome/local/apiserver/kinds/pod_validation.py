"""What a pod or pod template is refused for: a faithful part of the real rules, in the order of a real server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
)
from ome.local.apiserver.kinds import checks, metadata, names, pod_containers, pod_placement, pod_volumes

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def template(value: Mapping[str, Any], path: str) -> list[FieldError]:
    """Faults of a pod template."""
    meta = value.get("metadata") or {}
    errors = metadata.label_errors(meta.get("labels") or {}, f"{path}.labels")
    errors += metadata.annotation_errors(meta.get("annotations") or {}, f"{path}.annotations")
    errors += spec(value.get("spec") or {}, f"{path}.spec")
    if value.get("spec", {}).get("ephemeralContainers"):
        errors.append(
            forbidden_field(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def spec(value: Mapping[str, Any], path: str) -> list[FieldError]:
    """Faults of a pod spec, in the order in which a real server finds them."""
    errors, volumes = pod_volumes.volumes(value.get("volumes") or (), f"{path}.volumes")
    containers = value.get("containers") or []
    if not containers:
        errors.append(required(f"{path}.containers"))
    seen: set[str] = set()
    errors += pod_containers.containers(containers, f"{path}.containers", volumes, seen, init=False)
    errors += pod_containers.host_ports(containers, f"{path}.containers", host_network=bool(value.get("hostNetwork")))
    errors += pod_containers.containers(
        value.get("initContainers") or (), f"{path}.initContainers", volumes, seen, init=True
    )
    errors += checks.one_of(value.get("restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    errors += checks.one_of(value.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    errors += metadata.label_errors(value.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += pod_placement.affinity(value.get("affinity") or {}, f"{path}.affinity")
    errors += pod_placement.tolerations(value.get("tolerations") or (), f"{path}.tolerations")
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value.get(field):
            errors += [invalid_value(f"{path}.{field}", value[field], text) for text in names.subdomain(value[field])]
    for field in ("hostname", "subdomain"):
        if value.get(field):
            errors += [invalid_value(f"{path}.{field}", value[field], text) for text in names.label(value[field])]
    errors += checks.not_negative(value.get("terminationGracePeriodSeconds"), f"{path}.terminationGracePeriodSeconds")
    errors += _dns(value, path)
    errors += _security(value.get("securityContext") or {}, f"{path}.securityContext")
    errors += _aliases(value.get("hostAliases") or (), f"{path}.hostAliases")
    deadline = value.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        errors.append(
            invalid_value(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    errors += pod_placement.gates(value, path)
    errors += pod_placement.spread(value.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    return errors


_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32


def _dns(value: Mapping[str, Any], path: str) -> list[FieldError]:
    config = value.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    errors: list[FieldError] = []
    if value.get("dnsPolicy") == "None":
        if config is None:
            errors.append(required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"))
        elif not servers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(required(f"{path}.dnsConfig.nameservers", text))
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        errors.append(invalid_value(f"{path}.dnsConfig.nameservers", list(servers), text))
    errors += [
        invalid_value(f"{path}.dnsConfig.nameservers[{index}]", server, checks.NO_ADDRESS)
        for index, server in enumerate(servers)
        if not checks.is_address(server)
    ]
    searches = (config or {}).get("searches") or ()
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        errors.append(invalid_value(f"{path}.dnsConfig.searches", list(searches), text))
    return errors


_IDENTITIES: Final = ("runAsUser", "runAsGroup", "fsGroup")


def _security(context: Mapping[str, Any], path: str) -> list[FieldError]:
    return [
        invalid_value(f"{path}.{field}", context[field], "must be between 0 and 2147483647, inclusive")
        for field in _IDENTITIES
        if field in context and not 0 <= context[field] < 2**31
    ]


def _aliases(aliases: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        if not checks.is_address(address):
            errors.append(invalid_value(f"{path}[{index}].ip", address, checks.NO_ADDRESS))
        for number, host in enumerate(alias.get("hostnames") or ()):
            place = f"{path}[{index}].hostnames[{number}]"
            errors += [invalid_value(place, host, text) for text in names.subdomain(host)]
    return errors


def pod(obj: Mapping[str, Any]) -> list[FieldError]:
    """Faults of a pod beyond its metadata."""
    errors = spec(obj["spec"], "spec")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(obj["spec"].get(field) or ()):
            image = container.get("image", "")
            if image and image != image.strip():
                text = "must not have leading or trailing whitespace"
                errors.append(invalid_value(f"spec.{field}[{index}].image", image, text))
    return errors
