"""What happens to objects of a kind on their way to the store: the base of all strategies, right for kinds without
rules.

The write pipeline calls, in this order: `decode`, `default`, (ownership, admission), `prepare_create` or
`prepare_update`, `validate_create` or `validate_update`. All but `decode` work in place on the object that `decode`
returned; `old` is never changed. The pipeline sets name, namespace, uid and creationTimestamp before `prepare_create`,
and takes uid and resourceVersion from the old object where the body gives none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ome.local.apiserver.errors import FieldError
from ome.local.apiserver.kinds import decode, metadata, names
from ome.local.apiserver.schema import types, values
from ome.local.apiserver.schema.types import TypeNode

_SYSTEM_FIELDS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


@dataclass(frozen=True)
class Traits:
    """What sets a kind apart from others without code.

    namespaced: its scope. generation: whether metadata.generation is kept. status: whether it has a status subresource.
    name_rule: complaints about a name.
    """

    namespaced: bool = True
    generation: bool = False
    status: bool = False
    name_rule: metadata.NameRule = names.subdomain


class Strategy:
    """A built-in kind. Subclasses override the hooks `set_defaults`, `on_create`, `on_update`, `errors`,
    `update_errors`."""

    def __init__(self, group: str, version: str, kind: str, traits: Traits) -> None:
        self.group = group
        self.version = version
        self.kind = kind
        self.traits = traits

    @property
    def has_generation(self) -> bool:
        return self.traits.generation

    @property
    def has_status(self) -> bool:
        return self.traits.status

    @cached_property
    def type(self) -> TypeNode:
        """The type of the kind's objects, for ownership."""
        return types.of_kind(self.group, self.version, self.kind)

    def decode(self, body: Any) -> tuple[dict[str, Any], list[str]]:
        """(The body as the kind stores it, unknown field paths as warnings name them). Raises `DecodeError`, a 400.

        The result shares no changeable part with the body but opaque ones (raw extensions).
        """
        obj, unknown = decode.decode(body, self.type, kind=self.kind, version=self.version)
        return obj, unknown

    def zero(self) -> dict[str, Any]:
        """The empty object of the kind, against which ownership of a new object is recorded."""
        obj, _ = decode.decode({}, self.type, kind=self.kind, version=self.version)
        return obj

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in what the API defaults, in place."""
        self.set_defaults(obj)

    def prepare_create(self, obj: dict[str, Any]) -> None:
        """What the server decides about a new object: no status of the client's, generation 1."""
        meta = obj["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(field, None)
        if not self.traits.namespaced:
            meta.pop("namespace", None)
        if self.has_generation:
            meta["generation"] = 1
        if self.has_status:
            self._reset_status(obj)
        self.on_create(obj)

    def _reset_status(self, obj: dict[str, Any]) -> None:
        zero = self.zero()
        if "status" in zero:
            obj["status"] = zero["status"]
        else:
            obj.pop("status", None)

    def prepare_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str = "") -> None:
        """Put back what the request may not change, and raise the generation when the desired state changed."""
        before = old["metadata"]
        if subresource == "status":
            self._keep_all_but_status(obj, old)
        elif self.has_status:
            self._keep(obj, old, "status")
        meta = obj["metadata"]
        for field in _SYSTEM_FIELDS:
            if field not in meta and field in before:
                meta[field] = before[field]
        self._keep(meta, before, "creationTimestamp")
        self._keep(meta, before, "generation")
        self.on_update(obj, old, subresource)
        if self.has_generation and subresource != "status" and self.desired_changed(obj, old):
            meta["generation"] = before.get("generation", 0) + 1

    @staticmethod
    def _keep(target: dict[str, Any], source: Mapping[str, Any], field: str) -> None:
        if field in source:
            target[field] = source[field]
        else:
            target.pop(field, None)

    def _keep_all_but_status(self, obj: dict[str, Any], old: Mapping[str, Any]) -> None:
        """A write to /status changes the status, and of the metadata what is no part of the desired state."""
        for field in [field for field in obj if field not in ("metadata", "status")]:
            if field not in old:
                del obj[field]
        obj.update({field: value for field, value in old.items() if field not in ("metadata", "status")})
        for field in self.status_fixed_metadata:
            self._keep(obj["metadata"], old["metadata"], field)

    status_fixed_metadata: tuple[str, ...] = ()
    """Metadata that a write to /status leaves as it was."""
    error_group: str | None = None
    """The group that refusals name, where it is not the kind's own."""

    def desired_changed(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
        """Whether anything outside metadata and status changed."""
        ignored = (
            ("metadata", "status", "apiVersion", "kind") if self.has_status else ("metadata", "apiVersion", "kind")
        )
        fields = {field for field in (*obj, *old) if field not in ignored}
        return any(not values.equal(obj.get(field), old.get(field)) for field in fields)

    def validate_create(self, obj: Mapping[str, Any]) -> list[FieldError]:
        """The faults of a new object, metadata first."""
        traits = self.traits
        errors = metadata.validate(
            obj["metadata"], namespaced=traits.namespaced, name_rule=traits.name_rule, builtin=True
        )
        return errors + self.errors(obj)

    def validate_update(
        self, obj: Mapping[str, Any], old: Mapping[str, Any], subresource: str = ""
    ) -> list[FieldError]:
        """The faults of a changed object: what is immutable, and what a new object would be refused for."""
        errors = metadata.validate_update(obj["metadata"], old["metadata"], builtin=True)
        if subresource == "status":
            return errors + self.status_errors(obj, old)
        return errors + self.update_errors(obj, old)

    def reset_fields(self, subresource: str = "") -> tuple[tuple[str, ...], ...]:
        """Paths that a write through this door cannot change, so nobody comes to own them by it."""
        if subresource == "status":
            return (("spec",), *(("metadata", field) for field in self.status_fixed_metadata))
        return (("status",),) if self.has_status else ()

    def warnings(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        """What the client is warned of; the write goes on."""
        return []

    def set_defaults(self, obj: dict[str, Any]) -> None:
        """Hook: the kind's defaults."""

    def on_create(self, obj: dict[str, Any]) -> None:
        """Hook: what the server adds to a new object."""

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        """Hook: what the server puts back or adds on an update."""

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        """Hook: faults of the object outside its metadata."""
        return []

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        """Hook: faults of a change through the main door; by default those of the object."""
        return self.errors(obj)

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        """Hook: faults of a change through /status."""
        return []
