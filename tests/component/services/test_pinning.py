"""A pinned service over changes of its runtime (spec/runtime-revisions.md sections 5 to 7 and 10)."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    HPAS,
    INFERENCE_SERVICES,
    NAMESPACES,
    PDBS,
    PODS,
    SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from ome.local.apiserver.faults import Fault, FaultKind
from ome.local.apiserver.http import HttpRequest
from ome.runtimes.revisions import draft_revision

from .objects import model_and_runtime, pinned, runtime, service, serving
from .stage import OME, Stage, run, set_pod

A = "r-prod-sglang-590753e8"
B = "r-prod-sglang-af9539ac"
C = "r-prod-sglang-40a0481c"
BUMP = "live spec differs; bump ome.io/runtime-sync annotation to advance"


async def pin(stage: Stage, name: str = "chat") -> tuple[str | None, str | None]:
    """What the custom columns print: the pinned revision and the reason of the drift."""
    drifted = await stage.condition("RuntimeDrifted", name)
    assert drifted is None or drifted["status"] == "True"
    return (await stage.status(name)).get("pinnedRevisionName"), drifted["reason"] if drifted else None


async def token(stage: Stage, value: str | None) -> None:
    await stage.client.patch(
        INFERENCE_SERVICES, "chat", "prod", {"metadata": {"annotations": {"ome.io/runtime-sync": value}}}
    )
    await stage.settle()


async def reference(stage: Stage, name: str = "chat", **changes: Any) -> None:
    await stage.client.patch(INFERENCE_SERVICES, name, "prod", {"spec": {"runtime": changes}})
    await stage.settle()


async def fraction(stage: Stage, value: str, **changes: Any) -> None:
    await stage.apply(SERVING_RUNTIMES, runtime(value, **changes))
    await stage.settle()


async def children(stage: Stage) -> list[Any]:
    """Everything the service owns but its pods, with what Kubernetes' own controllers write taken out."""
    found = []
    for resource in (DEPLOYMENTS, SERVICES, HPAS, PDBS):
        for item in (await stage.client.list(resource, "prod")).items:
            meta = {key: item["metadata"].get(key) for key in ("name", "labels", "annotations", "generation")}
            found.append((resource.kind, meta, item.get("spec")))
    return found


@pytest.mark.spec("RR-2", "RR-3")
def test_a_first_pin_stores_the_runtime_and_renders_from_it() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        assert await pin(stage) == (A, None)
        assert (await stage.args())[3] == "--served-model-name=chat"
        assert (await stage.args())[-1] == "--mem-frac=0.9"
        assert await stage.revisions() == [A]
        revision = await stage.get(CONTROLLER_REVISIONS, A, OME)
        assert revision["revision"] == 1
        assert revision["metadata"]["annotations"]["ome.io/created-by"] == "ome-controller"
        assert revision["metadata"]["labels"] == {
            "ome.io/runtime-of": "sglang",
            "ome.io/runtime-of-kind": "ServingRuntime",
            "ome.io/runtime-of-namespace": "prod",
            "ome.io/revision-hash": "590753e8",
        }
        assert "lastRuntimeSyncToken" not in await stage.status()
        assert await stage.events("RuntimePinError") == []

    run(scenario)


@pytest.mark.spec("RR-3")
def test_the_default_kind_names_its_revision_otherwise() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned(reference={"kind": "ClusterServingRuntime"}))
        assert await pin(stage) == ("cr-sglang-590753e8", None)

    run(scenario)


@pytest.mark.spec("RR-4")
def test_two_services_share_a_revision() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await stage.apply(INFERENCE_SERVICES, pinned(name="two"))
        await stage.ready("two")
        assert await pin(stage, "two") == (A, None)
        assert await stage.revisions() == [A]

    run(scenario)


