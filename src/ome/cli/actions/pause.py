"""`rollout pause` and `rollout resume`: the guarded edit of `ome.io/rollout-paused` (spec/omenative.md section 10).

The protocol is spec/cli-runtime-and-wait.md section 4; `check_pause` and `check_resume` are the pure judgements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api.keys import ROLLOUT_PAUSED, ROLLOUT_PROMOTE, ROLLOUT_ROLLBACK
from ome.cli.actions import guard
from ome.cli.actions.rollout_work import TERMINAL_MIGRATIONS, has_rollout_work
from ome.cli.actions.target import (
    BOUNDS,
    EVIDENCE,
    MAILBOX,
    MAX_REPLICAS,
    RUNTIME,
    Refused,
    check_service,
)
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects, rows
from ome.cli.evidence.effective import Effective, effective
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import belongs_to
from ome.cli.reads import list_replicas
from ome.cli.runtime_reads import read_runtime
from ome.cli.session import Collection, Session
from ome.kube.errors import KubeError
from ome.kube.resources import INFERENCE_SERVICES

ALREADY_PAUSED = "action refused: service is already paused; freeze is preserved"
NOT_PAUSED = "action refused: service has no recognized pause"
NO_WORK = "action refused: no applicable active rollout or lifecycle work was observed"
REJECTED = "guarded annotation patch rejected; inspect rollout status and retry explicitly"
UNKNOWN = "rollout request outcome unknown; do not replay, check rollout status"
UNBOUND = "rollout response is unbound; outcome unknown, check rollout status; do not replay"
PREVIEW_FAILED = "write rollout preview failed; no request submitted"
RESULT_FAILED = "write rollout result failed; request outcome may be unknown, check rollout status"
ACCEPTED = "API accepted annotation request; convergence not observed."
TITLE = "ALPHA guarded action preview (not controller convergence)"
CAVEATS = (
    "Scope: service-wide OMENative lifecycle, not a full workload freeze.",
    "true holds Update/Create/Migration; RestartPolicy repair continues.",
    "freeze also holds existing-instance repair; resume clears either depth.",
    "Canary timed gates continue aging and may advance immediately on resume.",
    "Deliberate scale-down and deletion teardown can still proceed.",
    "Parent UID/resourceVersion CAS is not a multi-object transaction.",
)


class Request(NamedTuple):
    action: str
    service: str
    dry_run: str
    ome_namespace: str
    output: str
    yes: bool
    discard: bool = False


class Work(NamedTuple):
    """What runs on the service's OMENative components."""

    affected: tuple[str, ...]
    operations: int
    migrations: int
    rolling: bool

    @property
    def active(self) -> bool:
        return bool(self.operations or self.migrations or self.rolling)


def active_work(service: Mapping[str, Any], runtime: Effective, listed: Collection) -> Work:
    """Counts operations and migrations; raises Refused when the evidence does not fit together."""
    if not runtime.active.available:
        raise Refused(RUNTIME)
    affected = tuple(mode.component for mode in runtime.active.modes if mode.mode == OME_NATIVE)
    if not affected:
        raise Refused(RUNTIME)
    if listed.truncated or len(listed.items) > MAX_REPLICAS:
        raise Refused(BOUNDS)
    operations = migrations = 0
    rolling = has_rollout_work(service)
    for replica in listed.items:
        if not belongs_to(replica, service):
            raise Refused(EVIDENCE)
        try:
            instances = rows.decode(replica)
        except rows.RowsError as error:
            raise Refused(EVIDENCE) from error
        operations += sum(row.get("operation") is not None for row in instances)
        records = objects.items(replica, "status", "migrations")
        migrations += sum(objects.text(entry, "phase") not in TERMINAL_MIGRATIONS for entry in records)
        current, update = (objects.text(replica, "status", key) for key in ("currentRevision", "updateRevision"))
        rolling = rolling or current != update or any(row.get("phase") != "Ready" for row in instances)
    return Work(affected, operations, migrations, rolling)


def _pause_depth(service: Mapping[str, Any]) -> str:
    value = objects.annotation(service, ROLLOUT_PAUSED)
    return value if value in ("true", "freeze") else ""


