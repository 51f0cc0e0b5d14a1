"""The seed's stage: a model, a runtime and the service `chat` of three OMENative Instances, with quick retries."""

from __future__ import annotations

import json
from typing import Any

from ome.kube.resources import CONFIG_MAPS, INFERENCE_REPLICAS, NODES, PODS
from tests.support.world import World

Json = dict[str, Any]

ROOMS = ("ome.services", "ome.models", "ome.runtimes", "ome.omenative")
IMAGE = "docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64"
MISSING = "docker.io/lmsysorg/sglang:v0.0.0-missing"
QUICK: Json = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "8s",
    "unschedulableGracePeriod": "15m",
    "revisionHistoryLimit": 10,
    "updateRetry": {"maxAttempts": 3, "initialDelay": "5s", "maxDelay": "30m", "multiplier": 2.0},
}

MODEL: Json = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "ClusterBaseModel",
    "metadata": {"name": "qwen3-0-6b"},
    "spec": {
        "vendor": "Qwen",
        "modelCapabilities": ["TEXT_TO_TEXT"],
        "storage": {"storageUri": "hf://Qwen/Qwen3-0.6B", "path": "/raid/models/Qwen/Qwen3-0.6B"},
    },
}
RUNTIME: Json = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "ClusterServingRuntime",
    "metadata": {"name": "srt-qwen3-0-6b"},
    "spec": {
        "supportedModelFormats": [
            {
                "modelFormat": {"name": "safetensors", "version": "1.0.0"},
                "modelFramework": {"name": "transformers", "version": "4.51.0"},
                "modelArchitecture": "Qwen3ForCausalLM",
                "priority": 1,
            }
        ],
        "modelSizeRange": {"min": "500M", "max": "1B"},
        "engineConfig": {
            "runner": {
                "name": "ome-container",
                "image": IMAGE,
                "command": ["python3", "-m", "sglang.launch_server", "--port=8080"],
                "ports": [{"containerPort": 8080, "name": "http1", "protocol": "TCP"}],
                "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
            }
        },
    },
}
_READ = {
    "name": "qwen3-0-6b",
    "status": "Ready",
    "config": {
        "modelType": "qwen3",
        "modelArchitecture": "Qwen3ForCausalLM",
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.51.0"},
        "modelParameterSize": "596M",
        "maxTokens": 40960,
        "modelCapabilities": ["TEXT_TO_TEXT"],
    },
}


def chat(image: str = IMAGE, *, replicas: int = 3, env: list[Json] | None = None, **engine: Any) -> Json:
    """The seed's InferenceService."""
    runner: Json = {"name": "ome-container", "image": image, **({"env": env} if env else {})}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "prod"},
        "spec": {
            "deploymentMode": "OMENative",
            "model": {"name": "qwen3-0-6b"},
            "runtime": {"name": "srt-qwen3-0-6b"},
            "engine": {
                "minReplicas": replicas,
                "maxReplicas": replicas,
                "runner": runner,
                "lifecycle": {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}},
                **engine,
            },
        },
    }


async def set_stage(world: World, lifecycle: Json = QUICK) -> None:
    """Namespace, configuration, model (ready on every node) and runtime."""
    await world.merge(CONFIG_MAPS, "inferenceservice-config", "ome", {"data": {"lifecycle": json.dumps(lifecycle)}})
    await model_and_runtime(world)


async def model_and_runtime(world: World) -> None:
    """Namespace, model (ready on every node) and runtime."""
    await world.make_namespace("prod")
    nodes = [node["metadata"]["name"] for node in await world.list(NODES)]
    for node in nodes:
        marks = {"metadata": {"labels": {"models.ome.io/clusterbasemodel.qwen3-0-6b": "Ready"}}}
        await world.merge(NODES, node, "", marks)
    report = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": nodes[0],
            "namespace": "ome",
            "labels": {"models.ome/basemodel-status": "true", "node": nodes[0]},
            "annotations": {"models.ome.io/node-name": nodes[0], "models.ome.io/managed-by": "model-agent"},
        },
        "data": {"clusterbasemodel.qwen3-0-6b": json.dumps(_READ)},
    }
    await world.apply(MODEL, RUNTIME, report)


async def images(world: World, *denied: str) -> None:
    """Say which images do not exist."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "local-images", "namespace": "kube-system"},
        "data": {"denied": "\n".join(denied)},
    }
    await world.apply(body)


async def replica(world: World, name: str = "chat-engine") -> Json:
    return await world.get(INFERENCE_REPLICAS, name, "prod")


async def status(world: World) -> Json:
    found: Json = (await replica(world)).get("status") or {}
    return found


async def state(world: World) -> str:
    """State of the first retry block, empty without one."""
    blocks = (await status(world)).get("retryBlocks") or []
    return str(blocks[0]["state"]) if blocks else ""


async def pod_names(world: World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await world.list(PODS, "prod"))


async def settled(world: World, timeout: float = 60) -> Json:
    """Wait until all Instances are Ready on the update revision; the status."""

    async def check() -> Json:
        obj = await replica(world)
        found = obj["status"]
        assert found["observedGeneration"] == obj["metadata"]["generation"]
        assert found["currentRevision"] == found["updateRevision"]
        assert found["servingReplicas"] == found["replicas"] == obj["spec"]["replicas"]
        assert not [p for p in await world.list(PODS, "prod") if p["metadata"].get("deletionTimestamp")]
        return dict(found)

    return dict(await world.eventually(check, timeout=timeout))