@pytest.mark.spec("RR-6", "RR-7", "RR-8", "RR-36")
def test_drift_freezes_and_undoing_the_change_applies_what_was_edited_meanwhile() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        before, ready = await children(stage), await stage.condition("Ready")
        await fraction(stage, "0.85")
        assert await pin(stage) == (A, "RevisionMismatch")
        drifted = await stage.condition("RuntimeDrifted")
        assert drifted is not None
        assert drifted["message"] == f"pinned {A}, {BUMP}"
        edit = {"spec": {"engine": {"minReplicas": 2, "maxReplicas": 2}}}
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", edit)
        await stage.settle()
        assert await children(stage) == before
        assert await stage.condition("Ready") == ready
        assert await stage.condition("RuntimeDrifted") == drifted
        obj = await stage.service()
        assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
        await fraction(stage, "0.9")
        assert await pin(stage) == (A, None)
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["minReplicas"] == 2
        assert await stage.events("RuntimePinError") == []

    run(scenario)


@pytest.mark.spec("RR-7", "RR-36")
@pytest.mark.parametrize("way", ["roll forward", "revision", "undo"])
def test_every_way_out_of_drift_applies_what_was_edited_meanwhile(way: str) -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        edit = {"spec": {"engine": {"minReplicas": 2, "maxReplicas": 2}}}
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", edit)
        await stage.settle()
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["minReplicas"] == 1
        if way == "roll forward":
            await token(stage, "t1")
        elif way == "revision":
            await reference(stage, revision=A)
        else:
            await fraction(stage, "0.9")
        assert await pin(stage) == (B if way == "roll forward" else A, None)
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["minReplicas"] == 2
        assert (await stage.args())[-1] == f"--mem-frac={'0.85' if way == 'roll forward' else '0.9'}"

    run(scenario)


@pytest.mark.spec("RR-9", "RR-10", "RR-35", "RR-39")
def test_a_new_token_rolls_forward_once() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        assert await stage.revisions() == [A]
        stage.calls.clear()
        await token(stage, "t1")
        assert await pin(stage) == (B, None)
        # The pin is on record before the first child changes.
        kinds = [path.split("/")[-1] if path.endswith("status") else path.split("/")[-2] for _, path in stage.calls]
        assert kinds.index("status") < kinds.index("deployments")
        assert (await stage.status())["lastRuntimeSyncToken"] == "t1"
        assert (await stage.args())[-1] == "--mem-frac=0.85"
        assert (await stage.condition("Ready") or {})["status"] == "True"
        assert "runtime-sync" not in str(await children(stage))
        assert "runtime-sync" not in str((await stage.client.list(PODS, "prod")).items)
        await fraction(stage, "0.8")
        await token(stage, "t1")
        assert await pin(stage) == (B, "RevisionMismatch")
        assert sorted(await stage.revisions()) == [A, B]

    run(scenario)


@pytest.mark.spec("RR-11", "RR-35")
def test_a_token_set_before_the_edit_waits_and_no_drift_is_ever_seen() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        before = await children(stage)
        for value in ("earlier", "early"):
            await token(stage, value)
            assert await children(stage) == before
        assert "lastRuntimeSyncToken" not in await stage.status()
        seen: list[bool] = []

        async def watch() -> None:
            listing = await stage.client.list(INFERENCE_SERVICES, "prod")
            stream = stage.client.watch(INFERENCE_SERVICES, "prod", resource_version=listing.resource_version)
            async for event in stream:
                seen.append(b"RuntimeDrifted" in bytes(event.object))  # noqa: PERF401 -- cancelled half-way

        watcher = stage.spawn(watch())
        await fraction(stage, "0.8")
        watcher.cancel()
        assert await pin(stage) == (C, None)
        assert (await stage.status())["lastRuntimeSyncToken"] == "early"
        assert seen
        assert not any(seen)

    run(scenario)


@pytest.mark.spec("RR-12")
def test_a_token_present_at_the_first_pin_is_spent() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned(annotations={"ome.io/runtime-sync": "old"}))
        assert (await stage.status())["lastRuntimeSyncToken"] == "old"
        await fraction(stage, "0.85")
        assert await pin(stage) == (A, "RevisionMismatch")

    run(scenario)


