"""Objects to the bytes that are stored and sent, with a fixed head, so that lists and other versions are cut from them.

A built-in object begins `{"kind":K,"apiVersion":V,`, a custom one `{"apiVersion":V,"kind":K,` with all keys sorted, as
real servers write them. Pure; called on commit and by the reading verbs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import orjson

from ome.local.apiserver.negotiate import escape_html
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.selectors import field_values
from ome.local.apiserver.store import NO_FIELDS, Record

_METADATA_ORDER: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip


@lru_cache(maxsize=4096)
def head(api_version: str, kind: str, custom: bool) -> bytes:
    """The bytes with which every stored object of this kind begins."""
    if custom:
        return b'{"apiVersion":' + orjson.dumps(api_version) + b',"kind":' + orjson.dumps(kind) + b","
    return b'{"kind":' + orjson.dumps(kind) + b',"apiVersion":' + orjson.dumps(api_version) + b","


def stored_head(type_: ResourceType) -> bytes:
    return head(type_.storage_api_version, type_.kind, type_.custom is not None)


def ordered(obj: dict[str, Any]) -> dict[str, Any]:
    """The object with its metadata in a typed object's order, kind and apiVersion left out."""
    metadata = obj.get("metadata") or {}
    arranged = {key: metadata[key] for key in _METADATA_ORDER if key in metadata}
    if len(arranged) != len(metadata):
        arranged.update((key, value) for key, value in metadata.items() if key not in arranged)
    out = {"metadata": arranged}
    out.update((key, value) for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata"))
    return out


def encode(obj: dict[str, Any], api_version: str, kind: str, *, custom: bool) -> bytes:
    """The object's JSON under the given apiVersion."""
    if custom:
        rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
        body = orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)
    else:
        body = orjson.dumps(ordered(obj))
    return head(api_version, kind, custom) + escape_html(body[1:])


def make_record(type_: ResourceType, obj: dict[str, Any], rv: int) -> Record:
    """Serialise an object in its storage version for commit `rv`; sets its resourceVersion."""
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(rv)
    body = encode(obj, type_.storage_api_version, type_.kind, custom=type_.custom is not None)
    return record_of(type_, obj, body, rv)


def record_of(type_: ResourceType, obj: dict[str, Any], body: bytes, rv: int) -> Record:
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences")
    return Record(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        rv=rv,
        uid=metadata.get("uid") or "",
        body=body,
        labels=dict(metadata.get("labels") or NO_FIELDS),
        fields=field_values(obj, type_.selectable) if type_.selectable else NO_FIELDS,
        owners=tuple(ref.get("uid", "") for ref in owners) if owners else (),
    )


def stored_record(type_: ResourceType | None, namespace: str, name: str, rv: int, body: bytes) -> Record:
    """A record as it comes back from the database. `type_` is None for instances of a definition that is gone."""
    obj = orjson.loads(body)
    metadata = obj.get("metadata") or {}
    owners = metadata.get("ownerReferences")
    selectable = type_.selectable if type_ is not None else ()
    return Record(
        namespace,
        name,
        rv,
        metadata.get("uid") or "",
        body,
        dict(metadata.get("labels") or NO_FIELDS),
        field_values(obj, selectable) if selectable else NO_FIELDS,
        tuple(ref.get("uid", "") for ref in owners) if owners else (),
    )


def list_item(type_: ResourceType, body: bytes) -> bytes:
    """A stored object as an item of a list: core kinds without kind and apiVersion, custom ones whole."""
    if type_.custom is not None:
        return body
    return b"{" + body[len(stored_head(type_)) :]
