"""The columns of Services, endpoints and ingresses."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ome.local.apiserver.printing.layouts import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Object,
    column,
    look,
    plain_selector,
    text,
)

_CORE: Final = "io.k8s.api.core.v1."


def _external(obj: Object, now: datetime) -> str:
    spec = obj.get("spec") or {}
    external = list(spec.get("externalIPs") or ())
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    if kind == "LoadBalancer":
        found = [entry.get("ip") or entry.get("hostname") for entry in look(obj, "status.loadBalancer.ingress") or ()]
        shown = [address for address in [*found, *external] if address]
        return ",".join(shown) if shown else "<pending>"
    return ",".join(external) or NONE


def _service_ports(obj: Object, now: datetime) -> str:
    out = []
    for port in look(obj, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        out.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(out) or NONE


def _cluster_address(obj: Object, now: datetime) -> str:
    addresses = look(obj, "spec.clusterIPs") or ()
    return str(addresses[0]) if addresses else NONE


def services() -> list[Column]:
    spec = _CORE + "ServiceSpec#"
    return [
        NAME,
        column("Type", text("spec.type"), spec + "type"),
        column("Cluster-IP", _cluster_address, spec + "clusterIP"),
        column("External-IP", _external, spec + "externalIPs"),
        column("Port(s)", _service_ports, spec + "ports"),
        AGE,
        plain_selector("spec.selector", spec + "selector"),
    ]


def endpoints(obj: Object, now: datetime) -> str:
    shown: list[str] = []
    total = 0
    for subset in obj.get("subsets") or ():
        ports = subset.get("ports") or [{}]
        for port in ports:
            for address in subset.get("addresses") or ():
                total += 1
                if len(shown) < 3:
                    shown.append(f"{address.get('ip')}:{port['port']}" if port.get("port") else str(address.get("ip")))
    if not shown:
        return NONE
    joined = ",".join(shown)
    return f"{joined} + {total - len(shown)} more..." if total > len(shown) else joined


def slice_ports(obj: Object, now: datetime) -> str:
    ports = obj.get("ports")
    if not ports:
        return UNSET
    return ",".join(_short([str(p.get("port")) if p.get("port") is not None else "*" for p in ports], 3))


def slice_endpoints(obj: Object, now: datetime) -> str:
    addresses = [str(a) for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    return ",".join(_short(addresses, 3)) if addresses else UNSET


def _short(values: list[str], limit: int) -> list[str]:
    return (
        values
        if len(values) <= limit
        else [*values[: limit - 1], f"{values[limit - 1]} + {len(values) - limit} more..."]
    )


def _ingress_hosts(obj: Object, now: datetime) -> str:
    hosts = [rule.get("host") for rule in look(obj, "spec.rules") or () if rule.get("host")]
    if not hosts:
        return "*"
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")


def _ingress_addresses(obj: Object, now: datetime) -> str:
    found = [entry.get("ip") or entry.get("hostname") for entry in look(obj, "status.loadBalancer.ingress") or ()]
    return ",".join(address for address in found if address)


def ingresses() -> list[Column]:
    spec = "io.k8s.api.networking.v1.IngressSpec#"
    return [
        NAME,
        column(
            "Class",
            text("spec.ingressClassName", NONE),
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        column("Hosts", _ingress_hosts, "Hosts that incoming requests are matched against before the ingress rule"),
        column("Address", _ingress_addresses, "Address is a list containing ingress points for the load-balancer"),
        column("Ports", lambda obj, now: "80, 443" if look(obj, "spec.tls") else "80", spec + "tls"),
        AGE,
    ]


def parameters(obj: Object, now: datetime) -> str:
    reference = look(obj, "spec.parameters")
    if not reference:
        return NONE
    group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
    return f"{reference.get('kind')}{group}/{reference.get('name')}"
