"""`{{ }}` placeholders of a runner: a small, closed subset of Go's template language (`spec/serving-runtimes.md
section 7.6`).

Every string of a container is expanded on its own; a value goes in as it is and is never expanded again, so nothing
in it can break or change the container. Everything outside the subset is a `TemplateError`: a typo must not reach a
pod. `$(VAR)` is Kubernetes' and is left alone. To write literal braces: `{{"{{"}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ome.rendering.model import TemplateError

NO_VALUE = "<no value>"

_ACTION = re.compile(r"\{\{(?P<left>- )?(?P<body>`[^`]*`|.*?)(?P<right> -)?\}\}", re.DOTALL)
_LITERAL = r"`(?P<raw>[^`]*)`|\"(?P<quoted>[^\"\\]*)\""
_FIELD = re.compile(r"\.(?P<name>Name|Namespace)")
_ENTRY = re.compile(r"\.(?P<map>Labels|Annotations)\.(?P<key>[A-Za-z_][A-Za-z0-9_]*)")
_INDEX = re.compile(rf"index\s+\.(?P<map>Labels|Annotations)\s+(?:{_LITERAL})")
_TEXT = re.compile(_LITERAL)


@dataclass(frozen=True, slots=True)
class PlaceholderValues:
    """The service's metadata, as a template sees it."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def expand(value: Any, values: PlaceholderValues) -> Any:
    """A copy of any JSON value with every string in it expanded. Raises `TemplateError`."""
    if isinstance(value, str):
        return expand_text(value, values)
    if isinstance(value, list):
        return [expand(item, values) for item in value]
    if isinstance(value, Mapping):
        return {key: expand(item, values) for key, item in value.items()}
    return value


def expand_text(text: str, values: PlaceholderValues) -> str:
    """One string. Raises `TemplateError` naming the string and the action that is wrong."""
    if "{{" not in text:
        return text
    parts: list[str] = []
    position = 0
    trim_next = False
    for action in _ACTION.finditer(text):
        before = text[position : action.start()]
        _check_literal(before, text)
        before = before.lstrip() if trim_next else before
        parts.append(before.rstrip() if action["left"] else before)
        parts.append(_evaluate(action["body"].strip(), values, text))
        trim_next = bool(action["right"])
        position = action.end()
    rest = text[position:]
    _check_literal(rest, text)
    parts.append(rest.lstrip() if trim_next else rest)
    return "".join(parts)


def _check_literal(literal: str, text: str) -> None:
    if "{{" in literal:
        raise TemplateError(f"malformed placeholder in {text!r}: unclosed action")


def _evaluate(body: str, values: PlaceholderValues, text: str) -> str:
    if body.startswith("/*") and body.endswith("*/"):
        return ""
    if match := _FIELD.fullmatch(body):
        return values.name if match["name"] == "Name" else values.namespace
    if match := _ENTRY.fullmatch(body):
        return _map(match["map"], values).get(match["key"], NO_VALUE)
    if match := _INDEX.fullmatch(body):
        return _map(match["map"], values).get(_literal(match), "")
    if match := _TEXT.fullmatch(body):
        return _literal(match)
    raise TemplateError(f"malformed placeholder in {text!r}: cannot evaluate {{{{{body}}}}}")


def _map(name: str, values: PlaceholderValues) -> Mapping[str, str]:
    return values.labels if name == "Labels" else values.annotations


def _literal(match: re.Match[str]) -> str:
    return match["raw"] if match["raw"] is not None else match["quoted"]
