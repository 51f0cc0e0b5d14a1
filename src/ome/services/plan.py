"""What one pass does: objects to write and delete, the whole new status, events, and when to look again.

Pure: a snapshot, a resolution and rendered objects in, a `Plan` out. Whether the plan succeeds is the executor's matter
(`controller.py`); it reports a failed write by the same plan with the failure put in (`failed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ome.api import keys, names
from ome.api.meta import Condition as StoredCondition
from ome.api.meta import find_condition
from ome.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    HPAS,
    INFERENCE_REPLICAS,
    LEADER_WORKER_SETS,
    PDBS,
    POD_MONITORS,
    ROLE_BINDINGS,
    ROLES,
    SCALED_OBJECTS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from ome.rendering.children.access import AccessConfig, component_url
from ome.rendering.children.metadata import Owner
from ome.rendering.children.modelconfig import model_config_map
from ome.rendering.model import DeploymentMode, RenderError
from ome.runtimes.pinning import Drift, PinState

from .access import Access, Front, plan_access
from .children import Child
from .conditions import (
    ENGINE_READY,
    INGRESS_READY,
    OVERLAYS_READY,
    READY,
    RUNTIME_DRIFTED,
    RUNTIME_READY,
    Condition,
    component_condition_type,
    kept,
    ready,
)
from .desired import ComponentError, ComponentObjects, Desired, Wave, desired
from .model_status import model_status
from .resolve import Blocked, Frozen, Models, Overlays, Sources
from .status import OwnStatus
from .workloads import (
    Replica,
    autoscaler_status,
    deployment_condition,
    leader_set_condition,
    lifecycle_status,
    replica_condition,
    revision_names,
)
from .world import Snapshot

Json = dict[str, Any]

_COMPONENT_KINDS = (
    DEPLOYMENTS,
    INFERENCE_REPLICAS,
    SERVICES,
    HPAS,
    SCALED_OBJECTS,
    PDBS,
    SERVICE_ACCOUNTS,
    ROLES,
    ROLE_BINDINGS,
    LEADER_WORKER_SETS,
    POD_MONITORS,
)
_BY_PLURAL: dict[str, Resource] = {resource.plural: resource for resource in _COMPONENT_KINDS}


@dataclass(frozen=True, slots=True)
class Event:
    """One Event on the InferenceService."""

    reason: str
    message: str
    type: str = "Warning"


@dataclass(frozen=True, slots=True)
class Removal:
    """One object of ours to delete."""

    resource: Resource
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A pass as data. Order: `pin`, `writes` wave after wave, `removals`, `status`, `events`.

    `pin` is persisted before anything else. `unwritten` is the status when a write fails: access was not reached then,
    and the generation is not finished. `error` is a failure that the pass knew of while planning; what comes before it
    is still done. `retry` and `recheck` say when to look again.
    """

    status: OwnStatus
    unwritten: OwnStatus | None = None
    pin: PinState | None = None
    writes: tuple[Wave, ...] = ()
    removals: tuple[Removal, ...] = ()
    events: tuple[Event, ...] = ()
    error: Exception | None = None
    retry: bool = False
    recheck: float | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """The objects of a service's components, up to the first that cannot be rendered or written."""

    components: tuple[ComponentObjects, ...] = ()
    error: ComponentError | RenderError | None = None

    def slim(self) -> Built:
        """Without bodies: what is remembered between passes."""
        return Built(tuple(component.slim() for component in self.components), self.error)


@dataclass(frozen=True, slots=True)
class Report:
    """The parts of the status that a pass works out, before they are put together."""

    conditions: dict[str, Condition] = field(default_factory=dict)
    components: dict[str, Json] = field(default_factory=dict)


# -- the three ways a pass ends ----------------------------------------------------------------------------------------


def plan_rendered(snapshot: Snapshot, sources: Sources, models: Models, built: Built, *, gateway: bool) -> Plan:
    """A pass that writes: every component up to the first that cannot be built, then access, then removals."""
    service = snapshot.service
    report = _rendered_report(snapshot, built)
    listing = model_listing(snapshot)
    writes = [listing, *(wave for component in built.components for wave in component.waves())]
    events = list(_render_events(snapshot, built))
    access: Access | None = None
    removals: tuple[Removal, ...] = ()
    if built.error is None:
        access = _access(snapshot, built, report, gateway=gateway)
        report.conditions[INGRESS_READY] = access.condition
        writes.append(access.objects)
        removals = _removals(snapshot, built, writes, access)
    else:
        _keep_condition(report, service.status.conditions, INGRESS_READY)
    _report_runtime(report, service.status.conditions, pinned=sources.pin is not None)
    if sources.pin is not None:
        _report_drift(report, sources.pin.drift)
    else:
        _keep_condition(report, service.status.conditions, RUNTIME_DRIFTED)
    own = with_access(own_status(snapshot, report, models.report, sources.pin), access)
    before = Report({**report.conditions}, report.components)
    before.conditions.pop(INGRESS_READY, None)
    _keep_condition(before, service.status.conditions, INGRESS_READY)
    unwritten = own_status(snapshot, before, models.report, sources.pin)
    unwritten = replace(unwritten, observed_generation=service.status.observed_generation)
    if built.error is not None:
        own = unwritten
    changed_pin = sources.pin if sources.pin is not None and _pin_differs(service.status, sources.pin) else None
    return Plan(
        status=own,
        unwritten=unwritten,
        pin=changed_pin,
        writes=tuple(writes),
        removals=removals,
        events=(*events, *ready_events(snapshot, own)),
        error=built.error,
        retry=built.error is not None,
    )


