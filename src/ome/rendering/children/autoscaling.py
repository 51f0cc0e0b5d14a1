"""Which autoscaler a component has, and the HorizontalPodAutoscaler or ScaledObject for it
(spec/inference-service.md section 7).

The whole autoscaler comes from one layer: the service's component, its runtime, the legacy annotations, the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ome.api import keys
from ome.rendering.model import AutoscalerLayers, DeploymentMode, RenderedComponent

from .metadata import Json, Owner, object_metadata

AutoscalerClass = Literal["HPA", "KEDA", "External", "None"]
Source = Literal["isvc", "policy", "runtime", "legacy", "default"]

SCALED_OBJECT_PREFIX = "scaledobject-"

_DEFAULT_UTILIZATION = 80
_MANAGED_BY: dict[str, str] = {"HPA": "ome", "KEDA": "ome", "External": "external", "None": "none"}
_LEGACY_CLASSES: dict[str, AutoscalerClass] = {"hpa": "HPA", "keda": "KEDA", "external": "External"}
_KEDA_FIELDS = ("triggers", "advanced", "pollingInterval", "cooldownPeriod", "idleReplicaCount", "fallback")


class AutoscalerError(ValueError):
    """The autoscaler as declared cannot be made into an object."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """The choice for one component. `hpa` and `keda` are the blocks as the user wrote them."""

    kind: AutoscalerClass
    source: Source
    hpa: Mapping[str, Any] = field(default_factory=dict)
    keda: Mapping[str, Any] = field(default_factory=dict)

    @property
    def managed_by(self) -> str:
        """`status.components.{c}.autoscaler.managedBy`."""
        return _MANAGED_BY[self.kind]


def choose_autoscaler(layers: AutoscalerLayers, mode: DeploymentMode) -> Autoscaler:
    """The first layer that speaks; the legacy annotations speak for RawDeployment alone.

    AutoscalerPolicy references are resolved before this (feature gate), not here.
    """
    if layers.service:
        return _from_block(layers.service, "isvc")
    if layers.runtime:
        return _from_block(layers.runtime, "runtime")
    annotations = layers.annotations
    legacy = keys.AUTOSCALER_CLASS in annotations or keys.TARGET_UTILIZATION in annotations
    if mode is DeploymentMode.RAW_DEPLOYMENT and legacy:
        return _from_annotations(annotations)
    return Autoscaler("HPA", "default")


def _from_block(block: Mapping[str, Any], source: Source) -> Autoscaler:
    return Autoscaler(block["class"], source, block.get("hpa") or {}, block.get("keda") or {})


def _from_annotations(annotations: Mapping[str, str]) -> Autoscaler:
    kind = _LEGACY_CLASSES.get(annotations.get(keys.AUTOSCALER_CLASS, "hpa"), "HPA")
    utilization = annotations.get(keys.TARGET_UTILIZATION, "")
    percent = int(utilization) if utilization.isdigit() else _DEFAULT_UTILIZATION
    return Autoscaler(kind, "legacy", {"metrics": [_cpu_metric(percent)]})


def _cpu_metric(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def scale_target(component: RenderedComponent) -> dict[str, str]:
    """`scaleTargetRef` of scalers and of `status.components.{c}`; the modes Raw and OMENative have one."""
    if component.mode is DeploymentMode.OME_NATIVE:
        return {"apiVersion": "ome.io/v1beta1", "kind": "InferenceReplica", "name": component.name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": component.name}


def pod_autoscaler(owner: Owner, component: RenderedComponent, autoscaler: Autoscaler) -> Json:
    """Body of the HorizontalPodAutoscaler `{isvc}-{c}`."""
    spec: Json = {
        "scaleTargetRef": scale_target(component),
        "minReplicas": max(1, component.replicas.minimum),
        "maxReplicas": component.replicas.maximum,
        "metrics": autoscaler.hpa.get("metrics") or [_cpu_metric(_DEFAULT_UTILIZATION)],
    }
    if autoscaler.hpa.get("behavior"):
        spec["behavior"] = autoscaler.hpa["behavior"]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _metadata(owner, component.name, component),
        "spec": spec,
    }


def scaled_object_name(component: RenderedComponent) -> str:
    """KEDA's object has a name of its own kind."""
    return f"{SCALED_OBJECT_PREFIX}{component.name}"


def scaled_object(owner: Owner, component: RenderedComponent, autoscaler: Autoscaler) -> Json:
    """Body of the ScaledObject, KEDA's own fields word for word. Raises AutoscalerError without a trigger."""
    if not autoscaler.keda.get("triggers"):
        raise AutoscalerError(f"{component.component}: KEDA autoscaler requires at least one trigger")
    spec: Json = {
        "scaleTargetRef": scale_target(component),
        "minReplicaCount": component.replicas.minimum,
        "maxReplicaCount": component.replicas.maximum,
    }
    spec.update({name: autoscaler.keda[name] for name in _KEDA_FIELDS if name in autoscaler.keda})
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": _metadata(owner, scaled_object_name(component), component),
        "spec": spec,
    }


def _metadata(owner: Owner, name: str, component: RenderedComponent) -> Json:
    labels, annotations = component.labels, component.annotations
    propagated = f"{','.join(sorted(labels))}|{','.join(sorted(annotations))}"
    return object_metadata(
        owner, name, labels=labels, annotations={**annotations, keys.AUTOSCALER_PROPAGATED_KEYS: propagated}
    )
