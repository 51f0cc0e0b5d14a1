"""The deployment mode of a service's components, from raw objects (spec/inference-service.md section 3). Pure.

The operator's own chain is `ome.rendering.modes`, on typed facts; it is not used here because importing the typed
kinds costs more than a whole command may take. A unit test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ome.api.keys import DEPLOYMENT_MODE
from ome.cli.evidence import objects

OME_NATIVE = "OMENative"
VIRTUAL = "VirtualDeployment"
_MODES = ("RawDeployment", OME_NATIVE, "MultiNode", VIRTUAL)


class Mode(NamedTuple):
    component: str
    mode: str
    source: str


def _annotated(component: Any) -> str:
    value = objects.text(component, "annotations", DEPLOYMENT_MODE)
    return value if value in _MODES else ""


def _choose(component: str, own: Mapping[str, Any], recipe: Mapping[str, Any], service_mode: str) -> tuple[str, str]:
    annotated = _annotated(own) or _annotated(recipe)
    if annotated:
        return annotated, "ComponentAnnotation"
    if service_mode in _MODES:
        return service_mode, "ServiceSpec"
    gang = any(layer.get(part) is not None for layer in (own, recipe) for part in ("leader", "worker"))
    if gang and component != "router":
        return OME_NATIVE, "LeaderWorkerShape"
    return "RawDeployment", "Default"


def component_modes(service: Mapping[str, Any], runtime_spec: Mapping[str, Any]) -> tuple[Mode, ...]:
    """The mode of each component the service declares, and which line of the chain said so."""
    virtual = objects.annotation(service, DEPLOYMENT_MODE) == VIRTUAL
    found = []
    for component in objects.COMPONENTS:
        own = objects.get(service, "spec", component)
        if not isinstance(own, Mapping):
            continue
        recipe = objects.mapping(runtime_spec, f"{component}Config")
        chosen = _choose(component, own, recipe, objects.text(service, "spec", "deploymentMode"))
        found.append(Mode(component, *((VIRTUAL, "ServiceAnnotation") if virtual else chosen)))
    return tuple(found)
