"""What pods ask for and what nodes have, as exact amounts. Pure; used by the scheduler and the kubelet's admission."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from ome.api.quantity import parse_quantity
from ome.local.objects import Object

Amounts = dict[str, Fraction]
PODS: Final = "pods"


def parsed(values: Mapping[str, Any] | None) -> Amounts:
    """A raw resource list as amounts; what cannot be read counts as nothing."""
    found: Amounts = {}
    for name, value in (values or {}).items():
        try:
            found[name] = parse_quantity(value)
        except ValueError:
            continue
    return found


def pod_requests(pod: Object) -> Amounts:
    """The pod's effective request: the containers and sidecars together, or the largest init container if that is
    more."""
    total: Amounts = {}
    for container in pod.spec.get("containers") or ():
        add(total, _request(container))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in pod.spec.get("initContainers") or ():
        wanted = _request(container)
        if container.get("restartPolicy") == "Always":
            add(sidecars, wanted)
            continue
        add(wanted, sidecars)
        for name, amount in wanted.items():
            largest[name] = max(largest.get(name, Fraction(0)), amount)
    add(total, sidecars)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    for name, amount in parsed((pod.spec.get("resources") or {}).get("requests")).items():
        total[name] = amount
    add(total, parsed(pod.spec.get("overhead")))
    return {name: amount for name, amount in total.items() if amount}


def _request(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return {**parsed(resources.get("limits")), **parsed(resources.get("requests"))}


def add(total: Amounts, more: Amounts) -> None:
    """Add amounts to a total in place."""
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount
