"""The room's controllers and its revision store against an API server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ome.api.core import ControllerRevision
from ome.api.meta import timestamp
from ome.api.types.inference_service import InferenceService
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime
from ome.kube import requests
from ome.kube.cache import Caches
from ome.kube.errors import Conflict
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    CLUSTER_SERVING_RUNTIMES,
    CONTROLLER_REVISIONS,
    EVENTS,
    INFERENCE_SERVICES,
    NODES,
    SERVING_RUNTIMES,
)
from ome.runtimes.lookup import NamedRuntimes
from ome.runtimes.pinning import Ensured, EnsureFailed, Freeze, PinInput, PinIntent, PinState, Render, resolve_live
from ome.runtimes.reading import CachedRuntimes
from ome.runtimes.revision_collector import WORLD, RevisionCollector
from ome.runtimes.revision_store import BY_RUNTIME_AND_HASH, RevisionStore, index_revision
from ome.runtimes.revisions import draft_revision
from tests.support.world import World, in_world
from tests.unit.runtimes.builders import NAME, NAMESPACE, REVISION_90, canonical, example

pytestmark = pytest.mark.embedded_only("counts events and revisions of an empty cluster; the scenarios run on both")

Json = dict[str, Any]
ROOM = ("ome.runtimes",)


def runtime(name: str, spec: Json | None = None, *, namespace: str = "", parent: str = "") -> Json:
    annotations = {"ome.io/inherit-from": parent} if parent else {}
    meta: Json = {"name": name, "annotations": annotations}
    if namespace:
        meta["namespace"] = namespace
    kind = "ServingRuntime" if namespace else "ClusterServingRuntime"
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": meta, "spec": spec or example()}


async def status_of(world: World, name: str, namespace: str = "") -> Json:
    resource = SERVING_RUNTIMES if namespace else CLUSTER_SERVING_RUNTIMES
    found = await world.get(resource, name, namespace)
    return {"chain": [], "conditions": [], **(found.get("status") or {})}


def ready(status: Json) -> tuple[str, str]:
    (condition,) = status["conditions"]
    assert condition["type"] == "InheritanceReady"
    return condition["status"], condition["reason"]


@pytest.mark.spec("SR-8")
@in_world(rooms=ROOM)
async def test_a_chain_that_breaks_keeps_its_names_and_heals(world: World) -> None:
    await world.make_namespace("prod")
    await world.create(runtime("root"), runtime("mid", parent="root"), runtime("leaf", namespace="prod", parent="mid"))
    await world.settle()
    status = await status_of(world, "leaf", "prod")
    assert status["inheritanceChain"] == ["root", "mid", "leaf"]
    assert ready(status) == ("True", "Resolved")
    assert (await status_of(world, "root"))["inheritanceChain"] == ["root"]

    await world.client.delete(CLUSTER_SERVING_RUNTIMES, "root")
    await world.settle()
    for name, namespace in (("mid", ""), ("leaf", "prod")):
        broken = await status_of(world, name, namespace)
        assert ready(broken) == ("False", "ParentNotFound")
        assert broken["inheritanceChain"][0] == "root"
    (condition,) = (await status_of(world, "leaf", "prod"))["conditions"]
    assert condition["message"] == 'inherit-from parent "root" not found (chain so far: [leaf mid])'
    events = await world.list(EVENTS, "prod")
    assert [(event["type"], event["reason"], event["count"]) for event in events] == [("Warning", "ParentNotFound", 1)]

    await world.create(runtime("root"))
    await world.settle()
    assert ready(await status_of(world, "leaf", "prod")) == ("True", "Resolved")
    assert ready(await status_of(world, "mid")) == ("True", "Resolved")


@in_world(rooms=ROOM)
async def test_cycles_and_long_chains_are_named_and_a_settled_chain_costs_nothing(world: World) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    for name, parent in zip(names, [*names[1:], ""], strict=True):
        await world.create(runtime(name, parent=parent))
    await world.create(runtime("x", parent="y"), runtime("y", parent="x"))
    await world.settle()
    assert ready(await status_of(world, "a")) == ("False", "MaxDepthExceeded")
    assert ready(await status_of(world, "b")) == ("True", "Resolved")
    assert ready(await status_of(world, "x")) == ("False", "InheritanceCycle")
    world.requests.clear()
    await world.merge(CLUSTER_SERVING_RUNTIMES, "b", "", {"spec": {"disabled": True}})
    await world.settle()
    assert [request for request in world.requests if request.method != "GET"] == []


def accelerator_class(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "AcceleratorClass",
        "metadata": {"name": name},
        "spec": {"discovery": {}, "capabilities": {}, **spec},
    }


def node(name: str, gpus: str = "8", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": gpus, "cpu": "8"}},
    }


@pytest.mark.spec("SR-14")
@in_world(rooms=ROOM, workloads=False)
async def test_a_class_knows_its_nodes_and_changes_only_with_them(world: World) -> None:
    h100 = accelerator_class(
        "h100", discovery={"nodeSelector": {"gpu": "h100"}}, resources=[{"name": "nvidia.com/gpu"}]
    )
    await world.create(h100)
    await world.settle()
    stored = await world.get(ACCELERATOR_CLASSES, "h100")
    assert stored["metadata"]["finalizers"] == ["acceleratorclasses.ome.io/finalizer"]
    assert "availableNodes" not in (stored.get("status") or {})

    await world.create(
        node("n2", gpu="h100"), node("n1", gpu="h100"), node("other", gpu="a100"), node("none", "0", gpu="h100")
    )
    await world.settle()
    status = (await world.get(ACCELERATOR_CLASSES, "h100"))["status"]
    assert (status["nodes"], status["availableNodes"]) == (["n1", "n2"], 2)

    await world.sleep(60)
    await world.merge(NODES, "n1", "", {"metadata": {"labels": {"unrelated": "1"}}})
    await world.settle()
    assert (await world.get(ACCELERATOR_CLASSES, "h100"))["status"] == status

    await world.client.delete(NODES, "n1")
    await world.settle()
    later = (await world.get(ACCELERATOR_CLASSES, "h100"))["status"]
    assert later["nodes"] == ["n2"]
    assert later["lastUpdated"] > status["lastUpdated"]

    await world.client.delete(NODES, "n2")
    await world.settle()
    empty = (await world.get(ACCELERATOR_CLASSES, "h100"))["status"]
    assert "availableNodes" not in empty
    assert not empty.get("nodes")

    await world.client.delete(ACCELERATOR_CLASSES, "h100")
    await world.settle()
    assert await world.find(ACCELERATOR_CLASSES, "h100") is None


def revision(number: int, **annotations: str) -> Json:
    made = draft_revision("ServingRuntime", NAME, NAMESPACE, example(f"0.{number}")).to_object("ome")
    made["metadata"]["annotations"].update(annotations)
    return made


async def held(world: World) -> dict[str, Json]:
    return {item["metadata"]["name"]: item["metadata"] for item in await world.list(CONTROLLER_REVISIONS, "ome")}


async def store_in_order(world: World, *revisions: Json) -> None:
    for made in revisions:
        await world.create(made)
        await world.sleep(1)


def service(name: str, revision_name: str) -> Json:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {
            "engine": {},
            "runtime": {"name": NAME, "kind": "ServingRuntime", "autoSync": False, "revision": revision_name},
        },
    }


MARK = "ome.io/gc-eligible-since"


@pytest.mark.spec("RR-26", "RR-27", "RR-28")
@in_world(rooms=ROOM, workloads=False, flags={"runtime_revision_retention": 2})
async def test_revisions_are_marked_kept_and_deleted(world: World) -> None:
    await world.make_namespace("prod")
    revisions = [revision(number) for number in range(1, 6)]
    names = [made["metadata"]["name"] for made in revisions]
    foreign = revision(9)
    foreign["metadata"].update(name="foreign", annotations={})
    await world.create(service("pinned", names[0]))
    await store_in_order(world, foreign, *revisions)
    await world.settle()
    marked = {name for name, meta in (await held(world)).items() if MARK in meta.get("annotations", {})}
    assert marked == {names[1], names[2]}

    # Referenced again: unmarked, and its clock starts anew when it is dropped later.
    await world.create(service("again", names[1]))
    await world.settle()
    assert MARK not in (await held(world))[names[1]]["annotations"]

    await world.sleep(24 * 3600 - 600)
    await world.client.delete(INFERENCE_SERVICES, "again", "prod")
    await world.settle()
    assert MARK in (await held(world))[names[1]]["annotations"]
    await world.sleep(900)
    assert set(await held(world)) == {"foreign", names[0], names[1], names[3], names[4]}
    await world.sleep(24 * 3600)
    assert set(await held(world)) == {"foreign", names[0], names[3], names[4]}
    assert MARK not in (await held(world))["foreign"].get("annotations", {})


@pytest.mark.spec("RR-26")
@in_world(rooms=ROOM, workloads=False, flags={"runtime_revision_retention": 0})
async def test_a_revision_that_a_status_alone_names_is_kept_even_of_a_live_service(world: World) -> None:
    await world.make_namespace("prod")
    kept, other = revision(1), revision(2)
    live = service("live", "")
    live["spec"]["runtime"] = {"name": NAME, "kind": "ServingRuntime", "autoSync": True}
    await world.create(live)
    status = {"status": {"pinnedRevisionName": kept["metadata"]["name"]}}
    await world.merge(INFERENCE_SERVICES, "live", "prod", status, "status")
    await store_in_order(world, kept, other)
    await world.settle()
    marked = {name for name, meta in (await held(world)).items() if MARK in meta.get("annotations", {})}
    assert marked == {other["metadata"]["name"]}


@pytest.mark.spec("RR-28")
@in_world(rooms=ROOM, workloads=False, flags={"runtime_revision_retention": 0})
async def test_an_old_mark_deletes_at_once_and_a_broken_one_is_set_anew(world: World) -> None:
    old = timestamp(world.clock.now() - timedelta(days=2))
    await world.create(revision(1, **{MARK: old}), revision(2, **{MARK: "never"}))
    await world.settle()
    (left,) = (await held(world)).values()
    assert left["annotations"][MARK] == timestamp(world.clock.now())[:16] + left["annotations"][MARK][16:]


@pytest.mark.spec("RR-26")
@in_world(workloads=False)
async def test_a_revision_is_not_deleted_while_a_service_that_no_cache_shows_yet_names_it(world: World) -> None:
    await world.make_namespace("prod")
    old = timestamp(world.clock.now() - timedelta(days=2))
    named, other = revision(1, **{MARK: old}), revision(2, **{MARK: old})
    await world.create(named, other)
    environment = world.environment()
    revisions = environment.caches.of(CONTROLLER_REVISIONS, ControllerRevision, namespace="ome")
    world.start(environment.caches.run())
    await environment.caches.wait_synced()
    await world.create(service("late", named["metadata"]["name"]))
    blind = Caches(environment.client, world.clock).of(INFERENCE_SERVICES, InferenceService)
    collector = RevisionCollector(environment.client, world.clock, blind, revisions, "ome", 0, timedelta(days=1))
    await collector.reconcile(WORLD)
    assert set(await held(world)) == {named["metadata"]["name"]}


class Pins:
    """A store and a reader over the world's caches, as the services room has them."""

    def __init__(self, world: World) -> None:
        environment = world.environment()
        caches = environment.caches
        self.revisions = caches.of(
            CONTROLLER_REVISIONS, ControllerRevision, namespace="ome", indexes={BY_RUNTIME_AND_HASH: index_revision}
        )
        namespaced = caches.of(SERVING_RUNTIMES, ServingRuntime)
        cluster = caches.of(CLUSTER_SERVING_RUNTIMES, ClusterServingRuntime)
        self.runtimes = NamedRuntimes(CachedRuntimes(namespaced, cluster))
        self.store = RevisionStore(environment.client, self.revisions, "ome")
        self.caches = caches
        world.start(caches.run())

    async def decide(self, state: PinState, **changes: str) -> Any:
        intent = PinIntent(**{"runtime": NAME, "kind": "ServingRuntime", "namespace": NAMESPACE, **changes})
        live = resolve_live(intent, self.runtimes)
        return await self.store.resolve_pin(PinInput(intent=intent, state=state, live=live, ome_namespace="ome"))


