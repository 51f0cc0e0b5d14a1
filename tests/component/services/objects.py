"""Objects that the tests of this folder begin with: the first seed's runtime, model and service, named shorter."""

from __future__ import annotations

import json
from typing import Any

from ome.kube.resources import CLUSTER_BASE_MODELS, CONFIG_MAPS, INFERENCE_SERVICES, SERVING_RUNTIMES

from .stage import OME, Stage

Json = dict[str, Any]

CONFIG = {
    "modelType": "llama",
    "modelArchitecture": "LlamaForCausalLM",
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
    "modelParameterSize": "3.21B",
    "maxTokens": 131072,
    "modelCapabilities": ["TEXT_TO_TEXT"],
}


def runtime(fraction: str = "0.9", **changes: Any) -> Json:
    """The seed's runtime, hash-relevant parts exact; `changes` are laid over the spec."""
    runner = {
        "name": "ome-container",
        "image": "docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64",
        "command": ["python3", "-m", "sglang.launch_server"],
        "args": [
            "--host=0.0.0.0",
            "--port=8080",
            "--model-path=$(MODEL_PATH)",
            "--served-model-name={{.Name}}",
            "--tp-size=1",
            f"--mem-frac={fraction}",
        ],
        "ports": [{"containerPort": 8080, "name": "http1", "protocol": "TCP"}],
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
        "resources": {
            "requests": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
            "limits": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
        },
        "readinessProbe": {
            "httpGet": {"path": "/health_generate", "port": 8080},
            "periodSeconds": 60,
            "timeoutSeconds": 200,
        },
        "startupProbe": {
            "httpGet": {"path": "/health_generate", "port": 8080},
            "initialDelaySeconds": 60,
            "periodSeconds": 6,
            "timeoutSeconds": 30,
            "failureThreshold": 150,
        },
    }
    spec = {
        "supportedModelFormats": [
            {
                "modelFormat": {"name": "safetensors", "version": "1.0.0"},
                "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
                "modelArchitecture": "LlamaForCausalLM",
                "autoSelect": True,
                "priority": 1,
            }
        ],
        "modelSizeRange": {"min": "2B", "max": "4B"},
        "engineConfig": {
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            "runner": runner,
        },
        **changes,
    }
    return {"metadata": {"name": "sglang", "namespace": "prod"}, "spec": spec}


def model(name: str = "llama") -> Json:
    storage = {"storageUri": "hf://meta-llama/Llama-3.2-3B-Instruct", "path": f"/raid/models/{name}"}
    return {"metadata": {"name": name}, "spec": {"vendor": "meta", "storage": storage}}


def marks(model_name: str = "llama", status: str = "Ready", node: str = "gpu-1", **entry: Any) -> Json:
    """What the model agent of a node leaves about a ClusterBaseModel."""
    value = {"name": model_name, "status": status, "config": CONFIG, **entry}
    return {
        "metadata": {
            "name": node,
            "namespace": OME,
            "labels": {"models.ome/basemodel-status": "true", "node": node},
        },
        "data": {f"clusterbasemodel.{model_name}": json.dumps(value)},
    }


def service(
    name: str = "chat",
    *,
    runtime_ref: Json | None = None,
    engine: Json | None = None,
    annotations: Json | None = None,
    labels: Json | None = None,
    **spec: Any,
) -> Json:
    """A service of the model `llama` on the runtime `sglang`; `runtime_ref` {} = none named."""
    reference = {"name": "sglang", "kind": "ServingRuntime"} if runtime_ref is None else runtime_ref
    body: Json = {
        "model": {"name": "llama"},
        "engine": {"minReplicas": 1, "maxReplicas": 1} if engine is None else engine,
        **spec,
    }
    if reference:
        body["runtime"] = reference
    metadata: Json = {"name": name, "namespace": "prod"}
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {key: value for key, value in body.items() if value is not None}}


def pinned(**changes: Any) -> Json:
    """A service that pins its runtime."""
    reference = {"name": "sglang", "kind": "ServingRuntime", "autoSync": False, **changes.pop("reference", {})}
    return service(runtime_ref=reference, **changes)


async def model_and_runtime(stage: Stage) -> None:
    """The model Ready on one node, and the runtime."""
    await stage.apply(CLUSTER_BASE_MODELS, model())
    await stage.apply(CONFIG_MAPS, marks())
    await stage.apply(SERVING_RUNTIMES, runtime())
    await stage.settle(1)


async def serving(stage: Stage, obj: Json | None = None) -> None:
    """Model, runtime and a Ready service."""
    await model_and_runtime(stage)
    await stage.apply(INFERENCE_SERVICES, obj or service())
    await stage.ready()
    await stage.settle()
