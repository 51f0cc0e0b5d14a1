"""The controllers around the decisions of this room: what each watches, what it takes in, what it hands to the
decision.

Every one is an ordinary client of the API server. `build` is called by `ome.local.cluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ome.kube.cache import Cache, Caches, Change
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import After, Controller, Done, Outcome, Retry, Watch
from ome.kube.events import EventRecorder
from ome.kube.resources import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from ome.local.objects import Json, Key, Object, RevisionObject
from ome.local.plan import Actor, Plan, Result
from ome.local.workloads import cron_jobs, daemon_sets, deployments, jobs, replica_sets, stateful_sets
from ome.local.workloads.ownership import Claim, claim

REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", "ReplicationController")
OWNER: Final = "owner"
ORPHAN: Final = "orphan"
LABEL: Final = "label"
SWARM_SECONDS: Final = 0.1
"""Least time between two looks at an object whose own children report in swarms: their reports make one status."""


def _owner_of(obj: Any) -> Iterable[str]:
    controller = obj.metadata.controller
    return (controller.uid,) if controller is not None else ()


def _orphan_of(obj: Any) -> Iterable[str]:
    return (obj.metadata.namespace,) if obj.metadata.controller is None else ()


def _label_of(obj: Any) -> Iterable[str]:
    return [f"{obj.metadata.namespace}/{name}={value}" for name, value in obj.metadata.labels.items()]


class Workshop:
    """What the controllers share: the client, the caches, the clock, and one recorder a controller name."""

    def __init__(self, client: Client, caches: Caches, clock: Clock) -> None:
        self.client = client
        self.caches = caches
        self.clock = clock
        self.pods: Cache[Object] = self.owned(PODS, Object)
        self.pods.add_index(LABEL, _label_of)
        self.nodes: Cache[Object] = caches.of(NODES, Object)
        self._by_resource: dict[Resource, Cache[Any]] = {PODS: self.pods, NODES: self.nodes}

    def owned(self, resource: Resource, type_: type[Any]) -> Cache[Any]:
        """A cache that finds objects by their controller, and those without one by namespace."""
        return self.caches.of(resource, type_, indexes={OWNER: _owner_of, ORPHAN: _orphan_of})

    def cache(self, resource: Resource, type_: type[Any] = Object) -> Cache[Any]:
        """The cache of a resource whose writes are shown to it at once."""
        found = self._by_resource.get(resource)
        if found is None:
            found = self._by_resource[resource] = self.owned(resource, type_)
        return found

    def pods_with(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The pods of a namespace that carry all of these labels, of which there is at least one."""
        sets = [self.pods.by_index(LABEL, f"{namespace}/{name}={value}") for name, value in labels.items()]
        smallest = min(sets, key=len)
        wanted = labels.items()
        return [pod for pod in smallest if wanted <= pod.metadata.labels.items()]

    def actor(self, component: str) -> Actor:
        return Actor(self.client, EventRecorder(self.client, component, self.clock), self._by_resource)

    def candidates(self, cache: Cache[Object], owner: Object) -> list[Object]:
        """The objects that the owner controls, and those in its namespace that nobody does."""
        orphans = cache.by_index(ORPHAN, owner.namespace)
        return [*cache.by_index(OWNER, owner.uid), *orphans]


def after(seconds: float | None) -> Outcome:
    """The outcome of a pass that may want to look again."""
    return Done() if seconds is None else After(max(0.01, seconds))


def self_key(change: Change[Any]) -> Iterable[Key]:
    return (change.object.metadata.key,)


