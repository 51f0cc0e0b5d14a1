"""The controllers that serve other objects: endpoints, disruption budgets, autoscalers, claims, and the life of nodes.

What each watches and takes in; the decisions are in the modules of the same subject. `build` is called by
`ome.local.cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from ome.api.meta import OwnerReference
from ome.kube.cache import Cache, Change
from ome.kube.controller import Controller, Done, Outcome, Watch
from ome.kube.errors import ApiError, Conflict, NotFound
from ome.kube.requests import JSON, Request
from ome.kube.resources import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    HPAS,
    LEASES,
    PDBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from ome.local.objects import Json, Key, Object, SliceObject, selects, time_of
from ome.local.workloads import autoscaling, disruption, endpoint_slices, node_lifecycle, volumes
from ome.local.workloads.controllers import OWNER, SWARM_SECONDS, Workshop, after, self_key
from ome.local.workloads.endpoint_slices import MANAGED_BY, MANAGER, SERVICE_NAME

LEASE_NAMESPACE: Final = "kube-node-lease"
BY_SERVICE: Final = "service"
BY_SELECTOR: Final = "selector"
BY_TARGET: Final = "target"
BY_NODE: Final = "node"
_KNOWN_TARGETS: Final = {(found.api_version, found.kind): found for found in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}


def build(shop: Workshop, *, volume_folder: str, node_grace: float) -> list[Controller]:
    """The controllers of this module. `volume_folder` holds made-up volumes; `node_grace` is in seconds."""
    return [
        _endpoints(shop),
        _budgets(shop),
        _autoscalers(shop),
        _claims(shop, volume_folder),
        _node_lifecycle(shop, node_grace),
    ]


# -- endpoints ---------------------------------------------------------------------------------------------------------


def _service_of(found: SliceObject) -> Iterable[str]:
    if found.metadata.labels.get(MANAGED_BY) != MANAGER:
        return ()
    return (f"{found.metadata.namespace}/{found.metadata.labels.get(SERVICE_NAME, '')}",)


def _selector_of(service: Object) -> Iterable[str]:
    """One pair of the selector stands for the whole: whoever matches it all has that label too."""
    selector = service.spec.get("selector")
    if not selector:
        return ()
    name = min(selector)
    return (f"{service.namespace}/{name}={selector[name]}",)


def _endpoints(shop: Workshop) -> Controller:
    services: Cache[Object] = shop.cache(SERVICES)
    services.add_index(BY_SELECTOR, _selector_of)
    slices: Cache[SliceObject] = shop.cache(ENDPOINT_SLICES, SliceObject)
    slices.add_index(BY_SERVICE, _service_of)
    old_endpoints: Cache[SliceObject] = shop.cache(ENDPOINTS, SliceObject)
    actor = shop.actor("endpoint-slice-controller")

    async def reconcile(key: Key) -> Outcome:
        service = services.get(*key)
        old = old_endpoints.get(*key)
        if service is None and old is not None:
            await actor.act(endpoint_slices.forget(old))
        if service is None or not service.spec.get("selector") or service.spec.get("type") == "ExternalName":
            return Done()
        snapshot = endpoint_slices.Snapshot(
            service,
            shop.pods_with(service.namespace, service.spec["selector"]),
            {node.name: node for node in shop.nodes.list()},
            slices.by_index(BY_SERVICE, "/".join(key)),
            old,
        )
        try:
            await actor.act(endpoint_slices.decide(snapshot))
        except NotFound:
            return Done()  # the Service, and with it its slices, went away meanwhile: its own change comes
        return Done()

    def pod_keys(change: Change[Object]) -> Iterable[Key]:
        found: set[Key] = set()
        for pod in (change.old, change.new):
            if pod is None:
                continue
            labels = pod.metadata.labels.items()
            for name, value in labels:
                for service in services.by_index(BY_SELECTOR, f"{pod.namespace}/{name}={value}"):
                    if service.spec["selector"].items() <= labels:
                        found.add(service.key)
        return found

    def slice_keys(change: Change[SliceObject]) -> Iterable[Key]:
        if change.object.metadata.labels.get(MANAGED_BY) != MANAGER:
            return ()
        return ((change.object.metadata.namespace, change.object.metadata.labels.get(SERVICE_NAME, "")),)

    def node_keys(change: Change[Object]) -> Iterable[Key]:
        """Pods of a node count only while it exists."""
        if change.old is not None and change.new is not None:
            return ()
        bound = [pod for pod in shop.pods.list() if pod.spec.get("nodeName") == change.object.name]
        return {key for pod in bound for key in pod_keys(Change(None, pod))}

    watches: list[Watch[Any]] = [
        Watch(services, self_key),
        Watch(shop.pods, pod_keys),
        Watch(slices, slice_keys),
        Watch(old_endpoints, self_key),
        Watch(shop.nodes, node_keys),
    ]
    return Controller("endpointslice", reconcile, watches, clock=shop.clock, workers=4)


# -- disruption budgets ------------------------------------------------------------------------------------------------


def _pair_of(budget: Object) -> Iterable[str]:
    """One pair of a budget's labels stands for its selector; one that names no label is filed under the namespace."""
    labels = (budget.spec.get("selector") or {}).get("matchLabels")
    if not labels:
        return (f"{budget.namespace}/",)
    name = min(labels)
    return (f"{budget.namespace}/{name}={labels[name]}",)


