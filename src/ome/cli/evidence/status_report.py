"""`kubectl ome status`: why a service is or is not ready, in one report (spec/cli-status-get-logs.md section 1). Pure.

`StatusEvidence` is what the command read; `rows` and `content` are the two ways to show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ome.api.keys import COMPONENT
from ome.cli.evidence import objects
from ome.cli.evidence.autoscale import autoscaling
from ome.cli.evidence.conditions import Ready, inspect_ready
from ome.cli.evidence.instance_detail import event_count, pod_condition, restarts
from ome.cli.evidence.rollout import Rollout, rollout
from ome.cli.output.report import parse_time, second_time
from ome.cli.output.text import cut, masked

if TYPE_CHECKING:
    from ome.cli.evidence.effective import Effective

HEADER = ("FIELD", "VALUE")
LABEL_CELL = 20
VALUE_CELL = 64
MAX_EVENT_PODS = 15
EVENTS_PER_OBJECT = 25
MAX_EVENTS = 100
MAX_PODS = 1000

PHASES = (("R", "Running"), ("P", "Pending"), ("F", "Failed"), ("S", "Succeeded"))
_NO_TRAFFIC = "Unavailable / Unavailable parent status"

Rows = list[tuple[str, str, bool]]
"""(label, value, only with -o wide)."""


class Observation(NamedTuple):
    """How a read went."""

    state: str
    kept: int
    truncated: bool = False
    reason: str = ""

    @property
    def text(self) -> str:
        base = f"{self.state} count={self.kept} truncated={str(self.truncated).lower()}"
        return f"{base} {self.reason}" if self.reason else base

    def to_dict(self) -> dict[str, Any]:
        document = {"state": self.state, "count": self.kept, "truncated": self.truncated, "reason": self.reason}
        return {key: value for key, value in document.items() if value != ""}


class StatusEvidence(NamedTuple):
    """`runtime` is None when it was not looked at, with `runtime_reason` saying why."""

    service: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]]
    pod_observation: Observation
    events: Sequence[Mapping[str, Any]]
    event_observation: Observation
    event_targets_skipped: int
    runtime: Effective | None
    runtime_reason: str
    issues: tuple[str, ...]
    collected_at: str
    now: datetime


class ComponentPods(NamedTuple):
    component: str
    ready: Ready
    pods: tuple[Mapping[str, Any], ...]

    @property
    def ready_pods(self) -> int:
        return sum(pod_condition(pod, "Ready") for pod in self.pods)

    @property
    def restarts(self) -> int:
        return sum(restarts(pod) for pod in self.pods)

    @property
    def phases(self) -> str:
        phases = [objects.text(pod, "status", "phase") for pod in self.pods]
        counts = [f"{letter}={phases.count(phase)}" for letter, phase in PHASES]
        unknown = len(phases) - sum(phases.count(phase) for _, phase in PHASES)
        return " ".join([*counts, f"U={unknown}", f"deleting={sum(map(objects.is_deleting, self.pods))}"])


def counted_pods(pods: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The pods of the three components, and issue codes about the ones left out."""
    found: dict[str, Mapping[str, Any]] = {}
    issues = []
    for pod in pods:
        if not objects.name(pod) or objects.name(pod) in found:
            issues.append("PodIdentityRejected")
        elif objects.label(pod, COMPONENT) not in objects.COMPONENTS:
            issues.append("UnsupportedComponent")
        elif not isinstance(pod.get("status", {}), Mapping):
            issues.append("PodMalformed")
        else:
            found[objects.name(pod)] = pod
    return list(found.values()), sorted(set(issues))


def component_pods(evidence: StatusEvidence) -> list[ComponentPods]:
    """Each component that the spec declares or that has pods."""
    found = []
    for component in objects.COMPONENTS:
        mine = tuple(pod for pod in evidence.pods if objects.label(pod, COMPONENT) == component)
        if isinstance(objects.get(evidence.service, "spec", component), Mapping) or mine:
            ready = inspect_ready(evidence.service, evidence.now, f"{component.capitalize()}Ready")
            found.append(ComponentPods(component, ready, mine))
    return found


def service_issues(service: Mapping[str, Any]) -> list[str]:
    generation = objects.generation(service) or 0
    observed = objects.count(service, "status", "observedGeneration")
    return ["InvalidGeneration"] if generation < 0 or observed < 0 else []


