"""Addresses and node ports of Services: given out when a Service is stored, checked when the user chooses them.

The addresses in use are counted along with the commits; node ports, which are rare, are read from the stored Services.
Part of admission, right before the commit.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import FieldError, invalid, invalid_value
from ome.local.apiserver.store import Event, EventType, Record

SERVICE_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/12")
FIRST_ADDRESS: Final = str(SERVICE_RANGE[1])
NODE_PORTS: Final = range(30000, 32768)
TRIES: Final = 64


class ServiceNetwork:
    """Admission plug-in that gives Services their addresses and ports."""

    def __init__(self, core: Core, chance: Random) -> None:
        self._core = core
        self._chance = chance
        self._addresses: dict[str, tuple[str, str]] | None = None
        core.store.on_commit(self._hear)

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def validate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if attributes.type.storage != "services" or attributes.subresource:
            return
        spec = obj.setdefault("spec", {})
        self._address(attributes, spec, old)
        self._node_ports(attributes, spec, old)

    # -- cluster addresses

    def _used(self) -> dict[str, tuple[str, str]]:
        """Every address in use, with the Service that has it. Read from the store once, then kept by `_hear`."""
        if self._addresses is None:
            self._addresses = {
                address: (record.namespace, record.name)
                for record in self._core.store.collection("services").all()
                for address in _addresses_of(record)
            }
        return self._addresses

    def _hear(self, resource: str, event: Event) -> None:
        if resource != "services" or self._addresses is None:
            return
        key = (event.record.namespace, event.record.name)
        if event.previous is not None:
            for address in _addresses_of(event.previous):
                if self._addresses.get(address) == key:
                    del self._addresses[address]
        if event.type is not EventType.DELETED:
            self._addresses.update(dict.fromkeys(_addresses_of(event.record), key))

    def _others(self, name: tuple[str, str]) -> Iterator[dict[str, Any]]:
        for record in self._core.store.collection("services").all():
            if (record.namespace, record.name) != name:
                yield record.parse().get("spec") or {}

    def _address(self, attributes: Attributes, spec: dict[str, Any], old: Object | None) -> None:
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
            return
        given = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        self._families(spec, headless=given == "None")
        if given == "None":
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
            return
        before = (old or {}).get("spec") or {}
        if given and given == before.get("clusterIP"):
            spec["clusterIP"], spec["clusterIPs"] = given, spec.get("clusterIPs") or [given]
            return
        if given:
            self._check_address(attributes, given)
        else:
            given = self._free_address()
        spec["clusterIP"], spec["clusterIPs"] = given, [given]

    def _families(self, spec: dict[str, Any], *, headless: bool) -> None:
        """One IPv4 address, except for a headless Service without a selector, which may stand for anything."""
        if headless and not spec.get("selector") and not spec.get("ipFamilies") and not spec.get("ipFamilyPolicy"):
            spec["ipFamilies"], spec["ipFamilyPolicy"] = ["IPv4", "IPv6"], "RequireDualStack"
            return
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _free_address(self) -> str:
        used = self._used()
        size = SERVICE_RANGE.num_addresses
        for _ in range(TRIES):
            address = str(SERVICE_RANGE[self._chance.randrange(257, size - 1)])
            if address not in used:
                return address
        return next(str(SERVICE_RANGE[n]) for n in range(2, size - 1) if str(SERVICE_RANGE[n]) not in used)

    def _check_address(self, attributes: Attributes, given: str) -> None:
        own = (attributes.namespace, attributes.name)
        shown = [given]
        try:
            inside = ipaddress.ip_address(given) in SERVICE_RANGE
        except ValueError:
            return
        if not inside:
            text = f"failed to allocate IP {given}: the provided network does not match the current range"
        elif self._used().get(given, own) != own:
            text = f"failed to allocate IP {given}: provided IP is already allocated"
        else:
            return
        raise invalid("Service", "", attributes.name, [invalid_value("spec.clusterIPs", shown, text)])

    # -- node ports

    def _node_ports(self, attributes: Attributes, spec: dict[str, Any], old: Object | None) -> None:
        ports = spec.get("ports") or []
        wants = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
        )
        if not wants:
            if spec.get("type") != "LoadBalancer":
                self._drop_old_node_ports(ports, old)
            return
        taken = {
            (port.get("nodePort"), port.get("protocol", "TCP"))
            for other in self._others((attributes.namespace, attributes.name))
            for port in other.get("ports") or ()
            if port.get("nodePort")
        }
        errors: list[FieldError] = []
        for index, port in enumerate(ports):
            number, protocol = port.get("nodePort"), port.get("protocol", "TCP")
            if not number:
                number = port["nodePort"] = self._free_port(ports, taken, protocol, port.get("port"))
            elif number not in NODE_PORTS:
                valid = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                detail = f"provided port is not in the valid range. The range of valid ports is {valid}"
                errors.append(invalid_value(f"spec.ports[{index}].nodePort", number, detail))
            elif (number, protocol) in taken:
                errors.append(
                    invalid_value(f"spec.ports[{index}].nodePort", number, "provided port is already allocated")
                )
            taken.add((number, protocol))
        if errors:
            raise invalid("Service", "", attributes.name, errors)

    def _drop_old_node_ports(self, ports: list[dict[str, Any]], old: Object | None) -> None:
        """A Service that stops being reachable on nodes gives its ports back unless it names them anew."""
        if old is None:
            return
        before = {port.get("nodePort") for port in (old.get("spec") or {}).get("ports") or ()}
        for port in ports:
            if port.get("nodePort") in before:
                port.pop("nodePort", None)

    def _free_port(self, ports: list[dict[str, Any]], taken: set[tuple[Any, str]], protocol: str, port: Any) -> int:
        same = next(
            (
                p["nodePort"]
                for p in ports
                if p.get("port") == port and p.get("nodePort") and p.get("protocol") != protocol
            ),
            None,
        )
        if isinstance(same, int) and (same, protocol) not in taken:
            return same
        numbers = {number for number, _ in taken}
        for _ in range(TRIES):
            number = self._chance.choice(NODE_PORTS)
            if number not in numbers:
                return number
        return next(number for number in NODE_PORTS if number not in numbers)


def _addresses_of(record: Record) -> tuple[str, ...]:
    found = (record.parse().get("spec") or {}).get("clusterIPs") or ()
    return tuple(address for address in found if address != "None")
