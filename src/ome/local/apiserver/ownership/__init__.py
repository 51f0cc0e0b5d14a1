"""Who owns which field: managedFields on every write, and server-side apply.

Called by the server's write pipeline. `record_update` for create, replace and patch, `apply` for apply patches. Pure:
objects are plain dicts and never changed; merged objects share unchanged parts with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from ome.local.apiserver.errors import Problem, bad_request, server_error
from ome.local.apiserver.ownership import managers, typed
from ome.local.apiserver.ownership.delta import delta
from ome.local.apiserver.ownership.fieldsets import (
    FieldSet,
    difference,
    intersection,
    paths,
    union,
)
from ome.local.apiserver.ownership.managers import BEFORE_FIRST_APPLY, Entries, Entry, Manager
from ome.local.apiserver.schema.types import TypeNode

Object = Mapping[str, Any]
_UNOWNED_ROOT: Final = ("apiVersion", "kind")
_UNOWNED_METADATA: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_LARGEST_ANNOTATION: Final = 262_144


@dataclass(frozen=True, slots=True)
class Context:
    """What a write is, for ownership.

    manager: the field manager's name. api_version: that of the request's object. type: of the kind's objects
    (`Strategy.type`). now: aware. subresource: `` for the main door. reset: paths that a write through this door
    cannot change (`Strategy.reset_fields`). zero: the kind's empty object (`Strategy.zero`).
    """

    manager: str
    api_version: str
    type: TypeNode
    now: datetime
    zero: Object
    subresource: str = ""
    reset: tuple[tuple[str, ...], ...] = ()


def record_update(live: Object | None, new: Object, context: Context) -> list[dict[str, Any]]:
    """The managedFields of an object that was created (`live` None), replaced or patched.

    `new` is decoded and defaulted; managedFields that it carries are the client's wish: `[{}]` forgets all, others
    replace the live ones, none keeps them. Once forgotten, ownership is not recorded again until somebody applies.
    """
    entries = _entries(live, new, context)
    if entries is None or (not entries and live is not None):
        return []
    changed, removed = _delta(live if live is not None else context.zero, new, context)
    if changed is None and removed is None:
        return managers.encode(entries)
    scaling = context.subresource == "scale"
    if scaling and changed is not None and not _value(new, changed):
        # A Scale of zero replicas has no such field, so whoever sets it to zero takes it from all and owns nothing.
        changed, removed = None, union(changed, removed)
    manager = Manager(context.manager, "Update", context.api_version, context.subresource)
    entries = _taken(entries, changed, removed, keep=None)
    if changed is not None:
        before = entries.get(manager.identity)
        fields = union(before.fields if before is not None else None, difference(changed, removed))
        if fields is not None:
            kept_time = before.time if before is not None else ""
            entries[manager.identity] = Entry(
                manager, fields, kept_time if scaling else managers.timestamp(context.now)
            )
    return managers.encode(managers.capped(entries))


def _value(obj: Any, fields: FieldSet) -> Any:
    """The value at the only path of a set."""
    for key, below in fields.items():
        if key.startswith("f:"):
            return _value(obj.get(key[2:]) if isinstance(obj, Mapping) else None, below)
    return obj


def _entries(live: Object | None, new: Object, context: Context) -> Entries | None:
    """The entries to start from; None when the client forgets them."""
    wanted = new["metadata"].get("managedFields")
    current = live["metadata"].get("managedFields") if live is not None else None
    if context.subresource:
        return managers.decode(current)
    if managers.is_reset(wanted):
        return None
    return managers.decode(wanted) or managers.decode(current)


def _delta(old: Object, new: Object, context: Context) -> tuple[FieldSet | None, FieldSet | None]:
    hidden = _hidden(context)
    return delta(_visible(old, hidden), _visible(new, hidden), context.type)


def _hidden(context: Context) -> tuple[frozenset[str], frozenset[str]]:
    root = {path[0] for path in context.reset if len(path) == 1}
    inner = {path[1] for path in context.reset if len(path) == 2 and path[0] == "metadata"}
    return frozenset({*_UNOWNED_ROOT, *root}), frozenset({*_UNOWNED_METADATA, *inner})


def _visible(obj: Object, hidden: tuple[frozenset[str], frozenset[str]]) -> dict[str, Any]:
    """The object without what nobody owns: identity, versions, and what this door cannot change."""
    shown = {name: value for name, value in obj.items() if name not in hidden[0]}
    if "metadata" in hidden[0]:
        return shown
    meta = obj.get("metadata")
    shown["metadata"] = (
        {name: value for name, value in meta.items() if name not in hidden[1]} if isinstance(meta, Mapping) else {}
    )
    return shown


def _taken(
    entries: Entries, changed: FieldSet | None, removed: FieldSet | None, *, keep: tuple[str, str, str, str] | None
) -> Entries:
    """The entries after a change: all but `keep` lose what changed, everybody loses what was removed."""
    result: Entries = {}
    for identity, entry in entries.items():
        if identity == keep:
            result[identity] = entry
            continue
        fields = difference(difference(entry.fields, changed), removed)
        if fields is entry.fields:
            result[identity] = entry
        elif fields is not None:
            result[identity] = managers.with_fields(entry, fields)
    return result


def apply(
    live: Object | None, applied: Object, context: Context, *, force: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(The live object, or the empty one, with the configuration merged in; its managedFields).

    The merged object is raw: the caller decodes, defaults and validates it. `applied` is the request's body as sent.
    Raises 400 when the body carries managedFields, 500 when it does not fit the type, 409 for conflicts unless `force`.
    """
    if _metadata(applied).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    faults = typed.faults(dict(applied), context.type)
    if faults:
        raise _not_typed(applied, context, faults)
    base = live if live is not None else context.zero
    entries = managers.decode(base.get("metadata", {}).get("managedFields"))
    if not entries and live is not None:
        entries = _before_first_apply(live, context)
    try:
        merged, after = _apply(base, applied, entries, context, force=force)
    except _ConflictsError as error:
        allowed = _allowed_by_last_applied(base, context)
        rest = [(manager, left) for manager, fields in error.found if (left := difference(fields, allowed)) is not None]
        if rest or allowed is None:
            raise _conflict(rest) from None
        merged, after = _apply(base, applied, entries, context, force=True)
    if context.manager == _KUBECTL and _last_applied(base) is not None:
        merged = _with_last_applied(merged, applied)
    return merged, managers.encode(after)


