"""Label and field selectors, as lists and watches take them: parsed with a real server's error texts, then matched.

Pure. Label matching works on a record's labels, field matching on the few fields that a kind makes selectable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ome.local.apiserver.errors import Problem, bad_request, go_quote

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_PART: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self.values
            case "notin" | "!=":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def parse(self) -> tuple[Requirement, ...]:
        out: list[Requirement] = []
        if not self.tokens:
            return ()
        while True:
            token = self.peek()
            if token in (",", "") and not out and token != "":
                raise _cannot(f"found '{token}', expected: !, identifier, or 'end of string'")
            out.append(self.requirement())
            token = self.next()
            if token == "":
                return tuple(out)
            if token != ",":
                raise _cannot(f"found '{token}', expected: ',' or 'end of string'")
            if self.peek() == "":
                return tuple(out)
            if self.peek() == ",":
                raise _cannot("found ',', expected: identifier after ','")

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.next()
        key = self.next()
        if key in ("", "=", "==", "!=", ",", "(", ")", "<", ">", "!"):
            raise _cannot(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return Requirement(key, "!")
        if self.peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self.next()
        operator = {"<": "lt", ">": "gt"}.get(operator, operator)
        if operator not in ("in", "notin", "=", "==", "!=", "gt", "lt"):
            raise _cannot(f"found '{operator}', expected: {_OPERATORS}")
        if operator in ("in", "notin"):
            values: tuple[str, ...] = self.values()
        else:
            values = (self.exact_value(),)
        for value in values:
            _check_value(key, value)
        if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", values[0]):
            raise _cannot_plain(
                f"values[0][{key}]: Invalid value: {go_quote(values[0])}: for 'Gt', 'Lt' operators, the value must "
                "be an integer"
            )
        return Requirement(key, operator, values)

    def exact_value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        value = self.next()
        if value in ("=", "==", "!=", "(", ")", "<", ">", "!"):
            raise _cannot(f"found '{value}', expected: identifier")
        return value

    def values(self) -> tuple[str, ...]:
        token = self.next()
        if token != "(":
            raise _cannot(f"found '{token}' expected: '('")
        out: set[str] = set()
        expect_value = True
        while True:
            token = self.next()
            if token == ")":
                if expect_value:
                    out.add("")
                return tuple(sorted(out))
            if token == "":
                raise _cannot(f"found '{token}', expected: ',', ')' or identifier")
            if token == ",":
                if expect_value:
                    out.add("")
                expect_value = True
                continue
            out.add(token)
            expect_value = False


def _cannot(what: str) -> Problem:
    return bad_request(f"unable to parse requirement: {what}")


def _cannot_plain(what: str) -> Problem:
    return bad_request(what)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    message = ""
    if slash and not prefix:
        message = "prefix part must be non-empty"
    elif slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        message = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        message += "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
        message += "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    elif len(name) > 63:
        message = "name part must be no more than 63 bytes"
    elif not _NAME.fullmatch(name):
        message = NAME_PART
    if message:
        raise _cannot_plain(f"unable to parse requirement: <nil>: Invalid value: {go_quote(key)}: {message}")


def _check_value(key: str, value: str) -> None:
    if len(value) > 63:
        message = "must be no more than 63 bytes"
    elif value and not _NAME.fullmatch(value):
        message = LABEL_VALUE
    else:
        return
    raise _cannot_plain(f"values[0][{key}]: Invalid value: {go_quote(value)}: {message}")


def parse_labels(text: str) -> LabelSelector | None:
    """The `labelSelector` of a query; None when it is empty. Raises Problem 400."""
    if not text or not text.strip():
        return None
    return LabelSelector(_Parser(text).parse())


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    field: str
    value: str
    negated: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    requirements: tuple[FieldRequirement, ...]

    def matches(self, namespace: str, name: str, fields: Mapping[str, str]) -> bool:
        for requirement in self.requirements:
            if requirement.field == "metadata.name":
                actual = name
            elif requirement.field == "metadata.namespace":
                actual = namespace
            else:
                actual = fields.get(requirement.field, "")
            if (actual == requirement.value) == requirement.negated:
                return False
        return True

    def exact(self, field: str) -> str | None:
        """The value the selector demands of `field` by equality."""
        for requirement in self.requirements:
            if requirement.field == field and not requirement.negated:
                return requirement.value
        return None


def parse_fields(text: str) -> FieldSelector | None:
    """The `fieldSelector` of a query, with `\\,`, `\\=` and `\\\\` escapes; None when empty. Raises Problem 400."""
    if not text:
        return None
    requirements: list[FieldRequirement] = []
    for part in _split_unescaped(text):
        if not part:
            continue
        match = re.match(r"((?:[^=!\\]|\\.)*?)(!=|==|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid field selector: invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = match.groups()
        requirements.append(FieldRequirement(_unescape(name, text), _unescape(value, text), operator == "!="))
    return FieldSelector(tuple(requirements)) if requirements else None


def _split_unescaped(text: str) -> list[str]:
    return list(re.split(r"(?<!\\)(?:\\\\)*,", text)) if "\\" in text else text.split(",")


def _unescape(value: str, whole: str) -> str:
    if "\\" not in value:
        return value
    out: list[str] = []
    chars = iter(value)
    for char in chars:
        if char != "\\":
            out.append(char)
            continue
        following = next(chars, "")
        if following not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid selector: '{whole}'")
        out.append(following)
    return "".join(out)


FIELD_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "events.k8s.io": {
        "regarding.kind": "involvedObject.kind",
        "regarding.namespace": "involvedObject.namespace",
        "regarding.name": "involvedObject.name",
        "regarding.uid": "involvedObject.uid",
        "regarding.apiVersion": "involvedObject.apiVersion",
        "regarding.resourceVersion": "involvedObject.resourceVersion",
        "regarding.fieldPath": "involvedObject.fieldPath",
        "reportingController": "reportingComponent",
    },
}
_OWN_WORDS: Final = frozenset(
    {"pods", "nodes", "namespaces", "secrets", "services", "events", "replicationcontrollers", "replicasets.apps"}
)


def check_fields(
    selector: FieldSelector | None, group: str, storage: str, selectable: Sequence[str], *, custom: bool
) -> FieldSelector | None:
    """The selector with the fields' stored names. Raises Problem 400 for a field the kind does not make selectable."""
    if selector is None:
        return None
    aliases = FIELD_ALIASES.get(group, {})
    out: list[FieldRequirement] = []
    for requirement in selector.requirements:
        name = aliases.get(requirement.field, requirement.field)
        if name not in ("metadata.name", "metadata.namespace") and name not in selectable:
            raise bad_request(_unsupported(name, storage, selectable, custom=custom))
        out.append(FieldRequirement(name, requirement.value, requirement.negated))
    return FieldSelector(tuple(out))