def _budgets(shop: Workshop) -> Controller:
    budgets: Cache[Object] = shop.cache(PDBS)
    budgets.add_index(BY_SELECTOR, _pair_of)
    scaled: Mapping[str, Cache[Object]] = {
        found.kind: shop.cache(found) for found in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)
    }
    actor = shop.actor("controllermanager")

    targets: dict[tuple[str, str], Resource | None] = {}

    async def expected(pods: list[Object]) -> int | None:
        """The replicas that the pods' controllers want together; None when a pod has none that scales."""
        total: dict[str, int] = {}
        for pod in pods:
            controller = pod.metadata.controller
            if controller is None:
                return None
            if controller.uid in total:
                continue
            wanted = known(pod.namespace, controller) if controller.kind in scaled else await asked(pod, controller)
            if wanted is None:
                return None
            total[wanted[0]] = wanted[1]
        return sum(total.values())

    def known(namespace: str, controller: OwnerReference) -> tuple[str, int] | None:
        owner = scaled[controller.kind].get(namespace, controller.name)
        if owner is None:
            return None
        top = owner.metadata.controller
        parent = scaled["Deployment"].get(namespace, top.name) if top is not None else None
        owner = parent or owner
        return owner.uid, int(owner.spec.get("replicas", 1))

    async def asked(pod: Object, controller: OwnerReference) -> tuple[str, int] | None:
        """A custom controller's own Scale says what it wants."""
        kind = (controller.api_version, controller.kind)
        if targets.get(kind) is None:
            targets[kind] = await _target(shop, *kind)
        target = targets[kind]
        if target is None:
            return None
        try:
            scale: Mapping[str, Any] = await shop.client.get(
                target, controller.name, pod.namespace, subresource="scale"
            )
        except NotFound:
            return None
        return controller.uid, int((scale.get("spec") or {}).get("replicas", 0))

    async def reconcile(key: Key) -> Outcome:
        budget = budgets.get(*key)
        if budget is None or budget.metadata.deleting:
            return Done()
        selector = budget.spec.get("selector")
        labels = (selector or {}).get("matchLabels")
        near = shop.pods_with(budget.namespace, labels) if labels else shop.pods.list(budget.namespace)
        pods = [pod for pod in near if selects(selector, pod.metadata.labels)]
        plan = disruption.decide(disruption.Snapshot(budget, pods, await expected(pods)), shop.clock.now())
        try:
            await actor.act(plan)
        except NotFound:
            return Done()
        return after(plan.after)

    def selecting(namespace: str, labels: Mapping[str, str]) -> Iterable[Key]:
        pairs = ("", *(f"{name}={value}" for name, value in labels.items()))
        near = (budget for pair in pairs for budget in budgets.by_index(BY_SELECTOR, f"{namespace}/{pair}"))
        return (budget.key for budget in near if selects(budget.spec.get("selector"), labels))

    def pod_keys(change: Change[Object]) -> Iterable[Key]:
        pods = [pod for pod in (change.old, change.new) if pod is not None]
        return {key for pod in pods for key in selecting(pod.namespace, pod.metadata.labels)}

    def owner_keys(change: Change[Object]) -> Iterable[Key]:
        """How many pods an owner wants concerns the budgets of the pods that it, or a ReplicaSet of it, has."""
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return ()
        owner = change.object
        sets = [owner, *scaled["ReplicaSet"].by_index(OWNER, owner.uid)]
        pods = [pod for found in sets for pod in shop.pods.by_index(OWNER, found.uid)]
        return {key for pod in pods for key in selecting(pod.namespace, pod.metadata.labels)}

    watches: list[Watch[Any]] = [
        Watch(budgets, self_key),
        Watch(shop.pods, pod_keys),
        *(Watch(cache, owner_keys) for cache in scaled.values()),
    ]
    return Controller("disruption", reconcile, watches, clock=shop.clock, workers=2, rest=SWARM_SECONDS)


