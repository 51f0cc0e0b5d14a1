"""A RawDeployment service from creation to removal (spec/inference-service.md)."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    FINE_TUNED_WEIGHTS,
    HPAS,
    INFERENCE_SERVICES,
    LEADER_WORKER_SETS,
    PDBS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    SERVING_RUNTIMES,
)

from .objects import marks, model, model_and_runtime, pinned, runtime, service, serving
from .stage import Stage, run, set_pod

ROUTER = {
    "runner": {"name": "router", "image": "router:1", "ports": [{"containerPort": 8000, "name": "http"}]},
    "config": {"alpha": "1"},
}


async def patch(stage: Stage, body: dict[str, Any], name: str = "chat") -> None:
    await stage.client.patch(INFERENCE_SERVICES, name, "prod", body)
    await stage.settle()


@pytest.mark.spec("IS-1", "IS-2", "IS-3", "IS-7", "IS-52")
def test_a_model_only_service_gets_everything() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(runtime_ref={}, engine={}))
        deployment = await stage.get(DEPLOYMENTS, "chat-engine")
        assert deployment["metadata"]["labels"]["serving-runtime"] == "sglang"
        assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 600
        hpa = await stage.get(HPAS, "chat-engine")
        assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (1, 3)
        assert hpa["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
        pdb = await stage.get(PDBS, "chat-engine")
        assert pdb["spec"]["maxUnavailable"] == 1
        assert (await stage.get(SERVICES, "chat-engine"))["spec"]["selector"] == {"app": "chat-engine"}
        obj = await stage.service()
        assert "runtime" not in obj["spec"]
        assert "terminationGracePeriodSeconds" not in str(obj["spec"])
        assert obj["status"]["url"] == "http://chat.prod.svc.cluster.local:8080"
        assert obj["status"]["components"]["engine"]["url"] == "http://chat-engine.prod.svc.cluster.local"
        ingress = await stage.condition("IngressReady")
        assert ingress is not None
        assert (ingress["status"], ingress["reason"]) == ("True", "IngressDisabled")
        assert [event["reason"] for event in await stage.events()] == ["InferenceServiceReady"]

    run(scenario)


@pytest.mark.spec("IS-51", "IS-43")
def test_before_the_deployment_serves_the_service_is_initializing() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        stage.hold_pods = True
        await stage.apply(INFERENCE_SERVICES, service())
        first = await stage.eventually(lambda: stage.condition("EngineReady"))
        assert (first["status"], first["reason"]) == ("False", "Initializing")
        assert first["message"] == "engine component initializing"
        ready = await stage.condition("Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("False", "Initializing")
        await stage.settle()
        assert (await stage.status())["modelStatus"]["modelRevisionStates"]["targetModelState"] == "Loading"
        (pod,) = (await stage.client.list(PODS, "prod")).items
        await set_pod(stage, pod["metadata"]["name"], ready=True)
        await stage.ready()
        await stage.settle()
        engine = await stage.condition("EngineReady")
        assert engine is not None
        assert engine["reason"] == "MinimumReplicasAvailable"
        status = (await stage.status())["modelStatus"]
        assert status["transitionStatus"] == "UpToDate"
        assert status["modelRevisionStates"] == {"activeModelState": "Loaded", "targetModelState": "Loaded"}
        assert status["modelCopies"] == {"failedCopies": 0, "totalCopies": 1}

    run(scenario)


@pytest.mark.spec("IS-34", "IS-38", "IS-59")
def test_a_service_that_is_as_it_should_be_costs_no_call_also_after_a_restart() -> None:
    async def scenario(stage: Stage) -> None:
        body = runtime()
        body["spec"]["engineConfig"]["runner"]["resources"]["limits"]["memory"] = "1024Gi"
        body["spec"]["engineConfig"]["runner"]["resources"]["requests"]["memory"] = "1024Gi"
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks())
        await stage.apply(SERVING_RUNTIMES, body)
        await stage.settle()
        stage.calls.clear()
        await stage.apply(INFERENCE_SERVICES, service())
        await stage.ready()
        await stage.settle(30)
        assert len(stage.calls) <= 12, stage.calls
        obj = await stage.service()
        assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
        stage.calls.clear()
        await stage.client.patch(
            INFERENCE_SERVICES, "chat", "prod", {"metadata": {"annotations": {"ome.io/runtime-sync": "x"}}}
        )
        await stage.settle(30)
        assert stage.calls == []
        assert stage.restart is not None
        await stage.restart()
        await stage.settle(30)
        assert [call for call in stage.calls if call[0] != "GET"] == []

    run(scenario)


@pytest.mark.spec("IS-5")
def test_a_service_without_a_model_has_nothing_of_one() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(model=None))
        deployment = await stage.get(DEPLOYMENTS, "chat-engine")
        spec = deployment["spec"]["template"]["spec"]
        assert "nodeSelector" not in spec
        assert [volume["name"] for volume in spec["volumes"]] == ["dshm"]
        assert "MODEL_PATH" not in str(spec.get("containers")[0].get("env"))
        assert "--model-path=$(MODEL_PATH)" in spec["containers"][0]["args"]
        assert "modelStatus" not in await stage.status()
        assert await stage.find(CONFIG_MAPS, "modelconfig-chat") is None

    run(scenario)


@pytest.mark.spec("IS-6", "IS-27", "IS-42", "IS-18")
def test_a_router_exists_while_it_is_declared() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(SERVING_RUNTIMES, runtime(routerConfig=ROUTER))
        await stage.apply(INFERENCE_SERVICES, service())
        await stage.ready()
        assert await stage.find(DEPLOYMENTS, "chat-router") is None
        stage.hold_pods = True
        await patch(stage, {"spec": {"router": {}}})
        assert (await stage.condition("RouterReady") or {})["status"] == "False"
        assert (await stage.condition("RouterReady") or {})["severity"] == "Info"
        assert (await stage.condition("Ready") or {})["status"] == "True"
        front = await stage.get(SERVICES, "chat")
        assert front["spec"]["selector"]["component"] == "engine", "the engine serves, the router does not yet"
        assert front["spec"]["ports"][0]["port"] == 8080
        assert (await stage.status())["url"] == "http://chat.prod.svc.cluster.local:8080"
        await stage.ready_pods()
        await stage.settle()
        assert (await stage.condition("RouterReady") or {})["status"] == "True"
        front = await stage.get(SERVICES, "chat")
        assert front["spec"]["selector"] == {"component": "router", "ome.io/inferenceservice": "chat"}
        assert front["spec"]["ports"][0]["port"] == 8000
        assert (await stage.status())["url"] == "http://chat.prod.svc.cluster.local:8000"
        pods = (await stage.client.list(PODS, "prod")).items
        lost = next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["component"] == "router")
        await set_pod(stage, lost, ready=False)
        await stage.settle()
        assert (await stage.condition("RouterReady") or {})["status"] == "False"
        assert (await stage.get(SERVICES, "chat"))["spec"]["selector"]["component"] == "router", "it served before"
        router = await stage.get(DEPLOYMENTS, "chat-router")
        assert router["spec"]["template"]["spec"]["serviceAccountName"] == "chat-router"
        kinds = (DEPLOYMENTS, SERVICES, HPAS, PDBS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
        for resource in kinds:
            assert await stage.find(resource, "chat-router") is not None, resource
        await patch(stage, {"spec": {"router": None}})
        for resource in kinds:
            assert await stage.find(resource, "chat-router") is None, resource
        assert await stage.condition("RouterReady") is None
        assert "router" not in (await stage.status())["components"]
        front = await stage.get(SERVICES, "chat")
        assert front["spec"]["selector"]["component"] == "engine"
        assert (await stage.status())["url"] == "http://chat.prod.svc.cluster.local:8080"

    run(scenario)


@pytest.mark.spec("IS-8")
def test_a_default_maximum_is_raised_to_the_minimum() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(engine={"minReplicas": 5}))
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["maxReplicas"] == 5
        assert "maxReplicas" not in (await stage.service())["spec"]["engine"]

    run(scenario)


@pytest.mark.spec("IS-9")
def test_class_none_holds_the_count_and_external_leaves_it() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(engine={"minReplicas": 2, "maxReplicas": 2, "autoscaler": {"class": "None"}}))
        assert await stage.find(HPAS, "chat-engine") is None
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["replicas"] == 2
        await stage.client.patch(DEPLOYMENTS, "chat-engine", "prod", {"spec": {"replicas": 4}})
        await stage.settle()
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["replicas"] == 2
        await patch(stage, {"spec": {"engine": {"autoscaler": {"class": "HPA"}}}})
        assert await stage.find(HPAS, "chat-engine") is not None
        await patch(stage, {"spec": {"engine": {"autoscaler": {"class": "External"}}}})
        assert await stage.find(HPAS, "chat-engine") is None
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["replicas"] == 2
        await stage.client.patch(DEPLOYMENTS, "chat-engine", "prod", {"spec": {"replicas": 3}})
        await stage.settle()
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["replicas"] == 3
        assert (await stage.status())["components"]["engine"]["autoscaler"] == {
            "class": "External",
            "managedBy": "external",
            "specSource": "isvc",
        }

    run(scenario)


@pytest.mark.spec("IS-48", "IS-50", "IS-49", "IS-36")
def test_children_are_kept_in_shape() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await stage.client.patch(DEPLOYMENTS, "chat-engine", "prod", {"spec": {"replicas": 2}})
        await patch(stage, {"metadata": {"annotations": {"note": "n"}}})
        deployment = await stage.get(DEPLOYMENTS, "chat-engine")
        assert deployment["spec"]["replicas"] == 2
        assert deployment["spec"]["template"]["metadata"]["annotations"]["note"] == "n"
        assert deployment["metadata"]["annotations"]["note"] == "n"
        assert (await stage.get(HPAS, "chat-engine"))["metadata"]["annotations"]["note"] == "n"
        for resource in (SERVICES, PDBS):
            assert "note" not in (await stage.get(resource, "chat-engine"))["metadata"].get("annotations", {})
        container = {"name": "ome-container", "image": "somebody/elses:1"}
        edit = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await stage.client.patch(DEPLOYMENTS, "chat-engine", "prod", edit)
        await stage.settle()
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]["containers"][0][
            "image"
        ].startswith("docker.io/lmsysorg/sglang")
        for resource in (DEPLOYMENTS, SERVICES, HPAS, PDBS):
            await stage.client.delete(resource, "chat-engine", "prod", propagation="Background")
        await stage.settle()
        for resource in (DEPLOYMENTS, SERVICES, HPAS, PDBS):
            assert await stage.find(resource, "chat-engine") is not None, resource
        generation = (await stage.get(DEPLOYMENTS, "chat-engine"))["metadata"]["generation"]
        keys = (
            "ome.io/rollout-promote",
            "ome.io/rollout-rollback",
            "ome.io/rollout-paused",
            "ome.io/rollout-repin",
            "ome.io/rollout-ready-timeout",
            "ome.io/revision-history-limit",
            "ome.io/migration-request-v1-1",
            "ome.io/runtime-sync",
            "internal.ome.io/in-place-image-transition",
            "internal.ome.io/storage-initializer-sourceuri",
        )
        await patch(stage, {"metadata": {"annotations": dict.fromkeys(keys, "true")}})
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["metadata"]["generation"] == generation

    run(scenario)


@pytest.mark.spec("IS-14", "IS-58")
def test_a_budget_of_zero_protects_nothing_and_no_budget_removes_it() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(engine={"minAvailable": 0}))
        spec = (await stage.get(PDBS, "chat-engine"))["spec"]
        assert spec["minAvailable"] == 0
        assert "maxUnavailable" not in spec
        await patch(stage, {"spec": {"engine": {"minAvailable": None}}})
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in (await stage.get(PDBS, "chat-engine"))["spec"]

    run(scenario)


def test_without_a_default_there_is_no_budget() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage, service(engine={"maxUnavailable": "50%"}))
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["maxUnavailable"] == "50%"
        await patch(stage, {"spec": {"engine": {"maxUnavailable": None}}})
        assert await stage.find(PDBS, "chat-engine") is None

    run(scenario, config={"podDisruptionBudget": "{}"})


@pytest.mark.spec("IS-15")
def test_a_foreign_budget_of_the_name_stops_the_component() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        foreign = {"metadata": {"name": "chat-engine", "namespace": "prod"}, "spec": {"maxUnavailable": 3}}
        await stage.create(PDBS, foreign)
        await stage.apply(SERVING_RUNTIMES, runtime(routerConfig=ROUTER))
        await stage.apply(INFERENCE_SERVICES, service(router={}))
        await stage.settle()
        for name in ("chat-engine", "chat-router"):
            assert await stage.find(DEPLOYMENTS, name) is None
        assert (await stage.get(PDBS, "chat-engine"))["spec"]["maxUnavailable"] == 3
        assert await stage.events() == []
        await stage.client.delete(PDBS, "chat-engine", "prod")
        await stage.ready()

    run(scenario)


@pytest.mark.spec("IS-16")
def test_a_cluster_local_service_has_no_front() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await patch(stage, {"metadata": {"labels": {"networking.knative.dev/visibility": "cluster-local"}}})
        assert await stage.find(SERVICES, "chat") is None
        assert await stage.find(SERVICES, "chat-engine") is not None
        assert "url" not in await stage.status()

    run(scenario)


@pytest.mark.spec("IS-17")
def test_a_service_type_reaches_the_front_always_and_the_component_at_creation() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await patch(stage, {"metadata": {"annotations": {"ome.io/service-type": "LoadBalancer"}}})
        assert (await stage.get(SERVICES, "chat"))["spec"]["type"] == "LoadBalancer"
        assert (await stage.get(SERVICES, "chat-engine"))["spec"]["type"] == "ClusterIP"
        await stage.client.delete(SERVICES, "chat-engine", "prod")
        await stage.settle()
        assert (await stage.get(SERVICES, "chat-engine"))["spec"]["type"] == "LoadBalancer"

    run(scenario)


@pytest.mark.spec("IS-19", "IS-30", "SR-19")
def test_a_missing_runtime_is_told_once_and_touches_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        before = await stage.get(DEPLOYMENTS, "chat-engine")
        await stage.client.delete(SERVING_RUNTIMES, "sglang", "prod")
        await stage.settle()
        gone = await stage.condition("RuntimeReady")
        assert gone is not None
        assert (gone["status"], gone["reason"], gone["severity"]) == ("False", "RuntimeNotFound", "Info")
        assert await stage.get(DEPLOYMENTS, "chat-engine") == before
        assert len((await stage.client.list(PODS, "prod")).items) == 1
        assert (await stage.condition("Ready") or {})["status"] == "True"
        await patch(stage, {"metadata": {"labels": {"x": "y"}}})
        (event,) = await stage.events("RuntimeNotFound")
        assert (event["type"], event["count"]) == ("Warning", 1)
        await stage.apply(SERVING_RUNTIMES, runtime())
        await stage.settle()
        back = await stage.condition("RuntimeReady")
        assert back is not None
        assert (back["status"], back["reason"]) == ("True", "RuntimeResolved")
        assert [event["count"] for event in await stage.events("InferenceServiceReady")] == [1]

    run(scenario)


@pytest.mark.spec("IS-20")
def test_a_runtime_that_does_not_declare_the_model_is_advised_about_and_used() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(SERVING_RUNTIMES, runtime(modelSizeRange={"min": "70B", "max": "80B"}))
        await stage.apply(INFERENCE_SERVICES, service())
        await stage.ready()
        await stage.settle()
        (event,) = await stage.events("RuntimeCompatibilityAdvisory")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Runtime sglang does not declare support for model llama (")
        assert event["message"].endswith("); proceeding because the runtime was named explicitly")
        assert event["count"] == 1

    run(scenario)


@pytest.mark.spec("IS-21")
def test_a_model_of_the_other_kind_leaves_the_workload() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        before = await stage.get(DEPLOYMENTS, "chat-engine")
        await patch(stage, {"spec": {"model": {"kind": "BaseModel"}, "engine": {"maxReplicas": 7}}})
        assert await stage.get(DEPLOYMENTS, "chat-engine") == before
        assert (await stage.get(HPAS, "chat-engine"))["spec"]["maxReplicas"] == 1
        assert [event["reason"] for event in await stage.events()] == ["InferenceServiceReady"]

    run(scenario)


@pytest.mark.spec("IS-22", "IS-23")
def test_overlays_are_mounted_or_skipped() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(CLUSTER_BASE_MODELS, model("over-lay"))
        reference = {"name": "llama", "overlays": [{"name": "over-lay"}]}
        await stage.apply(INFERENCE_SERVICES, service(model=reference))
        await stage.ready()
        status = await stage.status()
        assert status["mountedOverlays"] == [
            {
                "name": "over-lay",
                "envVar": "OVERLAY_OVER_LAY_MODEL_PATH",
                "mountPath": "/opt/ml/model-overlays/over-lay",
                "distribution": "PerNode",
            }
        ]
        assert (await stage.condition("OverlaysReady") or {})["reason"] == "AllOverlaysMounted"
        container = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]["containers"][0]
        assert {"name": "OVERLAY_OVER_LAY_MODEL_PATH", "value": "/opt/ml/model-overlays/over-lay"} in container["env"]
        await stage.client.patch(CLUSTER_BASE_MODELS, "over-lay", "", {"spec": {"disabled": True}})
        await patch(stage, {"metadata": {"labels": {"x": "y"}}})
        skipped = await stage.condition("OverlaysReady")
        assert skipped is not None
        assert (skipped["status"], skipped["reason"]) == ("False", "OverlaysSkipped")
        assert "over-lay" in skipped["message"]
        assert "mountedOverlays" not in await stage.status()
        await stage.client.patch(CLUSTER_BASE_MODELS, "over-lay", "", {"spec": {"disabled": False}})
        await patch(stage, {"metadata": {"labels": {"x": "z"}}})
        assert (await stage.condition("OverlaysReady") or {})["reason"] == "AllOverlaysMounted"
        await stage.client.delete(CLUSTER_BASE_MODELS, "over-lay")
        await patch(stage, {"metadata": {"labels": {"x": "gone"}}})
        assert (await stage.condition("OverlaysReady") or {})["reason"] == "OverlaysSkipped"
        template = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]
        assert "over-lay" not in str(template["spec"])

    run(scenario)


@pytest.mark.spec("IS-24")
def test_a_virtual_deployment_creates_nothing_and_is_ready() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        annotations = {"ome.io/deploymentMode": "VirtualDeployment"}
        await stage.apply(INFERENCE_SERVICES, service(annotations=annotations))
        await stage.ready()
        ready = await stage.condition("Ready")
        assert ready is not None
        assert (ready["reason"], ready["message"]) == (
            "VirtualDeployment",
            "InferenceService is in VirtualDeployment mode",
        )
        status = await stage.status()
        assert status["url"] == status["address"]["url"] == "http://chat.prod.svc.cluster.local"
        assert status["components"]["engine"]["url"] == status["url"]
        assert (await stage.client.list(SERVICES, "prod")).items == []

    run(scenario)


@pytest.mark.spec("IS-28")
def test_deletion_is_immediate_and_takes_everything_along() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await stage.client.delete(INFERENCE_SERVICES, "chat", "prod")
        await stage.settle()
        assert await stage.find(INFERENCE_SERVICES, "chat") is None
        for resource in (DEPLOYMENTS, SERVICES, HPAS, PDBS, PODS):
            assert (await stage.client.list(resource, "prod")).items == [], resource
        assert await stage.find(CONFIG_MAPS, "modelconfig-chat") is None

    run(scenario)


@pytest.mark.spec("IS-29", "IS-30")
def test_a_crash_blocks_the_load_until_it_is_over() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        (pod,) = (await stage.client.list(PODS, "prod")).items
        name = pod["metadata"]["name"]
        ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T01:00:00Z"}
        looping = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        await set_pod(stage, name, ready=False, state=looping, last={"terminated": ended})
        await stage.settle()
        status = (await stage.status())["modelStatus"]
        assert status["transitionStatus"] == "BlockedByFailedLoad"
        assert status["lastFailureInfo"]["exitCode"] == 137
        assert status["lastFailureInfo"]["location"] == name
        (lost,) = await stage.events("InferenceServiceNotReady")
        assert (lost["type"], lost["message"]) == ("Warning", "InferenceService [chat] is no longer Ready")
        await set_pod(stage, name, ready=True)
        await stage.ready()
        await stage.settle()
        status = (await stage.status())["modelStatus"]
        assert status["transitionStatus"] == "UpToDate"
        assert "lastFailureInfo" not in status
        assert sum(event["count"] for event in await stage.events("InferenceServiceReady")) == 2
        assert sum(event["count"] for event in await stage.events("InferenceServiceNotReady")) == 1

    run(scenario)


@pytest.mark.spec("IS-31")
def test_an_invalid_budget_configuration_stops_services_but_not_deletes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        body = service()
        body["metadata"]["finalizers"] = ["inferenceservice.finalizers"]
        await stage.apply(INFERENCE_SERVICES, body)
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-engine") is None
        assert await stage.status() == {}
        await stage.client.delete(INFERENCE_SERVICES, "chat", "prod")
        await stage.settle()
        assert await stage.find(INFERENCE_SERVICES, "chat") is None

    run(scenario, config={"podDisruptionBudget": '{"rawDeployment": {}}'})
    assert (
        "fails to create InferenceServicesConfig: exactly one of podDisruptionBudget.rawDeployment.minAvailable or "
        "podDisruptionBudget.rawDeployment.maxUnavailable must be set"
    ) in caplog.text


@pytest.mark.spec("IS-33")
def test_a_long_name_is_shortened_in_services_and_labels_alone() -> None:
    name = "a" * 40 + "-" + "b" * 20
    full = f"{name}-engine"

    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(name))
        await stage.ready(name)
        deployment = await stage.get(DEPLOYMENTS, full)
        app = deployment["spec"]["selector"]["matchLabels"]["app"]
        assert len(app) == 63
        assert app.endswith(full[-54:])
        assert deployment["spec"]["template"]["metadata"]["labels"]["app"] == app
        assert (await stage.get(SERVICES, app))["spec"]["selector"] == {"app": app}
        for resource in (HPAS, PDBS):
            assert await stage.find(resource, full) is not None

    run(scenario)


@pytest.mark.spec("IS-44")
def test_a_declared_component_without_a_container_is_told_and_heals() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service(decoder={}))
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-engine") is not None
        decoder = await stage.condition("DecoderReady")
        assert decoder is not None
        text = (
            "decoder has no container: spec.decoder declares none and runtime sglang has no decoderConfig that does "
            "(no containers found in pod spec and no runner spec provided)"
        )
        assert (decoder["status"], decoder["reason"], decoder["message"]) == ("False", "ComponentNotConfigured", text)
        (event,) = await stage.events("ComponentNotConfigured")
        assert (event["type"], event["message"], event["count"]) == ("Warning", text, 1)
        runner = {"name": "ome-container", "image": "decode:1", "ports": [{"containerPort": 8080}]}
        await stage.apply(SERVING_RUNTIMES, runtime(decoderConfig={"runner": runner}))
        await stage.ready()
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-decoder") is not None
        assert (await stage.condition("DecoderReady") or {})["status"] == "True"

    run(scenario)


@pytest.mark.spec("IS-45")
def test_multinode_without_a_worker_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        engine = {"annotations": {"ome.io/deploymentMode": "MultiNode"}}
        await stage.apply(INFERENCE_SERVICES, service(engine=engine))
        await stage.apply(INFERENCE_SERVICES, service("other"))
        await stage.ready("other")
        text = (
            "engine: deployment mode MultiNode requires leader and worker; declare both, or choose RawDeployment or "
            "OMENative"
        )
        condition = await stage.condition("EngineReady")
        assert condition is not None
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "False",
            "DeploymentModeError",
            text,
        )
        (event,) = await stage.events("DeploymentModeError")
        assert event["message"] == text

    run(scenario)
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.spec("IS-46")
def test_a_router_variable_of_config_and_env_appears_once() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(SERVING_RUNTIMES, runtime(routerConfig=ROUTER))
        runner = {"name": "router", "env": [{"name": "alpha", "value": "runner"}]}
        await stage.apply(INFERENCE_SERVICES, service(router={"runner": runner, "config": {"alpha": "2"}}))
        deployment = await stage.eventually(lambda: stage.find(DEPLOYMENTS, "chat-router"))
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert [item for item in container["env"] if item["name"] == "alpha"] == [{"name": "alpha", "value": "2"}]

    run(scenario)


@pytest.mark.spec("IS-56")
def test_two_services_whose_listing_has_one_name_both_become_ready() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        tail = "12345678901234567890"
        for name in (f"a{tail}", f"b{tail}"):
            await stage.apply(INFERENCE_SERVICES, service(name))
        await stage.ready(f"a{tail}")
        await stage.ready(f"b{tail}")
        listing = await stage.get(CONFIG_MAPS, f"modelconfig-{tail}")
        assert listing["metadata"]["labels"]["ome.io/inferenceservice"] in (f"a{tail}", f"b{tail}")

    run(scenario)


@pytest.mark.spec("IS-54")
def test_an_ingress_waits_for_its_target() -> None:
    async def scenario(stage: Stage) -> None:
        from ome.kube.resources import INGRESSES

        await model_and_runtime(stage)
        stage.hold_pods = True
        annotations = {"ome.io/ingress-disable-creation": "false", "note": "n"}
        await stage.apply(INFERENCE_SERVICES, service(annotations=annotations))
        await stage.settle()
        waiting = await stage.condition("IngressReady")
        assert waiting is not None
        assert (waiting["status"], waiting["reason"]) == ("False", "ComponentNotReady")
        assert waiting["message"] == "Target service not ready for ingress creation"
        (pod,) = (await stage.client.list(PODS, "prod")).items
        await set_pod(stage, pod["metadata"]["name"], ready=True)
        await stage.ready()
        ingress = await stage.get(INGRESSES, "chat")
        assert "labels" not in ingress["metadata"]
        assert ingress["metadata"]["annotations"]["note"] == "n"
        assert await stage.find(SERVICES, "chat") is None
        assert (await stage.status())["url"] == "http://chat.prod.svc.cluster.local:8080"

    run(scenario)


def test_a_service_for_which_nothing_was_found_is_served_when_a_runtime_appears() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks())
        await stage.apply(INFERENCE_SERVICES, service(runtime_ref={}))
        await stage.settle()
        condition = await stage.condition("RuntimeReady")
        assert condition is not None
        assert condition["reason"] == "RuntimeNotFound"
        assert condition["message"].startswith("no runtime found to support model safetensors")
        body = runtime()
        del body["metadata"]["namespace"]
        await stage.apply(CLUSTER_SERVING_RUNTIMES, body)
        await stage.ready()

    run(scenario)


@pytest.mark.spec("MO-22")
def test_a_disabled_model_keeps_its_pods_and_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        before = await stage.get(DEPLOYMENTS, "chat-engine")
        await stage.client.patch(CLUSTER_BASE_MODELS, "llama", "", {"spec": {"disabled": True}})
        await patch(stage, {"metadata": {"labels": {"x": "y"}}})
        (event,) = await stage.events("ModelReconcileError")
        assert (event["type"], event["message"]) == ("Warning", "specified base model llama is disabled")
        assert await stage.get(DEPLOYMENTS, "chat-engine") == before
        await stage.client.patch(CLUSTER_BASE_MODELS, "llama", "", {"spec": {"disabled": False}})
        await stage.settle()
        assert (await stage.get(DEPLOYMENTS, "chat-engine"))["metadata"]["labels"]["x"] == "y"

    run(scenario)


@pytest.mark.spec("MO-30")
def test_a_models_path_moves_with_the_services_next_pass() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        await stage.client.patch(CLUSTER_BASE_MODELS, "llama", "", {"spec": {"storage": {"path": "/raid/new"}}})
        await stage.settle()
        assert "/raid/new" not in str(await stage.get(DEPLOYMENTS, "chat-engine"))
        await patch(stage, {"metadata": {"annotations": {"x": "y"}}})
        spec = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]
        assert "/raid/models/llama" not in str(spec)
        assert {"name": "MODEL_PATH", "value": "/raid/new"} in spec["containers"][0]["env"]

    run(scenario)


@pytest.mark.spec("IS-41")
def test_a_container_listed_first_gives_its_ports() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        proxy = {"name": "proxy", "image": "proxy:1", "ports": [{"containerPort": 9000, "name": "web"}]}
        engine = {"containers": [proxy], "servicePortAppProtocols": {"web": "h2c"}}
        await stage.apply(INFERENCE_SERVICES, service(engine=engine))
        await stage.ready()
        (port,) = (await stage.get(SERVICES, "chat-engine"))["spec"]["ports"]
        assert (port["name"], port["port"], port["targetPort"], port["appProtocol"]) == ("web", 9000, 9000, "h2c")
        (front,) = (await stage.get(SERVICES, "chat"))["spec"]["ports"]
        assert (front["name"], front["port"]) == ("http", 9000)
        assert "appProtocol" not in front
        assert (await stage.status())["url"] == "http://chat.prod.svc.cluster.local:9000"
        named_like_the_runner = {"containers": [{"name": "ome-container", "image": "x:1"}]}
        await stage.apply(INFERENCE_SERVICES, service("second", engine=named_like_the_runner))
        await stage.ready("second")
        (port,) = (await stage.get(SERVICES, "second-engine"))["spec"]["ports"]
        assert (port["name"], port["port"]) == ("http1", 8080)
        bare = {"containers": [{"name": "bare", "image": "x:1"}], "servicePortAppProtocols": {"bare": "grpc"}}
        await stage.apply(INFERENCE_SERVICES, service("third", engine=bare))
        await stage.ready("third")
        (port,) = (await stage.get(SERVICES, "third-engine"))["spec"]["ports"]
        assert (port["name"], port["port"], port["protocol"], port["appProtocol"]) == ("bare", 8080, "TCP", "grpc")

    run(scenario)


@pytest.mark.spec("IS-55")
def test_multinode_services_select_their_own_leaders() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.define(LEADER_WORKER_SETS)
        runner = {"name": "ome-container", "image": "gang:1", "ports": [{"containerPort": 8080, "name": "http"}]}
        engine = {
            "annotations": {"ome.io/deploymentMode": "MultiNode"},
            "leader": {"runner": runner},
            "worker": {"size": 3, "runner": runner},
        }
        for name in ("chat", "talk"):
            await stage.apply(INFERENCE_SERVICES, service(name, engine=engine))
        await stage.settle()
        for name, other in (("chat", "talk"), ("talk", "chat")):
            selector = (await stage.get(SERVICES, f"{name}-engine"))["spec"]["selector"]
            sets = {owner: await stage.get(LEADER_WORKER_SETS, f"lws-{owner}-engine") for owner in (name, other)}
            templates = {owner: found["spec"]["leaderWorkerTemplate"] for owner, found in sets.items()}
            labels = {owner: found["leaderTemplate"]["metadata"]["labels"] for owner, found in templates.items()}
            assert selector.items() <= labels[name].items()
            assert not selector.items() <= labels[other].items()
            workers = templates[name]["workerTemplate"]["metadata"]["labels"]
            assert not selector.items() <= workers.items()
            assert templates[name]["size"] == 4
        assert (await stage.condition("Ready") or {})["status"] == "Unknown"
        assert await stage.find(HPAS, "chat-engine") is None
        available = {"type": "Available", "status": "True", "reason": "AllGroupsReady", "message": "ready"}
        await stage.client.patch(
            LEADER_WORKER_SETS, "lws-chat-engine", "prod", {"status": {"conditions": [available]}}, subresource="status"
        )
        await stage.ready()

    run(scenario)


@pytest.mark.spec("RR-30")
def test_a_pinned_service_follows_its_accelerator_class_and_its_model() -> None:
    async def scenario(stage: Stage) -> None:
        gpu: dict[str, Any] = {
            "metadata": {"name": "h100"},
            "spec": {"discovery": {"nodeSelector": {"gpu": "h100"}}, "capabilities": {}},
        }
        await stage.apply(ACCELERATOR_CLASSES, gpu)
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks())
        await stage.apply(SERVING_RUNTIMES, runtime(acceleratorRequirements={"acceleratorClasses": ["h100"]}))
        reference = {"acceleratorClass": "h100"}
        await stage.apply(INFERENCE_SERVICES, pinned(acceleratorSelector=reference))
        await stage.ready()
        selected = (await stage.status())["components"]["engine"]["selectedAccelerator"]
        assert selected["acceleratorClass"] == "h100"

        async def selector() -> dict[str, str]:
            spec = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]
            return dict(spec["nodeSelector"])

        assert (await selector())["gpu"] == "h100"
        gpu["spec"]["discovery"]["nodeSelector"]["gpu"] = "h100-sxm"
        await stage.apply(ACCELERATOR_CLASSES, gpu)
        await stage.settle()
        assert (await selector())["gpu"] == "h100-sxm"
        await stage.client.patch(CLUSTER_BASE_MODELS, "llama", "", {"spec": {"storage": {"path": "/raid/new"}}})
        await patch(stage, {"metadata": {"annotations": {"x": "y"}}})
        assert "/raid/new" in str(await stage.get(DEPLOYMENTS, "chat-engine"))
        assert await stage.condition("RuntimeDrifted") is None

    run(scenario)


@pytest.mark.spec("SR-18")
def test_a_malformed_placeholder_leaves_the_workload_until_it_is_mended() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        before, told = await stage.get(DEPLOYMENTS, "chat-engine"), await stage.events()
        broken = runtime("0.85")
        broken["spec"]["engineConfig"]["runner"]["args"].append("--name={{.Name")
        await stage.apply(SERVING_RUNTIMES, broken)
        await stage.settle()
        assert await stage.get(DEPLOYMENTS, "chat-engine") == before
        assert await stage.events() == told
        await stage.apply(SERVING_RUNTIMES, runtime("0.85"))
        await stage.settle()
        assert (await stage.args())[-1] == "--mem-frac=0.85"

    run(scenario)


@pytest.mark.spec("SR-15")
def test_a_named_class_that_is_missing_leaves_the_workload_and_heals() -> None:
    async def scenario(stage: Stage) -> None:
        gpu: dict[str, Any] = {
            "metadata": {"name": "h100"},
            "spec": {"discovery": {"nodeSelector": {"gpu": "h100"}}, "capabilities": {}},
        }
        await stage.apply(ACCELERATOR_CLASSES, gpu)
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks())
        await stage.apply(SERVING_RUNTIMES, runtime(acceleratorRequirements={"acceleratorClasses": ["h100"]}))
        await stage.apply(INFERENCE_SERVICES, service(acceleratorSelector={"acceleratorClass": "h100"}))
        await stage.ready()
        before = await stage.get(DEPLOYMENTS, "chat-engine")
        await stage.client.delete(ACCELERATOR_CLASSES, "h100")
        await patch(stage, {"metadata": {"annotations": {"x": "y"}}})
        (event,) = await stage.events("AcceleratorClassError")
        assert event["type"] == "Warning"
        assert event["message"] == (
            "Failed to get accelerator class for engine: accelerator class h100 not found at cluster scope"
        )
        assert await stage.get(DEPLOYMENTS, "chat-engine") == before
        await stage.apply(ACCELERATOR_CLASSES, gpu)
        await stage.settle(30)
        template = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]
        assert template["metadata"]["annotations"]["x"] == "y"

    run(scenario)


@pytest.mark.spec("MO-25")
def test_a_fine_tuned_weight_without_a_strategy_blocks_until_it_has_one() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        weight: dict[str, Any] = {
            "metadata": {"name": "tuned"},
            "spec": {
                "baseModelRef": {"name": "llama"},
                "modelType": "llama",
                "hyperParameters": {},
                "configuration": {"merged_weights": True},
                "storage": {"storageUri": "oci://n/a/b/c/o/d"},
            },
        }
        await stage.apply(FINE_TUNED_WEIGHTS, weight)
        reference = {"name": "llama", "fineTunedWeights": ["tuned"]}
        await stage.apply(INFERENCE_SERVICES, service(model=reference))
        await stage.settle()
        assert await stage.find(DEPLOYMENTS, "chat-engine") is None
        weight["spec"]["hyperParameters"] = {"strategy": "lora"}
        await stage.apply(FINE_TUNED_WEIGHTS, weight)
        await stage.settle(60)
        spec = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]
        assert "models.ome.io/clusterbasemodel.llama" not in spec.get("nodeSelector", {})
        assert "llama" not in {volume["name"] for volume in spec["volumes"]}

    run(scenario)


def test_a_child_that_the_server_refuses_is_told_and_no_address_is_promised() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        runner = {"name": "ome-container", "resources": {"limits": {"cpu": "3"}}}
        await stage.apply(INFERENCE_SERVICES, service(engine={"runner": runner}))
        await stage.settle()
        (event,) = await stage.events("InternalError")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Failed to reconcile component: ")
        assert "must be less than or equal to cpu limit" in event["message"]
        status = await stage.status()
        assert "url" not in status
        assert "observedGeneration" not in status
        assert (await stage.condition("IngressReady") or {})["status"] == "Unknown"
        assert await stage.find(SERVICES, "chat-engine") is None
        runner["resources"] = {"limits": {"cpu": "20"}}
        await patch(stage, {"spec": {"engine": {"runner": runner}}})
        await stage.ready()

    run(scenario)


def test_a_failed_selection_is_told_once_however_many_runtimes_come() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks())
        await stage.apply(INFERENCE_SERVICES, service(runtime_ref={}))
        await stage.settle()
        for number in range(3):
            body = runtime(modelSizeRange={"min": "70B", "max": "80B"})
            body["metadata"]["name"] = f"other-{number}"
            await stage.apply(SERVING_RUNTIMES, body)
            await stage.settle()
        (event,) = await stage.events("RuntimeNotFound")
        assert (event["type"], event["count"]) == ("Warning", 1)
        condition = await stage.condition("RuntimeReady")
        assert condition is not None
        assert "Checked 3 runtimes" in condition["message"]

    run(scenario)


@pytest.mark.spec("IS-7")
def test_without_the_operators_default_kubernetes_own_grace_period_acts() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        spec = (await stage.get(DEPLOYMENTS, "chat-engine"))["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] == 30

    run(scenario, config={"deploy": '{"defaultDeploymentMode": "RawDeployment"}'})


@pytest.mark.spec("IS-57")
def test_a_components_url_has_no_port_and_follows_the_domain() -> None:
    async def scenario(stage: Stage) -> None:
        await serving(stage)
        assert (await stage.status())["components"]["engine"]["url"] == "http://chat-engine.prod.svc.cluster.local"
        await patch(stage, {"metadata": {"annotations": {"ome.io/ingress-domain": "example.com"}}})
        assert (await stage.status())["components"]["engine"]["url"] == "http://chat-engine.prod.example.com"

    run(scenario)
