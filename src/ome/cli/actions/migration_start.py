"""`migration start`: ask OME to move one Instance (spec/cli-status-get-logs.md section 4).

`check_migration` is the pure judgement on what one pass read; `migration_start` runs the passes, the prompt and the
patch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api import keys
from ome.cli.actions import guard
from ome.cli.actions.rollout_work import TERMINAL_MIGRATIONS
from ome.cli.actions.target import BOUNDS, MAX_REPLICAS, MAX_ROWS, RUNTIME, Refused, check_service
from ome.cli.app import App
from ome.cli.errors import CANCELED, ActionConflict, CliError
from ome.cli.evidence import objects, rows
from ome.cli.evidence.effective import Effective, effective
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import belongs_to, component_of, is_current
from ome.cli.output.report import second_time
from ome.cli.reads import list_replicas
from ome.cli.runtime_reads import read_runtime
from ome.cli.session import Session
from ome.kube.errors import ApiError, KubeError
from ome.kube.resources import CONTROLLER_REVISIONS, INFERENCE_SERVICES, PODS

ACTION = "migration start"
PRECONDITION = "migration precondition conflicts or is stale; inspect migration status and retry explicitly"
REJECTED = "guarded migration rejected; inspect migration status using preview UUID"
UNKNOWN = "migration request failed or outcome unknown; inspect migration status using the preview UUID: {cause}"
MALFORMED = "invalid retained migration payload"
PREVIEW_FAILED = "write migration preview failed; no request submitted"
RESULT_FAILED = "write migration result failed; request outcome may be unknown, inspect migration status"
ACCEPTED = "API accepted annotation request; delivery and convergence not observed."
RETAINED = "Identical retained mailbox observed; no replay sent; delivery and convergence not observed."
TITLE = "ALPHA guarded migration preview (not controller convergence)"
CAVEATS = (
    "Node hints are soft preferences; capacity, scheduling and controller convergence",
    "are not guaranteed.",
    "Parent UID/resourceVersion CAS is not an IR/Pod/runtime transaction.",
)
QUEUED_REQUESTS = "Other migration requests are queued; dispatch is serial and capacity is not guaranteed."
QUEUED_WORK = "Other migration work is queued or executing; dispatch is serial and capacity is not guaranteed."
SCHEMA = "v1"


class Request(NamedTuple):
    service: str
    component: str
    instance: int
    from_node: str
    hints: tuple[str, ...]
    reason: str
    requested_by: str
    request_id: str
    lookup: bool
    dry_run: str
    ome_namespace: str
    output: str
    yes: bool

    @property
    def key(self) -> str:
        return keys.MIGRATION_REQUEST_PREFIX + self.request_id

    def payload(self, from_node: str, requested_at: str) -> dict[str, Any]:
        """The request as OME reads it."""
        document: dict[str, Any] = {
            "schemaVersion": SCHEMA,
            "component": self.component,
            "instance": self.instance,
            "from_node": from_node,
        }
        if self.hints:
            document["hint_target_nodes"] = list(self.hints)
        if self.reason:
            document["reason"] = self.reason
        return document | {"requested_at": requested_at, "requested_by": self.requested_by}


class Migration(NamedTuple):
    """An Instance that may be moved, and what it was judged on."""

    service: Mapping[str, Any]
    replica: Mapping[str, Any]
    row: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]]
    revision: Mapping[str, Any]
    from_node: str
    mode: str
    warnings: tuple[str, ...]

    @property
    def nodes(self) -> list[str]:
        return sorted({objects.text(pod, "spec", "nodeName") for pod in self.pods})


def _conflict() -> ActionConflict:
    return ActionConflict(PRECONDITION)


def retained_requests(service: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The requests that wait on the service, by request ID. Raises for one that is malformed."""
    found = {}
    for key, value in objects.mapping(service, "metadata", "annotations").items():
        if not key.startswith(keys.MIGRATION_REQUEST_PREFIX):
            continue
        try:
            document = json.loads(value)
        except (TypeError, ValueError) as error:
            raise CliError(MALFORMED) from error
        if not isinstance(document, Mapping) or document.get("schemaVersion") != SCHEMA:
            raise CliError(MALFORMED)
        found[key.removeprefix(keys.MIGRATION_REQUEST_PREFIX)] = document
    return found


def check_runtime(runtime: Effective) -> set[str]:
    """The OMENative components; refuses without one."""
    native = {mode.component for mode in runtime.active.modes if mode.mode == OME_NATIVE}
    if not (runtime.active.available and native):
        raise Refused(RUNTIME)
    return native