def _service_rows(evidence: StatusEvidence, ready: Ready) -> Rows:
    service = evidence.service
    valid = ready.validity == "Valid"
    generation, observed = objects.generation(service) or 0, objects.count(service, "status", "observedGeneration")
    inspection = ready.inspection
    return [
        ("Name", objects.name(service), False),
        ("Namespace", objects.namespace(service), False),
        ("Ready", f"{ready.status} / {ready.validity}", False),
        ("Ready reason", masked(ready.reason) if valid else "", False),
        ("Ready message", masked(ready.message) if valid else "", True),
        ("Condition inspection", f"{inspection.state} {inspection.inspected}/{inspection.total}", True),
        *(("Condition warning", warning, True) for warning in inspection.warnings),
        ("Declared runtime", objects.text(service, "spec", "runtime", "name"), False),
        ("Model", objects.text(service, "spec", "model", "name"), False),
        ("Generation", f"{generation} observed={observed}; advisory Unverifiable", False),
        ("Pod observation", evidence.pod_observation.text, False),
        ("Event observation", evidence.event_observation.text, False),
        ("Pod targets skipped", "0", True),
        ("Event targets skip", str(evidence.event_targets_skipped), True),
    ]


def _component_rows(found: ComponentPods, pods_unavailable: bool) -> Rows:
    name, total = found.component, len(found.pods)
    head = f"{found.ready.status} / {found.ready.validity}"
    return [
        (name, f"{head}; Ready pods={found.ready_pods}/{total} restarts={found.restarts}", False),
        (f"{name} Pod total", str(total), True),
        (f"{name} Pod Ready", str(found.ready_pods), True),
        (f"{name} restarts", str(found.restarts), True),
        (f"{name} phases", found.phases, True),
        (f"{name} evidence", "Unavailable" if pods_unavailable else "Observed", True),
    ]


def _rollout_rows(found: Rollout) -> Rows:
    return [
        ("Rollout", f"{found.state} reported={found.reported}", False),
        ("Rollout evidence", f"{found.evidence} / {found.epoch}", False),
        ("Coordination Ready", found.coordination, True),
        *(("Rollout issue", code, True) for code in sorted({issue.code for issue in found.issues})),
        *([("Rollout warning", "PartialData", True)] if found.issues else []),
    ]


