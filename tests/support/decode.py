"""Narrow Structs from plain dicts, as the caches make them from bytes."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decoded_as(type_: type[T], value: dict[str, Any]) -> T:
    """What a cache would hold for this object."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type_)
