"""What the user, the cluster and the network do in a schedule: one act a step, drawn by weight.

Each act changes the world and says how many seconds pass before the next one. `schedule.py` plays them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ome.kube.requests import Request

from .invariants import Invariants
from .server import Json, Refuse
from .world import Manager, World

FAST: Json = {
    "instanceReadyTimeout": "60s",
    "stuckPodGracePeriod": "10s",
    "unschedulableGracePeriod": "40s",
    "revisionHistoryLimit": 3,
    "updateRetry": {"maxAttempts": 3, "initialDelay": "5s", "maxDelay": "30s", "multiplier": 2.0},
}
BAD = ("missing", "crash", "never", "config", "badname")
FOREIGN = "chat-engine-77-default-0"


@dataclass
class Schedule:
    """The state of one run."""

    seed: int
    world: World
    dice: random.Random
    invariants: Invariants
    elected: bool
    told: list[str] = field(default_factory=list)
    version: int = 1
    fault_rate: float = 0.0
    faults_until: float = 0.0
    crash_in: int = -1
    crash_after: bool = False
    crash_at: bytes = b""  # the manager dies when a write with this word was committed
    full: bool = False

    def say(self, text: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time():8.2f}  {text}")


# -- managers and the API server ---------------------------------------------------------------------------------------


def start(schedule: Schedule) -> Manager:
    """Start a manager whose requests the schedule watches."""
    manager = schedule.world.start(elected=schedule.elected)
    schedule.invariants.elected = schedule.elected

    def before(request: Request) -> None:
        schedule.invariants.asked()
        if not schedule.crash_after:
            _count_down(schedule, manager, request, "before")

    def after(request: Request) -> None:
        if schedule.crash_at and request.is_write and schedule.crash_at in (request.body or b""):
            schedule.crash_at, schedule.crash_in, schedule.crash_after = b"", 0, True
        if schedule.crash_after:
            _count_down(schedule, manager, request, "after")

    manager.gateway.before = before
    manager.gateway.after = after
    return manager


def _count_down(schedule: Schedule, manager: Manager, request: Request, when: str) -> None:
    if schedule.crash_in < 0 or request.method == "GET" or "/leases/" in request.path:
        return
    schedule.crash_in -= 1
    if schedule.crash_in < 0:
        schedule.say(f"manager dies {when} {request.method} {request.path}")
        schedule.invariants.ledger.write_off(manager.gateway)
        manager.kill()
        delay = schedule.dice.choice((0.1, 1.0, 12.0))
        asyncio.get_running_loop().call_later(delay, keep_alive, schedule)


def keep_alive(schedule: Schedule) -> None:
    """The kubelet's part: a manager that ended is started again."""
    if not any(manager.alive for manager in schedule.world.managers):
        start(schedule)


def fault(schedule: Schedule, request: Request) -> str | None:
    """What goes wrong with this request, if anything."""
    if asyncio.get_running_loop().time() >= schedule.faults_until or schedule.dice.random() >= schedule.fault_rate:
        return None
    kinds = ["500", "429", "lost-before", "503"]
    if request.is_write:
        kinds += ["lost-after", "lost-after"]
        if request.method == "PATCH":
            kinds.append("conflict")
    kind = schedule.dice.choice(kinds)
    schedule.say(f"{kind}: {request.method} {request.path}")
    asyncio.get_running_loop().call_soon(_excuse, schedule)  # after what a lost answer committed
    return kind


def _excuse(schedule: Schedule) -> None:
    for manager in schedule.world.managers:
        schedule.invariants.ledger.write_off(manager.gateway)


def admit(schedule: Schedule, collection: str, obj: Json) -> None:
    """Admission of creates and updates: the quota counts new pods."""
    server = schedule.world.server
    new = server.get(collection, "prod", obj["metadata"]["name"]) is None
    if schedule.full and collection == "pods" and new and server.actor is not None:
        raise Refuse(403, "Forbidden", "exceeded quota: gpus")


def foreign_pod(schedule: Schedule, name: str) -> None:
    """A pod that looks like ours and is not."""
    labels = {
        "ome.io/managed-by": "OMENative",
        "ome.io/inferenceservice": "other",
        "component": "engine",
        "ome.io/instance-index": "77",
        "ome.io/pod-ordinal": "0",
    }
    schedule.invariants.foreign.add(name)
    head = {"name": name, "namespace": "prod", "labels": labels}
    schedule.world.server.create("pods", {"metadata": head, "spec": {"containers": [{"name": "x", "image": "theirs"}]}})


# -- the user ----------------------------------------------------------------------------------------------------------


