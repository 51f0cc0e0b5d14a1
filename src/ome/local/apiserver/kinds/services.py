"""Service, EndpointSlice, Endpoints. Addresses and node ports are given out by the server, not here."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import checks, metadata, names
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_ADDRESSES: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class Service(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10_800)
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] in _WITH_NODE_PORTS:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_WITH_NODE_PORTS):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def on_create(self, obj: dict[str, Any]) -> None:
        _align_cluster_ips(obj["spec"], {})
        _drop_by_type(obj["spec"])

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        if subresource == "status":
            return
        spec, before = obj["spec"], old["spec"]
        if spec.get("type") == "ExternalName":
            for field in _ADDRESSES:
                spec.pop(field, None)
        elif before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
            for field in ("ipFamilies", "ipFamilyPolicy"):
                if field not in spec and field in before:
                    spec[field] = before[field]
        _align_cluster_ips(spec, before)
        _drop_by_type(spec, before)
        _keep_node_ports(spec, before)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        return _service_errors(obj["spec"])

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        errors: list[FieldError] = []
        if "ExternalName" not in (spec.get("type"), before.get("type")):
            after_ips, before_ips = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
            if before_ips and after_ips[:1] != before_ips[:1]:
                errors.append(invalid_value("spec.clusterIPs[0]", after_ips, "may not change once set"))
        return errors + self.errors(obj)

    def warnings(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        if obj["spec"].get("clusterIP") == "None" and obj["spec"].get("sessionAffinity") == "ClientIP":
            return ["spec.sessionAffinity: headless services do not support client IP affinity"]
        return []


def _align_cluster_ips(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """clusterIP and the first of clusterIPs are one thing under two names; the one that was changed leads."""
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs")
    if not address and not addresses:
        return
    if not addresses or (address != before.get("clusterIP") and addresses == before.get("clusterIPs")):
        spec["clusterIPs"] = [address] if address else []
    elif not address or addresses != before.get("clusterIPs"):
        spec["clusterIP"] = addresses[0]


def _drop_by_type(spec: dict[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """What a service of another type left behind goes, unless the request sets it anew."""
    kind = spec.get("type")
    if before is None or before.get("type") == kind:
        return
    if kind not in _WITH_NODE_PORTS:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
        spec.pop("externalTrafficPolicy", None)
        spec.pop("healthCheckNodePort", None)
    if kind != "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)
        spec.pop("loadBalancerClass", None)
    if kind == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    elif before.get("type") == "ExternalName":
        spec.pop("externalName", None)


def _keep_node_ports(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """A replace without node ports keeps the ones the server gave."""
    if spec.get("type") not in _WITH_NODE_PORTS:
        return
    known = {
        (port.get("protocol"), port.get("port")): port["nodePort"]
        for port in before.get("ports") or ()
        if port.get("nodePort")
    }
    for port in spec.get("ports") or ():
        key = (port.get("protocol"), port.get("port"))
        if not port.get("nodePort") and key in known:
            port["nodePort"] = known[key]


def _service_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = spec.get("type", "")
    ports = spec.get("ports") or []
    headless = (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] == "None"
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind == "ExternalName":
        name = spec.get("externalName", "")
        if not name:
            errors.append(required("spec.externalName"))
        else:
            errors += [
                invalid_value("spec.externalName", name, text) for text in names.subdomain(name.removesuffix("."))
            ]
    seen: set[str] = set()
    for index, port in enumerate(ports):
        errors += _port_errors(port, f"spec.ports[{index}]", named=len(ports) > 1, headless=headless, seen=seen)
    if spec.get("selector"):
        errors += metadata.label_errors(spec["selector"], "spec.selector")
    errors += checks.one_of(spec.get("sessionAffinity"), "spec.sessionAffinity", ("ClientIP", "None"))
    errors += checks.one_of(kind, "spec.type", _TYPES)
    errors += _repeated_ports(ports)
    errors += _node_port_errors(ports, kind)
    errors += _policy_errors(spec, kind)
    if kind != "ExternalName":
        errors += _address_errors(spec)
    return errors


def _port_errors(
    port: Mapping[str, Any], path: str, *, named: bool, headless: bool, seen: set[str]
) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name", "")
    if not name:
        if named:
            errors.append(required(f"{path}.name"))
    else:
        errors += [invalid_value(f"{path}.name", name, text) for text in names.label(name)]
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    errors += checks.port_number(port.get("port", 0), f"{path}.port")
    if not port.get("protocol"):
        errors.append(required(f"{path}.protocol"))
    else:
        errors += checks.one_of(port["protocol"], f"{path}.protocol", _PROTOCOLS)
    return errors + checks.port_number_or_name(port.get("targetPort", 0), f"{path}.targetPort")


def _repeated_ports(ports: list[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {
                "Name": "", "Protocol": port.get("protocol"), "AppProtocol": None, "Port": port.get("port", 0),
                "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            errors.append(duplicate(f"spec.ports[{index}]", shown))
        seen.add(key)
    return errors


def _node_port_errors(ports: list[Mapping[str, Any]], kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if not number:
            continue
        place = f"spec.ports[{index}].nodePort"
        if kind == "ClusterIP":
            errors.append(forbidden_field(place, "may not be used when `type` is 'ClusterIP'"))
            continue
        key = (port.get("protocol"), number)
        if key in seen:
            errors.append(duplicate(place, number))
        seen.add(key)
    return errors


_POLICIES: Final = ("Cluster", "Local")
_BALANCER_ONLY: Final = ("loadBalancerSourceRanges", "loadBalancerClass", "allocateLoadBalancerNodePorts")
_LONGEST_SESSION: Final = 86_400


def _policy_errors(spec: Mapping[str, Any], kind: str) -> list[FieldError]:
    """What goes only with some types."""
    errors: list[FieldError] = []
    external = spec.get("externalTrafficPolicy")
    if external is not None:
        if kind not in _WITH_NODE_PORTS and not (kind == "ClusterIP" and spec.get("externalIPs")):
            text = "may only be set for externally-accessible services"
            errors.append(invalid_value("spec.externalTrafficPolicy", external, text))
        else:
            errors += checks.one_of(external, "spec.externalTrafficPolicy", _POLICIES)
    if "internalTrafficPolicy" in spec:
        errors += checks.one_of(spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", _POLICIES)
    if kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        errors += [forbidden_field(f"spec.{field}", text) for field in _BALANCER_ONLY if spec.get(field) is not None]
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and external == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid_value("spec.healthCheckNodePort", spec["healthCheckNodePort"], text))
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _LONGEST_SESSION:
        place = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        errors.append(invalid_value(place, seconds, f"must be greater than 0 and less than {_LONGEST_SESSION}"))
    return errors


def _address_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == "None":
            if index or len(spec["clusterIPs"]) > 1:
                errors.append(
                    invalid_value(f"spec.clusterIPs[{index}]", address, "'None' must be the first and only value")
                )
            continue
        if not checks.is_address(address):
            errors.append(invalid_value(f"spec.clusterIPs[{index}]", address, checks.NO_ADDRESS))
    return errors


class EndpointSlice(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        return self._errors(obj, None)

    def _errors(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
        family = obj.get("addressType", "")
        if not family:
            return [required("addressType")]
        errors: list[FieldError] = []
        if family not in ("FQDN", "IPv4", "IPv6"):
            errors.append(not_supported("addressType", family, ("FQDN", "IPv4", "IPv6")))
        seen: set[str] = set()
        for index, port in enumerate(obj.get("ports") or ()):
            place = f"ports[{index}]"
            name = port.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{place}.name", name))
            seen.add(name)
            errors += checks.one_of(port.get("protocol"), f"{place}.protocol", _PROTOCOLS)
        if old is not None and values.equal(obj.get("endpoints"), old.get("endpoints")):
            return errors
        for index, endpoint in enumerate(obj.get("endpoints") or ()):
            errors += _endpoint_errors(endpoint, f"endpoints[{index}]", family)
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return self._errors(obj, old) + checks.immutable(obj, old, "addressType", "addressType", shown=None)


def _endpoint_errors(endpoint: Mapping[str, Any], path: str, family: str) -> list[FieldError]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        return [required(f"{path}.addresses", "must contain at least 1 address")]
    errors: list[FieldError] = []
    for index, address in enumerate(addresses):
        place = f"{path}.addresses[{index}]"
        if family == "FQDN":
            errors += [invalid_value(place, address, text) for text in names.subdomain(address)]
        else:
            errors += address_errors(address, place, family)
    return errors


def address_errors(address: str, path: str, family: str = "") -> list[FieldError]:
    """Faults of an endpoint's address: none, of the other family, or one that never is an endpoint."""
    if not checks.is_address(address):
        return [invalid_value(path, address, checks.NO_ADDRESS)]
    parsed = ipaddress.ip_address(address)
    errors: list[FieldError] = []
    if family and f"IPv{parsed.version}" != family:
        errors.append(invalid_value(path, address, f"must be an {family} address"))
    faults = (
        (parsed.is_unspecified, f"may not be unspecified ({address})"),
        (parsed.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (parsed.is_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
    return errors + [invalid_value(path, address, text) for wrong, text in faults if wrong]


class Endpoints(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            for number, address in enumerate(subset.get("addresses") or ()):
                errors += address_errors(address.get("ip", ""), f"subsets[{index}].addresses[{number}].ip")
            for number, port in enumerate(subset.get("ports") or ()):
                errors += checks.port_number(port.get("port", 0), f"subsets[{index}].ports[{number}].port")
        return errors

    def warnings(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        return ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
