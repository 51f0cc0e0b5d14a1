"""Runtime revisions in a cluster: reading them, finding or creating one, and answering a pin decision's questions.

Asynchronous, cache first: a pinned service with nothing to do costs no API call. Called by `ome.services`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from ome.api import keys
from ome.api.core import ControllerRevision
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from ome.kube.resources import CONTROLLER_REVISIONS
from ome.runtimes.pinning import (
    Ensure,
    Ensured,
    EnsureFailed,
    LookUp,
    PinDecision,
    PinError,
    PinInput,
    decide_pin,
)
from ome.runtimes.revisions import RevisionDraft, StoredRevision, holds, reusable

BY_RUNTIME_AND_HASH: Final = "runtime-of/hash"
_MOST_QUESTIONS: Final = 8
_REMEMBERED: Final = 1024


def index_revision(revision: ControllerRevision) -> tuple[str, ...]:
    """Index `BY_RUNTIME_AND_HASH` of the cache of ControllerRevisions in OME's namespace."""
    labels = revision.metadata.labels
    runtime, hash8 = labels.get(keys.RUNTIME_OF), labels.get(keys.REVISION_HASH)
    return (f"{runtime}/{hash8}",) if runtime and hash8 else ()


class RevisionStore:
    """The ControllerRevisions of OME's namespace. `cache` must have the index `BY_RUNTIME_AND_HASH`."""

    def __init__(self, client: Client, cache: Cache[ControllerRevision], ome_namespace: str) -> None:
        self._client = client
        self._cache = cache
        self._namespace = ome_namespace
        self._read: OrderedDict[str, tuple[ControllerRevision, StoredRevision]] = OrderedDict()

    async def get(self, name: str) -> StoredRevision | None:
        """One revision. The cache may not show one that was just made, so only a live read says that none exists."""
        cached = self._cache.get(self._namespace, name)
        if cached is not None:
            return self._remembered(cached)
        try:
            found = await self._client.get(CONTROLLER_REVISIONS, name, self._namespace, into=ControllerRevision)
        except NotFound:
            return None
        return StoredRevision.of(found)

    def _remembered(self, cached: ControllerRevision) -> StoredRevision:
        """One reading of an immutable cached object: a thousand services pinned to it decode and hash it once."""
        name = cached.metadata.name
        known = self._read.get(name)
        if known is not None and known[0] is cached:
            self._read.move_to_end(name)
            return known[1]
        revision = StoredRevision.of(cached)
        self._read[name] = (cached, revision)
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return revision

    async def ensure(self, draft: RevisionDraft) -> Ensured | EnsureFailed:
        """Find or create (`spec/runtime-revisions.md section 2.1`)."""
        key = f"{draft.runtime}/{draft.hash8}"
        cached = [StoredRevision.of(item) for item in self._cache.by_index(BY_RUNTIME_AND_HASH, key)]
        found = reusable(draft, cached)
        if found is not None:
            kept = await self._keep(found)
            if kept is not None:
                return kept
        try:
            listing = await self._client.list(
                CONTROLLER_REVISIONS, self._namespace, label_selector=draft.selector, into=ControllerRevision
            )
        except KubeError as error:
            return EnsureFailed(f"list ControllerRevisions in {self._namespace}: {error}")
        found = reusable(draft, [StoredRevision.of(item) for item in listing.items])
        if found is None:
            return await self._create(draft)
        kept = await self._keep(found)
        return kept or EnsureFailed(f"keep revision {found.name}: it was changed or collected meanwhile")

    async def _keep(self, revision: StoredRevision) -> Ensured | EnsureFailed | None:
        """Take the collector's mark off a revision that is about to be pinned: it deletes only what it last saw, so it
        spares this one. None when the revision is no longer as it was seen."""
        if keys.GC_ELIGIBLE_SINCE not in revision.annotations:
            return Ensured(revision.name)
        body = {
            "metadata": {
                "uid": revision.uid,
                "resourceVersion": revision.version,
                "annotations": {keys.GC_ELIGIBLE_SINCE: None},
            }
        }
        try:
            written = await self._client.patch(CONTROLLER_REVISIONS, revision.name, self._namespace, body)
        except (Conflict, NotFound):
            return None
        except KubeError as error:
            return EnsureFailed(f"keep revision {revision.name}: {error}")
        self._cache.observe(written)
        return Ensured(revision.name)

    async def resolve_pin(
        self, known: PinInput, *, confirm: Callable[[], Awaitable[bool]] | None = None
    ) -> PinDecision:
        """`decide_pin`, its questions answered. Does not write status: the decision's `state` is the caller's to
        persist. `confirm`: whether the live spec is still that, asked before a pin moves to it."""
        for _ in range(_MOST_QUESTIONS):
            match decide_pin(known):
                case LookUp(name):
                    try:
                        revision = await self.get(name)
                    except KubeError as error:
                        return PinError(f"get revision {name}: {error}")
                    known = replace(known, revisions={**known.revisions, name: revision})
                case Ensure(draft):
                    live = f"resolve live runtime {known.intent.runtime}"
                    try:
                        if confirm is not None and not await confirm():
                            return PinError(f"{live}: it was changed meanwhile")
                    except KubeError as error:
                        return PinError(f"{live}: {error}")
                    known = replace(known, ensured=await self.ensure(draft))
                case decision:
                    return decision
        raise RuntimeError("a pin decision asks the same question again")

    async def _create(self, draft: RevisionDraft) -> Ensured | EnsureFailed:
        try:
            created = await self._client.create(
                CONTROLLER_REVISIONS, draft.to_object(self._namespace), namespace=self._namespace
            )
        except AlreadyExists:
            return await self._judge_existing(draft)
        except KubeError as error:
            return EnsureFailed(f"create revision {draft.name}: {error}")
        self._cache.observe(created)
        return Ensured(draft.name)

    async def _judge_existing(self, draft: RevisionDraft) -> Ensured | EnsureFailed:
        """Somebody was faster, or two specs share a short hash: only equal content may be used."""
        try:
            found = await self._client.get(CONTROLLER_REVISIONS, draft.name, self._namespace, into=ControllerRevision)
        except KubeError as error:
            return EnsureFailed(f"create revision {draft.name}: {error}")
        if holds(StoredRevision.of(found), draft):
            return Ensured(draft.name)
        return EnsureFailed(
            f"create revision {draft.name}: a ControllerRevision of this name in {self._namespace} holds another spec"
        )
