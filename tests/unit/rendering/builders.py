"""The example runtime of the specification and short ways to say what a service, model or class looks like."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from ome.rendering.model import (
    AcceleratorFacts,
    Component,
    ModelFacts,
    RenderDefaults,
    RenderedComponent,
    RenderInput,
    RuntimeFacts,
    ServiceFacts,
)
from ome.rendering.render import render_component

RUNNER: dict[str, Any] = {
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
}
FORMAT: dict[str, Any] = {
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "modelFramework": {"name": "transformers", "version": "4.46.0"},
    "modelArchitecture": "LlamaForCausalLM",
    "autoSelect": True,
}
MODEL = ModelFacts(
    name="llama-3-2-3b",
    spec={
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.46.0"},
        "modelArchitecture": "LlamaForCausalLM",
        "modelParameterSize": "3.21B",
        "vendor": "meta-llama",
        "storage": {"storageUri": "hf://meta-llama/Llama-3.2-3B", "path": "/raid/models/llama-3-2-3b"},
    },
)
PVC = replace(MODEL, namespace="prod", spec={**MODEL.spec, "storage": {"storageUri": "pvc://weights/llama/3b"}})


def runtime_spec(config: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """The example runtime's spec; `config` replaces fields of engineConfig."""
    engine = {
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        "runner": deepcopy(RUNNER),
        **(config or {}),
    }
    return {"supportedModelFormats": [deepcopy(FORMAT)], "engineConfig": engine, **top}


def facts(
    engine: dict[str, Any] | None = None,
    *,
    config: dict[str, Any] | None = None,
    runtime: dict[str, Any] | None = None,
    model: ModelFacts | None = MODEL,
    accelerator: AcceleratorFacts | None = None,
    service: dict[str, Any] | None = None,
    components: dict[Component, dict[str, Any]] | None = None,
    defaults: RenderDefaults | None = None,
    **more: Any,
) -> RenderInput:
    """A service `chat` in `prod` on the example runtime; keywords replace one part each."""
    declared: dict[Component, dict[str, Any]] = {Component.ENGINE: engine or {}, **(components or {})}
    return RenderInput(
        service=ServiceFacts(**{"name": "chat", "namespace": "prod", "components": declared, **(service or {})}),
        runtime=RuntimeFacts(name="sglang", spec=runtime_spec(config, **(runtime or {}))),
        model=model,
        accelerators={Component.ENGINE: accelerator} if accelerator else {},
        defaults=defaults or RenderDefaults(),
        **more,
    )


def engine(given: RenderInput) -> RenderedComponent:
    return render_component(given, Component.ENGINE)


def main(rendered: RenderedComponent) -> dict[str, Any]:
    """The last container: the runner, unless the pod spec names it earlier."""
    container: dict[str, Any] = rendered.template["spec"]["containers"][-1]
    return container


def env(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}
