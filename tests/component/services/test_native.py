"""OMENative components: the projected InferenceReplica and what of it is mirrored (spec/omenative.md sections 1,
2, 13).
"""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    PDBS,
    PODS,
    SERVICES,
    SERVING_RUNTIMES,
)

from .objects import model_and_runtime, pinned, runtime, service, serving
from .stage import Stage, run

NATIVE: dict[str, Any] = {"deploymentMode": "OMENative"}


async def edit(stage: Stage, body: dict[str, Any]) -> None:
    await stage.client.patch(INFERENCE_SERVICES, "chat", "prod", body)
    await stage.settle()


async def report(stage: Stage, name: str = "chat-engine", **status: Any) -> None:
    """What the InferenceReplica engine would report."""
    replica = await stage.get(INFERENCE_REPLICAS, name)
    total = replica["spec"].get("replicas") or 1
    body = {
        "observedGeneration": replica["metadata"]["generation"],
        "replicas": total,
        "readyReplicas": total,
        "servingReplicas": total,
        "availableReplicas": total,
        "currentRevision": f"{name}-aaaaaaaa",
        "updateRevision": f"{name}-aaaaaaaa",
        **status,
    }
    await stage.client.patch(INFERENCE_REPLICAS, name, "prod", {"status": body}, subresource="status")
    await stage.settle()


async def replica(stage: Stage, name: str = "chat-engine") -> dict[str, Any]:
    return await stage.get(INFERENCE_REPLICAS, name)


def test_a_projected_replica_carries_the_service() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        engine = {
            "minReplicas": 3,
            "maxReplicas": 3,
            "lifecycle": {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}},
        }
        annotations = {"ome.io/rollout-paused": "true", "note": "n", "ome.io/revision-history-limit": "4"}
        await stage.apply(INFERENCE_SERVICES, service(engine=engine, annotations=annotations, **NATIVE))
        found = await stage.eventually(lambda: stage.find(INFERENCE_REPLICAS, "chat-engine"))
        spec, meta = found["spec"], found["metadata"]
        assert (spec["component"], spec["parentRef"], spec["replicas"]) == ("engine", {"name": "chat"}, 3)
        assert spec["lifecycle"]["updateStrategy"] == {
            "type": "SurgeThenDrain",
            "rollingUpdate": {"maxSurge": 1},
        }
        assert (spec["paused"], spec["revisionHistoryLimit"]) == (True, 4)
        (runner,) = spec["runners"]
        assert (runner["name"], runner["size"]) == ("default", 1)
        assert "app" not in runner["template"]["metadata"]["labels"]
        assert meta["annotations"]["ome.io/controller-write"] == "true"
        assert meta["annotations"]["ome.io/parent-generation"] == "1"
        assert meta["annotations"]["ome.io/revision-excluded-annotation-keys"] == "note"
        (owner,) = meta["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("InferenceService", "chat", True)
        assert await stage.find(DEPLOYMENTS, "chat-engine") is None
        selector = (await stage.get(SERVICES, "chat-engine"))["spec"]["selector"]
        assert selector == {
            "component": "engine",
            "ome.io/inferenceservice": "chat",
            "ome.io/managed-by": "OMENative",
        }
        hpa = await stage.get(HPAS, "chat-engine")
        assert hpa["spec"]["scaleTargetRef"]["kind"] == "InferenceReplica"
        await edit(stage, {"metadata": {"annotations": {"ome.io/rollout-paused": "freeze"}}})
        assert (await replica(stage))["spec"]["pauseMode"] == "Freeze"
        await edit(stage, {"metadata": {"annotations": {"ome.io/rollout-paused": None}}})
        assert "paused" not in (await replica(stage))["spec"]

    run(scenario)


def test_a_scaled_replica_keeps_its_count_and_loses_no_call_to_it() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(engine={"minReplicas": 2, "maxReplicas": 9}, **NATIVE))
        await stage.settle()
        await edit(stage, {"metadata": {"labels": {"x": "y"}}})
        assert (await replica(stage))["spec"]["replicas"] == 2
        await stage.client.patch(
            INFERENCE_REPLICAS, "chat-engine", "prod", {"spec": {"replicas": 5}}, subresource="scale"
        )
        await edit(stage, {"metadata": {"labels": {"x": "z"}}})
        assert (await replica(stage))["spec"]["replicas"] == 5
        assert (await replica(stage))["metadata"]["labels"]["x"] == "z"
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["minAvailable"] == 4

    run(scenario)


