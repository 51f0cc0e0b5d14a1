"""Deployment modes: which one a component runs in, and which combinations are refused (`spec/inference-service.md
section 3`).

Pure. Called by `ome.rendering.render`, by runtime selection (declared modes only), by admission and by the command
line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ome.api import keys
from ome.rendering.model import Component, DeploymentMode, DeploymentModeError, ModeSource, ServiceFacts

_POD_SETS = (Component.ENGINE, Component.DECODER)


@dataclass(frozen=True, slots=True)
class ModeChoice:
    mode: DeploymentMode
    source: ModeSource


def known_mode(value: Any) -> DeploymentMode | None:
    """The mode a text names, case-sensitively; None for every other value: such a value is skipped, not refused."""
    return DeploymentMode(value) if value in tuple(DeploymentMode) else None


def annotated_mode(component: Mapping[str, Any] | None) -> DeploymentMode | None:
    """The mode in a component's own `annotations` (a service's component or a runtime's config)."""
    return known_mode(((component or {}).get("annotations") or {}).get(keys.DEPLOYMENT_MODE))


def declared_mode(service: ServiceFacts, component: Component) -> DeploymentMode | None:
    """What the service itself asks for: the component's annotation, else `spec.deploymentMode`; its own metadata
    annotations say nothing."""
    return annotated_mode(service.components.get(component)) or known_mode(service.deployment_mode)


def is_virtual(service_annotations: Mapping[str, str]) -> bool:
    """The InferenceService's own metadata asks for VirtualDeployment: nothing is rendered at all."""
    return service_annotations.get(keys.DEPLOYMENT_MODE) == DeploymentMode.VIRTUAL_DEPLOYMENT


def choose_mode(
    component: Component, service: ServiceFacts, runtime_spec: Mapping[str, Any], effective: Mapping[str, Any]
) -> ModeChoice:
    """The first that speaks: component annotation (service before runtime), `spec.deploymentMode`, a merged leader or
    worker on engine or decoder, RawDeployment. `effective` is the merged component."""
    annotated = annotated_mode(service.components.get(component)) or annotated_mode(
        runtime_spec.get(component.config_key)
    )
    if annotated is not None:
        return ModeChoice(annotated, ModeSource.COMPONENT_ANNOTATION)
    of_service = known_mode(service.deployment_mode)
    if of_service is not None:
        return ModeChoice(of_service, ModeSource.SERVICE_SPEC)
    if component in _POD_SETS and (effective.get("leader") is not None or effective.get("worker") is not None):
        return ModeChoice(DeploymentMode.OME_NATIVE, ModeSource.LEADER_WORKER_SHAPE)
    return ModeChoice(DeploymentMode.RAW_DEPLOYMENT, ModeSource.DEFAULT)


def check_mode(component: Component, mode: DeploymentMode, effective: Mapping[str, Any]) -> None:
    """Raises `DeploymentModeError` when this component cannot run in this mode."""
    if mode is DeploymentMode.VIRTUAL_DEPLOYMENT:
        raise DeploymentModeError(
            f"{component}: deployment mode VirtualDeployment applies to a whole InferenceService; set it in "
            "metadata.annotations, or choose RawDeployment or OMENative",
            component,
        )
    if mode is not DeploymentMode.MULTI_NODE:
        return
    if component is Component.ROUTER:
        raise DeploymentModeError(
            "router: deployment mode MultiNode is for engine and decoder; choose RawDeployment or OMENative", component
        )
    if effective.get("worker") is None:
        raise DeploymentModeError(
            f"{component}: deployment mode MultiNode requires leader and worker; declare both, or choose RawDeployment "
            "or OMENative",
            component,
        )


def mode_combination_error(engine: DeploymentMode | None, decoder: DeploymentMode | None) -> str | None:
    """The text that refuses an engine and a decoder of which only one is OMENative; None (printed `""`) = no mode
    declared."""
    if engine == decoder or DeploymentMode.OME_NATIVE not in (engine, decoder):
        return None
    return (
        f'InvalidDeploymentModeCombination: engine deploymentMode="{engine or ""}" does not match decoder '
        f'deploymentMode="{decoder or ""}"; when either is OMENative, both must use the same value'
    )