def plan_frozen(snapshot: Snapshot, frozen: Frozen, models: Models) -> Plan:
    """A pass over a drifted pin: nothing rendered, the status as the children are (runtime-revisions.md section 7)."""
    report = _observed_report(snapshot)
    for kept_type in (INGRESS_READY, RUNTIME_READY):
        _keep_condition(report, snapshot.service.status.conditions, kept_type)
    _report_drift(report, frozen.pin.drift)
    own = own_status(snapshot, report, models.report, frozen.pin)
    return Plan(status=own, writes=(model_listing(snapshot),), events=ready_events(snapshot, own))


def plan_blocked(snapshot: Snapshot, blocked: Blocked, overlays: Overlays, *, announce: bool) -> Plan:
    """A pass that cannot go on: workloads stay, conditions follow them. `announce`: the cause is new."""
    service = snapshot.service
    report = _observed_report(snapshot)
    for kept_type in (INGRESS_READY, RUNTIME_DRIFTED, RUNTIME_READY, OVERLAYS_READY):
        _keep_condition(report, service.status.conditions, kept_type)
    if blocked.runtime_ready is not None:
        report.conditions[RUNTIME_READY] = blocked.runtime_ready
    own = own_status(snapshot, report, overlays, None)
    own = replace(own, observed_generation=service.status.observed_generation)
    events: list[Event] = []
    cause = blocked.cause
    if cause.reason and announce:
        events.append(Event(cause.reason, cause.message, cause.event_type))
    return Plan(
        status=own,
        writes=(model_listing(snapshot),),
        events=(*events, *ready_events(snapshot, own)),
        retry=blocked.retry,
        recheck=blocked.recheck,
    )


def plan_virtual(snapshot: Snapshot) -> Plan:
    """VirtualDeployment in the service's own metadata: nothing is created, Ready at once."""
    service = snapshot.service
    config = AccessConfig.configured(snapshot.config.ingress).for_service(service.metadata.annotations)
    url = f"{config.url_scheme}://{service.metadata.name}.{service.metadata.namespace}.svc.cluster.local"
    condition = Condition(READY, "True", "VirtualDeployment", "InferenceService is in VirtualDeployment mode")
    own = OwnStatus(
        observed_generation=service.metadata.generation,
        conditions=(condition,),
        components={names.ENGINE: {"url": url}},
        url=url,
        address={"url": url},
        pinned_revision_name=service.status.pinned_revision_name,
        last_runtime_sync_token=service.status.last_runtime_sync_token,
    )
    return Plan(status=own, events=ready_events(snapshot, own))


# -- components --------------------------------------------------------------------------------------------------------


def _rendered_report(snapshot: Snapshot, built: Built) -> Report:
    report = Report()
    owner = owner_of(snapshot)
    config = AccessConfig.configured(snapshot.config.ingress).for_service(snapshot.service.metadata.annotations)
    for objects in built.components:
        outline = objects.outline
        name = outline.component
        condition, workload = _workload_condition(snapshot, name, outline.mode)
        report.conditions[condition.type] = condition
        entry: Json = {}
        if condition.status == "True":
            entry["url"] = component_url(config, owner, name)
        if outline.scale_target is not None:
            entry["scaleTargetRef"] = outline.scale_target
            entry["autoscaler"] = autoscaler_status(outline.autoscaler, snapshot.children, outline.name)
        if outline.accelerator is not None:
            entry["selectedAccelerator"] = outline.accelerator
        entry.update(_mirrored(snapshot, name, workload))
        report.components[name] = entry
    _report_rest(snapshot, built, report)
    return report


def _report_rest(snapshot: Snapshot, built: Built, report: Report) -> None:
    """Components that were not reached: what is there of them is reported as it is."""
    error = _told(built)
    for component in names.COMPONENTS:
        if component in report.components or snapshot.service.spec.component(component) is None:
            continue
        _observe_component(snapshot, component, report)
        if error is not None and error.component == component:
            type_ = component_condition_type(component)
            report.conditions[type_] = Condition(type_, "False", error.reason, str(error))


