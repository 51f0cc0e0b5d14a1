"""The walkthrough of runtime revisions and pinning once more, with the engine on OMENative: what is printed stays the
same, and a roll is a surge.

`test_runtime_revisions.py` is the same with a Deployment. How the pods came and went is read from a watch on them, in
the API server's order, not from looks now and then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.scenario import pinning
from tests.scenario.pinning import AT_075, AT_08, DRIFTED, NAME, NS, A, B, Person, line, pinned
from tests.support.scenario import ScenarioCluster, Watch

PODS = f"get pods -n {NS} -l ome.io/inferenceservice={NAME},component=engine"
WATCH = "--output-watch-events -o json"
STALE = "error: action refused: controller safety evidence is stale or inconsistent"
INDEX = "ome.io/instance-index"
Json = dict[str, Any]
Event = tuple[str, Json]


class NativeWorkload:
    """An InferenceReplica: the pods themselves are looked at."""

    mode = "  deploymentMode: OMENative\n"
    kind = "irep"
    carriers = ("irep", "service", "pods", "controllerrevision")

    def arguments(self, cluster: ScenarioCluster) -> str:
        path = 'jsonpath={.items[*].spec.containers[?(@.name=="ome-container")].args}'
        return cluster.kubectl(f"{PODS} -o", path).out

    def settled(self, cluster: ScenarioCluster, fraction: str) -> None:
        def at_rest() -> bool:
            return _at_rest(cluster) and self.arguments(cluster) == line(fraction)

        cluster.until(at_rest, what=f"an InferenceReplica with nothing to do and arguments with {fraction}")

    @contextmanager
    def rolling(self, cluster: ScenarioCluster, fraction: str) -> Iterator[None]:
        """The Instance that is left takes the new arguments in a second pod, and lets the first go once that is Ready.

        A service edit that waited for the roll may take another Instance away meanwhile.
        """
        with cluster.watch(f"{PODS} {WATCH}") as watch:
            cluster.until(watch.events)
            yield
            self.settled(cluster, fraction)
            (left,) = cluster.get(PODS.removeprefix("get "))["items"]
            cluster.until(lambda: list(standing(watch.events())) == [left["metadata"]["name"]])
        index = left["metadata"]["labels"][INDEX]
        first, second, story = surge(
            [event for event in watch.events() if event[1]["metadata"]["labels"][INDEX] == index]
        )
        assert sorted((first, second)) == [f"{NAME}-engine-{index}-default-{ordinal}" for ordinal in (0, 1)]
        assert story == [
            f"{first} ready",
            f"{second} appears",
            f"{second} ready",
            f"{first} unready",
            f"{first} terminating",
            f"{first} gone",
        ]
        assert left["metadata"]["name"] == second
        assert left["metadata"]["labels"]["ome.io/instance-incarnation"] == "1"


def _at_rest(cluster: ScenarioCluster) -> bool:
    replica = cluster.get(f"irep {NAME}-engine -n {NS}")
    status = replica["status"]
    return bool(
        status.get("observedGeneration") == replica["metadata"]["generation"]
        and status["currentRevision"] == status["updateRevision"]
        and [status[key] for key in ("replicas", "readyReplicas", "servingReplicas")] == [1, 1, 1]
        and cluster.kubectl(f"{PODS} -o name").ok().out.count("\n") == 1
    )


def ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


def standing(events: list[Event]) -> dict[str, Json]:
    """The pods that are there after some events."""
    pods: dict[str, Json] = {}
    for kind, pod in events:
        pods[pod["metadata"]["name"]] = pod
        if kind == "DELETED":
            del pods[pod["metadata"]["name"]]
    return pods


def surge(events: list[Event]) -> tuple[str, str, list[str]]:
    """The two pods of an Instance in a roll, and what became of them, in order."""
    pods: list[str] = []
    story: list[str] = []
    for kind, pod in events:
        name = pod["metadata"]["name"]
        facts = []
        if name not in pods:
            facts = ["appears"] if pods else []
            pods.append(name)
        if ready(pod):
            facts.append("ready")
        elif f"{name} ready" in story:
            facts.append("unready")
        if "deletionTimestamp" in pod["metadata"]:
            facts.append("terminating")
        if kind == "DELETED":
            facts.append("gone")
        story += [told for fact in facts if (told := f"{name} {fact}") not in story]
    first, second = pods
    return first, second, story


@pytest.fixture(scope="module")
def person(opener: Callable[..., ScenarioCluster]) -> Person:
    someone = Person(opener(nodes=1), NativeWorkload())
    someone.stage()
    return someone


@pytest.mark.spec("RR-2", "RR-34", "ON-36")
def test_1_pin(person: Person) -> None:
    pinning.walk_pin(person)


@pytest.fixture(scope="module")
def serving(person: Person) -> Iterator[Watch]:
    """All that becomes of the engine's pods from the moment it serves."""
    with person.c.watch(f"{PODS} {WATCH}") as watch:
        person.c.until(watch.events)
        yield watch


