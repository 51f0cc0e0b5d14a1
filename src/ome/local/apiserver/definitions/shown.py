"""Versions of a definition as refusals print them: the server's own fields, all of them, unset ones too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_SCHEMA: Final[tuple[tuple[str, str, Any], ...]] = (
    ("ID", "id", ""), ("Schema", "$schema", ""), ("Ref", "$ref", None), ("Description", "description", ""),
    ("Type", "type", ""), ("Nullable", "nullable", False), ("Format", "format", ""), ("Title", "title", ""),
    ("Default", "default", None), ("Maximum", "maximum", None), ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", None), ("ExclusiveMinimum", "exclusiveMinimum", False), ("MaxLength", "maxLength", None),
    ("MinLength", "minLength", None), ("Pattern", "pattern", ""), ("MaxItems", "maxItems", None),
    ("MinItems", "minItems", None), ("UniqueItems", "uniqueItems", False), ("MultipleOf", "multipleOf", None),
    ("Enum", "enum", None), ("MaxProperties", "maxProperties", None), ("MinProperties", "minProperties", None),
    ("Required", "required", None), ("Items", "items", None), ("AllOf", "allOf", None), ("OneOf", "oneOf", None),
    ("AnyOf", "anyOf", None), ("Not", "not", None), ("Properties", "properties", None),
    ("AdditionalProperties", "additionalProperties", None), ("PatternProperties", "patternProperties", None),
    ("Dependencies", "dependencies", None), ("AdditionalItems", "additionalItems", None),
    ("Definitions", "definitions", None), ("ExternalDocs", "externalDocs", None), ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False), ("XListMapKeys", "x-kubernetes-list-map-keys", None),
    ("XListType", "x-kubernetes-list-type", None), ("XMapType", "x-kubernetes-map-type", None),
    ("XValidations", "x-kubernetes-validations", None),
)  # fmt: skip
_RULE: Final = (
    ("Rule", "rule", ""), ("Message", "message", ""), ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None), ("FieldPath", "fieldPath", ""), ("OptionalOldSelf", "optionalOldSelf", None),
)  # fmt: skip


def _fields(source: Mapping[str, Any], table: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    return {shown: source.get(name, empty) for shown, name, empty in table}


def rule(source: Mapping[str, Any]) -> dict[str, Any]:
    """A rule in CEL."""
    return _fields(source, _RULE)


def _schema(source: Mapping[str, Any]) -> dict[str, Any]:
    out = _fields(source, _SCHEMA)
    for name in ("AllOf", "OneOf", "AnyOf"):
        if out[name] is not None:
            out[name] = [_schema(item) for item in out[name]]
    for name in ("Properties", "PatternProperties", "Definitions"):
        if out[name] is not None:
            out[name] = {key: _schema(out[name][key]) for key in sorted(out[name])}
    if out["Not"] is not None:
        out["Not"] = _schema(out["Not"])
    items = out["Items"]
    if isinstance(items, Mapping):
        out["Items"] = {"Schema": _schema(items), "JSONSchemas": None}
    elif isinstance(items, list):
        out["Items"] = {"Schema": None, "JSONSchemas": [_schema(item) for item in items]}
    more = out["AdditionalProperties"]
    if more is not None:
        out["AdditionalProperties"] = {
            "Allows": more if isinstance(more, bool) else True,
            "Schema": _schema(more) if isinstance(more, Mapping) else None,
        }
    if out["XValidations"] is not None:
        out["XValidations"] = [rule(item) for item in out["XValidations"]]
    return out


def versions(sources: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All versions of a definition. Of a single one the schema and its like stand elsewhere, so they print as null."""
    listed = list(sources)
    if len(listed) == 1:
        listed = [{key: value for key, value in listed[0].items() if key not in _HOISTED}]
    return [_version(source) for source in listed]


_HOISTED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _version(source: Mapping[str, Any]) -> dict[str, Any]:
    schema = (source.get("schema") or {}).get("openAPIV3Schema")
    return {
        "Name": source.get("name", ""),
        "Served": source.get("served", False),
        "Storage": source.get("storage", False),
        "Deprecated": source.get("deprecated", False),
        "DeprecationWarning": source.get("deprecationWarning"),
        "Schema": {"OpenAPIV3Schema": _schema(schema)} if isinstance(schema, Mapping) else None,
        "Subresources": source.get("subresources"),
        "AdditionalPrinterColumns": source.get("additionalPrinterColumns"),
        "SelectableFields": source.get("selectableFields"),
    }
