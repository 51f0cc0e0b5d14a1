"""The walkthrough of runtime revisions and pinning, typed with the real kubectl, compared line for line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.scenario import pinning
from tests.scenario.pinning import DENIED, DRIFTED, HEAD, NAME, NS, PREFIX, RUNTIME, A, B, Person, pinned
from tests.support.scenario import ScenarioCluster


@pytest.fixture(scope="module")
def person(opener: Callable[..., ScenarioCluster]) -> Person:
    cluster = opener(nodes=1, flags=("--runtime-revision-retention=10", "--runtime-revision-grace-period=6s"))
    someone = Person(cluster, pinning.RawWorkload())
    someone.stage()
    return someone


@pytest.mark.spec("RR-2", "RR-3", "RR-4", "RR-31", "RR-34", "IS-39", "SR-1", "SR-22")
def test_1_pin(person: Person) -> None:
    pinning.walk_pin(person)


@pytest.mark.spec("RR-6", "RR-7", "RR-8", "RR-34", "RR-36", "IS-38")
def test_2_the_runtime_changes(person: Person) -> None:
    pinning.walk_drift(person)


@pytest.mark.spec("RR-9", "RR-10", "RR-11", "RR-34", "RR-35", "RR-40", "IS-36")
def test_3_roll_forward(person: Person) -> None:
    pinning.walk_forward(person)


@pytest.mark.spec("CR-1")
def test_4_runtime_sync(person: Person) -> None:
    pinning.walk_sync(person)


@pytest.mark.spec("RR-14", "RR-15", "RR-16", "RR-17", "RR-23", "RR-34", "RR-38", "RR-41")
def test_5_roll_back(person: Person) -> None:
    pinning.walk_back(person)


@pytest.mark.spec("RR-24", "RR-45")
def test_7_stop_pinning(person: Person) -> None:
    c = person.c
    person.revision(A).ok()
    person.shows(pinned(A))
    person.shows_fraction("0.9")
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)
    person.patch({"runtime": {"autoSync": True}}).ok()
    person.shows_fraction("0.8")
    assert person.pin() == DRIFTED
    person.fraction("0.85")
    person.shows_fraction("0.85")
    person.patch({"runtime": {"autoSync": False}}).ok()
    c.stays(lambda: (person.pin(), "--mem-frac=0.85" in person.arguments()), (DRIFTED, True), seconds=2)
    person.annotate("live-again")
    person.shows(pinned(B))
    person.patch({"runtime": {"revision": A}}).ok()
    person.shows_fraction("0.9")
    person.patch({"runtime": {"revision": None, "autoSync": True}}).ok()
    person.shows_fraction("0.85")
    assert person.pin() == pinned(A)
    person.patch({"runtime": {"autoSync": False}}).ok()
    person.annotate("live-once-more")
    person.shows(pinned(B))


@pytest.mark.spec("RR-18", "RR-19", "RR-20", "RR-25", "RR-37", "RR-42", "RR-47")
def test_8_every_reason(person: Person) -> None:
    c = person.c
    person.revision(A).ok()
    person.shows(pinned(A))
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)
    kept = c.get(f"controllerrevision {A} -n ome")
    c.kubectl(f"delete controllerrevision {A} -n ome").ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RevisionMissing\n")
    assert person.message() == f"pinned revision {A} missing from ome"
    person.annotate("does-not-help")
    c.stays(person.pin, f"{HEAD}{NAME}   {A}   True      RevisionMissing\n", seconds=2)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        kept["metadata"].pop(key, None)
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    c.kubectl("create -f -", stdin=json.dumps(kept)).ok()
    person.shows(DRIFTED)

    foreign = PREFIX + "0badc0de"
    c.kubectl(
        "create -f -",
        stdin=json.dumps(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": foreign, "namespace": "ome", "labels": {"ome.io/runtime-of": "other"}},
                "revision": 1,
                "data": {},
            }
        ),
    ).ok()
    person.patch({"runtime": {"revision": foreign}}).ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RuntimeMismatch\n")
    assert person.message() == f'revision {foreign} belongs to runtime "other" but ISVC references "{RUNTIME}"'
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)

    c.kubectl(f"delete servingruntime {RUNTIME} -n {NS}").ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      SourceRuntimeMissing\n")
    assert person.message() == f"runtime {RUNTIME} not found; serving from pinned revision {A}"
    c.kubectl(f"delete deployment {NAME}-engine -n {NS}").ok()
    person.shows_fraction("0.9")
    text = f"runtime {RUNTIME} does not support model {NAME}: ServingRuntime {RUNTIME} not found in namespace {NS}"
    for command in (f"label inferenceservice {NAME} -n {NS} x=y", f"annotate inferenceservice {NAME} -n {NS} x=y"):
        refused = c.kubectl(command)
        assert (refused.code, refused.err) == (1, f"{DENIED}{text}\n")
    path = c.folder / "runtime.yaml"
    enabled = path.read_text()
    path.write_text(enabled.replace("spec:\n", "spec:\n  disabled: true\n", 1))
    c.kubectl("apply -f runtime.yaml").ok()
    person.shows(DRIFTED)
    text = f"runtime {RUNTIME} does not support model {NAME}: namespace-scoped runtime {RUNTIME} is disabled"
    refused = c.kubectl(f"label inferenceservice {NAME} -n {NS} x=y")
    assert (refused.code, refused.err) == (1, f"{DENIED}{text}\n")
    path.write_text(enabled)
    c.kubectl("apply -f runtime.yaml").ok()
    person.fraction("0.9")
    person.shows(pinned(A))


@pytest.mark.spec("RR-21")
def test_8_runtime_pin_error(person: Person) -> None:
    c = person.c
    c.apply(
        {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "late", "namespace": NS},
            "spec": {
                "runtime": {"name": "not-there-yet", "kind": "ServingRuntime", "autoSync": False},
                "engine": {"minReplicas": 1, "maxReplicas": 1},
            },
        }
    )
    command = f"get events -n {NS} --field-selector involvedObject.name=late,reason=RuntimePinError -o"
    wanted = (
        "TYPE      MESSAGE\nWarning   resolve live runtime not-there-yet: "
        f"ServingRuntime not-there-yet not found in namespace {NS}\n"
    )
    columns = "custom-columns=TYPE:.type,MESSAGE:.message"
    c.eventually(lambda: c.kubectl(command, columns).ok().out, wanted)
    assert c.kubectl(f"get deployment late-engine -n {NS}").code == 1
    text = (c.folder / "runtime.yaml").read_text()
    c.kubectl("apply -f -", stdin=text.replace(f"name: {RUNTIME}", "name: not-there-yet")).ok()
    c.until(lambda: "not-there-yet" in person.pin("late"))
    c.kubectl(f"delete inferenceservice late -n {NS}").ok()
    c.kubectl(f"delete servingruntime not-there-yet -n {NS}").ok()


@pytest.mark.spec("RR-43")
def test_8_readiness_stays_honest_while_drifted(person: Person) -> None:
    c = person.c
    person.revision(None).ok()
    person.shows(pinned(A))
    person.fraction("0.85")
    person.shows(DRIFTED)
    wait = f"wait --for=condition=Ready={{}} inferenceservice/{NAME} -n {NS} --timeout=120s"
    c.kubectl(wait.format("True")).ok()
    c.local("image deny", "*sglang*", *(["--kubeconfig", str(c.kubeconfig)] if c.real else [])).ok()
    selector = f"ome.io/inferenceservice={NAME}"
    c.kubectl(f"delete pod -n {NS} -l {selector} --wait=false").ok()
    c.kubectl(wait.format("False")).ok()
    assert person.pin() == DRIFTED
    c.local("image allow", "*sglang*", *(["--kubeconfig", str(c.kubeconfig)] if c.real else [])).ok()
    c.kubectl(wait.format("True")).ok()
    assert person.pin() == DRIFTED


@pytest.mark.spec("RR-26", "RR-27", "RR-29", "MA-7")
def test_9_garbage_collection(person: Person) -> None:
    c = person.c
    person.fraction("0.9")
    person.shows(pinned(A))
    c.kubectl("delete controllerrevision -n ome --all").ok()
    person.revision(None).ok()
    c.kubectl(f"delete inferenceservice {NAME} -n {NS}").ok()
    c.kubectl("apply -f isvc.yaml").ok()
    person.shows(pinned(A))
    c.kubectl(
        "create -f -",
        stdin=json.dumps(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": "foreign", "namespace": "ome", "labels": {"ome.io/runtime-of": RUNTIME}},
                "revision": 1,
                "data": {},
            }
        ),
    ).ok()
    for number in range(12):
        person.fraction(f"0.{10 + number}")
        person.annotate(f"step-{number}")
        c.until(lambda n=number: person.token() == f"step-{n}")
        time.sleep(1.05)  # creation times have whole seconds, and the order is by them
    assert len(person.revisions()) >= 11
    marks = r"custom-columns=NAME:.metadata.name,MARKED:.metadata.annotations.ome\.io/gc-eligible-since"
    command = f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} --sort-by=.metadata.creationTimestamp -o"

    def marked() -> list[list[str]]:
        """Name and mark of each, once all but the newest ten are marked: the collector comes after the pin."""
        lines = c.kubectl(command, marks).ok().out.splitlines()[1:]
        found = [line.split() for line in lines if "foreign" not in line]
        return found if all(row[1].endswith("Z") for row in found[:-10]) else []

    rows = c.until(marked, what="marks on the oldest")
    assert [row[1] for row in rows[-10:]] == ["<none>"] * 10
    c.until(lambda: len(person.revisions()) == 11, what="three revisions to be collected")
    left = person.revisions()
    assert "foreign" in left
    assert {row[0] for row in rows[-10:]} <= set(left)
    name = next(found for found in left if found != "foreign")
    for patch, text in (
        ('{"revision":2}', ".revision is immutable"),
        ('{"metadata":{"labels":{"x":"y"}}}', ".labels are immutable"),
    ):
        refused = c.kubectl(f"patch controllerrevision {name} -n ome --type=merge -p", patch)
        assert f"ControllerRevision ome/{name} is owned by OME; {text}" in refused.err
    # The API server's own rule on data stands before the webhook's.
    data = c.kubectl(f"patch controllerrevision {name} -n ome --type=merge -p", '{"data":{"x":1}}')
    assert data.code == 1
    assert "immutable" in data.err
    c.kubectl(f"annotate controllerrevision {name} -n ome x=y").ok()
