"""The pin's state machine: every row of the specification's table, and every step and text of the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from ome.api.meta import Condition, ObjectMeta
from ome.api.types.inference_service import (
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
    ServingRuntimeRef,
)
from ome.runtimes.lookup import NamedRuntimes
from ome.runtimes.pinning import (
    Drift,
    DriftReason,
    Ensure,
    Ensured,
    EnsureFailed,
    Freeze,
    InvalidSpec,
    LookUp,
    PinDecision,
    PinError,
    PinInput,
    PinIntent,
    PinState,
    Render,
    decide_pin,
    resolve_live,
)
from ome.runtimes.reading import Runtime, RuntimeSnapshot
from ome.runtimes.revisions import StoredRevision
from tests.unit.runtimes.builders import NAME, NAMESPACE, REVISION_85, REVISION_90, example, runtime, stored

MISMATCH = Drift(
    DriftReason.REVISION_MISMATCH,
    f"pinned {REVISION_90}, live spec differs; bump ome.io/runtime-sync annotation to advance",
)
SOURCE_MISSING = Drift(
    DriftReason.SOURCE_RUNTIME_MISSING, f"runtime {NAME} not found; serving from pinned revision {REVISION_90}"
)
MISSING = Drift(DriftReason.REVISION_MISSING, f"pinned revision {REVISION_90} missing from ome")


@dataclass
class World:
    """Runtimes and revisions, with the store's part of a decision played by a dict."""

    runtimes: list[Runtime] = field(default_factory=lambda: [live()])
    revisions: dict[str, StoredRevision] = field(
        default_factory=lambda: {REVISION_90: stored(example()), REVISION_85: stored(example("0.85"))}
    )
    created: list[str] = field(default_factory=list)
    fails: str | None = None

    def decide(self, intent: PinIntent, state: PinState) -> PinDecision:
        known = PinInput(
            intent=intent,
            state=state,
            live=resolve_live(intent, NamedRuntimes(RuntimeSnapshot(self.runtimes))),
            ome_namespace="ome",
        )
        for _ in range(5):
            match decide_pin(known):
                case LookUp(name):
                    known = replace(known, revisions={**known.revisions, name: self.revisions.get(name)})
                case Ensure(draft):
                    if self.fails:
                        known = replace(known, ensured=EnsureFailed(self.fails))
                        continue
                    if draft.name not in self.revisions:
                        self.created.append(draft.name)
                    known = replace(known, ensured=Ensured(draft.name))
                case decision:
                    return decision
        raise AssertionError("the decision does not end")


def live(fraction: str = "0.9", **top: Any) -> Runtime:
    return runtime(NAME, example(fraction, **top), namespace=NAMESPACE)


def intent(**changes: str) -> PinIntent:
    return PinIntent(**{"runtime": NAME, "kind": "ServingRuntime", "namespace": NAMESPACE, **changes})


PINNED = PinState(REVISION_90)
DRIFTED = PinState(REVISION_90, drift=MISMATCH)


def _row(
    state: PinState,
    runtimes: list[Runtime],
    asked: PinIntent,
    after: PinState | None,
    renders: str | None,
    *,
    without: str = "",
    mislabelled: str = "",
) -> tuple[PinState, list[Runtime], PinIntent, PinState | None, str | None, str, str]:
    return state, runtimes, asked, after, renders, without, mislabelled


EXPLICIT_90 = intent(revision=REVISION_90)
ABSENT = "r-llama-demo-sglang-llama-3-2-3b-00000000"
EXPLICIT_MISSING = Drift(DriftReason.REVISION_MISSING, f"explicit pin {ABSENT} not found in namespace ome")
FOREIGN = Drift(
    DriftReason.RUNTIME_MISMATCH,
    f'revision {REVISION_90} belongs to runtime "other" but ISVC references "{NAME}"',
)

