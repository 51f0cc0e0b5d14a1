"""Where a pod may run: tolerations, affinity, spread, gates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import checks, names

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def tolerations(listed: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(listed):
        place = f"{path}[{index}]"
        key, operator = item.get("key", ""), item.get("operator", "")
        if key:
            errors += [invalid_value(f"{place}.key", key, text) for text in names.qualified(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid_value(f"{place}.operator", operator, text))
        if item.get("tolerationSeconds") is not None and item.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid_value(f"{place}.effect", item.get("effect", ""), text))
        if operator == "Exists" and item.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid_value(f"{place}.operator", item.get("value"), text))
        elif operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            errors.append(not_supported(f"{place}.operator", operator, ("Equal", "Exists")))
        if item.get("effect"):
            errors += checks.one_of(item["effect"], f"{place}.effect", _EFFECTS)
    return errors


def affinity(value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = value.get("nodeAffinity") or {}
    wanted = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        terms = wanted.get("nodeSelectorTerms") or ()
        if not terms:
            errors.append(required(f"{place}.nodeSelectorTerms", "must have at least one node selector term"))
        for index, term in enumerate(terms):
            for number, expression in enumerate(term.get("matchExpressions") or ()):
                errors += _node_requirement(
                    expression, f"{place}.nodeSelectorTerms[{index}].matchExpressions[{number}]"
                )
    preferred = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    errors += _weights(preferred, f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution")
    for kind in ("podAffinity", "podAntiAffinity"):
        soft = (value.get(kind) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        errors += _weights(soft, f"{path}.{kind}.preferredDuringSchedulingIgnoredDuringExecution")
        terms = (value.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for index, term in enumerate(terms):
            place = f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
            if not term.get("topologyKey"):
                errors.append(required(f"{place}.topologyKey", "can not be empty"))
            errors += checks.label_selector(term.get("labelSelector"), f"{place}.labelSelector")
    return errors


def _weights(terms: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    return [
        invalid_value(f"{path}[{index}].weight", term.get("weight", 0), "must be in the range 1-100")
        for index, term in enumerate(terms)
        if not 1 <= term.get("weight", 0) <= 100
    ]


def _node_requirement(term: Mapping[str, Any], path: str) -> list[FieldError]:
    operator, listed = term.get("operator", ""), term.get("values") or ()
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not listed:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if listed:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(listed) != 1:
            errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return errors + [
        invalid_value(f"{path}.key", term.get("key", ""), text) for text in names.qualified(term.get("key", ""))
    ]


def spread(constraints: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(constraints):
        place = f"{path}[{index}]"
        if item.get("maxSkew", 0) <= 0:
            errors.append(invalid_value(f"{place}.maxSkew", item.get("maxSkew", 0), "must be greater than zero"))
        if not item.get("topologyKey"):
            errors.append(required(f"{place}.topologyKey", "can not be empty"))
        errors += checks.one_of(
            item.get("whenUnsatisfiable", ""), f"{place}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")
        )
    return errors


def gates(value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    listed = value.get("schedulingGates") or ()
    seen = set()
    for index, gate in enumerate(listed):
        name = gate.get("name", "")
        place = f"{path}.schedulingGates[{index}]"
        errors += [invalid_value(place, name, text) for text in names.qualified(name)]
        if name in seen:
            errors.append(duplicate(place, name))
        seen.add(name)
    if listed and value.get("nodeName"):
        errors.append(forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    for index, gate in enumerate(value.get("readinessGates") or ()):
        place = f"{path}.readinessGates[{index}].conditionType"
        errors += [
            invalid_value(place, gate.get("conditionType", ""), text)
            for text in names.qualified(gate.get("conditionType", ""))
        ]
    return errors