@pytest.mark.spec("RR-8", "RR-13")
def test_undoing_the_edit_records_no_waiting_token() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        ready = await stage.condition("Ready")
        await fraction(stage, "0.85", disabled=True)
        await token(stage, "waiting")
        assert await pin(stage) == (A, "RevisionMismatch")
        await fraction(stage, "0.9")
        assert await pin(stage) == (A, None)
        assert await stage.condition("Ready") == ready
        assert "lastRuntimeSyncToken" not in await stage.status()

    run(scenario)


@pytest.mark.spec("RR-14", "RR-15", "RR-16")
def test_an_explicit_revision_rolls_back_and_stays() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await token(stage, "t1")
        await reference(stage, revision=A)
        assert await pin(stage) == (A, None)
        assert (await stage.args())[-1] == "--mem-frac=0.9"
        before = await children(stage)
        await fraction(stage, "0.8")
        await token(stage, "ignored")
        assert await pin(stage) == (A, None)
        assert (await stage.status())["lastRuntimeSyncToken"] == "t1"
        assert await children(stage) == before
        await token(stage, "t1")
        await reference(stage, revision=None)
        assert await pin(stage) == (A, "RevisionMismatch")
        assert await children(stage) == before

    run(scenario)


@pytest.mark.spec("RR-16")
def test_removing_the_revision_with_an_unused_token_advances_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await reference(stage, revision=A)
        await fraction(stage, "0.8")
        await token(stage, "unused")
        await reference(stage, revision=None)
        assert await pin(stage) == (C, None)
        assert (await stage.status())["lastRuntimeSyncToken"] == "unused"

    run(scenario)


