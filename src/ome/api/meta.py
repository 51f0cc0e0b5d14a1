"""The parts every Kubernetes object shares: metadata, owner references, conditions, references, times.

Objects that are read from caches are narrow and frozen: what nobody decides by is not decoded at all. Objects that are
written are plain dicts, never these. Used by every room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec

NO_STRINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of everything decoded: snake_case attributes, camelCase on the wire, defaults left out when encoded.

    `gc=False`: decoded objects are trees of values and never point back at themselves, and there are many of them.
    """


class OwnerReference(Model, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True, kw_only=True):
    """Metadata without managedFields, which would be most of a cached object's weight."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name), the key of caches and queues."""
        return self.namespace, self.name

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def owned_by(self, uid: str) -> bool:
        """Whether any owner reference names this uid."""
        return any(owner.uid == uid for owner in self.owner_references)


class Condition(Model, frozen=True, kw_only=True):
    """A condition of any kind: `status` is `"True"`, `"False"` or `"Unknown"`."""

    type: str = ""
    # A factory, so that the status is written whatever it is: an encoder that omits defaults would drop "Unknown".
    status: str = msgspec.field(default_factory=lambda: "Unknown")
    severity: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0

    @property
    def true(self) -> bool:
        return self.status == "True"


class ObjectReference(Model, frozen=True, kw_only=True):
    """What an Event is about (core/v1 ObjectReference)."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class ObjectHead(Model, frozen=True, kw_only=True):
    """Kind and metadata of any object, when nothing else of it matters."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def timestamp(moment: datetime) -> str:
    """A `metav1.Time`: RFC 3339 in UTC with one-second precision, rounded down."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """A `metav1.MicroTime` (Leases, Events): RFC 3339 in UTC with six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime:
    """An RFC 3339 time as an aware datetime in UTC. Raises `ValueError`."""
    try:
        parsed = msgspec.convert(text, datetime)
    except msgspec.ValidationError as error:
        raise ValueError(f"{text!r} is not an RFC 3339 time") from error
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return parsed.astimezone(UTC)


def whole_second(moment: datetime) -> datetime:
    """The moment as the API stores it: rounded down to a second, so that a stored time compares equal to its source."""
    return moment - timedelta(microseconds=moment.microsecond)


def to_dict(value: Model) -> dict[str, Any]:
    """The JSON object of a decoded Struct: camelCase, defaults omitted, times as RFC 3339 text ending in `Z`."""
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return built