# state before, live runtimes, what the service asks, state after (None = nothing recorded), the --mem-frac that is
# rendered
# (None = frozen or refused)
ROWS = {
    "new, autoSync false": _row(PinState(), [live()], intent(), PinState(REVISION_90), "0.9"),
    "new with a token: it is consumed": _row(
        PinState(), [live()], intent(token="t"), PinState(REVISION_90, "t"), "0.9"
    ),
    "new, a stale drift of an older pin is removed": _row(
        PinState("", "", MISMATCH), [live()], intent(), PinState(REVISION_90), "0.9"
    ),
    "new, runtime absent": _row(PinState(), [], intent(), None, None),
    "new, runtime disabled": _row(PinState(), [live(disabled=True)], intent(), None, None),
    "P, spec edited": _row(PINNED, [live("0.85")], intent(), DRIFTED, None),
    "P, nothing edited": _row(PINNED, [live()], intent(), PINNED, "0.9"),
    "P, a new token waits": _row(PINNED, [live()], intent(token="t"), PINNED, "0.9"),
    "W, spec edited: advanced, never drifted": _row(
        PINNED, [live("0.85")], intent(token="t"), PinState(REVISION_85, "t"), "0.85"
    ),
    "D, new token": _row(DRIFTED, [live("0.85")], intent(token="t"), PinState(REVISION_85, "t"), "0.85"),
    "D, the same token": _row(
        PinState(REVISION_90, "t", MISMATCH),
        [live("0.85")],
        intent(token="t"),
        PinState(REVISION_90, "t", MISMATCH),
        None,
    ),
    "D, token removed": _row(
        PinState(REVISION_90, "t", MISMATCH), [live("0.85")], intent(), PinState(REVISION_90, "t", MISMATCH), None
    ),
    "D, edit reverted": _row(DRIFTED, [live()], intent(), PINNED, "0.9"),
    "D, edit reverted with an unused token: it keeps waiting": _row(
        PinState(REVISION_90, "old", MISMATCH), [live()], intent(token="new"), PinState(REVISION_90, "old"), "0.9"
    ),
    "P, revision set": _row(PinState(REVISION_85), [live("0.85")], EXPLICIT_90, PINNED, "0.9"),
    "W, revision set: the token stays unused": _row(
        PinState(REVISION_85, "t"),
        [live("0.85")],
        intent(revision=REVISION_90, token="new"),
        PinState(REVISION_90, "t"),
        "0.9",
    ),
    "D, revision set": _row(
        PinState(REVISION_90, "", MISMATCH), [live("0.85")], intent(revision=REVISION_85), PinState(REVISION_85), "0.85"
    ),
    "S, revision set, the source still missing": _row(
        PinState(REVISION_85, "", SOURCE_MISSING), [], EXPLICIT_90, PinState(REVISION_90, "", SOURCE_MISSING), "0.9"
    ),
    "P, revision set and absent": _row(
        PINNED, [live()], intent(revision=ABSENT), PinState(REVISION_90, "", EXPLICIT_MISSING), None
    ),
    "D, revision set and absent": _row(
        DRIFTED, [live("0.85")], intent(revision=ABSENT), PinState(REVISION_90, "", EXPLICIT_MISSING), None
    ),
    "P, revision of another runtime": _row(
        PinState(REVISION_85), [live()], EXPLICIT_90, PinState(REVISION_85, "", FOREIGN), None, mislabelled=REVISION_90
    ),
    "E, runtime edited and a new token": _row(
        PINNED, [live("0.85")], intent(revision=REVISION_90, token="t"), PINNED, "0.9"
    ),
    "E, runtime deleted": _row(PINNED, [], EXPLICIT_90, PinState(REVISION_90, "", SOURCE_MISSING), "0.9"),
    "E, revision removed, live equal": _row(PINNED, [live()], intent(), PINNED, "0.9"),
    "E, revision removed, live differs, token used": _row(
        PinState(REVISION_90, "t"), [live("0.85")], intent(token="t"), PinState(REVISION_90, "t", MISMATCH), None
    ),
    "E, revision removed, live differs, no token": _row(PINNED, [live("0.85")], intent(), DRIFTED, None),
    "E, revision removed, live differs, unused token": _row(
        PinState(REVISION_90, "t"), [live("0.85")], intent(token="u"), PinState(REVISION_85, "u"), "0.85"
    ),
    "P, pinned revision deleted": _row(
        PINNED, [live()], intent(), PinState(REVISION_90, "", MISSING), None, without=REVISION_90
    ),
    "D, pinned revision deleted": _row(
        DRIFTED, [live("0.85")], intent(), PinState(REVISION_90, "", MISSING), None, without=REVISION_90
    ),
    "M, a token does not help": _row(
        PinState(REVISION_90, "", MISSING),
        [live("0.85")],
        intent(token="t"),
        PinState(REVISION_90, "", MISSING),
        None,
        without=REVISION_90,
    ),
    "M, revision set to an existing one": _row(
        PinState(REVISION_90, "", MISSING),
        [live("0.85")],
        intent(revision=REVISION_85),
        PinState(REVISION_85),
        "0.85",
        without=REVISION_90,
    ),
    "M, the revision is put back": _row(PinState(REVISION_90, "", MISSING), [live()], intent(), PINNED, "0.9"),
    "P, runtime deleted": _row(PINNED, [], intent(), PinState(REVISION_90, "", SOURCE_MISSING), "0.9"),
    "W, runtime deleted: the token is not consumed": _row(
        PINNED, [], intent(token="t"), PinState(REVISION_90, "", SOURCE_MISSING), "0.9"
    ),
    "D, runtime deleted: serving again from the pin": _row(
        DRIFTED, [], intent(), PinState(REVISION_90, "", SOURCE_MISSING), "0.9"
    ),
    "S, runtime recreated with equal content": _row(
        PinState(REVISION_90, "", SOURCE_MISSING), [live()], intent(), PINNED, "0.9"
    ),
    "S, runtime recreated with other content": _row(
        PinState(REVISION_90, "", SOURCE_MISSING), [live("0.85")], intent(), DRIFTED, None
    ),
    "S, runtime recreated with other content and an unused token": _row(
        PinState(REVISION_90, "", SOURCE_MISSING), [live("0.85")], intent(token="t"), PinState(REVISION_85, "t"), "0.85"
    ),
    "any, chain broken": _row(
        DRIFTED, [replace(live(), annotations={"ome.io/inherit-from": "gone"})], intent(), None, None
    ),
    "E, chain broken": _row(
        PINNED, [replace(live(), annotations={"ome.io/inherit-from": "gone"})], EXPLICIT_90, None, None
    ),
    "L with an old pin, equal": _row(
        PinState(REVISION_90, "t", MISMATCH), [live()], intent(), PinState(REVISION_90, "t"), "0.9"
    ),
    "L with an old pin, live moved on": _row(
        PinState(REVISION_90, "t", MISMATCH),
        [live("0.85")],
        intent(token="t"),
        PinState(REVISION_90, "t", MISMATCH),
        None,
    ),
    "P, live disabled": _row(PINNED, [live(disabled=True)], intent(), DRIFTED, None),
    "W, live disabled: the token is not spent": _row(PINNED, [live(disabled=True)], intent(token="t"), DRIFTED, None),
    "D by disabling, enabled again": _row(DRIFTED, [live()], intent(token="t"), PINNED, "0.9"),
    "an explicit false is another spec": _row(PINNED, [live(disabled=False)], intent(), DRIFTED, None),
}

