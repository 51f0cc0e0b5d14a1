"""What a Deployment does next: one step of a rollout, and its status. Pure; one call is one step.

The arithmetic, annotations, condition reasons and messages are Kubernetes' own. Called by `controllers.py`; writes
to ReplicaSets and of the status carry the resourceVersion they were decided from, so that a decision from an old cache
is refused and made again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ome.api.intstr import scaled
from ome.api.meta import timestamp
from ome.kube.resources import DEPLOYMENTS, REPLICA_SETS
from ome.local.objects import Json, Object, condition, owner_reference, reference_to, status_patch, time_of
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.templates import POD_TEMPLATE_HASH, same_template, template_hash

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED, MAXIMUM}
)
_NO_DEADLINE: Final = 2**31 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Deployment, the ReplicaSets it owns, their pods, and the names of ReplicaSets that belong to others."""

    deployment: Object
    replica_sets: Sequence[Object]
    pods: Sequence[Object] = ()
    foreign_names: Container[str] = frozenset()


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """The next step of the Deployment."""
    return _Pass(snapshot, now).plan()


class _Pass:
    """One pass: reads the snapshot, collects actions. Kept for a single call of `decide`."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.deployment = snapshot.deployment
        self.snapshot = snapshot
        self.now = now
        self.replicas = int(self.deployment.spec.get("replicas", 1))
        self.sets = sorted(snapshot.replica_sets, key=_age)
        self.new = self._matching()
        self.old = [found for found in self.sets if found is not self.new]
        self.conditions: list[Json] = [dict(found) for found in self.deployment.status.get("conditions") or ()]
        self.collisions = int(self.deployment.status.get("collisionCount", 0))
        self.actions: list[Action] = []
        self.created_new = False
        self.revision: str | None = None
        """The revision that the Deployment is yet to carry; it goes out with the status, which takes annotations."""
        self.after: float | None = None

    # -- the course of a pass ------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        if self.deployment.metadata.deleting:
            return self._finish()
        self._note_pause()
        if self.deployment.spec.get("paused") or self._is_scaling_event():
            self._sync_revision(create=False)
            self._scale()
            if self.deployment.spec.get("paused"):
                self._clean_up()
            return self._finish()
        if self._strategy() == "Recreate":
            return self._recreate()
        return self._roll()

    def _roll(self) -> Plan:
        self._sync_revision(create=True)
        if self._scale_new() or self._scale_old():
            return self._finish(rollout=True)
        if self._is_complete(self._counts()):
            self._clean_up()
        return self._finish(rollout=True)

    def _recreate(self) -> Plan:
        self._sync_revision(create=False)
        if self._scale_all(self.old, 0) or self._old_pods_run():
            return self._finish(rollout=True)
        if self.new is None:
            self._sync_revision(create=True)
        self._scale_new()
        if self._is_complete(self._counts()):
            self._clean_up()
        return self._finish(rollout=True)

    def _finish(self, *, rollout: bool = False) -> Plan:
        status = self._status(rollout=rollout)
        body = status_patch(self.deployment.status, status)
        if body is not None or self.revision is not None:
            metadata: Json = {"resourceVersion": self.deployment.metadata.resource_version}
            if self.revision is not None:
                metadata["annotations"] = {REVISION: self.revision}
            body = {"metadata": metadata, **(body or {})}
            self.actions.append(Patch(DEPLOYMENTS, self.deployment.namespace, self.deployment.name, body, "status"))
        return Plan(self.actions, self.after)

    # -- revisions -----------------------------------------------------------------------------------------------------

    def _matching(self) -> Object | None:
        template = self.deployment.spec.get("template") or {}
        return next((s for s in self.sets if same_template(s.spec.get("template") or {}, template)), None)

    def _sync_revision(self, *, create: bool) -> None:
        """Give the new ReplicaSet the next revision, or make it; the Deployment carries the same number."""
        revision = max((_revision(found) for found in self.old), default=0) + 1
        if self.new is not None:
            revision = max(revision, _revision(self.new))
            self._annotate(self.new, revision)
            if self._deadline() is not None and condition({"conditions": self.conditions}, "Progressing") is None:
                message = f'Found new replica set "{self.new.name}"'
                self._set_condition("Progressing", "True", "FoundNewReplicaSet", message)
        elif create:
            self._create_new(revision)
        else:
            return
        if self.deployment.metadata.annotations.get(REVISION) != str(revision):
            self.revision = str(revision)

    def _annotate(self, replica_set: Object, revision: int) -> None:
        wanted = self._copied_annotations()
        old = _revision(replica_set)
        if old < revision:
            wanted[REVISION] = str(revision)
            if old:
                history = replica_set.metadata.annotations.get(REVISION_HISTORY, "")
                wanted[REVISION_HISTORY] = f"{history},{old}" if history else str(old)
        wanted[DESIRED] = str(self.replicas)
        wanted[MAXIMUM] = str(self.replicas + self._max_surge())
        have = replica_set.metadata.annotations
        if self._resizes(replica_set):
            # These two say for which size the ReplicaSets were last scaled; they change together with the size.
            wanted.pop(DESIRED)
            wanted.pop(MAXIMUM)
        changed = {name: value for name, value in wanted.items() if have.get(name) != value}
        spec: Json = {}
        minimum = int(self.deployment.spec.get("minReadySeconds", 0))
        if int(replica_set.spec.get("minReadySeconds", 0)) != minimum:
            spec["minReadySeconds"] = minimum
        if changed or spec:
            body: Json = {"metadata": {"annotations": changed}} if changed else {}
            if spec:
                body["spec"] = spec
            self._patch_set(replica_set, body)

    def _resizes(self, replica_set: Object) -> bool:
        desired = _desired(replica_set)
        return desired is not None and desired != self.replicas

    def _copied_annotations(self) -> dict[str, str]:
        return {k: v for k, v in self.deployment.metadata.annotations.items() if k not in _NOT_COPIED}

    def _create_new(self, revision: int) -> None:
        template = self.deployment.spec.get("template") or {}
        digest = template_hash(template, self.collisions)
        name = f"{self.deployment.name}-{digest}"
        while name in self.snapshot.foreign_names:
            self.collisions += 1
            digest = template_hash(template, self.collisions)
            name = f"{self.deployment.name}-{digest}"
        size = self._new_size(0)
        body = self._new_body(name, digest, revision, size)
        scaled_up = self._scaling_event("up", name, 0, size) if size else None
        about = reference_to(self.deployment, DEPLOYMENTS)
        refused = Emit(
            about, "Warning", "ReplicaSetCreateError", f'Failed to create new replica set "{name}": {{error}}'
        )
        self.actions.append(Create(REPLICA_SETS, body, scaled_up, refused))
        self.created_new = True
        if self._deadline() is not None:
            message = f'Created new replica set "{name}"'
            self._set_condition("Progressing", "True", "NewReplicaSetCreated", message)

    def _new_body(self, name: str, digest: str, revision: int, size: int) -> Json:
        spec = self.deployment.spec
        template = dict(spec.get("template") or {})
        meta = dict(template.get("metadata") or {})
        labels = {**(meta.get("labels") or {}), POD_TEMPLATE_HASH: digest}
        template["metadata"] = {**meta, "labels": labels}
        selector = dict(spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: digest}
        built: Json = {"replicas": size, "selector": selector, "template": template}
        if spec.get("minReadySeconds"):
            built["minReadySeconds"] = spec["minReadySeconds"]
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": self.deployment.namespace,
                "labels": labels,
                "annotations": {
                    **self._copied_annotations(),
                    REVISION: str(revision),
                    DESIRED: str(self.replicas),
                    MAXIMUM: str(self.replicas + self._max_surge()),
                },
                "ownerReferences": [owner_reference(self.deployment, DEPLOYMENTS)],
            },
            "spec": built,
        }

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _strategy(self) -> str:
        return str((self.deployment.spec.get("strategy") or {}).get("type") or "RollingUpdate")

    def _max_surge(self) -> int:
        return self._budget()[0] if self._strategy() == "RollingUpdate" else 0

    def _max_unavailable(self) -> int:
        if self._strategy() != "RollingUpdate" or self.replicas == 0:
            return 0
        return min(self._budget()[1], self.replicas)

    def _budget(self) -> tuple[int, int]:
        rolling = (self.deployment.spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", "25%"), self.replicas, round_up=True)
        unavailable = scaled(rolling.get("maxUnavailable", "25%"), self.replicas, round_up=False)
        # Both may round to nothing, and then nothing would ever move.
        return (surge, unavailable) if surge or unavailable else (0, 1)

    def _new_size(self, have: int) -> int:
        """The size of the new ReplicaSet that the surge allows."""
        if self._strategy() == "Recreate":
            return self.replicas
        total = sum(_size(found) for found in self.sets)
        room = self.replicas + self._max_surge() - total
        return have if room <= 0 else have + min(room, self.replicas - have)

    def _scale_new(self) -> bool:
        if self.new is None:
            return self.created_new
        have = _size(self.new)
        if have == self.replicas:
            return False
        want = self.replicas if have > self.replicas else self._new_size(have)
        return self._resize(self.new, want)

    def _scale_old(self) -> bool:
        """Take from the old ReplicaSets what availability allows, pods that never became available first."""
        if not any(_size(found) for found in self.old) or self.new is None:
            return False
        minimum = self.replicas - self._max_unavailable()
        new_unavailable = _size(self.new) - _count(self.new, "availableReplicas")
        spare = sum(_size(found) for found in self.sets) - minimum - new_unavailable
        if spare <= 0:
            return False
        sizes = {found.name: _size(found) for found in self.old}
        self._take_unhealthy(sizes, spare)
        self._take_available(sizes, minimum)
        changes = [self._resize(found, sizes[found.name]) for found in self.old]
        return any(changes)

    def _take_unhealthy(self, sizes: dict[str, int], spare: int) -> None:
        for found in self.old:
            unhealthy = sizes[found.name] - _count(found, "availableReplicas")
            taken = max(0, min(spare, unhealthy))
            sizes[found.name] -= taken
            spare -= taken

    def _take_available(self, sizes: dict[str, int], minimum: int) -> None:
        spare = sum(_count(found, "availableReplicas") for found in self.sets) - minimum
        for found in self.old:
            taken = max(0, min(spare, sizes[found.name]))
            sizes[found.name] -= taken
            spare -= taken

    def _scale_all(self, sets: Iterable[Object], size: int) -> bool:
        changes = [self._resize(found, size) for found in sets]
        return any(changes)

    def _resize(self, replica_set: Object, size: int) -> bool:
        have = _size(replica_set)
        annotations = {DESIRED: str(self.replicas), MAXIMUM: str(self.replicas + self._max_surge())}
        current = replica_set.metadata.annotations
        if have == size and all(current.get(name) == value for name, value in annotations.items()):
            return False
        if have == size and size == 0:
            return False
        metadata = {"resourceVersion": replica_set.metadata.resource_version, "annotations": annotations}
        event = None
        if have != size:
            event = self._scaling_event("up" if size > have else "down", replica_set.name, have, size)
        self._patch_set(replica_set, {"metadata": metadata, "spec": {"replicas": size}}, event)
        return have != size

    def _patch_set(self, replica_set: Object, body: Json, event: Emit | None = None) -> None:
        """One patch a ReplicaSet and pass: a second write would meet the first one's resourceVersion as a conflict."""
        kept: list[Action] = []
        for action in self.actions:
            if isinstance(action, Patch) and action.resource is REPLICA_SETS and action.name == replica_set.name:
                body = _merged(action.body, body)
            else:
                kept.append(action)
        patch = Patch(REPLICA_SETS, replica_set.namespace, replica_set.name, body, done=event)
        self.actions = [*kept, patch]

    def _scaling_event(self, way: str, name: str, old: int, new: int) -> Emit:
        message = f"Scaled {way} replica set {name} from {old} to {new}"
        return Emit(reference_to(self.deployment, DEPLOYMENTS), "Normal", "ScalingReplicaSet", message)

    # -- scaling outside of a rollout ----------------------------------------------------------------------------------

    def _is_scaling_event(self) -> bool:
        return any(self._resizes(found) for found in self.sets if _size(found) > 0)

    def _scale(self) -> None:
        active = [found for found in self.sets if _size(found) > 0]
        if len(active) <= 1:
            target = active[0] if active else (self.new or (self.sets[-1] if self.sets else None))
            if target is not None:
                self._resize(target, self.replicas)
            return
        if self.new is not None and self._is_saturated(self.new):
            self._scale_all([found for found in self.old if _size(found) > 0], 0)
            return
        if self._strategy() == "RollingUpdate":
            self._scale_in_proportion(active)

    def _is_saturated(self, found: Object) -> bool:
        return (
            _size(found) == self.replicas
            and _desired(found) == self.replicas
            and _count(found, "availableReplicas") == self.replicas
        )

    def _scale_in_proportion(self, active: list[Object]) -> None:
        allowed = self.replicas + self._max_surge() if self.replicas > 0 else 0
        total = sum(_size(found) for found in active)
        rest = allowed - total
        # The largest first; among equals growth goes to the newest and shrinking to the oldest.
        by_age = _negative_age if rest > 0 else _positive_age
        order = sorted(active, key=lambda found: (-_size(found), by_age(found)))
        sizes: dict[str, int] = {}
        added = 0
        for found in order:
            share = self._share(found, rest, added, allowed, total) if rest else 0
            sizes[found.name] = max(0, _size(found) + share)
            added += share
        if rest and order:
            first = order[0].name
            sizes[first] = max(0, sizes[first] + rest - added)
        for found in order:
            self._resize(found, sizes[found.name])

    def _share(self, found: Object, rest: int, added: int, allowed: int, total: int) -> int:
        size = _size(found)
        if size == 0 or rest == added:
            return 0
        if self.replicas == 0:
            share = -size
        else:
            annotated = int(found.metadata.annotations.get(MAXIMUM) or 0) or int(
                self.deployment.status.get("replicas") or total
            )
            share = _round_half_away(size * allowed, annotated) - size
        return min(share, rest - added) if rest > 0 else max(share, rest - added)

    # -- clean-up ------------------------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        limit = self.deployment.spec.get("revisionHistoryLimit")
        if limit is None or int(limit) == _NO_DEADLINE:
            return
        alive = [found for found in self.old if not found.metadata.deleting]
        surplus = len(alive) - int(limit)
        if surplus <= 0:
            return
        for found in sorted(alive, key=_revision)[:surplus]:
            idle = not _size(found) and not _count(found, "replicas")
            if idle and _count(found, "observedGeneration") >= found.metadata.generation:
                self.actions.append(Delete(REPLICA_SETS, found.namespace, found.name, found.uid))

    def _old_pods_run(self) -> bool:
        old = {found.uid for found in self.old}
        for pod in self.snapshot.pods:
            controller = pod.metadata.controller
            ended = pod.status.get("phase") in ("Succeeded", "Failed")
            if controller is not None and controller.uid in old and not ended:
                return True
        return False

    # -- status --------------------------------------------------------------------------------------------------------

    def _counts(self) -> Json:
        total = sum(_count(found, "replicas") for found in self.sets)
        available = sum(_count(found, "availableReplicas") for found in self.sets)
        return {
            "observedGeneration": self.deployment.metadata.generation,
            "replicas": total,
            "updatedReplicas": _count(self.new, "replicas") if self.new else 0,
            "readyReplicas": sum(_count(found, "readyReplicas") for found in self.sets),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(_size(found) for found in self.sets) - available),
        }

    def _is_complete(self, counts: Mapping[str, Any]) -> bool:
        return (
            counts["updatedReplicas"] == self.replicas
            and counts["replicas"] == self.replicas
            and counts["availableReplicas"] == self.replicas
            and self.new is not None
        )

    def _status(self, *, rollout: bool) -> Json:
        counts = self._counts()
        if counts["availableReplicas"] >= self.replicas - self._max_unavailable():
            available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            available = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        self._set_condition("Available", *available)
        if rollout:
            self._progress(counts)
        status = {name: value for name, value in counts.items() if value}
        status["terminatingReplicas"] = sum(_count(found, "terminatingReplicas") for found in self.sets)
        if self.collisions:
            status["collisionCount"] = self.collisions
        self._replica_failure()
        if self.conditions:
            status["conditions"] = self.conditions
        return status

    def _replica_failure(self) -> None:
        self.conditions = [found for found in self.conditions if found["type"] != "ReplicaFailure"]
        for found in ([self.new] if self.new else []) + self.old:
            failure = condition(found.status, "ReplicaFailure")
            if failure is not None:
                self._set_condition("ReplicaFailure", failure["status"], failure["reason"], failure.get("message", ""))
                return

    def _progress(self, counts: Mapping[str, Any]) -> None:
        deadline = self._deadline()
        if deadline is None:
            self.conditions = [found for found in self.conditions if found["type"] != "Progressing"]
            return
        current = condition({"conditions": self.conditions}, "Progressing")
        done = current is not None and current.get("reason") == "NewReplicaSetAvailable"
        if done and counts["replicas"] == counts["updatedReplicas"]:
            return
        subject = f'ReplicaSet "{self.new.name}"' if self.new else f'Deployment "{self.deployment.name}"'
        if self._is_complete(counts):
            self._set_condition(
                "Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed."
            )
        elif self._moved(counts):
            self._refresh_progress(f"{subject} is progressing.")
        elif self._timed_out(current, deadline):
            message = f"{subject} has timed out progressing."
            self._set_condition("Progressing", "False", "ProgressDeadlineExceeded", message)
        self._wake_at_deadline(deadline)

    def _moved(self, counts: Mapping[str, Any]) -> bool:
        old = self.deployment.status
        old_updated = int(old.get("updatedReplicas", 0))
        return bool(
            counts["updatedReplicas"] > old_updated
            or counts["replicas"] - counts["updatedReplicas"] < int(old.get("replicas", 0)) - old_updated
            or counts["readyReplicas"] > int(old.get("readyReplicas", 0))
            or counts["availableReplicas"] > int(old.get("availableReplicas", 0))
        )

    def _refresh_progress(self, message: str) -> None:
        """The deadline counts from `lastUpdateTime`, so progress is written anew each time."""
        self._set_condition("Progressing", "True", "ReplicaSetUpdated", message, refresh=True)

    def _timed_out(self, current: Json | None, deadline: int) -> bool:
        if current is None or current.get("reason") in ("NewReplicaSetAvailable", "DeploymentPaused"):
            return False
        if current.get("reason") == "ProgressDeadlineExceeded":
            return True
        since = time_of(current.get("lastUpdateTime"))
        return since is not None and (self.now - since).total_seconds() >= deadline

    def _wake_at_deadline(self, deadline: int) -> None:
        current = condition({"conditions": self.conditions}, "Progressing")
        if current is None or current.get("reason") in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
            return
        since = time_of(current.get("lastUpdateTime"))
        if since is not None:
            self.after = max(0.1, deadline - (self.now - since).total_seconds()) + 0.1

    def _deadline(self) -> int | None:
        seconds = self.deployment.spec.get("progressDeadlineSeconds")
        return None if seconds is None or int(seconds) == _NO_DEADLINE else int(seconds)

    def _note_pause(self) -> None:
        if self._deadline() is None:
            return
        current = condition({"conditions": self.conditions}, "Progressing")
        if current is not None and current.get("reason") == "ProgressDeadlineExceeded":
            return
        paused = bool(self.deployment.spec.get("paused"))
        noted = current is not None and current.get("reason") == "DeploymentPaused"
        if paused and not noted:
            self._set_condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        elif noted and not paused:
            self._set_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")

    def _set_condition(self, type_: str, status: str, reason: str, message: str, *, refresh: bool = False) -> None:
        """Set a condition at the end of the list; one with the same status and reason is left alone unless
        refreshed."""
        current = condition({"conditions": self.conditions}, type_)
        if current is not None and (current["status"], current.get("reason")) == (status, reason) and not refresh:
            return
        moment = timestamp(self.now)
        since = moment
        if current is not None and current["status"] == status:
            since = current.get("lastTransitionTime", moment)
        kept = [found for found in self.conditions if found["type"] != type_]
        built = {"type": type_, "status": status, "reason": reason, "message": message}
        self.conditions = [*kept, {**built, "lastUpdateTime": moment, "lastTransitionTime": since}]


