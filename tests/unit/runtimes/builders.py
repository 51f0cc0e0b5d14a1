"""Short ways to say what runtimes, revisions and pins look like."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import msgspec

from ome.api.canonical import canonical_runtime
from ome.runtimes.reading import Runtime, RuntimeKind
from ome.runtimes.revisions import StoredRevision, draft_revision

EXAMPLE: dict[str, Any] = {
    "supportedModelFormats": [
        {
            "modelFormat": {"name": "safetensors", "version": "1.0.0", "operator": "Equal", "weight": 1},
            "modelFramework": {"name": "transformers", "version": "4.45.0.dev0", "operator": "Equal", "weight": 1},
            "modelArchitecture": "LlamaForCausalLM",
            "autoSelect": True,
            "priority": 1,
        }
    ],
    "modelSizeRange": {"min": "2B", "max": "4B"},
    "engineConfig": {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
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
                "--mem-frac=0.9",
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
        },
    },
}
NAME = "sglang-llama-3-2-3b"
NAMESPACE = "llama-demo"
REVISION_90 = "r-llama-demo-sglang-llama-3-2-3b-590753e8"
REVISION_85 = "r-llama-demo-sglang-llama-3-2-3b-af9539ac"


def example(fraction: str = "0.9", **top: Any) -> dict[str, Any]:
    """The example spec with another `--mem-frac`."""
    spec = deepcopy(EXAMPLE)
    spec["engineConfig"]["runner"]["args"][-1] = f"--mem-frac={fraction}"
    return {**spec, **top}


def runtime(
    name: str = NAME,
    spec: dict[str, Any] | None = None,
    *,
    namespace: str = "",
    parent: str = "",
    version: str = "",
) -> Runtime:
    """A ClusterServingRuntime, or a ServingRuntime with a namespace."""
    return Runtime(
        kind=RuntimeKind.NAMESPACED if namespace else RuntimeKind.CLUSTER,
        name=name,
        namespace=namespace,
        spec=spec or {},
        annotations={"ome.io/inherit-from": parent} if parent else {},
        uid=f"uid-{namespace}-{name}",
        version=version,
    )


def stored(
    spec: dict[str, Any],
    *,
    kind: str = "ServingRuntime",
    name: str = NAME,
    namespace: str = NAMESPACE,
    **changes: Any,
) -> StoredRevision:
    """The revision OME would have stored of a spec, read back."""
    draft = draft_revision(kind, name, namespace, spec)
    made = draft.to_object("ome")
    parts = {
        "name": made["metadata"]["name"],
        "labels": made["metadata"]["labels"],
        "annotations": made["metadata"]["annotations"],
        "data": msgspec.Raw(json.dumps(made["data"]).encode()),
        **changes,
    }
    return StoredRevision(**parts)


def canonical(spec: dict[str, Any]) -> str:
    return canonical_runtime(spec).decode()
