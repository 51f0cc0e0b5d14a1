"""`instance status`: one Instance from its row, its pods and their Warning events (spec/cli-instance.md section 3).
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api.keys import SERVING_GATE
from ome.cli.evidence import objects
from ome.cli.evidence.instances import ComponentInstances, component_instances
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import Replicas
from ome.cli.output.text import cut, redacted

HEADER = ("FIELD", "VALUE")
CELL = 64
MAX_PODS = 16

RUNNER = "ome.io/runner"


class Deployment(NamedTuple):
    """How the component is deployed and where that is known from."""

    mode: str
    source: str
    origin: str
    evidence: str


class PodEvents(NamedTuple):
    pod: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]


class Line(NamedTuple):
    """One fact: the row of the table, and the same whole, field by field, for `-o wide` and JSON."""

    field: str
    value: str
    parts: tuple[tuple[str, str], ...] = ()


class InstanceDetail(NamedTuple):
    state: str
    level: str
    component: str
    number: int
    lines: Sequence[Line]
    row: Mapping[str, Any] | None
    pods: Sequence[PodEvents]
    issues: Sequence[tuple[str, str]]
    deployment: Deployment


def _or_dash(value: Any) -> str:
    return "-" if value in (None, "") else str(value)


def _bool(value: bool) -> str:
    return "True" if value else "False"


def pod_condition(pod: Mapping[str, Any], kind: str) -> bool:
    found = objects.condition(pod, kind)
    return found is not None and found.get("status") == "True"


def restarts(pod: Mapping[str, Any]) -> int:
    """Restarts of all containers, init and ephemeral ones included."""
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return sum(objects.count(entry, "restartCount") for kind in kinds for entry in objects.items(pod, "status", kind))


def by_interest(pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The pods that most likely explain a problem first: terminating, then not Ready, then by name."""
    return sorted(pods, key=lambda pod: (not objects.is_deleting(pod), pod_condition(pod, "Ready"), objects.name(pod)))


def _row_lines(replica: str, row: Mapping[str, Any]) -> list[Line]:
    phase, admitted = objects.text(row, "phase"), str(row.get("admitted") is True).lower()
    incarnation = objects.count(row, "incarnation")
    running, target = (_or_dash(row.get(key)) for key in ("runningRevision", "targetRevision"))
    counts = {
        "pods": objects.count(row, "podCount"),
        "serving": objects.count(row, "servingPodCount"),
        "available": objects.count(row, "availablePodCount"),
    }
    ready_since = _or_dash(row.get("readySince"))
    ordinal = objects.count(row, "activeOrdinal")
    return [
        Line(
            "instance",
            f"{replica} inc={incarnation} phase={phase} admitted={admitted}",
            (
                ("replica", replica),
                ("incarnation", str(incarnation)),
                ("phase", phase),
                ("admitted", admitted),
            ),
        ),
        Line(
            "revisions",
            f"running={running} target={target}",
            (("running revision", running), ("target revision", target)),
        ),
        Line(
            "persisted",
            " ".join(f"{key}={value}" for key, value in counts.items()),
            tuple((f"persisted {key}", str(value)) for key, value in counts.items()),
        ),
        Line(
            "lifecycle",
            f"activeOrdinal={ordinal} readySince={ready_since}",
            (("active ordinal", str(ordinal)), ("ready since", ready_since)),
        ),
    ]


def _condition_lines(row: Mapping[str, Any], level: str) -> list[Line]:
    lines = []
    for entry in objects.items(row, "conditions"):
        kind, status = objects.text(entry, "type"), objects.text(entry, "status")
        observed = _or_dash(objects.get(entry, "observedGeneration"))
        reason = redacted(_or_dash(objects.get(entry, "reason")))
        text = f"{kind}={status} observed={observed} evidence={level} reason={reason}"
        parts = ((f"condition {kind}", status), (f"condition {kind} reason", reason))
        lines.append(Line("condition", text, parts))
    return lines


def _operation_lines(operation: Any) -> list[Line]:
    if not isinstance(operation, Mapping):
        return []
    value = {key: redacted(_or_dash(operation.get(key))) for key in ("type", "id", "step", "targetRevision", "reason")}
    retries = objects.count(operation, "retryCount")
    times = {
        "started": _or_dash(operation.get("startedAt")),
        "progress": _or_dash(operation.get("lastProgressAt")),
        "deadline": _or_dash(operation.get("deadline")),
    }
    lines = [
        Line(
            "operation",
            f"type={value['type']} id={value['id']} step={value['step']} retries={retries}",
            (
                ("operation type", value["type"]),
                ("operation id", value["id"]),
                ("operation step", value["step"]),
                ("operation retries", str(retries)),
            ),
        )
    ]
    if operation.get("targetRevision") or operation.get("reason"):
        lines.append(
            Line(
                "op target",
                f"revision={value['targetRevision']} reason={value['reason']}",
                (("operation target revision", value["targetRevision"]), ("operation reason", value["reason"])),
            )
        )
    lines.append(
        Line(
            "op timing",
            " ".join(f"{key}={time}" for key, time in times.items()),
            tuple((f"operation {key}", time) for key, time in times.items()),
        )
    )
    return lines + _operation_extras(operation)


