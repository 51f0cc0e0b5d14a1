"""The predicates that read a service's InferenceReplicas: migration, replica counts, held revisions. Pure.

Each is bound to one InferenceReplica: the one named on the command line, or the one its first look finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ome.api.keys import RELEASE_HELD_REVISION
from ome.cli.actions.target import is_placed
from ome.cli.evidence import objects, rows
from ome.cli.evidence.instances import component_instances
from ome.cli.evidence.replicas import belongs_to, component_of, is_current, is_observed
from ome.cli.evidence.retry_blocks import MAX_BLOCKS, STATES, block_issues, repeated_targets, stored_blocks
from ome.cli.wait.observation import UNAVAILABLE, Ended, Observation, Snapshot, interpretation
from ome.cli.wait.request import WaitRequest

CANCELLATION = ("Cancellation", "Cooperative requests; plugins may ignore it")
MIGRATION_PHASES = ("Accepted", "SurgePending", "SurgeReady", "Draining", "Completed", "Failed", "Relocated")
TERMINAL = ("Completed", "Failed", "Relocated")

Values = dict[str, Any]


def _mine(snapshot: Snapshot) -> list[Mapping[str, Any]]:
    return [replica for replica in snapshot.replicas if belongs_to(replica, snapshot.service)]


class MigrationCheck:
    """The migration with the request ID has ended, one way or another."""

    requested = "Migration=Terminal"
    watches = False
    reads_replicas = True

    def __init__(self, request: WaitRequest) -> None:
        self._request_id = request.request_id

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        values: Values = self._unknown() | {"sources": len(snapshot.replicas)}
        records = [
            (replica, entry) for replica in _mine(snapshot) for entry in objects.items(replica, "status", "migrations")
        ]
        values["records"] = len(records)
        found = [
            (replica, entry) for replica, entry in records if objects.text(entry, "requestUUID") == self._request_id
        ]
        if not found:
            if snapshot.truncated:
                return Observation(False, "InvalidMigration", "Unavailable", values | {"validity": "Invalid"})
            return Observation(False, "MigrationNotRecorded", "Unavailable", values)
        replica, entry = found[0]
        phase = objects.text(entry, "phase")
        values |= {"phase": phase, "component": component_of(replica), "outcome": _migration_outcome(entry)}
        if len(found) > 1 or phase not in MIGRATION_PHASES or not is_observed(replica):
            return Observation(False, "InvalidMigration", "Unavailable", values | {"validity": "Invalid"})
        values["validity"] = "Valid"
        matched = phase in TERMINAL
        return Observation(matched, "MigrationMatched" if matched else "MigrationInProgress", "Reported", values)

    def _unknown(self) -> Values:
        return {
            "phase": "Unknown",
            "outcome": "Unknown",
            "component": "",
            "validity": "Unavailable",
            "sources": 0,
            "records": 0,
        }

    def absent(self) -> Observation:
        return Observation(False, "MigrationNotRecorded", "Unavailable", self._unknown())

    def _attribution(self, ended: Ended) -> str:
        if ended.outcome == "Matched":
            return "Exact request ID in live IR status"
        return "Request ID not verified in live IR status"

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        values = ended.last.values
        found = [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Request ID", self._request_id),
            ("Outcome", ended.outcome),
            ("Migration phase", values["phase"]),
            ("Migration outcome", values["outcome"]),
            ("Component", values["component"]),
            ("Migration validity", values["validity"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Attribution", self._attribution(ended)),
            ("Source method", ended.source_method),
            ("Polling fallback", ended.fallback),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
            ("GET / WATCH / polls", ended.reads),
        ]
        if wide:
            found += [
                ("Inspected IR sources", str(values["sources"])),
                ("Inspected records", str(values["records"])),
                CANCELLATION,
            ]
        return found

    def content(self, ended: Ended) -> dict[str, Any]:
        values = ended.last.values
        document = {
            "requestID": self._request_id,
            "phase": values["phase"],
            "migrationOutcome": values["outcome"],
            "validity": values["validity"],
        }
        if values["component"]:
            document["component"] = values["component"]
        return {"migration": document}


def _migration_outcome(entry: Mapping[str, Any]) -> str:
    phase = objects.text(entry, "phase")
    if phase == "Relocated":
        return "RelocationConfirmed" if entry.get("succeeded") is True else "Relocated"
    if phase in TERMINAL:
        return phase
    return "InProgress" if phase in MIGRATION_PHASES else "Unknown"


def _has_gap(replica: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Rows that contradict themselves, or whose indices have a gap."""
    return component_instances(replica, service).evidence.partition(":")[0] in (
        "BAD",
        "SPARSE",
        "NOT-REPORTED",
        "ROWS-LIMIT",
    )


