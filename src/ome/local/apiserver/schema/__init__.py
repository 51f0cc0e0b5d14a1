"""Schemas of objects: `compile` a custom resource's, types of the built-in kinds in `schema.types`.

Called by the strategies in `kinds`, by `definitions` and `ownership`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ome.local.apiserver.errors import FieldError, invalid_value
from ome.local.apiserver.schema import structural, types
from ome.local.apiserver.schema.structural import Node
from ome.local.apiserver.schema.types import TypeNode
from ome.local.apiserver.schema.validate import ABSENT, list_errors, validate

_BLOCKING = frozenset(
    {"FieldValueRequired", "FieldValueTypeInvalid", "FieldValueTooLong", "FieldValueTooMany", "FieldValueNotSupported"}
)
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class Structural:
    """A compiled openAPIV3Schema of one version of a custom resource. Cheap to make, compiled where objects reach."""

    def __init__(self, openapi_schema: Mapping[str, Any]) -> None:
        self.root = Node(openapi_schema, root=True)

    @cached_property
    def type(self) -> TypeNode:
        """The same as a type, for ownership."""
        return types.from_structural(self.root.schema)

    def prune(self, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """(The object without undeclared fields, their paths with `[i]`, sorted as warnings are). Copies what it
        keeps."""
        return structural.prune(obj, self.root)

    def default(self, obj: dict[str, Any]) -> None:
        """Set defaults in place; `obj` must be the caller's own, as `prune` returns it."""
        structural.apply_defaults(obj, self.root)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """Faults in the words and the order of a real server. With `old`, unchanged faulty values are tolerated."""
        before: Any = ABSENT if old is None else old
        errors = validate(obj, self.root, "", before)
        errors += list_errors(obj, self.root, "", before)
        if not self.has_rules:
            return errors
        if any(error.type in _BLOCKING for error in errors):
            return [*errors, invalid_value("<nil>", None, _NOT_CHECKED)]
        from ome.local.apiserver.schema import rules

        return errors + rules.evaluate(obj, self.root, before)

    @cached_property
    def has_rules(self) -> bool:
        """Whether any part of the schema carries x-kubernetes-validations."""
        return structural.mentions_rules(self.root.schema)


def compile(openapi_schema: Mapping[str, Any]) -> Structural:
    """The schema of a custom resource, ready for its objects."""
    return Structural(openapi_schema)


__all__ = ["Structural", "compile"]
