"""What may begin in one status commit: gate, pause, counts, budgets, partition (`spec/omenative.md` sections 7 to 11).

Pure checks of a commit against the spec that stood when it was made. Part of `invariants.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ome.api.intstr import scaled
from ome.api.meta import parse_timestamp

from .server import Json

Rows = dict[int, Json]
SURGING = ("Surge", "SurgeDrain")


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: Any, sentence: str) -> None:
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(sentence)


def opened(index: int, was: Rows, rows: Rows) -> str:
    """Type of the operation that this commit opened on the row, if any; a gang's replacement belongs to its source."""
    operation = rows[index].get("operation")
    if operation is None or operation["step"] == "GangSurgeTarget":
        return ""
    known = (was.get(index, {}).get("operation") or {}).get("id")
    return "" if known == operation["id"] else str(operation["type"])


def _operation(row: Json) -> Json:
    return row.get("operation") or {}


def gate(before: Json, was: Rows, after: Json, rows: Rows, now: datetime) -> None:
    """The retry gate: what starts was allowed to by the blocks that stood before; one retry at a time."""
    blocks = {block["targetRevision"]: block for block in before.get("retryBlocks") or []}
    stands = {block["targetRevision"] for block in after.get("retryBlocks") or []}
    going_on = {_operation(row).get("id") for row in rows.values()}
    in_flight = Counter(
        (_operation(row)["type"], _operation(row).get("targetRevision"))
        for row in was.values()
        if row.get("operation")
        and _operation(row)["id"] in going_on
        and _operation(row).get("step") != "GangSurgeTarget"
    )
    begun = [(kind, index) for index in rows if (kind := opened(index, was, rows)) in ("Create", "Update")]
    for kind, index in sorted(begun):  # Instances are created before others are updated, in one pass
        row = rows[index]
        target = row["operation"].get("targetRevision", "")
        block = blocks.get(target)
        if block is None or target not in stands:  # none, or converged in this very commit
            continue
        label = f"{kind} of {index} toward {target}"
        require(block["state"] != "Held", f"{label} started although it is Held")
        if block["state"] == "Backoff":
            due = parse_timestamp(block["nextRetryAt"])
            require(due <= now, f"{label} started {due - now} before its time")
        if block["state"] == "RetryInProgress":
            require(not in_flight[kind, target], f"{label} started beside a retry in flight")
        in_flight[kind, target] += 1
        blocks[target] = {**block, "state": "RetryInProgress"}


def pauses(spec: Json, was: Rows, rows: Rows) -> None:
    """Paused: no update, no new Instance, no step to draining; frozen: no repair either."""
    if not spec.get("paused"):
        return
    refused = ("Update", "Create", "Restart") if spec.get("pauseMode") == "Freeze" else ("Update", "Create")
    for index in rows:
        kind = opened(index, was, rows)
        require(kind not in refused, f"{kind} of {index} started although paused")
        steps = [_operation(r).get("step") for r in (was.get(index, {}), rows[index])]
        require(steps != ["Surge", "SurgeDrain"], f"Instance {index} goes on to drain although paused")


def counts(spec: Json, was: Rows, rows: Rows) -> None:
    """Never more Instances than wanted are begun, never fewer are left."""
    size = max(1, spec.get("replicas") or 0)
    kept, earlier = (_planned(found) for found in (rows, was))
    begun = [index for index in kept - earlier if rows[index]["phase"] == "Creating"]
    require(not begun or len(kept) <= size, f"Instance {begun} is begun: {len(kept)} of {size}")
    ended = [index for index in rows if opened(index, was, rows) == "Delete" and index in earlier]
    require(not ended or len(kept) >= size, f"Instance {ended} is ended: {len(kept)} of {size} are left")


def _planned(rows: Rows) -> set[int]:
    """Instances that are to stay, without the replacements of gang surges."""
    made = {_operation(row).get("surgeIndex") for row in rows.values()}
    return {index for index, row in rows.items() if row["phase"] != "Deleting" and index not in made}