# -- autoscalers -------------------------------------------------------------------------------------------------------


def _target_of(hpa: Object) -> Iterable[str]:
    return (f"{hpa.namespace}/{(hpa.spec.get('scaleTargetRef') or {}).get('name', '')}",)


def _autoscalers(shop: Workshop) -> Controller:
    autoscalers: Cache[Object] = shop.cache(HPAS)
    autoscalers.add_index(BY_TARGET, _target_of)
    targets: Mapping[Resource, Cache[Object]] = {found: shop.cache(found) for found in (DEPLOYMENTS, STATEFUL_SETS)}
    kinds: dict[tuple[str, str], Resource] = {}
    actor = shop.actor("horizontal-pod-autoscaler")

    async def reconcile(key: Key) -> Outcome:
        hpa = autoscalers.get(*key)
        if hpa is None or hpa.metadata.deleting:
            return Done()
        reference = hpa.spec.get("scaleTargetRef") or {}
        scale: Mapping[str, Any] | None = None
        error = ""
        watched = False
        kind = str(reference.get("apiVersion") or "apps/v1"), str(reference.get("kind") or "")
        target = kinds.get(kind) or await _target(shop, *kind)
        if target is None:
            error = f'no matches for kind "{reference.get("kind")}" in group "{reference.get("apiVersion")}"'
        elif target in targets and (cached := targets[target].get(hpa.namespace, reference.get("name", ""))):
            scale, watched = _scale_of(cached), True
        else:
            try:
                scale = await shop.client.get(target, reference.get("name", ""), hpa.namespace, subresource="scale")
                kinds[kind] = target
            except (NotFound, ApiError) as found:
                kinds.pop(kind, None)  # the kind itself may have gone
                error = str(found)
        plan = autoscaling.decide(autoscaling.Snapshot(hpa, target, scale, error), shop.clock.now())
        try:
            await actor.act(plan)
        except NotFound:
            return Done()
        # A target that is not watched (a custom one) is looked at with the real controller's period.
        return Done() if watched else after(15.0)

    def target_keys(change: Change[Object]) -> Iterable[Key]:
        if change.old is not None and change.new is not None:
            same_spec = change.old.spec.get("replicas") == change.new.spec.get("replicas")
            if same_spec and change.old.status.get("replicas") == change.new.status.get("replicas"):
                return ()
        return [hpa.key for hpa in autoscalers.by_index(BY_TARGET, f"{change.object.namespace}/{change.object.name}")]

    watches: list[Watch[Any]] = [
        Watch(autoscalers, self_key),
        *(Watch(cache, target_keys) for cache in targets.values()),
    ]
    return Controller("hpa", reconcile, watches, clock=shop.clock, workers=2, rest=SWARM_SECONDS)


def _scale_of(target: Object) -> Json:
    """The part of a watched target's Scale that decides."""
    return {
        "metadata": {"resourceVersion": target.metadata.resource_version},
        "spec": {"replicas": int(target.spec.get("replicas", 1))},
    }


async def _target(shop: Workshop, api_version: str, kind: str) -> Resource | None:
    """The resource of a scale target; a custom kind is looked up in discovery."""
    known = _KNOWN_TARGETS.get((api_version, kind))
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    base = f"/apis/{api_version}" if group else f"/api/{version}"
    try:
        response = await shop.client.request(Request("GET", base, headers={"accept": JSON}))
    except ApiError:
        return None
    for found in _resources(response.body):
        if found.get("kind") == kind and "/" not in found.get("name", ""):
            return Resource(group, version, found["name"], kind, bool(found.get("namespaced")))
    return None


