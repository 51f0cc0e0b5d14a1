"""Custom resource definitions: their defaults, and what one is refused for.

Called by the strategy of the kind. Which names are accepted and what is served is the server's business (`customs.py`).
Schemas are checked in `definitions.schemas`, their rules in CEL in `definitions.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.definitions import schemas, shown
from ome.local.apiserver.errors import FieldError, invalid_value, not_supported, required
from ome.local.apiserver.kinds import names
from ome.local.apiserver.schema import values

_APPROVED: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = ("integer", "number", "string", "boolean", "date")
_COLUMN_FORMATS: Final = ("int32", "int64", "float", "double", "byte", "date", "date-time", "password")
_PROTECTED: Final = ("k8s.io", "kubernetes.io")


def default(obj: dict[str, Any]) -> None:
    """Names and the conversion that follow from others, in place."""
    spec = obj["spec"]
    given = spec.setdefault("names", {})
    kind = given.get("kind", "")
    if not given.get("singular") and kind:
        given["singular"] = kind.lower()
    if not given.get("listKind") and kind:
        given["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def with_stored_versions(obj: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """The status with the storage version among those that were ever stored."""
    storage = next((version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")), None)
    stored = status.get("storedVersions") or []
    if storage is None or storage in stored:
        return status
    return {**status, "storedVersions": [*stored, storage]}


def validate(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[FieldError]:
    """The faults of a definition beyond its metadata's own, in the order of a real server."""
    spec = obj["spec"]
    errors = _name_errors(obj) if old is None else []
    errors += _spec_errors(spec, old["spec"] if old is not None else None)
    errors += _stored_errors(obj)
    errors += _approval_errors(obj)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid_value("spec.preserveUnknownFields", True, text))
    if old is not None and _is_established(old):
        errors += _fixed_errors(spec, old["spec"])
    return errors


def _name_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"
    if not name or name == wanted:
        return []
    return [invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _is_established(obj: Mapping[str, Any]) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)


