"""The kubelet of every simulated node: watches pods, plays their containers, reports their status.

One controller for all nodes: a pass is one pod. It decides in `lifecycle.py`; here are the memory of pods, the
addresses, the reads of Secrets and ConfigMaps, the runtimes, and the writes. It uses the public API alone, so that
it is the kubelet on a real control plane too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, Final

from ome.kube.cache import Cache, Caches, Change
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import After, Controller, Done, Outcome, Watch
from ome.kube.errors import Forbidden, NotFound
from ome.kube.events import EventRecorder
from ome.kube.requests import PatchType
from ome.kube.resources import CONFIG_MAPS, NODES, PODS, SECRETS
from ome.local.node.containers import Notice
from ome.local.node.images import CONFIG_MAP, CONFIG_NAMESPACE, ImagePolicy, policy_from
from ome.local.node.lifecycle import OWN_CONDITIONS, Decision, PodMemory, Sight, decide, recall
from ome.local.node.nodes import is_alive
from ome.local.node.references import Reference
from ome.local.node.runtime import ContainerRuntime, Observation
from ome.local.objects import ConfigObject, Json, Key, Object, condition, reference_to

BY_NODE: Final = "node"
FIRST_POD_ADDRESS: Final = IPv4Address("198.18.1.1")
LAST_POD_ADDRESS: Final = IPv4Address("198.19.255.253")
BEGUN: Final = ("Created", "Started")  # events of a container that was started
_ROUNDS: Final = 64  # of deciding within one pass; a pod needs a few


class Addresses:
    """Pod addresses from 198.18.0.0/15, each in use once."""

    def __init__(self) -> None:
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()
        self._next = FIRST_POD_ADDRESS

    def of(self, uid: str) -> str:
        """The pod's address, a new one when it has none."""
        known = self._by_uid.get(uid)
        if known is not None:
            return known
        while str(self._next) in self._taken:
            self._advance()
        address = str(self._next)
        self._advance()
        self.take(uid, address)
        return address

    def take(self, uid: str, address: str) -> None:
        """Note an address that a pod already has."""
        self._by_uid[uid] = address
        self._taken.add(address)

    def free(self, uid: str) -> None:
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)

    def _advance(self) -> None:
        self._next = FIRST_POD_ADDRESS if self._next >= LAST_POD_ADDRESS else self._next + 1


