"""Runtime revisions as objects: what OME stores, how a stored one is read, which one is reused
(`spec/runtime-revisions.md sections 2 and 3`).

Pure. Reading and writing them in a cluster is `ome.runtimes.revision_store`. Not to be confused with OMENative's
pod-template revisions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from ome.api import keys
from ome.api.canonical import canonical_runtime, runtime_hash, short_hash
from ome.api.core import ControllerRevision
from ome.api.names import SERVING_RUNTIME, runtime_revision
from ome.runtimes.reading import RuntimeKind


class RevisionDecodeError(Exception):
    """`data` of a stored revision is no JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionDraft:
    """A revision OME would store. `kind` is the declared one, whichever object was found; `namespace` the service's."""

    name: str
    kind: RuntimeKind
    runtime: str
    namespace: str
    full_hash: str
    canonical: bytes

    @property
    def hash8(self) -> str:
        return short_hash(self.full_hash)

    @property
    def selector(self) -> str:
        """The label query by which an equal revision is found: runtime name and hash, nothing else."""
        return f"{keys.RUNTIME_OF}={self.runtime},{keys.REVISION_HASH}={self.hash8}"

    def to_object(self, ome_namespace: str) -> dict[str, Any]:
        """The ControllerRevision to create; key order of `data` is the canonical one and survives storage."""
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": self.name,
                "namespace": ome_namespace,
                "labels": {
                    keys.RUNTIME_OF: self.runtime,
                    keys.RUNTIME_OF_KIND: self.kind.value,
                    keys.RUNTIME_OF_NAMESPACE: self.namespace if self.kind is RuntimeKind.NAMESPACED else "",
                    keys.REVISION_HASH: self.hash8,
                },
                "annotations": {keys.CREATED_BY: keys.CREATED_BY_OME},
            },
            "data": json.loads(self.canonical),
            "revision": 1,
        }


@dataclass(frozen=True, kw_only=True)
class StoredRevision:
    """A ControllerRevision in OME's namespace, of whatever origin."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: datetime | None = None
    uid: str = ""
    version: str = ""
    data: msgspec.Raw

    @classmethod
    def of(cls, stored: ControllerRevision) -> StoredRevision:
        """From a decoded object."""
        meta = stored.metadata
        return cls(
            name=meta.name,
            labels=meta.labels,
            annotations=meta.annotations,
            created=meta.creation_timestamp,
            uid=meta.uid,
            version=meta.resource_version,
            data=stored.data,
        )

    @property
    def runtime(self) -> str:
        """The runtime its label names, "" for a foreign object."""
        return self.labels.get(keys.RUNTIME_OF, "")

    @property
    def made_by_ome(self) -> bool:
        return self.annotations.get(keys.CREATED_BY) == keys.CREATED_BY_OME

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The runtime spec it holds: shared, never change it. Raises `RevisionDecodeError`."""
        try:
            return msgspec.json.decode(self.data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise RevisionDecodeError(f"decode revision {self.name}: {error}") from error

    @cached_property
    def full_hash(self) -> str:
        """The hash of what it holds, not of what its label says. Raises `RevisionDecodeError`."""
        return runtime_hash(self.spec)


def draft_revision(kind: str, runtime: str, namespace: str, spec: Mapping[str, Any]) -> RevisionDraft:
    """The revision of a merged spec, for a service of `namespace` that declares `kind` ("" counts as cluster kind)."""
    declared = RuntimeKind.NAMESPACED if kind == SERVING_RUNTIME else RuntimeKind.CLUSTER
    canonical = canonical_runtime(dict(spec))
    full = hashlib.sha256(canonical).hexdigest()
    return RevisionDraft(
        name=runtime_revision(declared.value, runtime, namespace, short_hash(full)),
        kind=declared,
        runtime=runtime,
        namespace=namespace,
        full_hash=full,
        canonical=canonical,
    )


def reusable(draft: RevisionDraft, stored: Iterable[StoredRevision]) -> StoredRevision | None:
    """The revision that already holds the draft's content: matched by the two labels, its own name preferred, else
    first by name.

    A candidate whose data is something else than its hash label says is passed over: using it would serve another
    spec."""
    candidates = [
        revision
        for revision in stored
        if revision.runtime == draft.runtime
        and revision.labels.get(keys.REVISION_HASH) == draft.hash8
        and holds(revision, draft)
    ]
    return min(candidates, key=lambda revision: (revision.name != draft.name, revision.name), default=None)


def holds(revision: StoredRevision, draft: RevisionDraft) -> bool:
    """Whether a stored revision is the draft's content, by full hash."""
    try:
        return revision.full_hash == draft.full_hash
    except RevisionDecodeError:
        return False
