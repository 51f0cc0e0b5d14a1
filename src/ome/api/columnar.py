"""ColumnarV2: the rows of an InferenceReplica's status by column, not by Instance (`spec/api-types.md` section 4).

Fleets of equal Instances become a few groups of index ranges. Pure; the engine writes and reads it, the command line
reads it. A malformed document is refused as a whole: half-read rows would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from ome.api.meta import Condition, Model, to_dict
from ome.api.types.inference_replica import InstanceOperation, InstanceStatus, InstanceTermination

ENCODING: Final = "ColumnarV2"
_LARGEST: Final = 2**31 - 1
_GRAMMAR: Final = re.compile(r"^(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?(,(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?)*$")


class ColumnarError(ValueError):
    """The columns contradict themselves or the grammar; the text says how."""


class _Text(Model, frozen=True, kw_only=True):
    value: str = ""
    indexes: str = ""


class _Number(Model, frozen=True, kw_only=True):
    value: int = 0
    indexes: str = ""


class _Entry(Model, frozen=True, kw_only=True):
    index: int = msgspec.field(default_factory=int)
    conditions: tuple[Condition, ...] = ()
    ready_since: datetime | None = None
    operation: InstanceOperation | None = None
    last_failure: InstanceTermination | None = None
    announced: tuple[str, ...] = ()


class _Columns(Model, frozen=True, kw_only=True):
    members: str = ""
    row_order: tuple[int, ...] = ()
    phases: tuple[_Text, ...] = ()
    running_revisions: tuple[_Text, ...] = ()
    target_revisions: tuple[_Text, ...] = ()
    incarnations: tuple[_Number, ...] = ()
    pod_counts: tuple[_Number, ...] = ()
    serving_pod_counts: tuple[_Number, ...] = ()
    available_pod_counts: tuple[_Number, ...] = ()
    admitted: str = ""
    active_ordinal_one: str = ""
    entries: tuple[_Entry, ...] = ()


# -- index sets --------------------------------------------------------------------------------------------------------


def format_indexes(indexes: Iterable[int]) -> str:
    """An index set: ascending, ranges merged, no spaces (`0-8,10-114,116`); empty for no index."""
    terms: list[list[int]] = []
    for index in sorted(set(indexes)):
        if terms and terms[-1][1] == index - 1:
            terms[-1][1] = index
        else:
            terms.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in terms)


def parse_indexes(text: str, *, limit: int) -> list[int]:
    """The indexes of a set, ascending; [] for the empty text. Raises `ColumnarError`, also above `limit` indexes."""
    if not text:
        return []
    if not _GRAMMAR.match(text):
        raise ColumnarError(f"malformed index set {text[:64]!r}")
    found: list[int] = []
    previous = -2
    for term in text.split(","):
        low, _, high = term.partition("-")
        first, last = int(low), int(high or low)
        if (high and last <= first) or first <= previous + 1 or last > _LARGEST:
            raise ColumnarError(f"index set {text[:64]!r} is not ascending, merged and in range")
        if len(found) + last - first + 1 > limit:
            raise ColumnarError(f"more than {limit} indexes")
        found.extend(range(first, last + 1))
        previous = last
    return found


# -- encoding ----------------------------------------------------------------------------------------------------------


def encode_rows(rows: Sequence[InstanceStatus]) -> dict[str, Any]:
    """`instanceStatusColumns` of these rows. Each index stands once."""
    order = [row.index for row in rows]
    columns: dict[str, Any] = {"members": format_indexes(order)}
    if order != sorted(order):
        columns["rowOrder"] = order
    groups: Mapping[str, Callable[[InstanceStatus], int | str]] = {
        "phases": lambda row: row.phase,
        "runningRevisions": lambda row: row.running_revision,
        "targetRevisions": lambda row: row.target_revision,
        "incarnations": lambda row: row.incarnation,
        "podCounts": lambda row: row.pod_count,
        "servingPodCounts": lambda row: row.serving_pod_count,
        "availablePodCounts": lambda row: row.available_pod_count,
    }
    for name, value in groups.items():
        found = _grouped(rows, value)
        if found:
            columns[name] = found
    for name, members in (
        ("admitted", [row.index for row in rows if row.admitted]),
        ("activeOrdinalOne", [row.index for row in rows if row.active_ordinal == 1]),
    ):
        if members:
            columns[name] = format_indexes(members)
    entries = [entry for row in sorted(rows, key=lambda row: row.index) if len(entry := _entry(row)) > 1]
    if entries:
        columns["entries"] = entries
    return columns


def _grouped(rows: Sequence[InstanceStatus], value: Callable[[InstanceStatus], int | str]) -> list[dict[str, Any]]:
    members: dict[Any, list[int]] = {}
    for row in rows:
        found = value(row)
        if found:
            members.setdefault(found, []).append(row.index)
    ordered = sorted(members, key=lambda key: key.encode() if isinstance(key, str) else key)
    return [{"value": key, "indexes": format_indexes(members[key])} for key in ordered]


def _entry(row: InstanceStatus) -> dict[str, Any]:
    return to_dict(
        _Entry(
            index=row.index,
            conditions=row.conditions,
            ready_since=row.ready_since,
            operation=row.operation,
            last_failure=row.last_failure,
            announced=row.announced,
        )
    )


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode_rows(columns: Mapping[str, Any], *, limit: int) -> tuple[InstanceStatus, ...]:
    """The rows of `instanceStatusColumns`, in dense order. Raises `ColumnarError`, also above `limit` rows."""
    try:
        known = msgspec.convert(dict(columns), _Columns)
    except msgspec.ValidationError as error:
        raise ColumnarError(str(error)) from error
    members = parse_indexes(known.members, limit=limit)
    inside = frozenset(members)
    phases = _spread("phases", known.phases, inside, limit)
    if set(phases) != inside:
        raise ColumnarError("phases do not cover every member exactly once")
    running = _spread("runningRevisions", known.running_revisions, inside, limit)
    targets = _spread("targetRevisions", known.target_revisions, inside, limit)
    incarnations = _spread("incarnations", known.incarnations, inside, limit)
    pods = _spread("podCounts", known.pod_counts, inside, limit)
    serving = _spread("servingPodCounts", known.serving_pod_counts, inside, limit)
    available = _spread("availablePodCounts", known.available_pod_counts, inside, limit)
    admitted = _subset("admitted", known.admitted, inside, limit)
    second = _subset("activeOrdinalOne", known.active_ordinal_one, inside, limit)
    entries = _entries(known.entries, inside)
    return tuple(
        InstanceStatus(
            index=index,
            phase=phases[index],
            running_revision=running.get(index, ""),
            target_revision=targets.get(index, ""),
            incarnation=incarnations.get(index, 0),
            pod_count=pods.get(index, 0),
            serving_pod_count=serving.get(index, 0),
            available_pod_count=available.get(index, 0),
            admitted=index in admitted,
            active_ordinal=1 if index in second else 0,
            conditions=entries[index].conditions if index in entries else (),
            ready_since=entries[index].ready_since if index in entries else None,
            operation=entries[index].operation if index in entries else None,
            last_failure=entries[index].last_failure if index in entries else None,
            announced=entries[index].announced if index in entries else (),
        )
        for index in _order(known.row_order, members)
    )


def _order(row_order: Sequence[int], members: Sequence[int]) -> Sequence[int]:
    if not row_order:
        return members
    if sorted(row_order) != list(members):
        raise ColumnarError("rowOrder does not name every member exactly once")
    return row_order


def _spread(
    name: str, groups: Iterable[_Text] | Iterable[_Number], inside: frozenset[int], limit: int
) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for group in groups:
        if not group.value:
            raise ColumnarError(f"{name}: a group without a value")
        for index in parse_indexes(group.indexes, limit=limit):
            if index not in inside or index in found:
                raise ColumnarError(f"{name}: index {index} is no member, or stands twice")
            found[index] = group.value
    return found


def _subset(name: str, text: str, inside: frozenset[int], limit: int) -> frozenset[int]:
    found = frozenset(parse_indexes(text, limit=limit))
    if not found <= inside:
        raise ColumnarError(f"{name}: an index that is no member")
    return found


def _entries(entries: Sequence[_Entry], inside: frozenset[int]) -> dict[int, _Entry]:
    indexes = [entry.index for entry in entries]
    if indexes != sorted(set(indexes)) or not set(indexes) <= inside:
        raise ColumnarError("entries are not ascending members")
    return {entry.index: entry for entry in entries}
