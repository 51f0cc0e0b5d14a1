"""A small language for structural schemas, and Kubernetes' own types inlined into it.

CRD schemas may hold no `$ref`, no undefined list keys and, to stay small, no descriptions. Used by the tables beside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from ome.api.kubernetes import definitions

Schema = dict[str, Any]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_NUMBER_OR_TEXT: Final = [{"type": "integer"}, {"type": "string"}]
_KEPT: Final = (
    "type",
    "format",
    "enum",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
_PREFIX: Final = "#/components/schemas/"


# -- building blocks ---------------------------------------------------------------------------------------------------


def text(**limits: Any) -> Schema:
    return {"type": "string", **limits}


def enum(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def boolean(**extra: Any) -> Schema:
    return {"type": "boolean", **extra}


def int32(**limits: Any) -> Schema:
    return {"type": "integer", "format": "int32", **limits}


def int64(**limits: Any) -> Schema:
    return {"type": "integer", "format": "int64", **limits}


def time() -> Schema:
    return {"type": "string", "format": "date-time"}


def duration() -> Schema:
    """A Go duration string. Its form is checked where it is read, so that the message can say more than a pattern."""
    return {"type": "string"}


def quantity(**extra: Any) -> Schema:
    return {"anyOf": _NUMBER_OR_TEXT, "pattern": QUANTITY_PATTERN, "x-kubernetes-int-or-string": True, **extra}


def int_or_string() -> Schema:
    return {"anyOf": _NUMBER_OR_TEXT, "x-kubernetes-int-or-string": True}


def raw_object() -> Schema:
    """Any JSON object, kept as it is."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def struct(
    properties: Mapping[str, Schema],
    *,
    required: Iterable[str] = (),
    one_of: Iterable[str] = (),
    rules: Iterable[Schema] = (),
    open_ended: bool = False,
) -> Schema:
    """An object. `one_of`: exactly one of these members; `rules`: CEL; `open_ended`: unknown members are kept."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    if one_of:
        schema["oneOf"] = [{"required": [name]} for name in one_of]
    if rules:
        schema["x-kubernetes-validations"] = list(rules)
    if open_ended:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def array(items: Schema, **limits: Any) -> Schema:
    return {"type": "array", "items": items, **limits}


def atomic(items: Schema, **limits: Any) -> Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic", **limits}


def keyed(items: Schema, *keys: str, **limits: Any) -> Schema:
    """A list merged by key, as server-side apply sees it. The keys must be required in `items`, or have a default."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        **limits,
    }


def texts(**limits: Any) -> Schema:
    return array(text(), **limits)


def map_of(values: Schema, **limits: Any) -> Schema:
    return {"type": "object", "additionalProperties": values, **limits}


def text_map(**limits: Any) -> Schema:
    return map_of(text(), **limits)


def rule(expression: str, message: str) -> Schema:
    """One entry of `x-kubernetes-validations`."""
    return {"rule": expression, "message": message}


def conditions() -> Schema:
    """Conditions of Kubernetes' own shape. Only what every writer sets is required."""
    condition = struct(
        {
            "type": text(),
            "status": enum("True", "False", "Unknown"),
            "observedGeneration": int64(minimum=0),
            "lastTransitionTime": time(),
            "reason": text(),
            "message": text(),
        },
        required=["type", "status"],
    )
    return keyed(condition, "type")


def object_names(*names: str) -> Schema:
    """A reference: `name` required, the other names optional text."""
    return struct({name: text() for name in ("name", *names)}, required=["name"])


# -- Kubernetes' types -------------------------------------------------------------------------------------------------


@cache
def core(name: str) -> Schema:
    """A Kubernetes type such as `core.v1.PodSpec`, inlined. Shared: never change what it returns."""
    return _inline(definitions()[f"io.k8s.api.{name}"])


def _special(name: str) -> Schema | None:
    short = name.removeprefix("io.k8s.apimachinery.pkg.")
    if short == "api.resource.Quantity":
        return quantity()
    if short == "util.intstr.IntOrString":
        return int_or_string()
    if short in ("apis.meta.v1.Time", "apis.meta.v1.MicroTime"):
        return time()
    if short == "apis.meta.v1.ObjectMeta":
        return embedded_metadata()
    if short in ("runtime.RawExtension", "apis.meta.v1.FieldsV1"):
        return raw_object()
    return None


def embedded_metadata() -> Schema:
    """Metadata of a template: what may be written there."""
    return struct(
        {
            "name": text(),
            "namespace": text(),
            "labels": text_map(),
            "annotations": text_map(),
            "finalizers": texts(),
        }
    )


@cache
def _resolve(reference: str) -> Schema:
    name = reference.removeprefix(_PREFIX)
    return _special(name) or _inline(definitions()[name])


def _inline(source: Schema) -> Schema:
    if "$ref" in source:
        return _resolve(source["$ref"])
    if "allOf" in source:
        return _inline(source["allOf"][0])
    schema: Schema = {key: source[key] for key in _KEPT if key in source}
    if "properties" in source:
        schema["properties"] = {name: _inline(value) for name, value in source["properties"].items()}
        _fill_port_protocol(schema["properties"])
    if "required" in source:
        schema["required"] = list(source["required"])
    if "items" in source:
        schema["items"] = _with_keys_required(_inline(source["items"]), source.get("x-kubernetes-list-map-keys", []))
    if isinstance(source.get("additionalProperties"), dict):
        schema["additionalProperties"] = _inline(source["additionalProperties"])
    return schema


def _fill_port_protocol(properties: dict[str, Schema]) -> None:
    """The one default of Kubernetes' types that a stored runtime carries (`spec/runtime-revisions.md` section 3)."""
    if "containerPort" in properties and "protocol" in properties:
        properties["protocol"] = {**properties["protocol"], "default": "TCP"}


def _with_keys_required(items: Schema, keys: Iterable[str]) -> Schema:
    """Keys of a list map must be present: Kubernetes' types default some to "", which OME's CRDs do not."""
    required = list(items.get("required", []))
    missing = [key for key in keys if key not in required and "default" not in items["properties"][key]]
    return {**items, "required": required + missing} if missing else items
