"""Which addresses stand behind a Service: its EndpointSlices, and the old Endpoints object. Pure.

Kubernetes' rules: ended pods are left out, as are pods whose node does not exist (unless unready addresses are
published); a pod is *serving* while it is Ready, *ready* while it is also not terminating. Called by `controllers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ome.kube.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from ome.local.objects import Json, Object, SliceObject, is_pod_ready, owner_reference, owner_references_json
from ome.local.plan import Action, Create, Delete, Patch, Plan

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
OLD_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
OLD_MANAGER: Final = "endpoint-controller"
MAX_ENDPOINTS: Final = 100
_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Service with a selector, the pods it selects, the nodes by name, and the slices we made for it."""

    service: Object
    pods: Sequence[Object]
    nodes: Mapping[str, Object]
    slices: Sequence[SliceObject]
    endpoints: SliceObject | None = None
    write_endpoints: bool = True


def decide(snapshot: Snapshot) -> Plan:
    """The slices (and the Endpoints object) as they should be."""
    actions: list[Action] = []
    groups = _groups(snapshot)
    free = list(snapshot.slices)
    for ports, endpoints in groups:
        for start in range(0, max(len(endpoints), 1), MAX_ENDPOINTS):
            chunk = endpoints[start : start + MAX_ENDPOINTS]
            current = _take(free, ports)
            actions.extend(_slice(snapshot, current, ports, chunk))
    for surplus in free:
        meta = surplus.metadata
        actions.append(Delete(ENDPOINT_SLICES, meta.namespace, meta.name, meta.uid))
    if snapshot.write_endpoints:
        actions.extend(_endpoints_object(snapshot))
    return Plan(actions)


def forget(endpoints: SliceObject) -> Plan:
    """The Service is gone: its Endpoints object goes too, unless somebody made it by hand."""
    meta = endpoints.metadata
    if meta.labels.get(OLD_MANAGED_BY) != OLD_MANAGER:
        return Plan()
    return Plan((Delete(ENDPOINTS, meta.namespace, meta.name, meta.uid),))


def _take(free: list[SliceObject], ports: list[Json]) -> SliceObject | None:
    """An existing slice to write into, by preference one with the same ports."""
    for found in free:
        if found.ports == ports:
            free.remove(found)
            return found
    return free.pop(0) if free else None


def _groups(snapshot: Snapshot) -> list[tuple[list[Json], list[Json]]]:
    """Endpoints by their ports: named target ports may mean different numbers in different pods."""
    groups: list[tuple[list[Json], list[Json]]] = []
    for pod in sorted(snapshot.pods, key=lambda found: found.name):
        endpoint = _endpoint(snapshot, pod)
        if endpoint is None:
            continue
        ports = _ports(snapshot.service, pod)
        for known, members in groups:
            if known == ports:
                members.append(endpoint)
                break
        else:
            groups.append((ports, [endpoint]))
    return groups or [([], [])]


def _published(service: Object) -> bool:
    return bool(service.spec.get("publishNotReadyAddresses"))