class Kubelet:
    """Plays the pods of all simulated nodes."""

    def __init__(
        self, client: Client, caches: Caches, clock: Clock, runtimes: Sequence[ContainerRuntime], *, workers: int = 8
    ) -> None:
        """`runtimes` are asked in order which of them handles an image; the last must handle every image."""
        self._client = client
        self._clock = clock
        self._runtimes = runtimes
        self._workers = workers
        self._pods: Cache[Object] = caches.of(PODS, Object, indexes={BY_NODE: _node_of})
        self._nodes: Cache[Object] = caches.of(NODES, Object)
        self._images: Cache[ConfigObject] = caches.of(CONFIG_MAPS, ConfigObject, namespace=CONFIG_NAMESPACE)
        self._recorders: dict[str, EventRecorder] = {}
        self._addresses = Addresses()
        self._memory: dict[str, PodMemory] = {}
        self._uids: dict[Key, str] = {}
        self._notices: dict[str, frozenset[Notice]] = {}
        self._told: dict[str, Json] = {}
        self._controller: Controller | None = None
        self._pods.subscribe(self._note_address)

    def controller(self) -> Controller:
        watches: list[Watch[Any]] = [
            Watch(self._pods, lambda change: (change.object.key,) if _node_of(change.object) else ()),
            Watch(self._nodes, self._pods_of_node),
            Watch(self._images, self._pods_that_wait),
        ]
        self._controller = Controller("kubelet", self._sync, watches, clock=self._clock, workers=self._workers)
        return self._controller

    def poke(self, key: Key) -> None:
        """A runtime's containers of this pod have changed by themselves: look at once."""
        if self._controller is not None:
            self._controller.queue.add(key)

    def address_of(self, uid: str) -> str:
        """The address of a pod that runs here, also before its status shows it."""
        return self._addresses.of(uid)

    def pod(self, namespace: str, name: str) -> Object | None:
        """A pod that is on some node, as the cache has it."""
        found = self._pods.get(namespace, name)
        return found if found is not None and _node_of(found) else None

    def is_alive(self, pod: Object) -> bool:
        """Whether the pod's node is played now."""
        node = self._nodes.get("", pod.spec.get("nodeName") or "")
        return node is not None and is_alive(node)

    async def report(self, pod: Object, container: str, reason: str, message: str) -> None:
        """Record what a runtime saw of a container, as a Warning event of the pod's node."""
        node = self._nodes.get("", pod.spec.get("nodeName") or "")
        if node is not None:
            await self._record(pod, node, Notice("Warning", reason, message, container))

    def _note_address(self, change: Change[Object]) -> None:
        address = change.object.status.get("podIP")
        if change.new is not None and address and not change.new.spec.get("hostNetwork"):
            self._addresses.take(change.new.uid, address)

    def _pods_of_node(self, change: Change[Object]) -> Iterable[Key]:
        if change.old is not None and change.new is not None and is_alive(change.old) == is_alive(change.new):
            return ()
        return [pod.key for pod in self._pods.by_index(BY_NODE, change.object.name)]

    def _pods_that_wait(self, change: Change[ConfigObject]) -> Iterable[Key]:
        if change.object.metadata.name != CONFIG_MAP:
            return ()
        return [pod.key for pod in self._pods.list() if _node_of(pod) and pod.status.get("phase") == "Pending"]

    async def _sync(self, key: Key) -> Outcome:
        pod = self._pods.get(*key)
        known = self._uids.get(key)
        if known is not None and (pod is None or pod.uid != known):
            await self._forget(key, known)
        if pod is None:
            return Done()
        node = self._nodes.get("", pod.spec.get("nodeName") or "")
        if node is None or not is_alive(node):
            self._told.pop(pod.uid, None)  # others may write its status now: say everything again afterwards
            return Done()
        self._remember(pod)
        try:
            decision = await self._play(pod, node)
            await self._report(pod, node, decision)
        except NotFound:
            await self._forget(key, pod.uid)
            return Done()
        if decision.wake is None:
            return Done()
        return After(max(0.01, (decision.wake - self._clock.now()).total_seconds()))

    def _remember(self, pod: Object) -> None:
        if pod.uid in self._memory:
            return
        self._uids[pod.key] = pod.uid
        self._memory[pod.uid] = recall(pod, self._addresses.of(pod.uid), self._clock.now())
        for runtime in self._runtimes:
            runtime.adopt(pod)

    async def _forget(self, key: Key, uid: str) -> None:
        self._uids.pop(key, None)
        self._memory.pop(uid, None)
        self._notices.pop(uid, None)
        self._told.pop(uid, None)
        self._addresses.free(uid)
        for runtime in self._runtimes:
            await runtime.forget(uid)

    async def _play(self, pod: Object, node: Object) -> Decision:
        """Decide until nothing is left to read, start or stop; the notices of all rounds are in the result."""
        found: dict[Reference, frozenset[str] | None] = {}
        notices: list[Notice] = []
        for _ in range(_ROUNDS):
            sight = Sight(
                pod=pod,
                memory=self._memory[pod.uid],
                seen=self._observe(pod),
                policy=self._policy(),
                found=found,
                host_ip=_address_of(node),
                now=self._clock.now(),
            )
            decision = decide(sight)
            self._memory[pod.uid] = decision.memory
            notices += [notice for notice in decision.notices if notice not in notices]
            if decision.needs:
                found.update(await self._read(pod.namespace, decision.needs))
                continue
            failed: set[str] = set()
            moved = await self._move(pod, decision, failed)
            notices = [notice for notice in notices if notice.container not in failed or notice.reason not in BEGUN]
            if not moved:
                break
        return replace(decision, notices=tuple(notices))

    def _observe(self, pod: Object) -> dict[str, Observation]:
        now = self._clock.now()
        found = {}
        for container in _containers(pod):
            seen = self._runtime(container).observe(pod.uid, container["name"], now)
            if seen is not None:
                found[container["name"]] = seen
        return found

    def _runtime(self, container: Mapping[str, Any]) -> ContainerRuntime:
        image = str(container.get("image") or "")
        return next(runtime for runtime in self._runtimes if runtime.handles(image))

    def _policy(self) -> ImagePolicy:
        found = self._images.get(CONFIG_NAMESPACE, CONFIG_MAP)
        return policy_from(found.data if found is not None else None)

    async def _read(self, namespace: str, needs: Iterable[Reference]) -> dict[Reference, frozenset[str] | None]:
        found: dict[Reference, frozenset[str] | None] = {}
        for kind, name in needs:
            resource = SECRETS if kind == "secret" else CONFIG_MAPS
            try:
                obj: Json = await self._client.get(resource, name, namespace)
            except (NotFound, Forbidden):
                found[kind, name] = None
                continue
            found[kind, name] = frozenset([*(obj.get("data") or {}), *(obj.get("binaryData") or {})])
        return found

    async def _move(self, pod: Object, decision: Decision, failed: set[str]) -> bool:
        """Do what was decided with the containers; whether anything can look different now.

        `failed` is told which could not be started.
        """
        by_name = {container["name"]: container for container in _containers(pod)}
        moved = False
        for name in decision.stop:
            before = self._runtime(by_name[name]).observe(pod.uid, name, self._clock.now())
            await self._runtime(by_name[name]).stop(pod, by_name[name], _grace(pod), self._clock.now())
            after = self._runtime(by_name[name]).observe(pod.uid, name, self._clock.now())
            moved = moved or before != after
        for name in decision.start:
            moved = True
            starts = decision.memory.containers[name].starts
            try:
                await self._runtime(by_name[name]).start(pod, by_name[name], starts - 1, self._clock.now())
            except OSError as error:
                failed.add(name)
                self._note_failed_start(pod.uid, name, str(error))
        return moved

    def _note_failed_start(self, uid: str, name: str, error: str) -> None:
        memory = self._memory[uid]
        container = memory.containers[name]
        now = self._clock.now()
        failed = replace(container, starts=container.starts - 1, create_error=error, create_failed_at=now)
        self._memory[uid] = replace(memory, containers={**memory.containers, name: failed})

    async def _report(self, pod: Object, node: Object, decision: Decision) -> None:
        if decision.status is not None:
            await self._write(pod, decision.status)
        await self._tell(pod, node, decision.notices)
        if decision.remove:
            await self._client.delete(PODS, pod.name, pod.namespace, grace_period=0, uid=pod.uid)

    async def _write(self, pod: Object, status: Json) -> None:
        """Write what there is to say, once: a status that somebody wrote by hand stays until we have news."""
        news = intent(status)
        if self._told.get(pod.uid) == news and not _given_up(pod):
            return
        body = status_difference(pod.status, status)
        if body:
            patch = {"metadata": {"uid": pod.uid}, "status": body}
            written = await self._client.patch(
                PODS, pod.name, pod.namespace, patch, type=PatchType.STRATEGIC, subresource="status"
            )
            self._pods.observe(written)
        self._told[pod.uid] = news

    async def _tell(self, pod: Object, node: Object, notices: Sequence[Notice]) -> None:
        """Record the events that the pass before did not already tell."""
        told = self._notices.get(pod.uid, frozenset())
        self._notices[pod.uid] = frozenset(notices)
        for notice in notices:
            if notice not in told:
                await self._record(pod, node, notice)

    async def _record(self, pod: Object, node: Object, notice: Notice) -> None:
        recorder = self._recorders.get(node.name)
        if recorder is None:
            recorder = self._recorders[node.name] = EventRecorder(self._client, "kubelet", self._clock, host=node.name)
        path = f"{_field_of(pod, notice.container)}{{{notice.container}}}" if notice.container else ""
        await recorder.event(reference_to(pod, PODS, field_path=path), notice.type, notice.reason, notice.message)


