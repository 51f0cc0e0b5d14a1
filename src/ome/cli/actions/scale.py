"""`scale`: a transient Instance count through `inferencereplicas/scale` (spec/cli-status-get-logs.md section 5).

`check_scale` is the pure judgement; `scale` runs the two passes and the patch. It never prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ome.api.keys import ROLLOUT_PROMOTE, ROLLOUT_ROLLBACK
from ome.cli.actions import guard
from ome.cli.actions.rollout_work import TERMINAL_MIGRATIONS, has_rollout_work
from ome.cli.actions.target import (
    BOUNDS,
    EVIDENCE,
    MAILBOX,
    MAX_REPLICAS,
    MAX_ROWS,
    RUNTIME,
    Refused,
    check_service,
    exceeds_bounds,
    has_identity,
)
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects, rows
from ome.cli.evidence.effective import Effective, effective
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import belongs_to, component_of, is_current, parent_stamp
from ome.cli.output.report import encode
from ome.cli.output.table import render_table
from ome.cli.output.text import cut
from ome.cli.reads import list_replicas
from ome.cli.runtime_reads import read_runtime
from ome.cli.session import Collection, Session
from ome.kube import requests
from ome.kube.errors import KubeError
from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES

SOURCE = "manual scale source evidence is unavailable or inconsistent"
POLICY = "manual scale requires locally verifiable autoscaling; winning policy resolution is unavailable"
INCOMPLETE = "manual scale requires complete current selected replica and Scale evidence"
ACTIVE = "manual scale refused: selected lifecycle, migration or rollout work is active"
OVERRIDE = "manual scale is transient and requires --override-autoscaler --yes for every ownership class"
OUT_OF_BOUNDS = "manual scale replicas must be positive and within verified bounds and partitions"
PREVIEW_FAILED = "write scale preview failed; no request submitted"
CHANGED = "manual scale source changed; inspect current status and prepare a new request"
REJECTED = "guarded scale precondition rejected; inspect current status and prepare a new request"
UNKNOWN = "scale request outcome unknown; inspect kubectl ome autoscale status before preparing another request"
RESULT_FAILED = "write scale result failed; API acceptance may already have occurred; inspect current status"
ACCEPTED = "API accepted transient scale request; convergence not observed."
VALIDATED = "Validated locally; no scale patch sent."
TITLE = "ALPHA guarded scale preview (not controller convergence)"
FIELD = "/scale spec.replicas"
DISCREPANCY = "ReportedDesiredCountDiscrepancy"
CAVEATS = (
    "This is a transient /scale request, not a change to parent replica bounds.",
    "The owner of the count may overwrite it at once; class None resets it to the minimum.",
    "A lower count drains and deletes Instances, also on a paused service.",
    "IR UID/resourceVersion CAS is not a parent, runtime or autoscaler transaction.",
)
MAX_CELL = 56

_OWNERS = {"HPA": "ome", "KEDA": "ome", "External": "external", "None": "none"}


class Request(NamedTuple):
    service: str
    component: str
    replicas: int
    override: bool
    dry_run: str
    ome_namespace: str
    output: str


class Scale(NamedTuple):
    """A count that may be asked for, with where its bounds and its owner come from."""

    service: Mapping[str, Any]
    runtime: Effective
    replica: Mapping[str, Any]
    low: int
    high: int
    owner_class: str
    source: str

    @property
    def current(self) -> int:
        return objects.count(self.replica, "spec", "replicas")

    @property
    def bounds(self) -> str:
        return f"{self.low}..{self.high}"

    @property
    def ownership(self) -> str:
        return f"{self.owner_class} / {_OWNERS[self.owner_class]}"

    @property
    def instances(self) -> str:
        keys = (
            ("replicas", "total"),
            ("readyReplicas", "ready"),
            ("servingReplicas", "serving"),
            ("availableReplicas", "available"),
        )
        return "; ".join(f"{objects.count(self.replica, 'status', key)} {word}" for key, word in keys)


def _check_source(service: Mapping[str, Any], runtime: Effective, component: str) -> None:
    """Where the count comes from must be known: no pending sync, no drift, an OMENative component that exists."""
    native = {mode.component for mode in runtime.active.modes if mode.mode == OME_NATIVE}
    if not native:
        raise Refused(RUNTIME)
    modes = (
        objects.text(service, "spec", "scalingPolicy", "mode"),
        objects.text(runtime.active_spec, "scalingPolicy", "mode"),
    )
    independent = all(mode in ("", "Independent") for mode in modes)
    settled = runtime.sync in ("Absent", "Acknowledged") and runtime.drift == "NotReported"
    if component not in native or not independent or not settled:
        raise Refused(SOURCE)


def _ownership(service: Mapping[str, Any], runtime: Effective, component: str) -> tuple[str, str]:
    """(class, source): the service's block, else the runtime's, else HPA by default."""
    own, recipe = (
        objects.mapping(service, "spec", component),
        objects.mapping(runtime.active_spec, f"{component}Config"),
    )
    if own.get("autoscaler") is None and own.get("autoscalerPolicyRef") is not None:
        raise Refused(POLICY)
    for layer, source in ((own, "isvc"), (recipe, "runtime")):
        named = objects.text(layer, "autoscaler", "class")
        if named:
            if named not in _OWNERS:
                raise Refused(SOURCE)
            return named, source
    return "HPA", "default"


def _bounds(service: Mapping[str, Any], runtime: Effective, component: str) -> tuple[int, int]:
    """`minReplicas` to `maxReplicas`, of the service or else the runtime; without a maximum only the minimum."""
    layers = (objects.mapping(service, "spec", component), objects.mapping(runtime.active_spec, f"{component}Config"))
    low = next((v for layer in layers if (v := objects.integer(layer, "minReplicas")) is not None), 0)
    high = next((v for layer in layers if (v := objects.integer(layer, "maxReplicas")) is not None), 0)
    low = max(low, 1)
    return low, max(high, low)


def _check_replica(service: Mapping[str, Any], listed: Collection, component: str) -> Mapping[str, Any]:
    if listed.truncated or len(listed.items) > MAX_REPLICAS or any(exceeds_bounds(item) for item in listed.items):
        raise Refused(BOUNDS)
    mine = [replica for replica in listed.items if component_of(replica) == component]
    if len(mine) != 1 or not has_identity(mine[0]) or not belongs_to(mine[0], service):
        raise Refused(INCOMPLETE)
    if objects.is_deleting(mine[0]) or not objects.count(mine[0], "spec", "replicas"):
        raise Refused(INCOMPLETE)
    if not is_current(mine[0], service):
        raise Refused(EVIDENCE)
    return mine[0]


def _check_idle(service: Mapping[str, Any], replica: Mapping[str, Any], component: str) -> None:
    try:
        instances = rows.decode(replica, MAX_ROWS)
    except rows.RowsError as error:
        raise Refused(BOUNDS if error.too_many else EVIDENCE) from error
    status = objects.mapping(replica, "status")
    phase = objects.text(service, "status", "components", component, "rolloutPhase")
    records = objects.items(status, "migrations")
    busy = (
        has_rollout_work(service)
        or phase not in ("", "Stable")
        or objects.text(status, "currentRevision") != objects.text(status, "updateRevision")
        or any(objects.text(entry, "phase") not in TERMINAL_MIGRATIONS for entry in records)
        or any(row.get("operation") is not None or row.get("phase") != "Ready" for row in instances)
        or bool(objects.text(replica, "spec", "pacing", "rollbackToRevision"))
    )
    if busy:
        raise Refused(ACTIVE)


def check_scale(service: Mapping[str, Any], runtime: Effective, listed: Collection, request: Request) -> Scale:
    """Everything of section 5 in the order of its table; raises Refused with the first that fails."""
    if not (runtime.active.available and runtime.live.available):
        raise Refused(RUNTIME)
    _check_source(service, runtime, request.component)
    owner_class, source = _ownership(service, runtime, request.component)
    replica = _check_replica(service, listed, request.component)
    _check_idle(service, replica, request.component)
    if not request.override:
        raise Refused(OVERRIDE)
    low, high = _bounds(service, runtime, request.component)
    partition = objects.integer(replica, "spec", "pacing", "partition")
    if partition is None:
        partition = objects.count(replica, "spec", "lifecycle", "updateStrategy", "rollingUpdate", "partition")
    if not low <= request.replicas <= high or request.replicas < partition:
        raise Refused(OUT_OF_BOUNDS)
    if any(objects.annotation(service, key) is not None for key in (ROLLOUT_PROMOTE, ROLLOUT_ROLLBACK)):
        raise Refused(MAILBOX)
    return Scale(service, runtime, replica, low, high, owner_class, source)


def _read(session: Session, request: Request) -> Scale:
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    runtime = effective(read_runtime(session, service, request.ome_namespace))
    listed = list_replicas(session, service, page=16, pages=2)
    found = check_scale(service, runtime, listed, request)
    answer = session.send(
        requests.get(INFERENCE_REPLICAS, objects.name(found.replica), session.namespace, subresource="scale")
    )
    same = (objects.uid(answer), objects.resource_version(answer)) == (
        objects.uid(found.replica),
        objects.resource_version(found.replica),
    )
    if not same or objects.count(answer, "spec", "replicas") != found.current:
        raise Refused(INCOMPLETE)
    return found


def _fingerprint(found: Scale) -> tuple[Any, ...]:
    service = found.service
    return (
        objects.uid(service),
        objects.resource_version(service),
        objects.uid(found.replica),
        objects.resource_version(found.replica),
        found.runtime.live,
        found.runtime.active,
    )


def preview_fields(found: Scale, request: Request, context: str) -> list[tuple[str, str]]:
    service, replica = found.service, found.replica
    return [
        ("context", context),
        ("workload namespace", objects.namespace(service)),
        ("OME namespace", request.ome_namespace),
        ("parent", objects.name(service)),
        ("parent UID", objects.uid(service)),
        ("parent generation", str(objects.generation(service))),
        ("IR", objects.name(replica)),
        ("IR UID", objects.uid(replica)),
        ("IR RV", objects.resource_version(replica)),
        ("IR generation", str(objects.generation(replica))),
        ("parent stamp", str(parent_stamp(replica))),
        ("component", request.component),
        (FIELD, f"{found.current} -> {request.replicas}"),
        ("bounds", found.bounds),
        ("verified ownership", found.ownership),
        ("verified source", found.source),
        ("override / transient", "true / true"),
        ("dry-run", request.dry_run),
        ("reported Instances", found.instances),
        ("lifecycle / canary", "No observed selected active work"),
        ("parent freshness", "Unverifiable (advisory)"),
        ("IR proofs revalidated", "1"),
    ]


def preview(found: Scale, request: Request, context: str) -> str:
    return guard.preview_of(TITLE, preview_fields(found, request, context), CAVEATS, wrapped=True)


def _patch(session: Session, found: Scale, request: Request, target: guard.Target) -> None:
    count = {"op": "replace", "path": "/spec/replicas", "value": request.replicas}
    answer = guard.send(
        session,
        INFERENCE_REPLICAS,
        target,
        [*guard.unchanged(target.uid, target.resource_version), count],
        request.dry_run,
        rejected=REJECTED,
        failed=lambda _: CliError(UNKNOWN),
        subresource="scale",
    )
    if objects.uid(answer) != target.uid or objects.count(answer, "spec", "replicas") != request.replicas:
        raise CliError(UNKNOWN)


def _result(found: Scale, request: Request, target: guard.Target, message: str, context: str) -> dict[str, Any]:
    service = found.service
    base = f"kubectl ome autoscale status {request.service} -n {target.namespace}"
    return {
        "apiVersion": "cli.ome.io/v1alpha1",
        "kind": "ActionResult",
        "collectedAt": "",
        "action": "scale",
        "target": {
            "kind": "InferenceReplica",
            "namespace": target.namespace,
            "name": target.name,
            "uid": target.uid,
            "resourceVersion": target.resource_version,
        },
        "dryRun": request.dry_run,
        "accepted": request.dry_run != "client",
        "applied": request.dry_run == "none",
        "message": message,
        "followUp": guard.with_context(base, context),
        "scale": {
            "component": request.component,
            "field": FIELD,
            "currentReplicas": found.current,
            "requestedReplicas": request.replicas,
            "bounds": found.bounds,
            "class": found.owner_class,
            "owner": _OWNERS[found.owner_class],
            "source": found.source,
            "override": True,
            "transient": True,
            "instances": found.instances,
            "parentFreshness": "Unverifiable",
            "parent": {
                "name": objects.name(service),
                "uid": objects.uid(service),
                "generation": objects.generation(service),
            },
            "warnings": list(CAVEATS),
            "issues": [DISCREPANCY] if objects.count(found.replica, "status", "replicas") != found.current else [],
        },
    }


def _result_rows(found: Scale, request: Request, document: Mapping[str, Any], wide: bool) -> list[list[str]]:
    target = document["target"]
    fields = [
        ("action", "scale"),
        ("target", f"InferenceReplica/{target['namespace']}/{target['name']}"),
        ("component", request.component),
        ("field", FIELD),
        ("replicas", f"{found.current} -> {request.replicas}"),
        ("bounds", found.bounds),
        ("class / owner", found.ownership),
        ("source", found.source),
        ("override", "Yes"),
        ("transient", "Yes"),
        ("dry-run", request.dry_run),
        ("accepted", guard.yes_no(document["accepted"])),
        ("applied", guard.yes_no(document["applied"])),
        ("instances", found.instances),
        ("parent freshness", "Unverifiable"),
        ("message", document["message"]),
        ("follow-up", document["followUp"]),
        ("hint", guard.HINT),
    ]
    if wide:
        fields += [
            ("IR UID", target["uid"]),
            ("IR RV", target["resourceVersion"]),
            ("parent UID", objects.uid(found.service)),
            ("runtime", found.runtime.active.runtime),
            *(("warning", line) for line in CAVEATS),
            *(("issue", code) for code in document["scale"]["issues"]),
        ]
    return [[label, cut(value, MAX_CELL)] for label, value in fields]


def scale(app: App, session: Session, request: Request) -> None:
    """The whole action: read, refuse or preview, read again, patch, report."""
    try:
        found = _read(session, request)
    except KubeError as error:
        raise CliError(guard.READ_FAILED) from error
    guard.write_preview(app, preview(found, request, session.context), PREVIEW_FAILED)
    try:
        again = _read(session, request)
    except (KubeError, Refused) as error:
        session.remaining()
        raise CliError(CHANGED) from error
    if _fingerprint(again) != _fingerprint(found):
        raise CliError(CHANGED)
    target = guard.Target.of("InferenceReplica", found.replica)
    if request.dry_run != "client":
        _patch(session, found, request, target)
    message = VALIDATED if request.dry_run == "client" else guard.outcome(request.dry_run, ACCEPTED)[2]
    document = _result(found, request, target, message, session.context) | {"collectedAt": app.collected_at()}
    if request.output in ("json", "yaml"):
        text = encode(document, request.output)
    else:
        lines = _result_rows(found, request, document, request.output == "wide")
        text = render_table(("FIELD", "VALUE"), lines, app.width())
    try:
        app.out(text)
    except (OSError, ValueError) as error:
        raise CliError(RESULT_FAILED) from error
