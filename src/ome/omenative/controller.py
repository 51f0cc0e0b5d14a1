"""The InferenceReplica controller: observe, decide, act, report (`spec/omenative.md`).

One pass per change of a replica or of its children. Observes from caches (the endpoints of a draining revision live),
decides with `planner.plan`, and lets `executor.Executor` write. `build` is what the manager calls.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from ome.api.config import OperatorConfig
from ome.api.core import ControllerRevision, EndpointSlice, Node, Pod, PodGroup, Service
from ome.api.meta import ObjectMeta
from ome.api.names import headless_service, revision_service
from ome.api.types.inference_replica import InferenceReplica
from ome.kube.cache import Cache, Change
from ome.kube.client import Listing
from ome.kube.controller import After, Controller, Environment, Outcome, Retry, Watch
from ome.kube.controller import Done as NothingLeft
from ome.kube.errors import AlreadyExists, ApiError, NotFound
from ome.kube.expectations import Expectations
from ome.kube.resources import (
    CONTROLLER_REVISIONS,
    ENDPOINT_SLICES,
    INFERENCE_REPLICAS,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
)

from . import names, revisions
from .actions import WARNING, Plan
from .encoding import UndecodableStatus
from .executor import Done, Executor, Stored, known_status, reference
from .memory import Memory
from .observe import Member, Refusal, RenderProblem, Snapshot
from .planner import owner_of_children, plan
from .pods import owner_reference
from .settings import Settings, parse_settings
from .standalone import Standalone, with_template
from .template import Runners, check
from .work import REFUSED_RETRY

log = logging.getLogger("ome.omenative")

Key = tuple[str, str]
_OWNED: Final = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_REVISION_SERVICE: Final = re.compile(r"^(.+)-rev-[0-9a-f]{8}$")
_DRAINING: Final = ("Drain", "SurgeDrain", "InPlace", "GangSurgeTargetCleanup", "CreatePods")
_SHORTEST: Final = 0.05  # seconds; less may be no time at all on a clock that counts in floats
_COLLISIONS: Final = 16
_ROUNDS: Final = 3
"""Decisions in one pass: a refused pod and an answered mailbox are judged at once."""


def build(environment: Environment) -> list[Controller]:
    """The room's controllers."""
    engine = Engine(environment)
    return [
        Controller(
            "inferencereplica",
            engine.reconcile,
            engine.watches(),
            clock=environment.clock,
            workers=environment.flags.inferencereplica_max_concurrent_reconciles,
            metrics=environment.metrics,
        )
    ]


