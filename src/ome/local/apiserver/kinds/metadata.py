"""Rules for object metadata, the same for built-in and custom objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    forbidden_field,
    go_quote,
    invalid_value,
    required,
    too_long,
)
from ome.local.apiserver.kinds import names

ANNOTATIONS_LIMIT: Final = 262_144
IMMUTABLE: Final = "field is immutable"
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
NameRule = Callable[[str], list[str]]


def label_errors(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Faults of the keys and values of labels; all stand at the map's own path."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid_value(path, key, text) for text in names.qualified(key)]
        errors += [invalid_value(path, value, text) for text in names.label_value(value)]
    return errors


def annotation_errors(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors = [invalid_value(path, key, text) for key in annotations for text in names.qualified(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        errors.append(too_long(path, ANNOTATIONS_LIMIT))
    return errors


def validate(
    meta: Mapping[str, Any], *, namespaced: bool, name_rule: NameRule, builtin: bool, path: str = "metadata"
) -> list[FieldError]:
    """Faults of the metadata of a new object. builtin: finalizers must be standard or fully qualified."""
    errors: list[FieldError] = []
    generate = meta.get("generateName")
    if generate:
        errors += [
            invalid_value(f"{path}.generateName", generate, text) for text in name_rule(generate.rstrip("-.") or "a")
        ]
    name = meta.get("name", "")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors += [invalid_value(f"{path}.name", name, text) for text in name_rule(name)]
    namespace = meta.get("namespace", "")
    if namespaced:
        if not namespace:
            errors.append(required(f"{path}.namespace"))
        else:
            errors += [invalid_value(f"{path}.namespace", namespace, text) for text in names.label(namespace)]
    elif namespace:
        errors.append(forbidden_field(f"{path}.namespace", "not allowed on this type"))
    if meta.get("generation", 0) < 0:
        errors.append(invalid_value(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    return errors + _shared(meta, builtin=builtin, path=path)


def _shared(meta: Mapping[str, Any], *, builtin: bool, path: str) -> list[FieldError]:
    errors = label_errors(meta.get("labels") or {}, f"{path}.labels")
    errors += annotation_errors(meta.get("annotations") or {}, f"{path}.annotations")
    errors += _owner_errors(meta.get("ownerReferences") or [], f"{path}.ownerReferences")
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        errors += _finalizer_errors(finalizer, f"{path}.finalizers", index, builtin=builtin)
    return errors


def _finalizer_errors(finalizer: str, path: str, index: int, *, builtin: bool) -> list[FieldError]:
    errors = [invalid_value(path, finalizer, text) for text in names.qualified(finalizer)]
    if builtin and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid_value(f"{path}[{index}]", finalizer, text))
    return errors


def _owner_errors(owners: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller: dict[str, Any] | None = None
    for index, owner in enumerate(owners):
        place = f"{path}[{index}]"
        errors += [
            required(f"{place}.{field}", "must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        ]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            errors.append(invalid_value(place, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if not owner.get("controller"):
            continue
        if controller is not None:
            pair = " and ".join(f"{one.get('kind')}/{one.get('name')}" for one in (controller, owner))
            text = f'Only one reference can have Controller set to true. Found "true" in references for {pair}'
            errors.append(invalid_value(path, [_owner_value(one) for one in owners], text))
        controller = owner
    return errors


def _owner_value(owner: Mapping[str, Any]) -> dict[str, Any]:
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {key: owner[key] for key in order if key in owner}


_FIXED: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_update(
    meta: Mapping[str, Any], old: Mapping[str, Any], *, builtin: bool, path: str = "metadata"
) -> list[FieldError]:
    """Faults of changed metadata: fixed fields, finalizers of an object that is going, labels and the like."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        new = [item for item in meta.get("finalizers") or [] if item not in (old.get("finalizers") or [])]
        if new:
            shown = ", ".join(go_quote(item) for item in new)
            text = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}"
            )
            errors.append(forbidden_field(f"{path}.finalizers", text))
    errors += [
        invalid_value(f"{path}.{field}", meta.get(field), IMMUTABLE)
        for field in _FIXED
        if meta.get(field) != old.get(field)
    ]
    if meta.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid_value(f"{path}.generation", meta.get("generation", 0), "must not be decremented"))
    return errors + _shared(meta, builtin=builtin, path=path)


def finalizer_warnings(meta: Mapping[str, Any]) -> list[str]:
    """What a real server warns of when finalizers of a custom object bear no domain."""
    return [
        f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name including a path (/) to "
        "avoid accidental conflicts with other finalizer writers"
        for name in meta.get("finalizers") or []
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]