async def pins(world: World, spec: Json | None = None) -> Pins:
    await world.make_namespace(NAMESPACE)
    await world.create(runtime(NAME, spec, namespace=NAMESPACE))
    made = Pins(world)
    await made.caches.wait_synced()
    return made


@pytest.mark.spec("RR-2", "RR-4")
@in_world(workloads=False)
async def test_a_first_pin_stores_one_revision_and_equal_content_shares_it(world: World) -> None:
    room = await pins(world)
    first = await room.decide(PinState(), token="t")
    assert isinstance(first, Render)
    assert first.state == PinState(REVISION_90, "t")
    again = await room.decide(PinState())
    assert isinstance(again, Render)
    assert again.state.revision == REVISION_90
    (stored,) = await world.list(CONTROLLER_REVISIONS, "ome")
    assert stored["metadata"]["labels"] == {
        "ome.io/runtime-of": NAME,
        "ome.io/runtime-of-kind": "ServingRuntime",
        "ome.io/runtime-of-namespace": NAMESPACE,
        "ome.io/revision-hash": "590753e8",
    }
    assert stored["metadata"]["annotations"] == {"ome.io/created-by": "ome-controller"}
    assert stored["revision"] == 1
    response = await world.client.request(requests.get(CONTROLLER_REVISIONS, REVISION_90, "ome"))
    assert f'"data":{canonical(example())}'.encode() in response.body

    world.requests.clear()
    settled = await room.decide(first.state)
    assert isinstance(settled, Render)
    assert settled.spec == first.spec
    assert world.requests == []


