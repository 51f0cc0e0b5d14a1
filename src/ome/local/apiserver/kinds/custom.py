"""Custom objects: their metadata's rules are the API's, everything else is their definition's schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ome.local.apiserver.errors import FieldError
from ome.local.apiserver.kinds import decode, metadata, names
from ome.local.apiserver.kinds.strategy import Strategy, Traits
from ome.local.apiserver.schema import Structural, types
from ome.local.apiserver.schema.types import TypeNode


class CustomStrategy(Strategy):
    """One version of a custom kind.

    schema: its compiled openAPIV3Schema. Unlike built-in kinds nothing but the schema is defaulted or checked, an empty
    field is kept as it is, and the whole spec counts for the generation.
    """

    def __init__(
        self, group: str, version: str, kind: str, schema: Structural, *, namespaced: bool, status: bool
    ) -> None:
        super().__init__(group, version, kind, Traits(namespaced, True, status, names.subdomain))
        self.schema = schema

    @cached_property
    def type(self) -> TypeNode:
        return self.schema.type

    def zero(self) -> dict[str, Any]:
        return {"metadata": {}}

    def decode(self, body: Any) -> tuple[dict[str, Any], list[str]]:
        if not isinstance(body, dict):
            return decode.decode(body, self.type, kind=self.kind, version=self.version)
        obj, unknown = self.schema.prune(body)
        meta, odd = decode.decode_field(
            body.get("metadata"),
            "metadata",
            types.builtin().get(types.OBJECT_META),
            kind=self.kind,
            version=self.version,
        )
        obj["metadata"] = meta
        return obj, _merge_sorted(unknown, odd)

    def set_defaults(self, obj: dict[str, Any]) -> None:
        self.schema.default(obj)

    def _reset_status(self, obj: dict[str, Any]) -> None:
        obj.pop("status", None)

    def validate_create(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors = metadata.validate(
            obj["metadata"], namespaced=self.traits.namespaced, name_rule=self.traits.name_rule, builtin=False
        )
        return errors + self.schema.validate(dict(obj))

    def validate_update(
        self, obj: Mapping[str, Any], old: Mapping[str, Any], subresource: str = ""
    ) -> list[FieldError]:
        errors = metadata.validate_update(obj["metadata"], old["metadata"], builtin=False)
        return errors + self.schema.validate(dict(obj), dict(old))

    def _keep_all_but_status(self, obj: dict[str, Any], old: Mapping[str, Any]) -> None:
        """A write to /status changes nothing but the status, of the metadata not even labels."""
        meta = obj["metadata"]
        kept = {field: meta[field] for field in ("managedFields", "resourceVersion") if field in meta}
        status = obj.get("status")
        obj.clear()
        obj.update({field: value for field, value in old.items() if field != "status"})
        obj["metadata"] = {field: value for field, value in old["metadata"].items() if field != "managedFields"}
        obj["metadata"].update(kept)
        if status is not None:
            obj["status"] = status

    def reset_fields(self, subresource: str = "") -> tuple[tuple[str, ...], ...]:
        if subresource == "status":
            names = [
                name
                for name in self.schema.root.property_names
                if name not in ("apiVersion", "kind", "metadata", "status")
            ]
            return (*((name,) for name in names), ("metadata",))
        return (("status",),) if self.has_status else ()

    def warnings(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        before = set((old or {}).get("metadata", {}).get("finalizers") or ())
        fresh = [name for name in obj["metadata"].get("finalizers") or () if name not in before]
        return metadata.finalizer_warnings({"finalizers": fresh})


def _merge_sorted(unknown: list[str], odd: list[str]) -> list[str]:
    """The root metadata's unknown fields sort among the others; those of embedded objects stay last."""
    embedded = [path for path in unknown if ".metadata." in path]
    return sorted([path for path in unknown if ".metadata." not in path] + odd) + embedded
