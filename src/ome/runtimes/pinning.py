"""The pin of a service: which spec it renders from, when it freezes, when it advances (`spec/runtime-revisions.md
sections 4-6`).

`decide_pin` is the whole algorithm of section 5 as a pure function. What it must know and does not yet, it asks for:
a decision may be `LookUp` (give it the revision) or `Ensure` (find or create one); the caller answers and asks again
with the same facts (`ome.runtimes.revision_store.RevisionStore.resolve_pin` is that loop). Every other decision is
final for the pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ome.api import keys
from ome.api.canonical import short_hash
from ome.api.meta import Condition, find_condition
from ome.api.types.inference_service import InferenceService
from ome.runtimes.inheritance import ChainError
from ome.runtimes.lookup import (
    NamedRuntimes,
    ResolvedRuntime,
    RuntimeNotFoundError,
    UnsupportedKindError,
    disabled_text,
)
from ome.runtimes.reading import RuntimeKind
from ome.runtimes.revisions import RevisionDecodeError, RevisionDraft, StoredRevision, draft_revision

DRIFTED = "RuntimeDrifted"


class DriftReason(StrEnum):
    """Reasons of condition `RuntimeDrifted`, which exists only with status True."""

    REVISION_MISMATCH = "RevisionMismatch"
    REVISION_MISSING = "RevisionMissing"
    RUNTIME_MISMATCH = "RuntimeMismatch"
    SOURCE_RUNTIME_MISSING = "SourceRuntimeMissing"


@dataclass(frozen=True, slots=True)
class Drift:
    reason: DriftReason
    message: str


# --- what is known ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PinIntent:
    """What a pinned service asks for; `token` is the value of `ome.io/runtime-sync`, "" without one."""

    runtime: str
    kind: str
    namespace: str
    revision: str = ""
    token: str = ""

    @classmethod
    def of(cls, service: InferenceService) -> PinIntent | None:
        """None when the service is not pinned (section 4)."""
        reference = service.spec.runtime
        if reference is None or not reference.pinned:
            return None
        return cls(
            runtime=reference.name,
            kind=reference.kind,
            namespace=service.metadata.namespace,
            revision=reference.revision,
            token=service.metadata.annotations.get(keys.RUNTIME_SYNC, ""),
        )


@dataclass(frozen=True, slots=True)
class PinState:
    """The pin in status: `pinnedRevisionName`, `lastRuntimeSyncToken` and what `RuntimeDrifted` says, None = absent."""

    revision: str = ""
    token: str = ""
    drift: Drift | None = None

    @classmethod
    def of(cls, service: InferenceService) -> PinState:
        """As the service's status has it; a condition this algorithm never writes reads as no drift."""
        status = service.status
        return cls(
            status.pinned_revision_name,
            status.last_runtime_sync_token,
            _drift_of(find_condition(status.conditions, DRIFTED)),
        )


@dataclass(frozen=True, slots=True)
class LiveFound:
    """The live runtime, everything inherited."""

    runtime: ResolvedRuntime


@dataclass(frozen=True, slots=True)
class LiveMissing:
    """No such runtime; `text` is the not-found text."""

    text: str


@dataclass(frozen=True, slots=True)
class LiveBroken:
    """It cannot be resolved: a broken chain, a failed read, an unknown kind (`text` then stands as it is)."""

    text: str
    unsupported_kind: bool = False


Live = LiveFound | LiveMissing | LiveBroken


@dataclass(frozen=True, slots=True)
class Ensured:
    """A revision of the live spec exists under this name."""

    name: str


@dataclass(frozen=True, slots=True)
class EnsureFailed:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinInput:
    """One observation. `revisions`: answers to `LookUp` so far (None = it does not exist); `ensured`: the answer to
    `Ensure`."""

    intent: PinIntent
    state: PinState
    live: Live
    ome_namespace: str
    revisions: Mapping[str, StoredRevision | None] = field(default_factory=dict)
    ensured: Ensured | EnsureFailed | None = None


# --- what is decided --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookUp:
    """Read this ControllerRevision in OME's namespace, then ask again."""

    revision: str


@dataclass(frozen=True, slots=True)
class Ensure:
    """Find or create this revision (section 2.1), then ask again."""

    draft: RevisionDraft


@dataclass(frozen=True, slots=True)
class Render:
    """Render from `spec` (never change it), after `state` is persisted if it differs from the old one."""

    spec: Mapping[str, Any]
    state: PinState


@dataclass(frozen=True, slots=True)
class Freeze:
    """Persist `state` at once and leave every child object as it is (section 7)."""

    state: PinState


@dataclass(frozen=True, slots=True)
class PinError:
    """Warning event `RuntimePinError` with this text, status left as it is, retried with backoff."""

    text: str


@dataclass(frozen=True, slots=True)
class InvalidSpec:
    """Warning event `RuntimeValidationError` with this text, nothing pinned or rendered, retried with backoff."""

    text: str


PinDecision = Render | Freeze | PinError | InvalidSpec
PinStep = PinDecision | LookUp | Ensure


