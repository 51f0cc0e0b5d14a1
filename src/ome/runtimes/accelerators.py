"""Accelerator classes: which one a component gets, and which nodes belong to a class (`spec/serving-runtimes.md
section 8`).

Pure. What a class does to pods is `ome.rendering.accelerators`. Called by `ome.services`, the accelerator-class
controller and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ome.api.core import Node
from ome.api.quantity import parse_quantity
from ome.rendering.model import AcceleratorFacts, Component, ServiceFacts

ClassLookup = Callable[[str], Mapping[str, Any] | None]
"""Name -> spec of an AcceleratorClass, None when there is none."""

_GIB = 1024**3
_NEVER = Fraction(10**30)
_FIGURES = {
    "fp32": "fp32Tflops",
    "fp16": "fp16Tflops",
    "bf16": "fp16Tflops",
    "fp8": "int8Tops",
    "int8": "int8Tops",
    "fp4": "int4Tops",
    "int4": "int4Tops",
}
_DEFAULT_FIGURE = "fp16Tflops"
_TIERS = {"low": 0, "medium": 1, "high": 2}


class AcceleratorClassNotFoundError(Exception):
    """A class that is named and does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"accelerator class {name} not found at cluster scope")


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    spec: Mapping[str, Any]

    @property
    def memory(self) -> int:
        """Whole GiB, rounded down."""
        amount = _quantity(_part(self.spec, "capabilities").get("memoryGB"))
        return 0 if amount is None else int(amount / _GIB)

    @property
    def bandwidth(self) -> Fraction:
        return _quantity(_part(self.spec, "capabilities").get("memoryBandwidthGBps")) or Fraction(0)

    def compute(self, precisions: Iterable[str]) -> int:
        """The figure of the first preferred precision that the class states, else fp16."""
        figures = _part(_part(self.spec, "capabilities"), "performance")
        wanted = (_FIGURES.get(precision.lower()) for precision in precisions)
        for figure in (*wanted, _DEFAULT_FIGURE):
            if figure and figures.get(figure):
                return int(figures[figure])
        return 0


def choose_accelerator(
    service: ServiceFacts, component: Component, runtime_spec: Mapping[str, Any], lookup: ClassLookup
) -> AcceleratorFacts | None:
    """The class of one component; a router never has one, nor a component of a runtime that lists none.

    A named class beats any policy and need not be in the runtime's list. Raises `AcceleratorClassNotFoundError` for a
    named one that does not exist; under a policy missing classes are skipped."""
    listed = _part(runtime_spec, "acceleratorRequirements").get("acceleratorClasses") or []
    if component is Component.ROUTER or not listed:
        return None
    override = _part(service.components.get(component) or {}, "acceleratorOverride")
    selector = service.accelerator_selector
    named = override.get("acceleratorClass") or selector.get("acceleratorClass")
    if named:
        spec = lookup(named)
        if spec is None:
            raise AcceleratorClassNotFoundError(named)
        return AcceleratorFacts(name=named, spec=spec, reason=f"named by spec.{_source(component, override)}")
    policy = override.get("policy") or selector.get("policy")
    if not policy:
        return None
    known = [_Candidate(name, spec) for name in listed if (spec := lookup(name)) is not None]
    constraints = _part(selector, "constraints")
    chosen = _by_policy(policy, [item for item in known if _passes(item, constraints)], constraints)
    if chosen is None:
        return None
    return AcceleratorFacts(name=chosen.name, spec=chosen.spec, reason=f"chosen by policy {policy}")


def node_matches(spec: Mapping[str, Any], labels: Mapping[str, str], capacity: Mapping[str, str]) -> bool:
    """All selector labels equal and every listed resource present above zero; a class with neither matches every
    node."""
    selector = _part(_part(spec, "discovery"), "nodeSelector")
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return all((_quantity(capacity.get(item["name"])) or 0) > 0 for item in spec.get("resources") or [])