PROVEN = [f"RR-{number}" for number in (10, 11, 12, 13, 15, 16, 42, 47)]


@pytest.mark.spec(*PROVEN)
@pytest.mark.parametrize(
    ("state", "runtimes", "asked", "after", "renders", "without", "mislabelled"), ROWS.values(), ids=ROWS
)
def test_state_machine(
    state: PinState,
    runtimes: list[Runtime],
    asked: PinIntent,
    after: PinState | None,
    renders: str | None,
    without: str,
    mislabelled: str,
) -> None:
    world = World(runtimes)
    world.revisions.pop(without, None)
    if mislabelled:
        held = world.revisions[mislabelled]
        world.revisions[mislabelled] = replace(held, labels={**held.labels, "ome.io/runtime-of": "other"})
    decision = world.decide(asked, state)
    assert getattr(decision, "state", None) == after
    assert _fraction(decision) == renders
    # A second pass over the state it recorded decides the same again: nothing flaps.
    if after is not None:
        assert world.decide(asked, after) == decision


def _fraction(decision: PinDecision) -> str | None:
    if not isinstance(decision, Render):
        return None
    arguments: list[str] = decision.spec["engineConfig"]["runner"]["args"]
    return arguments[-1].removeprefix("--mem-frac=")


def _text(decision: PinDecision) -> str:
    assert isinstance(decision, PinError | InvalidSpec)
    return decision.text