def _operation_extras(operation: Mapping[str, Any]) -> list[Line]:
    lines = []
    if operation.get("waiting") or operation.get("capacityRefusedAt"):
        waiting, refused = _or_dash(operation.get("waiting")), _or_dash(operation.get("capacityRefusedAt"))
        text = f"waiting={redacted(waiting)} quotaRefused={refused}"
        lines.append(Line("op hold", text, (("op hold", text),)))
    if operation.get("strategy"):
        lines.append(
            Line("op strategy", str(operation["strategy"]), (("operation strategy", str(operation["strategy"])),))
        )
    surge, origin = operation.get("surgeIndex"), operation.get("fromNode")
    hints = [str(node) for node in objects.items(operation, "hintTargetNodes")]
    if surge is not None or origin or hints:
        joined = ",".join(hints) or "-"
        lines.append(
            Line(
                "op nodes",
                f"from={_or_dash(origin)} surgeIndex={_or_dash(surge)} hints={joined}",
                (
                    ("operation from node", _or_dash(origin)),
                    ("operation surge index", _or_dash(surge)),
                    ("operation node hints", joined),
                ),
            )
        )
    return lines


def _failure_lines(failure: Any) -> list[Line]:
    if not isinstance(failure, Mapping):
        return []
    pod, container, reason = (redacted(_or_dash(failure.get(key))) for key in ("podName", "containerName", "reason"))
    code = objects.count(failure, "exitCode")
    lines = [
        Line(
            "failure",
            f"pod={pod} container={container} reason={reason} exitCode={code}",
            (
                ("failure pod", pod),
                ("failure container", container),
                ("failure reason", reason),
                ("failure exit code", str(code)),
            ),
        )
    ]
    if failure.get("time"):
        lines.append(Line("fail time", str(failure["time"]), (("failure time", str(failure["time"])),)))
    return lines


def _migration_lines(replica: Mapping[str, Any], index: int) -> list[Line]:
    lines = []
    for entry in objects.items(replica, "status", "migrations"):
        source, surge = objects.count(entry, "sourceInstance"), objects.integer(entry, "surgeInstance")
        if index not in (source, surge):
            continue
        role = "Source" if source == index else "Surge"
        request, phase = objects.text(entry, "requestUUID"), objects.text(entry, "phase")
        text = f"{request} role={role} phase={phase} source={source} surge={_or_dash(surge)}"
        lines.append(Line("migration", text, ((f"migration {request}", f"{role} {phase}"),)))
    return lines


def _pod_lines(pods: Sequence[PodEvents]) -> list[Line]:
    lines = []
    for number, found in enumerate(pods):
        pod = found.pod
        facts = {
            "ready": _bool(pod_condition(pod, "Ready")),
            "serving": _bool(pod_condition(pod, SERVING_GATE)),
            "restarts": str(restarts(pod)),
            "node": _or_dash(objects.text(pod, "spec", "nodeName")),
            "deleting": str(objects.is_deleting(pod)).lower(),
        }
        runner = objects.label(pod, RUNNER) or "-"
        phase = objects.text(pod, "status", "phase") or "Unknown"
        head = f"{objects.name(pod)} {runner}/{phase}"
        parts = [
            (f"pod[{number}] name", objects.name(pod)),
            (f"pod[{number}] runner", runner),
            (f"pod[{number}] phase", phase),
        ]
        parts += [(f"pod[{number}] {key}", value) for key, value in facts.items()]
        lines.append(Line("pod", head + "".join(f" {key}={value}" for key, value in facts.items()), tuple(parts)))
    return lines


def event_count(event: Mapping[str, Any]) -> int:
    return objects.integer(event, "count") or objects.integer(event, "series", "count") or 1


def _event_lines(pods: Sequence[PodEvents]) -> list[Line]:
    lines = []
    for found in pods:
        for event in found.events:
            reason = redacted(objects.text(event, "reason"))
            text = f"Pod/{objects.name(found.pod)} reason={reason} count={event_count(event)}"
            lines.append(Line("event", text, (("event", text),)))
    return lines


