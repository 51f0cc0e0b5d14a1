"""Events neither missing nor doubled: every committed transition owes an event, every event answers one transition.

Each manager has an account of its own. A status commit books the events that must follow it; an Event that the same
manager writes settles the oldest debt of that reason. An Event without a debt is doubled. A debt that is open when the
world is quiet is a missing one. A crash, a lost answer or a refused request may cost the events that were due at that
moment and nothing else: then the account is closed and what it owed is written off. Only `RetryHeld` is never written
off while its block stands: the next pass, or the next manager, has to say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .server import Gateway, Json

Rows = dict[int, Json]

MARKED = {
    "DrainOverdue",
    "FoundOrphan",
    "InPlaceUpdateNotPossible",
    "InstanceFailed",
    "InstanceQuotaBlocked",
    "RepairHeld",
}
"""Events announced by a marker on the row: one new marker, one event."""
BOOKED = MARKED | {
    "CreateAttemptSuperseded",
    "GangSurgeAbandoned",
    "InPlaceUpdateCompleted",
    "InPlaceUpdateStarted",
    "InstanceCreated",
    "InstanceReady",
    "RecreateUpdateCompleted",
    "RecreateUpdateStarted",
    "RestartCompleted",
    "RestartTriggered",
    "RetryBlockReleased",
    "RetryHeld",
}


class Ledger:
    """Debts and Events of one world."""

    def __init__(self) -> None:
        self._owed: dict[Gateway, Counter[str]] = {}
        self._optional: dict[Gateway, Counter[str]] = {}
        self.held: dict[str, float] = {}
        """RetryHeld still to be said, by revision, and since when: owed by whoever leads."""

    def book(self, actor: Gateway, reason: str, *, optional: bool = False) -> None:
        """A transition was committed by `actor`. Optional: the event may follow, and need not."""
        book = self._optional if optional else self._owed
        book.setdefault(actor, Counter())[reason] += 1

    def write_off(self, actor: Gateway) -> None:
        """A request of this manager went wrong, or it died: what it owed may never be said, and may still be."""
        owed = self._owed.pop(actor, Counter())
        self._optional.setdefault(actor, Counter()).update(owed)

    def said(self, actor: Gateway, event: Json, times: int) -> str:
        """An Event was written or repeated; the complaint, if there was no reason to."""
        reason = event["reason"]
        if reason == "RetryHeld":
            revision = next((name for name in self.held if f" {name} " in event["message"]), "")
            if not revision:
                return f"RetryHeld is doubled: {event['message']}"
            del self.held[revision]
            return ""
        if reason not in BOOKED:
            return ""
        for _ in range(times):
            for book in (self._owed, self._optional):
                if book.get(actor, Counter())[reason] > 0:
                    book[actor][reason] -= 1
                    break
            else:
                return f"{reason} is doubled: {event['message']}"
        return ""

    def missing(self) -> str:
        """The debts that are open although nothing goes on any more."""
        open_ = {reason: count for owed in self._owed.values() for reason, count in owed.items() if count > 0}
        if self.held:
            open_["RetryHeld"] = len(self.held)
        return ", ".join(f"{count} {reason} missing" for reason, count in open_.items())


def transitions(before: Rows, after: Rows) -> Iterator[tuple[str, bool]]:
    """The events that a status commit owes, and whether each is optional."""
    for index, row in after.items():
        was = before.get(index, {})
        yield from _markers(was, row)
        yield from _ended(was, row)
        yield from _opened(was, row)


def _markers(was: Json, row: Json) -> Iterator[tuple[str, bool]]:
    for marker in set(row.get("announced") or []) - set(was.get("announced") or []):
        reason = marker.partition("@")[0]
        if reason in MARKED:
            yield reason, False


def _opened(was: Json, row: Json) -> Iterator[tuple[str, bool]]:
    operation, old = row.get("operation"), was.get("operation") or {}
    if operation is None or operation["id"] == old.get("id"):
        return
    kind, step = operation["type"], operation["step"]
    if kind == "Update" and step != "GangSurgeTarget":
        yield ("InPlaceUpdateStarted" if step == "InPlace" else "RecreateUpdateStarted"), False
    elif kind == "Restart":
        yield "RestartTriggered", False
    elif kind == "Create" and old.get("type") == "Create" and row["phase"] == was.get("phase") == "Creating":
        yield "CreateAttemptSuperseded", False
    elif kind == "Create" and not row.get("lastFailure") and was.get("phase", "Creating") == "Creating":
        yield "InstanceCreated", bool(was.get("runningRevision"))


def _ended(was: Json, row: Json) -> Iterator[tuple[str, bool]]:
    old, operation = was.get("operation"), row.get("operation") or {}
    if not was or row["phase"] == "Deleting":
        return
    if old is None or operation.get("id") == old["id"]:
        if was["phase"] == "Failed" != row["phase"]:  # healed, and perhaps begun anew in the same pass
            yield "InstanceReady", row["phase"] != "Ready"
        elif was.get("runningRevision") != row.get("runningRevision"):  # begun and done in one pass
            for reason in ("InPlaceUpdate", "RecreateUpdate"):
                yield f"{reason}Started", True
                yield f"{reason}Completed", True
        return
    if operation.get("step") == "GangSurgeTarget":
        return  # another Instance at the index that a finished surge has just left
    target = old.get("targetRevision")
    if was["phase"] == "Failed":
        yield "InstanceReady", row["phase"] != "Ready"
    elif row["phase"] == "Failed" and not operation:
        return
    elif old["type"] == "Update" and row.get("runningRevision") == target:
        done = "InPlaceUpdateCompleted" if old["step"] == "InPlace" else "RecreateUpdateCompleted"
        yield done, row["phase"] != "Ready"
    elif old["type"] == "Update" and old["step"] in ("Surge", "SurgeDrain") and "surgeIndex" not in old:
        yield "RecreateUpdateStarted", False  # abandoned
    elif old["type"] == "Update" and "surgeIndex" in old:
        yield "GangSurgeAbandoned", False
    elif old["type"] == "Restart":
        yield "RestartCompleted", row["phase"] != "Ready"
    elif old["type"] == "Create" and operation.get("type") != "Create" and row.get("runningRevision") == target:
        yield "InstanceReady", row["phase"] != "Ready"
