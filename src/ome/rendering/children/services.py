"""Services: one for each component, and the one that clients use (spec/inference-service.md sections 4 and 5).

Headless and revision Services belong to the InferenceReplica engine, not here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ome.api import keys, names
from ome.rendering.metadata import service_annotations
from ome.rendering.model import DeploymentMode, RenderedComponent

from .metadata import Json, Owner, object_metadata

EXTERNAL_COMPONENT = "external-service"

_SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")
_LEADER = "leader"
_EXTERNAL_ANNOTATION_PREFIXES = (
    "service.beta.kubernetes.io/",
    "cloud.google.com/",
    "service.kubernetes.io/",
)


def service_type(annotations: Mapping[str, str]) -> str:
    """The wanted type of a Service; what is not one of the three reads as ClusterIP (case matters)."""
    wanted = annotations.get(keys.SERVICE_TYPE, "")
    return wanted if wanted in _SERVICE_TYPES else "ClusterIP"


def component_selector(service: str, component: RenderedComponent) -> dict[str, str]:
    """The pods of the workload of the mode in force."""
    match component.mode:
        case DeploymentMode.OME_NATIVE:
            return replica_selector(service, component.component, leaders_only=component.leaders_only)
        case DeploymentMode.MULTI_NODE:
            return {keys.APP: component.selector_app, keys.RAY_NODE_TYPE: "head"}
        case _:
            return {keys.APP: component.selector_app}


def replica_selector(service: str, component: str, *, leaders_only: bool = False) -> dict[str, str]:
    """Pods of an InferenceReplica; `service` is the value of their label, a standalone replica's own name too."""
    selector = {
        keys.COMPONENT: str(component),
        keys.INFERENCE_SERVICE: service,
        keys.MANAGED_BY: keys.MANAGED_BY_OMENATIVE,
    }
    if leaders_only:
        selector[keys.RUNNER] = _LEADER
    return selector


def component_service(owner: Owner, component: RenderedComponent) -> Json:
    """Body of the Service `{isvc}-{c}`.

    Its metadata and type are those of its creation: the caller keeps what stands on one that exists.
    """
    kind = service_type(component.annotations)
    spec: Json = {
        "type": kind,
        "selector": component_selector(owner.name, component),
        "ports": list(component.service_ports),
    }
    address = component.annotations.get(keys.LOAD_BALANCER_IP)
    if kind == "LoadBalancer" and address:
        spec["loadBalancerIP"] = address
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(
            owner,
            names.component_service(owner.name, component.component),
            labels=component.labels,
            annotations=service_annotations(component.annotations),
        ),
        "spec": spec,
    }


def front_selector(service: str, component: str) -> dict[str, str]:
    """What Service `{isvc}` selects: every pod of the component, of both workloads after a change of mode."""
    return {keys.INFERENCE_SERVICE: service, keys.COMPONENT: str(component)}


def external_service(
    owner: Owner, selector: Mapping[str, str], port: Mapping[str, object], annotations: Mapping[str, str]
) -> Json:
    """Body of the Service `{isvc}`: one port named `http`, two labels, and a cloud's own annotations only.

    `port` is the first port of the component's Service; `annotations` are the InferenceService's.
    """
    kept = {key: value for key, value in annotations.items() if key.startswith(_EXTERNAL_ANNOTATION_PREFIXES)}
    number = port["port"]
    exposed = {"name": "http", "port": number, "targetPort": number, "protocol": port.get("protocol", "TCP")}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(
            owner,
            names.shortened(owner.name),
            labels={keys.INFERENCE_SERVICE: owner.name, keys.COMPONENT: EXTERNAL_COMPONENT},
            annotations=kept,
        ),
        "spec": {"type": service_type(annotations), "selector": dict(selector), "ports": [exposed]},
    }
