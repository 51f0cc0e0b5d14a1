"""The predicates that need only the service: `condition=Ready`, `rollout=...`, `runtime-sync=acknowledged`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ome.api.keys import RUNTIME_SYNC
from ome.cli.actions.runtime_token import TOKEN_PREFIX
from ome.cli.actions.target import MAX_FINALIZERS, is_placed
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.evidence.conditions import MAX_CONDITIONS, NOT_INSPECTED, Ready, inspect_ready
from ome.cli.evidence.rollout import NOT_CONFIGURED, malformed, rollout
from ome.cli.wait.observation import UNMET, Ended, Observation, Snapshot, interpretation
from ome.cli.wait.request import WaitRequest

CONDITION_LIMIT = "ConditionInspectionLimit"
ROLLOUT_LIMIT = "RolloutInspectionLimit"
MAX_ROLLOUT_BYTES = 1 << 20


def _check_condition_count(service: Mapping[str, Any]) -> None:
    if len(objects.items(service, "status", "conditions")) > MAX_CONDITIONS:
        raise CliError(CONDITION_LIMIT)


class ReadyCheck:
    """Ready is recorded, valid and has the wanted status."""

    watches = True
    reads_replicas = False

    def __init__(self, request: WaitRequest) -> None:
        self._wanted = request.wanted
        self.requested = f"Ready={request.wanted}"

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        _check_condition_count(snapshot.service)
        found = inspect_ready(snapshot.service, now)
        if found.validity == "Unavailable":
            return Observation(False, "ConditionNotRecorded", "Unavailable", {"ready": found})
        if found.validity == "Invalid":
            return Observation(False, "InvalidCondition", "Reported", {"ready": found})
        matched = found.status == self._wanted
        return Observation(matched, f"Condition{'' if matched else 'Not'}Matched", "Reported", {"ready": found})

    def absent(self) -> Observation:
        return Observation(False, UNMET, "Unavailable", {"ready": NOT_INSPECTED})

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        ready: Ready = ended.last.values["ready"]
        return [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Outcome", ended.outcome),
            ("Observed Ready", ready.status),
            ("Condition validity", ready.validity),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Generation freshness", "Unverifiable"),
            ("Freshness caveat", "Reported condition; not current-spec convergence"),
            ("Condition inspection", ready.inspection.text),
            *(("Inspection warning", warning) for warning in ready.inspection.warnings),
            ("Source method", ended.source_method),
            ("Polling fallback", ended.fallback),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
            ("GET / WATCH / polls", ended.reads),
            ("Events / observations", ended.looks),
        ]

    def content(self, ended: Ended) -> dict[str, Any]:
        ready: Ready = ended.last.values["ready"]
        observed = {
            "status": ready.status,
            "validity": ready.validity,
            "generationFreshness": "Unverifiable",
            "inspection": ready.inspection.to_dict(),
        }
        return {"observed": observed}


_ROLLOUT_NAMES = {"Succeeded": "Stable", "Failed": "Failed", "RolledBack": "RolledBack"}
_UNREAD: dict[str, Any] = {"rollout": None, "validity": "Unavailable"}


class RolloutCheck:
    """The reported rollout is the wanted state."""

    watches = True
    reads_replicas = False

    def __init__(self, request: WaitRequest) -> None:
        self._wanted = request.wanted
        self.requested = f"Rollout={_ROLLOUT_NAMES[request.wanted]}"

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        service = snapshot.service
        if len(objects.encoded(objects.get(service, "status", "rollout"))) > MAX_ROLLOUT_BYTES:
            raise CliError(ROLLOUT_LIMIT)
        if malformed(service):
            return Observation(False, "InvalidRollout", "Reported", _UNREAD | {"validity": "Invalid"})
        found = rollout(service)
        missing = any(issue.code.endswith("Missing") for issue in found.issues)
        if missing:
            return Observation(
                False, "RolloutNotRecorded", "Unavailable", {"rollout": found, "validity": "Unavailable"}
            )
        matched = found.reported == self._wanted
        evidence = "Unavailable" if found.reported == NOT_CONFIGURED else "Reported"
        values = {"rollout": found, "validity": "Valid"}
        return Observation(matched, f"Rollout{'' if matched else 'Not'}Matched", evidence, values)

    def absent(self) -> Observation:
        return Observation(False, UNMET, "Unavailable", _UNREAD)

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        found = ended.last.values["rollout"]
        inspection = "Complete" if found is not None else "NotInspected"
        rows = [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Outcome", ended.outcome),
            ("Reported rollout", found.reported if found else "Unknown"),
            ("Rollout state", found.state if found else "Unknown"),
            ("Rollout validity", ended.last.values["validity"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Rollout epoch", found.epoch if found else "Unverifiable"),
            ("Coordination Ready", found.coordination if found else "Unobserved"),
            ("Freshness caveat", "Reported rollout; not current-spec convergence"),
            ("Attribution caveat", "Same-object state; not action attribution"),
            ("Rollout inspection", inspection),
            ("Expansion", "JSON/YAML retain complete safe report values"),
            ("Source method", ended.source_method),
            ("Polling fallback", ended.fallback),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
            ("GET / WATCH / polls", ended.reads),
            ("Events / observations", ended.looks),
            *(("Rollout issue", issue.text) for issue in (found.issues if found else ())),
        ]
        if wide:
            rows.append(("Inspected components", str(len(found.components) if found else 0)))
            rows.append(("Cancellation", "Cooperative requests; plugins may ignore it"))
        return rows

    def content(self, ended: Ended) -> dict[str, Any]:
        found = ended.last.values["rollout"]
        document: dict[str, Any] = {"validity": ended.last.values["validity"]}
        if found is not None:
            document |= {
                "reportedState": found.reported,
                "state": found.state,
                "epoch": found.epoch,
                "coordinationReady": found.coordination,
                "issues": [issue.text for issue in found.issues],
            }
        return {"rollout": document}


def _token_state(service: Mapping[str, Any], token: str) -> str:
    asked = objects.get(service, "metadata", "annotations", RUNTIME_SYNC)
    recorded = objects.get(service, "status", "lastRuntimeSyncToken")
    if any(value is not None and not isinstance(value, str) for value in (asked, recorded)):
        return "Invalid"
    if asked == token:
        return "Acknowledged" if recorded == token else "Pending"
    if recorded == token:
        # Removed afterwards, or replaced by a newer request.
        return "Superseded" if asked else "StatusOnly"
    return "Superseded" if asked else "Absent"


def _drift(service: Mapping[str, Any]) -> str:
    found = [
        entry
        for entry in objects.items(service, "status", "conditions")
        if isinstance(entry, Mapping) and entry.get("type") == "RuntimeDrifted"
    ]
    if not found:
        return "Clear"
    status = objects.text(found[0], "status")
    return f"Reported{status}" if len(found) == 1 and status in ("True", "False", "Unknown") else "Invalid"


def _managed_pin(service: Mapping[str, Any]) -> str:
    runtime = objects.get(service, "spec", "runtime")
    if runtime is not None and not isinstance(runtime, Mapping):
        return "Invalid"
    if objects.get(runtime, "autoSync") is not False or objects.text(runtime, "revision"):
        return "NotApplicable"
    return "Managed" if objects.text(service, "status", "pinnedRevisionName") else "Unavailable"


class RuntimeSyncCheck:
    """The token stands in the annotation and in the status, the pin is managed, and no drift is reported."""

    requested = "RuntimeSync=Acknowledged"
    watches = False
    reads_replicas = False

    def __init__(self, request: WaitRequest) -> None:
        self._request_id = request.request_id

    def observe(self, snapshot: Snapshot, now: datetime) -> Observation:
        service = snapshot.service
        _check_condition_count(service)
        if len(objects.items(service, "metadata", "finalizers")) > MAX_FINALIZERS:
            raise CliError(CONDITION_LIMIT)
        values = {
            "token": _token_state(service, TOKEN_PREFIX + self._request_id),
            "drift": _drift(service),
            "pin": _managed_pin(service),
            "placement": "UnsupportedPlacement" if is_placed(service) else "Direct",
            "conditions": len(objects.items(service, "status", "conditions")),
        }
        if values["placement"] != "Direct":
            return Observation(False, "UnsupportedPlacement", "Reported", values | {"validity": "Valid"})
        if "Invalid" in (values["token"], values["drift"], values["pin"]):
            return Observation(False, "InvalidCondition", "Unavailable", values | {"validity": "Invalid"})
        values["validity"] = "Valid"
        matched = (values["token"], values["drift"], values["pin"]) == ("Acknowledged", "Clear", "Managed")
        reason = "RuntimeSyncObserved" if matched else "RuntimeSyncNotAcknowledged"
        return Observation(matched, reason, "Reported", values)

    def absent(self) -> Observation:
        gone = dict.fromkeys(("token", "drift", "pin", "validity"), "Unavailable")
        values = gone | {"placement": "Direct", "conditions": 0}
        return Observation(False, "RuntimeSyncNotRecorded", "Unavailable", values)

    def rows(self, ended: Ended, wide: bool) -> list[tuple[str, str]]:
        values = ended.last.values
        rows = [
            ("Service", f"{ended.namespace}/{ended.name}"),
            ("Requested", self.requested),
            ("Request ID", self._request_id),
            ("Outcome", ended.outcome),
            ("Token state", values["token"]),
            ("Drift state", values["drift"]),
            ("Managed pin", values["pin"]),
            ("Placement", values["placement"]),
            ("Validity", values["validity"]),
            ("Reason", ended.last.reason),
            ("Evidence", ended.last.evidence),
            ("Interpretation", self._interpretation(ended)),
            ("Sync caveat", "Reported token; not live-runtime convergence"),
            ("Attribution", "Same-object state; not action attribution"),
            ("Source method", ended.source_method),
            ("Polling fallback", ended.fallback),
            ("Elapsed milliseconds", str(ended.elapsed_milliseconds)),
            ("GET / WATCH / polls", ended.reads),
        ]
        if wide:
            rows += [
                ("Generation freshness", "Unverifiable"),
                ("Inspected conditions", str(values["conditions"])),
                ("Read scope", "InferenceService only"),
                ("Cancellation", "Cooperative requests; plugins may ignore it"),
            ]
        return rows

    def _interpretation(self, ended: Ended) -> str:
        return interpretation(ended, "Token acknowledged in bound parent snapshot", "No verified exact acknowledgment")

    def content(self, ended: Ended) -> dict[str, Any]:
        values = ended.last.values
        document = {
            "requestID": self._request_id,
            "tokenState": values["token"],
            "driftState": values["drift"],
            "managedPin": values["pin"],
            "placement": values["placement"],
            "validity": values["validity"],
            "interpretation": self._interpretation(ended),
        }
        return {"runtimeSync": document}
