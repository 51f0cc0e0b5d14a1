"""Paths to what they mean: verb, group, version, resource, subresource, namespace and name; and the query of a request.

Pure string work on every request, so it is written to be quick. Whether a resource exists is the registry's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote

from ome.local.apiserver.errors import bad_request, go_quote

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class Query:
    """The decoded query; the first value of a name counts."""

    __slots__ = ("_values",)

    def __init__(self, text: str) -> None:
        self._values: dict[str, list[str]] = parse_qs(text, keep_blank_values=True, errors="replace") if text else {}

    def get(self, name: str) -> str:
        values = self._values.get(name)
        return values[0] if values else ""

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def flag(self, name: str) -> bool:
        """As the real server reads booleans of queries: present and neither `0` nor `false`."""
        values = self._values.get(name)
        return values is not None and values[0] not in ("0", "false", "False", "FALSE", "f", "F")

    def optional_flag(self, name: str) -> bool | None:
        return self.flag(name) if name in self._values else None

    def integer(self, name: str) -> int | None:
        """A whole number, or None when it is not given. Raises Problem 400."""
        text = self.get(name)
        if not text:
            return None
        digits = text[1:] if text[:1] in "+-" else text
        if not digits.isascii() or not digits.isdigit():
            raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
        value = int(text)
        if not -(2**63) <= value < 2**63:
            raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
        return value


@dataclass(slots=True)
class Route:
    """A request's target. `resource` is empty for paths that name no resource; `parts` are the path's parts then."""

    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    rest: str = ""
    parts: tuple[str, ...] = ()
    old_watch: bool = False

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


_METHOD_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def parse(method: str, path: str, query: Query) -> Route:
    """Read a path. Never fails: what it does not understand is a path without a resource, verb = the method."""
    raw = path.strip("/").split("/") if "//" in path else [part for part in path.split("/") if part]
    parts = [unquote(part) if "%" in part else part for part in raw]
    plain = Route(path, method.lower(), parts=tuple(parts))
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return plain
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) < 4:
        return plain
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    old_watch = rest[0] == "watch" and len(rest) > 1
    if old_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
    name = rest[1] if len(rest) > 1 else ""
    return Route(
        path,
        _verb(method, name, query, old_watch),
        group,
        version,
        rest[0],
        rest[2] if len(rest) > 2 else "",
        namespace,
        name,
        "/".join(rest[3:]),
        tuple(parts),
        old_watch,
    )


def _verb(method: str, name: str, query: Query, old_watch: bool) -> str:
    if method == "GET":
        if old_watch:
            return "watch"
        if name:
            return "get"
        return "watch" if query.flag("watch") else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _METHOD_VERBS.get(method, method.lower())
