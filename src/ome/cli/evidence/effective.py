"""The effective runtime of a service: live view, active view, pin, drift, and how they agree
(spec/cli-runtime-and-wait.md 2.2).

Pure: `RuntimeEvidence` is what a command has read, `effective` is the judgement. `release-held`, `sync` and `history`
stand on it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ome.api.canonical import runtime_hash, short_hash
from ome.api.keys import RUNTIME_SYNC
from ome.cli.evidence import objects
from ome.cli.evidence.chains import CLUSTER_SERVING_RUNTIME, SERVING_RUNTIME, Chain
from ome.cli.evidence.modes import Mode, component_modes
from ome.cli.evidence.revisions import Revision, relation

AVAILABLE = "Available"
UNAVAILABLE = "Unavailable"
KNOWN_KINDS = ("", SERVING_RUNTIME, CLUSTER_SERVING_RUNTIME)
DRIFT_CAUSES = ("RevisionMismatch", "RevisionMissing", "SourceRuntimeMissing", "RuntimeMismatch")
_DRIFT_WORDS = {"True": "ReportedTrue", "False": "ReportedFalse", "Unknown": "ReportedUnknown"}


class LiveEvidence(NamedTuple):
    """The live runtime as read: its chain, or the reason why there is none. `selected`: OME's automatic choice, own
    spec only.
    """

    chain: Chain | None = None
    reason: str = ""
    selected: bool = False
    incompatible: bool = False


class RevisionEvidence(NamedTuple):
    """One revision as read; without an object `reason` says why (NotFound, Forbidden, UnsupportedAPI, Unreadable)."""

    revision: Revision | None = None
    reason: str = ""


class RuntimeEvidence(NamedTuple):
    service: Mapping[str, Any]
    live: LiveEvidence
    revisions: Mapping[str, RevisionEvidence]


class Issue(NamedTuple):
    code: str
    revision: str = ""

    def __str__(self) -> str:
        return f"{self.code}({self.revision})" if self.revision else self.code


class View(NamedTuple):
    """Live or Active. `runtime` is the short form; hashes are full."""

    state: str
    reason: str = ""
    runtime: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    revision: str = ""
    full_hash: str = ""
    modes: tuple[Mode, ...] = ()

    @property
    def hash8(self) -> str:
        return short_hash(self.full_hash)

    @property
    def long_runtime(self) -> str:
        """`ClusterServingRuntime/<name>` or `ServingRuntime/<ns>/<name>`."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    @property
    def available(self) -> bool:
        return self.state == AVAILABLE


class Effective(NamedTuple):
    selection: str
    chain: Chain | None
    live: View
    active: View
    pin_mode: str
    pin_state: str
    sync: str
    status: str
    drift: str
    live_relation: str
    issues: tuple[Issue, ...]
    live_spec: Mapping[str, Any] | None
    active_spec: Mapping[str, Any] | None

    @property
    def pin(self) -> str:
        return f"{self.pin_mode}/{self.pin_state}"


def pin_mode(service: Mapping[str, Any]) -> str:
    runtime = objects.mapping(service, "spec", "runtime")
    if not objects.text(runtime, "name") or runtime.get("autoSync") is not False:
        return "AutoSync"
    if objects.text(runtime, "kind") not in KNOWN_KINDS:
        return "InvalidPin"
    return "ExplicitPin" if objects.text(runtime, "revision") else "ManagedPin"


def revisions_to_read(service: Mapping[str, Any]) -> list[str]:
    """The revisions a service names: `spec.runtime.revision` and `status.pinnedRevisionName`."""
    if pin_mode(service) == "AutoSync":
        return []
    named = (
        objects.text(service, "spec", "runtime", "revision"),
        objects.text(service, "status", "pinnedRevisionName"),
    )
    return list(dict.fromkeys(name for name in named if name))


def sync_state(service: Mapping[str, Any]) -> str:
    """The roll-forward token: what the annotation asks against what OME recorded."""
    token = objects.annotation(service, RUNTIME_SYNC) or ""
    recorded = objects.text(service, "status", "lastRuntimeSyncToken")
    if not token:
        return "StatusOnly" if recorded else "Absent"
    return "Acknowledged" if token == recorded else "Pending"


def status_freshness(service: Mapping[str, Any]) -> str:
    observed, generation = objects.integer(service, "status", "observedGeneration"), objects.generation(service) or 0
    if observed is None or observed == 0:
        return "Unobserved"
    if observed < 0 or observed > generation:
        return "Invalid"
    return "Current" if observed == generation else "Stale"


def drift_state(service: Mapping[str, Any]) -> str:
    """`NotReported`, or what the RuntimeDrifted condition says, in the tool's words."""
    found = [
        entry
        for entry in objects.items(service, "status", "conditions")
        if isinstance(entry, Mapping) and entry.get("type") == "RuntimeDrifted"
    ]
    if not found:
        return "NotReported"
    if len(found) > 1:
        return "Malformed"
    cause = objects.text(found[0], "reason")
    word = _DRIFT_WORDS.get(objects.text(found[0], "status"), "Malformed")
    return f"{word}/{cause if cause in DRIFT_CAUSES else 'Other'}"


def _live_view(service: Mapping[str, Any], live: LiveEvidence) -> tuple[View, Mapping[str, Any] | None]:
    if live.chain is None:
        return View(UNAVAILABLE, live.reason or "Unreadable"), None
    head = live.chain.head
    named = View(UNAVAILABLE, "Unreadable", head.short, head.kind, head.namespace, head.name)
    if live.chain.issue:
        return named, None
    spec = live.chain.merged()
    try:
        full = runtime_hash(spec)
    except (AttributeError, KeyError, TypeError, ValueError):
        return named, None
    if spec.get("disabled") is True:
        return named._replace(reason="Disabled", full_hash=full), spec
    return named._replace(state=AVAILABLE, reason="", full_hash=full, modes=component_modes(service, spec)), spec


