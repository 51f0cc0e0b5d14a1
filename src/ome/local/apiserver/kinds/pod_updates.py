"""What of a pod may change: images, a shorter deadline, more tolerations, and of a gated pod where it may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from ome.local.apiserver.kinds import names
from ome.local.apiserver.schema import values

_UPDATE_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def update(obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Faults of a change of a pod: its spec is fixed but for images, deadline and new tolerations."""
    after, before = obj["spec"], old["spec"]
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            text = "pod updates may not add or remove containers"
            errors.append(forbidden_field(f"spec.{field}", text))
    if errors:
        return errors
    errors += _image_errors(after)
    errors += _deadline_errors(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    gated = bool(before.get("schedulingGates"))
    errors += _gate_update(after, before)
    if errors:
        return errors
    expected = dict(before)
    for field in ("activeDeadlineSeconds", "schedulingGates"):
        _take(expected, after, field)
    for field in ("containers", "initContainers"):
        if before.get(field):
            pairs = zip(before[field], after[field], strict=True)
            expected[field] = [{**was, "image": now.get("image", "")} for was, now in pairs]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        expected["terminationGracePeriodSeconds"] = 1
    was, now = before.get("tolerations") or [], after.get("tolerations") or []
    if _only_adds(was, now):
        _take(expected, after, "tolerations")
    if gated and _only_narrows(before.get("nodeSelector") or {}, after.get("nodeSelector") or {}):
        _take(expected, after, "nodeSelector")
    if gated and not (before.get("affinity") or {}).get("nodeAffinity"):
        _take(expected, after, "affinity")
    if not values.equal(expected, dict(after)):
        errors.append(forbidden_field("spec", _UPDATE_TEXT))
    return errors


def ephemeral(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    """Faults of changed ephemeral containers: they may come, but neither change nor go."""
    path = "spec.ephemeralContainers"
    wanted = {item.get("name"): item for item in after.get("ephemeralContainers") or ()}
    errors: list[FieldError] = []
    for item in before.get("ephemeralContainers") or ():
        name = item.get("name")
        if name not in wanted:
            errors.append(forbidden_field(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not values.equal(wanted[name], item):
            errors.append(forbidden_field(path, f'existing ephemeral containers "{name}" may not be changed\n'))
    taken = {item.get("name") for field in ("containers", "initContainers") for item in after.get(field) or ()}
    for index, item in enumerate(after.get("ephemeralContainers") or ()):
        name = item.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        else:
            errors += [invalid_value(f"{path}[{index}].name", name, text) for text in names.label(name)]
        if name in taken:
            errors.append(duplicate(f"{path}[{index}].name", name))
        taken.add(name)
        if not item.get("image"):
            errors.append(required(f"{path}[{index}].image"))
    return errors


def _image_errors(after: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        for index, container in enumerate(after.get(field) or ()):
            image = container.get("image", "")
            place = f"spec.{field}[{index}].image"
            if not image:
                errors.append(required(place))
            elif image != image.strip():
                errors.append(invalid_value(place, image, "must not have leading or trailing whitespace"))
    return errors


def _take(target: dict[str, Any], source: Mapping[str, Any], field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def _deadline_errors(after: int | None, before: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is None:
            return []
        return [invalid_value(path, None, "must not update from a positive integer to nil value")]
    if not 1 <= after < 2**31:
        return [invalid_value(path, after, "must be between 1 and 2147483647, inclusive")]
    if before is not None and after > before:
        return [invalid_value(path, after, "must be less than or equal to previous value")]
    return []


def _gate_update(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(after.get("schedulingGates") or ())
        if gate.get("name") not in known
    ]


def _only_adds(before: list[Any], after: list[Any]) -> bool:
    """Whether every old toleration is still there (its seconds may have changed)."""
    keys = ("key", "operator", "value", "effect")
    present = {tuple(item.get(key) for key in keys) for item in after}
    return all(tuple(item.get(key) for key in keys) in present for item in before)


def _only_narrows(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return all(after.get(key) == value for key, value in before.items())