@pytest.mark.spec("RR-39")
@in_world(workloads=False)
async def test_edits_store_nothing_and_each_advance_stores_one(world: World) -> None:
    room = await pins(world)
    state = (await room.decide(PinState())).state
    for fraction in ("0.85", "0.8", "0.7"):
        await world.apply(runtime(NAME, example(fraction), namespace=NAMESPACE))
        await world.sleep(1)
        assert isinstance(await room.decide(state), Freeze)
    assert len(await held(world)) == 1
    for token, fraction, count in (("a", "0.7", 2), ("b", "0.85", 3), ("c", "0.9", 3)):
        await world.apply(runtime(NAME, example(fraction), namespace=NAMESPACE))
        await world.sleep(1)
        advanced = await room.decide(state, token=token)
        assert isinstance(advanced, Render)
        state = advanced.state
        assert len(await held(world)) == count
    assert state.revision == REVISION_90


@pytest.mark.spec("RR-26")
@in_world(workloads=False)
async def test_what_is_about_to_be_pinned_loses_its_mark_before(world: World) -> None:
    """The collector deletes what it saw marked, and that version only: it cannot take a revision from under a pin."""
    draft = draft_revision("ServingRuntime", NAME, NAMESPACE, example())
    marked = draft.to_object("ome")
    marked["metadata"]["annotations"][MARK] = timestamp(world.clock.now() - timedelta(days=2))
    await world.create(marked)
    seen = (await held(world))[REVISION_90]["resourceVersion"]
    room = await pins(world)
    assert await room.store.ensure(draft) == Ensured(REVISION_90)
    assert MARK not in (await held(world))[REVISION_90]["annotations"]
    with pytest.raises(Conflict):
        await world.client.delete(CONTROLLER_REVISIONS, REVISION_90, "ome", resource_version=seen)


