"""What the API server holds, as far as we watch it: list, then watch, for ever.

A cache resumes from its last version (bookmarks included), lists again after 410, ends a stream that is silent for too
long, and knows when it last heard anything, so that the readiness probe can say a watcher is deaf. Objects in it are
immutable and shared. Not a client: it never writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from ome.api.meta import ObjectMeta
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.decoding import decode
from ome.kube.errors import ApiError, Gone, KubeError, NotFound, TransportError
from ome.kube.resources import Resource

T = TypeVar("T")
Key = tuple[str, str]
Index = Callable[[T], Iterable[str]]

SILENCE = 150.0  # seconds without event or bookmark after which a stream counts as dead (servers bookmark every minute)
WATCH_SECONDS = 290
BACKOFF_FIRST = 0.2
BACKOFF_LAST = 30.0

log = logging.getLogger("ome.kube.cache")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one object: created (`old` None), changed, or deleted (`new` None)."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The newest we know of it."""
        return cast(T, self.new if self.new is not None else self.old)


Handler = Callable[[Change[T]], None]


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()


class Cache(Generic[T]):
    """The objects of one resource (one namespace, one selector), decoded, with indexes."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type_: type[T],
        *,
        clock: Clock,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, Index[T]] | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self._client = client
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._clock = clock
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._silence = silence
        self._objects: dict[Key, T] = {}
        self._by_namespace: dict[str, dict[Key, T]] = {}
        self._indexes: dict[str, Index[T]] = dict(indexes or {})
        self._indexed: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._indexes}
        self._handlers: list[Handler[T]] = []
        self._version = 0
        self._synced = asyncio.Event()
        self._heard_at: float | None = None
        self._failures = 0
        self._events_since_list = 0

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list is in."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._synced.wait()

    @property
    def silent_for(self) -> float:
        """Seconds since the server last said anything on this cache's stream; 0 before the first list."""
        return 0.0 if self._heard_at is None else self._clock.monotonic() - self._heard_at

    @property
    def deaf(self) -> bool:
        """Whether the stream has been down or silent for longer than a healthy one can be."""
        return self._failures > 2 and self.silent_for > self._silence

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """The object, or None. `namespace` is "" for cluster-scoped kinds."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> list[T]:
        """All objects, or those of one namespace, in no promised order."""
        found = self._by_namespace.get(namespace, {}) if namespace else self._objects
        return [*found.values()]

    def by_index(self, index: str, key: str) -> list_of[T]:
        """The objects that the named index files under `key`. Raises KeyError for an index that was never declared."""
        return [self._objects[found] for found in self._indexed[index].get(key, ())]

    # -- growing -----------------------------------------------------------------------------------------------------

    def add_index(self, name: str, index: Index[T]) -> None:
        """Declare an index; files what is already here. Declaring the same name again must mean the same function."""
        if name in self._indexes:
            return
        self._indexes[name] = index
        self._indexed[name] = {}
        for key, obj in self._objects.items():
            self._file(name, key, obj)

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` with every change from now on, and at once with what is already here.

        Handlers run inside the event loop, one after another: they only put keys into queues.
        """
        self._handlers.append(handler)
        for obj in [*self._objects.values()]:
            handler(Change(None, obj))

    def observe(self, written: Mapping[str, Any]) -> None:
        """Take in the answer to our own write, so that the next pass sees it before the watch delivers it.

        Ignored when the watch is already past it: a later deletion must not be undone.
        """
        meta = written.get("metadata") or {}
        version = _number(meta.get("resourceVersion"))
        if version <= self._version or not self._synced.is_set():
            return
        finalized = meta.get("deletionTimestamp") and not meta.get("finalizers")
        if finalized and meta.get("deletionGracePeriodSeconds") == 0:
            return
        self._put(decode(self._decoder, msgspec.json.encode(written)), version)

    def _file(self, index: str, key: Key, obj: T) -> None:
        for value in self._indexes[index](obj):
            self._indexed[index].setdefault(value, {})[key] = None

    def _unfile(self, index: str, key: Key, obj: T) -> None:
        filed = self._indexed[index]
        for value in self._indexes[index](obj):
            keys = filed.get(value)
            if keys is None:
                continue
            keys.pop(key, None)
            if not keys:
                del filed[value]

    def _put(self, obj: T, version: int) -> None:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None and _number(meta_of(old).resource_version) >= version:
            return
        if old is not None:
            for index in self._indexes:
                self._unfile(index, key, old)
        self._objects[key] = obj
        self._by_namespace.setdefault(key[0], {})[key] = obj
        for index in self._indexes:
            self._file(index, key, obj)
        self._tell(Change(old, obj))

    def _drop(self, key: Key, last: T | None = None) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        del self._by_namespace[key[0]][key]
        if not self._by_namespace[key[0]]:
            del self._by_namespace[key[0]]
        for index in self._indexes:
            self._unfile(index, key, old)
        self._tell(Change(last if last is not None else old, None))

    def _tell(self, change: Change[T]) -> None:
        for handler in self._handlers:
            handler(change)

    # -- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch until cancelled. Never ends by itself; failures are logged and retried with backoff."""
        listed = False
        while True:
            try:
                if not listed:
                    await self._list()
                    listed = True
                if await self._watch():
                    self._failures = 0
                else:
                    await self._rest("the server ended the stream at once")
            except Gone as error:
                # The version is too old to resume from: what we missed can only be found by listing again.
                fresh, listed = listed and self._events_since_list == 0, False
                if fresh:
                    await self._rest(str(error))  # it said so of the version it had just given us
            except NotFound:
                # The resource is not served (its CRD was removed): everything of it is gone.
                listed = False
                self._clear()
                await self._rest("is not served")
            except (KubeError, msgspec.MsgspecError) as error:
                if isinstance(error, ApiError) and error.status_code == 400:
                    listed = False
                await self._rest(str(error))

    async def _rest(self, why: str) -> None:
        self._failures += 1
        delay = min(BACKOFF_LAST, BACKOFF_FIRST * 2 ** (self._failures - 1))
        level = logging.WARNING if self._failures > 3 else logging.DEBUG
        log.log(level, "watch of %s failed, again in %.1f s: %s", self.resource.group_resource, delay, why)
        await asyncio.sleep(delay)

    async def _list(self) -> None:
        seen: dict[Key, None] = {}
        found: list[tuple[T, int]] = []
        version = ""
        pages = self._client.pages(self.resource, self.namespace, into=self._type, **self._selectors)
        async for page, shown in pages:
            version = shown
            found += [(obj, _number(meta_of(obj).resource_version)) for obj in page]
        self._version = _number(version)
        self._heard_at = self._clock.monotonic()
        self._events_since_list = 0
        for obj, number in found:
            seen[key_of(obj)] = None
            stale = self._objects.get(key_of(obj))
            if stale is not None and meta_of(stale).uid != meta_of(obj).uid:
                self._drop(key_of(obj))  # deleted and made again while we were not looking
            self._put(obj, number)
        for key in [key for key in self._objects if key not in seen]:
            self._drop(key)
        self._synced.set()

    def _clear(self) -> None:
        for key in [*self._objects]:
            self._drop(key)
        self._synced.set()

    async def _watch(self) -> bool:
        """Follow the stream to its end. False when it ended at once, without a word."""
        began = self._clock.monotonic()
        heard = self._events_since_list
        events = self._client.watch(
            self.resource,
            self.namespace,
            resource_version=str(self._version),
            timeout_seconds=WATCH_SECONDS,
            silence=self._silence,
            **self._selectors,
        )
        async for event in events:
            self._heard_at = self._clock.monotonic()
            self._failures = 0
            self._events_since_list += 1
            head = msgspec.json.decode(event.object, type=_Head).metadata
            version = _number(head.resource_version)
            if event.type == "BOOKMARK":
                self._version = max(self._version, version)
                continue
            if event.type == "DELETED":
                current = self._objects.get(head.key)
                if current is not None and meta_of(current).uid == head.uid:
                    self._drop(head.key, decode(self._decoder, event.object))
            elif not self._has(head, version):
                self._replace(decode(self._decoder, event.object), head, version)
            self._version = max(self._version, version)
        return self._events_since_list > heard or self._clock.monotonic() - began > 1

    def _has(self, head: ObjectMeta, version: int) -> bool:
        """Whether the change is known already: the watch brings back what our own writes were answered with."""
        current = self._objects.get(head.key)
        if current is None:
            return False
        meta = meta_of(current)
        return meta.uid == head.uid and _number(meta.resource_version) >= version

    def _replace(self, obj: T, head: ObjectMeta, version: int) -> None:
        current = self._objects.get(head.key)
        if current is not None and meta_of(current).uid != head.uid:
            self._drop(head.key)
        self._put(obj, version)


