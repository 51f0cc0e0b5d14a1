"""Whether the rules in CEL of a schema are written well: they compile, yield a truth value, point at fields that exist.

Costs are not estimated, so rules that a real server refuses for their cost are accepted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver import cel
from ome.local.apiserver.definitions import shown
from ome.local.apiserver.errors import FieldError, invalid_value, not_supported, required
from ome.local.apiserver.schema.rules import self_type
from ome.local.apiserver.schema.structural import Node

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
Schema = Mapping[str, Any]


def validate(schema: Schema, path: str) -> list[FieldError]:
    """The faults of all rules of a schema and of the schemas below it."""
    errors: list[FieldError] = []
    for suffix, found in _carriers(schema):
        for index, rule in enumerate(found["x-kubernetes-validations"]):
            place = f"{path}{suffix}.x-kubernetes-validations[{index}]"
            errors += _rule_errors(rule, found, place, root=not suffix)
    return errors


_CARRYING: Final = ("x-kubernetes-validations", "properties", "items", "additionalProperties")


def _carriers(schema: Schema) -> list[tuple[str, Schema]]:
    """(Path below the schema, schema) of all that carry rules; paths are made for those only."""
    if schema.keys().isdisjoint(_CARRYING):
        return []
    found = [("", schema)] if schema.get("x-kubernetes-validations") else []
    for name, child in (schema.get("properties") or {}).items():
        if below := _carriers(child):
            found += [(f".properties[{name}]{suffix}", carrier) for suffix, carrier in below]
    for word in ("items", "additionalProperties"):
        child = schema.get(word)
        if isinstance(child, Mapping) and (below := _carriers(child)):
            found += [(f".{word}{suffix}", carrier) for suffix, carrier in below]
    return found


def _rule_errors(rule: Mapping[str, Any], schema: Schema, path: str, *, root: bool) -> list[FieldError]:
    text = rule.get("rule", "")
    if not text.strip():
        return [required(f"{path}.rule", "rule is not specified")]
    errors: list[FieldError] = []
    message = rule.get("message", "")
    if "\n" in message.strip():
        errors.append(invalid_value(f"{path}.message", message, "message must not contain line breaks"))
    if "\n" in text and not message:
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    if rule.get("messageExpression", "") != "" and not rule["messageExpression"].strip():
        errors.append(required(f"{path}.messageExpression", "must be non-empty if specified"))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    if rule.get("fieldPath") and not _points_at_field(rule["fieldPath"], schema, root=root):
        errors.append(invalid_value(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path"))
    if errors:
        return errors
    return _compile_errors(rule, schema, path, root=root)


def _compile_errors(rule: Mapping[str, Any], schema: Schema, path: str, *, root: bool) -> list[FieldError]:
    optional = bool(rule.get("optionalOldSelf"))
    if optional and not cel.mentions_old(rule["rule"]):
        text = "may not be set to true when the rule does not use oldSelf"
        return [invalid_value(f"{path}.optionalOldSelf", True, text)]
    errors: list[FieldError] = []
    for field, wanted, word in (
        ("rule", "BOOL", "cel expression must evaluate to a bool"),
        ("messageExpression", "STRING", "messageExpression must evaluate to a string"),
    ):
        text = rule.get(field, "")
        if not text:
            continue
        place = f"{path}.{field}"
        if fault := _undefined(text, schema, root=root):
            errors.append(invalid_value(place, shown.rule(rule), f"compilation failed: {fault}"))
            continue
        try:
            program = cel.compile_rule(text, self_type(Node(schema)), optional_old=optional)
        except cel.CompileError as error:
            errors.append(invalid_value(place, shown.rule(rule), f"compilation failed: {error}"))
            continue
        if program.result not in (wanted, "DYN"):
            errors.append(invalid_value(place, shown.rule(rule), word))
    return errors


def _undefined(expression: str, schema: Schema, *, root: bool) -> str:
    """The compiler's complaint about a field that the schema does not declare; empty when there is none."""

    def resolve(level: Any, name: str) -> Any:
        if level.get("x-kubernetes-preserve-unknown-fields") or "properties" not in level:
            return ...
        is_object = level is schema and (root or schema.get("x-kubernetes-embedded-resource"))
        if is_object and name in ("apiVersion", "kind", "metadata"):
            return ...
        for declared, found in level["properties"].items():
            if cel.escaped(declared) == name:
                return found
        return None

    if "properties" not in schema:
        return ""
    found = cel.undefined_field(expression, schema, resolve)
    if found is None:
        return ""
    column, name = found
    return cel.compile_error(expression, column, f"undefined field '{name}'")


def _points_at_field(path: str, schema: Schema, *, root: bool) -> bool:
    parts = re.findall(r"\.([A-Za-z_][\w]*)|\['([^']*)'\]", path)
    if not parts or "".join(f".{one}" if one else f"['{other}']" for one, other in parts) != path:
        return False
    level: Any = schema
    for one, other in parts:
        name = one or other
        if root and level is schema and name in ("apiVersion", "kind", "metadata"):
            return True
        properties = level.get("properties") or {}
        if name in properties:
            level = properties[name]
        elif isinstance(level.get("additionalProperties"), Mapping):
            level = level["additionalProperties"]
        else:
            return False
    return True


__all__ = ["validate"]
