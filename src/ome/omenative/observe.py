"""What a pass sees: one frozen `Snapshot`, and `Member`, a pod read with the engine's eyes.

Built by `controller.py` from caches and live reads; everything else of the room only reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from ome.api.core import ContainerStatus, ControllerRevision, Node, Pod, PodGroup, Service
from ome.api.types.inference_replica import InferenceReplica, Runner

from . import names


class Refused(StrEnum):
    """Why the API server refused a pod, classed once."""

    QUOTA = "Quota"
    INVALID = "Invalid"
    NAMESPACE = "NamespaceTerminating"
    OWNED = "Owned"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused create of the pod or PodGroup of this name, or a refused in-place patch."""

    kind: Refused
    message: str


@dataclass(frozen=True, slots=True)
class RenderProblem:
    """Why there is no pod template (standalone replicas, unsupported shapes): the condition's reason and message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One frozen observation of a replica and its children.

    `update_revision` names the revision of the spec's template; it exists already (`revisions.py` sees to that first).
    `routed` maps a revision hash to the pods that are ready endpoints of its Service (live read), None where there is
    no such Service; a hash that was not read is absent. `listed` are the pods on the headless Service.
    """

    replica: InferenceReplica
    pods: tuple[Pod, ...] = ()
    members: tuple[Member, ...] | None = None
    """The pods as members, by name, where somebody has read them already."""
    revisions: tuple[ControllerRevision, ...] = ()
    services: tuple[Service, ...] = ()
    runners: tuple[Runner, ...] = ()
    problem: RenderProblem | None = None
    update_revision: str = ""
    collision_count: int = 0
    routed: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    gang_scheduling: bool = False
    """Whether PodGroups are served; `pod_groups` are this replica's own."""
    pod_groups: tuple[PodGroup, ...] = ()


class Member:
    """A pod of an Instance, with what its labels and status mean here."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        labels = pod.metadata.labels
        self.name = pod.metadata.name
        self.uid = pod.metadata.uid
        self.index = _number(labels.get(names.LABEL_INDEX))
        self.ordinal = _number(labels.get(names.LABEL_ORDINAL))
        self.runner = labels.get(names.LABEL_RUNNER, names.DEFAULT_RUNNER)
        self.incarnation = _number(labels.get(names.LABEL_INCARNATION))
        self.digest = labels.get(names.LABEL_HASH, "")
        self.operation = pod.metadata.annotations.get(names.ANNOTATION_OPERATION, "")
        self.live = pod.metadata.deletion_timestamp is None

    @property
    def terminal(self) -> bool:
        return self.pod.status.phase in ("Failed", "Succeeded")

    @property
    def unknown(self) -> bool:
        return self.pod.status.phase == "Unknown"

    @cached_property
    def containers_ready(self) -> bool:
        condition = self.pod.condition("ContainersReady")
        return self.live and not self.terminal and condition is not None and condition.true

    @cached_property
    def ready(self) -> bool:
        return self.live and not self.terminal and self.pod.ready

    @cached_property
    def ready_since(self) -> datetime | None:
        condition = self.pod.condition("Ready")
        return condition.last_transition_time if condition is not None and condition.true else None

    @cached_property
    def gate(self) -> bool:
        condition = self.pod.condition(names.GATE)
        return condition is not None and condition.true

    @property
    def was_gated(self) -> bool:
        """Whether the gate was ever set: a pod without it was never routed to."""
        return self.pod.condition(names.GATE) is not None

    @property
    def serving(self) -> bool:
        return self.containers_ready and self.gate

    @property
    def gated(self) -> bool:
        """Carries a scheduling gate: a queue has not admitted it."""
        return bool(self.pod.spec.scheduling_gates)

    @cached_property
    def unschedulable_since(self) -> datetime | None:
        """Since when the scheduler finds no node, or None."""
        condition = self.pod.condition("PodScheduled")
        if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
            return None
        return condition.last_transition_time or self.created

    @property
    def created(self) -> datetime | None:
        return self.pod.metadata.creation_timestamp

    @property
    def node(self) -> str:
        return self.pod.spec.node_name

    def statuses(self) -> Sequence[ContainerStatus]:
        """Containers first, then init containers (`spec/retry-blocks.md` section 4)."""
        return (*self.pod.status.container_statuses, *self.pod.status.init_container_statuses)

    def counted(self, now: datetime) -> bool:
        """Whether it holds a surge slot: live, or Terminating within its deletion grace."""
        gone_at = self.pod.metadata.deletion_timestamp
        return gone_at is None or gone_at > now


def members_of(snapshot: Snapshot) -> tuple[Member, ...]:
    """The pods of a snapshot as members, by name."""
    if snapshot.members is not None:
        return snapshot.members
    return tuple(Member(pod) for pod in sorted(snapshot.pods, key=lambda pod: pod.metadata.name))


def members_by_index(members: Sequence[Member]) -> dict[int, list[Member]]:
    """Members grouped by Instance, in the order given; a pod without a usable index label is left out."""
    groups: dict[int, list[Member]] = {}
    for member in members:
        if member.index is not None:
            groups.setdefault(member.index, []).append(member)
    return groups


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def container_images(pod_spec: Mapping[str, Any]) -> dict[str, str]:
    """Image of each regular container of a raw pod spec."""
    return {c["name"]: c.get("image", "") for c in pod_spec.get("containers") or []}
