"""Random lives of a pinned service: whatever users do, in whatever order, the promises of a pin hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ome.runtimes.pinning import DriftReason, Freeze, InvalidSpec, PinError, PinState, Render
from tests.unit.runtimes.builders import NAME, example, stored
from tests.unit.runtimes.test_pinning import World, intent, live

FRACTIONS = ("0.7", "0.8", "0.85", "0.9")
FROZEN = {DriftReason.REVISION_MISMATCH, DriftReason.REVISION_MISSING, DriftReason.RUNTIME_MISMATCH}


@pytest.mark.parametrize("seed", range(200))
def test_a_walk(seed: int) -> None:
    """In every step:

    - a freeze changes neither pin nor token, and is reported with a reason that freezes;
    - a refusal records nothing;
    - a managed pin moves only to the live content, only by a token not yet recorded, and never to a disabled spec;
    - an explicit pin never touches the token;
    - what is rendered is what the recorded revision holds.
    """
    draw = random.Random(seed)
    world = World([live()], {})
    state, asked = PinState(), intent()
    for _ in range(40):
        match draw.randrange(7):
            case 0:
                world.runtimes = [live(draw.choice(FRACTIONS))]
            case 1:
                world.runtimes = [live(draw.choice(FRACTIONS), disabled=draw.choice((True, False)))]
            case 2:
                world.runtimes = []
            case 3:
                asked = replace(asked, token=draw.choice(("", "a", "b", "c")))
            case 4 if world.revisions:
                asked = replace(asked, revision=draw.choice(sorted(world.revisions)))
            case 5:
                asked = replace(asked, revision="")
            case 6 if world.revisions and draw.random() < 0.3:
                world.revisions.pop(draw.choice(sorted(world.revisions)))
        decision = world.decide(asked, state)
        if isinstance(decision, PinError | InvalidSpec):
            continue
        after = decision.state
        if isinstance(decision, Freeze):
            assert (after.revision, after.token) == (state.revision, state.token)
            assert after.drift is not None
            assert after.drift.reason in FROZEN
        else:
            assert isinstance(decision, Render)
            assert decision.spec.get("disabled") is not True
            assert after.drift is None or after.drift.reason is DriftReason.SOURCE_RUNTIME_MISSING
            if asked.revision:
                assert (after.revision, after.token) == (asked.revision, state.token)
            elif after.revision != state.revision:
                assert not state.revision or asked.token not in ("", state.token)
                assert after.token == asked.token
                fraction = world.runtimes[0].spec["engineConfig"]["runner"]["args"][-1].removeprefix("--mem-frac=")
                top = {key: world.runtimes[0].spec[key] for key in ("disabled",) if key in world.runtimes[0].spec}
                made = stored(example(fraction, **top), name=NAME)
                assert made.name == after.revision
                world.revisions.setdefault(after.revision, made)
            assert decision.spec == world.revisions[after.revision].spec
        state = after
