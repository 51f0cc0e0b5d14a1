"""What the API server refuses with: `Problem` (a Status as an exception) and `FieldError` (one cause of a 422).

The texts are those of a real API server, because kubectl and client libraries show and match them. Pure: the verbs
raise, `handle()` turns the Problem into an answer. Not the client's error tree; that is `ome.kube.errors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson


class _Omitted:
    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()
"""As `bad_value`: the value is not printed."""

_TYPE_TEXT: Final[Mapping[str, str]] = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE: Final = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError"})


def go_quote(text: str) -> str:
    """Go's `%q`: a quoted string, control and unprintable characters escaped."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\x{code:02x}")
        elif code == 0xFEFF or (not char.isprintable() and code != 0x20):
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
        else:
            out.append(char)
    out.append('"')
    return "".join(out)


_ESCAPES: Final[Mapping[str, str]] = {
    "\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v",
}  # fmt: skip


def value_text(value: Any) -> str:
    """A refused value as the messages print it: strings quoted as Go does, the rest as its JSON."""
    if isinstance(value, str):
        return go_quote(value)
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of an Invalid answer.

    field: a path such as `spec.containers[0].name`. type: the cause's reason, e.g. `FieldValueInvalid`. detail: the
    text after the value. bad_value: what was refused; printed unless it is OMITTED or the type never prints it.
    """

    field: str
    type: str
    detail: str = ""
    bad_value: Any = OMITTED

    def body(self) -> str:
        """The text of the cause: type, value, detail."""
        text = _TYPE_TEXT.get(self.type, self.type)
        if self.type not in _WITHOUT_VALUE and self.bad_value is not OMITTED:
            text = f"{text}: {value_text(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def cause(self) -> dict[str, str]:
        return {"reason": self.type, "message": self.body(), "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", detail)


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", detail, value)


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueTypeInvalid", detail, value)


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", detail)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", "", value)


def not_found_value(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueNotFound", "", value)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """`supported` in the order in which the message lists it."""
    return FieldError(
        field, "FieldValueNotSupported", f"supported values: {', '.join(go_quote(v) for v in supported)}", value
    )


def too_long(field: str, limit: int) -> FieldError:
    detail = f"may not be more than {limit} bytes" if limit >= 0 else "value is too long"
    return FieldError(field, "FieldValueTooLong", detail)


def too_many(field: str, actual: int, limit: int) -> FieldError:
    return FieldError(field, "FieldValueTooMany", f"must have at most {limit} item{'' if limit == 1 else 's'}", actual)


@dataclass(slots=True, eq=False)
class Problem(Exception):
    """A refusal. `details` None leaves `details` out of the Status, an empty dict is sent as `{}`: both occur."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    extra_metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> dict[str, Any]:
        """The `v1` Status object, keys in the order a real server writes them."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.extra_metadata,
            "status": "Failure",
        }
        if self.message:
            out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        out["code"] = self.code
        return out


def qualified(resource: str, group: str) -> str:
    """`deployments.apps`, `pods`."""
    return f"{resource}.{group}" if group else resource


def details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    """StatusDetails without its empty fields. `kind` is the plural resource, except in Invalid answers."""
    out: dict[str, Any] = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in out.items() if value not in ("", None, [])}


def not_found(resource: str, group: str, name: str) -> Problem:
    return Problem(404, "NotFound", f'{qualified(resource, group)} "{name}" not found', details(name, group, resource))


def already_exists(resource: str, group: str, name: str, *, terminating: bool = False) -> Problem:
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{qualified(resource, group)} "{name}" already exists'
    return Problem(409, "AlreadyExists", message, details(name, group, resource))


MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, message: str = MODIFIED) -> Problem:
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {message}'
    return Problem(409, "Conflict", text, details(name, group, resource))


def aggregate(texts: Sequence[str]) -> str:
    """Several messages as Go's error aggregate prints them: one as it is, more in brackets, repetitions dropped."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Problem:
    """422 for the given causes, e.g. `Widget.example.com "a" is invalid: spec.x: Required value`."""
    message = f'{qualified(kind, group)} "{name}" is invalid'
    if errors:
        message = f"{message}: {aggregate([str(error) for error in errors])}"
    causes = [error.cause() for error in errors]
    return Problem(422, "Invalid", message, details(name, group, kind, causes=causes))


def bad_request(message: str) -> Problem:
    return Problem(400, "BadRequest", message)


def too_deep() -> Problem:
    """An object nested deeper than is held here, about 250 levels; a real server draws the line at 10,000."""
    return bad_request("exceeded max depth")


def unauthorized() -> Problem:
    return Problem(401, "Unauthorized", "Unauthorized")


def forbidden(resource: str, group: str, name: str, message: str) -> Problem:
    """`pods "a" is forbidden: <message>`; without a name the resource alone."""
    subject = qualified(resource, group)
    if name:
        text = f'{subject} "{name}" is forbidden: {message}'
    elif resource:
        text = f"{subject} is forbidden: {message}"
    else:
        text = f"forbidden: {message}"
    return Problem(403, "Forbidden", text, details(name, group, resource))


def resource_not_found() -> Problem:
    """No such resource or subresource at this path."""
    return Problem(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Problem:
    return Problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(accepted: Sequence[str], *, transformation: bool = False) -> Problem:
    if transformation:
        return Problem(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}")
    return Problem(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {', '.join(accepted)}", {})


def unsupported_media_type(accepted: Sequence[str]) -> Problem:
    text = "the body of the request was in an unknown format - accepted media types include: "
    return Problem(415, "UnsupportedMediaType", text + ", ".join(accepted))


def too_large(limit: int) -> Problem:
    return Problem(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def gone(message: str, metadata: dict[str, Any] | None = None) -> Problem:
    """410 with reason Expired: the version asked for is forgotten."""
    return Problem(410, "Expired", message, extra_metadata=metadata or {})


def too_many_requests(message: str, retry_after: int, causes: Sequence[dict[str, str]] = ()) -> Problem:
    info = {"retryAfterSeconds": retry_after} if retry_after else {}
    if causes:
        info = {"causes": list(causes), **info}  # type: ignore[dict-item]
    headers = {"retry-after": str(retry_after)} if retry_after else {}
    return Problem(429, "TooManyRequests", message, info, headers)


def internal_error(message: str) -> Problem:
    """500 with reason InternalError; the text gets the usual prefix."""
    text = f"Internal error occurred: {message}"
    return Problem(500, "InternalError", text, {"causes": [{"message": message}]})


def server_error(message: str) -> Problem:
    """500 with neither reason nor details, as a real server answers when an error of its internals comes through."""
    return Problem(500, "", message)
