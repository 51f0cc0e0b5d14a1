"""What an accelerator class does to a component's pods: resources, node affinity, argument and environment overrides.

Pure (`spec/serving-runtimes.md sections 7.3, 7.5, 8.3`). Which class it is, `ome.runtimes.accelerators` decides.
Called by `ome.rendering.pods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from ome.api.quantity import parse_quantity
from ome.rendering.arguments import merge_flags, set_parallelism
from ome.rendering.formats import best_entry
from ome.rendering.model import AcceleratorFacts, Json, ModelFacts, RuntimeFacts, SelectedAccelerator


def class_resources(accelerator: AcceleratorFacts) -> dict[str, str]:
    """Resource name -> quantity a pod of this class asks for."""
    listed = accelerator.spec.get("resources") or []
    return {item["name"]: str(item.get("quantity") or "1") for item in listed}


def class_node_selector(accelerator: AcceleratorFacts) -> dict[str, str]:
    return dict((accelerator.spec.get("discovery") or {}).get("nodeSelector") or {})


def class_node_affinity(accelerator: AcceleratorFacts) -> Json | None:
    """Only the node affinity of a class reaches pods."""
    affinity = (accelerator.spec.get("discovery") or {}).get("affinity") or {}
    found = affinity.get("nodeAffinity")
    return deepcopy(found) if found else None


def selected(accelerator: AcceleratorFacts) -> SelectedAccelerator:
    """For the component's status."""
    return SelectedAccelerator(
        accelerator_class=accelerator.name,
        reason=accelerator.reason,
        node_selector=class_node_selector(accelerator),
        resource_requests=class_resources(accelerator),
    )


def class_overrides(
    accelerator: AcceleratorFacts | None, runtime: RuntimeFacts, model: ModelFacts | None
) -> Mapping[str, Any]:
    """The `acceleratorConfig` entry that applies, {} without one. Without a model no entry can match."""
    if accelerator is None or model is None:
        return {}
    entry = best_entry(runtime.spec.get("supportedModelFormats") or [], model.spec, auto_select_only=runtime.selected)
    config = ((entry or {}).get("acceleratorConfig") or {}).get(accelerator.name)
    return config or {}


def set_resources(container: Json, accelerator: AcceleratorFacts, service_runner: Mapping[str, Any] | None) -> None:
    """Each listed resource as request and limit, unless the service's own runner says anything about resources."""
    wanted = class_resources(accelerator)
    if not wanted or (service_runner or {}).get("resources"):
        return
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources.setdefault(kind, {}).update(wanted)


def override_arguments(container: Json, overrides: Mapping[str, Any]) -> None:
    """`runtimeArgsOverride`, then `tensorParallelismOverride`."""
    flags = overrides.get("runtimeArgsOverride") or []
    if flags:
        container["args"] = merge_flags(container.get("args") or [], container.get("command") or [], flags)
    set_parallelism(container, overrides.get("tensorParallelismOverride") or {})


def accelerator_count(container: Mapping[str, Any], counted: Iterable[str]) -> int:
    """Accelerators one pod asks for, over the operator's `acceleratorResources`: the limit, else the request."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(int(parse_quantity(amounts[name])) for name in set(counted) if name in amounts)
