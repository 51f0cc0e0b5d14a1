"""The working state of one decision: what the passes read and change until `planner.plan` makes a `Plan` of it.

Lives inside one call of `plan` only. Holds no rule of its own beyond how a row, an operation, a notice or an action is
written down; the rules are in the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from ome.api.meta import whole_second
from ome.api.types.inference_replica import InstanceOperation, InstanceStatus, InstanceTermination

from . import gangs, names, retry
from .actions import NORMAL, WARNING, Action, CreatePod, DeletePod, Notice, SetGate
from .budgets import Denial
from .evidence import Evidence
from .observe import Member, Snapshot, members_by_index, members_of
from .settings import Settings
from .strategy import Slot, desired, gang_of, strategy_of

NOT_IN_PLACE = "InPlaceUpdateNotPossible"
POLL = timedelta(seconds=5)
"""How often an update in flight is looked at, should every event be lost."""
ENDPOINTS_AGAIN = timedelta(seconds=1)
REFUSED_RETRY = timedelta(seconds=10)
"""Pause after a refusal of the environment (quota, a namespace that is going away)."""
PATROL = timedelta(minutes=1)
"""How often an attempt is looked at that no deadline or grace would end: an edit of the settings wakes nobody."""


_SINGLE = {ordinal: ((names.DEFAULT_RUNNER, ordinal),) for ordinal in (0, 1)}


@dataclass(frozen=True, slots=True)
class Failing:
    """An operation that has failed and is still to be disposed of."""

    index: int
    evidence: Evidence


class Work:
    """Rows, blocks, notices and actions of one pass."""

    def __init__(self, snapshot: Snapshot, settings: Settings, now: datetime) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.replica = snapshot.replica
        self.status = snapshot.replica.status
        self.now = now
        self.stamp = whole_second(now)
        self.gang = gang_of(snapshot.runners)
        """The pods of each Instance, where it has several; () for single pods."""
        self.strategy = strategy_of(self.replica, settings, multi_pod=bool(self.gang))
        self.size = desired(self.replica)
        self.paused = self.replica.spec.paused
        self.frozen = self.paused and self.replica.spec.pause_mode == "Freeze"
        self.base = names.base_of(self.replica)
        self.update_revision = snapshot.update_revision
        self.target = self.update_revision
        """What Instances roll to: the update revision, or the one of an explicit roll-back."""
        self.rows: dict[int, InstanceStatus] = {row.index: row for row in self.status.instance_statuses}
        self.blocks = self.status.retry_blocks
        self.members = members_by_index(members_of(snapshot))
        self.groups = {group.metadata.name: group for group in snapshot.pod_groups}
        self.touched_groups: set[str] = set()
        kinds = {runner for runner, _ in self.gang} or {names.DEFAULT_RUNNER}
        self._strangers = any(member.runner not in kinds for found in self.members.values() for member in found)
        self.failing: list[Failing] = []
        self.failed: set[int] = set()
        """Instances whose operation ended in this pass: they are seen `Failed` before anything new starts on them."""
        self.abandonments: list[tuple[str, InstanceTermination]] = []
        """Gang surges that were taken back in this pass, by revision: their failures are charged now."""
        self.charged: retry.Blocks | None = None
        """The blocks right after failures were charged, before anything new starts: what is written first."""
        self.newly_held: set[str] = set()
        """Revisions that became Held by a failure of this pass."""
        self.notices: list[Notice] = []
        self.actions: list[Action] = []
        self.denials: list[Denial] = []
        self.update_pass_ran = False
        self.advancing = False
        """An update moves: one is in flight or was started in this pass."""
        self._wake: datetime | None = None
        self._touched: set[str] = set()

    # -- reading -------------------------------------------------------------------------------------------------------

    def pods(self, index: int) -> Sequence[Member]:
        """The pods of an Instance, by name, live or not."""
        return self.members.get(index, ())

    def ordered(self) -> list[InstanceStatus]:
        """Rows in ascending index order."""
        return [self.rows[index] for index in sorted(self.rows)]

    def recorded(self, revision: str) -> bool:
        """Whether the revision still exists."""
        return any(kept.metadata.name == revision for kept in self.snapshot.revisions)

    @property
    def per_instance(self) -> int:
        """P: pods of one Instance."""
        return len(self.gang) or 1

    def slots(self, row: InstanceStatus) -> tuple[Slot, ...]:
        """The pods that the Instance consists of, between updates."""
        return self.gang or _SINGLE.get(row.active_ordinal) or ((names.DEFAULT_RUNNER, row.active_ordinal),)

    def canonical(self, row: InstanceStatus) -> list[Member]:
        """The live pods in the Instance's own slots."""
        slots = self.slots(row)
        return [member for member in self.pods(row.index) if member.live and (member.runner, member.ordinal) in slots]

    def reshaped(self, row: InstanceStatus) -> bool:
        """Whether the Instance still consists of other kinds of pods than the template has now."""
        if not self._strangers:
            return False
        runners = {runner for runner, _ in self.slots(row)}
        return any(member.live and member.runner not in runners for member in self.pods(row.index))

    def needed(self, row: InstanceStatus) -> int:
        """How many pods must be ready for the Instance to count."""
        if not self.reshaped(row):
            return self.per_instance
        return sum(member.live for member in self.pods(row.index))

    def replacements(self) -> frozenset[int]:
        """The indices that gang surges build replacements at."""
        found = (row.operation.surge_index for row in self.rows.values() if row.operation is not None)
        return frozenset(index for index in found if index is not None)

    def pod_name(self, index: int, ordinal: int, runner: str = names.DEFAULT_RUNNER) -> str:
        return names.pod_name(self.base, index, runner, ordinal)

    def drained(self, member: Member) -> bool:
        """No longer a ready endpoint of its revision's Service; without one, as soon as the gate is False."""
        if member.gate:
            return False
        if not member.was_gated:  # never in rotation
            return True
        if member.digest not in self.snapshot.routed:  # not read in this pass: the next one does
            self.wake(self.now + ENDPOINTS_AGAIN)
            return False
        routed = self.snapshot.routed[member.digest]
        if routed is None or member.name not in routed:
            return True
        self.wake(self.now + POLL)
        return False

    # -- deciding ------------------------------------------------------------------------------------------------------

    def put(self, row: InstanceStatus) -> InstanceStatus:
        self.rows[row.index] = row
        return row

    def drop(self, index: int) -> None:
        del self.rows[index]

    def wake(self, at: datetime | None) -> None:
        """Look again at `at` at the latest."""
        if at is not None and (self._wake is None or at < self._wake):
            self._wake = at

    @property
    def wake_at(self) -> datetime | None:
        return self._wake

    def open(
        self,
        row: InstanceStatus,
        type_: str,
        step: str,
        target: str,
        *,
        phase: str,
        strategy: str = "",
        reason: str = "",
    ) -> InstanceStatus:
        """Record a new operation on the row: what the pass is about to do, before it does it."""
        self.withdraw_creations(row.index)
        timeout = self.strategy.ready_timeout
        operation = InstanceOperation(
            id=self._new_id(row, f"{type_.lower()}-{row.index}-{names.digest_of(target) or 'none'}"),
            type=type_,
            step=step,
            started_at=self.stamp,
            last_progress_at=self.stamp,
            deadline=whole_second(self.stamp + timeout) if timeout is not None else None,
            target_revision=target,
            reason=reason,
            strategy=strategy,
        )
        return self.put(replace(row, phase=phase, target_revision=target or row.target_revision, operation=operation))

    def _new_id(self, row: InstanceStatus, stem: str) -> str:
        """An operation's id: its second, or a later one when a clock was set back to a second that has been used."""
        used = {member.operation for member in self.pods(row.index)}
        if row.operation is not None:
            used.add(row.operation.id)
        second = int(self.stamp.timestamp())
        while f"{stem}-{second}" in used:
            second += 1
        return f"{stem}-{second}"

    def step(self, row: InstanceStatus, step: str) -> InstanceStatus:
        """Advance the row's operation to its next step."""
        assert row.operation is not None
        if row.operation.step == step:
            return row
        return self.put(replace(row, operation=replace(row.operation, step=step, last_progress_at=self.stamp)))

    def ready(self, row: InstanceStatus, revision: str) -> InstanceStatus:
        """Ready on `revision`: the operation ends and the revision's retry block goes (X, converged)."""
        self.blocks = retry.without(self.blocks, revision)
        refused = f"{NOT_IN_PLACE}@{self.target}"  # of the target, not of an episode: said once, repairs or not
        return self.put(
            replace(
                row,
                phase="Ready",
                running_revision=revision,
                target_revision=revision,
                operation=None,
                ready_since=self.stamp,
                announced=(refused,) if refused in row.announced and revision != self.target else (),
            )
        )

    def fail(self, index: int, evidence: Evidence) -> None:
        """Mark the Instance's operation as failed; `failures.dispose` decides what that means."""
        if all(failing.index != index for failing in self.failing):
            self.failing.append(Failing(index, evidence))

    def abandoned(self, revision: str, failure: InstanceTermination) -> None:
        """A failed gang surge at `revision` is over: its failure counts in the write that ends it."""
        self.abandonments.append((revision, failure))

    def record_failure(self, row: InstanceStatus, evidence: Evidence) -> InstanceStatus:
        """Keep the evidence on the row; the same evidence again keeps its time."""
        last = row.last_failure
        failure = InstanceTermination(
            pod_name=evidence.pod,
            container_name=evidence.container,
            reason=evidence.reason,
            exit_code=evidence.exit_code,
            message=evidence.message,
            time=self.stamp,
        )
        if last is not None and replace(last, time=self.stamp) == failure and row.phase == "Failed":
            return row
        return self.put(replace(row, last_failure=failure))

    def once(self, row: InstanceStatus, reason: str) -> InstanceStatus | None:
        """The row with the marker `reason@episode` added, or None when it was announced already."""
        episode = row.operation.id if row.operation is not None else f"#{row.incarnation}"
        marker = f"{reason}@{episode}"
        if marker in row.announced:
            return None
        return self.put(replace(row, announced=(*row.announced, marker)))

    # -- notices -------------------------------------------------------------------------------------------------------

    def normal(self, row: InstanceStatus, reason: str, text: str) -> None:
        self.notices.append(Notice(NORMAL, reason, self._about(row.index) + text))

    def warning(self, row: InstanceStatus, reason: str, text: str) -> None:
        self.notices.append(Notice(WARNING, reason, self._about(row.index) + text))

    def _about(self, index: int) -> str:
        return f"OMENative component={self.replica.spec.component} instance={index} "

    # -- actions -------------------------------------------------------------------------------------------------------

    def create_missing(self, row: InstanceStatus, revision: str) -> None:
        """Create, together, all pods of the Instance that are not there; their PodGroup first."""
        if not gangs.stands(self, row):
            return
        for runner, ordinal in self.slots(row):
            self.create(row, ordinal, revision, runner)

    def create(self, row: InstanceStatus, ordinal: int, revision: str, runner: str = names.DEFAULT_RUNNER) -> None:
        """Create the Instance's pod at `ordinal`, once its name is free."""
        name = self.pod_name(row.index, ordinal, runner)
        if name in self._touched or any(member.name == name for member in self.pods(row.index)):
            return
        self._touched.add(name)
        operation = row.operation.id if row.operation is not None else ""
        group = gangs.name_of(self, row.index) if gangs.schedules(self) else ""
        self.actions.append(CreatePod(name, row.index, ordinal, row.incarnation, revision, operation, runner, group))

    def delete(self, member: Member, *, force: bool = False) -> None:
        if (member.live or force) and member.name not in self._touched:
            self._touched.add(member.name)
            self.actions.append(DeletePod(member.name, member.uid, force))

    def withdraw_creations(self, index: int) -> None:
        """Create nothing of what was decided for the Instance: its operation ends, or another begins, in this pass."""
        withdrawn = [a for a in self.actions if isinstance(a, CreatePod) and a.index == index]
        self.actions = [action for action in self.actions if action not in withdrawn]
        self._touched -= {action.name for action in withdrawn}

    def open_gate(self, member: Member) -> None:
        if not member.gate and member.live and member.name not in self._touched:
            self._touched.add(member.name)
            self.actions.append(SetGate(member.name, member.uid))

    def close_gate(self, member: Member, hold: str) -> None:
        if member.gate and member.live and member.name not in self._touched:
            self._touched.add(member.name)
            self.actions.append(SetGate(member.name, member.uid, (hold,)))