@in_world(workloads=False)
async def test_a_name_taken_by_other_content_is_refused(world: World) -> None:
    room = await pins(world)
    other = draft_revision("ServingRuntime", NAME, NAMESPACE, example("0.1")).to_object("ome")
    other["metadata"]["name"] = REVISION_90
    await world.create(other)
    refused = await room.store.ensure(draft_revision("ServingRuntime", NAME, NAMESPACE, example()))
    assert refused == EnsureFailed(
        f"create revision {REVISION_90}: a ControllerRevision of this name in ome holds another spec"
    )


@pytest.mark.spec("RR-4")
@in_world(workloads=False)
async def test_a_revision_that_no_cache_shows_yet_is_found_by_its_two_labels(world: World) -> None:
    foreign = draft_revision("ClusterServingRuntime", NAME, NAMESPACE, example())
    await world.create(foreign.to_object("ome"))
    environment = world.environment()
    blind = environment.caches.of(
        CONTROLLER_REVISIONS, ControllerRevision, namespace="ome", indexes={BY_RUNTIME_AND_HASH: index_revision}
    )
    store = RevisionStore(environment.client, blind, "ome")
    assert await store.ensure(draft_revision("ServingRuntime", NAME, NAMESPACE, example())) == Ensured(foreign.name)
    found = await store.get(foreign.name)
    assert found is not None
    assert found.full_hash == foreign.full_hash


@in_world(workloads=False)
async def test_two_managers_that_store_at_once_agree(world: World) -> None:
    draft = draft_revision("ServingRuntime", NAME, NAMESPACE, example())
    one, two = await pins(world), Pins(world)
    await two.caches.wait_synced()
    assert [await one.store.ensure(draft), await two.store.ensure(draft)] == [Ensured(REVISION_90)] * 2


@in_world(workloads=False)
async def test_a_name_too_long_for_a_label_is_the_api_servers_refusal(world: World) -> None:
    room = await pins(world)
    refused = await room.store.ensure(draft_revision("", "r" * 64, NAMESPACE, example()))
    assert isinstance(refused, EnsureFailed)
    assert refused.text.startswith("list ControllerRevisions in ome: ") or refused.text.startswith(
        f"create revision cr-{'r' * 64}-590753e8: "
    )


@in_world(workloads=False)
async def test_a_revision_that_is_gone_is_only_believed_by_a_live_read(world: World) -> None:
    room = await pins(world)
    state = (await room.decide(PinState())).state
    await world.client.delete(CONTROLLER_REVISIONS, REVISION_90, "ome")
    await world.sleep(1)
    frozen = await room.decide(state)
    assert isinstance(frozen, Freeze)
    assert frozen.state.drift is not None
    assert frozen.state.drift.message == f"pinned revision {REVISION_90} missing from ome"
