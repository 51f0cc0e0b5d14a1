"""What a pass decided to do, as data, and the one place that does it.

A plan's actions are safe to repeat: creates meet their own earlier success as `AlreadyExists`, deletes as
`NotFound`, and patches that depend on what was read carry its resourceVersion. Used by the local controllers and the
scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ome.api.meta import ObjectReference
from ome.kube import requests
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from ome.kube.events import EventRecorder
from ome.kube.requests import PatchType
from ome.kube.resources import Resource

_PARALLEL: Final = 16


@dataclass(frozen=True, slots=True)
class Emit:
    """An event. `message` may hold `{name}`, the name the server gave to a created object."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. `refused` is recorded when the server refuses it, with `{error}` in its message."""

    resource: Resource
    body: Mapping[str, Any]
    done: Emit | None = None
    refused: Emit | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object, by default with a merge patch."""

    resource: Resource
    namespace: str
    name: str
    body: Any
    subresource: str = ""
    type: PatchType = PatchType.MERGE
    done: Emit | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, only if it is still the one that was seen."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    grace_period: int | None = None
    propagation: str | None = None
    done: Emit | None = None


Action = Create | Patch | Delete | Emit


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order (those of one kind in a row may run side by side), and when to look again, in seconds."""

    actions: Sequence[Action] = ()
    after: float | None = None


@dataclass(slots=True)
class Result:
    """What came of a plan: the objects that were created, and the refusals of the others."""

    created: list[dict[str, Any]]
    refusals: list[ApiError]


class Actor:
    """Does plans in one role's name, and shows the answers to the caches so that the next pass sees its own writes."""

    def __init__(self, client: Client, recorder: EventRecorder, caches: Mapping[Resource, Cache[Any]]) -> None:
        self.client = client
        self.recorder = recorder
        self._caches = caches

    async def act(self, plan: Plan) -> Result:
        """Do the plan. Raises the first error that is neither a refused create nor an earlier success of ours."""
        result = Result([], [])
        batch: list[Action] = []
        for action in plan.actions:
            if batch and type(batch[-1]) is not type(action):
                await self._run(batch, result)
                batch = []
            batch.append(action)
        await self._run(batch, result)
        return result

    async def _run(self, batch: Sequence[Action], result: Result) -> None:
        if len(batch) == 1 or (batch and isinstance(batch[0], Patch)):
            for action in batch:
                await self._one(action, result)
            return
        room = asyncio.Semaphore(_PARALLEL)

        async def bounded(action: Action) -> None:
            async with room:
                await self._one(action, result)

        outcomes = await asyncio.gather(*(bounded(action) for action in batch), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _one(self, action: Action, result: Result) -> None:
        match action:
            case Emit():
                await self.emit(action)
            case Create():
                await self._create(action, result)
            case Patch():
                written = await self.client.patch(
                    action.resource,
                    action.name,
                    action.namespace,
                    action.body,
                    type=action.type,
                    subresource=action.subresource,
                )
                self._observe(action.resource, written)
                await self.emit(action.done)
            case Delete():
                await self._delete(action)

    async def _create(self, action: Create, result: Result) -> None:
        try:
            created = await self.client.create(action.resource, dict(action.body))
        except AlreadyExists:
            if "name" not in action.body["metadata"]:
                raise
            return
        except (Forbidden, Invalid) as error:
            result.refusals.append(error)
            await self.emit(action.refused, error=error.message)
            return
        result.created.append(created)
        self._observe(action.resource, created)
        await self.emit(action.done, name=created["metadata"]["name"])

    async def _delete(self, action: Delete) -> None:
        request = requests.delete(
            action.resource,
            action.name,
            action.namespace,
            uid=action.uid,
            grace_period=action.grace_period,
            propagation=action.propagation,
        )
        try:
            response = await self.client.request(request, resource=action.resource)
        except NotFound:
            return
        answer = msgspec.json.decode(response.body, type=dict[str, Any])
        if answer.get("kind") == action.resource.kind:
            self._observe(action.resource, answer)
        await self.emit(action.done)

    def _observe(self, resource: Resource, written: Mapping[str, Any]) -> None:
        cache = self._caches.get(resource)
        if cache is not None:
            cache.observe(written)

    async def emit(self, emit: Emit | None, **values: str) -> None:
        """Record an event with the values filled into its message."""
        if emit is None:
            return
        message = emit.message
        for name, value in values.items():
            message = message.replace("{" + name + "}", value)
        await self.recorder.event(emit.regarding, emit.type, emit.reason, message)