class _Bound:
    """Remembers which InferenceReplica the wait is about."""

    def __init__(self, name: str = "", uid: str = "") -> None:
        self._name, self._uid = name, uid

    def is_other(self, replica: Mapping[str, Any]) -> bool:
        """Binds at the first look; afterwards says whether this is another one."""
        if not self._uid:
            self._name, self._uid = objects.name(replica), objects.uid(replica)
        return (objects.name(replica), objects.uid(replica)) != (self._name, self._uid)


class ReadyReplicasCheck:
    """`status.readyReplicas` is exactly the number."""

    requested = "Replicas=Ready"
    watches = False
    reads_replicas = True

    def __init__(self, request: WaitRequest) -> None:
        self._component, self._count = request.component, request.replicas or 0
        self._bound = _Bound()

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        nothing: Values = {"ready": None, "validity": "Unavailable"}
        mine = _mine(snapshot)
        chosen = [replica for replica in mine if component_of(replica) == self._component]
        invalid = Observation(False, "InvalidReplicaReadyEvidence", "Unavailable", nothing | {"validity": "Invalid"})
        if not chosen:
            return Observation(False, "ReplicaReadyNotRecorded", "Unavailable", nothing)
        if len(chosen) > 1 or snapshot.truncated or self._bound.is_other(chosen[0]):
            return invalid
        if any(objects.is_deleting(r) or not is_observed(r) or _has_gap(r, snapshot.service) for r in mine):
            return invalid
        ready = objects.count(chosen[0], "status", "readyReplicas")
        if not 0 <= ready <= objects.count(chosen[0], "status", "replicas"):
            return invalid
        matched = ready == self._count
        values: Values = {"ready": ready, "validity": "Valid"}
        return Observation(matched, f"ReplicaReady{'' if matched else 'Not'}Matched", "Reported", values)

    def absent(self) -> Observation:
        values: Values = {"ready": None, "validity": "Unavailable"}
        return Observation(False, "ReplicaReadyNotRecorded", "Unavailable", values)

    def _interpretation(self, ended: Ended) -> str:
        return interpretation(ended, "Exact at observed IR snapshot", "No verified exact count")

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        values = ended.last.values
        found = [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Component", self._component),
            ("Target ready", str(self._count)),
            ("Outcome", ended.outcome),
            ("Observed ready", _number(values["ready"])),
            ("Count validity", values["validity"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Interpretation", self._interpretation(ended)),
            ("Source method", ended.source_method),
            ("Polling fallback", ended.fallback),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
            ("GET / WATCH / polls", ended.reads),
            ("Count authority", "IR status; not /scale or an action receipt"),
            ("Readiness caveat", "Ready count; not serving or availability"),
        ]
        return [*found, CANCELLATION] if wide else found

    def content(self, ended: Ended) -> dict[str, Any]:
        values = ended.last.values
        document: dict[str, Any] = {"component": self._component, "target": self._count}
        if values["ready"] is not None:
            document["observed"] = values["ready"]
        document |= {"validity": values["validity"], "interpretation": self._interpretation(ended)}
        return {"readyReplicas": document}


def _number(value: int | None) -> str:
    return UNAVAILABLE if value is None else str(value)


class CurrentReplicasCheck:
    """`spec.replicas` and `status.replicas` are both exactly the number."""

    requested = "Replicas=Current"
    watches = False
    reads_replicas = True

    def __init__(self, request: WaitRequest) -> None:
        self._component, self._count = request.component, request.replicas or 0
        self._bound = _Bound(request.ir_name, request.ir_uid)

    def _nothing(self) -> Values:
        return {
            "spec": None,
            "current": None,
            "ready": None,
            "encoding": "",
            "validity": "Unavailable",
            "freshness": "Unavailable",
        }

    def absent(self) -> Observation:
        return Observation(False, "ReplicaScaleNotRecorded", "Unavailable", self._nothing())

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        values = self._nothing()
        target = objects.get(snapshot.service, "status", "components", self._component, "scaleTargetRef")
        if isinstance(target, Mapping) and (
            objects.text(target, "apiVersion"),
            objects.text(target, "kind"),
        ) != ("ome.io/v1beta1", "InferenceReplica"):
            return Observation(False, "UnsupportedReplicaScaleTarget", "Unavailable", values | {"validity": "Invalid"})
        claimed = [replica for replica in snapshot.replicas if component_of(replica) == self._component]
        if not claimed:
            return self.absent()
        invalid = Observation(False, "InvalidReplicaScaleEvidence", "Unavailable", values | {"validity": "Invalid"})
        replica = claimed[0]
        if len(claimed) > 1 or snapshot.truncated or self._bound.is_other(replica):
            return invalid
        if objects.is_deleting(replica) or not belongs_to(replica, snapshot.service):
            return invalid
        if not is_current(replica, snapshot.service):
            return Observation(False, "ReplicaScaleNotRecorded", "Unavailable", values | {"freshness": "Stale"})
        wanted, current, ready = (
            objects.count(replica, "spec", "replicas"),
            objects.count(replica, "status", "replicas"),
            objects.count(replica, "status", "readyReplicas"),
        )
        evidence = component_instances(replica, snapshot.service).evidence
        if evidence.startswith("BAD") or wanted < 0 or not 0 <= ready <= current:
            return invalid
        values = {
            "spec": wanted,
            "current": current,
            "ready": ready,
            "encoding": rows.encoding(replica),
            "validity": "Valid",
            "freshness": "Current",
        }
        matched = wanted == current == self._count
        return Observation(matched, f"ReplicaScale{'' if matched else 'Not'}Matched", "Reported", values)

    def _interpretation(self, ended: Ended) -> str:
        return interpretation(ended, "Exact desired and current count at IR snapshot", "No verified exact scale count")

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        values = ended.last.values
        return [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Component", self._component),
            ("Target replicas", str(self._count)),
            ("Outcome", ended.outcome),
            ("Spec replicas", _number(values["spec"])),
            ("Current replicas", _number(values["current"])),
            ("Ready replicas", _number(values["ready"])),
            ("Status encoding", values["encoding"]),
            ("Validity", values["validity"]),
            ("Freshness", values["freshness"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Interpretation", self._interpretation(ended)),
            ("Count caveat", "Current = logical Instances any phase; Ready separate"),
            ("Attribution", "Exact IR snapshot; not action attribution"),
            ("Source method", ended.source_method),
            ("GET / WATCH / polls", ended.reads),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
        ]

    def content(self, ended: Ended) -> dict[str, Any]:
        values = ended.last.values
        names = (("specReplicas", "spec"), ("currentReplicas", "current"), ("readyReplicas", "ready"))
        document: dict[str, Any] = {"component": self._component, "target": self._count}
        document |= {key: values[name] for key, name in names if values[name] is not None}
        if values["encoding"]:
            document["statusEncoding"] = values["encoding"]
        document |= {
            "validity": values["validity"],
            "freshness": values["freshness"],
            "interpretation": self._interpretation(ended),
        }
        return {"scale": document}


class HeldRevisionCheck:
    """The revision's block is not Held on that InferenceReplica, and no release request waits there."""

    requested = "HeldRevision=Unheld"
    watches = False
    reads_replicas = True

    def __init__(self, request: WaitRequest) -> None:
        self._request = request

    def _nothing(self) -> Values:
        return {
            "replica": "",
            "uid": "",
            "encoding": "",
            "state": "Unknown",
            "mailbox": "Unknown",
            "validity": "Unavailable",
            "sources": 0,
            "blocks": 0,
        }

    def absent(self) -> Observation:
        return Observation(False, "SourceIncomplete", "Unavailable", self._nothing() | {"validity": "Partial"})

    def _source(self, snapshot: Snapshot) -> tuple[Mapping[str, Any] | None, str, str]:
        """(the replica, reason, validity): no reason when it is the one asked for, sound and current."""
        request = self._request
        if is_placed(snapshot.service):
            return None, "UnsupportedPlacement", "Invalid"
        found = [replica for replica in snapshot.replicas if objects.name(replica) == request.ir_name]
        if not found:
            return None, ("SourceIncomplete" if snapshot.truncated else "ReplicaMissing"), "Unavailable"
        replica = found[0]
        if objects.uid(replica) != request.ir_uid:
            return None, "ReplicaReplaced", "Invalid"
        if objects.is_deleting(replica):
            return None, "Deleting", "Invalid"
        if is_placed(replica):
            return None, "UnsupportedPlacement", "Invalid"
        if not belongs_to(replica, snapshot.service) or component_of(replica) != request.component:
            return None, "SourceInvalid", "Invalid"
        if not is_current(replica, snapshot.service):
            return replica, "SourceStale", "Partial"
        return replica, "", "Valid"

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        values = self._nothing() | {"sources": len(snapshot.replicas)}
        replica, reason, validity = self._source(snapshot)
        values["validity"] = validity
        if replica is None:
            return Observation(False, reason, "Unavailable", values)
        values |= {
            "replica": objects.name(replica),
            "uid": objects.uid(replica),
            "encoding": rows.encoding(replica),
            "mailbox": self._mailbox(replica),
        }
        if reason:
            return Observation(False, reason, "Unavailable", values)
        try:
            rows.decode(replica)
        except rows.RowsError:
            return Observation(False, "InvalidStatus", "Unavailable", values | {"validity": "Invalid"})
        return self._observe_blocks(snapshot.service, replica, values, now)

    def _observe_blocks(
        self, service: Mapping[str, Any], replica: Mapping[str, Any], values: Values, now: datetime
    ) -> Observation:
        blocks = stored_blocks(replica)
        if blocks is None or len(blocks) > MAX_BLOCKS or _blocks_are_bad(service, replica, blocks, now):
            return Observation(False, "InvalidRetryBlocks", "Unavailable", values | {"validity": "Invalid"})
        values["blocks"] = len(blocks)
        mine = next((b for b in blocks if objects.text(b, "targetRevision") == self._request.revision), None)
        values["state"] = objects.text(mine, "state") if mine is not None else "Absent"
        if values["mailbox"] != "Absent":
            return Observation(False, f"Mailbox{values['mailbox']}", "Reported", values)
        held = values["state"] == "Held"
        return Observation(not held, "Held" if held else "Unheld", "Reported", values)

    def _mailbox(self, replica: Mapping[str, Any]) -> str:
        asked = objects.annotation(replica, RELEASE_HELD_REVISION)
        if asked is None:
            return "Absent"
        mine = (self._request.revision, self._request.revision.rpartition("-")[2])
        return "Pending" if asked in mine else "Superseded"

    def _interpretation(self, ended: Ended) -> str:
        return interpretation(ended, "Exact revision no longer Held on original IR", "No verified current unheld state")

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        values = ended.last.values
        found = [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Component", self._request.component),
            ("Revision", self._request.revision),
            ("InferenceReplica", values["replica"]),
            ("Outcome", ended.outcome),
            ("Target state", values["state"]),
            ("Mailbox", values["mailbox"]),
            ("Validity", values["validity"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Interpretation", self._interpretation(ended)),
            ("Attribution", "Unverifiable; not action attribution"),
            ("State caveat", "Pruning/re-Held races; no request receipt"),
            ("Source method", ended.source_method),
            ("GET / WATCH / polls", ended.reads),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
        ]
        if wide:
            found += [
                ("InferenceReplica UID", values["uid"]),
                ("Status encoding", values["encoding"]),
                ("Inspected sources / blocks", f"{values['sources']} / {values['blocks']}"),
                ("Read scope", "InferenceService and its InferenceReplicas"),
                CANCELLATION,
            ]
        return found

    def content(self, ended: Ended) -> dict[str, Any]:
        values, request = ended.last.values, self._request
        document: dict[str, Any] = {
            "component": request.component,
            "revision": request.revision,
            "inferenceReplica": values["replica"],
            "inferenceReplicaUID": values["uid"],
            "statusEncoding": values["encoding"],
            "targetState": values["state"],
            "mailbox": values["mailbox"],
            "validity": values["validity"],
            "interpretation": self._interpretation(ended),
        }
        return {"heldRevision": {key: value for key, value in document.items() if value}}


def _blocks_are_bad(
    service: Mapping[str, Any], replica: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], now: datetime
) -> bool:
    """A block that only paces (no attempts) is not of interest here; every other contradiction is."""
    repeated = repeated_targets(blocks)
    for block in blocks:
        target = objects.text(block, "targetRevision")
        codes = block_issues(block, objects.name(service), component_of(replica), target in repeated, now)
        if set(codes) - {"AttemptsInvalid"} or block.get("state") not in STATES:
            return True
    return False
