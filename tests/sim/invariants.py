"""What must hold after every committed change, whatever the schedule: judged at the API server, not inside the engine.

Each check reads the change and the stored objects only, so that it holds for any engine. A broken one raises `Broken`
with the sentence that does not hold.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ome.api.intstr import scaled
from ome.api.meta import parse_timestamp

from .server import Json
from .world import World, rows_of

KEPT_OTHERS = 3
MEMORY = 20.0  # seconds for which a pod that was ready counts as having been seen ready


class Broken(AssertionError):
    """An invariant does not hold."""


class Invariants:
    """Listens to every commit of one world."""

    def __init__(self, world: World, foreign: str = "") -> None:
        self.world = world
        self.foreign = foreign
        self.problems: list[str] = []
        self.by_world = False  # the change under way is the schedule's doing, not a manager's
        self.faulty = False  # answers were lost or managers died: an event may be missing, none may be doubled
        self.two_managers = False
        self.largest = 0
        self.per_instance = 1
        self.surge_limit = 0
        self.unavailable_limit = 0
        self.held = 0
        self.released = 0
        self.ready_at: dict[str, float] = {}
        world.server.hear = self.hear

    def note_spec(self) -> None:
        """Remember how much the user has allowed so far: operations keep the allowance they started with."""
        spec = self.world.replica()["spec"]
        size = max(1, spec.get("replicas") or 0)
        rolling = ((spec.get("lifecycle") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
        self.largest = max(self.largest, size)
        self.per_instance = max(self.per_instance, sum(runner["size"] for runner in spec["runners"]))
        for name, attribute in (("maxSurge", "surge_limit"), ("maxUnavailable", "unavailable_limit")):
            value = rolling.get(name)
            limit = size if value is None else scaled(value, size)
            setattr(self, attribute, max(getattr(self, attribute), limit))

    def hear(self, event: str, collection: str, old: Json | None, new: Json) -> None:
        """One committed change."""
        try:
            if collection == "pods":
                self._pod(event, old, new)
            elif collection == "inferencereplicas" and old is not None and event != "DELETED":
                self._replica(old, new)
        except Broken as broken:
            self.problems.append(str(broken))

    def raise_if_broken(self) -> None:
        if self.problems:
            raise Broken("; ".join(self.problems[:3]))

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _pod(self, event: str, old: Json | None, new: Json) -> None:
        meta = new["metadata"]
        now = asyncio.get_running_loop().time()
        if is_ready(new):
            self.ready_at[meta["uid"]] = now
        leaving = event == "DELETED" or (
            bool(meta.get("deletionTimestamp")) and not (old or new)["metadata"].get("deletionTimestamp")
        )
        if meta["name"] == self.foreign:
            require(self.by_world or not leaving, f"somebody else's pod {meta['name']} was deleted")
            return
        if self.by_world:
            return
        if event == "ADDED":
            self._created(new)
        elif leaving and old is not None and not old["metadata"].get("deletionTimestamp"):
            self._leaves(old, "deleted")
        elif old is not None and gate(old) == "True" and gate(new) == "False":
            self._leaves(old, "taken out of rotation")

    def _created(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        now = self.world.clock.now()
        counted = [
            other
            for other in self.world.pods()
            if other["metadata"]["name"] != self.foreign
            and (
                not other["metadata"].get("deletionTimestamp")
                or parse_timestamp(other["metadata"]["deletionTimestamp"]) > now
            )
        ]
        live = [other for other in counted if not other["metadata"].get("deletionTimestamp")]
        ceiling = (self.largest + self.surge_limit) * self.per_instance
        require(len(live) <= ceiling, f"{len(live)} pods with {name}, allowed {ceiling}")
        operation = (pod["metadata"].get("annotations") or {}).get("internal.ome.io/operation", "")
        if operation and not self.two_managers:
            row = self._row(pod)
            recorded = (row or {}).get("operation") or {}
            require(
                recorded.get("id") == operation, f"{name} was created before its operation {operation} was recorded"
            )

    def _leaves(self, pod: Json, how: str) -> None:
        """A manager ends or drains a pod that serves: the recorded operation must say so, and keep its promise."""
        if gate(pod) != "True" or not is_ready(pod) or self.two_managers:
            return
        name = pod["metadata"]["name"]
        if self.world.replica()["metadata"].get("deletionTimestamp"):
            return
        row = self._row(pod)
        require(row is not None, f"{name} {how} without a row")
        assert row is not None
        operation = row.get("operation") or {}
        step = operation.get("step")
        allowed = ("SurgeDrain", "Drain", "InPlace", "GangSurgeTargetCleanup")
        require(step in allowed, f"{name} {how} with operation {operation.get('type')}/{step}, phase {row['phase']}")
        if step == "SurgeDrain":
            successors = self._successors(pod, operation)
            seen = bool(successors) and all(self._was_ready(other) for other in successors)
            require(seen, f"{name} {how} although its successor was never seen ready")

    def _successors(self, pod: Json, operation: Json) -> list[Json]:
        """The pods that take over: the other slot of a single pod, or the whole replacement of a gang."""
        index = operation.get("surgeIndex")
        if index is not None:
            label = "ome.io/instance-index"
            return [other for other in self.world.pods() if other["metadata"]["labels"][label] == str(index)]
        stem, _, ordinal = pod["metadata"]["name"].rpartition("-")
        other = self.world.server.get("pods", "prod", f"{stem}-{1 - int(ordinal)}")
        return [] if other is None else [other]

    def _was_ready(self, pod: Json) -> bool:
        at = self.ready_at.get(pod["metadata"]["uid"])
        return at is not None

    def _row(self, pod: Json) -> Json | None:
        index = int(pod["metadata"]["labels"]["ome.io/instance-index"])
        return next((row for row in self.world.rows() if row.get("index", 0) == index), None)

    # -- status --------------------------------------------------------------------------------------------------------

    def _replica(self, old: Json, new: Json) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        if before == after:
            return
        self._blocks(old, before, after)
        self._starts(before, after)
        rows = rows_of(after)
        indices = [row.get("index", 0) for row in rows]
        require(len(set(indices)) == len(indices), f"an index twice: {indices}")
        down = sum(
            1
            for row in rows
            if row["phase"] == "Updating" and (row.get("operation") or {}).get("step") in ("Drain", "InPlace")
        )
        started = [row for row in rows if _opened(row, before) == "Update"]
        steps = {row["operation"]["step"] for row in started}
        if steps & {"Drain", "InPlace"}:
            require(
                down <= self.unavailable_limit, f"{down} Instances down for updates, allowed {self.unavailable_limit}"
            )

    def _blocks(self, old: Json, before: Json, after: Json) -> None:
        was = {block["targetRevision"]: block for block in before.get("retryBlocks") or []}
        names = Counter(block["targetRevision"] for block in after.get("retryBlocks") or [])
        require(max(names.values(), default=1) == 1, f"two blocks for one revision: {names}")
        others = [name for name in names if name != after.get("updateRevision")]
        require(len(others) <= KEPT_OTHERS, f"{len(others)} blocks beside the target's")
        for block in after.get("retryBlocks") or []:
            self._block(was.get(block["targetRevision"]), block)
        for name, block in was.items():
            if name not in names and block["state"] == "Held":
                self._left(old, before, after, name)

    def _block(self, was: Json | None, block: Json) -> None:
        name, state = block["targetRevision"], block["state"]
        attempts, earlier = block.get("attemptsStarted", 0), (was or {}).get("attemptsStarted", 0)
        require(attempts >= earlier, f"{name}: attempts fell from {earlier} to {attempts}")
        require(attempts <= earlier + 1, f"{name}: attempts rose from {earlier} to {attempts}")
        if attempts > earlier and was is not None:
            require(was["state"] == "RetryInProgress", f"{name}: charged twice in one wave ({was['state']})")
        if state == "Held":
            require("nextRetryAt" not in block, f"{name}: Held with a time")
            if was is None or was["state"] != "Held":
                require(attempts == earlier + 1, f"{name}: Held by a failure that was not charged")
                self.held += 1
        if state == "Backoff":
            require("nextRetryAt" in block, f"{name}: Backoff without a time")
        require(was is None or was["state"] != "Held" or state == "Held", f"{name}: Held became {state}")
        for key in ("firstFailureAt", "lastFailureAt"):
            require(parse_timestamp(block[key]) <= self.world.clock.now(), f"{name}: {key} lies in the future")

    def _left(self, old: Json, before: Json, after: Json, name: str) -> None:
        """A Held block went: released, replaced, converged, or pushed out by newer ones. There is no other door."""
        if "ome.io/release-held-revision" in (old["metadata"].get("annotations") or {}):
            self.released += 1
            return
        targets = {(row.get("operation") or {}).get("targetRevision") for row in rows_of(after)}
        replaced = name not in (after.get("currentRevision"), after.get("updateRevision"), *targets)
        was_ready = {r.get("index", 0) for r in rows_of(before) if _ready_on(r, name)}
        converged = any(_ready_on(r, name) and r.get("index", 0) not in was_ready for r in rows_of(after))
        require(replaced or converged, f"{name}: a Held block left by no door")

    def _starts(self, before: Json, after: Json) -> None:
        """The gate: what starts in this commit was allowed to by the blocks that stood before it."""
        now = self.world.clock.now()
        was = {block["targetRevision"]: block for block in before.get("retryBlocks") or []}
        stands = {block["targetRevision"] for block in after.get("retryBlocks") or []}
        going_on = {(row.get("operation") or {}).get("id") for row in rows_of(after)}
        in_flight = Counter(
            row["operation"].get("targetRevision")
            for row in rows_of(before)
            if (row.get("operation") or {}).get("type") == "Update"
            and row["operation"]["step"] != "GangSurgeTarget"
            and row["operation"]["id"] in going_on
        )
        for row in rows_of(after):
            kind = _opened(row, before)
            if kind not in ("Update", "Create") or row["operation"]["step"] == "GangSurgeTarget":
                continue  # the replacement of a gang belongs to its source's attempt
            target = row["operation"].get("targetRevision", "")
            block = was.get(target)
            if block is None or target not in stands:  # none, or converged in this very commit
                continue
            label = f"{kind} of {row.get('index', 0)} toward {target}"
            require(block["state"] != "Held", f"{label} started although it is Held")
            if block["state"] == "Backoff":
                due = parse_timestamp(block["nextRetryAt"])
                require(due <= now, f"{label} started {due - now} before its time")
            if block["state"] == "RetryInProgress" and kind == "Update":
                require(not in_flight[target], f"{label} started beside a retry in flight")
            in_flight[target] += 1
            was[target] = {**block, "state": "RetryInProgress"}

    # -- the end -------------------------------------------------------------------------------------------------------

    def events(self) -> None:
        """Events neither missing nor doubled; with faults, missing ones are forgiven."""
        for reason, expected in (("RetryHeld", self.held), ("RetryBlockReleased", self.released)):
            found = len(self.world.events(reason))
            require(found <= expected, f"{found} {reason} events for {expected} transitions")
            require(self.faulty or found == expected, f"{found} {reason} events for {expected} transitions")


def _opened(row: Json, before: Json) -> str:
    """Type of the operation that this commit opened on the row, if any."""
    operation = row.get("operation")
    if operation is None:
        return ""
    known = next((r for r in rows_of(before) if r.get("index", 0) == row.get("index", 0)), {})
    return "" if (known.get("operation") or {}).get("id") == operation["id"] else str(operation["type"])


def _ready_on(row: Json, revision: str) -> bool:
    return row["phase"] == "Ready" and row.get("runningRevision") == revision


def gate(pod: Json) -> str:
    """The serving gate's status."""
    return _condition(pod, "ome.io/serving")


def is_ready(pod: Json) -> bool:
    return _condition(pod, "Ready") == "True"


def _condition(pod: Json, type_: str) -> str:
    conditions: list[Json] = (pod.get("status") or {}).get("conditions") or []
    return next((str(c["status"]) for c in conditions if c["type"] == type_), "")


def require(holds: Any, sentence: str) -> None:
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(sentence)
