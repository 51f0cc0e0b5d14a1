"""One seeded schedule: user, cluster and API server misbehave at the worst moment; then calm, then convergence.

Everything is drawn from `random.Random(seed)` and runs in virtual time, so that a seed is a whole story.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from ome.kube.requests import Request
from tests.support.virtual_time import run_virtual

from .invariants import Broken, Invariants
from .server import Json, Refuse, clone
from .world import Manager, World, gang, summary

FAST: Json = {
    "instanceReadyTimeout": "60s",
    "stuckPodGracePeriod": "10s",
    "unschedulableGracePeriod": "40s",
    "revisionHistoryLimit": 3,
    "updateRetry": {"maxAttempts": 3, "initialDelay": "5s", "maxDelay": "30s", "multiplier": 2.0},
}
BAD = ("missing", "crash", "never", "config", "badname")
FOREIGN = "chat-engine-77-default-0"
MAILBOXES = ("ome.io/release-held-revision", "ome.io/reset-instances")
CALM = 900  # virtual seconds within which everything must have settled
QUIET = 60  # virtual seconds without a write afterwards


@dataclass
class Schedule:
    """The state of one run."""

    seed: int
    world: World
    dice: random.Random
    invariants: Invariants
    told: list[str] = field(default_factory=list)
    version: int = 1
    fault_rate: float = 0.0
    faults_until: float = 0.0
    crash_in: int = -1
    full: bool = False

    def say(self, text: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time():8.2f}  {text}")


def run(seed: int) -> list[str]:
    """Play one schedule; its log. Raises AssertionError with the seed, the reason and the log."""
    told: list[str] = []
    try:
        run_virtual(_play(seed, told), limit=40_000)
    except Exception as error:
        text = "\n".join(told[-60:])
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
    return told


async def _play(seed: int, told: list[str]) -> None:
    dice = random.Random(seed)
    lifecycle = clone(FAST)
    if dice.random() < 0.2:
        del lifecycle["updateRetry"]
    if dice.random() < 0.15:
        del lifecycle["stuckPodGracePeriod"]
    world = World(lifecycle=lifecycle, capacity=dice.choice((3, 4, 8, 14)), columnar=dice.random() < 0.3)
    schedule = Schedule(seed, world, dice, Invariants(world, FOREIGN), told)
    world.server.fault = lambda request: _fault(schedule, request)
    world.server.admit = lambda collection, obj: _admit(schedule, collection)
    world.every_step = schedule.invariants.raise_if_broken
    _start(schedule)
    try:
        with _WorldActs(schedule):
            _foreign_pod(world)
            shape = _shape(schedule)
            if dice.random() < 0.35:
                shape["runners"] = gang(_image(schedule), workers=dice.randint(1, 2))
            world.apply(image=_image(schedule), replicas=dice.randint(1, 4), **shape)
        schedule.invariants.note_spec()
        for _ in range(dice.randint(10, 40)):
            await _step(schedule)
        await _calm(schedule)
    except Exception:
        schedule.say(summary(world))
        raise
    finally:
        world.stop()


class _WorldActs:
    """Changes made inside are the schedule's own, not a manager's."""

    def __init__(self, schedule: Schedule) -> None:
        self._invariants = schedule.invariants

    def __enter__(self) -> None:
        self._invariants.by_world = True

    def __exit__(self, *_: object) -> None:
        self._invariants.by_world = False


# -- managers and the API server ---------------------------------------------------------------------------------------


def _start(schedule: Schedule) -> Manager:
    manager = schedule.world.start()

    def count(request: Request) -> None:
        if schedule.crash_in < 0 or request.method == "GET":
            return
        schedule.crash_in -= 1
        if schedule.crash_in < 0:
            schedule.say(f"manager dies before {request.method} {request.path}")
            schedule.invariants.faulty = True
            manager.kill()
            delay = schedule.dice.choice((0.1, 1.0, 12.0))
            asyncio.get_running_loop().call_later(delay, _restart, schedule)

    manager.gateway.before = count
    return manager


def _restart(schedule: Schedule) -> None:
    if not any(manager.alive for manager in schedule.world.managers):
        _start(schedule)


def _fault(schedule: Schedule, request: Request) -> str | None:
    if asyncio.get_running_loop().time() >= schedule.faults_until or schedule.dice.random() >= schedule.fault_rate:
        return None
    schedule.invariants.faulty = True
    kinds = ["500", "429", "lost-before", "503"]
    if request.is_write:
        kinds += ["lost-after", "lost-after"]
        if request.method == "PATCH":
            kinds.append("conflict")
    kind = schedule.dice.choice(kinds)
    schedule.say(f"{kind}: {request.method} {request.path}")
    return kind


def _admit(schedule: Schedule, collection: str) -> None:
    if schedule.full and collection == "pods":
        raise Refuse(403, "Forbidden", "exceeded quota: gpus")


def _foreign_pod(world: World) -> None:
    labels = {
        "ome.io/managed-by": "OMENative",
        "ome.io/inferenceservice": "other",
        "component": "engine",
        "ome.io/instance-index": "77",
        "ome.io/pod-ordinal": "0",
    }
    head = {"name": FOREIGN, "namespace": "prod", "labels": labels}
    world.server.create("pods", {"metadata": head, "spec": {"containers": [{"name": "x", "image": "theirs"}]}})


# -- the user and the cluster ------------------------------------------------------------------------------------------


def _image(schedule: Schedule, good: float = 0.6) -> str:
    if schedule.dice.random() < good:
        schedule.version += 1
        return f"sglang:v{schedule.version}"
    return f"sglang:{schedule.dice.choice(BAD)}"


def _shape(schedule: Schedule) -> Json:
    dice = schedule.dice
    kind = dice.choice(("SurgeThenDrain", "SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "InPlaceOnly"))
    rolling: Json = {
        "maxSurge": dice.choice((1, 1, 2, "25%", "100%")),
        "maxUnavailable": dice.choice((1, 1, 2, "25%")),
    }
    if dice.random() < 0.15:
        rolling["partition"] = 1
    lifecycle: Json = {"updateStrategy": {"type": kind, "rollingUpdate": rolling}}
    if dice.random() < 0.3:
        lifecycle["restartPolicy"] = "RecreateInstanceOnPodRestart"
    return {"lifecycle": lifecycle, "minReadySeconds": dice.choice((0, 0, 3))}


async def _step(schedule: Schedule) -> None:
    dice = schedule.dice
    acts = [
        (30, _sleep),
        (12, _edit_image),
        (6, _edit_shape),
        (6, _scale),
        (4, _pause),
        (5, _release),
        (3, _reset),
        (6, _kill_pod),
        (3, _crash_container),
        (2, _lose_node),
        (4, _push),
        (8, _kill_manager),
        (8, _fault_burst),
        (4, _drop_watches),
        (3, _stall_watches),
        (2, _second_manager),
        (3, _quota),
        (2, _edit_policy),
        (2, _jump_clock),
    ]
    (act,) = dice.choices([act for _, act in acts], [weight for weight, _ in acts])
    with _WorldActs(schedule):
        seconds = act(schedule)
    schedule.invariants.note_spec()
    await schedule.world.run(seconds)


def _sleep(schedule: Schedule) -> int:
    return schedule.dice.choice((1, 2, 5, 11, 20))


def _edit_image(schedule: Schedule) -> int:
    image = _image(schedule)
    schedule.say(f"image {image}")
    schedule.world.image(image)
    return schedule.dice.choice((0, 1, 3, 8, 15))


def _edit_shape(schedule: Schedule) -> int:
    shape = _shape(schedule)
    schedule.say(f"shape {shape}")
    schedule.world.change(**shape)
    return 1


def _scale(schedule: Schedule) -> int:
    size = schedule.dice.randint(0, 5)
    schedule.say(f"scale {size}")
    schedule.world.change(replicas=size)
    return schedule.dice.choice((0, 2, 6))


def _pause(schedule: Schedule) -> int:
    mode = schedule.dice.choice(
        ({"paused": None, "pauseMode": None}, {"paused": True}, {"paused": True, "pauseMode": "Freeze"})
    )
    schedule.say(f"pause {mode}")
    schedule.world.change(**mode)
    return schedule.dice.choice((1, 4, 10))


def _release(schedule: Schedule) -> int:
    blocks = schedule.world.blocks()
    value = schedule.dice.choice([block["targetRevision"] for block in blocks]) if blocks else "nothing"
    schedule.say(f"release {value}")
    schedule.world.annotate("ome.io/release-held-revision", value)
    return schedule.dice.choice((0, 1, 5))


def _reset(schedule: Schedule) -> int:
    value = schedule.dice.choice(("all", "0", "0,1"))
    schedule.say(f"reset {value}")
    schedule.world.annotate("ome.io/reset-instances", value)
    return schedule.dice.choice((0, 1, 5))


def _pods(schedule: Schedule) -> list[Json]:
    return [pod for pod in schedule.world.pods() if pod["metadata"]["name"] != FOREIGN]


def _kill_pod(schedule: Schedule) -> int:
    pods = _pods(schedule)
    if pods:
        name = schedule.dice.choice(pods)["metadata"]["name"]
        schedule.say(f"somebody deletes {name}")
        schedule.world.server.delete(("pods", "prod", name), schedule.dice.choice((0, None)))
    return schedule.dice.choice((0, 1, 4))


def _crash_container(schedule: Schedule) -> int:
    pods = _pods(schedule)
    if pods:
        pod = schedule.dice.choice(pods)
        schedule.say(f"{pod['metadata']['name']} exits once")
        schedule.world.nodes.crash(pod)
    return 2


def _lose_node(schedule: Schedule) -> int:
    nodes = schedule.world.nodes
    known = [node["metadata"]["name"] for node in schedule.world.server.list("nodes")]
    name = schedule.dice.choice([node for node in known if node not in nodes.dead])
    schedule.say(f"node {name} is lost")
    nodes.add(f"node-{len(known) + 1}")
    nodes.lose(name)
    return 3


def _push(schedule: Schedule) -> int:
    word = schedule.dice.choice(BAD)
    pushed = schedule.world.nodes.pushed
    pushed ^= {word}
    schedule.say(f"images with {word}: {'fixed' if word in pushed else 'broken'}")
    return schedule.dice.choice((1, 5))


def _kill_manager(schedule: Schedule) -> int:
    schedule.crash_in = schedule.dice.randint(0, 8)
    schedule.say(f"manager will die in {schedule.crash_in} writes")
    return schedule.dice.choice((0, 3, 8))


def _fault_burst(schedule: Schedule) -> int:
    schedule.fault_rate = schedule.dice.choice((0.1, 0.3, 0.8))
    seconds = schedule.dice.choice((1, 4, 10))
    schedule.faults_until = asyncio.get_running_loop().time() + seconds
    schedule.say(f"API faults {schedule.fault_rate} for {seconds} s")
    return schedule.dice.choice((1, seconds))


def _drop_watches(schedule: Schedule) -> int:
    schedule.say("watches drop")
    schedule.world.server.drop_watches()
    return 1


def _stall_watches(schedule: Schedule) -> int:
    seconds = schedule.dice.choice((1, 3, 8))
    schedule.say(f"watches deliver nothing for {seconds} s")
    schedule.world.server.stalled_until = asyncio.get_running_loop().time() + seconds
    return schedule.dice.choice((1, seconds))


def _second_manager(schedule: Schedule) -> int:
    """A manager that does not know yet that it lost its Lease acts beside the new leader for a while."""
    alive = [manager for manager in schedule.world.managers if manager.alive]
    if not alive:
        return 1
    schedule.say("a second manager acts beside the first")
    schedule.invariants.two_managers = True
    schedule.invariants.faulty = True
    _start(schedule)
    old = alive[0]

    def end() -> None:
        old.kill()
        schedule.invariants.two_managers = False
        _restart(schedule)

    asyncio.get_running_loop().call_later(schedule.dice.choice((0.5, 3.0)), end)
    return 4


def _quota(schedule: Schedule) -> int:
    schedule.full = not schedule.full
    schedule.say(f"quota {'full' if schedule.full else 'free'}")
    return schedule.dice.choice((1, 6))


def _edit_policy(schedule: Schedule) -> int:
    lifecycle = dict(schedule.world.lifecycle)
    if "updateRetry" in lifecycle:
        del lifecycle["updateRetry"]
    else:
        lifecycle["updateRetry"] = FAST["updateRetry"]
    schedule.world.lifecycle = lifecycle
    schedule.say(f"policy {'set' if 'updateRetry' in lifecycle else 'unset'}")
    return 1


def _jump_clock(schedule: Schedule) -> int:
    """The machine slept, or its clock was set right: time leaps forward."""
    seconds = schedule.dice.choice((5, 30, 120))
    schedule.say(f"the clock jumps {seconds} s ahead")
    schedule.world.clock.jump(seconds)
    return 1


# -- calm --------------------------------------------------------------------------------------------------------------


async def _calm(schedule: Schedule) -> None:
    """Everything is well again: the state must converge, writes must stop, events must add up."""
    world = schedule.world
    schedule.say("calm")
    schedule.fault_rate, schedule.crash_in, schedule.full = 0.0, -1, False
    world.nodes.capacity = 50
    world.server.stalled_until = 0.0
    with _WorldActs(schedule):
        rolling: Json = {"maxSurge": 1, "maxUnavailable": 1}
        kind = schedule.dice.choice(("SurgeThenDrain", "RecreatePod", "InPlaceIfPossible"))
        lifecycle = {"updateStrategy": {"type": kind, "rollingUpdate": rolling}}
        world.change(paused=None, pauseMode=None, lifecycle=lifecycle, minReadySeconds=0)
        world.image("sglang:final")
    schedule.invariants.note_spec()
    await world.run(15)
    _restart(schedule)
    took = await world.until(lambda: _converged(world), limit=CALM)
    schedule.say(f"settled after {took:.0f} s")
    await world.run(5)
    writes = world.server.writes
    await world.run(QUIET)
    if world.server.writes != writes:
        raise Broken(f"{world.server.writes - writes} writes although nothing happens")
    schedule.invariants.events()
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