def _revision_view(service: Mapping[str, Any], revision: Revision, reason: str) -> View:
    source = revision.source
    return View(
        UNAVAILABLE if reason else AVAILABLE,
        reason,
        source.short,
        source.kind,
        source.namespace,
        source.name,
        revision.name,
        revision.full_hash,
        () if reason else component_modes(service, revision.spec),
    )


def _revision_state(evidence: RevisionEvidence) -> tuple[str, str]:
    """(pin state, Active's reason) of one revision on its own; `Resolved` and no reason when it is sound."""
    if evidence.revision is None:
        if evidence.reason == "NotFound":
            return "RevisionMissing", "NotFound"
        return "Unavailable", evidence.reason or "Unreadable"
    if evidence.revision.disabled and set(evidence.revision.issues) == {"RevisionDisabled"}:
        return "RevisionDisabled", "Disabled"
    if evidence.revision.issues:
        return "RevisionInvalid", "MalformedPayload"
    return "Resolved", ""


class _Active(NamedTuple):
    state: str
    view: View
    spec: Mapping[str, Any] | None


def _pinned_active(evidence: RuntimeEvidence, name: str, live: View) -> _Active:
    read = evidence.revisions.get(name) or RevisionEvidence(reason="Unreadable")
    state, reason = _revision_state(read)
    if state == "Resolved" and not live.available and live.reason != "NotFound":
        state, reason = "Unavailable", live.reason
    if read.revision is None:
        return _Active(state, View(UNAVAILABLE, reason, revision=name), None)
    view = _revision_view(evidence.service, read.revision, reason)
    return _Active(state, view, None if reason else read.revision.spec)


def _active(evidence: RuntimeEvidence, mode: str, live: View, live_spec: Mapping[str, Any] | None) -> _Active:
    service = evidence.service
    usable = live_spec if live.available else None
    if mode == "AutoSync":
        usable_state = live.available or live.reason == "NotConfigured"
        return _Active("NotApplicable" if usable_state else "Unavailable", live, usable)
    if mode == "InvalidPin":
        return _Active("InvalidIntent", View(UNAVAILABLE, "MalformedPayload"), None)
    desired, reported = (
        objects.text(service, "spec", "runtime", "revision"),
        objects.text(service, "status", "pinnedRevisionName"),
    )
    if mode == "ManagedPin":
        if reported:
            return _pinned_active(evidence, reported, live)
        return _Active("AwaitingPin" if live.available else "Unavailable", live, usable)
    found = _pinned_active(evidence, desired, live)
    if found.state == "Resolved" and desired != reported:
        return found._replace(state="DesiredReportedMismatch")
    return found


def _revision_issues(evidence: RuntimeEvidence) -> list[Issue]:
    found = []
    for name, read in evidence.revisions.items():
        if read.revision is None:
            code = "RevisionNotFound" if read.reason == "NotFound" else "RevisionUnavailable"
            found.append(Issue(code, name))
            continue
        found += [Issue(code, name) for code in read.revision.issues]
    return found


def effective(evidence: RuntimeEvidence) -> Effective:
    """The judgement of section 2.2 on what was read."""
    service = evidence.service
    mode = pin_mode(service)
    live, live_spec = _live_view(service, evidence.live)
    active = _active(evidence, mode, live, live_spec)
    live_relation = relation(live.full_hash, active.view.full_hash)
    drift, status = drift_state(service), status_freshness(service)
    issues: list[Issue] = []
    if objects.text(service, "spec", "runtime", "kind") not in KNOWN_KINDS:
        issues.append(Issue("InvalidDeclaredKind"))
    if evidence.live.incompatible and mode == "AutoSync":
        issues.append(Issue("DeclaredCompatibilityMismatch"))
    if evidence.live.chain is not None and evidence.live.chain.issue:
        issues.append(Issue("InheritanceUnavailable"))
    if not live.available and live.reason != "NotConfigured":
        issues.append(Issue("LiveRuntimeUnavailable"))
    if status != "Current":
        issues.append(Issue(f"Status{status}"))
    if drift.startswith("Malformed"):
        issues.append(Issue("ReportedDriftConflict"))
    if active.state == "AwaitingPin":
        issues.append(Issue("ActiveRevisionUnreported"))
    if mode in ("ManagedPin", "ExplicitPin") and active.view.revision and not active.view.available:
        issues.append(Issue("ActiveRevisionUnavailable"))
    issues += _revision_issues(evidence)
    named = objects.text(service, "spec", "runtime", "name")
    return Effective(
        selection="Explicit" if named else "Selected",
        chain=evidence.live.chain,
        live=live,
        active=active.view,
        pin_mode=mode,
        pin_state=active.state,
        sync=sync_state(service),
        status=status,
        drift=drift,
        live_relation=live_relation,
        issues=tuple(issues),
        live_spec=live_spec,
        active_spec=active.spec,
    )


def declares(runtime_spec: Mapping[str, Any], model_spec: Mapping[str, Any]) -> bool:
    """Whether a runtime's formats and size range cover a model (spec/serving-runtimes.md section 5.1, rows 4 and 5)."""
    from ome.rendering.formats import entry_mismatches, size_mismatch

    entries = objects.items(runtime_spec, "supportedModelFormats")
    if not any(not entry_mismatches(entry, model_spec) for entry in entries):
        return False
    return size_mismatch(objects.mapping(runtime_spec, "modelSizeRange"), model_spec) is None
