"""A rendered component as tests need it."""

from __future__ import annotations

from typing import Any

from ome.rendering.model import (
    AutoscalerLayers,
    Component,
    DeploymentMode,
    DisruptionInput,
    ModeSource,
    RenderedComponent,
    ReplicaBounds,
)


def rendered(**changes: Any) -> RenderedComponent:
    """The engine of the service `chat`, RawDeployment, one container with one port."""
    component: Component = changes.get("component", Component.ENGINE)
    labels = changes.get(
        "labels", {"app": f"chat-{component}", "component": component.value, "ome.io/inferenceservice": "chat"}
    )
    annotations = changes.get("annotations", {"ome.io/serving-runtime": "rt"})
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "ome-container", "image": "engine:1", "ports": [{"containerPort": 8080}]}]},
    }
    values: dict[str, Any] = {
        "component": component,
        "name": f"chat-{component}",
        "mode": DeploymentMode.RAW_DEPLOYMENT,
        "mode_source": ModeSource.DEFAULT,
        "effective": {},
        "template": template,
        "labels": labels,
        "annotations": annotations,
        "selector_app": f"chat-{component}",
        "service_ports": ({"name": "http1", "port": 8080, "targetPort": 8080, "protocol": "TCP"},),
        "replicas": ReplicaBounds(minimum=1, maximum=3),
        "lifecycle": {},
        "disruption": DisruptionInput(),
        "autoscaler": AutoscalerLayers(),
        **changes,
    }
    return RenderedComponent(**values)
