"""The garbage collector: what owners leave behind when they go, in the three ways of deletion.

Hears every commit and works in a task of its own, straight on the store: removed owners take their dependents with them
(Background), an owner marked `foregroundDeletion` waits for those that block it, one marked `orphan` cuts them loose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ome.local.apiserver.core import Core
from ome.local.apiserver.deletion import FOREGROUND, ORPHAN
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Event, EventType, Record
from ome.local.apiserver.writes import finished

Remove = Callable[[ResourceType, Record, str], None]
"""Delete one object with a propagation policy (or nothing for its own), as the API would."""
GRACE: Final = 0.05
"""Seconds before an object whose owner was never seen is collected: its owner may be written in the same breath."""


class GarbageCollector:
    """Follows owner references. `remove` deletes as the API does, finalizers and grace included."""

    def __init__(self, core: Core, remove: Remove) -> None:
        self._core = core
        self._remove = remove
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._waiting: set[tuple[str, str]] = set()

    def hear(self, resource: str, event: Event) -> None:
        """A commit: note what it may set free or doom."""
        record = event.record
        if event.type is EventType.DELETED:
            self._add("owner", record.uid)
            for owner in record.owners:
                self._add("object", owner)
            return
        if record.owners or b"deletionTimestamp" in record.body:
            self._add("object", record.uid)
            if b'"deletionTimestamp"' in record.body:
                for owner in record.owners:
                    self._add("object", owner)

    def _add(self, what: str, uid: str) -> None:
        key = (what, uid)
        if key in self._waiting:
            return
        self._waiting.add(key)
        self._queue.put_nowait(key)

    def survey(self) -> None:
        """Look at everything once, after a start from disk."""
        for resource in self._core.store.resources():
            for record in self._core.store.collection(resource).all():
                if record.owners or b'"deletionTimestamp"' in record.body:
                    self._add("object", record.uid)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            what, uid = key
            if what == "owner":
                for resource, record in list(self._core.store.dependents(uid)):
                    self._judge(resource, record)
                continue
            found = self._core.store.by_uid(uid)
            if found is None:
                continue
            resource, record = found
            if record.owners:
                if self._has_unknown_owner(record):
                    await asyncio.sleep(GRACE)
                current = self._core.store.by_uid(uid)
                if current is None:
                    continue
                self._judge(*current)
            self._finish(uid)

    def _has_unknown_owner(self, record: Record) -> bool:
        return any(self._core.store.by_uid(owner) is None for owner in record.owners)

    def _type(self, resource: str) -> ResourceType | None:
        return self._core.registry.by_storage(resource)

    def _lives(self, reference: dict[str, Any], namespace: str) -> bool:
        """Whether an owner exists: the very object, in the dependent's namespace or cluster-scoped."""
        found = self._core.store.by_uid(str(reference.get("uid")))
        if found is None:
            return False
        record = found[1]
        return record.namespace in ("", namespace) and record.name == reference.get("name")

    def _waits_for_dependents(self, reference: dict[str, Any]) -> bool:
        found = self._core.store.by_uid(str(reference.get("uid")))
        if found is None:
            return False
        metadata = found[1].parse()["metadata"]
        return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or [])

    def _judge(self, resource: str, record: Record) -> None:
        """Collect an object that no owner holds any more; else drop the references that dangle."""
        type_ = self._type(resource)
        if type_ is None or self._core.get(type_, record.namespace, record.name) is not record:
            return
        obj = record.parse()
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or []
        if not references:
            return
        solid = [ref for ref in references if self._lives(ref, record.namespace)]
        waiting = [ref for ref in solid if self._waits_for_dependents(ref)]
        holding = [ref for ref in solid if ref not in waiting]
        if holding:
            if len(holding) != len(references):
                metadata["ownerReferences"] = holding
                self._core.update(type_, obj, record)
            return
        if metadata.get("deletionTimestamp"):
            return
        if waiting:
            self._remove(type_, record, "Foreground" if self._has_blocking_dependents(record) else "")
            return
        own = metadata.get("finalizers") or []
        policy = "Orphan" if ORPHAN in own else "Foreground" if FOREGROUND in own else "Background"
        self._remove(type_, record, policy)

    def _has_blocking_dependents(self, record: Record) -> bool:
        return any(True for _ in self._core.store.dependents(record.uid))

    def _finish(self, uid: str) -> None:
        """Take the collector's finalizer off an owner whose dependents are seen to."""
        found = self._core.store.by_uid(uid)
        if found is None:
            return
        resource, record = found
        type_ = self._type(resource)
        if type_ is None:
            return
        obj = record.parse()
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            return
        if ORPHAN in finalizers:
            self._orphan(uid)
            self._release(type_, record, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = list(self._core.store.dependents(uid))
            for dependent_resource, dependent in dependents:
                self._judge(dependent_resource, dependent)
            if not any(_blocks(dependent, uid) for _, dependent in self._core.store.dependents(uid)):
                self._release(type_, record, obj, FOREGROUND)

    def _orphan(self, uid: str) -> None:
        for resource, dependent in list(self._core.store.dependents(uid)):
            type_ = self._type(resource)
            if type_ is None:
                continue
            obj = dependent.parse()
            metadata = obj["metadata"]
            left = [ref for ref in metadata.get("ownerReferences") or [] if ref.get("uid") != uid]
            if left:
                metadata["ownerReferences"] = left
            else:
                metadata.pop("ownerReferences", None)
            self._core.update(type_, obj, dependent)

    def _release(self, type_: ResourceType, record: Record, obj: dict[str, Any], finalizer: str) -> None:
        metadata = obj["metadata"]
        left = [name for name in metadata.get("finalizers") or [] if name != finalizer]
        if left:
            metadata["finalizers"] = left
        else:
            metadata.pop("finalizers", None)
        if finished(obj):
            self._core.delete(type_, record, obj)
        else:
            self._core.update(type_, obj, record)


def _blocks(dependent: Record, uid: str) -> bool:
    references = dependent.parse()["metadata"].get("ownerReferences") or []
    return any(ref.get("uid") == uid and ref.get("blockOwnerDeletion") for ref in references)