def owner_keys(owners: Cache[Object], resource: Resource) -> Callable[[Change[Any]], Iterable[Key]]:
    """The owner of a changed object: its controller, or every owner of the kind in the namespace when it has none."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        found: set[Key] = set()
        for obj in (change.old, change.new):
            if obj is None:
                continue
            controller = obj.metadata.controller
            if controller is not None and controller.kind == resource.kind:
                found.add((obj.metadata.namespace, controller.name))
            elif controller is None and obj.metadata.labels:
                found.update(owner.key for owner in owners.list(obj.metadata.namespace))
        return found

    return keys


class _Owner:
    """The common course of a pass over an object that owns pods: claim, decide, act."""

    def __init__(
        self,
        shop: Workshop,
        resource: Resource,
        component: str,
        decide: Callable[[Object, Sequence[Object]], Plan],
        selector: Callable[[Object], Json] = lambda owner: owner.spec.get("selector") or {},
    ) -> None:
        self.shop = shop
        self.resource = resource
        self.owners: Cache[Object] = shop.cache(resource)
        self.actor = shop.actor(component)
        self._decide = decide
        self._selector = selector

    async def claim(self, owner: Object, cache: Cache[Object], kind: Resource) -> Claim:
        found = claim(owner, self.resource, self._selector(owner), self.shop.candidates(cache, owner), kind)
        await self.actor.act(Plan(found.patches))
        return found

    async def reconcile(self, key: Key) -> Outcome:
        owner = self.owners.get(*key)
        if owner is None:
            return Done()
        pods = (await self.claim(owner, self.shop.pods, PODS)).owned
        plan = self._decide(owner, pods)
        result = await self.actor.act(plan)
        return refused(result) or after(plan.after)


def refused(result: Result) -> Outcome | None:
    """A create that the server refused is tried again with backoff."""
    return Retry(result.refusals[0]) if result.refusals else None


def build(shop: Workshop) -> list[Controller]:
    """The controllers of workloads that own pods."""
    return [
        _deployments(shop),
        _replica_sets(shop, REPLICA_SETS, "replicaset-controller"),
        _replica_sets(shop, REPLICATION_CONTROLLERS, "replication-controller"),
        _stateful_sets(shop),
        _daemon_sets(shop),
        _jobs(shop),
        _cron_jobs(shop),
    ]


def _controller(
    shop: Workshop,
    name: str,
    reconcile: Callable[[Key], Awaitable[Outcome]],
    watches: Sequence[Watch[Any]],
    workers: int = 4,
    rest: float = 0.0,
) -> Controller:
    return Controller(name, reconcile, watches, clock=shop.clock, workers=workers, rest=rest)


class _Taken:
    """The names in a namespace that objects of others have; asked for one name, not listed."""

    def __init__(self, cache: Cache[Object], namespace: str, own: Collection[str]) -> None:
        self._cache = cache
        self._namespace = namespace
        self._own = own

    def __contains__(self, name: object) -> bool:
        return name not in self._own and self._cache.get(self._namespace, str(name)) is not None


def _deployments(shop: Workshop) -> Controller:
    sets: Cache[Object] = shop.cache(REPLICA_SETS)
    owners: Cache[Object] = shop.cache(DEPLOYMENTS)
    frame = _Owner(shop, DEPLOYMENTS, "deployment-controller", lambda owner, pods: Plan())

    async def reconcile(key: Key) -> Outcome:
        owner = owners.get(*key)
        if owner is None:
            return Done()
        owned = (await frame.claim(owner, sets, REPLICA_SETS)).owned
        foreign = _Taken(sets, owner.namespace, {found.name for found in owned})
        pods = [pod for found in owned for pod in shop.pods.by_index(OWNER, found.uid)]
        plan = deployments.decide(deployments.Snapshot(owner, owned, pods, foreign), shop.clock.now())
        result = await frame.actor.act(plan)
        return refused(result) or after(plan.after)

    def pod_keys(change: Change[Object]) -> Iterable[Key]:
        """Only the end of a pod concerns a Deployment, and only when it recreates."""
        controller = change.object.metadata.controller
        if controller is None or controller.kind != "ReplicaSet" or change.new is not None:
            return ()
        parent = sets.get(change.object.namespace, controller.name)
        owner = parent.metadata.controller if parent is not None else None
        return ((change.object.namespace, owner.name),) if owner is not None else ()

    watches: list[Watch[Any]] = [
        Watch(owners, self_key),
        Watch(sets, owner_keys(owners, DEPLOYMENTS)),
        Watch(shop.pods, pod_keys),
    ]
    return _controller(shop, "deployment", reconcile, watches, rest=SWARM_SECONDS)


def _replica_sets(shop: Workshop, resource: Resource, component: str) -> Controller:
    owners: Cache[Object] = shop.cache(resource)
    refusals: dict[Key, str] = {}

    def selector(owner: Object) -> Json:
        found = owner.spec.get("selector") or {}
        return found if resource is REPLICA_SETS else {"matchLabels": found}

    def related(owner: Object) -> list[Object]:
        """All pods of the Deployment behind a ReplicaSet, for the ranking of a scale-down."""
        parent = owner.metadata.controller
        if parent is None:
            return []
        return [pod for found in owners.by_index(OWNER, parent.uid) for pod in shop.pods.by_index(OWNER, found.uid)]

    frame = _Owner(shop, resource, component, lambda owner, pods: Plan(), selector)

    async def reconcile(key: Key) -> Outcome:
        owner = owners.get(*key)
        if owner is None:
            refusals.pop(key, None)
            return Done()
        pods = (await frame.claim(owner, shop.pods, PODS)).owned
        snapshot = replica_sets.Snapshot(owner, pods, related(owner), resource=resource)
        result = await frame.actor.act(replica_sets.decide(snapshot))
        refusals.pop(key, "")
        if result.refusals:
            refusals[key] = result.refusals[0].message
        told = await report(owner)
        return refused(result) or after(told.after)

    async def report(owner: Object) -> Plan:
        """Tell the status from what the caches show after our own writes."""
        current = owners.get(*owner.key)
        if current is None or current.uid != owner.uid:
            return Plan()
        owned = claim(current, resource, selector(current), shop.candidates(shop.pods, current), PODS).owned
        snapshot = replica_sets.Snapshot(current, owned, (), refusals.get(current.key, ""), resource)
        plan = replica_sets.report(snapshot, shop.clock.now())
        await frame.actor.act(plan)
        return plan

    watches: list[Watch[Any]] = [Watch(owners, self_key), Watch(shop.pods, owner_keys(owners, resource))]
    return _controller(shop, resource.plural, reconcile, watches)


def _stateful_sets(shop: Workshop) -> Controller:
    owners: Cache[Object] = shop.cache(STATEFUL_SETS)
    revisions: Cache[RevisionObject] = shop.cache(CONTROLLER_REVISIONS, RevisionObject)
    claims: Cache[Object] = shop.cache(PERSISTENT_VOLUME_CLAIMS)

    def decide(owner: Object, pods: Sequence[Object]) -> Plan:
        names = frozenset(found.name for found in claims.list(owner.namespace))
        snapshot = stateful_sets.Snapshot(owner, pods, revisions.by_index(OWNER, owner.uid), names)
        return stateful_sets.decide(snapshot, shop.clock.now())

    frame = _Owner(shop, STATEFUL_SETS, "statefulset-controller", decide)
    watches: list[Watch[Any]] = [Watch(owners, self_key), Watch(shop.pods, owner_keys(owners, STATEFUL_SETS))]
    return _controller(shop, "statefulset", frame.reconcile, watches, 2)


def _daemon_sets(shop: Workshop) -> Controller:
    owners: Cache[Object] = shop.cache(DAEMON_SETS)
    revisions: Cache[RevisionObject] = shop.cache(CONTROLLER_REVISIONS, RevisionObject)

    def decide(owner: Object, pods: Sequence[Object]) -> Plan:
        own = revisions.by_index(OWNER, owner.uid)
        snapshot = daemon_sets.Snapshot(owner, pods, shop.nodes.list(), own)
        return daemon_sets.decide(snapshot, shop.clock.now())

    frame = _Owner(shop, DAEMON_SETS, "daemonset-controller", decide)

    def node_keys(change: Change[Object]) -> Iterable[Key]:
        if change.old is not None and change.new is not None:
            old, new = change.old, change.new
            if old.metadata.labels == new.metadata.labels and old.spec == new.spec:
                return ()
        return [owner.key for owner in owners.list()]

    watches: list[Watch[Any]] = [
        Watch(owners, self_key),
        Watch(shop.pods, owner_keys(owners, DAEMON_SETS)),
        Watch(shop.nodes, node_keys),
    ]
    return _controller(shop, "daemonset", frame.reconcile, watches, 2)


def _jobs(shop: Workshop) -> Controller:
    owners: Cache[Object] = shop.cache(JOBS)

    def decide(owner: Object, pods: Sequence[Object]) -> Plan:
        return jobs.decide(jobs.Snapshot(owner, pods), shop.clock.now())

    frame = _Owner(shop, JOBS, "job-controller", decide)
    watches: list[Watch[Any]] = [Watch(owners, self_key), Watch(shop.pods, owner_keys(owners, JOBS))]
    return _controller(shop, "job", frame.reconcile, watches, 2)


def _cron_jobs(shop: Workshop) -> Controller:
    owners: Cache[Object] = shop.cache(CRON_JOBS)
    children: Cache[Object] = shop.cache(JOBS)
    actor = shop.actor("cronjob-controller")

    async def reconcile(key: Key) -> Outcome:
        owner = owners.get(*key)
        if owner is None:
            return Done()
        snapshot = cron_jobs.Snapshot(owner, children.by_index(OWNER, owner.uid))
        plan = cron_jobs.decide(snapshot, shop.clock.now())
        await actor.act(plan)
        return after(plan.after)

    def job_keys(change: Change[Object]) -> Iterable[Key]:
        controller = change.object.metadata.controller
        if controller is None or controller.kind != CRON_JOBS.kind:
            return ()
        return ((change.object.namespace, controller.name),)

    return _controller(shop, "cronjob", reconcile, [Watch(owners, self_key), Watch(children, job_keys)], 1)
