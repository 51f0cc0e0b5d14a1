"""Models over the marks of their nodes (spec/models.md section 4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.kube.resources import BASE_MODELS, CLUSTER_BASE_MODELS, CONFIG_MAPS, DEPLOYMENTS, INFERENCE_SERVICES, NODES
from tests.component.services.objects import CONFIG, marks, model, model_and_runtime, service
from tests.component.services.stage import OME, Stage, run


async def status(stage: Stage) -> dict[str, Any]:
    return (await stage.get(CLUSTER_BASE_MODELS, "llama")).get("status") or {}


@pytest.mark.spec("MO-2")
def test_a_model_is_ready_with_its_first_node() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.settle()
        assert (await status(stage))["state"] == "In_Transit"
        await stage.apply(CONFIG_MAPS, marks(status="Failed", node="gpu-2"))
        await stage.settle()
        assert (await status(stage))["state"] == "Failed"
        await stage.apply(CONFIG_MAPS, marks(node="gpu-3"))
        await stage.apply(CONFIG_MAPS, marks(node="gpu-1"))
        await stage.settle()
        found = await status(stage)
        assert found["state"] == "Ready"
        assert found["nodesReady"] == ["gpu-1", "gpu-3"]
        assert found["nodesFailed"] == ["gpu-2"]
        obj = await stage.get(CLUSTER_BASE_MODELS, "llama")
        assert found["observedGeneration"] == obj["metadata"]["generation"]
        assert obj["spec"]["modelFormat"]["name"] == "safetensors"
        assert obj["spec"]["maxTokens"] == CONFIG["maxTokens"]
        stage.calls.clear()
        await stage.settle(60)
        assert stage.calls == []

    run(scenario)


@pytest.mark.spec("MO-5")
def test_an_authors_value_survives() -> None:
    async def scenario(stage: Stage) -> None:
        body = model()
        body["spec"]["modelParameterSize"] = "7B"
        await stage.apply(CLUSTER_BASE_MODELS, body)
        await stage.apply(CONFIG_MAPS, marks())
        await stage.settle()
        spec = (await stage.get(CLUSTER_BASE_MODELS, "llama"))["spec"]
        assert spec["modelParameterSize"] == "7B"
        assert spec["modelType"] == "llama"

    run(scenario)


@pytest.mark.spec("MO-17")
def test_a_model_goes_when_no_node_records_it_and_a_gone_node_does_not_count() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.apply(CLUSTER_BASE_MODELS, model())
        await stage.apply(CONFIG_MAPS, marks(node="gpu-1"))
        await stage.apply(CONFIG_MAPS, marks(node="gpu-2"))
        await stage.settle()
        await stage.client.delete(CLUSTER_BASE_MODELS, "llama")
        await stage.settle()
        assert await stage.find(CLUSTER_BASE_MODELS, "llama") is not None
        await stage.client.delete(NODES, "gpu-1")
        await stage.settle()
        assert await stage.find(CONFIG_MAPS, "gpu-1", OME) is None
        assert await stage.find(CLUSTER_BASE_MODELS, "llama") is not None
        await stage.apply(CONFIG_MAPS, marks(node="gpu-2", status="Deleted"))
        await stage.settle()
        assert await stage.find(CLUSTER_BASE_MODELS, "llama") is None

    run(scenario)


@pytest.mark.spec("MO-28")
def test_a_namespaces_own_model_of_the_name_is_used() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        own = model()
        own["metadata"]["namespace"] = "prod"
        own["spec"]["storage"]["path"] = "/raid/own"
        own["spec"] |= {key: CONFIG[key] for key in ("modelFormat", "modelFramework", "modelArchitecture")}
        await stage.apply(BASE_MODELS, own)
        await stage.apply(INFERENCE_SERVICES, service())
        deployment = await stage.eventually(lambda: stage.find(DEPLOYMENTS, "chat-engine"))
        spec = deployment["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"models.ome.io/prod.basemodel.llama": "Ready"}
        assert "/raid/own" in json.dumps(spec)

    run(scenario)


@pytest.mark.spec("MO-12")
def test_pods_get_the_models_directory_and_its_nodes() -> None:
    async def scenario(stage: Stage) -> None:
        await model_and_runtime(stage)
        await stage.apply(INFERENCE_SERVICES, service())
        deployment = await stage.eventually(lambda: stage.find(DEPLOYMENTS, "chat-engine"))
        spec = deployment["spec"]["template"]["spec"]
        container = spec["containers"][0]
        assert spec["nodeSelector"] == {"models.ome.io/clusterbasemodel.llama": "Ready"}
        assert {"name": "MODEL_PATH", "value": "/raid/models/llama"} in container["env"]
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts["llama"] == {"name": "llama", "mountPath": "/raid/models/llama", "readOnly": True}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["llama"]["hostPath"]["path"] == "/raid/models/llama"
        on_claim = model("claimed")
        on_claim["spec"] |= {key: CONFIG[key] for key in ("modelFormat", "modelFramework", "modelArchitecture")}
        on_claim["spec"]["storage"] = {"storageUri": "pvc://prod:weights/llama"}
        await stage.apply(CLUSTER_BASE_MODELS, on_claim)
        await stage.apply(INFERENCE_SERVICES, service("second", model={"name": "claimed"}))
        deployment = await stage.eventually(lambda: stage.find(DEPLOYMENTS, "second-engine"))
        spec = deployment["spec"]["template"]["spec"]
        assert "nodeSelector" not in spec
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert (mounts["claimed"]["mountPath"], mounts["claimed"]["subPath"]) == ("/opt/ml/model", "llama")
        assert {"name": "MODEL_PATH", "value": "/opt/ml/model"} in spec["containers"][0]["env"]

    run(scenario)
