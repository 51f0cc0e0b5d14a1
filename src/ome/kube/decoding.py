"""Typed decoding as Go's clients do it: a field that is null counts as absent.

A real API server writes `"endpoints": null` for an empty list of a type without `omitempty`; msgspec refuses it where
the Struct has a list. Used by the client and the caches; opaque parts of an object keep their nulls.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

__all__ = ["decode"]

T = TypeVar("T")
_PLACE: Final = re.compile(r"got `null` - at `\$(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|(\[\.\.\.\]|\[\d+\])")


def decode(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T:
    """The object in `raw`. Raises msgspec.ValidationError for what is wrong other than by a null."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        return _without_refused_nulls(decoder, raw, error)


def _without_refused_nulls(
    decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, error: msgspec.ValidationError
) -> T:
    """Take away the nulls that the type refuses, one place after the other."""
    document = msgspec.json.decode(raw)
    while True:
        found = _PLACE.search(str(error))
        if found is None:
            raise error
        if not _drop(document, [name for name, _ in _STEP.findall(found["path"])]):
            raise error
        try:
            return decoder.decode(msgspec.json.encode(document))
        except msgspec.ValidationError as next_error:
            error = next_error


def _drop(value: Any, steps: list[str]) -> int:
    """Remove nulls at a path, where "" stands for every entry of a list or mapping; how many were removed."""
    if not steps:
        return 0
    step, rest = steps[0], steps[1:]
    if not step:
        entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return sum(_drop(entry, rest) for entry in entries)
    if not isinstance(value, dict) or step not in value:
        return 0
    if not rest and value[step] is None:
        del value[step]
        return 1
    return _drop(value[step], rest)
