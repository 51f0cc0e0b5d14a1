"""Pod-template revisions: payload, hash, reuse or collision, history (`spec/omenative.md` section 5).

Pure: which ControllerRevision is wanted and whether an existing one is it. The writing is the executor's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from ome.api.canonical import canonical_json
from ome.api.core import ControllerRevision
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaStatus, Runner

from . import names

_UNHASHED_LABELS: Final = frozenset({"kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"})
_UNHASHED_LABEL_PREFIXES: Final = ("ome.io/placement-",)
_UNHASHED_ANNOTATIONS: Final = frozenset(
    {"ome.io/rollout-paused", "ome.io/rollout-promote", "ome.io/rollout-rollback", "ome.io/local-queue"}
)
_UNHASHED_ANNOTATION_PREFIX: Final = "ome.io/migration-request-v1-"


def payload(replica: InferenceReplica, runners: Sequence[Runner]) -> dict[str, Any]:
    """What a revision records and hashes: pod spec and metadata of the leader or only pod, and what shapes a gang."""
    by_name = {runner.name: runner for runner in runners}
    first = by_name.get(names.DEFAULT_RUNNER) or by_name["leader"]
    result: dict[str, Any] = {
        "podSpec": first.template.get("spec") or {},
        "podMeta": _pod_meta(replica, first.template.get("metadata") or {}),
    }
    worker = by_name.get("worker")
    if worker is not None:
        result["workerPodSpec"] = worker.template.get("spec") or {}
        if replica.spec.topology_key:
            result["topologyKey"] = replica.spec.topology_key
    if replica.spec.pairing_protocol:
        result["pairingProtocol"] = replica.spec.pairing_protocol
    return result


def _pod_meta(replica: InferenceReplica, metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    excluded = excluded_keys(replica)
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in _UNHASHED_LABELS and not key.startswith(_UNHASHED_LABEL_PREFIXES)
    }
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in excluded and key not in _UNHASHED_ANNOTATIONS and not key.startswith(_UNHASHED_ANNOTATION_PREFIX)
    }
    if not labels and not annotations:
        return None
    return {"creationTimestamp": None, "labels": labels or None, "annotations": annotations or None}


def excluded_keys(replica: InferenceReplica) -> frozenset[str]:
    """Annotation keys that are inherited and mint no revision."""
    text = replica.metadata.annotations.get(names.ANNOTATION_EXCLUDED_KEYS, "")
    return frozenset(key for key in text.split(",") if key)


def digest(raw: bytes, collision_count: int, scope_uid: str) -> str:
    """FNV-1a-32 over the payload and its two salts, 8 lowercase hex digits."""
    value = 0x811C9DC5
    for byte in raw + f"|cc={collision_count}|".encode() + f"|uid={scope_uid}|".encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:08x}"


def scope_uid(replica: InferenceReplica) -> str:
    """The InferenceService's uid, so that a re-created service starts a new history; a standalone replica's own."""
    owner = replica.metadata.controller
    return owner.uid if owner is not None and names.projected(replica) else replica.metadata.uid


def wanted(replica: InferenceReplica, runners: Sequence[Runner], collision_count: int) -> tuple[str, bytes]:
    """Name and canonical payload of the revision of this template."""
    raw = canonical_json(payload(replica, runners))
    return names.revision_name(names.base_of(replica), digest(raw, collision_count, scope_uid(replica))), raw


class Verdict(StrEnum):
    """What an object of the wanted name is."""

    REUSE = "reuse"
    COLLISION = "collision"


def judge(existing: ControllerRevision, raw: bytes, owner_uid: str) -> Verdict:
    """Whether an existing ControllerRevision is the wanted one: same controller, same bytes."""
    owner = existing.metadata.controller
    if owner is None or owner.uid != owner_uid:
        return Verdict.COLLISION
    same = canonical_json(msgspec.json.decode(existing.data)) == raw
    return Verdict.REUSE if same else Verdict.COLLISION


def next_number(existing: Iterable[ControllerRevision]) -> int:
    """`revision` of a new ControllerRevision."""
    return max((kept.revision for kept in existing), default=0) + 1


def body(replica: InferenceReplica, name: str, raw: bytes, number: int, owner: Mapping[str, Any]) -> dict[str, Any]:
    """A new ControllerRevision."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": replica.metadata.namespace,
        "labels": names.selector(replica),
        "ownerReferences": [dict(owner)],
    }
    if replica.spec.pairing_protocol:
        metadata["annotations"] = {names.LABEL_PAIRING: replica.spec.pairing_protocol}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": msgspec.json.decode(raw),
        "revision": number,
    }


def payload_of(existing: Iterable[ControllerRevision], name: str) -> dict[str, Any] | None:
    """The recorded payload of a revision, or None when it is not kept."""
    found = next((kept for kept in existing if kept.metadata.name == name), None)
    return found.payload() if found is not None else None


def live(status: InferenceReplicaStatus, extra: Iterable[str] = ()) -> frozenset[str]:
    """The revisions that something still names."""
    named = {status.current_revision, status.update_revision, *extra}
    for row in status.instance_statuses:
        named |= {row.running_revision, row.target_revision}
        if row.operation is not None:
            named.add(row.operation.target_revision)
    return frozenset(named - {""})


def history_limit(replica: InferenceReplica, operator: int | None) -> int | None:
    """How many revisions are kept beside the live ones: the replica's word, else the operator's; None keeps all.

    The service's annotation `ome.io/revision-history-limit` arrives as the replica's `spec.revisionHistoryLimit`.
    """
    return replica.spec.revision_history_limit or operator


def prunable(
    existing: Iterable[ControllerRevision], kept_live: Collection[str], limit: int | None
) -> list[ControllerRevision]:
    """The revisions to delete: all but the live ones and the `limit` newest others."""
    if limit is None:
        return []
    others = sorted(
        (kept for kept in existing if kept.metadata.name not in kept_live),
        key=lambda kept: (-kept.revision, kept.metadata.name),
    )
    return others[limit:]
