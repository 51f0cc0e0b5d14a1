"""PodDisruptionBudgets (spec/inference-service.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ome.api import keys
from ome.rendering.model import DeploymentMode, DisruptionInput, RenderedComponent

from .metadata import Json, Owner, object_metadata
from .services import replica_selector

IntOrString = int | str


class BudgetError(ValueError):
    """The budget cannot be resolved; the message begins `failed to resolve {c} PodDisruptionBudget`."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Exactly one of the two fields."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


def resolve_budget(component: str, wanted: DisruptionInput, default: Budget | None) -> Budget | None:
    """The component's own budget, else its mode's default, else none. Raises BudgetError."""
    minimum = _checked(component, "minAvailable", wanted.min_available)
    maximum = _checked(component, "maxUnavailable", wanted.max_unavailable)
    if minimum is not None and maximum is not None:
        raise BudgetError(
            f"failed to resolve {component} PodDisruptionBudget: minAvailable and maxUnavailable cannot both be set"
        )
    if minimum is None and maximum is None:
        return default
    return Budget(minimum, maximum)


def _checked(component: str, field: str, value: IntOrString | None) -> IntOrString | None:
    if value is None:
        return None
    if isinstance(value, int) and value >= 0:
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit() and int(value[:-1]) <= 100:
        return value
    raise BudgetError(
        f"failed to resolve {component} PodDisruptionBudget: {field} must be a non-negative integer or a percentage "
        f"from 0% to 100%, got {value!r}"
    )


def in_pods(budget: Budget, instances: int, pods_per_instance: int) -> Budget:
    """The budget of an OMENative component: always an integer `minAvailable`, counted in pods."""
    total = instances * pods_per_instance
    if budget.min_available is not None:
        return Budget(min_available=_scaled(budget.min_available, total))
    assert budget.max_unavailable is not None
    return Budget(min_available=max(0, total - _scaled(budget.max_unavailable, total)))


def _scaled(value: IntOrString, total: int) -> int:
    if isinstance(value, int):
        return value
    return -(-total * int(value.removesuffix("%")) // 100)


def disruption_budget(owner: Owner, component: RenderedComponent, budget: Budget) -> Json:
    """Body of the PodDisruptionBudget `{isvc}-{c}`; `budget` is in pods already for OMENative."""
    if component.mode is DeploymentMode.OME_NATIVE:
        selector: Mapping[str, str] = replica_selector(owner.name, component.component)
    else:
        selector = {keys.APP: component.selector_app}
    spec: Json = {"selector": {"matchLabels": dict(selector)}}
    if budget.min_available is not None:
        spec["minAvailable"] = budget.min_available
    else:
        spec["maxUnavailable"] = budget.max_unavailable
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_metadata(owner, component.name, labels=component.labels, annotations=component.annotations),
        "spec": spec,
    }
