"""A service that fronts standalone InferenceReplicas (`spec.replicaRefs`): it renders nothing and writes nothing on
them.

spec/inference-service.md section 9, "Referenced replicas". Pure; the third way a pass plans, beside those of `plan.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ome.api.meta import find_condition
from ome.kube.resources import INFERENCE_REPLICAS, SERVICES
from ome.rendering.children.access import AccessConfig, component_url
from ome.rendering.children.services import container_ports, referenced_service, replica_selector

from .access import Front, plan_access
from .conditions import INGRESS_READY, Condition, component_condition_type
from .desired import Desired, desired, keep_service
from .plan import Event, Plan, Report, own_status, owner_of, ready_events, with_access
from .resolve import Overlays
from .workloads import Replica, lifecycle_status, replica_condition, revision_names
from .world import Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a referenced replica cannot be used."""

    reason: str
    message: str


def plan_referenced(snapshot: Snapshot, *, gateway: bool) -> Plan:
    """Services for the replicas, access as usual, and their status mirrored; a role without its replica leaves the
    route.
    """
    owner = owner_of(snapshot)
    meta = snapshot.service.metadata
    config = AccessConfig.configured(snapshot.config.ingress).for_service(meta.annotations)
    report = Report()
    writes: list[Desired] = []
    fronts: dict[str, Front] = {}
    events: list[Event] = []
    for component, (name, replica) in (snapshot.referenced or {}).items():
        problem = _problem(snapshot, component, name, replica)
        if problem is not None or replica is None:
            assert problem is not None
            events += _refuse(snapshot, component, problem, report)
            report.components[component] = {"scaleTargetRef": _target(name)}
            continue
        condition = replica_condition(component, replica)
        report.conditions[condition.type] = condition
        entry: Json = {"scaleTargetRef": _target(name), "lifecycle": lifecycle_status(replica)}
        entry.update(revision_names(replica, snapshot.service.status.components.get(component, {})))
        if condition.status == "True":
            entry["url"] = component_url(config, owner, component)
        report.components[component] = entry
        ports = container_ports(replica.container)
        body = referenced_service(owner, component, name, ports, meta.annotations)
        keep_service(body, snapshot.children.get((SERVICES.plural, body["metadata"]["name"])), owner)
        writes.append(desired(SERVICES, body))
        selector = replica_selector(name, component)
        fronts[component] = Front(component, ports[0], condition.status == "True", selector=selector)
    access = plan_access(
        owner,
        config,
        fronts,
        labels=meta.labels,
        annotations=meta.annotations,
        children=snapshot.children,
        gateway=gateway and config.gateway_api,
    )
    report.conditions[INGRESS_READY] = access.condition
    own = replace(with_access(own_status(snapshot, report, Overlays(), None), access), model_status=None)
    return Plan(
        status=own,
        writes=(tuple(writes), access.objects),
        events=(*events, *ready_events(snapshot, own)),
    )


def _problem(snapshot: Snapshot, component: str, name: str, replica: Replica | None) -> _Problem | None:
    where = f"InferenceReplica {snapshot.service.metadata.namespace}/{name}"
    if replica is None:
        return _Problem("ReplicaRefMissing", f"{where} does not exist")
    if not replica.standalone:
        return _Problem("ReplicaRefInvalid", f"{where} is projected by an InferenceService; name a standalone replica")
    if replica.component != component:
        return _Problem("ReplicaRefInvalid", f"{where} has component {replica.component}, not {component}")
    return None


def _refuse(snapshot: Snapshot, component: str, problem: _Problem, report: Report) -> list[Event]:
    type_ = component_condition_type(component)
    report.conditions[type_] = Condition(type_, "False", problem.reason, problem.message)
    before = find_condition(snapshot.service.status.conditions, type_)
    if before is not None and (before.reason, before.message) == (problem.reason, problem.message):
        return []
    return [Event(problem.reason, problem.message)]


def _target(name: str) -> Json:
    return {"apiVersion": INFERENCE_REPLICAS.api_version, "kind": INFERENCE_REPLICAS.kind, "name": name}
