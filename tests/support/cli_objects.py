"""Builders of the objects that kubectl-ome reads, starting from the `chat` service of the held-revision walkthrough."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from ome.api.canonical import canonical_runtime, runtime_hash, short_hash

NOW = datetime(2026, 9, 28, 14, 3, 12, tzinfo=UTC)
HELD = "chat-engine-7f9c4d2b"
SERVICE_UID = "5b1f2a44-0c1d-4f7e-8d29-2d1f0f6f9a11"
REPLICA_UID = "3f6d2c9e-8b41-4d7a-9c0e-5a1b7e2f4d68"


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` laid over a copy of `base`; a value of None removes the key."""
    found = deepcopy(base)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merged(found[key], value)
        else:
            found[key] = deepcopy(value)
    return found


def service(name: str = "chat", namespace: str = "prod", **changes: Any) -> dict[str, Any]:
    """An OMENative service with an engine, observed, on the runtime `srt-qwen3-0-6b`."""
    base = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": SERVICE_UID,
            "resourceVersion": "184100",
            "generation": 2,
        },
        "spec": {
            "deploymentMode": "OMENative",
            "model": {"name": "qwen3-0-6b", "kind": "ClusterBaseModel"},
            "runtime": {"name": "srt-qwen3-0-6b", "kind": "ClusterServingRuntime", "autoSync": True},
            "engine": {"minReplicas": 3, "maxReplicas": 3},
        },
        "status": {"observedGeneration": 2, "conditions": []},
    }
    return merged(base, changes)


def block(target: str = HELD, **changes: Any) -> dict[str, Any]:
    """The Held block of the walkthrough."""
    base = {
        "targetRevision": target,
        "state": "Held",
        "attemptsStarted": 3,
        "firstFailureAt": "2026-09-28T13:50:00Z",
        "lastFailureAt": "2026-09-28T13:55:00Z",
        "reason": "ImagePullBackOff",
    }
    return merged(base, changes)