def _state(
    service: Mapping[str, Any], replicas: Replicas, component: str, index: int, deployment: Deployment
) -> tuple[str, str, ComponentInstances | None, Mapping[str, Any] | None]:
    """(state, evidence level, the component's rows, the Instance's row)."""
    if replicas.unavailable:
        return "Unavailable", "Unavailable", None, None
    if deployment.evidence != "Unavailable" and deployment.mode != OME_NATIVE:
        return "NotOMENative", "Unavailable", None, None
    mine = replicas.of(component)
    if not mine:
        return "NotProjected", "Unavailable", None, None
    if len(mine) > 1:
        return "Unavailable", "Malformed", None, None
    found = component_instances(mine[0], service)
    row = next((row for row in found.instances if objects.integer(row, "index") == index), None)
    if row is None:
        nothing = found.level == "Unavailable" or found.evidence == "BAD"
        return ("Unavailable" if nothing else "Missing"), found.level, found, None
    return ("Reported" if found.level == "Reported" else "Partial"), found.level, found, row


def instance_detail(
    service: Mapping[str, Any],
    replicas: Replicas,
    component: str,
    index: int,
    deployment: Deployment,
    pods: Sequence[PodEvents],
    problems: Sequence[tuple[str, str]],
) -> InstanceDetail:
    """The report. `problems` are (code, reason) of readings that failed; any of them makes the state Partial."""
    state, level, found, row = _state(service, replicas, component, index, deployment)
    issues = list(problems)
    if replicas.unavailable:
        issues.append(("InferenceReplicasUnavailable", replicas.unavailable))
    if replicas.rejected:
        issues.append(("IdentityRejected", "InferenceReplica"))
    if found is not None and found.level != "Reported":
        issues.append(("StatusEvidence", found.evidence))
    if deployment.evidence == "Unavailable":
        issues.append(("DeploymentModeUnavailable", "runtime"))
    if state == "Reported" and issues:
        state = "Partial"
    encoding = found.encoding if found else "-"
    encoding_level = found.level if found else "Unavailable"
    reason = "-" if encoding_level == "Reported" else (found.evidence if found else "NotRead")
    lines = [
        Line("state", f"{state} {component}[{index}] evidence={level}", (("state", state), ("evidence", level))),
        Line(
            "deployment",
            f"mode={deployment.mode} source={deployment.source} origin={deployment.origin} "
            f"evidence={deployment.evidence}",
            (
                ("deployment mode", deployment.mode),
                ("deployment source", deployment.source),
                ("deployment origin", deployment.origin),
                ("deployment evidence", deployment.evidence),
            ),
        ),
        Line(
            "encoding",
            f"name={encoding} evidence={encoding_level} reason={reason}",
            (("encoding", encoding), ("encoding evidence", encoding_level)),
        ),
    ]
    if row is not None and found is not None:
        lines += _row_lines(found.replica, row) + _condition_lines(row, level)
        lines += [
            Line("announced", text, (("announced", text),))
            for text in objects.items(row, "announced")
            if isinstance(text, str)
        ]
        lines += _operation_lines(row.get("operation")) + _failure_lines(row.get("lastFailure"))
        lines += _migration_lines(replicas.of(component)[0], index)
    lines += _pod_lines(pods) + _event_lines(pods)
    lines += [Line("issue", f"{code} {why}", (("issue", f"{code} {why}"),)) for code, why in issues]
    return InstanceDetail(state, level, component, index, lines, row, pods, issues, deployment)


def table_rows(found: InstanceDetail) -> list[list[str]]:
    return [[line.field, cut(line.value, CELL)] for line in found.lines]


def wide_rows(found: InstanceDetail) -> list[list[str]]:
    return [[name, value] for line in found.lines for name, value in line.parts]


def content(found: InstanceDetail) -> dict[str, Any]:
    return {
        "state": found.state,
        "evidence": found.level,
        "component": found.component,
        "index": found.number,
        "deployment": found.deployment._asdict(),
        **({"instance": redacted_row(found.row)} if found.row is not None else {}),
        "pods": [
            {
                "name": objects.name(entry.pod),
                "runner": objects.label(entry.pod, RUNNER) or "",
                "phase": objects.text(entry.pod, "status", "phase"),
                "ready": pod_condition(entry.pod, "Ready"),
                "serving": pod_condition(entry.pod, SERVING_GATE),
                "restarts": restarts(entry.pod),
                "node": objects.text(entry.pod, "spec", "nodeName"),
                "deleting": objects.is_deleting(entry.pod),
                "events": [
                    {"reason": redacted(objects.text(event, "reason")), "count": event_count(event)}
                    for event in entry.events
                ],
            }
            for entry in found.pods
        ],
        "issues": [{"code": code, "reason": why} for code, why in found.issues],
    }


def redacted_row(value: Any) -> Any:
    """The row with every text that looks like a credential replaced."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_row(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [redacted_row(entry) for entry in value]
    return value