class Engine:
    """The controller's passes over the caches of one process."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._config = environment.config
        self._recorder = environment.recorder
        caches = environment.caches
        self._replicas: Cache[InferenceReplica] = caches.of(
            INFERENCE_REPLICAS, InferenceReplica, indexes={"headless": _headless_key}
        )
        # All pods of services, as the InferenceService controller watches them: one stream and one copy for both.
        self._pods: Cache[Pod] = caches.of(
            PODS, Pod, label_selector=names.LABEL_SERVICE, indexes={"owner": _owner_uid, "left": _left_key}
        )
        self._revisions: Cache[ControllerRevision] = caches.of(
            CONTROLLER_REVISIONS, ControllerRevision, label_selector=_OWNED, indexes={"component": _component_key}
        )
        self._services: Cache[Service] = caches.of(
            SERVICES, Service, label_selector=_OWNED, indexes={"component": _component_key}
        )
        self._slices: Cache[EndpointSlice] = caches.of(
            ENDPOINT_SLICES, EndpointSlice, label_selector=_SERVICE_NAME, indexes={"service": _service_key}
        )
        self._nodes: Cache[Node] = caches.of(NODES, Node)
        self._groups: Cache[PodGroup] | None = None
        if POD_GROUPS.group_resource in environment.served:
            self._groups = caches.of(POD_GROUPS, PodGroup, label_selector=_OWNED, indexes={"owner": _owner_uid})
        self._standalone = Standalone(caches, self._replicas)
        self._expectations = Expectations(environment.clock)
        self._memories: dict[Key, Memory] = {}
        self._executor = Executor(
            environment.client,
            environment.recorder,
            environment.clock,
            self._expectations,
            replicas_seen=self._replicas,
            pods_seen=self._pods,
            revisions_seen=self._revisions,
            services_seen=self._services,
            groups_seen=self._groups,
        )

    def watches(self) -> list[Watch[Any]]:
        """What wakes a pass."""
        self._pods.subscribe(self._observe_deletion)
        return [
            Watch(self._replicas, lambda change: [change.object.metadata.key]),
            Watch(self._pods, _owning_replicas),
            Watch(self._revisions, _component_replicas),
            Watch(self._services, _component_replicas),
            Watch(self._slices, self._routing_replicas),
            *([Watch(self._groups, _owning_replicas)] if self._groups is not None else []),
            *self._standalone.watches(),
        ]

    # -- one pass ------------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over a replica."""
        replica = self._replicas.get(*key)
        if replica is None:
            self._executor.forget(key)
            self._memories.pop(key, None)
            return NothingLeft()
        if not self._expectations.satisfied(key) and not self._expectations.expired(key):
            return After(max(_SHORTEST, self._expectations.seconds_left(key)))
        config: OperatorConfig = await self._config()
        encoding = config.status_encoding
        settings = parse_settings(
            config.lifecycle,
            columnar=encoding.instance_status_encoding == "ColumnarV2",
            max_decoded=encoding.max_decoded_instances,
        )
        refusals: Mapping[str, Refusal] = {}
        outcome: Outcome = NothingLeft()
        for _ in range(_ROUNDS):
            replica = self._replicas.get(*key)
            if replica is None:
                return NothingLeft()
            await self._adopt(replica)
            try:
                snapshot = await self._observe(replica, config, settings, refusals)
            except UndecodableStatus as error:
                return await self._undecodable(replica, error)
            now = self._clock.now()
            decided = plan(snapshot, settings, now)
            done = await self._carry_out(snapshot, decided, replica, settings)
            outcome = _outcome(decided, done, self._clock.now())
            refusals = done.refusals
            if not refusals and not decided.again:
                return outcome
        return _later(outcome) if refusals else outcome

    async def _adopt(self, replica: InferenceReplica) -> None:
        """Take over the pods that an earlier replica of this name left when it was deleted with `--cascade=orphan`.

        They serve under the names that this replica would use: without them it could neither make its own nor end them.
        """
        if replica.metadata.deleting:
            await self._see_what_was_let_go(replica)
            return
        for pod in list(self._pods.by_index("left", _children_key(replica))):
            if pod.metadata.deleting:
                continue
            meta = {
                "uid": pod.metadata.uid,
                "resourceVersion": pod.metadata.resource_version,
                "ownerReferences": [owner_reference(replica)],
            }
            try:
                written = await self._client.patch(PODS, pod.metadata.name, pod.metadata.namespace, {"metadata": meta})
            except NotFound:
                continue
            self._pods.observe(written)

    async def _see_what_was_let_go(self, replica: InferenceReplica) -> None:
        """Before a teardown begins: which pods are its own still. `--cascade=orphan` lets them go just before, and the
        cache may not have heard of it.
        """
        memory = self._memory(replica)
        if memory.leaving == replica.metadata.uid:
            return
        selector = names.selector_text(replica)
        found: Listing[dict[str, Any]] = await self._client.list(
            PODS, replica.metadata.namespace, label_selector=selector
        )
        for pod in found.items:
            self._pods.observe(pod)
        memory.leaving = replica.metadata.uid

    async def _carry_out(
        self, snapshot: Snapshot, decided: Plan, replica: InferenceReplica, settings: Settings
    ) -> Done:
        form = settings.columnar, settings.max_decoded_instances
        memory = self._memory(replica)
        unchanged = decided.blocks is None and decided.status == snapshot.replica.status
        if unchanged and memory.settled(replica.status, *form):
            return await self._executor.carry_out(snapshot, decided, None, settings=settings)
        stored = Stored(replica.metadata.resource_version, known_status_of(replica))
        done = await self._executor.carry_out(snapshot, decided, stored, settings=settings)
        if unchanged and not done.status_written:
            memory.settle(replica.status, *form)
        return done

    def _memory(self, replica: InferenceReplica) -> Memory:
        return self._memories.setdefault(replica.metadata.key, Memory())

    async def _undecodable(self, replica: InferenceReplica, error: UndecodableStatus) -> Outcome:
        meta = replica.metadata
        text = f"InferenceReplica {meta.namespace}/{meta.name}: per-Instance status cannot be decoded ({error})"
        await self._recorder.event(reference(replica), WARNING, "InstanceStatusDecodeFailed", text)
        return NothingLeft()

    # -- observing -----------------------------------------------------------------------------------------------------

    async def _observe(
        self,
        stored: InferenceReplica,
        config: OperatorConfig,
        settings: Settings,
        refusals: Mapping[str, Refusal],
    ) -> Snapshot:
        memory = self._memory(stored)
        status = memory.dense(stored.status, settings.max_decoded_instances)
        replica = msgspec.structs.replace(stored, status=status)
        pods = tuple(self._pods.by_index("owner", replica.metadata.uid))
        members = memory.members(pods)
        replica, runners, problem = self._template(replica, config)
        update_revision, collisions = status.update_revision, status.collision_count
        settled = replica.metadata.deleting or names.orphaned(replica)
        if runners and not settled and names.FINALIZER in replica.metadata.finalizers:
            update_revision, collisions = await self._ensure_revision(replica, runners)
        return Snapshot(
            replica=replica,
            pods=pods,
            members=members,
            revisions=await self._recorded(replica),
            services=tuple(self._owned_services(replica)),
            runners=runners,
            problem=problem,
            update_revision=update_revision,
            collision_count=collisions,
            routed=await self._routed(replica, members),
            listed=self._listed(replica),
            nodes=self._nodes_of(pods) if settings.force_delete is not None else {},
            refusals=refusals,
            gang_scheduling=self._groups is not None,
            pod_groups=tuple(self._groups.by_index("owner", replica.metadata.uid)) if self._groups is not None else (),
        )

    def _template(
        self, replica: InferenceReplica, config: OperatorConfig
    ) -> tuple[InferenceReplica, Runners, RenderProblem | None]:
        """The replica as it acts, its runners, and why there are none."""
        if names.projected(replica):
            runners = check(replica.spec.runners)
            return (replica, (), runners) if isinstance(runners, RenderProblem) else (replica, runners, None)
        template = self._standalone.template(replica, config)
        if isinstance(template, RenderProblem):
            return replica, (), template
        return with_template(replica, template), template.runners, None

    def _owned_revisions(self, replica: InferenceReplica) -> Iterable[ControllerRevision]:
        """The recorded revisions; those of an orphaned replica were left with it and have no owner either."""
        owner = "" if names.orphaned(replica) else owner_uid(replica)
        found = self._revisions.by_index("component", _children_key(replica))
        mine = [kept for kept in found if (((ref := kept.metadata.controller) is not None and ref.uid) or "") == owner]
        return sorted(mine, key=lambda kept: (kept.revision, kept.metadata.name))

    async def _recorded(self, replica: InferenceReplica) -> tuple[ControllerRevision, ...]:
        """The recorded revisions. One that is still named and was deleted by hand is written again: without it a lost
        pod of what serves could not be made anew, and while the target is held nothing else would be.
        """
        memory = self._memory(replica)
        found = {kept.metadata.name: kept for kept in self._owned_revisions(replica)}
        gone = memory.revisions.keys() - found.keys()
        if gone and not replica.metadata.deleting and not names.orphaned(replica):
            for name in sorted(gone & revisions.live(replica.status)):
                lost = memory.revisions[name]
                try:
                    found[name] = await self._create_revision(replica, name, bytes(lost.data), lost.revision)
                except ApiError as error:
                    log.info("%s/%s: revision %s: %s", *replica.metadata.key, name, error)
                    found[name] = lost
        memory.revisions = found
        return tuple(sorted(found.values(), key=lambda kept: (kept.revision, kept.metadata.name)))

    def _owned_services(self, replica: InferenceReplica) -> Iterable[Service]:
        owner = owner_uid(replica)
        found = self._services.by_index("component", _children_key(replica))
        return [kept for kept in found if (ref := kept.metadata.controller) is not None and ref.uid == owner]

    async def _ensure_revision(self, replica: InferenceReplica, runners: Runners) -> tuple[str, int]:
        """The revision of the template: found, or created. Other bytes or owner under its name: salt and try again.

        What the cache does not show is asked of the API server by creating it: an object that is there answers so.
        """
        owner = owner_uid(replica)
        memory = self._memory(replica)
        namespace = replica.metadata.namespace
        collisions = replica.status.collision_count
        for _ in range(_COLLISIONS):
            name, raw = memory.wanted(replica, runners, collisions)
            existing = self._revisions.get(namespace, name)
            if existing is None or not memory.reuses(existing, raw, owner):
                existing = await self._create_revision(replica, name, raw)
            if memory.reuses(existing, raw, owner):
                return name, collisions
            collisions += 1
        raise AlreadyExists(409, "AlreadyExists", f"no free revision name for {replica.metadata.name}")

    async def _create_revision(
        self, replica: InferenceReplica, name: str, raw: bytes, number: int = 0
    ) -> ControllerRevision:
        number = number or revisions.next_number(self._owned_revisions(replica))
        owner = owner_of_children(Snapshot(replica=replica))
        body = revisions.body(replica, name, raw, number, owner)
        try:
            written = await self._client.create(CONTROLLER_REVISIONS, body)
        except AlreadyExists:
            written = await self._client.get(CONTROLLER_REVISIONS, name, replica.metadata.namespace)
        self._revisions.observe(written)
        return msgspec.json.decode(msgspec.json.encode(written), type=ControllerRevision)

    async def _routed(
        self, replica: InferenceReplica, members: Iterable[Member]
    ) -> Mapping[str, frozenset[str] | None]:
        """Live read of the endpoints of every revision that has a pod to drain: gate False, not deleted yet."""
        draining = _draining_hashes(replica, members)
        routed: dict[str, frozenset[str] | None] = {}
        for digest in sorted(draining):
            service = revision_service(names.service_of(replica), replica.spec.component, digest)
            namespace = replica.metadata.namespace
            if not names.projected(replica) or not await self._exists(service, namespace):
                routed[digest] = None
                continue
            listing = await self._client.list(
                ENDPOINT_SLICES, namespace, label_selector=f"{_SERVICE_NAME}={service}", into=EndpointSlice
            )
            routed[digest] = frozenset(_pod_names(listing.items, ready_only=True))
        return routed

    async def _exists(self, service: str, namespace: str) -> bool:
        found: Service | None = await self._client.find(SERVICES, service, namespace, into=Service)
        return found is not None

    def _listed(self, replica: InferenceReplica) -> frozenset[str]:
        return frozenset(_pod_names(self._slices.by_index("service", _headless_of(replica)), ready_only=False))

    def _nodes_of(self, pods: Iterable[Pod]) -> Mapping[str, Node]:
        found = {pod.spec.node_name: self._nodes.get("", pod.spec.node_name) for pod in pods if pod.spec.node_name}
        return {name: node for name, node in found.items() if node is not None}

    # -- events of the caches ------------------------------------------------------------------------------------------

    def _observe_deletion(self, change: Change[Pod]) -> None:
        if change.new is None or change.new.metadata.deleting:
            for key in _owning_replicas(change):
                self._expectations.observe_deletion(key, change.object.metadata.uid)

    def _routing_replicas(self, change: Change[EndpointSlice]) -> Iterable[Key]:
        for key in _service_key(change.object):
            namespace, _, service = key.partition("/")
            match = _REVISION_SERVICE.match(service)
            if match is not None:
                yield namespace, match[1]
            for replica in self._replicas.by_index("headless", key):
                yield replica.metadata.key


