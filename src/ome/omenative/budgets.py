"""How many Instances may move at once (`spec/omenative.md` section 7): budgets, surge slots, partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ome.api.intstr import scaled
from ome.api.types.inference_replica import InstanceStatus

from .observe import Member

IntOrString = int | str


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a start is refused (the hold's reason), and when the answer can change by the clock alone."""

    reason: str
    wake: datetime | None = None


def resolve(value: IntOrString | None, total: int) -> int | None:
    """A budget as a count of Instances; None when it is uncapped (absent or unparsable). A percentage rounds up."""
    if value is None:
        return None
    try:
        return max(0, scaled(value, total))
    except ValueError:
        return None


def floor(max_unavailable: IntOrString | None, total: int) -> int:
    """How many Instances must serve for `MinimumAvailable`."""
    budget = resolve(max_unavailable, total)
    return total if budget is None else max(0, total - budget)


def extras(members: Sequence[Member], now: datetime) -> list[Member]:
    """The pods of one Instance beyond its own one, that hold surge slots; live leftovers last."""
    counted = [member for member in members if member.counted(now)]
    if len(counted) <= 1:
        return []
    ordered = sorted(counted, key=lambda member: member.live)
    return ordered[: len(counted) - 1] if not ordered[0].live else ordered[1:]


def held_slots(row: InstanceStatus | None, members: Sequence[Member], now: datetime) -> int:
    """Surge slots of one single-pod Instance: extra pods, and a started surge whose pod does not exist yet."""
    operation = row.operation if row is not None else None
    if row is None or operation is None or operation.type != "Update" or operation.step != "Surge":
        return len(extras(members, now))
    new = [member for member in members if member.live and member.ordinal == 1 - row.active_ordinal]
    evicted = [member for member in new if member.operation != operation.id]  # of an earlier attempt: its slot is ours
    pending = len(new) == len(evicted)
    return len(extras([member for member in members if member not in evicted], now)) + pending


def surge(
    budget: int | None,
    index: int,
    rows: Mapping[int, InstanceStatus],
    members: Mapping[int, Sequence[Member]],
    now: datetime,
) -> Denial | None:
    """May a single-pod surge start on `index`? None: yes. Its own live leftover is replaced, so that slot is reused."""
    if budget is None:
        return None
    indices = set(rows) | set(members)
    would = sum(held_slots(rows.get(j), members.get(j, ()), now) for j in indices if j != index)
    own_terminating = [m for m in extras(members.get(index, ()), now) if not m.live]
    would += len(own_terminating) + 1
    if would <= budget:
        return None
    reason = f"per-Component surge budget {budget} exhausted (would become {would})"
    blocking = [*own_terminating]
    for j in sorted(indices - {index}):
        blocking += _surplus(rows.get(j), members.get(j, ()), now)
    terminating = [member for member in blocking if not member.live]
    if terminating:
        first = min(terminating, key=_gone_at)
        reason += (
            f"; Terminating pod {first.name} still counts against the surge budget until its deletion grace elapses"
        )
        return Denial(reason, _gone_at(first))
    if blocking:
        reason += f"; extra pod {blocking[0].name} holds a surge slot until a start on its Instance replaces it"
    return Denial(reason)


def gang_surge(
    budget: int | None,
    per_instance: int,
    rows: Mapping[int, InstanceStatus],
    members: Mapping[int, Sequence[Member]],
    now: datetime,
) -> Denial | None:
    """May one more gang surge start?

    Slots: the surges in flight, or all extra pods in units of one Instance, whichever is more.
    """
    if budget is None:
        return None
    building = {row.operation.surge_index for row in rows.values() if row.operation is not None}
    extra: list[Member] = []
    for index, found in sorted(members.items()):
        counted = sorted((member for member in found if member.counted(now)), key=lambda member: not member.live)
        own = per_instance if index in rows and index not in building else 0
        extra += counted[own:]
    in_flight = sum(1 for row in rows.values() if row.operation is not None and row.operation.surge_index is not None)
    would = max(in_flight, -(-len(extra) // per_instance)) + 1
    if would <= budget:
        return None
    reason = f"per-Component surge budget {budget} exhausted (would become {would})"
    terminating = [member for member in extra if not member.live]
    if in_flight or not terminating:
        return Denial(reason)
    first = min(terminating, key=_gone_at)
    reason += f"; Terminating pod {first.name} still counts against the surge budget until its deletion grace elapses"
    return Denial(reason, _gone_at(first))


def _surplus(row: InstanceStatus | None, members: Sequence[Member], now: datetime) -> list[Member]:
    """Extra pods that no operation in flight accounts for."""
    surplus = extras(members, now)
    if row is not None and row.operation is not None and row.operation.type == "Update":
        return [member for member in surplus if not member.live]
    active = row.active_ordinal if row is not None else 0
    leftovers = [member for member in members if member.live and member.ordinal != active]
    return [member for member in surplus if not member.live] or leftovers


def _gone_at(member: Member) -> datetime:
    gone = member.pod.metadata.deletion_timestamp
    assert gone is not None
    return gone


def unavailable(rows: Mapping[int, InstanceStatus]) -> int:
    """Instances that an update keeps out of service: `prior` of the strategies other than SurgeThenDrain."""
    return sum(
        1
        for row in rows.values()
        if row.operation is not None
        and row.operation.type == "Update"
        and ((row.phase == "Updating" and row.operation.step not in ("Surge", "SurgeDrain")) or row.phase == "Failed")
    )


def unavailability(budget: int | None, prior: int) -> Denial | None:
    """May one more Instance be taken down? None: yes."""
    if budget is None or prior + 1 <= budget:
        return None
    return Denial(f"per-Component unavailability budget {budget} exhausted (would become {prior + 1})")


def partitioned(candidates: Sequence[int], partition: int | None) -> frozenset[int]:
    """The candidates that a partition keeps on the prior revision: the lowest indices."""
    return frozenset(sorted(candidates)[: max(0, partition or 0)])
