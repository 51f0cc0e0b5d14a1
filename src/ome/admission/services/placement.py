"""Rule 20: placement and routing, as far as the schema cannot say it (`spec/api-types.md` section 12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ome.admission.services.proposal import Proposal
from ome.api.duration import parse_nanoseconds
from ome.api.quantity import parse_quantity

Json = dict[str, Any]

_GATE_FORBIDDEN = (401, 403, 429)


def placement_and_routing(proposal: Proposal) -> str:
    return next(_problems(proposal.spec), "")


def _problems(spec: Json) -> Iterator[str]:
    placement, routing = spec.get("placement") or {}, spec.get("routing") or {}
    if placement.get("replacementTimeout") is not None:
        yield from _positive("spec.placement.replacementTimeout", placement["replacementTimeout"])
    for cluster, factor in (routing.get("capacityFactors") or {}).items():
        if parse_quantity(factor) <= 0:
            yield f"spec.routing.capacityFactors[{cluster}] must be > 0, got {factor}"
    for name in ("probe", "capacity"):
        part = routing.get(name) or {}
        if part.get("disabled") and len(part) > 1:
            yield f"spec.routing.{name}.disabled excludes every other field of spec.routing.{name}"
        yield from _timing(f"spec.routing.{name}", part)
    for status in (routing.get("probe") or {}).get("gateStatuses") or []:
        if status in _GATE_FORBIDDEN:
            yield f"spec.routing.probe.gateStatuses must not hold {status}"
    capacity = routing.get("capacity") or {}
    if (capacity.get("quorum") or 0) > (capacity.get("samples") or 1):
        yield "spec.routing.capacity.quorum must be <= samples"


def _timing(where: str, part: Json) -> Iterator[str]:
    for field in ("period", "timeout"):
        if part.get(field) is not None:
            yield from _positive(f"{where}.{field}", part[field])
    if part.get("period") and part.get("timeout") and _amount(part["timeout"]) >= _amount(part["period"]):
        yield f"{where}.timeout must be shorter than {where}.period"


def _positive(where: str, value: str) -> Iterator[str]:
    if _amount(value) <= 0:
        yield f"{where} must be a duration > 0, got {value}"


def _amount(value: str) -> int:
    try:
        return parse_nanoseconds(value)
    except ValueError:
        return 0
