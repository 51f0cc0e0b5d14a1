"""The controller `runtime-revision-gc`: one whole-world pass per trigger (`spec/runtime-revisions.md section 8`).

What to do is `ome.runtimes.collection.plan_collection`. Writes touch annotations only, and are conditional on what
was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ome.api import keys
from ome.api.core import ControllerRevision
from ome.api.types.inference_service import InferenceService
from ome.kube.cache import Cache, Change, Key
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.controller import After, Controller, Environment, Outcome, Watch
from ome.kube.errors import Conflict, KubeError, NotFound
from ome.kube.resources import CONTROLLER_REVISIONS, INFERENCE_SERVICES
from ome.runtimes.collection import Action, Delete, Mark, plan_collection
from ome.runtimes.revisions import StoredRevision

RESYNC_SECONDS = 300.0
WORLD: Key = ("", "world")
"""The one key: every trigger is the same pass."""

log = logging.getLogger("ome.runtimes.runtime-revision-gc")


@dataclass(frozen=True, slots=True)
class RevisionCollector:
    client: Client
    clock: Clock
    services: Cache[InferenceService]
    revisions: Cache[ControllerRevision]
    namespace: str
    retention: int
    grace: timedelta

    async def reconcile(self, key: Key) -> Outcome:
        """One pass; a bad revision does not stop the others. Looks again after five minutes, or when a grace period
        ends."""
        now = self.clock.now()
        plan = plan_collection(
            [StoredRevision.of(revision) for revision in self.revisions.list(self.namespace)],
            self._referenced(),
            retention=self.retention,
            grace=self.grace,
            now=now,
        )
        now_referenced: set[str] | None = None
        for action in plan.actions:
            try:
                if isinstance(action, Delete):
                    # The caches may be late, and a pass takes a while: what goes is asked for once more.
                    if now_referenced is None:
                        now_referenced = await self._referenced_now()
                    if action.revision.name in now_referenced | self._referenced():
                        continue
                await self._act(action)
            except (Conflict, NotFound):
                continue
            except KubeError as error:
                log.error("revision %s: %s", action.revision.name, error)
        if plan.next_due is None:
            return After(RESYNC_SECONDS)
        return After(min(RESYNC_SECONDS, max((plan.next_due - now).total_seconds(), 0.0)))

    def _referenced(self) -> set[str]:
        """Whatever `autoSync` says."""
        return {name for service in self.services.list() for name in _references(service)}

    async def _referenced_now(self) -> set[str]:
        listing = await self.client.list(INFERENCE_SERVICES, into=InferenceService)
        return {name for service in listing.items for name in _references(service)}

    async def _act(self, action: Action) -> None:
        revision = action.revision
        if isinstance(action, Delete):
            await self.client.delete(
                CONTROLLER_REVISIONS,
                revision.name,
                self.namespace,
                uid=revision.uid,
                resource_version=revision.version,
            )
            return
        since = action.since if isinstance(action, Mark) else None
        body = {
            "metadata": {
                "resourceVersion": revision.version,
                "annotations": {keys.GC_ELIGIBLE_SINCE: since},
            }
        }
        written = await self.client.patch(CONTROLLER_REVISIONS, revision.name, self.namespace, body)
        self.revisions.observe(written)

    def of_service(self, change: Change[InferenceService]) -> Iterable[Key]:
        """Any event of a service that changes what it refers to; for all others a pass would find nothing new."""
        old, new = change.old, change.new
        if old is not None and new is not None and _references(old) == _references(new):
            return []
        return [WORLD]

    def of_revision(self, change: Change[ControllerRevision]) -> Iterable[Key]:
        """Any event of a revision that OME made."""
        made_by_ome = change.object.metadata.annotations.get(keys.CREATED_BY) == keys.CREATED_BY_OME
        return [WORLD] if made_by_ome else []


def build(environment: Environment) -> Controller:
    """The controller. Reads flags `runtime_revision_retention` and `runtime_revision_grace_period` (seconds)."""
    flags = environment.flags
    room = RevisionCollector(
        environment.client,
        environment.clock,
        environment.caches.of(INFERENCE_SERVICES, InferenceService),
        environment.caches.of(CONTROLLER_REVISIONS, ControllerRevision, namespace=environment.namespace),
        environment.namespace,
        flags.runtime_revision_retention,
        timedelta(seconds=flags.runtime_revision_grace_period),
    )
    watches: list[Watch[Any]] = [Watch(room.services, room.of_service), Watch(room.revisions, room.of_revision)]
    return Controller(
        "runtime-revision-gc", room.reconcile, watches, clock=environment.clock, metrics=environment.metrics
    )


def _references(service: InferenceService) -> set[str]:
    runtime = service.spec.runtime
    return {service.status.pinned_revision_name, runtime.revision if runtime else ""} - {""}