@pytest.mark.spec("RR-17", "RR-37", "RR-47")
def test_a_revision_that_does_not_exist_freezes_until_it_does() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await token(stage, "t1")
        before = await children(stage)
        stored = await stage.get(CONTROLLER_REVISIONS, A, OME)
        await stage.client.delete(CONTROLLER_REVISIONS, A, OME)
        await reference(stage, revision=A)
        assert await pin(stage) == (B, "RevisionMissing")
        drifted = await stage.condition("RuntimeDrifted")
        assert drifted is not None
        assert drifted["message"] == f"explicit pin {A} not found in namespace ome"
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", {"spec": {"engine": {"maxReplicas": 5}}})
        await stage.settle()
        assert await children(stage) == before
        meta = {key: stored["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        await stage.create(CONTROLLER_REVISIONS, {"metadata": meta, "data": stored["data"], "revision": 1})
        await stage.settle()
        assert await pin(stage) == (A, None)
        assert (await stage.args())[-1] == "--mem-frac=0.9"

    run(scenario)


@pytest.mark.spec("RR-18")
def test_a_deleted_pin_is_missed_and_a_token_does_not_help() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await token(stage, "t1")
        await stage.client.delete(CONTROLLER_REVISIONS, B, OME)
        await stage.settle()
        drifted = await stage.condition("RuntimeDrifted")
        assert drifted is not None
        assert (drifted["reason"], drifted["message"]) == ("RevisionMissing", f"pinned revision {B} missing from ome")
        await token(stage, "t2")
        assert await pin(stage) == (B, "RevisionMissing")
        await reference(stage, revision=A)
        assert await pin(stage) == (A, None)

    run(scenario)


@pytest.mark.spec("RR-19", "RR-37")
def test_another_runtimes_revision_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        before = await children(stage)
        name = "r-prod-sglang-0badc0de"
        meta = {"name": name, "namespace": OME, "labels": {"ome.io/runtime-of": "other"}}
        await stage.create(CONTROLLER_REVISIONS, {"metadata": meta, "data": {}, "revision": 1})
        await reference(stage, revision=name)
        drifted = await stage.condition("RuntimeDrifted")
        assert drifted is not None
        assert drifted["reason"] == "RuntimeMismatch"
        assert drifted["message"] == f'revision {name} belongs to runtime "other" but ISVC references "sglang"'
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", {"spec": {"engine": {"maxReplicas": 5}}})
        await stage.settle()
        assert await children(stage) == before
        assert await pin(stage) == (A, "RuntimeMismatch")

    run(scenario)


@pytest.mark.spec("RR-20", "RR-37")
def test_a_deleted_runtime_is_served_from_the_pin() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await stage.client.delete(SERVING_RUNTIMES, "sglang", "prod")
        await stage.settle()
        drifted = await stage.condition("RuntimeDrifted")
        assert drifted is not None
        assert drifted["reason"] == "SourceRuntimeMissing"
        assert drifted["message"] == f"runtime sglang not found; serving from pinned revision {A}"
        await stage.client.delete(DEPLOYMENTS, "chat-engine", "prod", propagation="Background")
        await stage.settle()
        assert (await stage.args())[-1] == "--mem-frac=0.9"
        await fraction(stage, "0.9")
        assert await pin(stage) == (A, None)

    run(scenario)


@pytest.mark.spec("RR-21")
def test_a_first_pin_without_its_runtime_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        late = pinned(reference={"name": "late"}, model=None)
        await stage.apply(INFERENCE_SERVICES, late)
        await stage.settle()
        events = await stage.events("RuntimePinError")
        assert {event["message"] for event in events} == {
            "resolve live runtime late: ServingRuntime late not found in namespace prod"
        }
        assert len(events) == 1
        assert await stage.find(DEPLOYMENTS, "chat-engine") is None
        assert await stage.revisions() == []
        body = runtime()
        body["metadata"]["name"] = "late"
        await stage.apply(SERVING_RUNTIMES, body)
        await stage.ready()
        assert (await stage.status())["pinnedRevisionName"].startswith("r-prod-late-")

    run(scenario)


@pytest.mark.spec("RR-5", "RR-22", "RR-33", "SR-7")
def test_an_inheriting_runtime_is_pinned_merged_drifts_with_its_parent_and_heals_after_it() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        child = {
            "metadata": {
                "name": "child",
                "namespace": "prod",
                "annotations": {"ome.io/inherit-from": "sglang"},
            },
            "spec": {"modelSizeRange": {"min": "1B", "max": "4B"}},
        }
        await stage.apply(SERVING_RUNTIMES, child)
        await stage.apply(INFERENCE_SERVICES, pinned(reference={"name": "child"}))
        await stage.apply(INFERENCE_SERVICES, service("live", runtime_ref={"name": "child", "kind": "ServingRuntime"}))
        await stage.ready()
        (name,) = await stage.revisions()
        stored = await stage.get(CONTROLLER_REVISIONS, name, OME)
        assert stored["data"]["modelSizeRange"] == {"min": "1B", "max": "4B"}
        assert stored["data"]["engineConfig"]["runner"]["args"][-1] == "--mem-frac=0.9"
        await fraction(stage, "0.85")
        assert await pin(stage) == (name, "RevisionMismatch")
        assert (await stage.args("live-engine"))[-1] == "--mem-frac=0.85"
        assert "--served-model-name=live" in await stage.args("live-engine")
        before = await children(stage)
        await stage.client.delete(SERVING_RUNTIMES, "sglang", "prod")
        await stage.settle()
        (event,) = await stage.events("RuntimePinError")
        assert event["message"].startswith("resolve live runtime child: ")
        assert await children(stage) == before
        await reference(stage, revision=name)
        await stage.settle(20)
        assert (await stage.status())["pinnedRevisionName"] == name
        assert await stage.condition("RuntimeDrifted") is not None
        await fraction(stage, "0.9")
        await stage.settle(60)
        assert await pin(stage) == (name, None)

    run(scenario)


@pytest.mark.spec("RR-24", "RR-45")
@pytest.mark.parametrize("live", [True, None], ids=["autoSync true", "autoSync removed"])
def test_going_live_keeps_the_record_of_the_pin(live: bool | None) -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await reference(stage, autoSync=live)
        assert await pin(stage) == (A, "RevisionMismatch")
        assert (await stage.args())[-1] == "--mem-frac=0.85"
        await reference(stage, autoSync=False)
        assert await pin(stage) == (A, "RevisionMismatch")
        assert (await stage.args())[-1] == "--mem-frac=0.85"
        await token(stage, "t1")
        assert await pin(stage) == (B, None)
        await reference(stage, revision=A)
        await reference(stage, revision=None, autoSync=True)
        assert (await stage.status())["pinnedRevisionName"] == A
        assert (await stage.args())[-1] == "--mem-frac=0.85"

    run(scenario)


@pytest.mark.spec("RR-31")
def test_a_service_without_a_runtime_name_never_pins() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(runtime_ref={}))
        assert "pinnedRevisionName" not in await stage.status()
        assert await stage.revisions() == []

    run(scenario)


@pytest.mark.spec("RR-32")
def test_a_disabled_pinned_spec_is_reported_and_not_rendered() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        before = await children(stage)
        draft = draft_revision("ServingRuntime", "sglang", "prod", runtime("0.8", disabled=True)["spec"])
        await stage.create(CONTROLLER_REVISIONS, draft.to_object(OME))
        await reference(stage, revision=draft.name)
        (event,) = await stage.events("RuntimeValidationError")
        assert event["message"] == "Runtime sglang failed validation: namespace-scoped runtime sglang is disabled"
        assert event["type"] == "Warning"
        assert await children(stage) == before
        await reference(stage, revision=A)
        assert await pin(stage) == (A, None)

    run(scenario)


@pytest.mark.spec("RR-42")
def test_a_disabled_runtime_is_no_pin_and_moves_none() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await fraction(stage, "0.9", disabled=True)
        await stage.apply(INFERENCE_SERVICES, pinned())
        await stage.settle()
        (event,) = await stage.events("RuntimeValidationError")
        assert event["message"] == "Runtime sglang failed validation: namespace-scoped runtime sglang is disabled"
        assert await stage.revisions() == []
        assert await stage.find(DEPLOYMENTS, "chat-engine") is None
        await fraction(stage, "0.9")
        await stage.ready()
        assert await pin(stage) == (A, None)

    run(scenario)


@pytest.mark.spec("RR-33")
def test_a_live_service_follows_its_runtime_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await fraction(stage, "0.85")
        assert (await stage.args())[-1] == "--mem-frac=0.85"
        assert await stage.revisions() == []

    run(scenario)


@pytest.mark.spec("RR-38")
def test_a_service_may_name_a_revision_that_another_stored() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await token(stage, "t1")
        await stage.apply(INFERENCE_SERVICES, pinned(name="four", reference={"revision": A}))
        await stage.ready("four")
        assert await pin(stage, "four") == (A, None)
        assert (await stage.args("four-engine"))[-1] == "--mem-frac=0.9"

    run(scenario)


@pytest.mark.spec("RR-43")
def test_a_frozen_service_still_tells_that_its_pod_died() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        before = await children(stage)
        (pod,) = (await stage.client.list(PODS, "prod")).items
        name = pod["metadata"]["name"]
        await set_pod(stage, name, ready=False)
        await stage.settle()
        for type_ in ("EngineReady", "Ready"):
            assert (await stage.condition(type_) or {})["status"] == "False"
        assert await pin(stage) == (A, "RevisionMismatch")
        await set_pod(stage, name, ready=True)
        await stage.ready()
        assert await pin(stage) == (A, "RevisionMismatch")
        assert [item[2] for item in await children(stage)] == [item[2] for item in before]

    run(scenario)


def test_a_component_removed_while_frozen_stays_until_the_freeze_ends() -> None:
    router = {"runner": {"name": "router", "image": "r:1", "ports": [{"containerPort": 8000}]}}

    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned(router=router))
        await fraction(stage, "0.85")
        before = await children(stage)
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", {"spec": {"router": None}})
        await stage.settle()
        assert await children(stage) == before
        assert "router" in (await stage.status())["components"]
        assert (await stage.condition("RouterReady") or {})["status"] == "True"
        await token(stage, "t1")
        assert await stage.find(DEPLOYMENTS, "chat-router") is None
        assert "router" not in (await stage.status())["components"]
        assert await stage.condition("RouterReady") is None

    run(scenario)