ERRORS: dict[str, tuple[World, PinIntent, PinState, type, str]] = {
    "first pin, runtime missing": (
        World([]),
        intent(),
        PinState(),
        PinError,
        f"resolve live runtime {NAME}: ServingRuntime {NAME} not found in namespace {NAMESPACE}",
    ),
    "first pin, runtime missing, default kind": (
        World([]),
        intent(kind="ClusterServingRuntime"),
        PinState(),
        PinError,
        f"resolve live runtime {NAME}: runtime {NAME} not found in namespace {NAMESPACE} or at cluster scope",
    ),
    "broken chain, even with a revision": (
        World([replace(live(), annotations={"ome.io/inherit-from": "gone"})]),
        EXPLICIT_90,
        PINNED,
        PinError,
        f'resolve live runtime {NAME}: inherit-from parent "gone" not found (chain so far: [{NAME}])',
    ),
    "unknown kind": (World(), intent(kind="Pod"), PINNED, PinError, 'unsupported runtime kind "Pod"'),
    "the first pin cannot be stored": (
        World(fails="list ControllerRevisions in ome: no"),
        intent(),
        PinState(),
        PinError,
        f"create initial pin for {NAME}: list ControllerRevisions in ome: no",
    ),
    "the advance cannot be stored": (
        World([live("0.85")], fails="create revision x: no"),
        intent(token="t"),
        PINNED,
        PinError,
        f"advance pin for {NAME}: create revision x: no",
    ),
    "first pin, runtime disabled": (
        World([live(disabled=True)]),
        intent(),
        PinState(),
        InvalidSpec,
        f"Runtime {NAME} failed validation: namespace-scoped runtime {NAME} is disabled",
    ),
    "the pinned spec is disabled": (
        World(revisions={REVISION_90: stored(example(disabled=True), name=NAME)}),
        EXPLICIT_90,
        PINNED,
        InvalidSpec,
        f"Runtime {NAME} failed validation: namespace-scoped runtime {NAME} is disabled",
    ),
    "the pinned spec is disabled and its cluster runtime gone": (
        World([], {REVISION_90: stored(example(disabled=True))}),
        intent(kind="ClusterServingRuntime"),
        PINNED,
        InvalidSpec,
        f"Runtime {NAME} failed validation: cluster-scoped runtime {NAME} is disabled",
    ),
}


@pytest.mark.spec("RR-21", "RR-22", "RR-32", "RR-42")
@pytest.mark.parametrize(("world", "asked", "state", "type_", "text"), ERRORS.values(), ids=ERRORS)
def test_refusals(world: World, asked: PinIntent, state: PinState, type_: type, text: str) -> None:
    decision = world.decide(asked, state)
    assert isinstance(decision, type_)
    assert _text(decision) == text
    assert world.created == []


@pytest.mark.parametrize("asked", [intent(), EXPLICIT_90], ids=["managed", "explicit"])
def test_data_that_is_no_object_is_an_error(asked: PinIntent) -> None:
    world = World(revisions={REVISION_90: stored(example(), data=msgspec.Raw(b"[]"))})
    assert _text(world.decide(asked, PINNED)).startswith(f"decode revision {REVISION_90}: ")


