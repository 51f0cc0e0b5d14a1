"""What must hold after every committed change, whatever the schedule: judged at the API server, not inside the engine.

Each check reads the change, who made it, and the stored objects only, so that it holds for any engine. A status is
written under the version of the object it was decided on, so the spec at the moment of the commit is the one that the
writer knew: what starts in a commit is judged by that spec exactly. A broken check raises `Broken` with the sentence
that does not hold.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Collection
from datetime import datetime

from ome.api.meta import parse_timestamp

from . import starts
from .ledger import Ledger, transitions
from .server import Gateway, Json
from .starts import Broken, Rows, require
from .world import World, rows_of

KEPT_OTHERS = 3
MEMORY = 20.0  # seconds for which a pod that was ready counts as having been seen ready: caches may be that late
STORM = 100  # requests of managers in one virtual second
IN_FLIGHT = 1  # writes of a manager that may arrive after another one took its Lease
DRAINING = ("SurgeDrain", "Drain", "InPlace", "GangSurgeTargetCleanup")


class Invariants:
    """Listens to every commit of one world."""

    def __init__(self, world: World, foreign: Collection[str] = ()) -> None:
        self.world = world
        self.foreign = set(foreign)  # names of pods that are somebody else's
        self.problems: list[str] = []
        self.ledger = Ledger()
        self.leader: Gateway | None = None
        self.elected = False  # writes need the Lease
        self.set_back_at = -1.0  # when the clock was set back last: what was decided before carries the time before
        self._deposed: Counter[Gateway] = Counter()
        self._late_pods: set[str] = set()  # pods that a write in flight made: nobody's plan
        self._ready: dict[str, tuple[datetime, float, float]] = {}  # pod uid -> Ready since (both clocks), seen so at
        self._lost: dict[str, float] = {}  # pods that the world took, and when
        self._rows: tuple[str, Rows] = ("", {})
        self._asked = (0, 0)  # the current second, requests in it
        world.server.hear = self.hear

    # -- what is heard -------------------------------------------------------------------------------------------------

    def hear(self, event: str, collection: str, old: Json | None, new: Json) -> None:
        """One committed change."""
        actor = self.world.server.actor
        try:
            if collection == "leases":
                self._lease(actor, new)
                return
            if actor is not None:
                self._fenced(actor, collection, new)
            if collection == "pods":
                self._pod(actor, event, old, new)
            elif collection == "events" and actor is not None and event != "DELETED":
                times = max(1, new.get("count", 1) - (old or {}).get("count", 0))  # a lost answer repeats a number
                require(not (said := self.ledger.said(actor, new, times)), said)
            elif collection == "inferencereplicas" and event != "DELETED":
                self._replica(actor, old or {}, new)
        except Broken as broken:
            self.problems.append(str(broken))
        except Exception:  # a mistake of the checks must not look like an answer of the API server
            self.problems.append(f"the check itself failed: {traceback.format_exc()}")

    def asked(self) -> None:
        """A manager sent a request."""
        second = int(asyncio.get_running_loop().time())
        self._asked = (second, self._asked[1] + 1 if self._asked[0] == second else 1)
        if self._asked[1] == STORM:
            self.problems.append(f"{STORM} requests within second {second}")

    def raise_if_broken(self) -> None:
        if self.problems:
            raise Broken("; ".join(self.problems[:3]))

    def _lease(self, actor: Gateway | None, lease: Json) -> None:
        self.leader = actor if lease["spec"].get("holderIdentity") else None

    def _fenced(self, actor: Gateway, collection: str, new: Json) -> None:
        """Who does not hold the Lease writes nothing, but for what was in flight when it was lost."""
        if not self.elected or actor is self.leader:
            return
        self._deposed[actor] += 1
        name = f"{collection} {new['metadata']['name']}"
        require(self._deposed[actor] <= IN_FLIGHT, f"{name} was written by a manager that does not hold the Lease")

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _pod(self, actor: Gateway | None, event: str, old: Json | None, new: Json) -> None:
        meta = new["metadata"]
        for state in (old, new):
            if state is not None and is_ready(state):
                now, since = asyncio.get_running_loop().time(), _ready_since(state)
                known = self._ready.get(meta["uid"])
                began = known[1] if known is not None and known[0] == since else now
                self._ready[meta["uid"]] = (since, began, now)
        if actor is None:
            if event == "DELETED":
                self._lost[meta["name"]] = asyncio.get_running_loop().time()
                self.foreign.discard(meta["name"])  # the name is free again
            return
        leaving = event == "DELETED" or bool(meta.get("deletionTimestamp"))
        leaving = leaving and old is not None and not old["metadata"].get("deletionTimestamp")
        if meta["name"] in self.foreign:
            require(False, f"somebody else's pod {meta['name']} was {'deleted' if leaving else 'changed'}")
        if event == "ADDED":
            self._created(actor, new)
        elif leaving and old is not None:
            self._leaves(old, "deleted")
            require(not self._routed(old), f"{meta['name']} was deleted while an endpoint still sent requests to it")
        elif old is not None and gate(old) == "True" and gate(new) == "False":
            self._leaves(old, "taken out of rotation")

    def _own(self, index: int | None = None) -> list[Json]:
        """Our pods, as far as somebody meant them to be there."""
        return [
            pod
            for pod in self.world.pods()
            if pod["metadata"]["name"] not in self.foreign
            and pod["metadata"]["uid"] not in self._late_pods
            and index in (None, index_of(pod))
        ]

    def _created(self, actor: Gateway, pod: Json) -> None:
        if actor.late:
            self._late_pods.add(pod["metadata"]["uid"])
            return
        name = pod["metadata"]["name"]
        row = self._row(pod)
        require(row is not None, f"{name} was created without a row")
        assert row is not None
        recorded = row.get("operation") or {}
        operation = (pod["metadata"].get("annotations") or {}).get("internal.ome.io/operation", "")
        if operation:
            told = recorded.get("id") == operation
            require(told, f"{name} was created before its operation {operation} was recorded")
        live = [other for other in self._own(index_of(pod)) if not other["metadata"].get("deletionTimestamp")]
        per_instance = sum(runner["size"] for runner in self.world.replica()["spec"]["runners"])
        beside = per_instance == 1 and (recorded.get("step") in ("Surge", "SurgeDrain") or row["phase"] == "Failed")
        allowed = per_instance + beside
        require(len(live) <= allowed, f"{len(live)} pods of Instance {index_of(pod)} with {name}, allowed {allowed}")

    def _leaves(self, pod: Json, how: str) -> None:
        """A manager ends or drains a pod that serves: the recorded operation must say so, and keep its promise."""
        if gate(pod) != "True" or not is_ready(pod):
            return
        name = pod["metadata"]["name"]
        if self.world.replica()["metadata"].get("deletionTimestamp"):
            return
        require(how != "deleted", f"{name} was deleted while it was in rotation")
        row = self._row(pod)
        require(row is not None, f"{name} {how} without a row")
        assert row is not None
        operation = row.get("operation") or {}
        step = operation.get("step")
        if step == "CreatePods":  # what is left of an attempt that broke apart: alone it is no Instance
            whole = sum(runner["size"] for runner in self.world.replica()["spec"]["runners"])
            serving = [other for other in self._live(index_of(pod)) if gate(other) == "True" and is_ready(other)]
            left = {other["metadata"]["uid"] for other in serving} | {pod["metadata"]["uid"]}
            require(len(left) < whole, f"{name} {how} by a new attempt although all of the Instance served")
            return
        require(step in DRAINING, f"{name} {how} with operation {operation.get('type')}/{step}, phase {row['phase']}")
        if step == "SurgeDrain":
            require(self._taken_over(row), f"{name} {how} although its successor was never seen ready")

    def _routed(self, pod: Json) -> bool:
        """Whether its revision's Service lists it as ready, and rightly so not long ago: it was not drained."""
        if gate(pod) == "" or self.world.replica()["metadata"].get("deletionTimestamp"):
            return False
        service = f"chat-engine-rev-{digest_of(pod)}"
        found = self.world.server.get("endpointslices", "prod", service) or {}
        uid = pod["metadata"]["uid"]
        return any(e["targetRef"]["uid"] == uid and e["conditions"]["ready"] for e in found.get("endpoints") or [])

    def _taken_over(self, row: Json, *, within: float | None = None, window: float = 0.0) -> bool:
        """Whether the pods that take over in this surge were Ready for `window` seconds, and lately (`within`)."""
        successors = self._successors(row)
        now = asyncio.get_running_loop().time()
        index, surge_index = row.get("index", 0), row["operation"].get("surgeIndex")
        slot = f"{index}-default-{1 - row.get('activeOrdinal', 0)}" if surge_index is None else f"{surge_index}-"
        taken = [at for name, at in self._lost.items() if name.startswith(f"chat-engine-{slot}")]
        if taken and now - max(taken) < MEMORY:
            return True  # the world took it from a manager that had seen it
        for pod in successors:
            since, began, at = self._ready.get(pod["metadata"]["uid"], (None, 0.0, 0.0))
            if since is None:
                return False
            at = now if is_ready(pod) else at
            if within is not None and now - at > within:
                return False
            ready_for = (self.world.clock.now() - since).total_seconds() - (now - at)
            if max(ready_for, at - began) < window - 1:  # by either clock: one may have been set back since
                return False
        return bool(successors)

    def _successors(self, row: Json) -> list[Json]:
        """The other slot of a single pod, or the whole replacement of a gang."""
        surge_index = row["operation"].get("surgeIndex")
        if surge_index is not None:
            return self._own(surge_index)
        other = str(1 - row.get("activeOrdinal", 0))
        return [p for p in self._own(row.get("index", 0)) if p["metadata"]["labels"]["ome.io/pod-ordinal"] == other]

    def rows(self) -> Rows:
        """The Instances by index."""
        replica = self.world.replica()
        version = replica["metadata"]["resourceVersion"]
        if self._rows[0] != version:
            self._rows = (version, by_index(replica.get("status") or {}))
        return self._rows[1]

    def _row(self, pod: Json) -> Json | None:
        return self.rows().get(index_of(pod))

    # -- status --------------------------------------------------------------------------------------------------------

    def _replica(self, actor: Gateway | None, old: Json, new: Json) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        if before == after or actor is None:
            return
        rows = by_index(after)
        was = by_index(before)
        require(len(rows) == len(rows_of(after)), "an index twice")
        for reason, optional in transitions(was, rows):
            self.ledger.book(actor, reason, optional=optional)
        self._blocks(actor, old, after, rows, was)
        now = self.world.clock.now()
        starts.gate(before, was, after, rows, now)
        starts.pauses(new["spec"], was, rows)
        if not new["metadata"].get("deletionTimestamp"):
            starts.counts(new["spec"], was, rows)
        digests = {index: {digest_of(pod) for pod in self._live(index)} for index in rows}
        starts.budgets(new["spec"], was, rows, after.get("updateRevision", ""), digests)
        starts.surges(new["spec"], was, rows, self._own(), now)
        self._takes_over(new["spec"], was, rows)

    def _live(self, index: int) -> list[Json]:
        return [pod for pod in self._own(index) if not pod["metadata"].get("deletionTimestamp")]

    def _takes_over(self, spec: Json, was: Rows, rows: Rows) -> None:
        """A surge goes on to drain only after its new pods were Ready for as long as the user asks."""
        window = float(spec.get("minReadySeconds") or 0)
        for index, row in rows.items():
            step, earlier = (r.get("operation") or {} for r in (row, was.get(index, {})))
            if step.get("step") == "SurgeDrain" and earlier.get("step") != "SurgeDrain":
                told = f"Instance {index} drains although its successor was not ready for {window:g} s"
                require(self._taken_over(row, within=MEMORY, window=window), told)

    # -- retry blocks --------------------------------------------------------------------------------------------------

    def _blocks(self, actor: Gateway, old: Json, after: Json, rows: Rows, was_rows: Rows) -> None:
        before = old.get("status") or {}
        was = {block["targetRevision"]: block for block in before.get("retryBlocks") or []}
        names = Counter(block["targetRevision"] for block in after.get("retryBlocks") or [])
        require(max(names.values(), default=1) == 1, f"two blocks for one revision: {names}")
        others = [name for name in names if name != after.get("updateRevision")]
        require(len(others) <= KEPT_OTHERS, f"{len(others)} blocks beside the target's")
        for block in after.get("retryBlocks") or []:
            self._block(was.get(block["targetRevision"]), block)
        for index, row in rows.items():
            name = row.get("runningRevision", "")
            if _ready_on(row, name) and not _ready_on(was_rows.get(index, {}), name) and name in names:
                again = next(block for block in after["retryBlocks"] if block["targetRevision"] == name)
                fresh = again.get("lastFailureAt") != was.get(name, {}).get("lastFailureAt")
                require(fresh, f"{name}: the block outlives that Instance {index} is Ready on it")
        for name, block in was.items():
            if name not in names and block["state"] == "Held":
                self._left(actor, old, after, name, rows, was_rows)

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
                self.ledger.held[name] = asyncio.get_running_loop().time()
        if state == "Backoff":
            require("nextRetryAt" in block, f"{name}: Backoff without a time")
        require(was is None or was["state"] != "Held" or state == "Held", f"{name}: Held became {state}")
        for key in ("firstFailureAt", "lastFailureAt"):
            just_set_back = asyncio.get_running_loop().time() - self.set_back_at < 1
            if (was is None or was.get(key) != block[key]) and not just_set_back:
                require(parse_timestamp(block[key]) <= self.world.clock.now(), f"{name}: {key} lies in the future")

    def _left(self, actor: Gateway, old: Json, after: Json, name: str, rows: Rows, was: Rows) -> None:
        """A Held block went: released, replaced, converged, or pushed out by newer ones. There is no other door."""
        self.ledger.held.pop(name, None)  # what was held for a moment only need not be told
        asked = (old["metadata"].get("annotations") or {}).get("ome.io/release-held-revision")
        if asked in (name, name.rpartition("-")[2]):
            self.ledger.book(actor, "RetryBlockReleased")
            return
        targets = {(row.get("operation") or {}).get("targetRevision") for row in rows.values()}
        replaced = name not in (after.get("currentRevision"), after.get("updateRevision"), *targets)
        was_ready = {index for index, row in was.items() if _ready_on(row, name)}
        converged = any(_ready_on(row, name) and index not in was_ready for index, row in rows.items())
        require(replaced or converged, f"{name}: a Held block left by no door")

    # -- the end -------------------------------------------------------------------------------------------------------

    def healed(self) -> None:
        """Managers work undisturbed for a while: a hold that stood before has been said by now, whoever died."""
        now = asyncio.get_running_loop().time()
        untold = [name for name, since in self.ledger.held.items() if now - since > MEMORY]
        require(not untold, f"nobody said that {untold} is held")

    def at_rest(self) -> None:
        """Nothing goes on any more: every event that was due has been written."""
        require(not (missing := self.ledger.missing()), missing)


def by_index(status: Json) -> Rows:
    return {row.get("index", 0): row for row in rows_of(status)}


def index_of(pod: Json) -> int:
    return int(pod["metadata"]["labels"]["ome.io/instance-index"])


def digest_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"].get("ome.io/revision-hash", ""))


def _ready_on(row: Json, revision: str) -> bool:
    return row.get("phase") == "Ready" and row.get("runningRevision") == revision


def gate(pod: Json) -> str:
    """The serving gate's status."""
    return str(_condition(pod, "ome.io/serving").get("status", ""))


def is_ready(pod: Json) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def _ready_since(pod: Json) -> datetime:
    return parse_timestamp(_condition(pod, "Ready")["lastTransitionTime"])


def _condition(pod: Json, type_: str) -> Json:
    conditions: list[Json] = (pod.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == type_), {})