def _merged(one: Json, other: Json) -> Json:
    metadata = {**one.get("metadata", {}), **other.get("metadata", {})}
    annotations = {
        **one.get("metadata", {}).get("annotations", {}),
        **other.get("metadata", {}).get("annotations", {}),
    }
    if annotations:
        metadata["annotations"] = annotations
    spec = {**one.get("spec", {}), **other.get("spec", {})}
    return {"metadata": metadata, "spec": spec} if spec else {"metadata": metadata}


def _size(replica_set: Object) -> int:
    return int(replica_set.spec.get("replicas", 1))


def _count(replica_set: Object, field: str) -> int:
    return int(replica_set.status.get(field, 0))


def _revision(replica_set: Object) -> int:
    try:
        return int(replica_set.metadata.annotations.get(REVISION, "0"))
    except ValueError:
        return 0


def _desired(replica_set: Object) -> int | None:
    try:
        return int(replica_set.metadata.annotations[DESIRED])
    except (KeyError, ValueError):
        return None


def _age(found: Object) -> tuple[datetime, int, str]:
    return found.metadata.creation_timestamp or _EPOCH, _revision(found), found.name


def _positive_age(found: Object) -> tuple[float, int]:
    return (found.metadata.creation_timestamp or _EPOCH).timestamp(), _revision(found)


def _negative_age(found: Object) -> tuple[float, int]:
    return -(found.metadata.creation_timestamp or _EPOCH).timestamp(), -_revision(found)


def _round_half_away(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
