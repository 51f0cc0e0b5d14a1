"""What a service renders from: its model, overlays, runtime (pinned, named or selected) and accelerator classes.

The first half of a pass (spec/inference-service.md section 8 steps 4, 5 and 10; spec/serving-runtimes.md section 9;
spec/runtime-revisions.md section 5). Ends in one of three: something to render from, a freeze, or a cause that
stops the pass. The only awaited call is the revision store's, which reads live only when a revision has to be made
or is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ome.api.core import ControllerRevision
from ome.rendering.model import (
    AcceleratorFacts,
    Component,
    FineTunedWeightFacts,
    ModelFacts,
    RenderDefaults,
    RenderInput,
    RuntimeFacts,
    ServiceFacts,
)
from ome.rendering.models import is_sharded, overlay_environment_name, overlay_mount_path
from ome.runtimes import pinning
from ome.runtimes.accelerators import AcceleratorClassNotFoundError, choose_accelerator
from ome.runtimes.inheritance import ChainError
from ome.runtimes.live_check import LiveCheck
from ome.runtimes.lookup import ResolvedRuntime, RuntimeNotFoundError, UnsupportedKindError, disabled_text
from ome.runtimes.pinning import PinDecision, PinInput, PinIntent, PinState, resolve_live
from ome.runtimes.revision_store import RevisionStore
from ome.runtimes.selection import NamedRuntimeError, NoRuntimeFoundError, SelectionError, check_named, select

from .conditions import OVERLAYS_READY, RUNTIME_READY, Condition
from .world import Model, Overlay, Snapshot, World

Json = dict[str, Any]

_SHARDED_RECHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pass cannot go on. `reason` "" means no event; `log` is the line to log instead of the event's text."""

    message: str
    reason: str = ""
    event_type: str = "Warning"
    log: str = ""


@dataclass(frozen=True, slots=True)
class Overlays:
    """What became of the service's overlays."""

    mounted: tuple[Json, ...] = ()
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything to render from. `identity` is equal exactly while rendering would give the same."""

    facts: RenderInput
    identity: tuple[Any, ...]
    pin: PinState | None = None
    """None for a service that is not pinned."""
    advisory: str = ""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The pin drifted: nothing is rendered, `pin` is reported."""

    pin: PinState


@dataclass(frozen=True, slots=True)
class Blocked:
    """The pass stops here; workloads stay as they are.

    `recheck`: seconds until the next look, None = not by time. `retry`: look again with backoff. `waits_for_model` and
    `waits_for_runtime`: an event of any model of that name, or of any runtime, may help.
    """

    cause: Cause
    retry: bool = False
    recheck: float | None = None
    waits_for_model: str = ""
    waits_for_runtime: bool = False
    runtime_ready: Condition | None = None


