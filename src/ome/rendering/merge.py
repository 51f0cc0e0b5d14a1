"""One merge of JSON objects, driven by declared merge keys; the two rule sets OME has stand at the top.

`INHERITANCE` lays a child runtime's spec over its parents' (`spec/serving-runtimes.md section 6`), `SERVICE` a
service's component over the runtime's (section 7.1), `CONTAINER` a runner over the pod's container of the same name
(section 7.2). In all of them:

- objects and maps merge field by field, scalars and lists without a key are replaced;
- an empty value (`[]`, `{}`, `""`, null) in the upper layer never removes anything;
- nothing of the inputs is shared with the result, and no unknown field is dropped.

Called by `ome.rendering.components`, `ome.rendering.pods` and `ome.runtimes.inheritance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MergeRules:
    """`keys`: field name of a list -> the member that identifies its items. `whole`: fields taken whole from the
    upper layer."""

    keys: Mapping[str, str]
    whole: frozenset[str] = field(default_factory=frozenset)


_BY_NAME = {
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "containers": "name",
    "initContainers": "name",
}
_BY_OTHER = {"ports": "containerPort", "volumeMounts": "mountPath", "topologySpreadConstraints": "topologyKey"}

INHERITANCE = MergeRules({**_BY_NAME, **_BY_OTHER})

SERVICE = MergeRules(
    {**INHERITANCE.keys, "volumeDevices": "devicePath", "hostAliases": "ip", "resourceClaims": "name"},
    whole=frozenset({"autoscaler"}),
)

CONTAINER = MergeRules(SERVICE.keys)


def merge_object(lower: Mapping[str, Any], upper: Mapping[str, Any], rules: MergeRules) -> dict[str, Any]:
    """`upper` laid over `lower`."""
    merged = {key: deepcopy(value) for key, value in lower.items() if value is not None}
    for key, value in upper.items():
        if value is None:
            continue
        if key not in merged:
            merged[key] = deepcopy(value)
        elif not _is_empty(value):
            merged[key] = _merge_value(key, merged[key], value, rules)
    return merged


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, dict | list) and not value)


def _merge_value(key: str, lower: Any, upper: Any, rules: MergeRules) -> Any:
    if key in rules.whole:
        return deepcopy(upper)
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        return merge_object(lower, upper, rules)
    merge_key = rules.keys.get(key)
    if merge_key is not None and _is_keyed(lower, merge_key) and _is_keyed(upper, merge_key):
        return _merge_keyed(lower, upper, merge_key, rules)
    return deepcopy(upper)


def _is_keyed(value: Any, merge_key: str) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) and merge_key in item for item in value)


def _merge_keyed(
    lower: Sequence[Mapping[str, Any]], upper: Sequence[Mapping[str, Any]], merge_key: str, rules: MergeRules
) -> list[dict[str, Any]]:
    """Upper items keep their order. An item only the lower list has stands before the next upper item if that one is
    in the lower list too and stands later there, otherwise after it (section 7.1: it decides `$(VAR)` in env, and
    which port is first)."""
    by_key: dict[Any, Mapping[str, Any]] = {}
    position: dict[Any, int] = {}
    for index, item in enumerate(lower):
        by_key.setdefault(item[merge_key], item)
        position.setdefault(item[merge_key], index)
    upper_keys = {item[merge_key] for item in upper}
    waiting = [item for item in lower if item[merge_key] not in upper_keys]

    result: list[dict[str, Any]] = []
    for item in upper:
        place = position.get(item[merge_key])
        while waiting and place is not None and position[waiting[0][merge_key]] < place:
            result.append(deepcopy(dict(waiting.pop(0))))
        below = by_key.get(item[merge_key])
        result.append(deepcopy(dict(item)) if below is None else merge_object(below, item, rules))
    result.extend(deepcopy(dict(item)) for item in waiting)
    return result
