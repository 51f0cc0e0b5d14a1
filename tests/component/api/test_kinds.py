"""OME's kinds as an API server serves them: discovery, defaults, refusals, columns, removed fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ome.api.crds import KINDS
from ome.api.types import InferenceReplicaStatus, InstanceStatus
from ome.kube import resources
from ome.kube.errors import BadRequest, Invalid
from ome.kube.requests import Request
from ome.kube.resources import Resource
from ome.omenative.encoding import dense, wire
from tests.support.world import World, in_world, resource_of

BY_KIND = {kind.kind: kind for kind in KINDS}
METADATA = {"name": "x", "namespace": "prod"}
STORAGE = {"storageUri": "hf://a/b"}
FORMAT = {"name": "safetensors"}

MINIMAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "InferenceService": (
        {"model": {"name": "m", "overlays": [{"name": "o"}]}, "runtime": {"name": "r"}},
        {
            "model": {
                "name": "m",
                "kind": "ClusterBaseModel",
                "apiGroup": "ome.io",
                "overlays": [{"name": "o", "kind": "ClusterBaseModel", "apiGroup": "ome.io"}],
            },
            "runtime": {"name": "r", "kind": "ClusterServingRuntime", "apiGroup": "ome.io", "autoSync": True},
        },
    ),
    "ServingRuntime": (
        {"supportedModelFormats": [{"modelFormat": FORMAT, "modelFramework": {"name": "transformers"}}]},
        {
            "supportedModelFormats": [
                {
                    "modelFormat": {**FORMAT, "operator": "Equal", "weight": 1},
                    "modelFramework": {"name": "transformers", "operator": "Equal", "weight": 1},
                }
            ]
        },
    ),
    "ClusterServingRuntime": ({}, {}),
    "BaseModel": ({"storage": STORAGE}, {"storage": STORAGE}),
    "ClusterBaseModel": ({"storage": STORAGE}, {"storage": STORAGE}),
    "FineTunedWeight": (
        {"baseModelRef": {"name": "m"}, "modelType": "t", "hyperParameters": {}, "storage": STORAGE},
        {"baseModelRef": {"name": "m"}, "modelType": "t", "hyperParameters": {}, "storage": STORAGE},
    ),
    "AcceleratorClass": (
        {"discovery": {}, "capabilities": {}, "resources": [{"name": "nvidia.com/gpu"}]},
        {"discovery": {}, "capabilities": {}, "resources": [{"name": "nvidia.com/gpu", "quantity": "1"}]},
    ),
    "InferenceReplica": (
        {"component": "engine", "runners": [{"name": "default", "size": 1, "template": {}}]},
        {"component": "engine", "runners": [{"name": "default", "size": 1, "template": {}}]},
    ),
    "BenchmarkJob": (
        {
            "endpoint": {"endpoint": {"url": "http://x", "apiFormat": "openai"}},
            "task": "text-to-text",
            "maxTimePerIteration": 1,
            "maxRequestsPerIteration": 1,
            "outputLocation": STORAGE,
        },
        {
            "endpoint": {"endpoint": {"url": "http://x", "apiFormat": "openai"}},
            "task": "text-to-text",
            "maxTimePerIteration": 1,
            "maxRequestsPerIteration": 1,
            "outputLocation": STORAGE,
        },
    ),
    "TrafficMap": ({"service": "s"}, {"service": "s"}),
    "WorkloadCluster": (
        {"clusterSource": {"kubeConfig": {"secretRef": {"name": "s"}}}},
        {"clusterSource": {"kubeConfig": {"secretRef": {"name": "s"}, "key": "kubeconfig"}}},
    ),
    "AcceleratorQuota": ({"role": "Cohort"}, {"role": "Cohort"}),
}


def obj(kind: str, spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": "prod"} if BY_KIND[kind].namespaced else {})
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def served(kind: str) -> Resource:
    known = BY_KIND[kind]
    return Resource("ome.io", "v1beta1", known.plural, kind, known.namespaced)


@pytest.mark.spec("AP-1")
@in_world(workloads=False)
async def test_discovery_lists_the_group(world: World) -> None:
    expected = {kind.plural: kind for kind in KINDS if not kind.feature}

    async def discover() -> dict[str, dict[str, Any]]:
        answer = await world.client.request(Request("GET", "/apis/ome.io/v1beta1"))
        entries = msgspec.json.decode(answer.body)["resources"]
        found = {entry["name"]: entry for entry in entries if "/" not in entry["name"]}
        assert found.keys() == expected.keys()
        return found

    listed = await world.eventually(discover)
    for plural, kind in expected.items():
        entry = listed[plural]
        assert entry["kind"] == kind.kind
        assert entry["namespaced"] is kind.namespaced
        assert tuple(entry.get("shortNames", ())) == kind.short_names
        assert entry["singularName"] == kind.kind.lower()


@pytest.mark.spec("AP-2")
@in_world(workloads=False)
async def test_only_the_required_fields_and_exactly_the_defaults(world: World) -> None:
    await world.make_namespace("prod")
    for kind, (given, stored) in MINIMAL.items():
        made = await world.client.create(served(kind), obj(kind, given))
        assert made.get("spec", {}) == stored, kind


OUTSIDE_ENUMS: list[tuple[str, dict[str, Any]]] = [
    ("InferenceService", {"deploymentMode": "Serverless"}),
    ("InferenceService", {"engine": {"topologySpread": "Maybe"}}),
    ("InferenceService", {"engine": {"autoscaler": {"class": "VPA"}}}),
    ("InferenceService", {"acceleratorSelector": {"policy": "Any"}}),
    ("InferenceService", {"engine": {"lifecycle": {"updateStrategy": {"type": "Quick"}}}}),
    ("ServingRuntime", {"protocolVersions": ["soap"]}),
    ("ClusterBaseModel", {"storage": {**STORAGE, "downloadPolicy": "Never"}}),
    ("InferenceReplica", {"component": "brain"}),
    ("InferenceReplica", {"component": "engine", "pauseMode": "Deep"}),
]


@pytest.mark.spec("AP-3")
@in_world(workloads=False)
async def test_a_value_outside_an_enum_is_invalid(world: World) -> None:
    await world.make_namespace("prod")
    for kind, spec in OUTSIDE_ENUMS:
        with pytest.raises(Invalid, match="Unsupported value") as refusal:
            await world.client.create(served(kind), obj(kind, spec))
        assert refusal.value.status_code == 422


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def columns(world: World, resource: Resource) -> list[tuple[str, int]]:
    request = Request("GET", resource.path("prod" if resource.namespaced else ""), headers={"accept": TABLE})
    table = msgspec.json.decode((await world.client.request(request)).body)
    return [(column["name"], column["priority"]) for column in table["columnDefinitions"]]


FORMATS = "ModelFormat ModelFramework ModelFrameworkVersion ModelArchitecture ModelSizeMin ModelSizeMax"
RUNTIME = f"Name Disabled {FORMATS} Images Age"
MODEL = (
    "Name Disabled Version Vendor Framework FrameworkVersion ModelFormat Architecture Capabilities Size CompartmentID "
    "Ready Age"
)
COLUMNS = {
    "InferenceService": "Name URL Ready BaseModel Runtime Placement* Plan-Source* Plan-Drift* Age",
    "ServingRuntime": RUNTIME,
    "ClusterServingRuntime": RUNTIME,
    "BaseModel": MODEL,
    "ClusterBaseModel": MODEL,
    "FineTunedWeight": "Name Disabled Version Vendor CompartmentID ModelType Ready Age",
    "InferenceReplica": "Name Component Desired Current Ready Available Age",
    "BenchmarkJob": "Name Age Status",
    "TrafficMap": "Name Mode Published Routable Override Reason Age",
    "AcceleratorClass": "Name Vendor Family Memory Nodes Age",
}
"""`*`: only with `-o wide`."""


@pytest.mark.spec("AP-4")
@in_world(workloads=False)
async def test_columns(world: World) -> None:
    await world.make_namespace("prod")
    for kind, names in COLUMNS.items():
        found = await columns(world, served(kind))
        assert " ".join(name + "*" * priority for name, priority in found) == names


@pytest.mark.spec("AP-6")
@in_world(workloads=False)
async def test_removed_fields_are_pruned_or_refused(world: World) -> None:
    await world.make_namespace("prod")
    old = obj("InferenceService", {"predictor": {}, "engine": {"kedaConfig": {}, "scaleTarget": 3, "minReplicas": 1}})
    stored = await world.client.create(resources.INFERENCE_SERVICES, old)
    assert stored["spec"] == {"engine": {"minReplicas": 1}}
    strict = Request(
        "POST",
        resources.INFERENCE_SERVICES.path("prod"),
        query=(("fieldValidation", "Strict"),),
        body=msgspec.json.encode({**old, "metadata": {**METADATA, "name": "y"}}),
        headers={"content-type": "application/json"},
    )
    with pytest.raises(BadRequest, match=r'unknown field "spec\.predictor"'):
        await world.client.request(strict)


@in_world(workloads=False)
async def test_a_services_status_keeps_unknown_fields(world: World) -> None:
    await world.make_namespace("prod")
    await world.client.create(resources.INFERENCE_SERVICES, obj("InferenceService", {"runtime": {"name": "r"}}))
    body = {"status": {"novelty": {"a": 1}, "url": "http://x"}}
    stored = await world.merge(resources.INFERENCE_SERVICES, "x", "prod", body, "status")
    assert stored["status"] == body["status"]


@pytest.mark.spec("AP-7")
@in_world(workloads=False)
async def test_both_spellings_of_rows_read_back_as_the_same_rows(world: World) -> None:
    await world.make_namespace("prod")
    await world.client.create(resources.INFERENCE_REPLICAS, obj("InferenceReplica", {"component": "engine"}))
    rows = tuple(
        InstanceStatus(index=index, phase="Ready", running_revision="chat-engine-7f9c4d2b", pod_count=1)
        for index in (41, *range(40))
    )
    status = InferenceReplicaStatus(instance_statuses=rows)
    read = []
    for columnar in (True, False):
        body = {"instanceStatuses": None, "instanceStatusEncoding": None, "instanceStatusColumns": None}
        body |= wire(status, columnar=columnar, limit=100)
        stored = await world.merge(resources.INFERENCE_REPLICAS, "x", "prod", {"status": body}, "status")
        assert ("instanceStatusColumns" in stored["status"]) is columnar
        read.append(dense(msgspec.convert(stored["status"], InferenceReplicaStatus), 100).instance_statuses)
    assert read == [rows, rows]


@pytest.mark.spec("AP-7")
@in_world(workloads=False)
async def test_a_mixed_spelling_of_rows_is_refused(world: World) -> None:
    await world.make_namespace("prod")
    await world.client.create(resources.INFERENCE_REPLICAS, obj("InferenceReplica", {"component": "engine"}))
    mixed = {
        "instanceStatusColumns needs instanceStatusEncoding": {"instanceStatusColumns": {"members": "0"}},
        "ColumnarV2 needs instanceStatusColumns and forbids instanceStatuses": {
            "instanceStatusEncoding": "ColumnarV2",
            "instanceStatuses": [{"index": 0}],
        },
    }
    for message, status in mixed.items():
        with pytest.raises(Invalid, match=message):
            await world.merge(resources.INFERENCE_REPLICAS, "x", "prod", {"status": status}, "status")


ROOT = Path(__file__).parents[3]
CATALOGUE = sorted(
    path for folder in ("config/models", "config/runtimes", "examples") for path in (ROOT / folder).rglob("*.yaml")
)


@pytest.mark.spec("AP-8", "IN-25")
@in_world(workloads=False)
async def test_the_catalogue_applies_without_a_warning(world: World) -> None:
    for name in ("llama-demo", "prod"):
        await world.make_namespace(name)
    seen: set[str] = set()
    for path in CATALOGUE:
        for entry in yaml.safe_load_all(path.read_text()):
            resource = resource_of(entry)
            namespace = entry["metadata"].get("namespace", "")
            request = Request(
                "PATCH",
                resource.path(namespace, entry["metadata"]["name"]),
                query=(("fieldManager", "kubectl"), ("fieldValidation", "Strict"), ("force", "true")),
                headers={"content-type": "application/apply-patch+yaml"},
                body=msgspec.json.encode(entry),
            )
            response = await world.client.request(request)
            assert "warning" not in response.headers, path.name
            seen.add(f"{entry['kind']}/{entry['metadata']['name']}")
    assert {
        "ClusterBaseModel/llama-3-2-3b-instruct",
        "ClusterBaseModel/qwen3-0-6b",
        "ClusterServingRuntime/srt-qwen3-0-6b",
        "ServingRuntime/sglang-llama-3-2-3b",
        "InferenceService/llama-3-2-3b-instruct",
        "InferenceService/chat",
    } <= seen
