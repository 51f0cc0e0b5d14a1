"""The scheduler: pods without a node get one. Decides in `scheduling.py`; here are the ledger of what nodes hold,
and the writes.

Started with the workload controllers, on the embedded cluster only: a real control plane has its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec

from ome.kube.cache import Cache, Caches, Change
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import After, Controller, Done, Outcome, Watch
from ome.kube.errors import Conflict, NotFound
from ome.kube.events import EventRecorder
from ome.kube.requests import PatchType
from ome.kube.resources import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from ome.local.node.affinity import Placed
from ome.local.node.resources import PODS as POD_COUNT
from ome.local.node.resources import Amounts, add, parsed, pod_requests
from ome.local.node.scheduling import HostPort, Placement, World, host_ports, schedule
from ome.local.objects import Json, Key, Object, condition, reference_to, with_condition
from ome.local.plan import Actor, Emit, Patch, Plan

NAME: Final = "default-scheduler"
LOOK_AGAIN: Final = 1.0  # seconds until a pod is looked at again whose write met somebody else's


@dataclass(frozen=True, slots=True)
class _Held:
    pod: Object
    node: str
    amounts: Amounts
    ports: frozenset[HostPort]


class Ledger:
    """What every node holds, kept up to date change by change. A pod just bound counts before the cache shows it."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self.amounts: dict[str, Amounts] = {}
        self._by_owner: dict[str, Counter[str]] = {}
        self._neighbourly: set[str] = set()

    def observe(self, change: Change[Object]) -> None:
        pod = change.object
        if change.new is None or not _holds_place(change.new):
            known = self._held.get(pod.uid)
            if known is not None and (change.new is None or pod.spec.get("nodeName")):
                self.release(pod.uid)
            return
        self.hold(pod, pod.spec["nodeName"])

    def hold(self, pod: Object, node: str) -> None:
        """Count the pod on the node."""
        known = self._held.get(pod.uid)
        if known is not None and known.node == node and _same_claims(known.pod, pod):
            self._held[pod.uid] = _Held(pod, node, known.amounts, known.ports)
            return
        self.release(pod.uid)
        amounts = {**pod_requests(pod), POD_COUNT: Fraction(1)}
        self._held[pod.uid] = _Held(pod, node, amounts, host_ports(pod))
        add(self.amounts.setdefault(node, {}), amounts)
        controller = pod.metadata.controller
        if controller is not None:
            self._by_owner.setdefault(controller.uid, Counter())[node] += 1
        if _has_neighbour_rules(pod):
            self._neighbourly.add(pod.uid)

    def release(self, uid: str) -> None:
        """Count the pod no more."""
        known = self._held.pop(uid, None)
        self._neighbourly.discard(uid)
        if known is not None:
            add(self.amounts[known.node], {name: -amount for name, amount in known.amounts.items()})
            self._leave_owner(known)

    def _leave_owner(self, known: _Held) -> None:
        controller = known.pod.metadata.controller
        siblings = self._by_owner.get(controller.uid) if controller is not None else None
        if controller is None or siblings is None:
            return
        siblings[known.node] -= 1
        if siblings.total() <= 0:
            del self._by_owner[controller.uid]

    def holds(self, uid: str) -> bool:
        return uid in self._held

    def ports(self) -> dict[str, set[HostPort]]:
        found: dict[str, set[HostPort]] = {}
        for held in self._held.values():
            if held.ports:
                found.setdefault(held.node, set()).update(held.ports)
        return found

    def siblings(self, pod: Object) -> Mapping[str, int]:
        """How many pods of the same controller each node holds."""
        controller = pod.metadata.controller
        return self._by_owner.get(controller.uid, {}) if controller is not None else {}

    def placed(self, pod: Object, nodes: Iterable[Object]) -> list[Placed]:
        """The pods that rules about neighbours may speak of; none when no rule exists."""
        if not self._neighbourly and not _has_neighbour_rules(pod):
            return []
        labels = {node.name: node.metadata.labels for node in nodes}
        return [Placed(held.pod, labels[held.node]) for held in self._held.values() if held.node in labels]


def _same_claims(one: Object, other: Object) -> bool:
    return one.spec.get("containers") == other.spec.get("containers") and (
        one.metadata.controller == other.metadata.controller
    )


def _holds_place(pod: Object) -> bool:
    return bool(pod.spec.get("nodeName")) and pod.status.get("phase") not in ("Succeeded", "Failed")


def _has_neighbour_rules(pod: Object) -> bool:
    affinity = pod.spec.get("affinity") or {}
    return bool(
        affinity.get("podAffinity") or affinity.get("podAntiAffinity") or pod.spec.get("topologySpreadConstraints")
    )


