"""What a process remembers of a replica between passes, to save itself work; hardly anything here is ever an answer.

Each memory holds the cached object it was made of and counts for that very object only: cached objects are immutable,
so the same object means the same result. A new process starts with an empty memory and decides the same. Used by
`controller.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ome.api.core import ControllerRevision, Pod
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaStatus, Runner

from . import names, revisions
from .encoding import dense
from .observe import Member


@dataclass(slots=True)
class Memory:
    """Of one replica.

    - `leaving`: its uid, once the pods of its teardown have been read live.
    - `revisions`: the recorded ones at the last pass, by name: the one thing here that can be an answer, when somebody
      deletes a revision that is in use.
    """

    leaving: str = ""
    revisions: dict[str, ControllerRevision] = field(default_factory=dict)
    _members: dict[str, Member] = field(default_factory=dict)
    _dense: tuple[InferenceReplicaStatus, int, InferenceReplicaStatus] | None = None
    _wanted: tuple[tuple[object, ...], tuple[str, bytes]] | None = None
    _reused: tuple[ControllerRevision, bytes, str] | None = None
    _settled: tuple[InferenceReplicaStatus, bool, int] | None = None

    def members(self, pods: Iterable[Pod]) -> tuple[Member, ...]:
        """The pods with the engine's eyes, by name; what was read of a pod is kept as long as the pod is the same."""
        known, self._members = self._members, {}
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            member = known.get(pod.metadata.uid)
            self._members[pod.metadata.uid] = member if member is not None and member.pod is pod else Member(pod)
        return tuple(self._members.values())

    def dense(self, status: InferenceReplicaStatus, limit: int) -> InferenceReplicaStatus:
        """`encoding.dense`. Raises `UndecodableStatus`."""
        if self._dense is None or self._dense[0] is not status or self._dense[1] != limit:
            self._dense = status, limit, dense(status, limit)
        return self._dense[2]

    def wanted(self, replica: InferenceReplica, runners: Sequence[Runner], collisions: int) -> tuple[str, bytes]:
        """`revisions.wanted`. The runners of a projected replica are those of its generation."""
        if not names.projected(replica):
            return revisions.wanted(replica, runners, collisions)
        meta = replica.metadata
        key = (meta.uid, meta.generation, meta.annotations.get(names.ANNOTATION_EXCLUDED_KEYS), collisions)
        if self._wanted is None or self._wanted[0] != key:
            self._wanted = key, revisions.wanted(replica, runners, collisions)
        return self._wanted[1]

    def reuses(self, existing: ControllerRevision, raw: bytes, owner: str) -> bool:
        """Whether `revisions.judge` says that an existing revision is the wanted one."""
        if self._reused is not None and self._reused[0] is existing and self._reused[1:] == (raw, owner):
            return True
        if revisions.judge(existing, raw, owner) is not revisions.Verdict.REUSE:
            return False
        self._reused = existing, raw, owner
        return True

    def settle(self, stored: InferenceReplicaStatus, columnar: bool, limit: int) -> None:
        """The stored status is what a pass that changes nothing would write."""
        self._settled = stored, columnar, limit

    def settled(self, stored: InferenceReplicaStatus, columnar: bool, limit: int) -> bool:
        """Whether a pass that changes nothing has nothing to write."""
        known = self._settled
        return known is not None and known[0] is stored and known[1:] == (columnar, limit)