def _fixed_errors(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    text = "field is immutable"
    errors = [
        invalid_value(f"spec.{field}", spec.get(field), text)
        for field in ("group", "scope")
        if spec.get(field) != old.get(field)
    ]
    after, before = spec.get("names", {}), old.get("names", {})
    return errors + [
        invalid_value(f"spec.names.{field}", after.get(field), text)
        for field in ("kind", "plural")
        if after.get(field) != before.get(field)
    ]


def _spec_errors(spec: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
    errors = _group_errors(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        errors.append(required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    errors += [
        required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if version.get("served") and (version.get("schema") or {}).get("openAPIV3Schema") is None
    ]
    errors += _versions_errors(versions)
    errors += _names_errors(spec.get("names") or {})
    single = len(versions) == 1
    before = {version["name"]: version for version in (old or {}).get("versions") or ()}
    for index, version in enumerate(versions):
        path = "spec" if single else f"spec.versions[{index}]"
        errors += _version_errors(version, path, single=single, old=before.get(version.get("name")))
    return errors + _conversion_errors(spec.get("conversion") or {})


def _group_errors(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    errors = [invalid_value("spec.group", group, text) for text in names.subdomain(group)]
    if not errors and "." not in group:
        errors.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    return errors


def _versions_errors(versions: list[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        name = version.get("name", "")
        if texts := names.label_1035(name):
            errors.append(invalid_value(f"spec.versions[{index}].name", name, ",".join(texts)))
    listed = [version.get("name") for version in versions]
    if len(set(listed)) != len(listed):
        errors.append(invalid_value("spec.versions", shown.versions(versions), "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(invalid_value("spec.versions", shown.versions(versions), text))
    return errors


def _names_errors(given: Mapping[str, Any]) -> list[FieldError]:
    path = "spec.names"
    errors = [
        required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not given.get(field)
    ]
    errors += [
        invalid_value(f"{path}.{field}", given[field], ",".join(texts))
        for field in ("plural", "singular")
        if given.get(field) and (texts := names.label_1035(given[field]))
    ]
    prefix = "may have mixed case, but should otherwise match: "
    for field in ("kind", "listKind"):
        if given.get(field) and (texts := names.label_1035(given[field].lower())):
            errors.append(invalid_value(f"{path}.{field}", given[field], prefix + ",".join(texts)))
        if field == "kind":
            for index, short in enumerate(given.get("shortNames") or ()):
                if texts := names.label_1035(short):
                    errors.append(invalid_value(f"{path}.shortNames[{index}]", short, ",".join(texts)))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        errors.append(invalid_value(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same"))
    for index, category in enumerate(given.get("categories") or ()):
        if texts := names.label_1035(category):
            errors.append(invalid_value(f"{path}.categories[{index}]", category, ",".join(texts)))
    return errors


def _version_errors(
    version: Mapping[str, Any], path: str, *, single: bool, old: Mapping[str, Any] | None
) -> list[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    place = f"{path}.validation.openAPIV3Schema" if single else f"{path}.schema.openAPIV3Schema"
    errors: list[FieldError] = []
    before = ((old or {}).get("schema") or {}).get("openAPIV3Schema")
    if schema is not None and not (before is not None and values.equal(schema, before)):
        errors += schemas.validate(schema, place)
    errors += _subresource_errors(version.get("subresources") or {}, f"{path}.subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    for index, field in enumerate(version.get("selectableFields") or ()):
        errors += _selectable_errors(field, schema or {}, f"{path}.selectableFields[{index}]")
    return errors


def _is_simple_path(path: str) -> bool:
    return re.fullmatch(r"(\.[A-Za-z_][\w-]*)+", path) is not None


def _subresource_errors(given: Mapping[str, Any], path: str) -> list[FieldError]:
    scale = given.get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text = scale.get(field, "")
        place = f"{path}.scale.{field}"
        if not text:
            errors.append(required(place))
        elif not _is_simple_path(text):
            errors.append(invalid_value(place, text, "must be a simple json path starting with ."))
        elif not text.startswith(f"{root}."):
            errors.append(invalid_value(place, text, f"should be a json path under {root}"))
    selector = scale.get("labelSelectorPath")
    if selector:
        place = f"{path}.scale.labelSelectorPath"
        if not _is_simple_path(selector):
            errors.append(invalid_value(place, selector, "must be a simple json path starting with ."))
        elif not selector.startswith((".spec.", ".status.")):
            errors.append(invalid_value(place, selector, "should be a json path under either .spec or .status"))
    return errors


def _column_errors(column: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not column.get("name"):
        errors.append(required(f"{path}.header"))
    kind = column.get("type", "")
    if not kind:
        errors.append(required(f"{path}.type", f"must be one of {','.join(sorted(_COLUMN_TYPES))}"))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid_value(f"{path}.type", kind, f"must be one of {','.join(sorted(_COLUMN_TYPES))}"))
    shape = column.get("format", "")
    if shape and shape not in _COLUMN_FORMATS:
        errors.append(invalid_value(f"{path}.format", shape, f"must be one of {','.join(sorted(_COLUMN_FORMATS))}"))
    where = column.get("jsonPath", "")
    if not where:
        errors.append(required(f"{path}.JSONPath"))
    elif not where.startswith("."):
        errors.append(invalid_value(f"{path}.JSONPath", where, "must be a simple json path starting with ."))
    return errors


def _selectable_errors(field: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> list[FieldError]:
    where = field.get("jsonPath", "")
    place = f"{path}.jsonPath"
    if not where:
        return [required(place)]
    if where.startswith(".metadata."):
        return [invalid_value(place, where, "must not point to fields in metadata")]
    node: Mapping[str, Any] | None = schema
    for name in where.removeprefix(".").split("."):
        node = ((node or {}).get("properties") or {}).get(name)
    if node is None or not where.startswith("."):
        return [invalid_value(place, where, "is an invalid path: does not refer to a valid field")]
    if node.get("type") not in ("string", "boolean", "integer"):
        text = (
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
            "allowed."
        )
        return [invalid_value(place, where, text)]
    return []


def _conversion_errors(conversion: Mapping[str, Any]) -> list[FieldError]:
    strategy = conversion.get("strategy", "")
    path = "spec.conversion"
    if not strategy:
        return [required(f"{path}.strategy")]
    if strategy not in ("None", "Webhook"):
        return [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    webhook = conversion.get("webhook") or {}
    if strategy == "None":
        return (
            []
            if not webhook
            else [
                FieldError(
                    f"{path}.webhook", "FieldValueForbidden", "should not be set when strategy is not set to Webhook"
                )
            ]
        )
    errors: list[FieldError] = []
    if not webhook.get("clientConfig"):
        errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    if not webhook.get("conversionReviewVersions"):
        errors.append(required(f"{path}.conversionReviewVersions"))
    return errors


def _stored_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    stored = obj.get("status", {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid_value(path, None, "must have at least one stored version")]
    versions = obj["spec"].get("versions") or []
    listed = {version.get("name") for version in versions}
    errors = [
        invalid_value(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain "
            "in spec.versions until a storage migration ensures no data remains persisted in "
            f"{name} and removes {name} from status.storedVersions",
        )
        for index, name in enumerate(stored)
        if name not in listed
    ]
    storage = [version["name"] for version in versions if version.get("storage")]
    if storage and storage[-1] not in stored:
        errors.append(invalid_value(path, stored, f"must have the storage version {storage[-1]}"))
    return errors


def _approval_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    group = obj["spec"].get("group", "")
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        return []
    path = f"metadata.annotations[{_APPROVED}]"
    approval = (obj["metadata"].get("annotations") or {}).get(_APPROVED)
    if approval is None:
        text = (
            f'protected groups must have approval annotation "{_APPROVED}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        return [required(path, text)]
    if approval.startswith(("http://", "https://", "unapproved")):
        return []
    text = (
        'protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason '
        'starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
    )
    return [invalid_value(path, approval, text)]
