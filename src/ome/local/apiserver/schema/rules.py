"""The rules in CEL that a structural schema carries (x-kubernetes-validations), evaluated on an object."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from ome.local.apiserver import cel
from ome.local.apiserver.errors import OMITTED, FieldError
from ome.local.apiserver.schema import formats, values
from ome.local.apiserver.schema.structural import Node, mentions_rules
from ome.local.apiserver.schema.validate import ABSENT, correlate

_REASONS: Final = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
_SELF_TYPES: Final = {"date-time": "timestamp", "date": "timestamp", "duration": "duration", "byte": "bytes"}


class Rule:
    """One rule at one node, compiled when first evaluated."""

    def __init__(self, source: Mapping[str, Any], node: Node) -> None:
        self.source = source
        self.text: str = source.get("rule", "")
        self.optional_old = bool(source.get("optionalOldSelf"))
        self.is_transition = self.optional_old or cel.mentions_old(self.text)
        self.escapes = "__" in self.text or "__" in source.get("messageExpression", "")
        self.self_type = self_type(node)

    @cached_property
    def program(self) -> cel.Program:
        return cel.compile_rule(self.text, self.self_type, optional_old=self.optional_old)

    @property
    def shown(self) -> str:
        """How an evaluation error names the rule."""
        return self.source.get("message") or self.text

    def message(self, variables: Mapping[str, Any]) -> str:
        """What a failed rule says: its message expression's text, its message, or the rule itself."""
        expression = self.source.get("messageExpression")
        if expression:
            try:
                program = cel.compile_rule(expression, self.self_type, optional_old=self.optional_old)
                found = program.evaluate(variables)
            except (cel.CompileError, cel.EvaluationError):
                found = ""
            if isinstance(found, str) and found.strip() and "\n" not in found:
                return found.strip()
        return self.source.get("message", "").strip() or f"failed rule: {self.text.strip()}"


def self_type(node: Node) -> str:
    """The CEL type of `self` at a node, where it is not what JSON shows."""
    if node.types == ("string",):
        return _SELF_TYPES.get(str(node.schema.get("format", "")), "dyn")
    return "dyn"


def rules_of(node: Node) -> tuple[Rule, ...]:
    """The rules at a node itself."""
    found: tuple[Rule, ...] | None = node.compiled_rules
    if found is None:
        found = tuple(Rule(source, node) for source in node.schema.get("x-kubernetes-validations") or ())
        node.compiled_rules = found
    return found


def evaluate(obj: Any, root: Node, old: Any = ABSENT) -> list[FieldError]:
    """Faults by the rules of the schema, outer nodes first. With `old`, rules on unchanged values are let pass."""
    errors: list[FieldError] = []
    _walk(obj, root, "", old, errors)
    return errors


def _walk(value: Any, node: Node, path: str, old: Any, errors: list[FieldError]) -> None:
    unchanged = old is not ABSENT and values.equal(value, old)
    if value is not None:
        for rule in rules_of(node):
            if not (unchanged and not rule.is_transition):
                _check(value, rule, path, old, errors)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = node.child(name)
            if child is not None and _has_rules(child):
                _walk(item, child, f"{path}.{name}" if path else name, before.get(name, ABSENT), errors)
    elif isinstance(value, list) and node.items is not None and _has_rules(node.items):
        previous = correlate(old, node)
        for position, item in enumerate(value):
            was = previous.get(node.item_key(item), ABSENT) if previous else ABSENT
            _walk(item, node.items, f"{path}[{position}]", was, errors)


def _has_rules(node: Node) -> bool:
    found: bool | None = node.mentions_rules
    if found is None:
        found = node.mentions_rules = mentions_rules(node.schema)
    return found


def _check(value: Any, rule: Rule, path: str, old: Any, errors: list[FieldError]) -> None:
    present = old is not ABSENT
    if rule.is_transition and not rule.optional_old and not present:
        return
    now, was = _cel_value(value, rule), _cel_value(old, rule) if present else None
    variables = {"self": now, **cel.old_variables(was, present=present, optional_old=rule.optional_old)}
    try:
        if rule.program.evaluate(variables) is True:
            return
    except (cel.EvaluationError, cel.CompileError) as error:
        detail = f"{error} evaluating rule: {rule.shown}"
        errors.append(FieldError(path or "<nil>", "FieldValueInvalid", detail, values.json_type(value)))
        return
    errors.append(_failed(value, rule, path, variables))


def _failed(value: Any, rule: Rule, path: str, variables: Mapping[str, Any]) -> FieldError:
    field = path + rule.source.get("fieldPath", "") if path else rule.source.get("fieldPath", "").removeprefix(".")
    reason = rule.source.get("reason") or "FieldValueInvalid"
    shown = OMITTED if isinstance(value, (dict, list)) or rule.source.get("fieldPath") else value
    message = "" if reason == "FieldValueDuplicate" else rule.message(variables)
    return FieldError(field or "<nil>", reason if reason in _REASONS else "FieldValueInvalid", message, shown)


def _cel_value(value: Any, rule: Rule) -> Any:
    if isinstance(value, str) and rule.self_type != "dyn":
        return _of_format(value, rule.self_type)
    return cel.with_escaped_names(value) if rule.escapes else value


def _of_format(text: str, self_type: str) -> Any:
    """The value that a text of a format stands for; the text itself when the language at hand cannot read it."""
    try:
        if self_type == "bytes":
            return base64.b64decode(text)
        if self_type == "duration":
            return timedelta(seconds=formats.duration_seconds(text))
        moment = datetime.fromisoformat(text.upper())
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return text
