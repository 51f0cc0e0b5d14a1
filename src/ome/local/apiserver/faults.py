"""Faults injected at the HTTP edge, so that a seeded simulation can see how clients bear them.

A callable looks at every request and may choose a fault; `None` lets it pass. Nothing here is random by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ome.local.apiserver.errors import MODIFIED, Problem, internal_error
from ome.local.apiserver.http import HttpRequest, HttpResponse


class FaultKind(Enum):
    CONFLICT = auto()
    """409 before anything happens."""
    TOO_MANY_REQUESTS = auto()
    """429 with Retry-After."""
    INTERNAL_ERROR = auto()
    """500 before anything happens."""
    TIMEOUT_BEFORE = auto()
    """No answer, and nothing happened."""
    TIMEOUT_AFTER = auto()
    """No answer, but the request was carried out."""
    DROP_STREAM = auto()
    """A watch or log ends abruptly after `after` chunks."""
    SLOW = auto()
    """The answer comes `seconds` late."""


@dataclass(frozen=True, slots=True)
class Fault:
    """kind; seconds: for SLOW, and for TOO_MANY_REQUESTS what Retry-After says; after: chunks before DROP_STREAM."""

    kind: FaultKind
    seconds: float = 1.0
    after: int = 1


Faults = Callable[[HttpRequest], Fault | None]
Handle = Callable[[], Awaitable[HttpResponse]]


class NoAnswer(Exception):
    """The connection breaks without an answer. Transports turn it into their own error."""


class Dropped(Exception):
    """A stream breaks in the middle."""


_BEFORE: Final = {FaultKind.CONFLICT, FaultKind.TOO_MANY_REQUESTS, FaultKind.INTERNAL_ERROR}


async def apply_fault(fault: Fault, handle: Handle) -> HttpResponse:
    """Answer a request under a fault. Raises Problem for refusals and NoAnswer for lost answers."""
    if fault.kind in _BEFORE:
        raise _refusal(fault)
    if fault.kind is FaultKind.TIMEOUT_BEFORE:
        raise NoAnswer("timed out before the request was carried out")
    response = await handle()
    if fault.kind is FaultKind.TIMEOUT_AFTER:
        await close(response)
        raise NoAnswer("timed out after the request was carried out")
    if fault.kind is FaultKind.SLOW:
        await asyncio.sleep(fault.seconds)
    elif fault.kind is FaultKind.DROP_STREAM and not isinstance(response.body, bytes):
        response.body = _dropped(response.body, fault.after)
    return response


def _refusal(fault: Fault) -> Problem:
    if fault.kind is FaultKind.CONFLICT:
        return Problem(409, "Conflict", f"Operation cannot be fulfilled: {MODIFIED}", {})
    if fault.kind is FaultKind.INTERNAL_ERROR:
        return internal_error("injected fault")
    after = max(1, round(fault.seconds))
    message = "The server is currently unable to handle the request, please try again later."
    return Problem(429, "TooManyRequests", message, {"retryAfterSeconds": after}, {"retry-after": str(after)})


async def _dropped(chunks: AsyncIterator[bytes], after: int) -> AsyncIterator[bytes]:
    try:
        seen = 0
        async for chunk in chunks:
            yield chunk
            seen += 1
            if seen >= after:
                raise Dropped("the stream was dropped")
    finally:
        close_stream = getattr(chunks, "aclose", None)
        if close_stream is not None:
            await close_stream()


async def close(response: HttpResponse) -> None:
    """Give up a response whose body nobody will read."""
    close_stream = getattr(response.body, "aclose", None)
    if close_stream is not None:
        await close_stream()
