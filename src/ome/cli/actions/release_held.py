"""`instance release-held`: which Held retry block may be released, and the request that does it (spec/cli-instance.md
section 5).

`find_release` is the pure judgement on what one pass has read; `release_held` runs the two passes, the prompt and the
patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ome.api.keys import CONTROLLER_WRITE, RELEASE_HELD_REVISION, ROLLOUT_PAUSED
from ome.cli.actions import guard
from ome.cli.actions.target import (
    BOUNDS,
    EVIDENCE,
    MAX_REPLICAS,
    MAX_ROWS,
    PLACEMENT,
    RUNTIME,
    Refused,
    check_service,
    exceeds_bounds,
    has_identity,
    is_placed,
)
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects, rows
from ome.cli.evidence.effective import Effective, effective
from ome.cli.evidence.modes import OME_NATIVE
from ome.cli.evidence.replicas import belongs_to, component_of, is_current, observed_generation, parent_stamp
from ome.cli.evidence.retry_blocks import block_issues, repeated_targets, stored_blocks
from ome.cli.output.table import render_table
from ome.cli.reads import list_replicas
from ome.cli.runtime_reads import read_runtime
from ome.cli.session import Collection, Session
from ome.kube.errors import KubeError
from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES

NOT_RELEASABLE = "action refused: no exact current valid Held retry block is releasable"
MAILBOX_PRESENT = "action refused: a release-held mailbox is already present; inspect instance retry-blocks"
STALE_PREVIEW = "held-release preview became stale; inspect instance retry-blocks and retry explicitly"
REJECTED = "guarded held-release rejected; inspect instance retry-blocks"
UNKNOWN = "held-release request outcome unknown; inspect instance retry-blocks before another explicit request"
UNBOUND = "held-release API response is unbound or unavailable; outcome unknown, inspect instance retry-blocks"
PREVIEW_FAILED = "write held-release preview failed"
RESULT_FAILED = "write held-release result failed; request outcome may be unknown, inspect instance retry-blocks"
ACCEPTED = "API accepted release annotation request; controller release/convergence not observed."
ACTION = "instance release-held"

PAGE = 16
PAGES = 2

_CAVEATS = (
    ("Controller stamp", "existing controller-write=true preserved"),
    ("Pause effect", "Mailbox may be consumed; release does not resume work"),
    ("Held check", "Actor initial snapshot; fresh removal does not recheck"),
    ("Consumption", "Fresh delete is not handled value/UID compare-and-delete"),
    ("Later observation", "Both absent on original UID is consistent, not attribution"),
    ("Scope", "One IR release request; no spec/status/scale mutation"),
    ("Acceptance", "Not release, retry, garbage collection or availability"),
    ("Race", "IR CAS is not a parent/runtime/membership transaction"),
    ("Actor limits", "Consumption has no durable request-correlated receipt"),
    ("Actor retention", "Historical retry records may be retention-pruned"),
)


class Request(NamedTuple):
    """What the command line asks for; every value has been checked for form."""

    service: str
    component: str
    revision: str
    dry_run: str
    ome_namespace: str
    output: str
    yes: bool


class Release(NamedTuple):
    """One block that may be released, and everything it was judged on."""

    service: Mapping[str, Any]
    runtime: Effective
    replicas: Sequence[Mapping[str, Any]]
    pages: int
    replica: Mapping[str, Any]
    block: Mapping[str, Any]

    @property
    def revision(self) -> str:
        return objects.text(self.block, "targetRevision")

    @property
    def hash8(self) -> str:
        return self.revision.rpartition("-")[2]


def _stored(obj: Mapping[str, Any]) -> dict[str, Any]:
    # A list's items may come without their type; everything else must be equal.
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def check_replicas(service: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]) -> None:
    """Step 5: every replica of the service must be sound and current, whatever component the release is for."""
    seen: dict[str, set[str]] = {"component": set(), "uid": set(), "name": set()}
    for replica in listed:
        if not has_identity(replica) or objects.is_deleting(replica):
            raise Refused(NOT_RELEASABLE)
        if exceeds_bounds(replica):
            raise Refused(BOUNDS)
        try:
            rows.decode(replica, MAX_ROWS)
        except rows.RowsError as error:
            raise Refused(BOUNDS if error.too_many else EVIDENCE) from error
        if is_placed(replica):
            raise Refused(PLACEMENT)
        if not belongs_to(replica, service) or component_of(replica) not in objects.COMPONENTS:
            raise Refused(NOT_RELEASABLE)
        if not is_current(replica, service):
            raise Refused(NOT_RELEASABLE)
        identity = {"component": component_of(replica), "uid": objects.uid(replica), "name": objects.name(replica)}
        for kind, value in identity.items():
            if value in seen[kind]:
                raise Refused(NOT_RELEASABLE)
            seen[kind].add(value)


def check_blocks(service: Mapping[str, Any], replica: Mapping[str, Any], now: datetime) -> list[Mapping[str, Any]]:
    """Step 6: the controller's stamp, no request waiting, and not one malformed block."""
    if objects.annotation(replica, CONTROLLER_WRITE) != "true":
        raise Refused(NOT_RELEASABLE)
    if objects.annotation(replica, RELEASE_HELD_REVISION) is not None:
        raise Refused(MAILBOX_PRESENT)
    blocks = stored_blocks(replica)
    if blocks is None:
        raise Refused(NOT_RELEASABLE)
    repeated = repeated_targets(blocks)
    for block in blocks:
        target = objects.text(block, "targetRevision")
        if block_issues(block, objects.name(service), component_of(replica), target in repeated, now):
            raise Refused(NOT_RELEASABLE)
    return blocks


