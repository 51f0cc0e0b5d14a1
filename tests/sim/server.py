"""A small API server at the HTTP edge, for thousands of simulated schedules: what the engine's requests need, and
faults.

Not the embedded API server (component tests run on that): no schemas, no admission, no field managers. It keeps what
matters to a controller: versions, preconditions, generations, finalizers, graceful deletion of pods, status as a
subresource, watches that resume from a version. `fault` may refuse, lose or delay any request; `hear` sees every
committed change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import orjson

from ome.api.meta import timestamp
from ome.kube.errors import TransportError
from ome.kube.requests import PatchType, Request
from ome.kube.transport import Response, StreamResponse

Json = dict[str, Any]
Key = tuple[str, str, str]  # collection ("pods"), namespace, name

KINDS = {
    "pods": ("v1", "Pod"),
    "services": ("v1", "Service"),
    "nodes": ("v1", "Node"),
    "events": ("v1", "Event"),
    "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
    "controllerrevisions": ("apps/v1", "ControllerRevision"),
    "inferencereplicas": ("ome.io/v1beta1", "InferenceReplica"),
    **{
        plural: ("ome.io/v1beta1", kind)
        for plural, kind in (
            ("servingruntimes", "ServingRuntime"),
            ("clusterservingruntimes", "ClusterServingRuntime"),
            ("basemodels", "BaseModel"),
            ("clusterbasemodels", "ClusterBaseModel"),
            ("finetunedweights", "FineTunedWeight"),
            ("acceleratorclasses", "AcceleratorClass"),
        )
    },
    "leases": ("coordination.k8s.io/v1", "Lease"),
}
BOOKMARK = 60.0  # seconds of silence after which a watch says that it lives
_MERGE_KEYS = {"conditions": "type", "containers": "name"}


def clone(value: Any) -> Any:
    """A deep copy of JSON data."""
    return orjson.loads(orjson.dumps(value))


class Refuse(Exception):
    """Answer with this failure."""

    def __init__(self, code: int, reason: str, message: str = "", causes: list[Json] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.causes = code, reason, message, causes


class Change:
    """One committed change of a collection; its line on a watch is made once, by the first who reads it."""

    __slots__ = ("_line", "event", "obj", "version")

    def __init__(self, version: int, event: str, obj: Json) -> None:
        self.version, self.event, self.obj = version, event, obj
        self._line = b""

    @property
    def line(self) -> bytes:
        if not self._line:
            self._line = orjson.dumps({"type": self.event, "object": self.obj}) + b"\n"
        return self._line


class Server:
    """Objects, versions and watchers of one simulated cluster."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.objects: dict[Key, Json] = {}
        self.version = 100
        self.changes: dict[str, list[Change]] = {collection: [] for collection in KINDS}
        self.fault: Callable[[Request], str | None] = lambda request: None
        self.admit: Callable[[str, Json], None] = lambda collection, obj: None  # of creates and updates
        self.hear: Callable[[str, str, Json | None, Json], None] = lambda event, collection, old, new: None
        self.writes = 0
        self.actor: Gateway | None = None  # whose request is being answered; None: the world's own doing
        self.forgotten = 0  # a watch from an older version is told so (410)
        self._of: dict[str, dict[Key, Json]] = {collection: {} for collection in KINDS}
        self._changed = {collection: asyncio.Event() for collection in KINDS}
        self._uid = 0
        self.dropped = 0  # watches older than this generation end
        self.stalled_until = 0.0  # watches deliver nothing before this loop time

    # -- objects -------------------------------------------------------------------------------------------------------

    def get(self, collection: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((collection, namespace, name))

    def list(self, collection: str, namespace: str = "") -> list[Json]:
        found = self._of[collection]
        return [found[key] for key in sorted(found) if namespace in ("", key[1])]

    def touched(self, collection: str) -> int:
        """The version of the last change in a collection."""
        changes = self.changes[collection]
        return changes[-1].version if changes else 0

    def create(self, collection: str, obj: Json) -> Json:
        meta = obj["metadata"]
        key = (collection, meta.get("namespace", ""), meta["name"])
        self.admit(collection, obj)
        if key in self.objects:
            raise Refuse(409, "AlreadyExists", f'{collection} "{meta["name"]}" already exists')
        self._uid += 1
        api_version, kind = KINDS[collection]
        new = clone(obj)
        new.update(apiVersion=api_version, kind=kind)
        new["metadata"].update(uid=f"uid-{self._uid}", creationTimestamp=timestamp(self.now()), generation=1)
        self._commit(key, None, new)
        return new

    def update(self, key: Key, new: Json, *, status: bool = False) -> Json:
        """Replace an object; a change of its spec raises the generation. No change, no version."""
        old = self.objects[key]
        if new == old:
            return old
        if not status and new.get("spec") != old.get("spec") and key[0] != "pods":
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers") and key[0] != "pods":
            self.remove(key)
            return new
        self._commit(key, old, new)
        return new

    def remove(self, key: Key) -> None:
        old = self.objects.pop(key, None)
        if old is None:
            return
        del self._of[key[0]][key]
        self.version += 1
        gone = clone(old)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.changes[key[0]].append(Change(self.version, "DELETED", gone))
        self.hear("DELETED", key[0], old, gone)
        self._wake(key[0])

    def delete(self, key: Key, grace: int | None = None) -> None:
        """Delete: pods die gracefully, finalizers hold, all else goes at once."""
        old = self.objects[key]
        new = clone(old)
        meta = new["metadata"]
        if key[0] == "pods" and old.get("spec", {}).get("nodeName") and grace != 0:
            if meta.get("deletionTimestamp"):
                return
            seconds = grace if grace is not None else old["spec"].get("terminationGracePeriodSeconds", 2)
            meta["deletionTimestamp"] = timestamp(self.now() + timedelta(seconds=seconds))
            meta["deletionGracePeriodSeconds"] = seconds
            self._commit(key, old, new)
            return
        if meta.get("finalizers"):
            if not meta.get("deletionTimestamp"):
                meta["deletionTimestamp"] = timestamp(self.now())
                self._commit(key, old, new)
            return
        self.remove(key)

    def _commit(self, key: Key, old: Json | None, new: Json) -> None:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = self._of[key[0]][key] = new
        event = "ADDED" if old is None else "MODIFIED"
        self.changes[key[0]].append(Change(self.version, event, new))
        self.hear(event, key[0], old, new)
        self._wake(key[0])

    def _wake(self, collection: str) -> None:
        self._changed[collection].set()
        self._changed[collection] = asyncio.Event()

    def drop_watches(self) -> None:
        """End every watch now; clients resume from their version."""
        self.dropped += 1
        for collection in KINDS:
            self._wake(collection)

    def forget_history(self) -> None:
        """Compact: whoever resumes from an older version has to list again."""
        self.forgotten = self.version

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Response:
        """The whole answer to one request that is no watch."""
        try:
            body = self._route(request)
        except Refuse as refusal:
            details = {"causes": refusal.causes} if refusal.causes else {}
            body = {
                "kind": "Status",
                "code": refusal.code,
                "reason": refusal.reason,
                "message": refusal.message,
                "details": details,
            }
            return Response(refusal.code, {}, orjson.dumps(body))
        return Response(200, {}, orjson.dumps(body))

    def _route(self, request: Request) -> Json:
        collection, namespace, name, subresource = parse(request.path)
        body = json.loads(request.body) if request.body else {}
        if request.method == "GET":
            return self._read(request, collection, namespace, name)
        self.writes += collection != "leases"
        if request.method == "POST":
            return self.create(collection, body)
        key = (collection, namespace, name)
        if key not in self.objects:
            raise Refuse(404, "NotFound", f'{collection} "{name}" not found')
        if request.method == "DELETE":
            wanted = body.get("preconditions") or {}
            if any(self.objects[key]["metadata"][field] != value for field, value in wanted.items()):
                raise Refuse(409, "Conflict", f"the precondition {wanted} does not hold")
            self.delete(key, body.get("gracePeriodSeconds"))
            return {"kind": "Status", "status": "Success"}
        return self._patch(request, key, subresource, body)

    def _read(self, request: Request, collection: str, namespace: str, name: str) -> Json:
        if name:
            found = self.get(collection, namespace, name)
            if found is None:
                raise Refuse(404, "NotFound", f'{collection} "{name}" not found')
            return found
        selector = dict(request.query).get("labelSelector", "")
        items = [o for o in self.list(collection, namespace) if matches(o, selector)]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _patch(self, request: Request, key: Key, subresource: str, body: Json) -> Json:
        old = self.objects[key]
        if request.method == "PUT":
            patched = body
        else:
            strategic = request.headers.get("content-type") == PatchType.STRATEGIC.value
            patched = merged(old, body, strategic=strategic)
        for field in ("resourceVersion", "uid"):
            wanted = (body.get("metadata") or {}).get(field)
            if wanted and wanted != old["metadata"][field]:
                raise Refuse(409, "Conflict", f"the object has been modified: {field}")
        new = clone(old)
        if subresource == "status":
            new["status"] = patched.get("status") or {}
        else:
            status = old.get("status")
            new = {**patched, **({"status": status} if status is not None else {})}
            new["metadata"] = {**patched["metadata"], "generation": old["metadata"].get("generation", 1)}
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        self.admit(key[0], new) if subresource != "status" else None
        return clone(self.update(key, new, status=subresource == "status"))

    # -- watches -------------------------------------------------------------------------------------------------------

    async def watch(self, request: Request, gateway: Gateway) -> AsyncIterator[bytes]:
        """Events after the requested version, until dropped."""
        query = parse_qs("&".join(f"{k}={v}" for k, v in request.query))
        collection, namespace, _, _ = parse(request.path)
        selector = dict(request.query).get("labelSelector", "")
        position = int(query.get("resourceVersion", ["0"])[0])
        if position < self.forgotten:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            yield orjson.dumps({"type": "ERROR", "object": gone}) + b"\n"
            return
        epoch = self.dropped
        changes = self.changes[collection]
        start = bisect_right(changes, position, key=lambda change: change.version)
        loop = asyncio.get_running_loop()
        spoke = loop.time()
        while epoch == self.dropped:
            changed = self._changed[collection]
            stalled_until = max(self.stalled_until, gateway.cut_until)
            if loop.time() < stalled_until:
                await asyncio.sleep(stalled_until - loop.time() + 0.001)  # a tiny rest would not move the clock
                continue
            while start < len(changes):
                change = changes[start]
                start += 1
                if namespace and change.obj["metadata"].get("namespace", "") != namespace:
                    continue
                if matches(change.obj, selector):
                    spoke = loop.time()
                    yield change.line
            quiet = spoke + BOOKMARK - loop.time()
            if quiet > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(quiet):
                        await changed.wait()
                continue
            spoke = loop.time()
            bookmark = {"metadata": {"resourceVersion": str(self.version)}}
            yield orjson.dumps({"type": "BOOKMARK", "object": bookmark}) + b"\n"


class Gateway:
    """The transport of one process. `alive` False: the process is dead, nothing leaves it any more.

    `cut` cuts it off for a while. What it had sent by then may still arrive: one write, late, whoever leads by then.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.alive = True
        self.late = False  # a write that was in flight when we were cut off is being answered
        self.cut_until = 0.0
        self._late_after: float | None = None
        self.before: Callable[[Request], None] = lambda request: None
        self.after: Callable[[Request], None] = lambda request: None

    def cut(self, seconds: float, late_after: float | None) -> None:
        """Cut off now; the next write of the process, or the one under way, is delivered after `late_after` seconds."""
        self.cut_until = asyncio.get_running_loop().time() + seconds
        self._late_after = late_after

    async def send(self, request: Request) -> Response:
        self.before(request)
        if not self.alive:
            await asyncio.Event().wait()
        await asyncio.sleep(0.002)
        await self._held_back(request)
        fault = self._server.fault(request)
        if fault == "lost-before":
            raise TransportError("connection reset", outcome_unknown=request.is_write)
        if fault is not None and fault.isdigit():
            return Response(int(fault), {}, orjson.dumps({"kind": "Status", "code": int(fault), "reason": ""}))
        if fault == "conflict":
            return Response(409, {}, orjson.dumps({"kind": "Status", "code": 409, "reason": "Conflict"}))
        response = self._answered(request)
        self.after(request)
        if not self.alive:
            await asyncio.Event().wait()
        await asyncio.sleep(0.002)
        if fault == "lost-after":
            raise TransportError("connection reset", outcome_unknown=request.is_write)
        return response

    def _answered(self, request: Request) -> Response:
        self._server.actor = self
        try:
            return self._server.answer(request)
        finally:
            self._server.actor = None

    async def _held_back(self, request: Request) -> None:
        loop = asyncio.get_running_loop()
        left = self.cut_until - loop.time()
        if left <= 0:
            return
        if self._late_after is not None and request.is_write and "/leases/" not in request.path:
            loop.call_later(self._late_after, self._deliver_late, request)
            self._late_after = None
        await asyncio.sleep(min(left, request.timeout or left))
        raise TransportError("no answer", outcome_unknown=request.is_write)

    def _deliver_late(self, request: Request) -> None:
        self.late = True
        try:
            self._answered(request)
        finally:
            self.late = False

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self.before(request)
        if not self.alive:
            await asyncio.Event().wait()
        yield StreamResponse(200, {}, self._server.watch(request, self))

    async def close(self) -> None: ...


def parse(path: str) -> tuple[str, str, str, str]:
    """Collection, namespace, name, subresource of a request's path."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    parts += ["", ""]
    return parts[0], namespace, parts[1], parts[2]


def matches(obj: Json, selector: str) -> bool:
    """Equality and existence selectors."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value.removeprefix("=")):
            return False
    return True


def merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    """JSON merge patch; strategic: the lists that the engine patches merge by their key."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = clone(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif strategic and key in _MERGE_KEYS and isinstance(value, list):
            result[key] = _merged_list(result.get(key) or [], value, _MERGE_KEYS[key])
        else:
            result[key] = merged(result.get(key), value, strategic=strategic)
    return result


def _merged_list(old: list[Json], patch: list[Json], key: str) -> list[Json]:
    result = [*old]
    for entry in patch:
        at = next((i for i, known in enumerate(result) if known[key] == entry[key]), None)
        if at is None:
            result.append(entry)
        else:
            result[at] = merged(result[at], entry, strategic=True)
    return result
