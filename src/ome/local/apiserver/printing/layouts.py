"""Columns as data: definitions, getters of cells, ages and durations as a real server writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

Object = Mapping[str, Any]
Cell = Callable[[Object, datetime], Any]
NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """name, cell; wide: shown by `-o wide` only. about: text, or `definition#property` of the OpenAPI data."""

    name: str
    cell: Cell
    about: str = ""
    wide: bool = False
    type: str = "string"
    format: str = ""

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": description(self.about),
            "priority": 1 if self.wide else 0,
        }


def column(name: str, cell: Cell, about: str = "", *, wide: bool = False, type: str = "string") -> Column:
    """A column without a format."""
    return Column(name, cell, about, wide, type)


def description(about: str) -> str:
    """The text of an `about`; looked up in the API's own documentation where it names a property."""
    owner, found, property_ = about.partition("#")
    if not found or " " in owner:
        return about
    from ome.api.kubernetes import definitions

    text = definitions()[owner]["properties"][property_].get("description", "")
    return str(text)


class Layout:
    """The columns of one kind. conditions: what is said of a row as a whole, e.g. that a pod has completed."""

    def __init__(
        self, columns: Sequence[Column], conditions: Callable[[Object], list[dict[str, Any]]] | None = None
    ) -> None:
        self.columns = tuple(columns)
        self._conditions = conditions

    @cached_property
    def definitions(self) -> list[dict[str, Any]]:
        return [column.definition() for column in self.columns]

    def cells(self, obj: Object, now: datetime) -> tuple[list[Any], list[dict[str, Any]]]:
        cells = [column.cell(obj, now) for column in self.columns]
        return cells, self._conditions(obj) if self._conditions is not None else []


META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta#"


def look(obj: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.split("."):
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(part)
    return obj


def text(path: str, absent: str = "") -> Cell:
    """The value at a path as text."""

    def cell(obj: Object, now: datetime) -> str:
        value = look(obj, path)
        if value is None or value == "":
            return absent
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return cell


def number(path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> int:
        value = look(obj, path)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    return cell


def count(*paths: str) -> Cell:
    """How many entries the lists or maps at the paths have together."""

    def cell(obj: Object, now: datetime) -> int:
        return sum(len(look(obj, path) or ()) for path in paths)

    return cell


def age(path: str = "metadata.creationTimestamp") -> Cell:
    return lambda obj, now: since(look(obj, path), now)


def moment(value: Any) -> datetime | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None


def since(stamp: Any, now: datetime) -> str:
    """How long ago, in the short form of tables."""
    when = moment(stamp)
    return UNKNOWN if when is None else short_duration((now - when).total_seconds())


def short_duration(seconds: float) -> str:
    """`90s`, `3m5s`, `47h`, `5d3h`: a duration as precise as it is short."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(major: int, unit: str, minor: int, small: str) -> str:
    return f"{major}{unit}{minor}{small}" if minor else f"{major}{unit}"


def labels_text(labels: Mapping[str, str] | None) -> str:
    if not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector as text: `app=x,tier in (a,b),!old`."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator")
        values = ",".join(sorted(expression.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(forms.get(operator, key))
    return ",".join(parts) or NONE


def plain_selector(path: str, about: str, *, wide: bool = True, name: str = "Selector") -> Column:
    return column(name, lambda obj, now: labels_text(look(obj, path)), about, wide=wide)


NAME: Final = Column("Name", text("metadata.name"), META + "name", format="name")
AGE: Final = Column("Age", age(), META + "creationTimestamp")
CREATED_AT: Final = Column(
    "Created At", text("metadata.creationTimestamp", UNKNOWN), META + "creationTimestamp", type="date"
)