list_of = list  # `Cache.list` hides the builtin inside the class


def meta_of(obj: Any) -> ObjectMeta:
    """The metadata of a decoded Struct, or of a dict."""
    if isinstance(obj, dict):
        return msgspec.convert(obj.get("metadata") or {}, ObjectMeta)
    return cast(ObjectMeta, obj.metadata)


def key_of(obj: Any) -> Key:
    """(namespace, name)."""
    if isinstance(obj, dict):
        meta = obj["metadata"]
        return meta.get("namespace") or "", meta["name"]
    return cast(Key, obj.metadata.key)


def _number(version: Any) -> int:
    try:
        return int(version)
    except (TypeError, ValueError):
        return 0


class Caches:
    """The caches of one process: asked for by need, each watching once, started together.

    `of` returns the same cache for the same resource, type, namespace and selectors; indexes add up.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._caches: dict[tuple[Any, ...], Cache[Any]] = {}
        self._tasks: dict[tuple[Any, ...], asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(
        self,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, Index[T]] | None = None,
    ) -> Cache[T]:
        """The cache; started at once when the others already run."""
        identity = (resource, type_, namespace, label_selector, field_selector)
        cache = self._caches.get(identity)
        if cache is None:
            cache = Cache(
                self._client,
                resource,
                type_,
                clock=self._clock,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            self._caches[identity] = cache
            if self._group is not None:
                self._tasks[identity] = self._group.create_task(cache.run(), name=f"cache {resource.plural}")
        for name, index in (indexes or {}).items():
            cache.add_index(name, index)
        return cache

    async def run(self) -> None:
        """Run every cache, those asked for later included, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for identity, cache in self._caches.items():
                self._tasks[identity] = group.create_task(cache.run(), name=f"cache {cache.resource.plural}")
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None
                for task in self._tasks.values():
                    task.cancel()

    async def wait_synced(self) -> None:
        """Wait until every cache asked for so far has its first list."""
        for cache in [*self._caches.values()]:
            await cache.wait_synced()

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._caches.values())

    def deaf(self) -> list[str]:
        """The resources whose stream has been dead for too long (for the readiness probe)."""
        return sorted(cache.resource.group_resource for cache in self._caches.values() if cache.deaf)

    def __iter__(self) -> Iterator[Cache[Any]]:
        return iter([*self._caches.values()])


__all__ = ["Cache", "Caches", "Change", "Handler", "Key", "TransportError", "key_of", "meta_of"]