# -- keys --------------------------------------------------------------------------------------------------------------


def owner_uid(replica: InferenceReplica) -> str:
    """Uid of the controller of Services and ControllerRevisions."""
    return str(owner_of_children(Snapshot(replica=replica))["uid"])


def known_status_of(replica: InferenceReplica) -> dict[str, object]:
    """The stored status of a cached replica as JSON."""
    return known_status({"status": msgspec.json.decode(msgspec.json.encode(replica.status))})


def _owner_uid(child: Pod | PodGroup) -> Iterable[str]:
    owner = child.metadata.controller
    if owner is not None:
        yield owner.uid


def _left_key(pod: Pod) -> Iterable[str]:
    """Pods that the engine made for an Instance and that nobody controls any more."""
    labels = pod.metadata.labels
    if pod.metadata.controller is not None or labels.get(names.LABEL_MANAGED_BY) != names.MANAGED_BY:
        return
    if {names.LABEL_INDEX, names.LABEL_INCARNATION, names.LABEL_RUNNER, names.LABEL_HASH} <= labels.keys():
        yield from _component_key(pod)


def _owning_replicas(change: Change[Any]) -> list[Key]:
    """Whose the object is and was, and who may take it over when nobody controls it any more."""
    keys: dict[Key, None] = {}
    for found in (change.old, change.new):
        if found is None:
            continue
        owner, labels = found.metadata.controller, found.metadata.labels
        if owner is not None and owner.kind == INFERENCE_REPLICAS.kind:
            keys[found.metadata.namespace, owner.name] = None
        elif owner is None and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY:
            service, component = labels.get(names.LABEL_SERVICE, ""), labels.get(names.LABEL_COMPONENT, "")
            keys[found.metadata.namespace, f"{service}-{component}"] = None
            keys[found.metadata.namespace, service] = None
    return list(keys)