def test_another_runtime_name_keeps_the_pin_until_a_token_advances_it() -> None:
    world = World([live(), runtime("other", example("0.85"), namespace=NAMESPACE)])
    frozen = world.decide(intent(runtime="other"), PINNED)
    assert isinstance(frozen, Freeze)
    assert frozen.state.drift == MISMATCH
    advanced = world.decide(intent(runtime="other", token="t"), PINNED)
    assert isinstance(advanced, Render)
    assert advanced.state.revision == "r-llama-demo-other-af9539ac"


@pytest.mark.spec("RR-3")
def test_the_declared_kind_names_the_revision() -> None:
    first = World(revisions={})
    decision = first.decide(intent(kind="ClusterServingRuntime"), PinState())
    assert isinstance(decision, Render)
    assert decision.state.revision == f"cr-{NAME}-590753e8"


@pytest.mark.spec("RR-5")
def test_a_pin_holds_the_merged_spec_and_an_edit_of_the_parent_drifts() -> None:
    parent = runtime("base", {"engineConfig": {"runner": {"name": "ome-container", "image": "1"}}})
    child = runtime("child", {"modelSizeRange": {"min": "1B"}}, parent="base")
    asked = intent(runtime="child", kind="ClusterServingRuntime")
    world = World([parent, child], {})
    decision = world.decide(asked, PinState())
    assert isinstance(decision, Render)
    assert decision.spec["engineConfig"]["runner"]["image"] == "1"
    assert decision.spec["modelSizeRange"] == {"min": "1B"}
    world.revisions[decision.state.revision] = stored(dict(decision.spec), kind="ClusterServingRuntime", name="child")
    assert isinstance(world.decide(asked, decision.state), Render)
    world.runtimes[0] = replace(parent, spec={"engineConfig": {"runner": {"name": "ome-container", "image": "2"}}})
    assert isinstance(world.decide(asked, decision.state), Freeze)


def test_hashes_are_recomputed_from_data_not_read_from_labels() -> None:
    held = stored(example("0.85"))
    lying = replace(held, name=REVISION_90, labels={**held.labels, "ome.io/revision-hash": "590753e8"})
    assert isinstance(World(revisions={REVISION_90: lying}).decide(intent(), PINNED), Freeze)


def _service(
    status: Mapping[str, Any] | None = None, annotations: dict[str, str] | None = None, **reference: Any
) -> InferenceService:
    return InferenceService(
        metadata=ObjectMeta(name="s", namespace=NAMESPACE, annotations=annotations or {}),
        spec=InferenceServiceSpec(runtime=ServingRuntimeRef(**reference)),
        status=InferenceServiceStatus(**(status or {})),
    )


WHO_PINS: dict[str, tuple[dict[str, Any], bool]] = {
    "no name": ({"auto_sync": False}, False),
    "autoSync unset": ({"name": NAME}, False),
    "autoSync true": ({"name": NAME, "auto_sync": True}, False),
    "autoSync true with a revision": ({"name": NAME, "auto_sync": True, "revision": REVISION_90}, False),
    "autoSync false": ({"name": NAME, "auto_sync": False}, True),
    "autoSync false with a revision": ({"name": NAME, "auto_sync": False, "revision": REVISION_90}, True),
}


@pytest.mark.spec("RR-31")
@pytest.mark.parametrize(("reference", "pins"), WHO_PINS.values(), ids=WHO_PINS)
def test_who_pins(reference: dict[str, Any], pins: bool) -> None:
    assert (PinIntent.of(_service(**reference)) is not None) is pins


def test_intent_and_state_are_read_from_the_service() -> None:
    service = _service(
        {
            "pinned_revision_name": REVISION_90,
            "last_runtime_sync_token": "t",
            "conditions": (
                Condition(type="RuntimeDrifted", status="True", reason="RevisionMismatch", message=MISMATCH.message),
            ),
        },
        {"ome.io/runtime-sync": "u"},
        name=NAME,
        kind="ServingRuntime",
        auto_sync=False,
        revision="",
    )
    assert PinIntent.of(service) == intent(token="u")
    assert PinState.of(service) == PinState(REVISION_90, "t", MISMATCH)
