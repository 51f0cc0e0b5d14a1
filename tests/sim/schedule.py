"""One seeded schedule: user, cluster and API server misbehave at the worst moment; then calm, then convergence.

Everything is drawn from `random.Random(seed)` and runs in virtual time, so that a seed is a whole story. What may
happen is in `acts.py`, what must hold in `invariants.py`.
"""

from __future__ import annotations

import logging
import random

from tests.support.virtual_time import run_virtual

from . import acts
from .acts import FAST, FOREIGN, Schedule
from .invariants import Invariants
from .server import Json, clone
from .starts import Broken
from .world import World, gang, summary

MAILBOXES = ("ome.io/release-held-revision", "ome.io/reset-instances")
CALM = 900  # virtual seconds within which everything must have settled
QUIET = 60  # virtual seconds without a write afterwards


def run(seed: int) -> list[str]:
    """Play one schedule; its log. Raises AssertionError with the seed, the reason and the log."""
    told: list[str] = []
    crashes = _Unexpected()
    log = logging.getLogger("ome")
    log.addHandler(crashes)
    try:
        run_virtual(_play(seed, told, crashes), limit=40_000)
    except Exception as error:
        text = "\n".join(told[-60:])
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
    finally:
        log.removeHandler(crashes)
    return told


class _Unexpected(logging.Handler):
    """A pass that ends in an exception nobody expected is tried again; here it is a failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.seen.append(self.format(record))


async def _play(seed: int, told: list[str], crashes: _Unexpected) -> None:
    dice = random.Random(seed)
    lifecycle = clone(FAST)
    if dice.random() < 0.35:
        del lifecycle["updateRetry"]
    if dice.random() < 0.15:
        del lifecycle["stuckPodGracePeriod"]
    world = World(lifecycle=lifecycle, capacity=dice.choice((3, 4, 8, 14)), columnar=dice.random() < 0.3)
    elected = dice.random() < 0.5
    schedule = Schedule(seed, world, dice, Invariants(world), elected, told)
    world.server.fault = lambda request: acts.fault(schedule, request)
    world.server.admit = lambda collection, obj: acts.admit(schedule, collection, obj)
    schedule.invariants.problems = crashes.seen
    world.every_step = schedule.invariants.raise_if_broken
    try:
        for _ in range(1 + (elected and dice.random() < 0.4)):
            acts.start(schedule)
        acts.foreign_pod(schedule, FOREIGN)
        shape = acts.shape(schedule)
        if dice.random() < 0.35:
            shape["runners"] = gang(acts.image(schedule), workers=dice.randint(1, 2))
        world.apply(image=acts.image(schedule), replicas=dice.randint(1, 4), **shape)
        for _ in range(dice.randint(10, 40)):
            await world.run(acts.act(schedule))
        await _calm(schedule)
    except Exception:
        schedule.say(summary(world))
        raise
    finally:
        world.stop()


async def _calm(schedule: Schedule) -> None:
    """Everything is well again: the state must converge, writes must stop, events must add up."""
    world = schedule.world
    schedule.say("calm")
    schedule.fault_rate, schedule.crash_in, schedule.crash_at, schedule.full = 0.0, -1, b"", False
    world.server.stalled_until = 0.0
    acts.keep_alive(schedule)
    await world.run(50 if schedule.elected else 25)
    acts.keep_alive(schedule)
    schedule.invariants.healed()
    world.nodes.capacity = 50
    for name in sorted(schedule.invariants.foreign - {FOREIGN}):
        world.server.remove(("pods", "prod", name))
    schedule.invariants.foreign = {FOREIGN}
    rolling: Json = {"maxSurge": 1, "maxUnavailable": 1}
    kind = schedule.dice.choice(("SurgeThenDrain", "RecreatePod", "InPlaceIfPossible"))
    lifecycle = {"updateStrategy": {"type": kind, "rollingUpdate": rolling}}
    world.change(paused=None, pauseMode=None, lifecycle=lifecycle, minReadySeconds=0)
    world.image("sglang:final")
    await world.run(5)
    took = await world.until(lambda: _converged(world), limit=CALM)
    schedule.say(f"settled after {took:.0f} s")
    await world.run(5)
    writes = world.server.writes
    await world.run(QUIET)
    if world.server.writes != writes:
        raise Broken(f"{world.server.writes - writes} writes although nothing happens")
    schedule.invariants.at_rest()
    schedule.invariants.raise_if_broken()


def _converged(world: World) -> bool:
    size = max(1, world.replica()["spec"].get("replicas") or 0)
    pods = [pod for pod in world.pods() if pod["metadata"]["name"] != FOREIGN]
    digest = world.status().get("updateRevision", "").rpartition("-")[2]
    return (
        world.settled()
        and len(pods) == size * sum(runner["size"] for runner in world.replica()["spec"]["runners"])
        and all(pod["metadata"]["labels"]["ome.io/revision-hash"] == digest for pod in pods)
        and not world.blocks()
        and "rolloutHold" not in world.status()
        and not set(MAILBOXES) & set(world.replica()["metadata"]["annotations"])
    )
