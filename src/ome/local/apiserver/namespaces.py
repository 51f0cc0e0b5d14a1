"""Namespaces: the ones there are from the start, what each gets, and how one is emptied when it goes.

The controllers' work is done by one task: a default ServiceAccount and the root certificate for every namespace, and
for one that is going the deletion of all it holds, with the conditions that tell what is left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from ome.local.apiserver.calls import Call
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import forbidden, not_found
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Event, EventType, Record
from ome.local.apiserver.writes import finished

SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
ROOT_CA: Final = "kube-root-ca.crt"
ROOT_CA_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)

_FURNITURE: Final = frozenset({("serviceaccounts", "default"), ("configmaps", ROOT_CA)})

Remove = Callable[[ResourceType, Record, str], None]


class Namespaces:
    """The check of every write in a namespace, and the task that fills and drains them."""

    def __init__(self, core: Core, remove: Remove, certificate: Callable[[], str]) -> None:
        self._core = core
        self._remove = remove
        self._certificate = certificate
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        namespaces = core.registry.find("", "v1", "namespaces")
        accounts = core.registry.find("", "v1", "serviceaccounts")
        maps = core.registry.find("", "v1", "configmaps")
        if namespaces is None or accounts is None or maps is None:
            raise AssertionError("the core kinds are always registered")
        self._namespaces, self._accounts, self._maps = namespaces, accounts, maps

    def check(self, call: Call, name: str) -> None:
        """A namespace must exist and not be going for something to be made in it. Raises Problem 404 or 403."""
        if not call.type.namespaced or not call.namespace:
            return
        record = self._core.get(self._namespaces, "", call.namespace)
        if record is None:
            raise not_found("namespaces", "", call.namespace)
        if b'"deletionTimestamp"' not in record.body:
            return
        type_ = call.type
        message = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        problem = forbidden(type_.plural, type_.group, name, message)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {call.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        problem.details = {**(problem.details or {}), "causes": [cause]}
        raise problem

    def bootstrap(self) -> None:
        """Make the namespaces every cluster has."""
        for name in SYSTEM:
            if self._core.get(self._namespaces, "", name) is None:
                obj: dict[str, Any] = {
                    "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                }
                self._core.stamp(obj)
                self._core.create(self._namespaces, obj)
        for record in self._core.store.collection("namespaces").all():
            self._look_at(record.name)

    def hear(self, resource: str, event: Event) -> None:
        """A commit: a namespace has come, is going, or something in a going one has changed."""
        record = event.record
        if resource == "namespaces":
            if event.type is not EventType.DELETED:
                self._look_at(record.name)
        elif event.type is EventType.DELETED and record.namespace and self._is_going(record.namespace):
            self._look_at(record.namespace)

    def _is_going(self, name: str) -> bool:
        record = self._core.get(self._namespaces, "", name)
        return record is not None and b'"deletionTimestamp"' in record.body

    def follow(self, resource: str, event: Event) -> None:
        """After a commit: a namespace that has come gets its things before anybody can miss them."""
        if resource == "namespaces" and event.type is EventType.ADDED:
            self._furnish(event.record.name)
        elif event.type is EventType.DELETED and (resource, event.record.name) in _FURNITURE:
            self._look_at(event.record.namespace)

    def _look_at(self, name: str) -> None:
        if name not in self._waiting:
            self._waiting.add(name)
            self._queue.put_nowait(name)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            name = await self._queue.get()
            self._waiting.discard(name)
            record = self._core.get(self._namespaces, "", name)
            if record is None:
                continue
            if b'"deletionTimestamp"' in record.body:
                self._drain(record)
            else:
                self._furnish(name)

    def _furnish(self, name: str) -> None:
        if self._core.get(self._accounts, name, "default") is None:
            self._make(self._accounts, name, {"metadata": {"name": "default"}})
        certificate = self._certificate()
        found = self._core.get(self._maps, name, ROOT_CA)
        if found is None:
            metadata = {"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_TEXT}}
            self._make(self._maps, name, {"metadata": metadata, "data": {"ca.crt": certificate}})
            return
        obj = found.parse()
        if (obj.get("data") or {}).get("ca.crt") != certificate:
            obj["data"] = {"ca.crt": certificate}
            self._core.update(self._maps, obj, found)

    def _make(self, type_: ResourceType, namespace: str, obj: dict[str, Any]) -> None:
        obj["metadata"]["namespace"] = namespace
        self._core.stamp(obj)
        self._core.create(type_, obj)

    def _drain(self, record: Record) -> None:
        """Delete what the namespace holds; when nothing is left take off its own finalizer."""
        name = record.name
        for storage in self._core.store.resources():
            type_ = self._core.registry.by_storage(storage)
            if type_ is None or not type_.namespaced:
                continue
            for held in self._core.store.collection(storage).all(name):
                if b'"deletionTimestamp"' not in held.body:
                    self._remove(type_, held, "Background")
        current = self._core.get(self._namespaces, "", name)
        if current is None:
            return
        obj = current.parse()
        left, finalizers = self._left(name)
        if not left:
            obj["spec"] = {**(obj.get("spec") or {}), "finalizers": []}
            if finished(obj):
                self._core.delete(self._namespaces, current, obj)
            return
        conditions = _conditions(left, finalizers, self._core.now())
        before = obj.setdefault("status", {}).get("conditions") or []
        if [_without_time(c) for c in before] != [_without_time(c) for c in conditions]:
            obj["status"]["conditions"] = conditions
            self._core.update(self._namespaces, obj, current)

    def _left(self, name: str) -> tuple[Counter[str], Counter[str]]:
        """(resources, finalizers) still in a namespace, counted."""
        left: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for storage in self._core.store.resources():
            type_ = self._core.registry.by_storage(storage)
            if type_ is None or not type_.namespaced:
                continue
            for held in self._core.store.collection(storage).all(name):
                left[storage] += 1
                for finalizer in held.parse()["metadata"].get("finalizers") or []:
                    finalizers[finalizer] += 1
        return left, finalizers


def _without_time(condition: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


def _conditions(left: Counter[str], finalizers: Counter[str], now: str) -> list[dict[str, Any]]:
    remaining = ", ".join(
        f"{resource if '.' in resource else resource + '.'} has {count} resource instances"
        for resource, count in sorted(left.items())
    )
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    rows = [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {remaining}"),
        (
            "NamespaceFinalizersRemaining",
            "True" if held else "False",
            "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {held}"
            if held
            else "All content-preserving finalizers finished",
        ),
    ]
    return [
        {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
        for type_, status, reason, message in rows
    ]