def _given_up(pod: Object) -> bool:
    """Whether the control plane took the pod for lost with its node; it is not, or we would not be looking."""
    found = condition(pod.status, "Ready")
    return found is not None and found.get("reason") == "NodeNotReady"


def intent(status: Mapping[str, Any]) -> Json:
    """What a status says of the kubelet's own knowledge: other owners' conditions and times apart."""
    said: Json = {name: value for name, value in status.items() if name != "conditions"}
    said["conditions"] = [
        [found.get(field) for field in ("type", "status", "reason", "message")]
        for found in status.get("conditions") or ()
        if found.get("type") in OWN_CONDITIONS
    ]
    return said


def status_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The strategic merge patch from one pod status to another; conditions are keyed by type, other lists are whole."""
    changed: Json = {
        name: value for name, value in new.items() if name != "conditions" and _plain(old.get(name)) != _plain(value)
    }
    have = {found.get("type"): found for found in old.get("conditions") or ()}
    conditions = []
    for found in new.get("conditions") or ():
        known = have.get(found["type"], {})
        if _plain(known) != _plain(found):
            conditions.append({**{name: None for name in known if name not in found}, **found})
    if conditions:
        changed["conditions"] = conditions
    return changed


def _plain(value: Any) -> Any:
    """The value without nulls, which a server may or may not store."""
    if isinstance(value, Mapping):
        return {name: _plain(found) for name, found in value.items() if found is not None}
    return value


def _node_of(pod: Object) -> tuple[str, ...]:
    node = pod.spec.get("nodeName")
    return (node,) if node else ()


def _containers(pod: Object) -> list[Mapping[str, Any]]:
    return [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]


def _field_of(pod: Object, container: str) -> str:
    init = any(found["name"] == container for found in pod.spec.get("initContainers") or ())
    return "spec.initContainers" if init else "spec.containers"


def _grace(pod: Object) -> float:
    grace = pod.metadata.deletion_grace_period_seconds
    if grace is None:
        grace = pod.spec.get("terminationGracePeriodSeconds")
    return float(30 if grace is None else grace)


def _address_of(node: Object) -> str:
    for address in node.status.get("addresses") or ():
        if address.get("type") == "InternalIP":
            return str(address["address"])
    return "198.18.0.1"
