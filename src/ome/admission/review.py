"""AdmissionReview in and out, and what a check decides. Knows no rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

Json = dict[str, Any]
Patch = list[Json]
T = TypeVar("T")


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """What is asked: `object` is None for a DELETE, `old_object` for a CREATE."""

    uid: str
    operation: str = ""
    name: str = ""
    namespace: str = ""
    object: Json | None = None
    old_object: Json | None = None
    user_info: _UserInfo = _UserInfo()

    @property
    def username(self) -> str:
        return self.user_info.username


class _Review(msgspec.Struct, frozen=True):
    request: Request


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed or not; `message` says why not; `patch` is a JSON patch of a mutating webhook."""

    allowed: bool
    message: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()


ALLOWED = Verdict(True)
_DECODER = msgspec.json.Decoder(_Review)
_ENCODER = msgspec.json.Encoder()


def allow(*, warnings: Iterable[str] = (), patch: Iterable[Json] = ()) -> Verdict:
    return Verdict(True, "", tuple(warnings), tuple(patch))


def deny(message: str) -> Verdict:
    return Verdict(False, message)


def first_denial(checks: Iterable[Callable[[T], str]], about: T) -> str:
    """The text of the first check that objects, "" when none does: later checks are not run."""
    return next((text for check in checks if (text := check(about))), "")


def decode(body: bytes) -> Request:
    """The request of an AdmissionReview. Raises `msgspec.DecodeError`."""
    return _DECODER.decode(body).request


def encode(request: Request, verdict: Verdict) -> bytes:
    """The answer. A denial is 403 Forbidden with the reason as message (`spec/runtime-revisions.md` section 9.1)."""
    response: Json = {"uid": request.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": verdict.message}
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    if verdict.patch:
        # `patch` is a byte string: msgspec writes bytes as base64, which is what the API wants.
        response |= {"patchType": "JSONPatch", "patch": _ENCODER.encode(verdict.patch)}
    return _ENCODER.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