@pytest.mark.spec("IS-13")
def test_native_budgets_follow_the_count_in_pods() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        runner = {"name": "ome-container", "image": "gang:1", "ports": [{"containerPort": 8080}]}
        engine = {
            "minReplicas": 4,
            "maxReplicas": 4,
            "minAvailable": "90%",
            "leader": {"runner": runner},
            "worker": {"size": 2, "runner": runner},
        }
        await stage.apply(INFERENCE_SERVICES, service(engine=engine))
        await stage.settle()
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["minAvailable"] == 11
        await edit(stage, {"spec": {"engine": {"minAvailable": None, "maxUnavailable": "25%"}}})
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["minAvailable"] == 9
        assert (await stage.get(SERVICES, "chat-engine"))["spec"]["selector"]["ome.io/runner"] == "leader"

    run(scenario)


@pytest.mark.spec("IS-26")
def test_leader_and_worker_make_it_native_unless_an_annotation_says_otherwise() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        runner = {"name": "ome-container", "image": "gang:1"}
        engine = {"leader": {"runner": runner}, "worker": {"runner": runner}}
        await stage.apply(INFERENCE_SERVICES, service(engine=engine))
        found = await stage.eventually(lambda: stage.find(INFERENCE_REPLICAS, "chat-engine"))
        assert [runner["name"] for runner in found["spec"]["runners"]] == ["leader", "worker"]
        annotated = {"annotations": {"ome.io/deploymentMode": "RawDeployment"}}
        await stage.apply(INFERENCE_SERVICES, service("raw", engine=annotated, **NATIVE))
        assert await stage.eventually(lambda: stage.find(DEPLOYMENTS, "raw-engine"))
        assert await stage.find(INFERENCE_REPLICAS, "raw-engine") is None

    run(scenario)


CONDITIONS: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "all ready": ({}, ("True", "Ready", "All Instances are Ready")),
    "one short of the floor": (
        {"readyReplicas": 2, "servingReplicas": 2},
        ("False", "InsufficientAvailable", "2/3 Instances serving, need 3"),
    ),
    "a surge that is not ready": (
        {"replicas": 4, "readyReplicas": 3, "servingReplicas": 3},
        ("True", "MinimumAvailable", "3/4 Instances serving (min 3)"),
    ),
    "none desired": (
        {"replicas": 0, "readyReplicas": 0, "servingReplicas": 0},
        ("False", "NoReplicas", "Component has no desired Instances"),
    ),
}


@pytest.mark.parametrize("sentence", CONDITIONS)
def test_engine_ready_follows_the_replica(sentence: str) -> None:
    status, expected = CONDITIONS[sentence]

    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(engine={"minReplicas": 3, "maxReplicas": 3}, **NATIVE))
        await stage.settle()
        await report(stage, **status)
        condition = await stage.condition("EngineReady")
        assert condition is not None
        assert (condition["status"], condition["reason"], condition["message"]) == expected

    run(scenario)


def test_counts_revisions_conditions_and_hold_are_mirrored() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(**NATIVE))
        await stage.settle()
        hold = {"gate": "Held", "reason": "r", "target": "chat-engine-bbbbbbbb", "since": "2026-01-01T00:00:00Z"}
        stalled = {
            "type": "RolloutStalled",
            "status": "True",
            "reason": "InstancesFailing",
            "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await report(stage, rolloutHold=hold, conditions=[stalled], updatedReplicas=0, labelSelector="a=b")
        entry = (await stage.status())["components"]["engine"]
        assert entry["lifecycle"] == {
            "observedGeneration": 1,
            "currentRevision": "chat-engine-aaaaaaaa",
            "updateRevision": "chat-engine-aaaaaaaa",
            "labelSelector": "a=b",
            "replicas": 1,
            "readyReplicas": 1,
            "servingReplicas": 1,
            "availableReplicas": 1,
            "conditions": [stalled],
            "rolloutHold": hold,
        }
        assert entry["latestReadyRevision"] == "chat-engine-rev-aaaaaaaa"
        assert entry["scaleTargetRef"] == {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceReplica",
            "name": "chat-engine",
        }
        await report(stage, rolloutHold=None, currentRevision="chat-engine-bbbbbbbb")
        entry = (await stage.status())["components"]["engine"]
        assert "rolloutHold" not in entry["lifecycle"]
        assert entry["latestRolledoutRevision"] == "chat-engine-rev-bbbbbbbb"
        assert entry["previousRolledoutRevision"] == "chat-engine-rev-aaaaaaaa"

    run(scenario)


@pytest.mark.spec("RR-6", "RR-9")
def test_a_pinned_native_service_freezes_its_replica() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, pinned(**NATIVE))
        await stage.settle()
        await report(stage)
        before = await replica(stage)
        await stage.apply(SERVING_RUNTIMES, runtime("0.85"))
        await stage.settle()
        assert (await stage.condition("RuntimeDrifted") or {})["reason"] == "RevisionMismatch"
        assert await replica(stage) == before
        await report(stage, readyReplicas=0, servingReplicas=0)
        assert (await stage.condition("Ready") or {})["status"] == "False"
        assert (await stage.status())["components"]["engine"]["lifecycle"]["replicas"] == 1
        assert "readyReplicas" not in (await stage.status())["components"]["engine"]["lifecycle"]
        await edit(stage, {"metadata": {"annotations": {"ome.io/runtime-sync": "t1"}}})
        (runner,) = (await replica(stage))["spec"]["runners"]
        assert runner["template"]["spec"]["containers"][0]["args"][-1] == "--mem-frac=0.85"

    run(scenario)