def find_release(
    service: Mapping[str, Any],
    runtime: Effective,
    listed: Collection,
    fetch: Callable[[str], Mapping[str, Any]],
    request: Request,
    now: datetime,
) -> Release:
    """Steps 4 to 8 of section 5.1 in their order; raises Refused with the first that fails. `fetch` reads one replica
    again.
    """
    if not (runtime.active.available and runtime.live.available):
        raise Refused(RUNTIME)
    native = {mode.component for mode in runtime.active.modes if mode.mode == OME_NATIVE}
    if not native:
        raise Refused(RUNTIME)
    if listed.truncated or len(listed.items) > MAX_REPLICAS:
        raise Refused(BOUNDS)
    check_replicas(service, listed.items)
    mine = next((replica for replica in listed.items if component_of(replica) == request.component), None)
    if mine is None:
        raise Refused(NOT_RELEASABLE)
    blocks = check_blocks(service, mine, now)
    if _stored(fetch(objects.name(mine))) != _stored(mine):
        raise Refused(EVIDENCE)
    if request.component not in native:
        raise Refused(NOT_RELEASABLE)
    matching = [block for block in blocks if _matches(objects.text(block, "targetRevision"), request.revision)]
    if len(matching) != 1 or matching[0].get("state") != "Held":
        raise Refused(NOT_RELEASABLE)
    return Release(service, runtime, listed.items, listed.pages, mine, matching[0])


def _matches(target: str, asked: str) -> bool:
    """A full name equals; an eight-digit hash is the name's last part."""
    return target == asked or (objects.is_hash8(asked) and target.endswith(f"-{asked}"))


def _read(session: Session, request: Request, now: datetime) -> Release:
    """One whole pass of reading and judging (steps 3 to 8)."""
    service = session.get(INFERENCE_SERVICES, request.service, session.namespace)
    check_service(service, session.namespace, request.service)
    runtime = effective(read_runtime(session, service, request.ome_namespace))
    listed = list_replicas(session, service, page=PAGE, pages=PAGES)

    def fetch(name: str) -> Mapping[str, Any]:
        return session.get(INFERENCE_REPLICAS, name, session.namespace)

    return find_release(service, runtime, listed, fetch, request, now)