def budgets(spec: Json, was: Rows, rows: Rows, update_revision: str, digests: Mapping[int, set[str]]) -> None:
    """Partition, and `maxUnavailable` for what an update or a repair takes down."""
    rolling = ((spec.get("lifecycle") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    started = [index for index in rows if opened(index, was, rows) == "Update"]
    kept = [
        i for i in started if was.get(i, {}).get("phase") == "Failed" and _operation(was[i]).get("type") == "Update"
    ]
    _partition(spec, rolling, rows, sorted({*started} - {*kept}), update_revision, digests)
    limit = _limit(rolling.get("maxUnavailable"), spec)
    if limit is None:
        return
    down = [row for row in rows.values() if _down(row)]
    fresh = [i for i in started if _down(rows[i]) and _operation(was.get(i, {})).get("type") != "Update"]
    require(not fresh or len(down) <= limit, f"{len(down)} Instances down for updates, allowed {limit}")
    repairs = [
        index
        for index, row in rows.items()
        if opened(index, was, rows) == "Restart" and "wedged" in row["operation"].get("reason", "")
    ]
    # Restarts by policy are exempt, and those of this pass may have been decided after the repair.
    by_policy = {i for i in rows if opened(i, was, rows) == "Restart"} - {*repairs}
    restarting = sum(row["phase"] == "Restarting" for index, row in rows.items() if index not in by_policy)
    # Repairs are decided before the updates of the same pass.
    least = restarting + sum(_down(row) for index, row in rows.items() if index not in started)
    require(not repairs or least <= limit, f"{least} Instances down with a repair, allowed {limit}")


def _partition(
    spec: Json, rolling: Json, rows: Rows, started: list[int], update_revision: str, digests: Mapping[int, set[str]]
) -> None:
    partition = (spec.get("pacing") or {}).get("partition", rolling.get("partition")) or 0
    digest = update_revision.rpartition("-")[2]
    held = [
        index
        for index, row in rows.items()
        if row["phase"] in ("Ready", "Failed", "Restarting")
        and _operation(row).get("type") != "Update"
        and (row.get("runningRevision") != update_revision or digests[index] - {digest})
    ]
    for index in started:
        below = sum(other < index for other in held)
        require(below >= partition, f"Instance {index} is updated, {below} lower ones stay behind, not {partition}")


def _down(row: Json) -> bool:
    """An update keeps the Instance out of service."""
    operation = _operation(row)
    if operation.get("type") != "Update" or operation["step"] == "GangSurgeTarget":
        return False
    return row["phase"] == "Failed" or (row["phase"] == "Updating" and operation["step"] not in SURGING)


def surges(spec: Json, was: Rows, rows: Rows, pods: list[Json], now: datetime) -> None:
    """`maxSurge`, counted in pods that are there beside what the Instances consist of."""
    rolling = ((spec.get("lifecycle") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    limit = _limit(rolling.get("maxSurge"), spec)
    started = [i for i in rows if opened(i, was, rows) == "Update" and rows[i]["operation"]["step"] in SURGING]
    if not started or limit is None:
        return
    per_instance = sum(runner["size"] for runner in spec["runners"])
    counted: dict[int, list[Json]] = {}
    for pod in pods:
        gone_at = pod["metadata"].get("deletionTimestamp")
        if not gone_at or parse_timestamp(gone_at) > now:
            counted.setdefault(int(pod["metadata"]["labels"]["ome.io/instance-index"]), []).append(pod)
    if per_instance > 1:
        would = sum("surgeIndex" in _operation(row) for row in rows.values())
    else:
        would = sum(_slots(rows.get(i), counted.get(i, []), i in started) for i in {*rows, *counted})
    require(would <= limit, f"surge of {started}: {would} slots held, allowed {limit}")


def _slots(row: Json | None, pods: list[Json], started: bool) -> int:
    terminating = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
    extra = max(0, len(pods) - 1)
    if started:  # its own live leftover is replaced
        return min(extra, terminating) + 1
    if row is None or _operation(row).get("step") != "Surge":
        return extra
    other = str(1 - row.get("activeOrdinal", 0))
    there = any(
        "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["labels"]["ome.io/pod-ordinal"] == other
        for pod in pods
    )
    return extra + (not there)


def _limit(value: int | str | None, spec: Json) -> int | None:
    size = max(1, spec.get("replicas") or 0)
    return None if value is None else int(scaled(value, size))
