"""`status.inheritanceChain` and condition `InheritanceReady` of both runtime kinds (`spec/serving-runtimes.md
sections 2.5 and 6`).

A change of a runtime concerns itself and everything below it. The decision is `plan_status`; the controller reads
caches, writes the status when it changed, and says so in a Warning event when a chain broke.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ome.api import keys
from ome.api.meta import Condition, find_condition, timestamp, to_dict
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime, ServingRuntimeStatus
from ome.kube.cache import Cache, Change, Key
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import Controller, Done, Environment, Outcome, Watch
from ome.kube.errors import NotFound
from ome.kube.events import WARNING, EventRecorder
from ome.kube.resources import CLUSTER_SERVING_RUNTIMES, SERVING_RUNTIMES
from ome.runtimes.inheritance import Chain, ChainError, resolve_chain
from ome.runtimes.reading import CachedRuntimes, Runtime, RuntimeReader

READY = "InheritanceReady"
RESOLVED = "Resolved"

_BY_PARENT = "ome.runtimes/parent"

Stored = ServingRuntime | ClusterServingRuntime


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """`status` to write, None when it already stands so; `broken`: the chain error an event reports, None when none
    is due."""

    status: ServingRuntimeStatus | None
    broken: ChainError | None = None


def plan_status(stored: Stored, reader: RuntimeReader, now: datetime) -> StatusPlan:
    """The whole new status. A chain that broke keeps the last one that resolved; a transition keeps its time unless
    status flips."""
    old = stored.status
    before = find_condition(old.conditions, READY)
    outcome = _resolve(Runtime.of(stored), reader)
    if isinstance(outcome, Chain):
        chain = outcome.names
        wanted = Condition(type=READY, status="True", reason=RESOLVED, message=f"inherits {' -> '.join(chain)}")
        if len(chain) == 1:
            wanted = Condition(type=READY, status="True", reason=RESOLVED, message="inherits nothing")
    else:
        chain = old.inheritance_chain
        wanted = Condition(type=READY, status="False", reason=outcome.reason, message=str(outcome))
    if before is not None and chain == old.inheritance_chain and _same(before, wanted):
        return StatusPlan(None)
    flipped = before is None or before.status != wanted.status
    at = now if flipped or before is None else before.last_transition_time or now
    others = tuple(condition for condition in old.conditions if condition.type != READY)
    dated = Condition(
        type=READY,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
        last_transition_time=at,
    )
    status = ServingRuntimeStatus(inheritance_chain=chain, conditions=(*others, dated))
    return StatusPlan(status, None if isinstance(outcome, Chain) else outcome)


class InheritanceStatus:
    """One pass over one runtime; key ("", name) is a ClusterServingRuntime."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        namespaced: Cache[ServingRuntime],
        cluster: Cache[ClusterServingRuntime],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._namespaced = namespaced
        self._cluster = cluster
        self._reader = CachedRuntimes(namespaced, cluster)

    async def reconcile(self, key: Key) -> Outcome:
        """Observe, decide, write the status if it changed."""
        namespace, name = key
        cache: Cache[Any] = self._namespaced if namespace else self._cluster
        stored: Stored | None = cache.get(namespace, name)
        if stored is None or stored.metadata.deleting:
            return Done()
        plan = plan_status(stored, self._reader, self._clock.now())
        if plan.status is None:
            return Done()
        body = {
            "metadata": {"resourceVersion": stored.metadata.resource_version},
            "status": {
                "inheritanceChain": list(plan.status.inheritance_chain),
                "conditions": [_condition(condition) for condition in plan.status.conditions],
            },
        }
        try:
            written = await self._client.patch(cache.resource, name, namespace, body, subresource="status")
        except NotFound:
            return Done()
        cache.observe(written)
        if plan.broken is not None:
            await self._recorder.event(
                Runtime.of(stored).reference, WARNING, plan.broken.reason, str(plan.broken), fold=True
            )
        return Done()

    def concerned(self, change: Change[Any]) -> Iterable[Key]:
        """The runtime and everything that inherits from its name, at any depth. A change of status alone concerns
        nobody."""
        old, new = change.old, change.new
        if old is not None and new is not None and _parents(old) == _parents(new) and _settled(old, new):
            return []
        found: dict[Key, None] = {change.object.metadata.key: None}
        pending = [change.object.metadata.name]
        seen: set[str] = set(pending)
        while pending:
            for heir in self._heirs(pending.pop()):
                found[heir.metadata.key] = None
                if heir.metadata.name not in seen:
                    seen.add(heir.metadata.name)
                    pending.append(heir.metadata.name)
        return found

    def _heirs(self, name: str) -> Sequence[Stored]:
        return [*self._namespaced.by_index(_BY_PARENT, name), *self._cluster.by_index(_BY_PARENT, name)]


def build(environment: Environment) -> Controller:
    """The controller `servingruntime-inheritance`."""
    caches = environment.caches
    namespaced = caches.of(SERVING_RUNTIMES, ServingRuntime, indexes={_BY_PARENT: _parents})
    cluster = caches.of(CLUSTER_SERVING_RUNTIMES, ClusterServingRuntime, indexes={_BY_PARENT: _parents})
    room = InheritanceStatus(environment.client, environment.recorder, environment.clock, namespaced, cluster)
    watches: list[Watch[Any]] = [Watch(namespaced, room.concerned), Watch(cluster, room.concerned)]
    return Controller(
        "servingruntime-inheritance",
        room.reconcile,
        watches,
        clock=environment.clock,
        metrics=environment.metrics,
    )


def _resolve(runtime: Runtime, reader: RuntimeReader) -> Chain | ChainError:
    try:
        return resolve_chain(runtime, reader)
    except ChainError as error:
        return error


def _same(before: Condition, wanted: Condition) -> bool:
    return (before.status, before.reason, before.message) == (wanted.status, wanted.reason, wanted.message)


def _parents(stored: Stored) -> tuple[str, ...]:
    parent = stored.metadata.annotations.get(keys.INHERIT_FROM)
    return (parent,) if parent else ()


def _settled(old: Stored, new: Stored) -> bool:
    """Nothing to write again: the status was not taken away under us."""
    return old.status == new.status or new.status.conditions != ()


def _condition(condition: Condition) -> dict[str, Any]:
    """As `metav1.Condition` wants it: message and reason always there."""
    body = to_dict(condition)
    body.setdefault("message", "")
    body.setdefault("reason", "")
    if condition.last_transition_time is not None:
        body["lastTransitionTime"] = timestamp(condition.last_transition_time)
    return body
