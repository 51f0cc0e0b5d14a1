"""Carrying a `Plan` out: blocks, status, notices, actions, in this order; every write conditional or safe to repeat.

Decides nothing but what an answer of the API server means. `controller.py` calls it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ome.api.core import ControllerRevision, Pod, PodGroup, Service
from ome.api.meta import ObjectReference, timestamp, to_dict
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaStatus
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NamespaceTerminating,
    NotFound,
    TransportError,
)
from ome.kube.events import EventRecorder
from ome.kube.expectations import Expectations
from ome.kube.requests import PatchType
from ome.kube.resources import CONTROLLER_REVISIONS, INFERENCE_REPLICAS, POD_GROUPS, PODS, SERVICES

from . import names, pods, revisions
from .actions import (
    WARNING,
    Action,
    AddFinalizer,
    ClearAnnotation,
    CreatePod,
    CreatePodGroup,
    CreateService,
    DeletePod,
    DeletePodGroup,
    DeleteRevision,
    DeleteService,
    Held,
    Notice,
    PatchPod,
    Plan,
    RemoveFinalizer,
    SetGate,
    UpdatePodGroup,
    UpdateService,
)
from .encoding import merge_patch, wire
from .observe import Refusal, Refused, Snapshot
from .settings import Settings

log = logging.getLogger("ome.omenative")
_ATTEMPTS = 5
_QUOTA_PAUSE = 8.0
"""Seconds for which a quota's refusal of a pod stands. An operation asks again after ten (`work.REFUSED_RETRY`); a pod
that is made anew without one is asked for by every pass.
"""


@dataclass(slots=True)
class Done:
    """What carrying a plan out has shown."""

    status_written: bool = False
    refusals: dict[str, Refusal] = field(default_factory=dict)
    errors: list[KubeError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stored:
    """The replica as the API server holds it: the base of the next conditional status write."""

    resource_version: str
    status: dict[str, Any]


class Executor:
    """Writes for one process. `pods_seen` and `replicas_seen` are the caches that take in the answers."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        expectations: Expectations,
        *,
        replicas_seen: Cache[InferenceReplica],
        pods_seen: Cache[Pod],
        revisions_seen: Cache[ControllerRevision],
        services_seen: Cache[Service],
        groups_seen: Cache[PodGroup] | None = None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._expectations = expectations
        self._replicas = replicas_seen
        self._pods = pods_seen
        self._revisions = revisions_seen
        self._services = services_seen
        self._full: dict[tuple[str, str], tuple[float, Refusal]] = {}
        """Pods that a quota refused, until when it is not asked again, and its words."""
        self._said: dict[tuple[str, str], frozenset[str]] = {}
        """Events of Held blocks that stand, which this process knows to be written."""
        self._groups = groups_seen

    def forget(self, key: tuple[str, str]) -> None:
        """The replica of this key is gone."""
        self._expectations.forget(key)
        self._said.pop(key, None)
        now = self._clock.monotonic()
        self._full = {pod: full for pod, full in self._full.items() if full[0] > now}

    # -- plan ----------------------------------------------------------------------------------------------------------

    async def carry_out(self, snapshot: Snapshot, plan: Plan, stored: Stored | None, *, settings: Settings) -> Done:
        """Write, tell, act. Raises KubeError when the state could not be recorded: then nothing was acted on.

        `stored` None: the caller knows that the status is stored already.
        """
        done = Done()
        if stored is not None and plan.blocks is not None:
            with_blocks = msgspec.structs.replace(snapshot.replica.status, retry_blocks=plan.blocks)
            stored = await self._write_status(snapshot, with_blocks, stored, settings=settings)
            done.status_written = True
        await self._tell_held(snapshot.replica, plan.held, done)
        if stored is not None:
            after = await self._write_status(snapshot, plan.status, stored, settings=settings)
            done.status_written = done.status_written or after is not stored
        await self._tell(snapshot.replica, plan.notices)
        for action in plan.actions:
            try:
                await self._act(snapshot, action, done)
            except KubeError as error:
                log.info("%s/%s: %s: %s", *snapshot.replica.metadata.key, type(action).__name__, error)
                done.errors.append(error)
                if plan.again:  # a mailbox: what follows acknowledges what has just failed
                    return done
        return done

    async def _write_status(
        self, snapshot: Snapshot, status: InferenceReplicaStatus, stored: Stored, *, settings: Settings
    ) -> Stored:
        """One conditional merge patch of what differs. On a conflict again, unless status or spec changed."""
        meta = snapshot.replica.metadata
        wanted = wire(status, columnar=settings.columnar, limit=settings.max_decoded_instances)
        patch = merge_patch(stored.status, wanted)
        if not patch:
            return stored
        version = stored.resource_version
        for attempt in range(_ATTEMPTS):
            body = {"metadata": {"resourceVersion": version, "uid": meta.uid}, "status": patch}
            try:
                written = await self._client.patch(
                    INFERENCE_REPLICAS, meta.name, meta.namespace, body, subresource="status"
                )
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                live: dict[str, Any] = await self._client.get(INFERENCE_REPLICAS, meta.name, meta.namespace, into=dict)
                if _moved_on(live, snapshot.replica, stored.status):
                    self._replicas.observe(live)
                    raise
                version = live["metadata"]["resourceVersion"]
                continue
            self._replicas.observe(written)
            return Stored(written["metadata"]["resourceVersion"], known_status(written))
        raise AssertionError("unreachable: the last attempt raises")

    async def _tell_held(self, replica: InferenceReplica, held: tuple[Held, ...], done: Done) -> None:
        """Say of each Held block that it is, once; one that cannot be said now is said by the next pass."""
        key = replica.metadata.key
        said = self._said.get(key, frozenset()) & {notice.name for notice in held}
        for notice in held:
            if notice.name in said and not notice.fresh:
                continue
            try:
                await self._recorder.named(
                    regarding(replica), WARNING, "RetryHeld", notice.message, notice.name, fresh=notice.fresh
                )
            except KubeError as error:
                done.errors.append(error)
                continue
            said |= {notice.name}
        if said:
            self._said[key] = said
        else:
            self._said.pop(key, None)

    async def _tell(self, replica: InferenceReplica, notices: tuple[Notice, ...]) -> None:
        for notice in notices:
            about = reference(replica) if notice.on_replica else regarding(replica)
            await self._recorder.event(about, notice.type, notice.reason, notice.message, fold=notice.fold)

    # -- actions -------------------------------------------------------------------------------------------------------

    async def _act(self, snapshot: Snapshot, action: Action, done: Done) -> None:
        replica = snapshot.replica
        namespace = replica.metadata.namespace
        match action:
            case CreatePod():
                await self._create_pod(snapshot, action, done)
            case DeletePod():
                await self._delete_pod(replica, action)
            case SetGate():
                await self._set_gate(namespace, action)
            case PatchPod():
                await self._patch_pod(namespace, action, done)
            case CreatePodGroup(name, body):
                await self._create_group(replica, name, body, done)
            case UpdatePodGroup(name, body):
                await self._forgiving(self._client.patch(POD_GROUPS, name, namespace, body))
            case DeletePodGroup(name, uid):
                await self._forgiving(self._client.delete(POD_GROUPS, name, namespace, uid=uid))
            case CreateService(body):
                await self._create_service(body)
            case UpdateService(name, body):
                self._services.observe(await self._client.patch(SERVICES, name, namespace, body))
            case DeleteService(name, uid):
                await self._forgiving(self._client.delete(SERVICES, name, namespace, uid=uid))
            case DeleteRevision(name, uid):
                await self._forgiving(self._client.delete(CONTROLLER_REVISIONS, name, namespace, uid=uid))
            case ClearAnnotation(key):
                await self._clear_annotation(replica, key)
            case AddFinalizer():
                await self._finalizers(replica, _with_finalizer)
            case RemoveFinalizer():
                await self._finalizers(replica, lambda present: [f for f in present if f != names.FINALIZER])
            case Notice():
                await self._tell(replica, (action,))

    async def _create_pod(self, snapshot: Snapshot, action: CreatePod, done: Done) -> None:
        replica = snapshot.replica
        payload = revisions.payload_of(snapshot.revisions, action.revision)
        if payload is None or (action.runner == names.WORKER and "workerPodSpec" not in payload):
            log.warning("revision %s has no template for pod %s", action.revision, action.name)
            return
        key = replica.metadata.namespace, action.name
        asked_again, refused = self._full.pop(key, (0.0, None))
        if refused is not None and self._clock.monotonic() < asked_again:
            self._full[key] = asked_again, refused
            done.refusals[action.name] = refused
            return
        body = pods.render(replica, snapshot.runners, payload, action)
        try:
            self._pods.observe(await self._client.create(PODS, body))
        except AlreadyExists:
            await self._own_or_raise(replica, action.name)
        except (Invalid, NamespaceTerminating, Forbidden, BadRequest) as error:
            if _is_denial(error):
                about = f"OMENative component={replica.spec.component} instance={action.index}"
                text = f"{about} pod {action.name} rejected: {error.message}"
                await self._tell(replica, (Notice(WARNING, "InstanceRejected", text),))
                raise
            done.refusals[action.name] = refusal = _refusal(error)
            if refusal.kind is Refused.QUOTA:
                self._full[key] = self._clock.monotonic() + _QUOTA_PAUSE, refusal

    async def _create_group(self, replica: InferenceReplica, name: str, body: Mapping[str, Any], done: Done) -> None:
        try:
            self._observe_group(await self._client.create(POD_GROUPS, body))
        except AlreadyExists as error:
            live: dict[str, Any] | None = await self._client.find(
                POD_GROUPS, name, replica.metadata.namespace, into=dict
            )
            if live is None:
                return
            if _owned(live, replica):
                self._observe_group(live)
            else:
                done.refusals[name] = Refusal(Refused.OWNED, error.message)
        except (Invalid, NamespaceTerminating, Forbidden) as error:
            done.refusals[name] = _refusal(error)

    def _observe_group(self, written: Mapping[str, Any]) -> None:
        if self._groups is not None:
            self._groups.observe(written)

    async def _own_or_raise(self, replica: InferenceReplica, name: str) -> None:
        """A pod of the wanted name exists: ours, and the cache is late, or somebody else's, and never touched."""
        live: dict[str, Any] | None = await self._client.find(PODS, name, replica.metadata.namespace, into=dict)
        if live is None:
            return
        if _owned(live, replica):
            self._pods.observe(live)
            return
        raise AlreadyExists(409, "AlreadyExists", f'pods "{name}" exists and is not owned by this InferenceReplica')

    async def _delete_pod(self, replica: InferenceReplica, action: DeletePod) -> None:
        key = replica.metadata.key
        self._expectations.expect_deletion(key, action.uid)
        try:
            await self._client.delete(
                PODS, action.name, key[0], uid=action.uid, grace_period=0 if action.force else None
            )
        except (NotFound, Conflict):
            self._expectations.observe_deletion(key, action.uid)
        except TransportError as error:
            if not error.outcome_unknown:
                self._expectations.observe_deletion(key, action.uid)
            raise
        except KubeError:
            self._expectations.observe_deletion(key, action.uid)
            raise

    async def _set_gate(self, namespace: str, action: SetGate) -> None:
        condition = {
            "type": names.GATE,
            "status": "True" if action.serving else "False",
            "reason": "Serving" if action.serving else "Held",
            "message": "" if action.serving else f"held by {', '.join(action.holds)}",
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        body = {"metadata": {"uid": action.uid}, "status": {"conditions": [condition]}}
        try:
            written = await self._client.patch(
                PODS, action.name, namespace, body, type=PatchType.STRATEGIC, subresource="status"
            )
        except (NotFound, Conflict):
            return
        self._pods.observe(written)

    async def _patch_pod(self, namespace: str, action: PatchPod, done: Done) -> None:
        metadata = {**action.body.get("metadata", {}), "uid": action.uid}
        body = {**action.body, "metadata": metadata}
        try:
            written = await self._client.patch(PODS, action.name, namespace, body, type=PatchType.STRATEGIC)
        except (NotFound, Conflict):
            return
        except Invalid as error:
            done.refusals[action.name] = Refusal(Refused.INVALID, error.message)
            return
        self._pods.observe(written)

    async def _create_service(self, body: Mapping[str, Any]) -> None:
        try:
            self._services.observe(await self._client.create(SERVICES, body))
        except AlreadyExists:
            log.debug("Service %s exists already", body["metadata"]["name"])

    async def _forgiving(self, deleting: Any) -> None:
        try:
            await deleting
        except (NotFound, Conflict):
            return

    async def _clear_annotation(self, replica: InferenceReplica, key: str) -> None:
        """Remove the key whatever it holds now: a merge patch needs no version, so it cannot conflict."""
        meta = replica.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": {key: None}}}
        try:
            self._replicas.observe(await self._client.patch(INFERENCE_REPLICAS, meta.name, meta.namespace, body))
        except NotFound:
            return

    async def _finalizers(self, replica: InferenceReplica, change: Callable[[list[str]], list[str]]) -> None:
        """Change and write the finalizers under the object's version; on a conflict from a fresh read."""
        meta = replica.metadata
        present, version = [*meta.finalizers], meta.resource_version
        for attempt in range(_ATTEMPTS):
            wanted = change(present)
            if wanted == present:
                return
            body = {"metadata": {"finalizers": wanted, "resourceVersion": version, "uid": meta.uid}}
            try:
                written = await self._client.patch(INFERENCE_REPLICAS, meta.name, meta.namespace, body)
            except NotFound:
                return
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                self._replicas.observe(written)
                return
            live: dict[str, Any] | None = await self._client.find(
                INFERENCE_REPLICAS, meta.name, meta.namespace, into=dict
            )
            if live is None or live["metadata"].get("uid") != meta.uid:
                return
            self._replicas.observe(live)
            present, version = live["metadata"].get("finalizers") or [], live["metadata"]["resourceVersion"]


def _owned(live: Mapping[str, Any], replica: InferenceReplica) -> bool:
    owners = live["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == replica.metadata.uid for owner in owners)


def _is_denial(error: ApiError) -> bool:
    """Whether a policy of the cluster or missing rights keep the pod out: LimitRange, PodSecurity, a webhook, RBAC.

    No revision is to blame for certain and no deadline waits for it, so it is asked for again and again; but who looks
    at the service must find out why nothing comes.
    """
    if isinstance(error, Invalid | NamespaceTerminating):
        return False
    return not (isinstance(error, Forbidden) and error.is_quota)


def _refusal(error: ApiError) -> Refusal:
    """What the next decision rests on. Raises the error itself where nobody can decide anything."""
    if _is_denial(error):
        raise error
    if isinstance(error, Invalid):
        return Refusal(Refused.INVALID, error.message)
    if isinstance(error, NamespaceTerminating):
        return Refusal(Refused.NAMESPACE, error.message)
    return Refusal(Refused.QUOTA, error.message)


def _with_finalizer(present: list[str]) -> list[str]:
    return present if names.FINALIZER in present else [*present, names.FINALIZER]


def known_status(live: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a stored status that the engine knows, in the spelling it compares with."""
    return to_dict(msgspec.convert(live.get("status") or {}, InferenceReplicaStatus))


def _moved_on(live: Mapping[str, Any], replica: InferenceReplica, status: Mapping[str, Any]) -> bool:
    """Whether the plan rests on something that is no longer so: another object, another spec, another status."""
    meta = live["metadata"]
    if meta.get("uid") != replica.metadata.uid or meta.get("generation", 0) != replica.metadata.generation:
        return True
    if bool(meta.get("deletionTimestamp")) != replica.metadata.deleting:
        return True
    return known_status(live) != status


def reference(replica: InferenceReplica) -> ObjectReference:
    """The InferenceReplica as an event's object."""
    meta = replica.metadata
    return ObjectReference(
        api_version="ome.io/v1beta1",
        kind="InferenceReplica",
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
    )


def regarding(replica: InferenceReplica) -> ObjectReference:
    """Whom events are about: the InferenceService, or the InferenceReplica that has none."""
    owner = replica.metadata.controller
    if owner is None or not names.projected(replica):
        return reference(replica)
    return ObjectReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        namespace=replica.metadata.namespace,
        uid=owner.uid,
    )
