"""Objects as users write them, and a world of lookups that never changes."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ome.admission.review import Verdict
from ome.admission.services.proposal import Features
from ome.admission.services.validator import validate_service
from ome.admission.world import _TYPES, Sources, World
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
    Resource,
)

Json = dict[str, Any]
NAMESPACE = "llama-demo"

_RESOURCES = {
    "BaseModel": BASE_MODELS,
    "ClusterBaseModel": CLUSTER_BASE_MODELS,
    "ServingRuntime": SERVING_RUNTIMES,
    "ClusterServingRuntime": CLUSTER_SERVING_RUNTIMES,
    "AcceleratorClass": ACCELERATOR_CLASSES,
    "InferenceReplica": INFERENCE_REPLICAS,
    "InferenceService": INFERENCE_SERVICES,
}


class FixedCache:
    """What a cache answers, from a list."""

    def __init__(self, resource: Resource, objects: list[Json]) -> None:
        decoded = [msgspec.convert(obj, _TYPES[resource]) for obj in objects]
        self._objects = {(obj.metadata.namespace, obj.metadata.name): obj for obj in decoded}

    def get(self, namespace: str, name: str) -> Any:
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> list[Any]:
        return [obj for key, obj in self._objects.items() if not namespace or key[0] == namespace]


def world(*objects: Json) -> World:
    caches = {
        resource: FixedCache(resource, [obj for obj in objects if obj["kind"] == kind])
        for kind, resource in _RESOURCES.items()
    }
    return World(Sources(cast(Any, caches), cast(Any, None)))


def obj(kind: str, name: str, namespace: str = "", *, annotations: Any = None, owner: str = "", **spec: Any) -> Json:
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if annotations:
        metadata["annotations"] = annotations
    if owner:
        metadata["ownerReferences"] = [{"kind": "InferenceService", "name": owner, "uid": "1", "controller": True}]
    return {"kind": kind, "metadata": metadata, "spec": spec}


def model(name: str = "llama", **spec: Any) -> Json:
    complete = {
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.45.0"},
        "modelArchitecture": "LlamaForCausalLM",
        "modelParameterSize": "3.21B",
        "storage": {"storageUri": f"hf://meta/{name}", "path": f"/models/{name}"},
    }
    return obj("ClusterBaseModel", name, **(complete | spec))


def runtime(name: str = "sglang", namespace: str = NAMESPACE, *, annotations: Any = None, **spec: Any) -> Json:
    kind = "ServingRuntime" if namespace else "ClusterServingRuntime"
    complete = {
        "supportedModelFormats": [
            {
                "modelFormat": {"name": "safetensors", "version": "1.0.0", "operator": "Equal", "weight": 1},
                "modelFramework": {"name": "transformers", "version": "4.45.0", "operator": "Equal", "weight": 1},
                "modelArchitecture": "LlamaForCausalLM",
                "autoSelect": True,
                "priority": 1,
            }
        ],
        "engineConfig": {"runner": {"name": "ome-container", "image": "sglang:1"}},
    }
    return obj(kind, name, namespace, annotations=annotations, **(complete | spec))


def service(name: str = "chat", *, annotations: Any = None, **spec: Any) -> Json:
    """A service of model `llama` and ServingRuntime `sglang` with an engine, unless told otherwise; None takes away."""
    complete = {
        "model": {"name": "llama", "kind": "ClusterBaseModel", "apiGroup": "ome.io"},
        "runtime": {"name": "sglang", "kind": "ServingRuntime"},
        "engine": {},
    } | spec
    return obj(
        "InferenceService",
        name,
        NAMESPACE,
        annotations=annotations,
        **{field: value for field, value in complete.items() if value is not None},
    )


def usual() -> list[Json]:
    return [model(), runtime()]


def judged(new: Json, *others: Json, old: Json | None = None, features: Features | None = None) -> Verdict:
    """The verdict on a service in a world of the usual model and runtime, and `others`."""
    return validate_service(new, old, world(*usual(), *others), features or Features())


def refusal(new: Json, *others: Json, old: Json | None = None, features: Features | None = None) -> str:
    """The reason of a denial, "" when admitted."""
    return judged(new, *others, old=old, features=features).message
