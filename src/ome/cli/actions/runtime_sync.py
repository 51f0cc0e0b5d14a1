"""`runtime sync`: may this pinned service be rolled forward now, and the one annotation that asks for it.

`check_sync` is the pure judgement (spec/cli-runtime-and-wait.md sections 2.5 and 2.6); `runtime_sync` runs the two
passes, the prompt and the patch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api.keys import (
    RELEASE_HELD_REVISION,
    ROLLOUT_PAUSED,
    ROLLOUT_PROMOTE,
    ROLLOUT_REPIN,
    ROLLOUT_ROLLBACK,
    RUNTIME_SYNC,
)
from ome.cli.actions import guard
from ome.cli.actions.rollout_work import has_rollout_work, replica_is_busy
from ome.cli.actions.runtime_token import TOKEN_PREFIX
from ome.cli.actions.target import (
    BOUNDS,
    EVIDENCE,
    MAILBOX,
    MAX_BYTES,
    MAX_REPLICAS,
    RUNTIME,
    Refused,
    check_service,
    exceeds_bounds,
)
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.evidence.chains import MAX_DEPTH, Member
from ome.cli.evidence.effective import KNOWN_KINDS, Effective, effective
from ome.cli.evidence.history import Window, inconsistent
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import component_of
from ome.cli.evidence.revisions import Revision, declared_source
from ome.cli.reads import list_replicas
from ome.cli.runtime_reads import read_history, read_runtime
from ome.cli.session import Collection, Session
from ome.kube.errors import ApiError, KubeError
from ome.kube.resources import INFERENCE_SERVICES

ACTION = "runtime sync"

UNSAFE_SYNC = "action refused: managed runtime sync safety evidence is unavailable or inconsistent"
CHANGED = "runtime sync safety snapshot changed; refresh runtime effective and retry explicitly"
REJECTED = "guarded annotation patch rejected; refresh runtime effective and retry explicitly"
UNKNOWN = "runtime sync request outcome unknown; check runtime effective; do not replay"
OVERSIZED = "runtime sync response is unbound or oversized; outcome unknown, check runtime effective; do not replay"
UNBOUND = "runtime sync response is unbound; outcome unknown, check runtime effective; do not replay"
RESULT_FAILED = (
    "write runtime sync result failed; request outcome may be unknown, check runtime effective; do not replay"
)
PREVIEW_FAILED = "write runtime sync preview failed"
ACCEPTED = "API accepted annotation request; consumption and convergence not observed."
TITLE = "ALPHA runtime sync preview (acceptance is not convergence)"
CAVEATS = (
    "API acceptance is not convergence or serving-revision readiness.",
    "Requests latest merged live runtime when controller consumes the token.",
    "Previewed content is not locked by this annotation.",
    "Parent CAS is not an atomic transaction across runtimes, revisions and IRs.",
    "Global observed generation is advisory; freshness is Unverifiable.",
    "Existing pause/freeze and lifecycle/rollout policies remain in effect.",
)
MAX_REVISIONS = 32


class Request(NamedTuple):
    service: str
    dry_run: str
    ome_namespace: str
    output: str
    yes: bool
    request_id: str

    @property
    def token(self) -> str:
        return TOKEN_PREFIX + self.request_id


class SyncEvidence(NamedTuple):
    """Everything one pass has read; `replicas` is None when no component is OMENative."""

    service: Mapping[str, Any]
    runtime: Effective
    revisions: Sequence[Revision]
    window: Window
    replicas: Collection | None


class Sync(NamedTuple):
    """A roll-forward that may be asked for."""

    evidence: SyncEvidence
    pinned: Revision
    target: Revision | None

    @property
    def target_hash(self) -> str:
        return self.evidence.runtime.live.hash8

    @property
    def predicted_pin(self) -> str:
        if self.target is not None:
            return self.target.name
        return declared_source(self.evidence.service).prefix + self.target_hash


def _check_pin(evidence: SyncEvidence) -> None:
    """Conditions 1 to 4 of section 2.5."""
    service, found = evidence.service, evidence.runtime
    runtime = objects.mapping(service, "spec", "runtime")
    declared = (
        objects.is_subdomain(objects.text(runtime, "name"))
        and runtime.get("autoSync") is False
        and not objects.text(runtime, "revision")
        and objects.text(runtime, "kind") in KNOWN_KINDS
        and objects.text(runtime, "apiGroup") in ("", "ome.io")
    )
    pinned = found.pin == "ManagedPin/Resolved" and found.active.revision == objects.text(
        service, "status", "pinnedRevisionName"
    )
    is_drifted = found.drift == "ReportedTrue/RevisionMismatch" and found.live_relation == "Different"
    if not (declared and pinned and is_drifted and found.sync != "Pending"):
        raise Refused(UNSAFE_SYNC)


def _safe_member(entry: Member) -> bool:
    obj = entry.obj
    return (
        not objects.is_deleting(obj)
        and objects.is_safe_identity(objects.uid(obj))
        and objects.is_safe_identity(objects.resource_version(obj))
    )


def _check_chain(found: Effective) -> None:
    """Condition 5: enabled after the merge, whole, nobody of it on the way out."""
    chain = found.chain
    if chain is None or chain.issue or not found.live.available or len(chain.members) > MAX_DEPTH:
        raise Refused(UNSAFE_SYNC)
    if len({entry.name for entry in chain.members}) != len(chain.members):
        raise Refused(UNSAFE_SYNC)
    if not all(_safe_member(entry) for entry in chain.members):
        raise Refused(UNSAFE_SYNC)


def _check_revisions(evidence: SyncEvidence) -> tuple[Revision, Revision | None]:
    """Condition 6; the pinned revision, and the stored one of the target content if there is one."""
    revisions, live = evidence.revisions, evidence.runtime.live
    if evidence.window.observation != "Complete" or len(revisions) > MAX_REVISIONS:
        raise Refused(UNSAFE_SYNC)
    if any(inconsistent(revision) or revision.disabled for revision in revisions):
        raise Refused(UNSAFE_SYNC)
    targets = [revision for revision in revisions if revision.hash8 == live.hash8]
    if len(targets) > 1 or any(revision.full_hash != live.full_hash for revision in targets):
        raise Refused(UNSAFE_SYNC)
    pinned = [revision for revision in revisions if revision.name == evidence.runtime.active.revision]
    if len(pinned) != 1:
        raise Refused(RUNTIME)
    return pinned[0], targets[0] if targets else None


def _check_work(evidence: SyncEvidence) -> None:
    """Condition 7, first half: nothing rolls, and every InferenceReplica is idle, current and consistent."""
    service = evidence.service
    if has_rollout_work(service):
        raise Refused(EVIDENCE)
    if evidence.replicas is None:
        return
    if evidence.replicas.truncated or len(evidence.replicas.items) > MAX_REPLICAS:
        raise Refused(BOUNDS)
    native = {mode.component for mode in evidence.runtime.active.modes if mode.mode == OME_NATIVE}
    present = [component_of(replica) for replica in evidence.replicas.items]
    if not native <= set(present) or len(set(present)) != len(present):
        raise Refused(EVIDENCE)
    for replica in evidence.replicas.items:
        if exceeds_bounds(replica):
            raise Refused(BOUNDS)
        if replica_is_busy(replica, service):
            raise Refused(EVIDENCE)


def _check_mailboxes(evidence: SyncEvidence) -> None:
    """Condition 7, second half: no request that OME has not answered."""
    keys = (ROLLOUT_PROMOTE, ROLLOUT_ROLLBACK, ROLLOUT_REPIN)
    replicas = evidence.replicas.items if evidence.replicas else []
    if any(objects.annotation(evidence.service, key) is not None for key in keys) or any(
        objects.annotation(replica, RELEASE_HELD_REVISION) is not None for replica in replicas
    ):
        raise Refused(MAILBOX)


def check_sync(evidence: SyncEvidence) -> Sync:
    """The seven conditions in order; raises Refused with the first that fails."""
    _check_pin(evidence)
    _check_chain(evidence.runtime)
    pinned, target = _check_revisions(evidence)
    _check_work(evidence)
    _check_mailboxes(evidence)
    return Sync(evidence, pinned, target)


def _read(session: Session, request: Request) -> Sync:
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    runtime = effective(read_runtime(session, service, request.ome_namespace))
    revisions, window = read_history(session, service, runtime, request.ome_namespace)
    native = any(mode.mode == OME_NATIVE for view in (runtime.active, runtime.live) for mode in view.modes)
    replicas = list_replicas(session, service, page=16, pages=2) if native else None
    return check_sync(SyncEvidence(service, runtime, revisions, window, replicas))


def _fingerprint(sync: Sync) -> tuple[Any, ...]:
    evidence = sync.evidence
    chain = evidence.runtime.chain
    return (
        evidence.service,
        [entry.obj for entry in chain.members] if chain else [],
        [revision.obj for revision in evidence.revisions],
        evidence.replicas.items if evidence.replicas else None,
        evidence.runtime.active,
        evidence.runtime.live,
    )


def _source(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"


def _pause_state(service: Mapping[str, Any]) -> str:
    depth = objects.annotation(service, ROLLOUT_PAUSED)
    return {"true": "Paused", "freeze": "Freeze"}.get(depth or "", "Not recognized")


def preview_fields(sync: Sync, request: Request, context: str) -> list[tuple[str, str]]:
    """The rows of section 2.7 in their order."""
    evidence = sync.evidence
    service, found = evidence.service, evidence.runtime
    chain = found.chain
    assert chain is not None
    fields = [
        ("Action", ACTION),
        ("Context", context),
        ("Workload NS", objects.namespace(service)),
        ("OME NS", request.ome_namespace),
        ("Target", f"InferenceService/{objects.name(service)}"),
        ("UID", objects.uid(service)),
        ("ResourceVersion", objects.resource_version(service)),
        ("Dry-run", request.dry_run),
        ("Generation", str(objects.generation(service))),
        ("Reported gen", str(objects.count(service, "status", "observedGeneration"))),
        ("Freshness", "Unverifiable (advisory global status)"),
        ("Pin", found.active.revision),
        ("Pin source", _source(*sync.pinned.source)),
    ]
    for entry in chain.members:
        fields += [
            ("Source", _source(entry.kind, entry.namespace, entry.name)),
            ("Source UID", objects.uid(entry.obj)),
            ("Source RV", objects.resource_version(entry.obj)),
            ("Source gen", str(objects.generation(entry.obj) or 0)),
        ]
    fields += [
        ("Pin UID", objects.uid(sync.pinned.obj)),
        ("Pin RV", objects.resource_version(sync.pinned.obj)),
        ("Current hash", found.active.hash8),
        ("Target hash", sync.target_hash),
        ("Predicted pin", sync.predicted_pin),
        ("Target evidence", "Existing" if sync.target else "NotFound"),
        ("Old sync token", found.sync),
    ]
    if sync.target is not None:
        fields += [
            ("Target UID", objects.uid(sync.target.obj)),
            ("Target RV", objects.resource_version(sync.target.obj)),
        ]
    return [
        *fields,
        ("Pause state", _pause_state(service)),
        ("Request UUID", request.request_id),
        ("Set annotation", RUNTIME_SYNC),
        ("New token", request.token),
    ]


def preview(sync: Sync, request: Request, context: str) -> str:
    """The whole preview; raises Refused for a value that a terminal could show as another."""
    return guard.preview_of(TITLE, preview_fields(sync, request, context), CAVEATS)


def _failure(error: BaseException) -> CliError:
    """An API server that refused has stored nothing; after anything else nobody knows."""
    if isinstance(error, ApiError) and error.status_code < 500 and error.status_code != 408:
        return CliError(guard.READ_FAILED)
    return CliError(UNKNOWN)


def _patch(session: Session, sync: Sync, request: Request, target: guard.Target) -> None:
    operations = guard.guarded_annotation(sync.evidence.service, RUNTIME_SYNC, request.token)
    answer = guard.send(
        session, INFERENCE_SERVICES, target, operations, request.dry_run, rejected=REJECTED, failed=_failure
    )
    if len(objects.encoded(answer)) > MAX_BYTES:
        raise CliError(OVERSIZED)
    bound = guard.is_same_object(answer, "InferenceService", target)
    if not bound or objects.annotation(answer, RUNTIME_SYNC) != request.token:
        raise CliError(UNBOUND)


def follow_up(request: Request, namespace: str, context: str) -> str:
    named = guard.with_context(f"kubectl ome runtime effective {request.service} -n {namespace}", context)
    return f"{named} --ome-namespace={request.ome_namespace}"


def new_request_id() -> str:
    return str(uuid.uuid4())


def runtime_sync(app: App, session: Session, request: Request) -> None:
    """The whole action: read, refuse or preview, confirm, read again, patch, report."""
    try:
        sync = _read(session, request)
    except KubeError as error:
        raise CliError(guard.READ_FAILED) from error
    guard.write_preview(app, preview(sync, request, session.context), PREVIEW_FAILED)
    guard.confirm(app, session, request.yes)
    guard.read_again(session, lambda: _read(session, request), sync, _fingerprint, CHANGED)
    target = guard.Target.of("InferenceService", sync.evidence.service)
    if request.dry_run != "client":
        _patch(session, sync, request, target)
    accepted, applied, message = guard.outcome(request.dry_run, ACCEPTED)
    result = guard.ActionResult(
        app.collected_at(),
        ACTION,
        target,
        request.dry_run,
        accepted,
        applied,
        message,
        follow_up(request, session.namespace, session.context),
        request_id=request.request_id,
        revision_hash=sync.target_hash,
    )
    guard.write_result(app, result, request.output, RESULT_FAILED)