def _children_key(replica: InferenceReplica) -> str:
    return f"{replica.metadata.namespace}/{names.service_of(replica)}/{replica.spec.component}"


def _component_key(child: ControllerRevision | Pod | Service) -> Iterable[str]:
    labels = child.metadata.labels
    service, component = labels.get(names.LABEL_SERVICE), labels.get(names.LABEL_COMPONENT)
    if service and component:
        yield f"{child.metadata.namespace}/{service}/{component}"


def _component_replicas(change: Change[ControllerRevision] | Change[Service]) -> Iterable[Key]:
    meta: ObjectMeta = change.object.metadata
    service, component = meta.labels.get(names.LABEL_SERVICE), meta.labels.get(names.LABEL_COMPONENT)
    owner = meta.controller
    if owner is None or not service or not component:
        return
    own = owner.kind == INFERENCE_REPLICAS.kind
    yield meta.namespace, owner.name if own else f"{service}-{component}"


def _headless_of(replica: InferenceReplica) -> str:
    name = headless_service(names.service_of(replica), replica.spec.component)
    return f"{replica.metadata.namespace}/{name}"


def _headless_key(replica: InferenceReplica) -> Iterable[str]:
    yield _headless_of(replica)


def _service_key(endpoints: EndpointSlice) -> Iterable[str]:
    service = endpoints.metadata.labels.get(_SERVICE_NAME)
    if service:
        yield f"{endpoints.metadata.namespace}/{service}"


