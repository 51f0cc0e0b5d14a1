"""Services: one for each component, and the one that clients use (spec/inference-service.md sections 4 and 5).

Headless and revision Services belong to the InferenceReplica engine, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api import keys, names
from ome.rendering.metadata import is_copied, service_annotations
from ome.rendering.model import DeploymentMode, RenderedComponent

from .metadata import Json, Owner, object_metadata

EXTERNAL_COMPONENT = "external-service"

_SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")
_LEADER = "leader"
_DEFAULT_PORT = 8080
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


def referenced_service(
    owner: Owner, component: str, replica: str, ports: tuple[Json, ...], annotations: Mapping[str, str]
) -> Json:
    """Body of the Service `{isvc}-{c}` that fronts a standalone InferenceReplica; `annotations` are the service's."""
    copied = {key: value for key, value in annotations.items() if is_copied(key)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(
            owner,
            names.component_service(owner.name, component),
            labels={keys.INFERENCE_SERVICE: owner.name, keys.COMPONENT: component},
            annotations=service_annotations(copied),
        ),
        "spec": {
            "type": service_type(annotations),
            "selector": replica_selector(replica, component),
            "ports": list(ports),
        },
    }


def container_ports(container: Mapping[str, Any]) -> tuple[Json, ...]:
    """The Service ports of a container; TCP 8080 named like it when it declares none."""
    declared = container.get("ports") or []
    if not declared:
        name = container.get("name") or names.MAIN_CONTAINER
        return ({"name": name, "port": _DEFAULT_PORT, "targetPort": _DEFAULT_PORT, "protocol": "TCP"},)
    return tuple(
        {
            "name": port.get("name") or f"port-{port['containerPort']}",
            "port": port["containerPort"],
            "targetPort": port["containerPort"],
            "protocol": port.get("protocol") or "TCP",
        }
        for port in declared
    )


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