Resolution = Sources | Frozen | Blocked


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A pin decision and everything it was made from."""

    known: tuple[Any, ...]
    decision: PinDecision


@dataclass(slots=True)
class _Selected:
    """A selection and what it was made from."""

    known: tuple[Any, ...]
    runtime: RuntimeFacts


@dataclass(frozen=True, slots=True)
class Models:
    """The model part of a resolution; `facts` None = the service names no model."""

    facts: ModelFacts | None
    overlays: tuple[ModelFacts, ...] = ()
    weights: tuple[FineTunedWeightFacts, ...] = ()
    report: Overlays = field(default_factory=Overlays)


class Resolver:
    """Resolves services, remembering the last decision of each while nothing it was made from has changed."""

    def __init__(
        self,
        world: World,
        store: RevisionStore,
        live_check: LiveCheck,
        quota_resources: tuple[str, ...] | None = None,
    ) -> None:
        self._world = world
        self._store = store
        self._live_check = live_check
        self._quota_resources = quota_resources
        self._pins: dict[str, _Pinned] = {}
        self._selections: dict[str, _Selected] = {}
        self._runtimes_epoch = 0
        self._defaults: tuple[Any, RenderDefaults] | None = None

    def runtimes_changed(self) -> None:
        """Some runtime changed: selections are made anew."""
        self._runtimes_epoch += 1

    def forget(self, uid: str) -> None:
        """The service is gone."""
        self._pins.pop(uid, None)
        self._selections.pop(uid, None)

    # -- models --------------------------------------------------------------------------------------------------------

    def models(self, snapshot: Snapshot) -> Models | Blocked:
        """Steps 4: model, sharded gate, overlays, fine-tuned weights."""
        reference = snapshot.service.spec.model
        if reference is None or not reference.name:
            return Models(None)
        if snapshot.model is None:
            log = f"Failed to get referenced {reference.kind}"
            return Blocked(Cause(f"{log} {reference.name}", log=log), waits_for_model=reference.name)
        facts = model_facts(snapshot.model)
        if facts.spec.get("disabled") is True:
            cause = Cause(f"specified base model {reference.name} is disabled", "ModelReconcileError")
            return Blocked(cause, waits_for_model=reference.name)
        if is_sharded(facts):
            message = (
                f"model {reference.name} is not ready: no model cache provider is configured for sharded model loading"
            )
            cause = Cause(message, "ModelNotReady", "Normal")
            return Blocked(cause, recheck=_SHARDED_RECHECK_SECONDS, waits_for_model=reference.name)
        weights = []
        for name, weight in snapshot.weights:
            if weight is None:
                return Blocked(Cause(f'FineTunedWeight.ome.io "{name}" not found'), waits_for_model=name)
            weights.append(FineTunedWeightFacts(name=name, spec=weight.spec))
        usable = [overlay for overlay in snapshot.overlays if _usable(overlay)]
        return Models(
            facts,
            tuple(model_facts(overlay.model) for overlay in usable if overlay.model is not None),
            tuple(weights),
            _overlay_report(snapshot.overlays, usable),
        )

    # -- runtime -------------------------------------------------------------------------------------------------------

    async def resolve(self, snapshot: Snapshot, models: Models) -> Resolution:
        """Steps 5 and 10: the runtime, then the accelerator classes."""
        service = ServiceFacts.of(snapshot.service)
        intent = PinIntent.of(snapshot.service)
        pin: PinState | None = None
        advisory = ""
        if intent is not None:
            decision = await self._decide_pin(snapshot, intent)
            match decision:
                case pinning.Freeze(state):
                    return Frozen(state)
                case pinning.PinError(text):
                    return Blocked(Cause(text, "RuntimePinError"), retry=True)
                case pinning.InvalidSpec(text):
                    return Blocked(Cause(text, "RuntimeValidationError"), retry=True)
                case pinning.Render(spec, state):
                    runtime, pin = RuntimeFacts(name=intent.runtime, spec=spec), state
        elif service_runtime(snapshot):
            named = self._named(snapshot, service, models)
            if isinstance(named, Blocked):
                return named
            runtime, advisory = named
        else:
            selected = self._select(snapshot, service, models)
            if isinstance(selected, Blocked):
                return selected
            runtime = selected
        accelerators = self._accelerators(service, runtime)
        if isinstance(accelerators, Blocked):
            return accelerators
        return self._sources(snapshot, service, models, runtime, accelerators, pin, advisory)

    async def _decide_pin(self, snapshot: Snapshot, intent: PinIntent) -> PinDecision:
        service = snapshot.service
        state = PinState.of(service)
        live = resolve_live(intent, self._world.named_runtimes)
        revision = self._revision(intent.revision or state.revision)
        known = (intent, state, _live_identity(live), _Same(revision))
        remembered = self._pins.get(service.metadata.uid)
        if remembered is not None and revision is not None and remembered.known == known:
            return remembered.decision
        decision = await self._store.resolve_pin(
            PinInput(intent=intent, state=state, live=live, ome_namespace=self._world.namespace),
            confirm=lambda: self._is_live(live),
        )
        if isinstance(decision, pinning.Render | pinning.Freeze):
            self._pins[service.metadata.uid] = _Pinned(known, decision)
        else:
            self._pins.pop(service.metadata.uid, None)
        return decision

    async def _is_live(self, live: pinning.Live) -> bool:
        return isinstance(live, pinning.LiveFound) and await self._live_check.confirms(live.runtime.chain)

    def _revision(self, name: str) -> ControllerRevision | None:
        return self._world.revisions.get(self._world.namespace, name) if name else None

    def _named(self, snapshot: Snapshot, service: ServiceFacts, models: Models) -> tuple[RuntimeFacts, str] | Blocked:
        """The live runtime that the service names, and the advisory when it does not declare the model."""
        reference = snapshot.service.spec.runtime
        assert reference is not None
        name, model = reference.name, models.facts
        try:
            resolved = self._world.named_runtimes.resolve(name, reference.kind, service.namespace)
        except RuntimeNotFoundError as error:
            return _not_found(str(error))
        except (ChainError, UnsupportedKindError) as error:
            if model is not None:
                text = f"Runtime {name} does not support model {model.name}: {error}"
                return Blocked(Cause(text, "RuntimeValidationError"), retry=True)
            return Blocked(Cause(str(error), "RuntimeFetchError"), retry=True)
        try:
            mismatch = _check(resolved, model, service)
        except NamedRuntimeError as error:
            return Blocked(Cause(_refusal(resolved, model, error), "RuntimeValidationError"), retry=True)
        advisory = ""
        if mismatch is not None and model is not None:
            advisory = (
                f"Runtime {name} does not declare support for model {model.name} ({mismatch}); proceeding because the "
                "runtime was named explicitly"
            )
        return RuntimeFacts(name=name, spec=resolved.spec), advisory

    def _select(self, snapshot: Snapshot, service: ServiceFacts, models: Models) -> RuntimeFacts | Blocked:
        model = models.facts
        if model is None:
            text = "InferenceService must specify spec.runtime when spec.model is omitted"
            return Blocked(Cause(text, "RuntimeSelectionError"))
        meta = snapshot.service.metadata
        known = (self._runtimes_epoch, meta.generation, meta.annotations, _Same(snapshot.model))
        remembered = self._selections.get(meta.uid)
        if remembered is not None and remembered.known == known:
            return remembered.runtime
        try:
            chosen = select(model, service, self._world.runtimes)
        except NoRuntimeFoundError as error:
            return _not_found(str(error), any_runtime=True)
        except SelectionError as error:
            text = f"Failed to find runtime for model {model.name}: {error}"
            return Blocked(Cause(text, "RuntimeSelectionError"), retry=True, waits_for_model=model.name)
        spec = self._world.named_runtimes.own(chosen).spec
        runtime = RuntimeFacts(name=chosen.name, spec=spec, selected=True)
        self._selections[meta.uid] = _Selected(known, runtime)
        return runtime

    def _accelerators(
        self, service: ServiceFacts, runtime: RuntimeFacts
    ) -> dict[Component, AcceleratorFacts] | Blocked:
        found: dict[Component, AcceleratorFacts] = {}
        for component in service.components:
            try:
                chosen = choose_accelerator(service, component, runtime.spec, self._class_spec)
            except AcceleratorClassNotFoundError as error:
                text = f"Failed to get accelerator class for {component}: {error}"
                return Blocked(Cause(text, "AcceleratorClassError"), retry=True)
            if chosen is not None:
                found[component] = chosen
        return found

    def _class_spec(self, name: str) -> Mapping[str, Any] | None:
        found = self._world.classes.get("", name)
        return None if found is None else found.spec

    def _sources(
        self,
        snapshot: Snapshot,
        service: ServiceFacts,
        models: Models,
        runtime: RuntimeFacts,
        accelerators: Mapping[Component, AcceleratorFacts],
        pin: PinState | None,
        advisory: str,
    ) -> Sources:
        facts = RenderInput(
            service=service,
            runtime=runtime,
            model=models.facts,
            overlays=models.overlays,
            fine_tuned_weights=models.weights,
            accelerators=accelerators,
            defaults=self._render_defaults(snapshot),
        )
        meta = snapshot.service.metadata
        # Objects in caches are immutable, so the same object means the same content.
        parts = (runtime.spec, snapshot.model, *(overlay.spec for overlay in models.overlays), snapshot.config)
        weights = tuple(weight.spec for weight in models.weights)
        classes = tuple((item.name, item.reason) for item in accelerators.values())
        specs = tuple(item.spec for item in accelerators.values())
        identity = (
            (meta.uid, meta.generation, meta.labels, meta.annotations, runtime.name, runtime.selected, classes),
            tuple(_Same(part) for part in (*parts, *weights, *specs)),
        )
        return Sources(facts, identity, pin, advisory)

    def _render_defaults(self, snapshot: Snapshot) -> RenderDefaults:
        if self._defaults is None or self._defaults[0] is not snapshot.config:
            made = (
                RenderDefaults.of(snapshot.config)
                if self._quota_resources is None
                else RenderDefaults.of(snapshot.config, self._quota_resources)
            )
            self._defaults = (snapshot.config, made)
        return self._defaults[1]


class _Same:
    """Equal to another of the very same object, which it keeps alive so that its identity cannot be reused."""

    __slots__ = ("_object",)

    def __init__(self, obj: Any) -> None:
        self._object = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def service_runtime(snapshot: Snapshot) -> str:
    """The runtime that the service names, "" for none."""
    runtime = snapshot.service.spec.runtime
    return runtime.name if runtime is not None else ""


def model_facts(model: Model) -> ModelFacts:
    """A cached model as rendering and selection read it."""
    meta = model.metadata
    return ModelFacts(name=meta.name, namespace=meta.namespace, annotations=meta.annotations, spec=model.spec)


def _usable(overlay: Overlay) -> bool:
    return overlay.model is not None and overlay.model.spec.get("disabled") is not True


def _overlay_report(overlays: tuple[Overlay, ...], usable: list[Overlay]) -> Overlays:
    if not overlays:
        return Overlays()
    mounted = tuple(
        {
            "name": overlay.name,
            "envVar": overlay_environment_name(overlay.name),
            "mountPath": overlay_mount_path(overlay.name),
            "distribution": overlay.model.spec.get("distribution") or "PerNode",
        }
        for overlay in usable
        if overlay.model is not None
    )
    skipped = [overlay.name for overlay in overlays if overlay not in usable]
    if skipped:
        message = f"overlays not mounted because they are missing or disabled: {', '.join(skipped)}"
        return Overlays(mounted, Condition(OVERLAYS_READY, "False", "OverlaysSkipped", message))
    return Overlays(mounted, Condition(OVERLAYS_READY, "True", "AllOverlaysMounted"))


def _check(resolved: ResolvedRuntime, model: ModelFacts | None, service: ServiceFacts) -> str | None:
    if model is not None:
        return check_named(resolved, model, service)
    if resolved.disabled:
        raise NamedRuntimeError(disabled_text(resolved.name, resolved.runtime.kind))
    return None


def _refusal(resolved: ResolvedRuntime, model: ModelFacts | None, error: NamedRuntimeError) -> str:
    if resolved.disabled or model is None:
        return f"Runtime {resolved.name} failed validation: {error}"
    return f"Runtime {resolved.name} does not support model {model.name}: {error}"


def _not_found(text: str, *, any_runtime: bool = False) -> Blocked:
    condition = Condition(RUNTIME_READY, "False", "RuntimeNotFound", text)
    return Blocked(Cause(text, "RuntimeNotFound"), waits_for_runtime=any_runtime, runtime_ready=condition)


def _live_identity(live: pinning.Live) -> tuple[Any, ...]:
    if isinstance(live, pinning.LiveFound):
        return ("found", live.runtime.chain.identity)
    return (type(live).__name__, live.text)
