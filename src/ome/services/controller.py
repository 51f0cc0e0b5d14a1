"""The InferenceService controller: one pass is observe, resolve, plan, execute (spec/inference-service.md section 8).

Everything decided is in `resolve.py` and `plan.py`; this file owns what a pass remembers between two of them, the
order of the calls, and how a failed call is reported. Called by the manager through `ome.services.build`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ome.api import keys
from ome.api.config import ConfigError, OperatorConfig
from ome.api.meta import ObjectReference
from ome.api.types.inference_service import InferenceService
from ome.kube.cache import Change, Key
from ome.kube.controller import After, Controller, Done, Environment, Outcome, Retry
from ome.kube.errors import Conflict, Forbidden, Invalid, KubeError, NamespaceTerminating, NotFound
from ome.kube.resources import (
    CLUSTER_SERVING_RUNTIMES,
    DEPLOYMENTS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    LEADER_WORKER_SETS,
    SERVING_RUNTIMES,
)
from ome.rendering.model import Rendering
from ome.rendering.modes import is_virtual
from ome.rendering.render import render
from ome.runtimes.live_check import LiveCheck
from ome.runtimes.pinning import PinIntent, PinState
from ome.runtimes.revision_store import RevisionStore

from .children import Child
from .conditions import RUNTIME_DRIFTED, RUNTIME_READY
from .desired import ChildKey, ComponentError, ComponentObjects, Desired, Parent, Wave, component_objects
from .plan import (
    Built,
    Event,
    Plan,
    Removal,
    owner_of,
    plan_blocked,
    plan_frozen,
    plan_rendered,
    plan_virtual,
)
from .references import plan_referenced
from .resolve import Blocked, Frozen, Overlays, Resolver, Sources
from .status import OwnStatus, is_only_status, merge_patch, new_document, own_document
from .watches import Waiting, Watches
from .world import Snapshot, World

log = logging.getLogger("ome.services")

NAME = "inferenceservice"

# Details of a status (counts, messages) are written at most this often; a condition that flips is written at once.
_DETAIL_SECONDS = 1.0
_SECOND_LOOK_SECONDS = 1.0
# The children of a new service report in swarms, and every write of a pass comes back as a change.
_REST_SECONDS = 0.1
_WORKLOADS = frozenset({DEPLOYMENTS, INFERENCE_REPLICAS, LEADER_WORKER_SETS})
_DETAILS = frozenset({"modelStatus", "components", "conditions"})


@dataclass(slots=True)
class _Memory:
    """What the controller remembers of one service. Lost at a restart, and nothing is written because of that.

    There is one for every service, so it holds digests and outlines, never bodies.
    """

    identity: tuple[Any, ...] | None = None
    """What `built` was rendered from."""
    around: int = 0
    """Hash of what of the children had a say in it."""
    built: Built | None = None
    applied: dict[ChildKey, tuple[bytes, bytes]] | None = None
    """For objects that do not come back as they were applied: digests of the body and of what was stored of it."""
    removed: set[str] | None = None
    """Uids of objects that are deleted already, though the cache may still show them."""
    cause: str = ""
    told: bool = False
    """Whether users know of `cause`."""
    advisory: str = ""
    reported_at: float | None = None
    expected: dict[str, Any] | None = None
    """The status that is just being written: the pass that writes it knows it, and needs no other to look at it."""


class InferenceServiceController:
    """The passes; `controller()` gives the loop around them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._client = environment.client
        self._world = World(environment)
        self._waiting = Waiting()
        store = RevisionStore(environment.client, self._world.revisions, environment.namespace)
        live_check = LiveCheck(environment.client, self._world.serving_runtimes, self._world.cluster_runtimes)
        self._resolver = Resolver(self._world, store, live_check, _quota_resources(environment.flags))
        self._memories: dict[Key, _Memory] = {}
        if not self._world.served.pod_monitors:
            log.info("PodMonitor is not served, components get none until the manager restarts with its CRD present")
        for cache in (self._world.serving_runtimes, self._world.cluster_runtimes):
            cache.subscribe(lambda _: self._resolver.runtimes_changed())

    def controller(self) -> Controller:
        flags = self._environment.flags
        return Controller(
            NAME,
            self._reconcile,
            Watches(self._world, self._waiting, self._is_known).all(),
            clock=self._environment.clock,
            workers=int(getattr(flags, "inferenceservice_max_concurrent_reconciles", 1)),
            rest=_REST_SECONDS,
            metrics=self._environment.metrics,
        )

    # -- one pass ------------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> Outcome:
        service = self._world.service(key)
        if service is None:
            self._forget(key)
            return Done()
        if service.metadata.deleting:
            await self._release(service)
            return Done()
        try:
            config: OperatorConfig = await self._environment.config()
        except ConfigError as error:
            return Retry(error)
        if config.budget_error:
            return Retry(ConfigError("podDisruptionBudget", config.budget_error))
        if keys.INFERENCE_SERVICE_FINALIZER not in service.metadata.finalizers:
            service = await self._add_finalizer(service)
        snapshot = self._world.observe(service, config)
        memory = self._memories.setdefault(key, _Memory())
        plan = await self._plan(key, snapshot, memory)
        return await self._execute(snapshot, memory, plan)

    async def _plan(self, key: Key, snapshot: Snapshot, memory: _Memory) -> Plan:
        if is_virtual(snapshot.service.metadata.annotations):
            return plan_virtual(snapshot)
        if snapshot.referenced is not None:
            return plan_referenced(snapshot, gateway=self._world.served.gateway)
        models = self._resolver.models(snapshot)
        if isinstance(models, Blocked):
            return await self._blocked(key, snapshot, memory, models)
        resolution = await self._resolver.resolve(snapshot, models)
        if isinstance(resolution, Blocked):
            return await self._blocked(key, snapshot, memory, resolution)
        self._waiting.over(key)
        memory.cause = ""
        if isinstance(resolution, Frozen):
            return plan_frozen(snapshot, resolution, models)
        built = self._build(snapshot, memory, resolution)
        plan = plan_rendered(snapshot, resolution, models, built, gateway=self._world.served.gateway)
        return self._with_advisory(snapshot, memory, resolution, plan)

    async def _blocked(self, key: Key, snapshot: Snapshot, memory: _Memory, blocked: Blocked) -> Plan:
        """A cause is told when a second look finds it still: the first may only be a cache that lags behind another.

        That a named runtime is missing is told only when the API server itself says so.
        """
        self._waiting.over(key)
        if blocked.waits_for_model:
            self._waiting.for_model(key, blocked.waits_for_model)
        if blocked.waits_for_runtime:
            self._waiting.for_any_runtime(key)
        cause = blocked.cause
        # The text of a failed selection tells of every runtime: it changes with each, the cause does not.
        identity = cause.reason if blocked.waits_for_runtime else cause.message
        if memory.cause != identity:
            memory.cause, memory.told = identity, _stored(snapshot.service, blocked)
            if not memory.told:
                return self._second_look(snapshot, blocked)
        elif not memory.told and blocked.runtime_ready is not None and await self._runtime_is_there(snapshot):
            return self._second_look(snapshot, blocked)
        # A failure that is retried is repeated in its one Event; one that waits for a change is told once.
        announce = blocked.retry or not memory.told
        if not memory.told:
            extra = {"namespace": key[0], "service": key[1], "cause": cause.message}
            log.warning(cause.log or cause.message, extra=extra)
        memory.told = True
        return plan_blocked(snapshot, blocked, self._overlays(snapshot), announce=announce)

    def _second_look(self, snapshot: Snapshot, blocked: Blocked) -> Plan:
        """Say nothing yet, and look again soon."""
        recheck = None if blocked.retry else _SECOND_LOOK_SECONDS
        quiet = replace(blocked, runtime_ready=None, recheck=recheck)
        return plan_blocked(snapshot, quiet, self._overlays(snapshot), announce=False)

    async def _runtime_is_there(self, snapshot: Snapshot) -> bool:
        """Whether the runtime that the service names exists, though the caches do not show it."""
        reference, namespace = snapshot.service.spec.runtime, snapshot.service.metadata.namespace
        if reference is None or not reference.name:
            return False
        own: dict[str, Any] | None = await self._client.find(SERVING_RUNTIMES, reference.name, namespace)
        if own is not None or reference.kind == SERVING_RUNTIMES.kind:
            return own is not None
        shared: dict[str, Any] | None = await self._client.find(CLUSTER_SERVING_RUNTIMES, reference.name)
        return shared is not None

    def _overlays(self, snapshot: Snapshot) -> Overlays:
        models = self._resolver.models(snapshot)
        return Overlays() if isinstance(models, Blocked) else models.report

    def _build(self, snapshot: Snapshot, memory: _Memory, sources: Sources) -> Built:
        """The objects of the components: remembered while nothing they are made of has changed and nothing is to
        write.
        """
        around = _around(snapshot)
        if memory.built is not None and (memory.identity, memory.around) == (sources.identity, around):
            # The newest of two equal identities, so that objects that left the caches are let go.
            memory.identity = sources.identity
            items = (item for component in memory.built.components for item in component.objects)
            if all(self._is_there(snapshot, memory, item) for item in items):
                return memory.built
        built = self._objects(snapshot, render(sources.facts))
        memory.identity, memory.around, memory.built = sources.identity, around, built.slim()
        return built

    def _objects(self, snapshot: Snapshot, rendering: Rendering) -> Built:
        meta, spec = snapshot.service.metadata, snapshot.service.spec
        parent = Parent(
            owner_of(snapshot),
            meta.generation,
            meta.annotations,
            (spec.rollout or {}).get("pairingProtocol"),
            getattr(self._environment.flags, "enable_inferencereplica_controller", True),
        )
        found: list[ComponentObjects] = []
        for component in rendering.components:
            try:
                objects = component_objects(parent, component, snapshot.config, snapshot.children, self._world.served)
            except ComponentError as error:
                return Built(tuple(found), error)
            found.append(objects)
            if objects.error is not None:
                return Built(tuple(found), objects.error)
        return Built(tuple(found), rendering.error)

    def _with_advisory(self, snapshot: Snapshot, memory: _Memory, sources: Sources, plan: Plan) -> Plan:
        """The advisory about a named runtime is told once, and not again after a restart."""
        new = sources.advisory and sources.advisory != memory.advisory
        first = not memory.advisory
        memory.advisory = sources.advisory
        service = snapshot.service
        told = first and service.status.observed_generation == service.metadata.generation
        if not new or told:
            return plan
        return replace(plan, events=(Event("RuntimeCompatibilityAdvisory", sources.advisory), *plan.events))

    # -- acting --------------------------------------------------------------------------------------------------------

    async def _execute(self, snapshot: Snapshot, memory: _Memory, plan: Plan) -> Outcome:
        service = snapshot.service
        failure: Exception | None = plan.error
        try:
            if plan.pin is not None:
                await self._persist_pin(service, plan.pin)
            elif await self._moved_on(snapshot, memory, plan):
                return After(_REST_SECONDS)
        except Conflict:
            return After(_REST_SECONDS)  # the pin was decided for a service that is no longer so
        except KubeError as error:
            return Retry(error)
        try:
            for wave in plan.writes:
                await self._apply_wave(snapshot, memory, wave)
            for removal in plan.removals:
                await self._remove(service, memory, removal)
        except KubeError as error:
            failure = error
            if isinstance(error, Invalid | Forbidden) and not isinstance(error, NamespaceTerminating):
                # Nobody but the user can mend it, and users do not read logs.
                await self._event(service, Event("InternalError", f"Failed to reconcile component: {error}"))
            log.warning(
                "Failed to reconcile component",
                extra={"namespace": service.metadata.namespace, "service": service.metadata.name, "error": str(error)},
            )
        status = plan.status
        if failure is not None:
            status = plan.unwritten or replace(status, observed_generation=service.status.observed_generation)
        wait = await self._report(service, memory, status, urgent=bool(plan.events))
        if wait is not None:
            return Retry(failure) if failure is not None else After(wait)
        for event in plan.events:
            await self._event(service, event)
        if failure is not None:
            return Retry(failure)
        if plan.retry:
            return Retry(RuntimeError(memory.cause or "the service cannot be reconciled yet"))
        return Done() if plan.recheck is None else After(plan.recheck)

    async def _moved_on(self, snapshot: Snapshot, memory: _Memory, plan: Plan) -> bool:
        """Whether a service that follows its runtime was edited since it was observed, when its workload is to change.

        The caches of services and of runtimes run ahead of one another: the service may be pinned by now.
        """
        service = snapshot.service
        if PinIntent.of(service) is not None or not self._rewrites(snapshot, memory, plan):
            return False
        meta = service.metadata
        live: dict[str, Any] | None = await self._client.find(INFERENCE_SERVICES, meta.name, meta.namespace)
        if live is None:
            return True
        self._world.services.observe(live)
        return bool((live["metadata"]["uid"], live["metadata"].get("generation")) != (meta.uid, meta.generation))

    def _rewrites(self, snapshot: Snapshot, memory: _Memory, plan: Plan) -> bool:
        items = (item for wave in plan.writes for item in wave if item.resource in _WORKLOADS)
        return any(
            item.body is not None and item.key in snapshot.children and not self._is_there(snapshot, memory, item)
            for item in items
        )

    async def _apply_wave(self, snapshot: Snapshot, memory: _Memory, wave: Wave) -> None:
        """Write what is not there yet, side by side. Raises the first error, after all have been tried."""
        missing = [item for item in wave if item.body is not None and not self._is_there(snapshot, memory, item)]
        if len(missing) == 1:
            await self._apply(snapshot, memory, missing[0])
            return
        writes = (self._apply(snapshot, memory, item) for item in missing)
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _apply(self, snapshot: Snapshot, memory: _Memory, item: Desired) -> None:
        assert item.body is not None
        written = await self._client.apply(item.resource, item.body)
        cache = self._world.cache_of(item.resource)
        cache.observe(written)
        stored: Child | None = cache.get(snapshot.service.metadata.namespace, item.name)
        if stored is None or stored.metadata.resource_version != written["metadata"]["resourceVersion"]:
            return
        if memory.applied is not None:
            memory.applied.pop(item.key, None)
        if stored.digest != item.digest:
            memory.applied = {**(memory.applied or {}), item.key: (item.digest, stored.digest)}

    def _is_there(self, snapshot: Snapshot, memory: _Memory, item: Desired) -> bool:
        live = snapshot.children.get(item.key)
        if live is None or not live.metadata.owned_by(snapshot.service.metadata.uid):
            return False
        return live.digest == item.digest or (memory.applied or {}).get(item.key) == (item.digest, live.digest)

    async def _remove(self, service: InferenceService, memory: _Memory, removal: Removal) -> None:
        if memory.removed is not None and removal.uid in memory.removed:
            return
        meta = service.metadata
        try:
            await self._client.delete(
                removal.resource, removal.name, meta.namespace, uid=removal.uid, propagation="Background"
            )
        except NotFound:
            pass  # somebody was faster
        memory.removed = {*(memory.removed or ()), removal.uid}

    # -- reporting -----------------------------------------------------------------------------------------------------

    async def _persist_pin(self, service: InferenceService, pin: PinState) -> None:
        """Pin and token are on record before any object changes, and a drift that they end is gone with them.

        Raises Conflict when the service was written meanwhile: its owner may have taken the token back.
        """
        conditions = own_document(service.status).get("conditions") or []
        left = [condition for condition in conditions if condition["type"] != RUNTIME_DRIFTED]
        body: dict[str, Any] = {
            "pinnedRevisionName": pin.revision,
            "lastRuntimeSyncToken": pin.token or None,
        }
        if pin.drift is None and len(left) != len(conditions):
            body["conditions"] = left
        meta = service.metadata
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        await self._patch_status(meta.key, body, guard)

    async def _report(
        self, observed: InferenceService, memory: _Memory, status: OwnStatus, *, urgent: bool
    ) -> float | None:
        """Write the status if it changed. Seconds to wait when only details changed just after the last write.

        `urgent`: an event goes with it, so it is not put off.
        """
        key, uid = observed.metadata.key, observed.metadata.uid
        service = self._world.service(key)
        if service is None or service.metadata.uid != uid:
            return None  # gone, or another of the same name: the status is not its own
        expected = new_document(service, status, self._environment.clock.now())
        patch = merge_patch(own_document(service.status), expected)
        if not patch:
            return None
        now = self._environment.clock.monotonic()
        if memory.reported_at is not None and not urgent and _only_details(service, patch):
            wait = memory.reported_at + _DETAIL_SECONDS - now
            if wait > 0:
                return wait
        memory.expected = expected
        try:
            await self._patch_status(key, patch, {"uid": uid})
        except NotFound:
            return None
        except (Invalid, Forbidden) as error:
            text = f'Failed to update status for InferenceService "{key[1]}": {error}'
            await self._event(service, Event("UpdateFailed", text))
            raise
        finally:
            memory.expected = None
        memory.reported_at = now
        return None

    async def _patch_status(self, key: Key, status: dict[str, Any], metadata: dict[str, Any]) -> None:
        namespace, name = key
        body = {"metadata": metadata, "status": status}
        written = await self._client.patch(INFERENCE_SERVICES, name, namespace, body, subresource="status")
        self._world.services.observe(written)

    def _is_known(self, change: Change[InferenceService]) -> bool:
        """Whether a change is no more than the status that is just being written."""
        old, new = change.old, change.new
        memory = self._memories.get(change.object.metadata.key)
        if old is None or new is None or memory is None or memory.expected is None:
            return False
        return is_only_status(old, new, memory.expected)

    async def _event(self, service: InferenceService, event: Event) -> None:
        meta = service.metadata
        regarding = ObjectReference(
            api_version=INFERENCE_SERVICES.api_version,
            kind=INFERENCE_SERVICES.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )
        await self._environment.recorder.event(regarding, event.type, event.reason, event.message)

    # -- birth and death -----------------------------------------------------------------------------------------------

    async def _add_finalizer(self, service: InferenceService) -> InferenceService:
        meta = service.metadata
        return await self._set_finalizers(service, [*meta.finalizers, keys.INFERENCE_SERVICE_FINALIZER])

    async def _release(self, service: InferenceService) -> None:
        """Let the service go at once: what it owns is collected by owner reference."""
        self._forget(service.metadata.key, service.metadata.uid)
        if keys.INFERENCE_SERVICE_FINALIZER not in service.metadata.finalizers:
            return
        left = [name for name in service.metadata.finalizers if name != keys.INFERENCE_SERVICE_FINALIZER]
        try:
            await self._set_finalizers(service, left)
        except NotFound:
            return

    async def _set_finalizers(self, service: InferenceService, finalizers: list[str]) -> InferenceService:
        meta = service.metadata
        # The version guards against a finalizer that somebody else adds meanwhile: the list is replaced as a whole.
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version}}
        written = await self._client.patch(INFERENCE_SERVICES, meta.name, meta.namespace, body)
        self._world.services.observe(written)
        return self._world.service(meta.key) or service

    def _forget(self, key: Key, uid: str = "") -> None:
        self._waiting.over(key)
        self._memories.pop(key, None)
        if uid:
            self._resolver.forget(uid)


