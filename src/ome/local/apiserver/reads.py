"""The reading verbs: get and list, with versions, paging and selectors. Watches are `watching.py`."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from ome.local.apiserver import answers, selectors
from ome.local.apiserver.answers import TableMaker
from ome.local.apiserver.calls import Call
from ome.local.apiserver.errors import (
    FieldError,
    Problem,
    bad_request,
    forbidden_field,
    go_quote,
    gone,
    invalid,
    not_found,
    not_supported,
)
from ome.local.apiserver.http import HttpResponse
from ome.local.apiserver.selectors import FieldSelector, LabelSelector
from ome.local.apiserver.store import Collection, Forgotten, Record, Store

CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selectors of a request; None selects everything."""

    labels: LabelSelector | None
    fields: FieldSelector | None

    @property
    def everything(self) -> bool:
        return self.labels is None and self.fields is None

    def matches(self, record: Record) -> bool:
        if self.labels is not None and not self.labels.matches(record.labels):
            return False
        return self.fields is None or self.fields.matches(record.namespace, record.name, record.fields)


def selection(call: Call) -> Selection:
    """The label and field selectors of a query. Raises Problem 400."""
    type_ = call.type
    labels = selectors.parse_labels(call.query.get("labelSelector"))
    fields = selectors.parse_fields(call.query.get("fieldSelector"))
    fields = selectors.check_fields(fields, type_.group, type_.storage, type_.selectable, custom=bool(type_.custom))
    return Selection(labels, fields)


def version_too_large(revision: int, current: int) -> Problem:
    return Problem(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {revision}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        {"retry-after": "1"},
    )


def unsigned(text: str) -> int:
    """A resourceVersion of a query. Raises ValueError."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**64:
        raise ValueError(text)
    return int(text)


def _list_revision(call: Call) -> int | None:
    text = call.query.get("resourceVersion")
    if not text:
        return None
    try:
        return unsigned(text)
    except ValueError:
        reason = f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
        message = f"invalid resource version: resourceVersion: Invalid value: {go_quote(text)}: {reason}"
        raise bad_request(message) from None


def check_list_options(call: Call) -> None:
    """What ListOptions may not say of a list. Raises Problem 422."""
    query = call.query
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion")
    errors: list[FieldError] = []
    if match:
        if not version:
            errors.append(
                forbidden_field(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if query.get("continue"):
            errors.append(
                forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and version == "0":
            errors.append(
                forbidden_field(
                    "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            )
    if "sendInitialEvents" in query:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)


class Reads:
    """get and list over the store."""

    def __init__(self, store: Store, tables: TableMaker) -> None:
        self._store = store
        self._tables = tables

    def get(self, call: Call) -> HttpResponse:
        return answers.one(call, self.record(call).body, tables=self._tables)

    def record(self, call: Call) -> Record:
        """The record a request names. Raises Problem 404, or 504 for a version from the future."""
        type_ = call.type
        version = call.query.get("resourceVersion")
        if version:
            revision = _list_revision(call)
            if revision is not None and revision > self._store.revision:
                raise version_too_large(revision, self._store.revision)
        record = self._store.collection(type_.storage).get(call.namespace, call.name)
        if record is None:
            raise not_found(type_.plural, type_.group, call.name)
        return record

    def page(self, call: Call) -> HttpResponse:
        check_list_options(call)
        chosen = selection(call)
        page = self._page(call, chosen)
        bodies = [record.body for record in page.records]
        metadata = answers.list_metadata(call.type, str(page.revision), page.continue_, page.remaining)
        return answers.many(call, bodies, metadata, tables=self._tables)

    def selected(self, call: Call) -> list[Record]:
        """Every record a collection request selects, now."""
        chosen = selection(call)
        records = self._store.collection(call.type.storage).all(call.namespace)
        return records if chosen.everything else [record for record in records if chosen.matches(record)]

    def _page(self, call: Call, chosen: Selection) -> _Page:
        query = call.query
        limit = query.integer("limit") or 0
        limit = max(limit, 0)
        revision = _list_revision(call)
        token = query.get("continue")
        collection = self._store.collection(call.type.storage)
        if token:
            if revision:
                raise bad_request("specifying resource version is not allowed when using continue")
            at, start = _read_token(token, call.namespace)
            current = self._store.revision if at < 0 else at
            records = self._past(collection, call, at, start) if at >= 0 else collection.all(call.namespace)
            records = [record for record in records if _key(record, call.namespace) >= start]
        else:
            match = query.get("resourceVersionMatch")
            if revision is not None and revision > self._store.revision:
                raise version_too_large(revision, self._store.revision)
            exact = match == "Exact" or (bool(revision) and limit > 0 and not match)
            current = revision if exact and revision else self._store.revision
            records = self._exactly(collection, call, current) if exact else collection.all(call.namespace)
        if not chosen.everything:
            records = [record for record in records if chosen.matches(record)]
        if not limit or len(records) <= limit:
            return _Page(records, current, "", None)
        shown = records[:limit]
        inconsistent = bool(token) and _read_token(token, call.namespace)[0] < 0
        following = _write_token(-1 if inconsistent else current, _key(shown[-1], call.namespace) + "\0")
        remaining = len(records) - limit if chosen.everything else None
        return _Page(shown, current, following, remaining)

    def _exactly(self, collection: Collection, call: Call, revision: int) -> list[Record]:
        try:
            return collection.all_at(revision, call.namespace)
        except Forgotten:
            raise gone("The resourceVersion for the provided list is too old.") from None

    def _past(self, collection: Collection, call: Call, revision: int, start: str) -> list[Record]:
        try:
            return collection.all_at(revision, call.namespace)
        except Forgotten:
            raise gone(CONTINUE_EXPIRED, {"continue": _write_token(-1, start)}) from None


@dataclass(frozen=True, slots=True)
class _Page:
    records: list[Record]
    revision: int
    continue_: str
    remaining: int | None


def _key(record: Record, namespace: str) -> str:
    return record.name if namespace or not record.namespace else f"{record.namespace}/{record.name}"


def _write_token(revision: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _read_token(token: str, namespace: str) -> tuple[int, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError as error:
        raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from error
    try:
        value: Any = json.loads(raw)
        revision, start = value["rv"], value["start"]
        valid = value["v"] == "meta.k8s.io/v1" and isinstance(revision, int) and isinstance(start, str)
    except (ValueError, KeyError, TypeError):
        first = raw[:1].decode("latin-1")
        shown = first if first.isprintable() else f"\\u{ord(first):04x}" if first else ""
        problem = f"invalid character '{shown}' looking for beginning of value"
        raise bad_request(f"invalid continue token: continue key is not valid: {problem}") from None
    if not valid or revision == 0 or not start:
        raise bad_request("invalid continue token: continue key is not valid: incorrect encoded start resourceVersion")
    return revision, start