@pytest.mark.spec("IS-53", "IS-40")
def test_after_a_change_of_mode_the_new_workload_counts() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await edit(stage, {"spec": NATIVE})
        assert (await stage.condition("EngineReady") or {})["status"] == "False"
        assert await stage.find(DEPLOYMENTS, "chat-engine") is not None
        assert len((await stage.client.list(PODS, "prod")).items) == 1
        front = await stage.get(SERVICES, "chat")
        assert front["spec"]["selector"] == {"ome.io/inferenceservice": "chat", "component": "engine"}
        assert front["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}]
        assert front["metadata"]["labels"] == {"ome.io/inferenceservice": "chat", "component": "external-service"}
        await report(stage)
        assert (await stage.condition("EngineReady") or {})["status"] == "True"

    run(scenario)


def test_a_replica_is_born_with_its_teardown_finalizer_and_never_gets_it_back() -> None:
    """The engine takes it away at the end; an edit must not put it on again, nor is its absence an edit to undo."""

    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(**NATIVE))
        await stage.settle()
        await report(stage)
        assert (await replica(stage))["metadata"]["finalizers"] == ["ome.io/ir-teardown"]
        body = {"metadata": {"finalizers": ["example.com/hold"]}}
        await stage.client.patch(INFERENCE_REPLICAS, "chat-engine", "prod", body)
        stage.calls.clear()
        await stage.settle()
        assert stage.calls == []
        await edit(stage, {"metadata": {"annotations": {"ome.io/rollout-paused": "true"}}})
        found = await replica(stage)
        assert (found["metadata"]["finalizers"], found["spec"]["paused"]) == (["example.com/hold"], True)

    run(scenario)


@pytest.mark.spec("IS-34")
def test_a_native_service_costs_no_call_when_nothing_changed_also_after_a_restart() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(**NATIVE))
        await stage.settle()
        await report(stage)
        stage.calls.clear()
        await stage.settle(60)
        assert stage.calls == []
        assert stage.restart is not None
        await stage.restart()
        await stage.settle(30)
        assert [call for call in stage.calls if call[0] != "GET"] == []

    run(scenario)


@pytest.mark.spec("IS-32")
def test_a_service_fronts_a_standalone_replica() -> None:
    async def scenario(stage: Stage) -> None:
        container = {"name": "main", "image": "x:1", "ports": [{"containerPort": 9000, "name": "web"}]}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
        standalone = {
            "metadata": {"name": "solo", "namespace": "prod"},
            "spec": {"component": "engine", "runners": [{"name": "default", "size": 1, "template": template}]},
        }
        front = {"metadata": {"name": "chat", "namespace": "prod"}, "spec": {"replicaRefs": {"engine": ["solo"]}}}
        await stage.apply(INFERENCE_SERVICES, front)
        await stage.settle()
        missing = await stage.condition("EngineReady")
        assert missing is not None
        assert (missing["status"], missing["reason"]) == ("False", "ReplicaRefMissing")
        (event,) = await stage.events("ReplicaRefMissing")
        assert (event["type"], event["count"]) == ("Warning", 1)
        await stage.create(INFERENCE_REPLICAS, standalone)
        await stage.settle()
        await report(stage, "solo")
        assert (await stage.condition("Ready") or {})["status"] == "True"
        selector = {"component": "engine", "ome.io/inferenceservice": "solo", "ome.io/managed-by": "OMENative"}
        assert (await stage.get(SERVICES, "chat-engine"))["spec"]["selector"] == selector
        assert (await stage.get(SERVICES, "chat"))["spec"]["selector"] == selector
        status = await stage.status()
        assert status["url"] == "http://chat.prod.svc.cluster.local:9000"
        assert status["components"]["engine"]["scaleTargetRef"]["name"] == "solo"
        assert status["components"]["engine"]["lifecycle"]["readyReplicas"] == 1
        assert "modelStatus" not in status
        assert status["components"]["engine"]["lifecycle"]["updateRevision"] == "solo-aaaaaaaa"
        await stage.client.delete(INFERENCE_REPLICAS, "solo", "prod")
        await stage.settle()
        assert (await stage.condition("EngineReady") or {})["reason"] == "ReplicaRefMissing"
        await stage.create(INFERENCE_REPLICAS, {**standalone, "spec": {**standalone["spec"], "component": "decoder"}})
        await stage.settle()
        assert (await stage.condition("EngineReady") or {})["reason"] == "ReplicaRefInvalid"
        (event,) = await stage.events("ReplicaRefInvalid")
        assert event["type"] == "Warning"

    run(scenario)
