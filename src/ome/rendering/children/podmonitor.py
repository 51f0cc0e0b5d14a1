"""The PodMonitor of a component, for a Prometheus operator (spec/install-and-operate.md section 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api import keys
from ome.rendering.model import DeploymentMode, RenderedComponent

from .metadata import Json, Owner, object_metadata
from .services import component_selector

_DEFAULT_PATH = "/metrics"
_EXTRA_INTERVAL = "10s"


def pod_monitor(owner: Owner, component: RenderedComponent, config: Mapping[str, Any]) -> Json:
    """Body of the PodMonitor `{isvc}-{c}`.

    `config` is the operator's `podMonitor` entry, whose labels and relabelings are for OMENative components alone;
    the extra endpoints of `prometheus.ome.io/extra-endpoints` are for the other modes.
    """
    native = component.mode is DeploymentMode.OME_NATIVE
    path = component.annotations.get(keys.PROMETHEUS_PATH) or _DEFAULT_PATH
    endpoint: Json = {"port": component.service_ports[0]["name"], "path": path}
    labels = dict(component.labels)
    endpoints = [endpoint]
    if native:
        labels.update(config.get("labels") or {})
        endpoint.update({key: config[key] for key in ("relabelings", "metricRelabelings") if config.get(key)})
    else:
        endpoints += _extra(component.annotations.get(keys.EXTRA_ENDPOINTS, ""))
    selector = component_selector(owner.name, component)
    selector.pop(keys.RUNNER, None)
    selector.pop(keys.RAY_NODE_TYPE, None)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": object_metadata(owner, component.name, labels=labels, annotations=component.annotations),
        "spec": {"selector": {"matchLabels": selector}, "podMetricsEndpoints": endpoints},
    }


def _extra(text: str) -> list[Json]:
    """`<port-name>:<path>,...`; what is malformed is skipped."""
    found = []
    for part in text.split(","):
        port, separator, path = part.strip().partition(":")
        if port and separator and path:
            found.append({"port": port, "path": path, "interval": _EXTRA_INTERVAL})
    return found
