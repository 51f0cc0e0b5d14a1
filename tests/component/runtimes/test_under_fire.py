"""Drift and freeze hold under fire: the manager is killed at random while runtimes, services and tokens change.

Every write to a Deployment is judged when it is committed; at the end every service is where the state machine of
spec/runtime-revisions.md section 6 says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from ome.api.canonical import runtime_hash, short_hash
from ome.kube.errors import ApiError
from ome.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, INFERENCE_SERVICES
from tests.support.world import World, in_world

NS, RUNTIME = "fire", "shared"
SERVICES = ("one", "two", "three")
VALUES = tuple(f"0.{number}" for number in range(70, 76))
ROOMS = ("ome.runtimes", "ome.services")
DEFAULT_SEEDS, SLOW_SEEDS = range(20), range(20, 200)
# A pass that read before an edit may still write after it; nothing in a quiet cluster takes longer.
GRACE = 2.0


def runtime(value: str) -> dict[str, Any]:
    runner = {
        "name": "ome-container",
        "image": "docker.io/library/server:1",
        "args": [f"--fraction={value}"],
        "resources": {},
    }
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ServingRuntime",
        "metadata": {"name": RUNTIME, "namespace": NS},
        "spec": {"engineConfig": {"runner": runner}},
    }


def hash_of(value: str) -> str:
    return short_hash(runtime_hash(runtime(value)["spec"]))


def service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": NS},
        "spec": {
            "runtime": {"name": RUNTIME, "kind": "ServingRuntime", "autoSync": False},
            "engine": {"minReplicas": 1, "maxReplicas": 1},
        },
    }


@dataclass
class Judge:
    """Sees every commit of the API server, and knows what was pinned and live lately."""

    world: World
    problems: list[str] = field(default_factory=list)
    pins: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)

    def watch(self) -> None:
        assert self.world.server is not None
        self.world.server.store.on_commit(self.hear)

    def hear(self, resource: str, event: Any) -> None:
        if resource == "inferenceservices.ome.io":
            body = orjson.loads(event.record.body)
            pin = (body.get("status") or {}).get("pinnedRevisionName", "")
            self.pins.setdefault(body["metadata"]["name"], []).append((self.world.clock.monotonic(), pin))
        if resource == "deployments.apps":
            self.judge(orjson.loads(event.record.body))

    def judge(self, body: dict[str, Any]) -> None:
        """A Deployment never shows what its service was not pinned to at that moment."""
        name = body["metadata"]["name"].removesuffix("-engine")
        template = str(body["spec"]["template"]["spec"]["containers"][0].get("args"))
        if self.templates.get(name) == template:
            return
        self.templates[name] = template
        value = template.split("=")[1].rstrip("']")
        now = self.world.clock.monotonic()
        history = self.pins.get(name, [])
        recent = {pin for at, pin in history if now - at < GRACE} | ({history[-1][1]} if history else set())
        if not any(pin.endswith(hash_of(value)) for pin in recent):
            self.problems.append(f"{now:.1f} s: {name} rendered {value}, pinned lately: {sorted(recent)}")


@dataclass
class Story:
    """What the user did last, and what the state machine makes of it."""

    live: str = VALUES[0]
    revision: dict[str, str] = field(default_factory=dict)

    def expected(self, status: dict[str, Any], annotations: dict[str, str], name: str) -> str | None:
        """The reason of RuntimeDrifted that must stand, or None."""
        if self.revision.get(name):
            return None
        if str(status.get("pinnedRevisionName", "")).endswith(hash_of(self.live)):
            return None
        token = annotations.get("ome.io/runtime-sync", "")
        assert not token or token == status.get("lastRuntimeSyncToken"), f"{name}: unused token {token} while drifted"
        return "RevisionMismatch"


async def fire(world: World, seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    judge = Judge(world)
    await world.make_namespace(NS)
    await world.apply(runtime(story.live))
    manager = world.start_manager(ROOMS)
    for name in SERVICES:
        await world.apply(service(name))
    await world.settle()
    judge.watch()
    for step in range(40):
        action = chance.randrange(7)
        name = chance.choice(SERVICES)
        if action <= 1:
            story.live = chance.choice(VALUES)
            await world.apply(runtime(story.live))
        elif action == 2:
            await world.annotate(INFERENCE_SERVICES, name, NS, **{"ome.io/runtime-sync": f"{seed}-{step}"})
        elif action == 3:
            size = chance.randint(1, 3)
            await world.merge(
                INFERENCE_SERVICES, name, NS, {"spec": {"engine": {"minReplicas": size, "maxReplicas": size}}}
            )
        elif action == 4:
            await choose_revision(world, chance, story, name)
        else:
            await manager.stop()
            await world.sleep(chance.random())
            manager = world.start_manager(ROOMS)
        await world.sleep(chance.choice((0.0, 0.01, 0.1, 1.0)))
    await world.settle(5.0)
    for name in SERVICES:
        found = await world.get(INFERENCE_SERVICES, name, NS)
        conditions = {c["type"]: c for c in found["status"].get("conditions", [])}
        drifted = conditions.get("RuntimeDrifted")
        reason = story.expected(found["status"], found["metadata"].get("annotations", {}), name)
        assert (drifted["reason"] if drifted else None) == reason, (seed, name, found["status"], story)
        if story.revision.get(name):
            assert found["status"]["pinnedRevisionName"] == story.revision[name]
        deployment = await world.get(DEPLOYMENTS, f"{name}-engine", NS)
        shown = str(deployment["spec"]["template"]["spec"]["containers"][0]["args"]).split("=")[1].rstrip("']")
        if reason is None:
            assert found["status"]["pinnedRevisionName"].endswith(hash_of(shown)), (seed, name, shown)
    assert judge.problems == [], seed


async def choose_revision(world: World, chance: random.Random, story: Story, name: str) -> None:
    """Pin to a stored revision, or let go of one; the runtime must not move meanwhile for the outcome to be known."""
    if story.revision.pop(name, None):
        await world.merge(INFERENCE_SERVICES, name, NS, {"spec": {"runtime": {"revision": None}}})
        return
    stored = await world.list(CONTROLLER_REVISIONS, "ome", labels=f"ome.io/runtime-of={RUNTIME}")
    if not stored:
        return
    chosen = chance.choice(sorted(revision["metadata"]["name"] for revision in stored))
    try:
        await world.merge(INFERENCE_SERVICES, name, NS, {"spec": {"runtime": {"revision": chosen}}})
    except ApiError as error:
        raise AssertionError(f"{name}: {chosen} refused: {error}") from error
    story.revision[name] = chosen


@pytest.mark.embedded_only("judges every commit of the API server")
@pytest.mark.spec("RR-6", "RR-7", "RR-9", "RR-14")
@pytest.mark.parametrize("seed", DEFAULT_SEEDS)
@in_world()
async def test_drift_and_freeze_hold_under_fire(world: World, seed: int) -> None:
    await fire(world, seed)


@pytest.mark.slow
@pytest.mark.embedded_only("judges every commit of the API server")
@pytest.mark.parametrize("seed", SLOW_SEEDS)
@in_world()
async def test_drift_and_freeze_hold_under_much_fire(world: World, seed: int) -> None:
    await fire(world, seed)


def test_the_judge_sees_a_wrong_render() -> None:
    """The judge itself can fail: a Deployment of another content than the pin is a problem."""

    class Clock:
        def monotonic(self) -> float:
            return 100.0

    world: Any = type("W", (), {"clock": Clock()})()
    judge = Judge(world, pins={"one": [(10.0, f"r-{NS}-{RUNTIME}-{hash_of('0.70')}")]})
    template = {"spec": {"containers": [{"args": ["--fraction=0.75"]}]}}
    judge.judge({"metadata": {"name": "one-engine"}, "spec": {"template": template}})
    assert judge.problems