def _check_service_state(service: Mapping[str, Any]) -> None:
    paused = objects.annotation(service, keys.ROLLOUT_PAUSED) in ("true", "freeze")
    mailboxes = (keys.ROLLOUT_PROMOTE, keys.ROLLOUT_ROLLBACK)
    if paused or any(objects.annotation(service, key) is not None for key in mailboxes):
        raise _conflict()


def find_replica(
    service: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], native: set[str], component: str
) -> Mapping[str, Any]:
    """The component's replica, current and not paused, in a mode that allows migration."""
    mine = [replica for replica in listed if component_of(replica) == component]
    if component not in native or len(mine) != 1:
        raise _conflict()
    replica = mine[0]
    sound = belongs_to(replica, service) and is_current(replica, service) and not objects.is_deleting(replica)
    if not sound or objects.get(replica, "spec", "paused") is True or migration_mode(replica) == "Never":
        raise _conflict()
    return replica


def migration_mode(replica: Mapping[str, Any]) -> str:
    return objects.text(replica, "spec", "lifecycle", "migrationPolicy", "mode") or "Auto"


def find_row(replica: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    """The Instance: Ready on the current revision, idle, and in no migration that goes on."""
    try:
        instances = rows.decode(replica, MAX_ROWS)
    except rows.RowsError as error:
        raise _conflict() from error
    row = next((row for row in instances if objects.integer(row, "index") == index), None)
    if row is None or row.get("phase") != "Ready" or row.get("operation") is not None:
        raise _conflict()
    current = objects.text(replica, "status", "currentRevision")
    if objects.text(row, "runningRevision") != current or objects.text(replica, "status", "updateRevision") != current:
        raise _conflict()
    for entry in objects.items(replica, "status", "migrations"):
        moving = (objects.count(entry, "sourceInstance"), objects.integer(entry, "surgeInstance"))
        if index in moving and objects.text(entry, "phase") not in TERMINAL_MIGRATIONS:
            raise _conflict()
    return row


def source_node(pods: Sequence[Mapping[str, Any]], revision: str, row: Mapping[str, Any], asked: str) -> str:
    """The node to leave: the one all pods run on, or the one asked for. Every pod must be placed and on the
    revision.
    """
    live = [pod for pod in pods if not objects.is_deleting(pod)]
    hash8 = revision.rpartition("-")[2]
    placed = all(
        objects.text(pod, "spec", "nodeName") and objects.label(pod, keys.REVISION_HASH) == hash8 for pod in live
    )
    if not live or not placed or len(live) != objects.count(row, "podCount"):
        raise _conflict()
    nodes = {objects.text(pod, "spec", "nodeName") for pod in live}
    if asked:
        if asked not in nodes:
            raise _conflict()
        return asked
    if len(nodes) != 1:
        raise _conflict()
    return nodes.pop()


def _warnings(replica: Mapping[str, Any], waiting: Mapping[str, Any]) -> tuple[str, ...]:
    records = objects.items(replica, "status", "migrations")
    executing = any(objects.text(entry, "phase") not in TERMINAL_MIGRATIONS for entry in records)
    return tuple(text for text, holds in ((QUEUED_REQUESTS, bool(waiting)), (QUEUED_WORK, executing)) if holds)


def _read(session: Session, request: Request) -> Migration:
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    native = check_runtime(effective(read_runtime(session, service, request.ome_namespace)))
    _check_service_state(service)
    waiting = retained_requests(service)
    listed = list_replicas(session, service, page=16, pages=2)
    if listed.truncated or len(listed.items) > MAX_REPLICAS:
        raise Refused(BOUNDS)
    replica = find_replica(service, listed.items, native, request.component)
    row = find_row(replica, request.instance)
    for document in waiting.values():
        if (document.get("component"), document.get("instance")) == (request.component, request.instance):
            raise _conflict()
    pods = session.listing(PODS, session.namespace, label_selector=_pod_selector(request)).items
    running = objects.text(row, "runningRevision")
    node = source_node(pods, running, row, request.from_node)
    if node in request.hints:
        raise _conflict()
    revision = session.get(CONTROLLER_REVISIONS, running, session.namespace)
    return Migration(service, replica, row, pods, revision, node, migration_mode(replica), _warnings(replica, waiting))


def _pod_selector(request: Request) -> str:
    labels = {
        keys.INFERENCE_SERVICE: request.service,
        keys.COMPONENT: request.component,
        keys.MANAGED_BY: keys.MANAGED_BY_OMENATIVE,
        keys.INSTANCE_INDEX: str(request.instance),
    }
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _fingerprint(found: Migration) -> tuple[Any, ...]:
    pods = [(objects.uid(pod), objects.resource_version(pod)) for pod in found.pods]
    return (found.replica, pods, found.revision, found.from_node, objects.resource_version(found.service))


def preview(found: Migration, request: Request, context: str, requested_at: str) -> str:
    service, replica = found.service, found.replica
    fields = [
        ("Action", ACTION),
        ("Context", context),
        ("Workload NS", objects.namespace(service)),
        ("OME NS", request.ome_namespace),
        ("Target", f"InferenceService/{objects.name(service)}"),
        ("UID", objects.uid(service)),
        ("ResourceVersion", objects.resource_version(service)),
        ("Dry-run", request.dry_run),
        ("Request UUID", request.request_id),
        ("Schema", SCHEMA),
        ("Component", request.component),
        ("Instance", str(request.instance)),
        ("From node", found.from_node),
        ("Hint nodes", ", ".join(request.hints) or "<absent>"),
        ("Reason", json.dumps(request.reason, ensure_ascii=False) if request.reason else "<absent>"),
        ("Requested at", requested_at),
        ("Requested by", request.requested_by),
        ("Lookup only", "false"),
        ("Source IR", objects.name(replica)),
        ("IR UID", objects.uid(replica)),
        ("IR version", objects.resource_version(replica)),
        ("Migration mode", found.mode),
        ("Running revision", objects.text(found.row, "runningRevision")),
        ("Incarnation", str(objects.count(found.row, "incarnation"))),
        ("Current nodes", ", ".join(found.nodes)),
    ]
    return guard.preview_of(TITLE, fields, (*CAVEATS, *found.warnings))


def _result(
    app: App, session: Session, request: Request, target: guard.Target, outcome: tuple[bool, bool, str]
) -> None:
    accepted, applied, message = outcome
    base = f"kubectl ome migration status {request.service} --component={request.component} -n {session.namespace}"
    result = guard.ActionResult(
        app.collected_at(),
        ACTION,
        target,
        request.dry_run,
        accepted,
        applied,
        message,
        guard.with_context(base, session.context),
        request_id=request.request_id,
    )
    guard.write_result(app, result, request.output, RESULT_FAILED)


def _look_up(app: App, session: Session, request: Request) -> None:
    """`--request-id`: is that very request still waiting? Nothing is sent, whatever the answer."""
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    retained = retained_requests(service).get(request.request_id)
    if retained is None:
        raise _conflict()
    node = request.from_node or str(retained.get("from_node") or "")
    wanted = request.payload(node, str(retained.get("requested_at") or ""))
    if dict(retained) != wanted:
        raise _conflict()
    _result(app, session, request, guard.Target.of("InferenceService", service), (False, False, RETAINED))


def _failure(error: BaseException) -> CliError:
    if isinstance(error, KeyboardInterrupt):
        return CliError(UNKNOWN.format(cause=CANCELED))
    if isinstance(error, CliError):
        return CliError(UNKNOWN.format(cause=error))
    reason = error.reason if isinstance(error, ApiError) else ""
    return CliError(UNKNOWN.format(cause=reason or "Unavailable"))


def _patch(session: Session, found: Migration, request: Request, target: guard.Target, requested_at: str) -> None:
    payload = json.dumps(request.payload(found.from_node, requested_at), separators=(",", ":"), ensure_ascii=False)
    operations = guard.guarded_annotation(found.service, request.key, payload)
    answer = guard.send(
        session, INFERENCE_SERVICES, target, operations, request.dry_run, rejected=REJECTED, failed=_failure
    )
    if not guard.is_same_object(answer, "InferenceService", target):
        raise CliError(UNKNOWN.format(cause="response is unbound"))


def migration_start(app: App, session: Session, request: Request) -> None:
    """The whole action, or the look-up of an earlier request."""
    try:
        if request.lookup:
            _look_up(app, session, request)
            return
        found = _read(session, request)
    except KubeError as error:
        raise CliError(guard.READ_FAILED) from error
    requested_at = second_time(app.now())
    guard.write_preview(app, preview(found, request, session.context, requested_at), PREVIEW_FAILED)
    guard.confirm(app, session, request.yes)
    guard.read_again(session, lambda: _read(session, request), found, _fingerprint, PRECONDITION)
    target = guard.Target.of("InferenceService", found.service)
    if request.dry_run != "client":
        _patch(session, found, request, target, requested_at)
    _result(app, session, request, target, guard.outcome(request.dry_run, ACCEPTED))
