"""The columns of each kind in a Table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from ome.local.apiserver.registry import ResourceType

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True)
class Layout:
    definitions: Sequence[Object]
    getters: Sequence[Cell]

    def cells(self, obj: Object, now: datetime) -> tuple[list[Any], list[Object]]:
        return [getter(obj, now) for getter in self.getters], []


def age(obj: Object, now: datetime) -> str:
    stamp = (obj.get("metadata") or {}).get("creationTimestamp")
    return since(stamp, now)


def since(stamp: Any, now: datetime) -> str:
    if not isinstance(stamp, str) or not stamp:
        return "<unknown>"
    try:
        moment = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return "<invalid>"
    return short_duration((now - moment).total_seconds())


def short_duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{hours // 24}d{hours % 24}h" if hours % 24 else f"{hours // 24}d"
    days = hours // 24
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


NAME: Final = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
AGE: Final = {"name": "Age", "type": "string", "format": "", "description": "", "priority": 0}


def layout(type_: ResourceType) -> Layout:
    return Layout([NAME, AGE], [lambda obj, now: obj["metadata"].get("name", ""), age])