def _pod_names(slices: Iterable[EndpointSlice], *, ready_only: bool) -> Iterable[str]:
    for endpoints in slices:
        for endpoint in endpoints.endpoints:
            target = endpoint.target_ref
            if target is None or target.kind != "Pod":
                continue
            if ready_only and endpoint.conditions.ready is False:
                continue
            yield target.name


def _draining_hashes(replica: InferenceReplica, members: Iterable[Member]) -> frozenset[str]:
    leaving = {
        row.index
        for row in replica.status.instance_statuses
        if row.operation is not None and row.operation.step in _DRAINING
    }
    everything = replica.metadata.deleting
    if not everything and not leaving:
        return frozenset()
    return frozenset(
        member.digest
        for member in members
        if member.live
        and not member.gate
        and member.was_gated
        and member.digest
        and (everything or member.index in leaving)
    )


def _later(outcome: Outcome) -> Outcome:
    """Refusals that no operation takes in (a lost pod that is made anew): look again after a while, not at once."""
    if isinstance(outcome, Retry):
        return outcome
    pause = REFUSED_RETRY.total_seconds()
    return After(min(outcome.seconds, pause) if isinstance(outcome, After) else pause)


def _outcome(decided: Plan, done: Done, now: datetime) -> Outcome:
    if done.errors:
        return Retry(done.errors[0])
    if decided.wake is None:
        return NothingLeft()
    return After(max(0.0, (decided.wake - now).total_seconds()))
