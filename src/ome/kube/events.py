"""Events on objects: what users read with `kubectl describe` and `kubectl get events`.

Best effort, as everywhere in Kubernetes: an Event that cannot be written is logged, never raised.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ome.api.meta import ObjectReference, timestamp
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import AlreadyExists, KubeError, NotFound
from ome.kube.resources import EVENTS

NORMAL = "Normal"
WARNING = "Warning"
REMEMBERED = 4096  # events whose repeats are folded
FOLD_FOR = 3600.0  # seconds after the last repeat: the API server forgets Events after an hour
MESSAGE_LIMIT = 1024

log = logging.getLogger("ome.kube.events")


@dataclass(slots=True)
class _Known:
    name: str
    count: int
    last: datetime


class EventRecorder:
    """Writes core/v1 Events. Repeats of one text fold into one Event with a rising `count`, unless told not to."""

    def __init__(self, client: Client, component: str, clock: Clock, *, host: str = "") -> None:
        self._client = client
        self._source = {"component": component, **({"host": host} if host else {})}
        self._clock = clock
        self._known: OrderedDict[tuple[str, ...], _Known] = OrderedDict()
        self._last_stamp = 0

    async def event(
        self, regarding: ObjectReference, type: str, reason: str, message: str, *, fold: bool = True
    ) -> None:
        """Record an event about an object. `type` is Normal or Warning; without `fold` it is an Event of its own."""
        message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 3] + "..."
        key = (regarding.uid, regarding.namespace, regarding.kind, regarding.name, type, reason, message)
        now = self._clock.now()
        try:
            known = self._known.get(key) if fold else None
            recent = known is not None and (now - known.last).total_seconds() < FOLD_FOR
            if known is not None and recent and await self._repeat(regarding, known, now):
                self._known.move_to_end(key)
                return
            name = await self._create(regarding, type, reason, message, now)
        except KubeError as error:
            log.warning("event %s on %s/%s not written: %s", reason, regarding.namespace, regarding.name, error)
            return
        if fold:
            self._known[key] = _Known(name, 1, now)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    async def named(
        self, regarding: ObjectReference, type: str, reason: str, message: str, name: str, *, fresh: bool
    ) -> None:
        """Record an event whose name says what it is about, so that whoever comes after a crash writes it once only.

        `fresh`: it cannot have been written before, so another event of that name is about something else, and this one
        gets a name of its own. Raises KubeError when it could not be written.
        """
        try:
            await self._client.create(EVENTS, self._body(name, regarding, type, reason, message, self._clock.now()))
        except AlreadyExists:
            if fresh:
                await self._create(regarding, type, reason, message, self._clock.now())

    async def _repeat(self, regarding: ObjectReference, known: _Known, now: datetime) -> bool:
        patch = {"count": known.count + 1, "lastTimestamp": timestamp(now)}
        try:
            await self._client.patch(EVENTS, known.name, regarding.namespace or "default", patch)
        except NotFound:
            return False
        known.count += 1
        known.last = now
        return True

    async def _create(self, regarding: ObjectReference, type: str, reason: str, message: str, now: datetime) -> str:
        while True:
            name = f"{regarding.name}.{self._stamp(now):x}"
            try:
                await self._client.create(EVENTS, self._body(name, regarding, type, reason, message, now))
                return name
            except AlreadyExists:
                continue  # another replica used this microsecond

    def _body(
        self, name: str, regarding: ObjectReference, type: str, reason: str, message: str, now: datetime
    ) -> dict[str, Any]:
        involved = {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "name": regarding.name,
            "namespace": regarding.namespace,
            "uid": regarding.uid,
            "resourceVersion": regarding.resource_version,
            "fieldPath": regarding.field_path,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "involvedObject": {field: value for field, value in involved.items() if value},
            "type": type,
            "reason": reason,
            "message": message,
            "source": self._source,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source.get("host", ""),
        }

    def _stamp(self, now: datetime) -> int:
        # Microseconds, strictly rising: names are unique and sort by time.
        self._last_stamp = max(self._last_stamp + 1, int(now.timestamp() * 1_000_000))
        return self._last_stamp