def test_a_terminating_namespace_takes_its_service_along_quietly() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await stage.client.delete(NAMESPACES, "prod")
        await stage.settle(30)
        assert await stage.find(INFERENCE_SERVICES, "chat") is None
        assert await stage.find(NAMESPACES, "prod") is None
        assert await stage.revisions() == [A]

    run(scenario)


async def lag(stage: Stage, resource: Resource) -> None:
    """From now on the manager sees nothing new of a resource, while it sees everything else."""
    assert stage.restart is not None
    asked = {"list": 0, "watch": 0}

    def fault(request: HttpRequest) -> Fault | None:
        if request.method != "GET" or not request.path.endswith(f"/{resource.plural}"):
            return None
        verb = "watch" if "watch" in request.query else "list"
        asked[verb] += 1
        if asked[verb] > 1:
            return Fault(FaultKind.TIMEOUT_BEFORE)
        return Fault(FaultKind.DROP_STREAM, after=1) if verb == "watch" else None

    await stage.settle(30)
    stage.fault = fault
    await stage.restart()
    await stage.settle(30)
    (item,) = (await stage.client.list(resource, "prod")).items
    await stage.client.patch(resource, item["metadata"]["name"], "prod", {"metadata": {"labels": {"touched": "yes"}}})
    await stage.settle(30)