def resolve_live(intent: PinIntent, runtimes: NamedRuntimes) -> Live:
    """Step 1's reading: the live runtime by name and kind, with inheritance."""
    try:
        return LiveFound(runtimes.resolve(intent.runtime, intent.kind, intent.namespace))
    except RuntimeNotFoundError as error:
        return LiveMissing(str(error))
    except UnsupportedKindError as error:
        return LiveBroken(str(error), unsupported_kind=True)
    except ChainError as error:
        return LiveBroken(str(error))


def decide_pin(known: PinInput) -> PinStep:
    """Section 5, first terminal step wins."""
    live = known.live
    if isinstance(live, LiveBroken):  # step 1
        text = live.text if live.unsupported_kind else f"resolve live runtime {known.intent.runtime}: {live.text}"
        return PinError(text)
    if known.intent.revision:
        return _explicit(known)
    if not known.state.revision:
        return _first_pin(known)
    return _managed(known)


def _explicit(known: PinInput) -> PinStep:
    """Step 3: tokens and the annotation are not touched."""
    intent, state = known.intent, known.state
    name = intent.revision
    if name not in known.revisions:
        return LookUp(name)
    revision = known.revisions[name]
    if revision is None:
        message = f"explicit pin {name} not found in namespace {known.ome_namespace}"
        return _freeze(state, DriftReason.REVISION_MISSING, message)
    if revision.runtime != intent.runtime:
        message = f'revision {name} belongs to runtime "{revision.runtime}" but ISVC references "{intent.runtime}"'
        return _freeze(state, DriftReason.RUNTIME_MISMATCH, message)
    return _render_revision(known, revision, PinState(name, state.token, _source_drift(known, name)))


def _first_pin(known: PinInput) -> PinStep:
    """Step 4: the live spec becomes the pin, and a token already there is consumed with it."""
    intent, live = known.intent, known.live
    if isinstance(live, LiveMissing):
        return PinError(f"resolve live runtime {intent.runtime}: {live.text}")
    assert isinstance(live, LiveFound)
    if live.runtime.disabled:
        return _invalid(known)
    return _ensure(known, live.runtime, f"create initial pin for {intent.runtime}")


def _managed(known: PinInput) -> PinStep:
    """Steps 5 to 9."""
    intent, state, live = known.intent, known.state, known.live
    if state.revision not in known.revisions:
        return LookUp(state.revision)
    revision = known.revisions[state.revision]
    if revision is None:
        message = f"pinned revision {state.revision} missing from {known.ome_namespace}"
        return _freeze(state, DriftReason.REVISION_MISSING, message)
    if isinstance(live, LiveMissing):
        drift = _source_drift(known, state.revision)
        return _render_revision(known, revision, PinState(state.revision, state.token, drift))
    assert isinstance(live, LiveFound)
    try:
        pinned_hash = short_hash(revision.full_hash)
    except RevisionDecodeError as error:
        return PinError(str(error))
    if live.runtime.hash8 == pinned_hash:
        return _render_revision(known, revision, PinState(state.revision, state.token))
    if not live.runtime.disabled and intent.token and intent.token != state.token:
        return _ensure(known, live.runtime, f"advance pin for {intent.runtime}")
    message = f"pinned {state.revision}, live spec differs; bump {keys.RUNTIME_SYNC} annotation to advance"
    return _freeze(state, DriftReason.REVISION_MISMATCH, message)


def _ensure(known: PinInput, live: ResolvedRuntime, purpose: str) -> PinStep:
    intent, ensured = known.intent, known.ensured
    if ensured is None:
        return Ensure(draft_revision(intent.kind, intent.runtime, intent.namespace, live.spec))
    if isinstance(ensured, EnsureFailed):
        return PinError(f"{purpose}: {ensured.text}")
    return Render(live.spec, PinState(ensured.name, intent.token))


def _render_revision(known: PinInput, revision: StoredRevision, state: PinState) -> PinStep:
    try:
        spec = revision.spec
    except RevisionDecodeError as error:
        return PinError(str(error))
    return _invalid(known) if spec.get("disabled") is True else Render(spec, state)


def _freeze(state: PinState, reason: DriftReason, message: str) -> Freeze:
    return Freeze(PinState(state.revision, state.token, Drift(reason, message)))


def _source_drift(known: PinInput, revision: str) -> Drift | None:
    if not isinstance(known.live, LiveMissing):
        return None
    message = f"runtime {known.intent.runtime} not found; serving from pinned revision {revision}"
    return Drift(DriftReason.SOURCE_RUNTIME_MISSING, message)


def _invalid(known: PinInput) -> InvalidSpec:
    """The scope is that of the live runtime, or of the declared kind when there is none."""
    name = known.intent.runtime
    if isinstance(known.live, LiveFound):
        kind = known.live.runtime.runtime.kind
    else:
        kind = RuntimeKind.NAMESPACED if known.intent.kind == RuntimeKind.NAMESPACED else RuntimeKind.CLUSTER
    return InvalidSpec(f"Runtime {name} failed validation: {disabled_text(name, kind)}")


def _drift_of(condition: Condition | None) -> Drift | None:
    if condition is None or condition.reason not in tuple(DriftReason):
        return None
    return Drift(DriftReason(condition.reason), condition.message)