def image(schedule: Schedule, good: float = 0.5) -> str:
    """An image of the user's choice; often one that does not work."""
    if schedule.dice.random() < good:
        schedule.version += 1
        return f"sglang:v{schedule.version}"
    return f"sglang:{schedule.dice.choice(BAD)}"


def shape(schedule: Schedule) -> Json:
    """Strategy, budgets, policy."""
    dice = schedule.dice
    kind = dice.choice(("SurgeThenDrain", "SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "InPlaceOnly"))
    rolling: Json = {
        "maxSurge": dice.choice((1, 1, 2, "25%", "100%")),
        "maxUnavailable": dice.choice((1, 1, 2, "25%")),
    }
    if dice.random() < 0.2:
        rolling["partition"] = dice.choice((1, 1, 2))
    lifecycle: Json = {"updateStrategy": {"type": kind, "rollingUpdate": rolling}}
    if dice.random() < 0.3:
        lifecycle["restartPolicy"] = "RecreateInstanceOnPodRestart"
    return {"lifecycle": lifecycle, "minReadySeconds": dice.choice((0, 0, 3))}


def _sleep(schedule: Schedule) -> int:
    return schedule.dice.choice((1, 2, 5, 11, 20))


def _edit_image(schedule: Schedule) -> int:
    wanted = image(schedule)
    schedule.say(f"image {wanted}")
    schedule.world.image(wanted)
    return schedule.dice.choice((0, 1, 3, 8, 15))


def _edit_environment(schedule: Schedule) -> int:
    """A change that no running pod can take in place."""
    schedule.version += 1
    schedule.say(f"environment {schedule.version}")
    schedule.world.environment(str(schedule.version))
    return schedule.dice.choice((1, 8, 15))


def _edit_shape(schedule: Schedule) -> int:
    wanted = shape(schedule)
    schedule.say(f"shape {wanted}")
    schedule.world.change(**wanted)
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
    if not blocks and schedule.dice.random() < 0.8:
        return 11  # nothing to release: time for something to fail
    value = schedule.dice.choice([block["targetRevision"] for block in blocks]) if blocks else "nothing"
    if schedule.dice.random() < 0.4:
        value = value.rpartition("-")[2]
    schedule.say(f"release {value}")
    schedule.world.annotate("ome.io/release-held-revision", value)
    return schedule.dice.choice((0, 1, 5))


def _reset(schedule: Schedule) -> int:
    value = schedule.dice.choice(("all", "0", "0,1"))
    schedule.say(f"reset {value}")
    schedule.world.annotate("ome.io/reset-instances", value)
    return schedule.dice.choice((0, 1, 5))


# -- the cluster -------------------------------------------------------------------------------------------------------


def _pods(schedule: Schedule) -> list[Json]:
    return [pod for pod in schedule.world.pods() if pod["metadata"]["name"] not in schedule.invariants.foreign]


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


def _a_node(schedule: Schedule) -> str:
    """A live node to be lost; another one takes its place."""
    nodes = schedule.world.nodes
    known = [node["metadata"]["name"] for node in schedule.world.server.list("nodes")]
    name = schedule.dice.choice([node for node in known if node not in nodes.dead])
    nodes.add(f"node-{len(known) + 1}")
    return name


def _lose_node(schedule: Schedule) -> int:
    name = _a_node(schedule)
    schedule.say(f"node {name} is lost")
    schedule.world.nodes.lose(name)
    return 3


def _cut_node(schedule: Schedule) -> int:
    """A node falls silent: its pods are unready, then evicted, and much later gone."""
    name = _a_node(schedule)
    schedule.say(f"node {name} falls silent")
    nodes = schedule.world.nodes
    nodes.silence(name)
    loop = asyncio.get_running_loop()
    loop.call_later(8, nodes.evict, name)
    loop.call_later(schedule.dice.choice((15, 40)), nodes.lose, name)
    return 5


def _push(schedule: Schedule) -> int:
    word = schedule.dice.choice(BAD)
    pushed = schedule.world.nodes.pushed
    pushed ^= {word}
    schedule.say(f"images with {word}: {'fixed' if word in pushed else 'broken'}")
    return schedule.dice.choice((1, 5))


def _quota(schedule: Schedule) -> int:
    schedule.full = not schedule.full
    schedule.say(f"quota {'full' if schedule.full else 'free'}")
    return schedule.dice.choice((1, 6))


def _squat(schedule: Schedule) -> int:
    """Somebody else's pod takes a name that an update will want."""
    name = f"chat-engine-{schedule.dice.randint(0, 2)}-default-{schedule.dice.randint(0, 1)}"
    if schedule.world.server.get("pods", "prod", name) is None:
        schedule.say(f"somebody else makes a pod {name}")
        foreign_pod(schedule, name)
    return 4


# -- the control plane -------------------------------------------------------------------------------------------------


def _kill_manager(schedule: Schedule) -> int:
    schedule.crash_in = schedule.dice.randint(0, 8)
    schedule.crash_after = schedule.dice.random() < 0.5
    schedule.say(f"manager will die in {schedule.crash_in} writes")
    return schedule.dice.choice((0, 3, 8))


def _kill_at_hold(schedule: Schedule) -> int:
    """The manager dies between a hold and what it says of it, or between a charge and the end of the attempt."""
    schedule.crash_at = schedule.dice.choice((b'"state":"Held"', b'"state":"Backoff"'))
    return 1


def _fault_burst(schedule: Schedule) -> int:
    schedule.fault_rate = schedule.dice.choice((0.1, 0.3, 0.8))
    seconds = schedule.dice.choice((1, 4, 10))
    schedule.faults_until = asyncio.get_running_loop().time() + seconds
    schedule.say(f"API faults {schedule.fault_rate} for {seconds} s")
    return schedule.dice.choice((1, seconds))


def _drop_watches(schedule: Schedule) -> int:
    forget = schedule.dice.random() < 0.4
    schedule.say(f"watches drop{' and cannot resume' if forget else ''}")
    if forget:
        schedule.world.server.forget_history()
    schedule.world.server.drop_watches()
    return 1


def _stall_watches(schedule: Schedule) -> int:
    seconds = schedule.dice.choice((1, 3, 8))
    schedule.say(f"watches deliver nothing for {seconds} s")
    schedule.world.server.stalled_until = asyncio.get_running_loop().time() + seconds
    return schedule.dice.choice((1, seconds))


def _cut_manager(schedule: Schedule) -> int:
    """The leader is cut off, or its process stands still: long enough, and it loses its Lease to the other one.

    One write that it had sent before may arrive late, after the new leader has begun.
    """
    alive = [manager for manager in schedule.world.managers if manager.alive]
    if not alive:
        return 1
    leader = next((m for m in alive if m.gateway is schedule.invariants.leader), alive[0])
    if schedule.elected and len(alive) < 2:
        start(schedule)
    seconds = schedule.dice.choice((1, 6, 14, 25))
    late = schedule.dice.choice((None, 0.5, 17.0, 30.0)) if schedule.elected else None
    schedule.say(f"the leader is cut off for {seconds} s, its last write arrives {late}")
    schedule.invariants.ledger.write_off(leader.gateway)
    leader.gateway.cut(seconds, late)
    loop = asyncio.get_running_loop()
    loop.call_later(seconds + 1, schedule.invariants.ledger.write_off, leader.gateway)
    loop.call_later(seconds + 2, keep_alive, schedule)
    return schedule.dice.choice((1, 10, 20, 32))


def _stop_manager(schedule: Schedule) -> int:
    """A clean stop, as in a rolling update of the manager: the Lease is released, the next one begins at once."""
    alive = [manager for manager in schedule.world.managers if manager.alive]
    if not alive:
        return 1
    leader = next((m for m in alive if m.gateway is schedule.invariants.leader), alive[0])
    schedule.say("the leader is stopped")
    schedule.invariants.ledger.write_off(leader.gateway)
    start(schedule)
    schedule.world.spawn(leader.stop())
    return schedule.dice.choice((1, 5))


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
    """The machine slept, or its clock was set right."""
    seconds = schedule.dice.choice((5, 30, 120, -2, -20))
    schedule.say(f"the clock jumps {seconds} s")
    schedule.world.clock.jump(seconds)
    if seconds < 0:
        schedule.invariants.set_back_at = asyncio.get_running_loop().time()
    return 1


ACTS: list[tuple[int, Callable[[Schedule], int]]] = [
    (30, _sleep),
    (12, _edit_image),
    (3, _edit_environment),
    (6, _edit_shape),
    (6, _scale),
    (4, _pause),
    (7, _release),
    (3, _reset),
    (6, _kill_pod),
    (3, _crash_container),
    (2, _lose_node),
    (1, _cut_node),
    (4, _push),
    (3, _quota),
    (1, _squat),
    (8, _kill_manager),
    (3, _kill_at_hold),
    (8, _fault_burst),
    (4, _drop_watches),
    (3, _stall_watches),
    (3, _cut_manager),
    (2, _stop_manager),
    (2, _edit_policy),
    (2, _jump_clock),
]


def act(schedule: Schedule) -> int:
    """Do one thing; the seconds until the next."""
    (chosen,) = schedule.dice.choices([act for _, act in ACTS], [weight for weight, _ in ACTS])
    return chosen(schedule)