@pytest.mark.spec("RR-15", "RR-10")
def test_a_token_that_was_taken_back_moves_nothing_though_no_cache_shows_it_yet() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await token(stage, "t1")
        await lag(stage, INFERENCE_SERVICES)
        await token(stage, None)
        before = await children(stage)
        await fraction(stage, "0.85")
        assert await pin(stage) == (A, None)
        assert await children(stage) == before
        stage.fault = None
        await stage.settle(60)
        assert await pin(stage) == (A, "RevisionMismatch")
        assert "lastRuntimeSyncToken" not in await stage.status()
        assert await children(stage) == before

    run(scenario)


@pytest.mark.spec("RR-24")
def test_a_pin_that_is_taken_up_again_holds_though_no_cache_shows_it_yet() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await reference(stage, autoSync=True)
        await lag(stage, INFERENCE_SERVICES)
        await reference(stage, autoSync=False)
        before = await children(stage)
        await fraction(stage, "0.85")
        assert await children(stage) == before
        stage.fault = None
        await stage.settle(60)
        assert await pin(stage) == (A, "RevisionMismatch")
        assert await children(stage) == before

    run(scenario)


@pytest.mark.spec("RR-13")
def test_a_token_moves_to_no_spec_that_was_taken_back_though_the_cache_still_shows_it() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        before = await children(stage)
        await lag(stage, SERVING_RUNTIMES)
        await fraction(stage, "0.9")
        await token(stage, "t1")
        assert (await pin(stage))[0] == A
        assert await children(stage) == before
        stage.fault = None
        await stage.settle(60)
        assert await pin(stage) == (A, None)
        assert "lastRuntimeSyncToken" not in await stage.status()
        assert await stage.revisions() == [A]

    run(scenario)


def test_a_service_that_took_anothers_name_does_not_inherit_its_status() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, pinned())
        await fraction(stage, "0.85")
        await lag(stage, INFERENCE_SERVICES)
        await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", {"metadata": {"finalizers": None}})
        await stage.client.delete(INFERENCE_SERVICES, "chat", "prod", propagation="Background")
        await stage.apply(INFERENCE_SERVICES, pinned())
        await fraction(stage, "0.9")
        await fraction(stage, "0.8")
        assert not (await stage.status()).get("pinnedRevisionName")
        stage.fault = None
        await stage.settle(60)
        assert await pin(stage) == (C, None)

    run(scenario)
