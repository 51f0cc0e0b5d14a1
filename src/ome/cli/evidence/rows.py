"""Instance rows of an InferenceReplica's status, whichever way they are stored (spec/api-types.md section 4,
spec/omenative.md 14).

Pure, on raw objects: the rows keep every field they have, and the stored form is never changed. A status that
contradicts itself raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ome.cli.evidence import objects

DENSE = "DenseV1"
COLUMNAR = "ColumnarV2"
MAX_ROWS = 20_000
MAX_INDEX = 2**31 - 1

_INDEX_SET = re.compile(r"(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?(,(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))?)*")
_RECORDS = ("conditions", "readySince", "operation", "lastFailure", "announced")


class RowsError(Exception):
    """The rows cannot be read; the message is the reason. `too_many` says that only their number was the trouble."""

    def __init__(self, reason: str, *, too_many: bool = False) -> None:
        super().__init__(reason)
        self.too_many = too_many


def encoding(replica: Mapping[str, Any]) -> str:
    """How the rows are stored; an unknown encoding is returned as it is written."""
    return objects.text(replica, "status", "instanceStatusEncoding") or DENSE


def decode(replica: Mapping[str, Any], limit: int = MAX_ROWS) -> list[dict[str, Any]]:
    """The rows in their stored order. Raises RowsError for an unknown encoding, two spellings at once, or invalid
    columns.
    """
    status = objects.mapping(replica, "status")
    marker, dense = status.get("instanceStatusEncoding"), status.get("instanceStatuses")
    columns = status.get("instanceStatusColumns")
    if marker in (None, ""):
        if columns is not None:
            raise RowsError("columns without an encoding")
        return _dense(dense, limit)
    if marker != COLUMNAR:
        raise RowsError("unknown encoding")
    if not isinstance(columns, Mapping):
        raise RowsError("ColumnarV2 without columns")
    if dense:
        raise RowsError("ColumnarV2 next to rows")
    return _columnar(columns, limit)


def _dense(rows: Any, limit: int) -> list[dict[str, Any]]:
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise RowsError("rows are not a list of objects")
    if len(rows) > limit:
        raise RowsError("too many rows", too_many=True)
    return [dict(row) for row in rows]


def parse_index_set(value: Any, limit: int = MAX_ROWS) -> list[int]:
    """`0-8,10,12-14` as a list: ascending, disjoint, non-adjacent terms, decimal without leading zeros."""
    if not isinstance(value, str) or not _INDEX_SET.fullmatch(value):
        raise RowsError("invalid index set")
    found: list[int] = []
    previous = -2
    for term in value.split(","):
        first, _, last = term.partition("-")
        low, high = int(first), int(last or first)
        if low <= previous + 1 or (last and high <= low) or high > MAX_INDEX:
            raise RowsError("invalid index set")
        if len(found) + high - low + 1 > limit:
            raise RowsError("too many rows", too_many=True)
        found += range(low, high + 1)
        previous = high
    return found


def _order(columns: Mapping[str, Any], members: list[int]) -> list[int]:
    order = columns.get("rowOrder")
    if order is None:
        return members
    if not isinstance(order, list) or not all(isinstance(i, int) for i in order) or sorted(order) != members:
        raise RowsError("invalid row order")
    return order


def _groups(columns: Mapping[str, Any], column: str, members: set[int], valid: Callable[[Any], bool]) -> dict[int, Any]:
    """One column as index -> value: groups ascending by value, disjoint, over members only."""
    found: dict[int, Any] = {}
    previous = None
    for group in objects.items(columns, column):
        value = objects.get(group, "value")
        if not valid(value):
            raise RowsError(f"invalid value in {column}")
        key = value.encode() if isinstance(value, str) else value
        if previous is not None and key <= previous:
            raise RowsError(f"{column} out of order")
        previous = key
        for index in parse_index_set(objects.get(group, "indexes")):
            if index not in members or index in found:
                raise RowsError(f"{column} overlaps or names no member")
            found[index] = value
    return found


def _index_column(columns: Mapping[str, Any], column: str, members: set[int]) -> set[int]:
    value = columns.get(column)
    if value in (None, ""):
        return set()
    found = set(parse_index_set(value))
    if not found <= members:
        raise RowsError(f"{column} names no member")
    return found


def _name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _entries(columns: Mapping[str, Any], members: set[int]) -> dict[int, Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    previous = -1
    for entry in objects.items(columns, "entries"):
        index = objects.integer(entry, "index")
        if index is None or index not in members or index <= previous or not any(key in entry for key in _RECORDS):
            raise RowsError("invalid entries")
        previous = index
        found[index] = entry
    return found


def _columnar(columns: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    members = parse_index_set(columns["members"], limit) if columns.get("members") not in (None, "") else []
    known = set(members)
    phases = _groups(columns, "phases", known, _name)
    if len(phases) != len(known):
        raise RowsError("a member without a phase")
    texts = {key: _groups(columns, f"{key}s", known, _name) for key in ("runningRevision", "targetRevision")}
    counts = {
        key: _groups(columns, f"{key}s", known, _number)
        for key in ("incarnation", "podCount", "servingPodCount", "availablePodCount")
    }
    admitted, second = _index_column(columns, "admitted", known), _index_column(columns, "activeOrdinalOne", known)
    entries = _entries(columns, known)
    rows = []
    for index in _order(columns, members):
        row: dict[str, Any] = {"index": index, "phase": phases[index]}
        row |= {key: values[index] for key, values in (texts | counts).items() if index in values}
        if index in admitted:
            row["admitted"] = True
        if index in second:
            row["activeOrdinal"] = 1
        row |= {key: value for key, value in entries.get(index, {}).items() if key in _RECORDS}
        rows.append(row)
    return rows