@pytest.fixture(scope="module")
def pins(person: Person) -> Iterator[Watch]:
    """All that becomes of the pin and the acknowledged token."""
    path = 'jsonpath={.status.pinnedRevisionName} {.status.lastRuntimeSyncToken}{"\\n"}'
    with person.c.watch(f"get inferenceservice {NAME} -n {NS} -o", path) as watch:
        person.c.until(lambda: watch.text)
        yield watch


@pytest.mark.spec("RR-6", "RR-7", "RR-8", "RR-34", "RR-36")
def test_2_the_runtime_changes(person: Person, serving: Watch, pins: Watch) -> None:
    pinning.walk_drift(person)


@pytest.mark.spec("RR-9", "RR-10", "RR-11", "RR-34", "RR-35", "ON-6")
def test_3_roll_forward(person: Person, serving: Watch) -> None:
    pinning.walk_forward(person)


@pytest.mark.spec("CR-1")
def test_4_runtime_sync(person: Person, serving: Watch) -> None:
    pinning.walk_sync(person)


@pytest.mark.spec("RR-14", "RR-15", "RR-16", "RR-17", "RR-34", "RR-38", "ON-6")
def test_5_roll_back(person: Person, serving: Watch) -> None:
    pinning.walk_back(person)


def test_5_a_roll_back_takes_up_the_pods_revision_of_before(person: Person, serving: Watch) -> None:
    """Pod-template revisions have names of their own, by content: there and back is two of them, not three."""
    c = person.c
    person.workload.settled(c, "0.8")
    found = c.get(f"controllerrevisions -n {NS} -l ome.io/inferenceservice={NAME},component=engine")["items"]
    fractions = [_fraction(item["data"]) for item in found]
    assert sorted(fractions) == sorted(set(fractions))
    assert {"0.9", "0.85", "0.8"} <= set(fractions)


def _fraction(payload: Json) -> str:
    return str(payload["podSpec"]["containers"][0]["args"][-1].removeprefix("--mem-frac="))


def test_6_sync_waits_for_a_frozen_edit_and_for_a_roll(person: Person, serving: Watch) -> None:
    c = person.c
    person.withdraw_token()
    person.revision(A).ok()
    person.shows(pinned(A))
    person.revision(None).ok()
    person.shows(DRIFTED)
    person.workload.settled(c, "0.9")
    generation = person.generation()
    person.patch({"engine": {"minReplicas": 1, "maxReplicas": 2}}).ok()
    person.refused_sync(STALE)
    assert c.ome(f"instance retry-blocks {NAME} --component engine -n {NS}").ok().out == (
        "COMP     STATE   TARGET   ATT   NEXT   REL   REASON\n"
        "engine   ISSUE   -        -     -      NO    PARENT_STALE\n"
    )
    listed = c.ome(f"instance list {NAME} -n {NS}").ok().out.splitlines()[1:]
    assert [row.split()[-1] for row in listed] == ["STALE:PARENT"]
    assert person.generation() == generation
    person.patch({"engine": {"minReplicas": 1, "maxReplicas": 1}}).ok()

    more = ["--kubeconfig", str(c.kubeconfig)] if c.real else []
    c.local("image deny", "*sglang*", *more).ok()
    person.annotate("stuck-1")
    person.shows(pinned(AT_08))
    c.until(lambda: line("0.8") in person.arguments())
    person.fraction("0.85")
    person.shows(DRIFTED.replace(A, AT_08))
    person.refused_sync(STALE)
    person.fraction("0.8")
    person.shows(pinned(AT_08))
    c.local("image allow", "*sglang*", *more).ok()
    c.eventually(person.arguments, line("0.8"))


def test_7_each_token_moved_the_pin_once_and_together_with_it(pins: Watch) -> None:
    seen = [re.sub(r"cli-runtime-sync-\S+", "cli", row).rstrip() for row in pins.text.splitlines()]
    assert [row for row, before in zip(seen, ["", *seen], strict=False) if row != before] == [
        A,
        f"{B} mem-frac-0-85",
        f"{AT_08} early-1",
        f"{B} back-1",
        f"{AT_075} cli",
        f"{B} back-2",
        f"{A} back-2",  # by `revision`, as each return to A below
        f"{AT_08} ignored-1",
        f"{A} ignored-1",
        f"{AT_08} ignored-2",
        f"{A} ignored-2",
        f"{AT_08} stuck-1",
    ]


@pytest.mark.spec("ON-6")
def test_7_somebody_always_served(person: Person, serving: Watch) -> None:
    """From the first pod's readiness on, over every roll and every one that was overtaken by the next."""
    events = serving.events()
    pods: dict[str, Json] = {}
    for number, (kind, pod) in enumerate(events):
        pods[pod["metadata"]["name"]] = pod
        if kind == "DELETED":
            del pods[pod["metadata"]["name"]]
        able = [pod for pod in pods.values() if ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        assert able, f"nobody serves after event {number}"
    assert len(events) > 50