def _metadata(obj: Object) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


class _ConflictsError(Exception):
    def __init__(self, found: list[tuple[Manager, FieldSet]]) -> None:
        super().__init__()
        self.found = found


def _apply(
    base: Object, applied: Object, entries: Entries, context: Context, *, force: bool
) -> tuple[dict[str, Any], Entries]:
    manager = Manager(context.manager, "Apply", context.api_version, context.subresource)
    hidden = _hidden(context)
    whole = typed.field_set(applied, context.type)
    fields = _named(whole, hidden)
    last = entries.get(manager.identity)
    current = dict(base)
    current["metadata"] = {key: value for key, value in base.get("metadata", {}).items() if key != "managedFields"}
    merged: dict[str, Any] = typed.merge(current, dict(applied), context.type)
    after = dict(entries)
    after[manager.identity] = Entry(manager, fields or {}, last.time if last is not None else "")
    if last is not None:
        kept = whole
        for identity, entry in entries.items():
            if identity != manager.identity:
                kept = union(kept, entry.fields)
        merged = typed.prune(merged, last.fields, kept, context.type)
    changed, removed = _delta(current, merged, context)
    if not force:
        found = [
            (entry.manager, conflict)
            for identity, entry in entries.items()
            if identity != manager.identity and (conflict := intersection(entry.fields, changed)) is not None
        ]
        if found:
            raise _ConflictsError(found)
    if changed is not None or removed is not None:
        after = _taken(after, changed, removed, keep=manager.identity)
        after[manager.identity] = Entry(manager, fields or {}, managers.timestamp(context.now))
    if fields is None:
        del after[manager.identity]
    return merged, after


def _named(fields: FieldSet | None, hidden: tuple[frozenset[str], frozenset[str]]) -> FieldSet | None:
    """Of the fields that a configuration names those that can be owned; its metadata as such belongs to nobody."""
    if fields is None:
        return None
    kept = {key: below for key, below in fields.items() if key[2:] not in hidden[0]}
    meta = {key: below for key, below in kept.pop("f:metadata", {}).items() if key[2:] not in hidden[1] and key != "."}
    if meta:
        kept["f:metadata"] = meta
    return kept or None


def _before_first_apply(live: Object, context: Context) -> Entries:
    """What was there before ownership was kept: all of it, owned by a manager of that name."""
    changed, _ = _delta(context.zero, live, context)
    if changed is None:
        return {}
    manager = Manager(BEFORE_FIRST_APPLY, "Update", context.api_version)
    return {manager.identity: Entry(manager, changed, managers.timestamp(context.now))}


def _conflict(found: list[tuple[Manager, FieldSet]]) -> Problem:
    """409 with the words of a real server: one line for one conflict, a list by manager for several."""
    by_manager = [(manager, list(paths(fields))) for manager, fields in found]
    by_manager.sort(key=lambda pair: pair[0].sort_key())
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager.text()}", "field": path}
        for manager, owned in by_manager
        for path in owned
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager, owned in by_manager:
            lines.append(f"conflicts with {manager.text()}:")
            lines += [f"- {path}" for path in owned]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return Problem(409, "Conflict", message, {"causes": causes})


def _not_typed(applied: Object, context: Context, faults: list[str]) -> Problem:
    meta = _metadata(applied)
    group, _, version = context.api_version.rpartition("/")
    text = faults[0] if len(faults) == 1 else "errors:\n" + "\n".join(f"  {fault}" for fault in faults)
    where = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {group}/{version}, Kind={applied.get('kind', '')}"
    return server_error(f"failed to create typed patch object ({where}): {text}")


def _last_applied(live: Object) -> str | None:
    annotations = live.get("metadata", {}).get("annotations") or {}
    found = annotations.get(_LAST_APPLIED)
    return found if isinstance(found, str) else None


def _allowed_by_last_applied(live: Object, context: Context) -> FieldSet | None:
    """Fields that kubectl owned by its annotation: coming from client-side apply it may take them without force."""
    text = _last_applied(live)
    if context.manager != _KUBECTL or text is None:
        return None
    try:
        last = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(last, dict) or last.get("apiVersion") != context.api_version:
        return None
    hidden = _hidden(context)
    shown = _visible(last, hidden)
    changed, removed = delta(shown, _visible(live, hidden), context.type)
    return difference(difference(_named(typed.field_set(last, context.type), hidden), changed), removed)


def _with_last_applied(merged: dict[str, Any], applied: Object) -> dict[str, Any]:
    """kubectl's annotation follows what kubectl applies, as long as it is there."""
    meta = {key: value for key, value in applied.get("metadata", {}).items() if key != "managedFields"}
    kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key != _LAST_APPLIED}
    if "annotations" in meta:
        meta["annotations"] = kept
    text = orjson.dumps({**applied, "metadata": meta}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    if len(text) > _LARGEST_ANNOTATION:
        return merged
    annotations = {**(merged.get("metadata", {}).get("annotations") or {}), _LAST_APPLIED: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}


__all__ = ["Context", "apply", "record_update"]
