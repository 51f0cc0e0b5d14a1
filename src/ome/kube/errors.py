"""What can go wrong between OME and an API server.

    KubeError
    ├── ConfigError                 the kubeconfig or the credentials are unusable
    ├── TransportError              no answer: refused, reset, timed out, TLS (.outcome_unknown: it may have happened)
    └── ApiError                    an answer with a Status (.status_code .reason .message .details)
        ├── BadRequest              400
        ├── Unauthorized            401
        ├── Forbidden               403  ├── NamespaceTerminating
        ├── NotFound                404
        ├── MethodNotSupported      405
        ├── Conflict                409  (stale resourceVersion or a failed precondition)
        ├── AlreadyExists           409
        ├── Gone                    410  (also an ERROR event of a watch)
        ├── UnsupportedMediaType    415
        ├── Invalid                 422
        ├── TooManyRequests         429  (.retry_after, seconds)
        ├── InternalError           500
        └── Unavailable             502, 503, 504 (.retry_after)

Every leaf has one `disposition`: what a controller does about it is decided here, once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar


class Disposition(StrEnum):
    """What a caller can do about an error."""

    TRANSIENT = "transient"  # the same request may succeed later
    CONFLICT = "conflict"  # read again, decide again
    WAITING = "waiting"  # something else has to happen first (quota, throttling)
    REJECTED = "rejected"  # the request itself is refused; repeating it is pointless
    GONE = "gone"  # the object or the version is not there any more


class KubeError(Exception):
    """The root of everything this package raises on purpose."""

    disposition: ClassVar[Disposition] = Disposition.TRANSIENT


class ConfigError(KubeError):
    """The kubeconfig, a certificate or a credential cannot be used; the message says which and why."""

    disposition = Disposition.REJECTED


class TransportError(KubeError):
    """No answer came. `outcome_unknown` is True when the request may have reached the server."""

    def __init__(self, message: str, *, outcome_unknown: bool = True) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class ApiError(KubeError):
    """The API server answered with a failure."""

    def __init__(
        self,
        status_code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or f"{status_code} {reason}".strip())
        self.status_code = status_code
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after


class BadRequest(ApiError):
    disposition = Disposition.REJECTED


class Unauthorized(ApiError):
    disposition = Disposition.TRANSIENT


class Forbidden(ApiError):
    disposition = Disposition.REJECTED

    @property
    def is_quota(self) -> bool:
        """A ResourceQuota refused the object: room may come later (`exceeded quota: ...`)."""
        return "exceeded quota" in self.message


class NamespaceTerminating(Forbidden):
    disposition = Disposition.REJECTED


class NotFound(ApiError):
    disposition = Disposition.GONE


class MethodNotSupported(ApiError):
    disposition = Disposition.REJECTED


class Conflict(ApiError):
    disposition = Disposition.CONFLICT


class AlreadyExists(ApiError):
    disposition = Disposition.CONFLICT


class Gone(ApiError):
    disposition = Disposition.GONE


class UnsupportedMediaType(ApiError):
    disposition = Disposition.REJECTED


class Invalid(ApiError):
    disposition = Disposition.REJECTED


class TooManyRequests(ApiError):
    disposition = Disposition.WAITING


class InternalError(ApiError):
    disposition = Disposition.TRANSIENT


class Unavailable(ApiError):
    disposition = Disposition.TRANSIENT


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotSupported,
    409: Conflict,
    410: Gone,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_from_status(status_code: int, status: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    """The leaf for a `Status` object (a failed response's body, or the object of a watch's ERROR event)."""
    reason = str(status.get("reason") or "")
    details = status.get("details") or {}
    kind = _BY_CODE.get(status_code) or (InternalError if status_code >= 500 else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is Forbidden and any(c.get("reason") == "NamespaceTerminating" for c in details.get("causes") or ()):
        kind = NamespaceTerminating
    if retry_after is None and isinstance(details.get("retryAfterSeconds"), int):
        retry_after = float(details["retryAfterSeconds"])
    return kind(status_code, reason, str(status.get("message") or ""), details, retry_after)


def error_from_response(status_code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The leaf for a failed HTTP response; a body that is no Status becomes the message."""
    retry_after: float | None = None
    try:
        retry_after = float(headers["retry-after"])
    except (KeyError, ValueError):
        pass
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body.decode("utf-8", "replace").strip()[:2000]
        status = {"message": text or f"the server answered {status_code}"}
    return error_from_status(status_code, status, retry_after)