class Scheduler:
    """Binds pods one after another, so that each sees what the last one took."""

    def __init__(self, client: Client, caches: Caches, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pods: Cache[Object] = caches.of(PODS, Object)
        self._nodes: Cache[Object] = caches.of(NODES, Object)
        self._namespaces: Cache[Object] = caches.of(NAMESPACES, Object)
        self._claims: Cache[Object] = caches.of(PERSISTENT_VOLUME_CLAIMS, Object)
        self._actor = Actor(client, EventRecorder(client, NAME, clock), {PODS: self._pods})
        self._ledger = Ledger()
        self._waiting: set[Key] = set()
        self._rooms: dict[str, tuple[str, Amounts]] = {}
        self._pods.subscribe(self._ledger.observe)

    def controller(self) -> Controller:
        watches: list[Watch[Any]] = [
            Watch(self._pods, self._pod_keys),
            Watch(self._nodes, self._node_keys),
            Watch(self._claims, lambda change: tuple(self._waiting)),
        ]
        return Controller("scheduler", self._schedule, watches, clock=self._clock)

    def _pod_keys(self, change: Change[Object]) -> Iterable[Key]:
        pod = change.object
        if change.new is None or not _is_ours(pod):
            self._waiting.discard(pod.key)
            freed = pod.spec.get("nodeName") and (change.new is None or not _holds_place(pod))
            return tuple(self._waiting) if freed else ()
        return (pod.key,)

    def _node_keys(self, change: Change[Object]) -> Iterable[Key]:
        if change.old is not None and change.new is not None and _offer(change.old) == _offer(change.new):
            return ()
        return tuple(self._waiting)

    async def _schedule(self, key: Key) -> Outcome:
        pod = self._pods.get(*key)
        if pod is None or not _is_ours(pod) or self._ledger.holds(pod.uid):
            return Done()
        if pod.spec.get("schedulingGates"):
            return await self._refuse(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
        placement = schedule(pod, self._world(pod))
        if placement.node:
            return await self._bind(pod, placement)
        self._waiting.add(key)
        return await self._refuse(pod, "Unschedulable", placement.message)

    def _world(self, pod: Object) -> World:
        nodes = sorted((node for node in self._nodes.list() if not node.metadata.deleting), key=lambda node: node.name)
        placed = self._ledger.placed(pod, nodes)
        namespaces = {found.name: found.metadata.labels for found in self._namespaces.list()} if placed else {}
        claims = {found.name: bool(found.spec.get("volumeName")) for found in self._claims.list(pod.namespace)}
        return World(
            nodes=nodes,
            room={node.name: self._room(node) for node in nodes},
            held=self._ledger.amounts,
            ports=self._ledger.ports() if host_ports(pod) else {},
            siblings=self._ledger.siblings(pod),
            placed=placed,
            namespaces=namespaces,
            claims=claims,
        )

    def _room(self, node: Object) -> Amounts:
        """What the node can give, read once for each version of the node."""
        known = self._rooms.get(node.uid)
        if known is None or known[0] != node.metadata.resource_version:
            known = node.metadata.resource_version, parsed(node.status.get("allocatable"))
            self._rooms[node.uid] = known
        return known[1]

    async def _bind(self, pod: Object, placement: Placement) -> Outcome:
        assumed = msgspec.structs.replace(pod, spec={**pod.spec, "nodeName": placement.node})
        self._ledger.hold(assumed, placement.node)
        self._waiting.discard(pod.key)
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
        }
        try:
            await self._client.create(PODS, binding, name=pod.name, subresource="binding")
        except (NotFound, Conflict):
            # The pod went away or was bound by somebody else: the cache will show it.
            self._ledger.release(pod.uid)
            return After(LOOK_AGAIN)
        except BaseException:
            self._ledger.release(pod.uid)
            raise
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {placement.node}"
        await self._actor.emit(Emit(reference_to(pod, PODS), "Normal", "Scheduled", message))
        return Done()

    async def _refuse(self, pod: Object, reason: str, message: str) -> Outcome:
        old = condition(pod.status, "PodScheduled")
        if old is not None and (old.get("reason"), old.get("message")) == (reason, message):
            return Done()
        more = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
        conditions = with_condition(
            [old] if old else [], "PodScheduled", "False", self._clock.now(), reason=reason, message=message, **more
        )
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": conditions}}
        event = None
        if reason == "Unschedulable":
            event = Emit(reference_to(pod, PODS), "Warning", "FailedScheduling", message)
        patch = Patch(PODS, pod.namespace, pod.name, body, "status", PatchType.STRATEGIC, event)
        try:
            await self._actor.act(Plan((patch,)))
        except (NotFound, Conflict):
            return After(LOOK_AGAIN)
        return Done()


def _is_ours(pod: Object) -> bool:
    ours = (pod.spec.get("schedulerName") or NAME) == NAME
    return ours and not pod.spec.get("nodeName") and not pod.metadata.deleting


def _offer(node: Object) -> tuple[Any, ...]:
    return node.metadata.labels, node.spec, node.status.get("allocatable")