def _fingerprint(release: Release) -> tuple[Any, ...]:
    """What must be equal in both passes (step 11)."""
    service = release.service
    return (
        objects.uid(service),
        objects.resource_version(service),
        objects.generation(service),
        release.runtime.pin,
        release.runtime.active,
        release.runtime.live,
        [_stored(replica) for replica in release.replicas],
        dict(release.block),
    )


def preview(release: Release, request: Request, context: str) -> str:
    """The preview of section 5.2, exact in rows and order."""
    service, replica = release.service, release.replica
    paused = objects.annotation(service, ROLLOUT_PAUSED)
    observed = objects.count(service, "status", "observedGeneration")
    fields = (
        ("Action", f"Alpha {ACTION}"),
        ("Context", context),
        ("Workload NS", objects.namespace(service)),
        ("OME NS", request.ome_namespace),
        ("Parent", f"InferenceService/{objects.name(service)}"),
        ("Parent UID", objects.uid(service)),
        ("Parent RV", objects.resource_version(service)),
        ("Parent generation", str(objects.generation(service))),
        ("Global parent status", f"{observed} advisory Unverifiable; not acknowledgement"),
        ("Component", request.component),
        ("Target", f"InferenceReplica/{objects.name(replica)}"),
        ("IR UID", objects.uid(replica)),
        ("IR RV", objects.resource_version(replica)),
        ("IR generation", str(objects.generation(replica))),
        ("Native observed", str(observed_generation(replica))),
        ("Parent stamp", str(parent_stamp(replica))),
        ("Revision", release.revision),
        ("Hash", release.hash8),
        ("State", objects.text(release.block, "state")),
        ("Attempts", str(objects.count(release.block, "attemptsStarted"))),
        ("Dry-run", request.dry_run),
        ("Pause depth", paused if paused in ("true", "freeze") else "none"),
        ("Membership", f"{len(release.replicas)} IRs / {release.pages} pages"),
        ("Test UID", objects.uid(replica)),
        ("Test RV", objects.resource_version(replica)),
        ("Add annotation", RELEASE_HELD_REVISION),
        ("Exact value", release.revision),
    )
    caveats = [list(line) for line in _CAVEATS]
    return render_table(("HELD RELEASE PREVIEW", "VALUE"), guard.preview_rows(fields) + caveats)


def follow_up(request: Request, namespace: str, context: str) -> str:
    base = f"kubectl ome instance retry-blocks {request.service} --component={request.component} -n {namespace}"
    return guard.with_context(base, context)


def _patch(session: Session, release: Release, request: Request, target: guard.Target) -> None:
    """Step 12."""
    operations = guard.guarded_annotation(release.replica, RELEASE_HELD_REVISION, release.revision)
    answer = guard.send(
        session,
        INFERENCE_REPLICAS,
        target,
        operations,
        request.dry_run,
        rejected=REJECTED,
        failed=lambda _: CliError(UNKNOWN),
    )
    if not guard.is_same_object(answer, "InferenceReplica", target):
        raise CliError(UNBOUND)


def release_held(app: App, session: Session, request: Request) -> None:
    """The whole action: read, refuse or preview, confirm, read again, patch, report."""
    try:
        release = _read(session, request, app.now())
    except KubeError as error:
        raise CliError(guard.READ_FAILED) from error
    guard.write_preview(app, preview(release, request, session.context), PREVIEW_FAILED)
    guard.confirm(app, session, request.yes)
    guard.read_again(session, lambda: _read(session, request, app.now()), release, _fingerprint, STALE_PREVIEW)
    target = guard.Target.of("InferenceReplica", release.replica)
    if request.dry_run != "client":
        _patch(session, release, request, target)
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
        revision_hash=release.hash8,
    )
    guard.write_result(app, result, request.output, RESULT_FAILED)
