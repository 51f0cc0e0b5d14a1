"""Kubernetes' own kinds, as narrow as OME's decisions need them.

Not the whole API (that is data, in `ome.api.kubernetes`) and never written back: writes are plain dicts. Parts that are
copied but not decided by (templates, specs) stay raw dicts. Decoded by the caches of `ome.kube`.
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ome.api.meta import Condition, Model, ObjectMeta, ObjectReference

__all__ = [
    "ConfigMap",
    "ContainerImage",
    "ContainerState",
    "ContainerStatus",
    "ControllerRevision",
    "Deployment",
    "DeploymentStatus",
    "Endpoint",
    "EndpointConditions",
    "EndpointSlice",
    "Event",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerStatus",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "Node",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "Resource",
    "Secret",
    "Service",
    "ServiceSpec",
]

# -- pods ------------------------------------------------------------------------------------------------------------


class StateWaiting(Model, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class StateRunning(Model, frozen=True, kw_only=True):
    started_at: datetime | None = None


class StateTerminated(Model, frozen=True, kw_only=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Model, frozen=True, kw_only=True):
    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Model, frozen=True, kw_only=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class ContainerImage(Model, frozen=True, kw_only=True):
    """A container of a pod's spec: what runs, not how."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""


class ReadinessGate(Model, frozen=True, kw_only=True):
    condition_type: str = ""


class SchedulingGate(Model, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(Model, frozen=True, kw_only=True):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[ContainerImage, ...] = ()
    init_containers: tuple[ContainerImage, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()
    scheduler_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    hostname: str = ""
    subdomain: str = ""


class PodStatus(Model, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    @property
    def ready(self) -> bool:
        """Kubernetes' own verdict: the `Ready` condition is True."""
        condition = self.condition("Ready")
        return condition is not None and condition.true


# -- nodes -----------------------------------------------------------------------------------------------------------


class Taint(Model, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Model, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Model, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Node(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# -- configuration ---------------------------------------------------------------------------------------------------


class ConfigMap(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class Secret(Model, frozen=True, kw_only=True):
    """A Secret without its data: a cache never holds secrets. Read one live, as a dict, where its data is needed."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""


class Namespace(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class PersistentVolumeClaim(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


# -- workloads -------------------------------------------------------------------------------------------------------


class DeploymentStatus(Model, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: DeploymentStatus = DeploymentStatus()


class Resource(Model, frozen=True, kw_only=True):
    """Any object of which metadata is typed and the rest raw: LeaderWorkerSet, PodMonitor, HTTPRoute, ..."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ControllerRevision(Model, frozen=True, kw_only=True):
    """`data` is JSON text as the API server sent it, key order kept; `payload()` decodes it."""

    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: msgspec.Raw = msgspec.Raw(b"null")

    def __post_init__(self) -> None:
        # A decoded Raw is a window on the whole watch message or list page; a copy lets that go.
        msgspec.structs.force_setattr(self, "data", self.data.copy())

    def payload(self) -> dict[str, Any]:
        """The revision's data, decoded anew at each call. Raises `msgspec.DecodeError` if it is no JSON object."""
        return msgspec.json.decode(self.data, type=dict[str, Any])


class HorizontalPodAutoscalerStatus(Model, frozen=True, kw_only=True):
    observed_generation: int = 0
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class HorizontalPodAutoscaler(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


class PodDisruptionBudget(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


# -- network ---------------------------------------------------------------------------------------------------------


class ServiceSpec(Model, frozen=True, kw_only=True):
    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: list[dict[str, Any]] = []
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")


class Service(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: dict[str, Any] = {}


class PodGroupSpec(Model, frozen=True, kw_only=True):
    min_member: int = 0
    schedule_timeout_seconds: int | None = None


class PodGroup(Model, frozen=True, kw_only=True):
    """`scheduling.x-k8s.io/v1alpha1`, as the coscheduling plugin serves it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: dict[str, Any] = {}

    @property
    def failed(self) -> bool:
        """Whether the scheduler has given the group up."""
        return self.status.get("phase") == "Failed"


class EndpointConditions(Model, frozen=True, kw_only=True):
    """Absent means unknown; an unknown `ready` or `serving` counts as true, an unknown `terminating` as false."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Model, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointSlice(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[dict[str, Any], ...] = ()


# -- coordination ----------------------------------------------------------------------------------------------------


class LeaseSpec(Model, frozen=True, kw_only=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class EventSource(Model, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(Model, frozen=True, kw_only=True):
    """core/v1 Event, as `kubectl get events` shows it."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