def _resources(body: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(body).get("resources") or []
    return found


# -- claims ------------------------------------------------------------------------------------------------------------


def _claims(shop: Workshop, folder: str) -> Controller:
    claims: Cache[Object] = shop.cache(PERSISTENT_VOLUME_CLAIMS)
    known: Cache[Object] = shop.cache(PERSISTENT_VOLUMES)
    classes: Cache[Object] = shop.cache(STORAGE_CLASSES)
    actor = shop.actor("persistentvolume-controller")

    def volume_for(claim: Object) -> Object | None:
        name = claim.spec.get("volumeName")
        if name:
            return known.get("", name)
        for volume in known.list():
            reference = volume.spec.get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) == claim.key:
                return volume
        return volumes.fitting(claim, known.list())

    async def reconcile(key: Key) -> Outcome:
        if not key[0]:
            volume = known.get("", key[1])
            reference = (volume.spec.get("claimRef") or {}) if volume is not None else {}
            held = claims.get(reference.get("namespace", ""), reference.get("name", ""))
            gone = volume is not None and volume.status.get("phase") == "Bound" and held is None
            if volume is not None and gone:
                await actor.act(volumes.release(volume))
            elif volume is not None:
                await actor.act(volumes.offer(volume))
            return Done()
        claim = claims.get(*key)
        if claim is None:
            return Done()
        named = claim.spec.get("storageClassName")
        has_class = not named or classes.get("", named) is not None
        await actor.act(volumes.decide(volumes.Snapshot(claim, volume_for(claim), folder, has_class)))
        return Done()

    def of_class(name: str) -> list[Key]:
        """The claims that wait for a volume or a class of this name."""
        return [
            claim.key
            for claim in claims.list()
            if not claim.spec.get("volumeName") and (claim.spec.get("storageClassName") or "") == name
        ]

    def volume_keys(change: Change[Object]) -> Iterable[Key]:
        reference = change.object.spec.get("claimRef") or {}
        keys = [("", change.object.name)]
        if reference.get("name"):
            keys.append((reference.get("namespace", ""), reference["name"]))
        elif change.new is not None:
            keys += of_class(change.object.spec.get("storageClassName", ""))
        return keys

    def claim_keys(change: Change[Object]) -> Iterable[Key]:
        if change.new is None and change.object.spec.get("volumeName"):
            return (("", change.object.spec["volumeName"]),)
        return (change.object.key,)

    return Controller(
        "persistentvolume",
        reconcile,
        [
            Watch(claims, claim_keys),
            Watch(known, volume_keys),
            Watch(classes, lambda change: of_class(change.object.name) if change.new is not None else ()),
        ],
        clock=shop.clock,
        workers=1,
    )


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node_of(pod: Object) -> Iterable[str]:
    node = pod.spec.get("nodeName")
    return (node,) if node else ()


def _node_lifecycle(shop: Workshop, grace: float) -> Controller:
    leases: Cache[Object] = shop.caches.of(LEASES, Object, namespace=LEASE_NAMESPACE)
    shop.pods.add_index(BY_NODE, _node_of)
    actor = shop.actor("node-controller")
    collector = shop.actor("pod-garbage-collector")
    missed: dict[str, datetime] = {}  # since when; a restart waits anew
    heard: dict[str, tuple[datetime, datetime]] = {}

    def last_heard(name: str) -> datetime | None:
        """When this process learned of the newest renewal: the nodes were silent too while the cluster was down."""
        lease = leases.get(LEASE_NAMESPACE, name)
        renewed = time_of(lease.spec.get("renewTime")) if lease is not None else None
        if renewed is None:
            return None
        if name not in heard or heard[name][0] != renewed:
            heard[name] = renewed, shop.clock.now()
        return heard[name][1]

    async def collect(name: str, pods: Sequence[Object]) -> Outcome:
        now = shop.clock.now()
        since = missed.setdefault(name, now)
        plan = node_lifecycle.collect_orphans(pods, (now - since).total_seconds(), now)
        try:
            await collector.act(plan)
        except NotFound:
            return after(0.2)
        if plan.after is None:
            del missed[name]
        return after(plan.after)

    async def reconcile(key: Key) -> Outcome:
        name = key[1]
        node = shop.nodes.get("", name)
        pods = shop.pods.by_index(BY_NODE, name)
        if node is None and pods:
            return await collect(name, pods)
        missed.pop(name, None)
        if node is None:
            heard.pop(name, None)
            return Done()
        snapshot = node_lifecycle.Snapshot(node, last_heard(name), pods, grace)
        plan = node_lifecycle.decide(snapshot, shop.clock.now())
        try:
            await actor.act(plan)
        except (NotFound, Conflict):
            return after(0.2)
        return after(plan.after)

    def pod_keys(change: Change[Object]) -> Iterable[Key]:
        if change.old is not None and change.old.spec.get("nodeName") == change.object.spec.get("nodeName"):
            return ()
        return [("", node) for node in _node_of(change.object)] if change.new is not None else ()

    watches: list[Watch[Any]] = [
        Watch(shop.nodes, lambda change: (("", change.object.name),)),
        Watch(leases, lambda change: (("", change.object.name),)),
        Watch(shop.pods, pod_keys),
    ]
    return Controller("node-lifecycle", reconcile, watches, clock=shop.clock, workers=2)