def _unsupported(name: str, storage: str, selectable: Sequence[str], *, custom: bool) -> str:
    if storage in _OWN_WORDS or (custom and selectable) or custom:
        return f"field label not supported: {name}"
    if storage == "jobs.batch":
        return f'field label "{name}" not supported for Job'
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


Getter = Callable[[dict[str, Any]], str]


def field_values(obj: dict[str, Any], selectable: Sequence[str]) -> dict[str, str]:
    """The selectable fields of an object as text; what is absent is the zero value a typed object would show."""
    return {name: _field_value(obj, name) for name in selectable}


def _field_value(obj: dict[str, Any], name: str) -> str:
    special = _SPECIAL.get(name)
    if special is not None:
        return special(obj)
    value: Any = obj
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _source(obj: dict[str, Any]) -> str:
    source = obj.get("source")
    component = source.get("component") if isinstance(source, dict) else None
    return str(component or obj.get("reportingComponent") or "")


def _flag(section: str, name: str) -> Getter:
    def get(obj: dict[str, Any]) -> str:
        part = obj.get(section)
        return "true" if isinstance(part, dict) and part.get(name) else "false"

    return get


def _number(section: str, name: str) -> Getter:
    def get(obj: dict[str, Any]) -> str:
        part = obj.get(section)
        return str(part.get(name) or 0) if isinstance(part, dict) else "0"

    return get


def _pod_ips(obj: dict[str, Any]) -> str:
    status = obj.get("status")
    ips = status.get("podIPs") if isinstance(status, dict) else None
    return ",".join(str(entry.get("ip", "")) for entry in ips or () if isinstance(entry, dict))


_SPECIAL: Final[Mapping[str, Getter]] = {
    "source": _source,
    "spec.unschedulable": _flag("spec", "unschedulable"),
    "spec.hostNetwork": _flag("spec", "hostNetwork"),
    "status.replicas": _number("status", "replicas"),
    "status.successful": _number("status", "succeeded"),
    "status.podIPs": _pod_ips,
}
