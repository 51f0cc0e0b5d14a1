"""What a pass decides: a `Plan` of typed actions, the whole new status, notices, and when to look again.

Data only. `planner.py` makes it, `executor.py` carries it out in this order: blocks (with their notices), status,
notices, actions (`spec/omenative.md` section 2.5: an operation is written before any pod changes).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ome.api.types.inference_replica import InferenceReplicaStatus, RetryBlock


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of one ordinal from a recorded revision."""

    name: str
    index: int
    ordinal: int
    incarnation: int
    revision: str
    operation: str
    runner: str = "default"
    group: str = ""
    """Its PodGroup, where gangs are scheduled."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete exactly this pod (uid precondition). `force`: grace 0, for a pod whose node is dead."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class SetGate:
    """Set the pod condition `ome.io/serving`: True only while no hold is left."""

    name: str
    uid: str
    holds: tuple[str, ...] = ()

    @property
    def serving(self) -> bool:
        return not self.holds


@dataclass(frozen=True, slots=True)
class PatchPod:
    """Change a running pod to another revision in place (strategic merge patch)."""

    name: str
    uid: str
    index: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CreatePodGroup:
    """Create the group of an Instance of several pods."""

    name: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdatePodGroup:
    """Put size and timeout of an own group back (merge patch, uid included)."""

    name: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeletePodGroup:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteRevision:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create a headless or revision Service that is missing."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateService:
    """Put selector, ports or flags of an own Service back."""

    name: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteService:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClearAnnotation:
    """Acknowledge a mailbox: remove the key, whatever it holds by then."""

    key: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put `ome.io/ir-teardown` on a live replica that lacks it."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the replica go."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event. On the InferenceService when there is one, unless `on_replica`; `fold` False makes it an object of its
    own.
    """

    type: str
    reason: str
    message: str
    on_replica: bool = False
    fold: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """`RetryHeld` of one transition into Held. `name` is the Event's, the same whoever writes it."""

    name: str
    message: str
    fresh: bool
    """The transition is this pass's: nobody can have said it yet."""


Action = (
    CreatePod
    | DeletePod
    | SetGate
    | PatchPod
    | CreatePodGroup
    | UpdatePodGroup
    | DeletePodGroup
    | DeleteRevision
    | CreateService
    | UpdateService
    | DeleteService
    | ClearAnnotation
    | AddFinalizer
    | RemoveFinalizer
    | Notice
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One pass, decided. `blocks` is set when a failure was charged: it is written alone and first.

    `held`: what is to be said of the revisions that are Held by then, by whoever has not said it yet.
    """

    status: InferenceReplicaStatus
    blocks: tuple[RetryBlock, ...] | None = None
    held: tuple[Held, ...] = ()
    notices: tuple[Notice, ...] = ()
    actions: tuple[Action, ...] = ()
    wake: datetime | None = None
    """The earliest instant at which the answer can change without an event."""
    again: bool = False
    """A mailbox was answered: decide once more on what is then there."""


NORMAL = "Normal"
WARNING = "Warning"