def _only_details(service: InferenceService, patch: Mapping[str, Any]) -> bool:
    """Whether a patch flips no condition and touches nothing but counts and messages."""
    if not patch.keys() <= _DETAILS:
        return False
    if "conditions" not in patch:
        return True
    before = {condition.type: condition.status for condition in service.status.conditions}
    return before == {condition["type"]: condition["status"] for condition in patch["conditions"]}


def _stored(service: InferenceService, blocked: Blocked) -> bool:
    """Whether the status already tells this cause: it was announced before a restart."""
    wanted = blocked.runtime_ready
    if wanted is None:
        return False
    return any(
        condition.type == RUNTIME_READY and (condition.status, condition.reason) == (wanted.status, wanted.reason)
        for condition in service.status.conditions
    )


def _around(snapshot: Snapshot) -> int:
    """A hash of all that the objects of a component take from what is there: ours of it, counts and owners."""
    uid = snapshot.service.metadata.uid
    parts = [
        (key, child.digest, child.replicas, child.metadata.owned_by(uid)) for key, child in snapshot.children.items()
    ]
    return hash(tuple(sorted(parts, key=lambda part: part[0])))


def _quota_resources(flags: Any) -> tuple[str, ...] | None:
    found: tuple[str, ...] = getattr(flags, "accelerators", ())
    return found or None


def build(environment: Environment) -> list[Controller]:
    """The room's controllers."""
    return [InferenceServiceController(environment).controller()]