_ANNOUNCED = frozenset({"ComponentNotConfigured", "DeploymentModeError"})


def _told(built: Built) -> RenderError | None:
    """The failure that users are told of by condition and event; others are only logged."""
    error = built.error
    return error if isinstance(error, RenderError) and error.reason in _ANNOUNCED else None


def _observed_report(snapshot: Snapshot) -> Report:
    """Every component as it is; also one that is no longer declared, while its objects wait to be removed."""
    report = Report()
    for component in names.COMPONENTS:
        left = component in snapshot.service.status.components
        if left or snapshot.service.spec.component(component) is not None:
            _observe_component(snapshot, component, report)
    return report


def _observe_component(snapshot: Snapshot, component: str, report: Report) -> None:
    before = snapshot.service.status.components.get(component, {})
    mode = _running_mode(snapshot, component, before)
    if mode is None:
        kept_condition = kept(snapshot.service.status.conditions, component_condition_type(component))
        unknown = Condition(component_condition_type(component), "Unknown")
        report.conditions[unknown.type] = kept_condition or unknown
        report.components[component] = dict(before)
        return
    condition, workload = _workload_condition(snapshot, component, mode)
    report.conditions[condition.type] = condition
    report.components[component] = {**before, **_mirrored(snapshot, component, workload)}


def _running_mode(snapshot: Snapshot, component: str, before: Mapping[str, Any]) -> DeploymentMode | None:
    """The mode of the workload that was last in force; None when there has been none."""
    kind = (before.get("scaleTargetRef") or {}).get("kind")
    name = names.component_name(snapshot.service.metadata.name, component)
    if kind == INFERENCE_REPLICAS.kind:
        return DeploymentMode.OME_NATIVE
    if kind == DEPLOYMENTS.kind:
        return DeploymentMode.RAW_DEPLOYMENT
    if (INFERENCE_REPLICAS.plural, name) in snapshot.children:
        return DeploymentMode.OME_NATIVE
    if (DEPLOYMENTS.plural, name) in snapshot.children:
        return DeploymentMode.RAW_DEPLOYMENT
    multi_node = snapshot.of_component(LEADER_WORKER_SETS, component) is not None
    return DeploymentMode.MULTI_NODE if multi_node else None


def _workload_condition(snapshot: Snapshot, component: str, mode: DeploymentMode) -> tuple[Condition, Child | None]:
    name = names.component_name(snapshot.service.metadata.name, component)
    if mode is DeploymentMode.OME_NATIVE:
        replica = snapshot.replica(name)
        return replica_condition(component, replica), replica
    if mode is DeploymentMode.MULTI_NODE:
        found = snapshot.of_component(LEADER_WORKER_SETS, component)
        return leader_set_condition(component, found), found
    deployment: Child | None = snapshot.children.get((DEPLOYMENTS.plural, name))
    return deployment_condition(component, deployment), deployment


def _mirrored(snapshot: Snapshot, component: str, workload: Child | None) -> Json:
    if not isinstance(workload, Replica):
        return {}
    before = snapshot.service.status.components.get(component, {})
    return {"lifecycle": lifecycle_status(workload), **revision_names(workload, before)}


# -- access and removals -----------------------------------------------------------------------------------------------


def _access(snapshot: Snapshot, built: Built, report: Report, *, gateway: bool) -> Access:
    meta = snapshot.service.metadata
    fronts = {
        objects.outline.component: Front(
            component=objects.outline.component,
            port=objects.outline.port,
            ready=report.conditions[component_condition_type(objects.outline.component)].status == "True",
            timeout_seconds=objects.outline.timeout_seconds,
        )
        for objects in built.components
    }
    config = AccessConfig.configured(snapshot.config.ingress).for_service(meta.annotations)
    return plan_access(
        owner_of(snapshot),
        config,
        fronts,
        labels=meta.labels,
        annotations=meta.annotations,
        children=snapshot.children,
        gateway=gateway and config.gateway_api,
    )


def _removals(snapshot: Snapshot, built: Built, writes: list[Wave], access: Access) -> tuple[Removal, ...]:
    """Ours, and not wanted any more: scalers and budgets of declared components, everything of undeclared ones."""
    wanted = {item.key for wave in writes for item in wave}
    declared = {objects.outline.component for objects in built.components}
    uid = snapshot.service.metadata.uid
    found: list[Removal] = []
    for key, child in snapshot.children.items():
        if key in wanted or child.metadata.deleting or not child.metadata.owned_by(uid):
            continue
        resource = _BY_PLURAL.get(key[0])
        if resource is not None and (_is_surplus(resource, child, declared) or key in access.removed):
            found.append(Removal(resource, key[1], child.metadata.uid))
    return tuple(found)