def replica(
    component: str = "engine",
    of: dict[str, Any] | None = None,
    *,
    blocks: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """The service's InferenceReplica of a component: current, three Ready Instances."""
    parent = of or service()
    name = f"{parent['metadata']['name']}-{component}"
    base = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "metadata": {
            "name": name,
            "namespace": parent["metadata"]["namespace"],
            "uid": REPLICA_UID if component == "engine" else f"{component}-uid",
            "resourceVersion": "184213",
            "generation": 4,
            "labels": {"ome.io/inferenceservice": parent["metadata"]["name"]},
            "annotations": {
                "ome.io/controller-write": "true",
                "ome.io/parent-generation": str(parent["metadata"]["generation"]),
            },
            "ownerReferences": [
                {
                    "apiVersion": "ome.io/v1beta1",
                    "kind": "InferenceService",
                    "name": parent["metadata"]["name"],
                    "uid": parent["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"component": component, "replicas": 3, "parentRef": {"name": parent["metadata"]["name"]}},
        "status": {
            "observedGeneration": 4,
            "replicas": 3,
            "readyReplicas": 3,
            "servingReplicas": 3,
            "availableReplicas": 3,
            "currentRevision": f"{name}-6c4f8b1d",
            "updateRevision": f"{name}-6c4f8b1d",
            "instanceStatuses": [row(index, f"{name}-6c4f8b1d") for index in range(3)],
        },
    }
    if blocks is not None:
        base["status"]["retryBlocks"] = blocks  # type: ignore[index]
    return merged(base, changes)


def row(index: int, revision: str, **changes: Any) -> dict[str, Any]:
    base = {
        "index": index,
        "incarnation": 1,
        "phase": "Ready",
        "runningRevision": revision,
        "targetRevision": revision,
        "podCount": 1,
        "servingPodCount": 1,
        "availablePodCount": 1,
        "admitted": True,
    }
    return merged(base, changes)


def runtime_spec(fraction: str = "0.9", **changes: Any) -> dict[str, Any]:
    """The runtime of the pinning walkthrough as the API server stores it; `0.9` hashes to 590753e8, `0.85` to
    af9539ac.
    """
    base = {
        "supportedModelFormats": [
            {
                "modelFormat": {"name": "safetensors", "version": "1.0.0", "operator": "Equal", "weight": 1},
                "modelFramework": {
                    "name": "transformers",
                    "version": "4.45.0.dev0",
                    "operator": "Equal",
                    "weight": 1,
                },
                "modelArchitecture": "LlamaForCausalLM",
                "autoSelect": True,
                "priority": 1,
            }
        ],
        "modelSizeRange": {"min": "2B", "max": "4B"},
        "engineConfig": {
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "runner": {
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
                "ports": [{"name": "http1", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {
                    "limits": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
                    "requests": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
                },
                "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
                "readinessProbe": {
                    "httpGet": {"path": "/health_generate", "port": 8080},
                    "timeoutSeconds": 200,
                    "periodSeconds": 60,
                },
                "startupProbe": {
                    "httpGet": {"path": "/health_generate", "port": 8080},
                    "initialDelaySeconds": 60,
                    "timeoutSeconds": 30,
                    "periodSeconds": 6,
                    "failureThreshold": 150,
                },
            },
        },
    }
    return merged(base, changes)


def runtime(name: str, spec: dict[str, Any], namespace: str = "", **metadata: Any) -> dict[str, Any]:
    """A ServingRuntime of a namespace, or a ClusterServingRuntime without one."""
    base = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ServingRuntime" if namespace else "ClusterServingRuntime",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "77", "generation": 1},
        "spec": spec,
    }
    if namespace:
        base["metadata"]["namespace"] = namespace  # type: ignore[index]
    return merged(base, {"metadata": metadata})


def revision(
    runtime_name: str,
    spec: dict[str, Any],
    namespace: str = "",
    *,
    created: str = "2026-09-28T14:15:57Z",
    ome_namespace: str = "ome",
    **changes: Any,
) -> dict[str, Any]:
    """The ControllerRevision OME stores of a merged spec."""
    import json

    hash8 = short_hash(runtime_hash(spec))
    prefix = f"r-{namespace}-{runtime_name}" if namespace else f"cr-{runtime_name}"
    base = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{prefix}-{hash8}",
            "namespace": ome_namespace,
            "uid": f"uid-{hash8}",
            "resourceVersion": "500",
            "creationTimestamp": created,
            "labels": {
                "ome.io/runtime-of": runtime_name,
                "ome.io/runtime-of-kind": "ServingRuntime" if namespace else "ClusterServingRuntime",
                "ome.io/runtime-of-namespace": namespace,
                "ome.io/revision-hash": hash8,
            },
            "annotations": {"ome.io/created-by": "ome-controller"},
        },
        "data": json.loads(canonical_runtime(spec)),
        "revision": 1,
    }
    return merged(base, changes)


LLAMA = "llama-3-2-3b-instruct"
LLAMA_RUNTIME = "sglang-llama-3-2-3b"
LLAMA_NAMESPACE = "llama-demo"
REVISION_A = "r-llama-demo-sglang-llama-3-2-3b-590753e8"
REVISION_B = "r-llama-demo-sglang-llama-3-2-3b-af9539ac"


def pinned_service(pinned: str = REVISION_A, **changes: Any) -> dict[str, Any]:
    """The service of the pinning walkthrough, pinned to a revision; RawDeployment."""
    base = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": LLAMA,
            "namespace": LLAMA_NAMESPACE,
            "uid": "8f7c1f43-90a2-4f37-8ad5-6f9a0f0b7d10",
            "resourceVersion": "900",
            "generation": 1,
        },
        "spec": {
            "model": {"name": LLAMA, "kind": "ClusterBaseModel"},
            "runtime": {"name": LLAMA_RUNTIME, "kind": "ServingRuntime", "autoSync": False},
            "engine": {"minReplicas": 1, "maxReplicas": 1},
        },
        "status": {"observedGeneration": 1, "pinnedRevisionName": pinned, "conditions": []},
    }
    return merged(base, changes)


def drifted(status: str = "True", reason: str = "RevisionMismatch") -> dict[str, Any]:
    return {"type": "RuntimeDrifted", "status": status, "reason": reason, "lastTransitionTime": "2026-09-28T14:00:00Z"}


def model(name: str = LLAMA, **spec: Any) -> dict[str, Any]:
    base = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterBaseModel",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "11", "generation": 1},
        "spec": {
            "modelFormat": {"name": "safetensors", "version": "1.0.0"},
            "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
            "modelArchitecture": "LlamaForCausalLM",
            "modelParameterSize": "3.21B",
        },
    }
    return merged(base, {"spec": spec})