def _mailboxes(service: Mapping[str, Any]) -> list[str]:
    return [key for key in (ROLLOUT_PROMOTE, ROLLOUT_ROLLBACK) if objects.annotation(service, key) is not None]


def check_pause(service: Mapping[str, Any], work: Work) -> None:
    if _pause_depth(service):
        raise Refused(ALREADY_PAUSED)
    if _mailboxes(service):
        raise Refused(MAILBOX)
    if not work.active:
        raise Refused(NO_WORK)


def check_resume(service: Mapping[str, Any], discard: bool) -> None:
    if not _pause_depth(service):
        raise Refused(NOT_PAUSED)
    if _mailboxes(service) and not discard:
        raise Refused(MAILBOX)


def _removal(service: Mapping[str, Any], keys: Sequence[str]) -> list[dict[str, Any]]:
    operations = guard.unchanged(objects.uid(service), objects.resource_version(service))
    for key in keys:
        path = guard.annotation_path(key)
        operations.append({"op": "test", "path": path, "value": objects.annotation(service, key)})
        operations.append({"op": "remove", "path": path})
    return operations


def preview(service: Mapping[str, Any], work: Work, request: Request, context: str) -> str:
    depth, pausing = _pause_depth(service), request.action == "rollout pause"
    value = "true" if pausing else depth
    fields = [
        ("Action", request.action),
        ("Context", context),
        ("Workload NS", objects.namespace(service)),
        ("OME NS", request.ome_namespace),
        ("Target", f"InferenceService/{objects.name(service)}"),
        ("UID", objects.uid(service)),
        ("ResourceVersion", objects.resource_version(service)),
        ("Dry-run", request.dry_run),
        ("Affected", ",".join(work.affected)),
        ("Pause depth", depth or "none"),
        ("Set annotation" if pausing else "Remove annotation", ROLLOUT_PAUSED),
        ("Value", f'"{value}"'),
        *((("Discard annotation", key) for key in _mailboxes(service)) if request.discard else ()),
        ("Active records", f"operations={work.operations} migrations={work.migrations}"),
    ]
    return guard.preview_of(TITLE, fields, CAVEATS)


def _read(session: Session, request: Request) -> tuple[dict[str, Any], Work]:
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    evidence = read_runtime(session, service, request.ome_namespace)
    if any(read.revision is None for read in evidence.revisions.values()):
        raise CliError(guard.READ_FAILED)
    listed = list_replicas(session, service, page=16, pages=2)
    work = active_work(service, effective(evidence), listed)
    if request.action == "rollout pause":
        check_pause(service, work)
    else:
        check_resume(service, request.discard)
    return service, work


def _patch(session: Session, service: Mapping[str, Any], request: Request, target: guard.Target) -> None:
    if request.action == "rollout pause":
        operations = guard.guarded_annotation(service, ROLLOUT_PAUSED, "true")
    else:
        operations = _removal(service, [ROLLOUT_PAUSED, *(_mailboxes(service) if request.discard else [])])
    answer = guard.send(
        session,
        INFERENCE_SERVICES,
        target,
        operations,
        request.dry_run,
        rejected=REJECTED,
        failed=lambda _: CliError(UNKNOWN),
    )
    if not guard.is_same_object(answer, "InferenceService", target):
        raise CliError(UNBOUND)


def pause_or_resume(app: App, session: Session, request: Request) -> None:
    """The whole action: read, refuse or preview, confirm, patch, report; without a second read (section 4.1 step 4)."""
    try:
        service, work = _read(session, request)
    except KubeError as error:
        raise CliError(guard.READ_FAILED) from error
    guard.write_preview(app, preview(service, work, request, session.context), PREVIEW_FAILED)
    guard.confirm(app, session, request.yes)
    target = guard.Target.of("InferenceService", service)
    if request.dry_run != "client":
        _patch(session, service, request, target)
    accepted, applied, message = guard.outcome(request.dry_run, ACCEPTED)
    result = guard.ActionResult(
        app.collected_at(),
        request.action,
        target,
        request.dry_run,
        accepted,
        applied,
        message,
        guard.with_context(f"kubectl ome rollout status {request.service} -n {session.namespace}", session.context),
    )
    guard.write_result(app, result, request.output, RESULT_FAILED)