def matching_nodes(spec: Mapping[str, Any], nodes: Iterable[Node]) -> tuple[str, ...]:
    """Names of the nodes of a class, sorted; cordoned and unready ones count."""
    return tuple(
        sorted(node.metadata.name for node in nodes if node_matches(spec, node.metadata.labels, node.status.capacity))
    )


def _source(component: Component, override: Mapping[str, Any]) -> str:
    return f"{component}.acceleratorOverride" if override.get("acceleratorClass") else "acceleratorSelector"


def _passes(item: _Candidate, constraints: Mapping[str, Any]) -> bool:
    capabilities = _part(item.spec, "capabilities")
    if item.name in (constraints.get("excludedClasses") or []):
        return False
    families = {family.lower() for family in constraints.get("architectureFamilies") or []}
    if families and not families & _families(item.spec):
        return False
    minimum, maximum = constraints.get("minMemory"), constraints.get("maxMemory")
    if (minimum is not None and item.memory < minimum) or (maximum is not None and item.memory > maximum):
        return False
    features = {feature.lower() for feature in capabilities.get("features") or []}
    if not {feature.lower() for feature in constraints.get("requiredFeatures") or []} <= features:
        return False
    oldest = constraints.get("minArchitectureVersion")
    # Compared as text, as upstream does: 10.0 < 9.0.
    return not oldest or (capabilities.get("computeCapability") or "") >= oldest


def _families(spec: Mapping[str, Any]) -> set[str]:
    family, vendor = str(spec.get("family") or "").lower(), str(spec.get("vendor") or "").lower()
    return {family, f"{vendor}-{family}"}


def _by_policy(policy: str, items: list[_Candidate], constraints: Mapping[str, Any]) -> _Candidate | None:
    """Ties go to the class that the runtime lists first."""
    precisions = constraints.get("preferredPrecisions") or []
    match policy:
        case "BestFit":
            return max(items, key=lambda item: _fit(item, constraints, precisions), default=None)
        case "Cheapest":
            priced = [item for item in items if item.spec.get("cost")]
            return min(priced, key=lambda item: _price(_part(item.spec, "cost")), default=None)
        case "MostCapable":
            return max(items, key=lambda item: _capability(item, items, precisions), default=None)
        case "FirstAvailable":
            return items[0] if items else None
    return None


def _fit(item: _Candidate, constraints: Mapping[str, Any], precisions: Iterable[str]) -> float:
    """Memory nearest to what is asked counts most; less compute than asked costs up to a third of that."""
    wanted = constraints.get("minMemory") or 0
    memory = 1 / (1 + abs(item.memory - wanted) / max(wanted, 1))
    least = constraints.get("minComputePerformanceTFLOPS") or 0
    compute = min(1.0, item.compute(precisions) / least) if least else 1.0
    return memory + compute / 3


def _price(cost: Mapping[str, Any]) -> tuple[Fraction, Fraction, int, str]:
    hourly = _quantity(cost.get("spotPerHour"))
    if hourly is None:
        hourly = _quantity(cost.get("perHour"))
    tokens = _quantity(cost.get("perMillionTokens"))
    tier = str(cost.get("tier") or "")
    return (
        _NEVER if hourly is None else hourly,
        _NEVER if tokens is None else tokens,
        _TIERS.get(tier.lower(), len(_TIERS)),
        tier,
    )


def _capability(item: _Candidate, items: list[_Candidate], precisions: Iterable[str]) -> float:
    """Each figure relative to the best on offer; memory counts most."""

    def share(value: Fraction | int, best: Fraction | int) -> float:
        return float(value / best) if best else 0.0

    wanted = list(precisions)
    return (
        3 * share(item.memory, max(other.memory for other in items))
        + 1.5 * share(item.bandwidth, max(other.bandwidth for other in items))
        + share(item.compute(wanted), max(other.compute(wanted) for other in items))
    )


def _part(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = holder.get(key)
    return part if isinstance(part, Mapping) else {}


def _quantity(value: Any) -> Fraction | None:
    if value is None or value == "":
        return None
    try:
        return parse_quantity(value)
    except ValueError:
        return None