def _endpoint(snapshot: Snapshot, pod: Object) -> Json | None:
    if not _is_listed(snapshot, pod):
        return None
    node = snapshot.nodes.get(pod.spec.get("nodeName", ""))
    serving = is_pod_ready(pod)
    terminating = pod.metadata.deleting
    built: Json = {
        "addresses": [pod.status["podIP"]],
        "conditions": {
            "ready": _published(snapshot.service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "nodeName": pod.spec.get("nodeName"),
    }
    zone = node.metadata.labels.get(_ZONE) if node is not None else None
    if zone:
        built["zone"] = zone
    if pod.spec.get("hostname") and pod.spec.get("subdomain") == snapshot.service.name:
        built["hostname"] = pod.spec["hostname"]
    return built


def _is_listed(snapshot: Snapshot, pod: Object) -> bool:
    if not pod.status.get("podIP") or pod.status.get("phase") in ("Succeeded", "Failed"):
        return False
    return pod.spec.get("nodeName", "") in snapshot.nodes or _published(snapshot.service)


def _ports(service: Object, pod: Object) -> list[Json]:
    found = []
    for port in service.spec.get("ports") or ():
        number = _target(port, pod)
        if number is None:
            continue
        built: Json = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            built["appProtocol"] = port["appProtocol"]
        found.append(built)
    return found


def _target(port: Mapping[str, Any], pod: Object) -> int | None:
    target = port.get("targetPort")
    if target in (None, "", 0):
        return int(port["port"])
    if isinstance(target, int):
        return target
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    for container in containers:
        for candidate in container.get("ports") or ():
            same_protocol = candidate.get("protocol", "TCP") == port.get("protocol", "TCP")
            if candidate.get("name") == target and same_protocol:
                return int(candidate["containerPort"])
    return None


def _labels(service: Object) -> dict[str, str]:
    labels = {**service.metadata.labels, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}
    if service.spec.get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return labels


def _slice(snapshot: Snapshot, current: SliceObject | None, ports: list[Json], endpoints: list[Json]) -> list[Action]:
    service = snapshot.service
    labels = _labels(service)
    if current is None:
        metadata: Json = {
            "generateName": f"{service.name}-",
            "namespace": service.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(service, SERVICES)],
        }
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": ports,
        }
        return [Create(ENDPOINT_SLICES, body)]
    patch: Json = {}
    if _plain(current.endpoints) != _plain(endpoints):
        patch["endpoints"] = endpoints
    if current.ports != ports:
        patch["ports"] = ports
    stale = {name: None for name in current.metadata.labels if name not in labels}
    if current.metadata.labels != labels:
        patch["metadata"] = {"labels": {**stale, **labels}}
    if not patch:
        return []
    patch.setdefault("metadata", {})["resourceVersion"] = current.metadata.resource_version
    return [Patch(ENDPOINT_SLICES, current.metadata.namespace, current.metadata.name, patch)]


def _plain(endpoints: Iterable[Mapping[str, Any]]) -> list[Json]:
    return [{name: value for name, value in found.items() if value is not None} for found in endpoints]


def _endpoints_object(snapshot: Snapshot) -> list[Action]:
    """The Endpoints object: one subset for each set of ports, ready and unready addresses apart."""
    service = snapshot.service
    subsets = [built for built in (_subset(ports, members) for ports, members in _groups(snapshot)) if built]
    labels = dict(service.metadata.labels)
    labels[OLD_MANAGED_BY] = OLD_MANAGER
    if service.spec.get("clusterIP") == "None":
        labels[HEADLESS] = ""
    current = snapshot.endpoints
    if current is None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": service.name, "namespace": service.namespace, "labels": labels},
        }
        if subsets:
            body["subsets"] = subsets
        return [Create(ENDPOINTS, body)]
    if current.subsets == subsets and current.metadata.labels == labels:
        return []
    patch = {
        "metadata": {
            "labels": {**{name: None for name in current.metadata.labels if name not in labels}, **labels},
            "ownerReferences": owner_references_json(current.metadata.owner_references) or None,
        },
        "subsets": subsets or None,
    }
    return [Patch(ENDPOINTS, service.namespace, service.name, patch)]


def _subset(ports: list[Json], members: Iterable[Mapping[str, Any]]) -> Json:
    ready: list[Json] = []
    unready: list[Json] = []
    for member in members:
        if member["conditions"]["terminating"] and not member["conditions"]["ready"]:
            continue
        address: Json = {
            "ip": member["addresses"][0],
            "nodeName": member.get("nodeName"),
            "targetRef": member["targetRef"],
        }
        if member.get("hostname"):
            address["hostname"] = member["hostname"]
        address = {name: value for name, value in address.items() if value is not None}
        (ready if member["conditions"]["ready"] else unready).append(address)
    if not ready and not unready:
        return {}
    built: Json = {}
    if ready:
        built["addresses"] = ready
    if unready:
        built["notReadyAddresses"] = unready
    named = [{name: value for name, value in port.items() if value != ""} for port in ports]
    if named:
        built["ports"] = named
    return built
