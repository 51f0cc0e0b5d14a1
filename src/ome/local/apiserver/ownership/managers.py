"""The entries of metadata.managedFields: who owns what, through which operation, since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import orjson

from ome.local.apiserver.errors import go_quote
from ome.local.apiserver.ownership.fieldsets import FieldSet, union

MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes: a name, `Apply` or `Update`, the version written in and the subresource written through.

    Appliers are one whatever version they apply in.
    """

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == "Apply" else self.api_version
        return self.name, self.operation, version, self.subresource

    def text(self) -> str:
        """As conflicts show it: `"one"`, `"three" using v1`, `"x" with subresource "status" using apps/v1`."""
        shown = go_quote(self.name)
        if self.subresource:
            shown += f" with subresource {go_quote(self.subresource)}"
        return f"{shown} using {self.api_version}" if self.operation == "Update" else shown

    def sort_key(self) -> bytes:
        """The order in which conflicts are listed."""
        parts = {"manager": self.name, "operation": self.operation}
        if self.operation != "Apply":
            parts["apiVersion"] = self.api_version
        if self.subresource:
            parts["subresource"] = self.subresource
        return orjson.dumps(parts)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager owns. time: RFC 3339, empty when unknown."""

    manager: Manager
    fields: FieldSet
    time: str = ""


Entries = dict[tuple[str, str, str, str], Entry]


def is_reset(raw: Any) -> bool:
    """`[{}]`: the client wants all ownership forgotten."""
    return isinstance(raw, list) and len(raw) == 1 and not {k: v for k, v in (raw[0] or {}).items() if v}


def decode(raw: Any) -> Entries:
    """The entries of a managedFields list; malformed ones are dropped."""
    entries: Entries = {}
    for item in raw or ():
        if not isinstance(item, Mapping) or item.get("fieldsType") != "FieldsV1" or not item.get("operation"):
            continue
        manager = Manager(
            item.get("manager", ""), item["operation"], item.get("apiVersion", ""), item.get("subresource", "")
        )
        entries[manager.identity] = Entry(manager, item.get("fieldsV1") or {}, item.get("time") or "")
    return entries


def encode(entries: Entries) -> list[dict[str, Any]]:
    """The managedFields list, sorted by operation, time, manager, version, subresource."""
    ordered = sorted(entries.values(), key=_order)
    return [_encoded(entry) for entry in ordered]


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    manager = entry.manager
    return manager.operation, entry.time, manager.name, manager.api_version, manager.subresource


def _encoded(entry: Entry) -> dict[str, Any]:
    manager = entry.manager
    out: dict[str, Any] = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields,
        "subresource": manager.subresource,
    }
    return {key: value for key, value in out.items() if value != ""}


def timestamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def capped(entries: Entries) -> Entries:
    """At most ten updaters: the oldest of a version are folded into one entry `ancient-changes`."""
    updaters = sorted((entry for entry in entries.values() if entry.manager.operation == "Update"), key=_order)
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    result = dict(entries)
    first: dict[str, Entry] = {}
    for entry in updaters:
        if surplus <= 0:
            break
        version = entry.manager.api_version
        if version not in first:
            first[version] = entry
            continue
        bucket = Manager(_ANCIENT, "Update", version)
        folded = result.pop(bucket.identity, None) or result.pop(first[version].manager.identity)
        del result[entry.manager.identity]
        result[bucket.identity] = Entry(bucket, union(folded.fields, entry.fields) or {}, entry.time)
        surplus -= 1
    return result


def with_fields(entry: Entry, fields: FieldSet | None) -> Entry:
    return replace(entry, fields=fields if fields is not None else {})
