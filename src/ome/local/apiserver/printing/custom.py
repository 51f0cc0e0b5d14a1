"""Columns of custom kinds: JSONPath expressions of a definition, compiled once.

The part of JSONPath that definitions use: members, indices, `[*]`, `..`, quoted members and `[?(@.a=="b")]`. Of several
results the first is shown, as a real server does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from ome.local.apiserver.printing.layouts import AGE, META, NAME, Column, Layout, Object, since
from ome.local.apiserver.registry import CustomVersion

Step = Callable[[Any], Iterable[Any]]
_PART: Final = re.compile(
    r"""\.\.?(?P<name>(?:\\.|[^.\[\]\\])+)
      | \[(?P<index>-?\d+)\]
      | \[\*\] | \.(?P<star>\*)
      | \['(?P<quoted>(?:[^'\\]|\\.)*)'\]
      | \["(?P<double>(?:[^"\\]|\\.)*)"\]
      | \[\?\(@(?P<left>[^=<>!]*?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.*?)\)\]
      | \[\?\(@(?P<exists>[^)]*)\)\]""",
    re.VERBOSE,
)


class PathError(ValueError):
    """A JSONPath that this server does not understand."""


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """The values at a JSONPath like `.spec.items[0].name`. Raises PathError."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise PathError(path)
        steps.append(_step(match))
        at = match.end()

    def find(value: Any) -> list[Any]:
        found: list[Any] = [value]
        for step in steps:
            found = [result for item in found for result in step(item)]
        return found

    return find


def _step(match: re.Match[str]) -> Step:
    groups = match.groupdict()
    if groups["name"] is not None and groups["name"] != "*":
        name = re.sub(r"\\(.)", r"\1", groups["name"])
        return _descend(name) if match[0].startswith("..") else _member(name)
    if groups["index"] is not None:
        return _index(int(groups["index"]))
    for quoted in ("quoted", "double"):
        if groups[quoted] is not None:
            return _member(re.sub(r"\\(.)", r"\1", groups[quoted]))
    if groups["left"] is not None:
        return _filter(groups["left"].strip(), groups["operator"], groups["right"].strip())
    if groups["exists"] is not None:
        return _existing(groups["exists"].strip())
    return _every


def _member(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, Mapping) and name in value else ()


def _index(index: int) -> Step:
    return lambda value: (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return [value[key] for key in sorted(value)] if isinstance(value, Mapping) else ()


def _descend(name: str) -> Step:
    def walk(value: Any) -> Iterable[Any]:
        if isinstance(value, Mapping):
            for key, child in value.items():
                if key == name:
                    yield child
                yield from walk(child)
        elif isinstance(value, list):
            for child in value:
                yield from walk(child)

    return walk


def _filter(left: str, operator: str, right: str) -> Step:
    find = compile_path(left) if left else lambda value: [value]
    wanted: Any
    if right[:1] in "'\"":
        wanted = right[1:-1]
    else:
        try:
            wanted = json.loads(right)
        except ValueError:
            wanted = right

    def keep(value: Any) -> Iterable[Any]:
        items = value if isinstance(value, list) else list(value.values()) if isinstance(value, Mapping) else []
        return [item for item in items if any(_compare(found, operator, wanted) for found in find(item))]

    return keep


def _compare(found: Any, operator: str, wanted: Any) -> bool:
    if operator == "==":
        return bool(found == wanted)
    if operator == "!=":
        return bool(found != wanted)
    numbers = all(isinstance(value, (int, float)) for value in (found, wanted))
    texts = isinstance(found, str) and isinstance(wanted, str)
    if not numbers and not texts:
        return False
    result = {"<": found < wanted, "<=": found <= wanted, ">": found > wanted, ">=": found >= wanted}
    return bool(result[operator])


def _existing(path: str) -> Step:
    find = compile_path(path)

    def keep(value: Any) -> Iterable[Any]:
        return [item for item in value if find(item)] if isinstance(value, list) else ()

    return keep


def _cell(find: Callable[[Any], list[Any]], kind: str) -> Callable[[Object, datetime], Any]:
    def cell(obj: Object, now: datetime) -> Any:
        found = find(obj)
        return _shown(found[0], kind, now) if found else None

    return cell


def _shown(value: Any, kind: str, now: datetime) -> Any:
    if kind == "integer":
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "number":
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        return since(value, now) if isinstance(value, str) else None
    if isinstance(value, str):
        return value
    if value is None:
        return None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def layout(version: CustomVersion) -> Layout:
    """The columns of one version of a custom kind: name first, and age where the definition names none."""
    columns: list[Column] = [NAME]
    if not version.columns:
        return Layout([NAME, Column("Age", AGE.cell, META + "creationTimestamp", type="date")])
    for given in version.columns:
        path = str(given.get("jsonPath", ""))
        try:
            find = compile_path(path)
        except PathError:
            continue
        kind = str(given.get("type", "string"))
        about = given.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        columns.append(
            Column(
                str(given.get("name", "")),
                _cell(find, kind),
                about,
                bool(given.get("priority")),
                kind,
                str(given.get("format") or ""),
            )
        )
    return Layout(columns)