def _is_surplus(resource: Resource, child: Child, declared: set[str]) -> bool:
    component = child.metadata.labels.get(keys.COMPONENT, "")
    if component in names.COMPONENTS and component not in declared:
        return True
    # The workload of another mode is left running for the user to delete.
    return resource in (HPAS, SCALED_OBJECTS, PDBS)


def model_listing(snapshot: Snapshot) -> tuple[Desired, ...]:
    """The ConfigMap that lists the model, unless another service holds its name."""
    model, reference = snapshot.model, snapshot.service.spec.model
    if model is None or reference is None:
        return ()
    owner = owner_of(snapshot)
    body = model_config_map(owner, reference.name, model.spec)
    live = snapshot.children.get((CONFIG_MAPS.plural, body["metadata"]["name"]))
    if live is not None and not live.metadata.owned_by(owner.uid):
        controller = live.metadata.controller
        if controller is None or controller.name != owner.name:
            return ()
    return (desired(CONFIG_MAPS, body),)


# -- conditions and events ---------------------------------------------------------------------------------------------


def _report_runtime(report: Report, before: tuple[StoredCondition, ...], *, pinned: bool) -> None:
    """RuntimeReady appears only after a problem, and belongs to live runtimes only."""
    if not pinned and find_condition(before, RUNTIME_READY) is not None:
        report.conditions[RUNTIME_READY] = Condition(RUNTIME_READY, "True", "RuntimeResolved")


def _report_drift(report: Report, drift: Drift | None) -> None:
    if drift is not None:
        report.conditions[RUNTIME_DRIFTED] = Condition(RUNTIME_DRIFTED, "True", drift.reason.value, drift.message)


def _keep_condition(report: Report, before: tuple[StoredCondition, ...], type_: str) -> None:
    condition = kept(before, type_)
    if condition is not None:
        report.conditions[type_] = condition


def own_status(snapshot: Snapshot, report: Report, overlays: Overlays, pin: PinState | None) -> OwnStatus:
    service = snapshot.service
    status = service.status
    conditions = dict(report.conditions)
    for needed in (ENGINE_READY, INGRESS_READY):
        conditions.setdefault(needed, Condition(needed, "Unknown"))
    if overlays.condition is not None:
        conditions[OVERLAYS_READY] = overlays.condition
    conditions[READY] = ready(conditions)
    has_model = service.spec.model is not None and bool(service.spec.model.name)
    loaded = (
        model_status(snapshot.component_pods(names.ENGINE), ready=conditions[READY].status == "True")
        if has_model
        else None
    )
    return OwnStatus(
        observed_generation=service.metadata.generation,
        conditions=tuple(conditions.values()),
        components=report.components,
        url=status.url,
        address=status.address,
        addresses=tuple(status.addresses),
        model_status=loaded,
        mounted_overlays=overlays.mounted,
        pinned_revision_name=status.pinned_revision_name if pin is None else pin.revision,
        last_runtime_sync_token=status.last_runtime_sync_token if pin is None else pin.token,
    )


def with_access(own: OwnStatus, access: Access | None) -> OwnStatus:
    if access is None:
        return own
    address = {"url": access.address} if access.address else None
    return replace(own, url=access.url, address=address, addresses=access.addresses)


def _pin_differs(status: Any, pin: PinState) -> bool:
    return (status.pinned_revision_name, status.last_runtime_sync_token) != (pin.revision, pin.token)


def _render_events(snapshot: Snapshot, built: Built) -> tuple[Event, ...]:
    """A component that cannot be built is announced once for each cause: its stored condition tells."""
    error = _told(built)
    if error is None:
        return ()
    if error.component is None:
        return (Event(error.reason, str(error)),)
    before = find_condition(snapshot.service.status.conditions, component_condition_type(error.component))
    if before is not None and (before.reason, before.message) == (error.reason, str(error)):
        return ()
    return (Event(error.reason, str(error)),)


def ready_events(snapshot: Snapshot, own: OwnStatus) -> tuple[Event, ...]:
    before = find_condition(snapshot.service.status.conditions, READY)
    was = before is not None and before.true
    now = any(condition.type == READY and condition.status == "True" for condition in own.conditions)
    name = snapshot.service.metadata.name
    if now and not was:
        return (Event("InferenceServiceReady", f"InferenceService [{name}] is Ready", "Normal"),)
    if was and not now:
        return (Event("InferenceServiceNotReady", f"InferenceService [{name}] is no longer Ready"),)
    return ()


def owner_of(snapshot: Snapshot) -> Owner:
    """The service as the owner of its objects."""
    meta = snapshot.service.metadata
    return Owner(meta.namespace, meta.name, meta.uid)
