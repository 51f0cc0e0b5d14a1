"""The CustomResourceDefinitions: what the API group lists, and that every schema is structural."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ome.api.crds import FEATURES, KINDS, crd, crds

ALL = crds(features=FEATURES)
EXPECTED = {
    ("InferenceService", "inferenceservices", "Namespaced", ("isvc",)),
    ("ServingRuntime", "servingruntimes", "Namespaced", ()),
    ("ClusterServingRuntime", "clusterservingruntimes", "Cluster", ()),
    ("BaseModel", "basemodels", "Namespaced", ()),
    ("ClusterBaseModel", "clusterbasemodels", "Cluster", ()),
    ("FineTunedWeight", "finetunedweights", "Cluster", ()),
    ("AcceleratorClass", "acceleratorclasses", "Cluster", ()),
    ("InferenceReplica", "inferencereplicas", "Namespaced", ("irep",)),
    ("BenchmarkJob", "benchmarkjobs", "Namespaced", ()),
    ("TrafficMap", "trafficmaps", "Namespaced", ("tm", "tmap")),
    ("WorkloadCluster", "workloadclusters", "Cluster", ()),
    ("AcceleratorQuota", "acceleratorquotas", "Cluster", ()),
}
POLICIES = {
    ("AutoscalerPolicy", "autoscalerpolicies", "Namespaced", ()),
    ("RolloutPolicy", "rolloutpolicies", "Namespaced", ()),
}


def identity(definition: dict[str, Any]) -> tuple[str, str, str, tuple[str, ...]]:
    names = definition["spec"]["names"]
    return names["kind"], names["plural"], definition["spec"]["scope"], tuple(names.get("shortNames", ()))


def schema(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = crd(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def field(plural: str, path: str) -> dict[str, Any]:
    found = schema(plural)
    for part in path.split("."):
        found = found["items"] if part == "[]" else found["properties"][part]
    return found


def nodes(value: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, value
    for name, child in value.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in value:
        yield from nodes(value["items"], f"{path}[]")
    if isinstance(value.get("additionalProperties"), dict):
        yield from nodes(value["additionalProperties"], f"{path}{{}}")


@pytest.mark.spec("AP-1")
def test_the_group_lists_these_kinds() -> None:
    assert {identity(definition) for definition in crds()} == EXPECTED


@pytest.mark.spec("AP-1", "IN-1")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_adds_exactly_its_kind(feature: str) -> None:
    added = {identity(definition) for definition in crds(features=(feature,))} - EXPECTED
    assert added == {policy for policy in POLICIES if policy[0].lower() == feature.lower()}


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition["spec"]["names"]["plural"])
def test_every_schema_is_structural(definition: dict[str, Any]) -> None:
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "$ref" not in json.dumps(root)
    for path, node in nodes(root):
        typed = "type" in node or node.get("x-kubernetes-int-or-string")
        assert typed, f"{path} has no type"
        for key in node.get("x-kubernetes-list-map-keys", []):
            items = node["items"]
            known = key in items.get("required", []) or "default" in items["properties"][key]
            assert known, f"{path}: list key {key} is neither required nor defaulted"


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition["spec"]["names"]["plural"])
def test_every_definition_fits_into_a_request(definition: dict[str, Any]) -> None:
    assert len(json.dumps(definition)) < 1_000_000


@pytest.mark.spec("AP-6")
@pytest.mark.parametrize(
    ("plural", "path", "removed"),
    [
        ("inferenceservices", "spec", "kedaConfig"),
        ("inferenceservices", "spec", "predictor"),
        ("inferenceservices", "spec.engine", "kedaConfig"),
        ("inferenceservices", "spec.engine", "scaleMetric"),
        ("inferenceservices", "spec.decoder", "scaleTarget"),
        ("servingruntimes", "spec", "workers"),
        ("clusterservingruntimes", "spec", "workers"),
        ("inferenceservices", "spec.engine", "ephemeralContainers"),
    ],
)
def test_removed_fields_are_not_in_the_schema(plural: str, path: str, removed: str) -> None:
    assert removed not in field(plural, path)["properties"]


@pytest.mark.parametrize(
    ("plural", "path", "default"),
    [
        ("inferenceservices", "spec.model.kind", "ClusterBaseModel"),
        ("inferenceservices", "spec.model.apiGroup", "ome.io"),
        ("inferenceservices", "spec.runtime.kind", "ClusterServingRuntime"),
        ("inferenceservices", "spec.runtime.autoSync", True),
        ("servingruntimes", "spec.supportedModelFormats.[].modelFormat.operator", "Equal"),
        ("servingruntimes", "spec.supportedModelFormats.[].modelFramework.weight", 1),
        ("servingruntimes", "spec.engineConfig.runner.ports.[].protocol", "TCP"),
        ("acceleratorclasses", "spec.resources.[].quantity", "1"),
    ],
)
def test_defaults(plural: str, path: str, default: Any) -> None:
    assert field(plural, path)["default"] == default


def test_kubernetes_own_defaults_are_not_written_into_runtimes() -> None:
    defaults = {path for path, node in nodes(field("servingruntimes", "spec.engineConfig")) if "default" in node}
    assert {path.rpartition(".")[2] for path in defaults} == {"protocol", "kind"}


@pytest.mark.parametrize(
    ("plural", "columns"),
    [
        ("inferenceservices", "URL Ready BaseModel Runtime Placement(w) Plan-Source(w) Plan-Drift(w) Age"),
        (
            "servingruntimes",
            "Disabled ModelFormat ModelFramework ModelFrameworkVersion ModelArchitecture ModelSizeMin ModelSizeMax "
            "Images Age",
        ),
        ("inferencereplicas", "Component Desired Current Ready Available Age"),
        ("benchmarkjobs", "Age Status"),
    ],
)
def test_columns_in_order(plural: str, columns: str) -> None:
    written = crd(plural)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert " ".join(c["name"] + ("(w)" if c.get("priority") else "") for c in written) == columns


def test_subresources() -> None:
    for kind in KINDS:
        assert "status" in crd(kind.plural)["spec"]["versions"][0]["subresources"]
    scale = crd("inferencereplicas")["spec"]["versions"][0]["subresources"]["scale"]
    assert scale == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.labelSelector",
    }


def test_a_services_status_keeps_what_it_does_not_know() -> None:
    assert field("inferenceservices", "status")["x-kubernetes-preserve-unknown-fields"] is True


def test_a_replicas_templates_keep_their_metadata() -> None:
    metadata = field("inferencereplicas", "spec.runners.[].template.metadata")
    assert {"labels", "annotations"} <= metadata["properties"].keys()