def _component_entries(service: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = objects.mapping(service, "status", "components")
    return {name: entry for name, entry in entries.items() if isinstance(entry, Mapping)}


def autoscaling_state(service: Mapping[str, Any]) -> str:
    found = autoscaling(service)
    if not found.components:
        return "Unavailable / Unavailable parent status"
    if found.state == "Unavailable":
        return "Unavailable; parent read, no usable scaler status"
    return f"{found.state} / Reported parent status"


def _scale_rows(service: Mapping[str, Any]) -> Rows:
    rows: Rows = []
    for entry in autoscaling(service).components:
        counts = f"{entry.current}->{entry.desired}" if entry.counted else "-->-"
        owner = f"{entry.owner_class}/{entry.managed_by}"
        rows += [
            (f"Scale {entry.component}", f"{entry.state} {owner} {counts} ({entry.replica_evidence})", False),
            ("Scale target", f"{entry.component} / {entry.target_evidence}", True),
            ("Scale conditions", f"{entry.component} / {entry.condition_evidence}", True),
            *(("Autoscale issue", f"{entry.component} / {code}", True) for code in entry.issues),
        ]
    return rows


def _placement_rows(service: Mapping[str, Any]) -> Rows:
    declared, reported = objects.get(service, "spec", "placement"), objects.get(service, "status", "placement")
    if declared is None and reported is None:
        return [
            ("Placement", "NotConfigured / NotApplicable / NotRecorded", False),
            ("Placement evidence", "Unavailable / NotApplicable", True),
            ("Placement mode", "NotApplicable", True),
        ]
    mode = objects.text(declared, "mode") or objects.text(reported, "plan", "mode") or "Single"
    source = "Declared" if objects.text(declared, "mode") else "Defaulted"
    if not isinstance(reported, Mapping):
        return [("Placement", f"NotReported / {mode} / NotRecorded", False), ("Placement mode", source, True)]
    homes = len(objects.items(reported, "candidates"))
    found: Rows = [
        ("Placement", f"Reported / {mode} / {objects.text(reported, 'phase') or 'NotRecorded'}", False),
        ("Placement homes", f"Reported {homes}/{homes} truncated=false", False),
    ]
    if objects.text(reported, "cluster"):
        found.append(("Reported cluster", objects.text(reported, "cluster"), False))
    endpoint = "Reported" if objects.text(reported, "endpoint") else "NotReported"
    found += [
        ("Placement endpoint", f"{endpoint} (reported; not probed)", False),
        ("Placement evidence", "Reported / Unverifiable", True),
        ("Placement mode", source, True),
    ]
    return found


def _traffic_rows(service: Mapping[str, Any]) -> Rows:
    status = objects.get(service, "status", "traffic")
    conditions = [entry for entry in objects.items(status, "conditions") if isinstance(entry, Mapping)]
    policy = next((entry for entry in conditions if entry.get("type") == "BackendPolicyReady"), None)
    if policy is None:
        return [("Traffic", _NO_TRAFFIC, False)]
    state = {"True": "Reported", "False": "Degraded", "Unknown": "Pending"}.get(
        objects.text(policy, "status"), "Invalid"
    )
    observed = objects.integer(policy, "observedGeneration")
    generation = objects.generation(service)
    freshness = "Unverifiable"
    if observed is not None and generation is not None and observed <= generation:
        freshness = "Current" if observed == generation else "Stale"
    if freshness == "Stale":
        state = "Partial"
    return [
        ("Traffic", f"{state} / Reported parent status", False),
        ("Traffic policy Ready", f"{objects.text(policy, 'status')} / {freshness}", True),
        ("Traffic translator", objects.text(status, "translator") or "Unavailable", True),
        ("Traffic algorithm", objects.text(status, "algorithm") or "Unknown", True),
    ]


def runtime_state(evidence: StatusEvidence) -> str:
    found = evidence.runtime
    if found is None:
        if evidence.runtime_reason == "NotConfigured":
            return "NotConfigured / Unavailable"
        return f"Unavailable / Unavailable {evidence.runtime_reason}"
    sound = found.live.available and found.active.available and not found.issues
    active = "Available" if found.active.available else f"Unavailable {found.active.reason}".strip()
    return f"{'Reported' if sound else 'Partial'} / {active}"


def _runtime_rows(evidence: StatusEvidence) -> Rows:
    found = evidence.runtime
    rows: Rows = [("Runtime active", runtime_state(evidence), False)]
    if found is None:
        return rows
    if found.active.available:
        rows += [
            ("Active runtime name", found.active.name, True),
            ("Active runtime kind", found.active.kind, True),
            ("Active origin", "ControllerRevision" if found.active.revision else "LiveRuntime", True),
        ]
    return [*rows, ("Runtime pin", found.pin_state, True), ("Runtime freshness", found.status, True)]


def _accelerator_intents(service: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """(intent, class) of engine and decoder: a class by name, a policy, or nothing."""
    found = {}
    for component in ("engine", "decoder"):
        own = objects.get(service, "spec", component)
        if not isinstance(own, Mapping):
            continue
        layers = (objects.mapping(own, "acceleratorOverride"), objects.mapping(service, "spec", "acceleratorSelector"))
        named = next((text for layer in layers if (text := objects.text(layer, "acceleratorClass"))), "")
        policy = next((text for layer in layers if (text := objects.text(layer, "policy"))), "")
        found[component] = ("Class", named) if named else (("Policy", "") if policy else ("NotConfigured", ""))
    return found


def _accelerator_rows(evidence: StatusEvidence) -> Rows:
    if evidence.runtime is None:
        reason = "" if evidence.runtime_reason == "NotConfigured" else f" {evidence.runtime_reason}"
        state = "NotConfigured / Unavailable" if not reason else f"Unavailable / Unavailable{reason}"
        return [("Accelerator", state, False)]
    intents = _accelerator_intents(evidence.service)
    if all(intent == "NotConfigured" for intent, _ in intents.values()):
        return [("Accelerator", "NotConfigured / Unavailable", False)]
    entries = _component_entries(evidence.service)
    rows: Rows = []
    partial = False
    for component, (intent, named) in intents.items():
        chosen = objects.text(entries.get(component), "selectedAccelerator", "acceleratorClass")
        partial = partial or (intent != "NotConfigured" and not chosen)
        selection = "NotConfigured" if intent == "NotConfigured" else "Reported" if chosen else "NotReported"
        rows.append((f"Accelerator {component}", f"{selection} ({chosen or 'NotRequested'})", False))
        rows.append(
            ("Declared class", f"{component} / {named} ({intent})" if named else f"{component} / ({intent})", True)
        )
    return [("Accelerator", f"{'Partial' if partial else 'Reported'} / Computed", False), *rows]


def event_time(event: Mapping[str, Any]) -> datetime | None:
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("firstTimestamp",)):
        found = parse_time(objects.get(event, *path))
        if found is not None:
            return found
    return None


def _event_rows(evidence: StatusEvidence) -> Rows:
    rows: Rows = []
    for event in evidence.events:
        involved = objects.mapping(event, "involvedObject")
        reason = masked(objects.text(event, "reason"))
        seen = event_time(event)
        rows += [
            (f"Warning {objects.text(involved, 'kind')}", f"{objects.text(involved, 'name')} {reason}", False),
            ("Event message", masked(objects.text(event, "message")), True),
            ("Event count", str(event_count(event)), True),
            *([("Event last seen", second_time(seen), True)] if seen else []),
        ]
    return rows


_DETAILS = (
    ("Full safe values", "Use -o json or -o yaml"),
    ("Rollout detail", "kubectl ome rollout status NAME"),
    ("Autoscale detail", "kubectl ome autoscale status NAME"),
    ("Placement detail", "kubectl ome placement status NAME"),
    ("Traffic detail", "kubectl ome traffic status NAME"),
    ("Runtime detail", "kubectl ome runtime effective NAME"),
    ("Accelerator detail", "kubectl ome accelerator explain NAME"),
)


def all_issues(evidence: StatusEvidence) -> list[str]:
    return sorted({*evidence.issues, *service_issues(evidence.service)})


def rows(evidence: StatusEvidence, wide: bool) -> list[list[str]]:
    """FIELD and VALUE, in the order of the spec's table."""
    service = evidence.service
    ready = inspect_ready(service, evidence.now)
    unavailable = evidence.pod_observation.state == "Unavailable"
    found: Rows = _service_rows(evidence, ready)
    for component in component_pods(evidence):
        found += _component_rows(component, unavailable)
    found += _rollout_rows(rollout(service))
    found.append(("Autoscaling", autoscaling_state(service), False))
    found += _scale_rows(service)
    found += _placement_rows(service) + _traffic_rows(service)
    found += _runtime_rows(evidence) + _accelerator_rows(evidence) + _event_rows(evidence)
    found += [("Issue", code, False) for code in all_issues(evidence)]
    found += [(label, value, False) for label, value in _DETAILS]
    found += [
        ("Collected at", evidence.collected_at, True),
        ("Source generation", str(objects.generation(service) or 0), True),
        ("Source evidence", "Observed", True),
    ]
    return [
        [cut(label, LABEL_CELL), cut(value, VALUE_CELL)] for label, value, only_wide in found if wide or not only_wide
    ]


def _section(found: Rows) -> dict[str, Any]:
    """Rows as an object with lowerCamelCase keys, for the parts that are texts in both forms."""
    document: dict[str, Any] = {}
    for label, value, _ in found:
        first, *rest = label.split()
        key = first.lower() + "".join(word.capitalize() for word in rest)
        document[key] = value
    return document


def ready_content(ready: Ready) -> dict[str, Any]:
    document: dict[str, Any] = {"status": ready.status, "validity": ready.validity}
    if ready.validity == "Valid":
        texts = {"reason": masked(ready.reason), "message": masked(ready.message)}
        document |= {key: value for key, value in texts.items() if value}
    return document | {"inspection": ready.inspection.to_dict()}


def content(evidence: StatusEvidence) -> dict[str, Any]:
    service = evidence.service
    found = rollout(service)
    return {
        "service": {
            "generation": objects.generation(service) or 0,
            "observedGeneration": objects.count(service, "status", "observedGeneration"),
            "model": objects.text(service, "spec", "model", "name"),
            "declaredRuntime": objects.text(service, "spec", "runtime", "name"),
        },
        "ready": ready_content(inspect_ready(service, evidence.now)),
        "pods": evidence.pod_observation.to_dict(),
        "events": evidence.event_observation.to_dict() | {"targetsSkipped": evidence.event_targets_skipped},
        "components": [
            {
                "component": entry.component,
                "ready": ready_content(entry.ready),
                "podsTotal": len(entry.pods),
                "podsReady": entry.ready_pods,
                "restarts": entry.restarts,
                "phases": entry.phases,
            }
            for entry in component_pods(evidence)
        ],
        "rollout": {
            "state": found.state,
            "reportedState": found.reported,
            "evidence": found.evidence,
            "epoch": found.epoch,
            "coordinationReady": found.coordination,
            "issues": [issue.text for issue in found.issues],
        },
        "autoscaling": {"state": autoscaling_state(service)} | _section(_scale_rows(service)),
        "placement": _section(_placement_rows(service)),
        "traffic": _section(_traffic_rows(service)),
        "runtime": _section(_runtime_rows(evidence)),
        "accelerator": _section(_accelerator_rows(evidence)),
        "warningEvents": [
            {
                "kind": objects.text(event, "involvedObject", "kind"),
                "name": objects.text(event, "involvedObject", "name"),
                "reason": masked(objects.text(event, "reason")),
                "message": masked(objects.text(event, "message")),
                "count": event_count(event),
            }
            for event in evidence.events
        ],
        "issues": all_issues(evidence),
    }
