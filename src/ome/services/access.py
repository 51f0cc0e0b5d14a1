"""External access of a service: the Service `{isvc}`, or an Ingress, or HTTPRoutes, and the URLs for its status.

Decides what exists and what `IngressReady` says (spec/inference-service.md section 5). Bodies are built by
`ome.rendering.children`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ome.api import keys, names
from ome.kube.resources import HTTP_ROUTES, INGRESSES, SERVICES
from ome.rendering.children.access import (
    AccessConfig,
    Backend,
    cluster_url,
    gateway_url,
    http_route,
    ingress,
    ingress_url,
    route_name,
)
from ome.rendering.children.metadata import Owner
from ome.rendering.children.services import external_service, front_selector

from .children import Child
from .conditions import INGRESS_READY, Condition
from .desired import ChildKey, Desired, desired

Json = dict[str, Any]

_DISABLED = "Ingress creation is disabled, using external service for access"
_TARGET_WAITS = "Target service not ready for ingress creation"
_CLUSTER_LOCAL_NAME = "cluster-local"


@dataclass(frozen=True, slots=True)
class Front:
    """One component as clients can reach it: its Service's first port, and whether its workload serves."""

    component: str
    port: Mapping[str, Any]
    ready: bool
    timeout_seconds: int | None = None
    selector: Mapping[str, str] | None = None
    """The component Service's own selector, where the front Service must use it (referenced replicas)."""

    @property
    def number(self) -> int:
        return int(self.port["port"])

    def backend(self) -> Backend:
        return Backend(self.component, self.number, self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class Access:
    """What to write, what to delete, and what the status says."""

    condition: Condition
    objects: tuple[Desired, ...] = ()
    removed: tuple[ChildKey, ...] = ()
    url: str = ""
    address: str = ""
    addresses: tuple[Json, ...] = field(default_factory=tuple)


def plan_access(
    owner: Owner,
    config: AccessConfig,
    fronts: Mapping[str, Front],
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    children: Mapping[ChildKey, Child],
    gateway: bool,
) -> Access:
    """`config` already carries the service's overrides; `fronts` are the declared components; `gateway` is whether the
    manager started with the Gateway API."""
    entry = fronts.get("router") or fronts.get("engine")
    if config.disable_ingress:
        standing = children.get((SERVICES.plural, names.shortened(owner.name)))
        return _external(owner, _reached(fronts, entry, standing), labels, annotations)
    front = (SERVICES.plural, names.shortened(owner.name))
    if entry is None:
        return Access(Condition(INGRESS_READY, "False", "ComponentNotReady", _TARGET_WAITS), removed=(front,))
    if gateway:
        return _routes(owner, config, fronts, entry, labels, children, front)
    return _ingress(owner, config, fronts, entry, annotations, front)


def _reached(fronts: Mapping[str, Front], entry: Front | None, standing: Child | None) -> Front | None:
    """Whom the front Service selects. One that leads to the engine goes on doing so until a router that was added since
    is ready: the service is reached while the router starts, and when it never does. Routes and an Ingress wait too.
    """
    engine = fronts.get("engine")
    if entry is None or entry.ready or engine is None or standing is None or standing.selects != engine.component:
        return entry
    return engine


def _external(owner: Owner, entry: Front | None, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Access:
    condition = Condition(INGRESS_READY, "True", "IngressDisabled", _DISABLED)
    name = names.shortened(owner.name)
    key = (SERVICES.plural, name)
    if entry is None:
        return Access(condition, removed=(key,))
    if labels.get(keys.VISIBILITY) == keys.CLUSTER_LOCAL:
        inside = cluster_url(owner, names.component_service(owner.name, entry.component), entry.number)
        return Access(condition, removed=(key,), address=inside, addresses=_local(inside))
    url = cluster_url(owner, name, entry.number)
    selector = entry.selector or front_selector(owner.name, entry.component)
    body = external_service(owner, selector, entry.port, annotations)
    return Access(condition, (desired(SERVICES, body),), url=url, address=url, addresses=_local(url))


def _local(url: str) -> tuple[Json, ...]:
    return ({"name": _CLUSTER_LOCAL_NAME, "url": url},)


def _ingress(
    owner: Owner,
    config: AccessConfig,
    fronts: Mapping[str, Front],
    entry: Front,
    annotations: Mapping[str, str],
    front: ChildKey,
) -> Access:
    target = fronts.get("router") or fronts.get("decoder") or entry
    inside = cluster_url(owner, names.component_service(owner.name, entry.component), entry.number)
    if not target.ready:
        waiting = Condition(INGRESS_READY, "False", "ComponentNotReady", _TARGET_WAITS)
        return Access(waiting, removed=(front,), address=inside, addresses=_local(inside))
    backends = {name: reached.backend() for name, reached in fronts.items()}
    body = ingress(owner, config, backends, annotations)
    return Access(
        Condition(INGRESS_READY, "True"),
        (desired(INGRESSES, body),),
        (front,),
        url=ingress_url(config, owner, entry.number),
        address=inside,
        addresses=_local(inside),
    )


def _routes(
    owner: Owner,
    config: AccessConfig,
    fronts: Mapping[str, Front],
    entry: Front,
    labels: Mapping[str, str],
    children: Mapping[ChildKey, Child],
    front: ChildKey,
) -> Access:
    wanted: list[tuple[str, Front]] = [(route_name(owner, name), reached) for name, reached in fronts.items()]
    wanted.append((route_name(owner, None), entry))
    objects = [
        desired(HTTP_ROUTES, http_route(owner, config, name, reached.backend(), labels))
        for name, reached in wanted
        if reached.ready
    ]
    inside = cluster_url(owner, names.component_service(owner.name, entry.component), entry.number)
    url = gateway_url(config, owner)
    outside = {"name": config.gateway_class or "gateway", "url": url}
    return Access(
        _routes_condition(wanted, children),
        tuple(objects),
        (front,),
        url=url,
        address=inside,
        addresses=(outside, *_local(inside)),
    )


def _routes_condition(wanted: list[tuple[str, Front]], children: Mapping[ChildKey, Child]) -> Condition:
    for _, reached in wanted:
        if not reached.ready:
            message = f"{reached.component} component not ready for HTTPRoute creation"
            return Condition(INGRESS_READY, "False", "ComponentNotReady", message)
    for name, reached in wanted:
        problem = _route_problem(reached.component, children.get((HTTP_ROUTES.plural, name)))
        if problem is not None:
            return problem
    return Condition(INGRESS_READY, "True")


def _route_problem(component: str, route: Child | None) -> Condition | None:
    parents = (route.reported().get("parents") or []) if route is not None else []
    if not parents:
        message = f"{component} HTTPRoute awaiting gateway programming"
        return Condition(INGRESS_READY, "False", "ParentStatusNotAvailable", message)
    for parent in parents:
        for condition in parent.get("conditions") or []:
            if condition.get("status") == "False":
                reason = condition.get("reason") or "ParentStatusNotAvailable"
                message = condition.get("message") or f"{component.capitalize()} HttpRouteNotReady"
                return Condition(INGRESS_READY, "False", reason, message)
    return None
