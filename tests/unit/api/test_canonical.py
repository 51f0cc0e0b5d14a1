"""Canonical bytes and hashes: the golden vectors are promises."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ome.api.canonical import (
    canonical_json,
    canonical_runtime,
    runtime_hash,
    short_hash,
    with_runtime_defaults,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "runtime-revisions" / "runtime.yaml"
CANONICAL = (
    '{"supportedModelFormats":[{"name":"","modelFormat":{"name":"safetensors","version":"1.0.0","operator":"Equal",'
    '"weight":1},"modelFramework":{"name":"transformers","version":"4.45.0.dev0","operator":"Equal","weight":1},'
    '"modelArchitecture":"LlamaForCausalLM","autoSelect":true,"priority":1}],"modelSizeRange":{"min":"2B","max":"4B"},'
    '"engineConfig":{"volumes":[{"name":"dshm","emptyDir":{"medium":"Memory"}}],"tolerations":[{"key":"nvidia.com/gpu",'
    '"operator":"Exists","effect":"NoSchedule"}],"runner":{"name":"ome-container","image":'
    '"docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64","command":["python3","-m","sglang.launch_server"],"args":'
    '["--host=0.0.0.0","--port=8080","--model-path=$(MODEL_PATH)","--served-model-name={{.Name}}","--tp-size=1",'
    '"--mem-frac=0.9"],"ports":[{"name":"http1","containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":'
    '"10","memory":"30Gi","nvidia.com/gpu":"1"},"requests":{"cpu":"10","memory":"30Gi","nvidia.com/gpu":"1"}},'
    '"volumeMounts":[{"name":"dshm","mountPath":"/dev/shm"}],"readinessProbe":{"httpGet":{"path":"/health_generate",'
    '"port":8080},"timeoutSeconds":200,"periodSeconds":60},"startupProbe":{"httpGet":{"path":"/health_generate","port":'
    '8080},"initialDelaySeconds":60,"timeoutSeconds":30,"periodSeconds":6,"failureThreshold":150}}},"containers":null}'
)


def example(memory_fraction: str = "0.9", **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = with_runtime_defaults(yaml.safe_load(EXAMPLE.read_text())["spec"])
    spec["engineConfig"]["runner"]["args"][-1] = f"--mem-frac={memory_fraction}"
    return spec | more


@pytest.mark.spec("RR-1")
def test_the_example_has_the_canonical_text_of_the_specification() -> None:
    assert canonical_runtime(example()).decode() == CANONICAL


@pytest.mark.spec("RR-1")
@pytest.mark.parametrize(
    ("spec", "hash8"),
    [
        pytest.param(example(), "590753e8", id="the example"),
        pytest.param(example("0.85"), "af9539ac", id="its first edit"),
        pytest.param(example("0.8"), "40a0481c", id="another edit"),
        pytest.param(example("0.85", disabled=True), "d03a10f1", id="disabled"),
        pytest.param(example("0.85", disabled=False), "51c5f8e2", id="an explicit false is another spec than none"),
        pytest.param(
            {
                "engineConfig": {
                    "runner": {
                        "name": "ome-container",
                        "image": "docker.io/library/busybox:1",
                        "args": ["sleep", "1"],
                    }
                }
            },
            "33a33825",
            id="the smallest useful spec",
        ),
    ],
)
def test_golden_hashes(spec: dict[str, Any], hash8: str) -> None:
    full = runtime_hash(spec)
    assert len(full) == 64
    assert short_hash(full) == hash8


def test_key_order_of_the_input_does_not_matter() -> None:
    def reversed_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return [reversed_keys(item) for item in value] if isinstance(value, list) else value

    assert canonical_runtime(reversed_keys(example())) == canonical_runtime(example())


def test_canonical_bytes_decode_to_a_spec_with_the_same_bytes() -> None:
    spec = example()
    spec["engineConfig"]["annotations"] = {"text": "a<b>&c\u2028 é"}
    spec["supportedModelFormats"][0]["modelFormat"]["weight"] = 0
    once = canonical_runtime(spec)
    assert canonical_runtime(json.loads(once)) == once


def test_the_input_is_never_changed() -> None:
    spec = example()
    before = copy.deepcopy(spec)
    canonical_runtime(spec)
    with_runtime_defaults(spec)
    assert spec == before


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        pytest.param({"text": "<&>"}, rb'"\u003c\u0026\u003e"', id="HTML characters are escaped as Go escapes them"),
        pytest.param({"text": "\u2028\u2029"}, rb'"\u2028\u2029"', id="line separators are escaped"),
        pytest.param({"text": "é漢"}, '"é漢"'.encode(), id="other characters stay raw"),
    ],
)
def test_escapes(written: dict[str, str], canonical: bytes) -> None:
    assert canonical_runtime({"labels": written}) == b'{"containers":null,"labels":{"text":' + canonical + b"}}"


@pytest.mark.parametrize(
    ("spec", "same_as"),
    [
        pytest.param({"nodeSelector": {}}, {}, id="an empty map is nothing"),
        pytest.param({"hostNetwork": False}, {}, id="a false that is no pointer is nothing"),
        pytest.param({"engineConfig": {"hostname": ""}}, {"engineConfig": {}}, id="an empty string is nothing"),
        pytest.param({"disabled": None}, {}, id="null is nothing"),
        pytest.param(
            {"engineConfig": {"runner": {"name": "c", "resources": {}}}},
            {"engineConfig": {"runner": {"name": "c"}}},
            id="resources are always written",
        ),
        pytest.param(
            {"engineConfig": {"runner": {"name": "c", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}}},
            {"engineConfig": {"runner": {"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}}},
            id="equal quantities are one quantity",
        ),
    ],
)
def test_spellings_of_one_spec(spec: dict[str, Any], same_as: dict[str, Any]) -> None:
    assert canonical_runtime(spec) == canonical_runtime(same_as)


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        pytest.param({"disabled": False}, {}, id="disabled"),
        pytest.param({"engineConfig": {"minReplicas": 0}}, {"engineConfig": {}}, id="minReplicas"),
        pytest.param({"engineConfig": {"securityContext": {}}}, {"engineConfig": {}}, id="an empty struct by pointer"),
    ],
)
def test_pointers_keep_what_was_written(spec: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical_runtime(spec) != canonical_runtime(other)


def test_an_unknown_field_is_kept_behind_the_known_ones() -> None:
    assert (
        canonical_runtime({"zeta": 1, "alpha": {"b": 1, "a": None}}) == b'{"containers":null,"alpha":{"b":1},"zeta":1}'
    )


def test_defaults_are_the_schemas_three() -> None:
    spec = {
        "supportedModelFormats": [{"modelFormat": {"name": "f"}, "modelFramework": {"name": "g", "weight": 3}}],
        "engineConfig": {"runner": {"ports": [{"containerPort": 1}, {"containerPort": 2, "protocol": "UDP"}]}},
    }
    filled = with_runtime_defaults(spec)
    assert filled["supportedModelFormats"][0]["modelFormat"] == {"name": "f", "operator": "Equal", "weight": 1}
    assert filled["supportedModelFormats"][0]["modelFramework"] == {"name": "g", "operator": "Equal", "weight": 3}
    assert [port["protocol"] for port in filled["engineConfig"]["runner"]["ports"]] == ["TCP", "UDP"]


def test_canonical_json_sorts_and_drops_nulls() -> None:
    assert canonical_json({"b": [1, {"d": None, "c": "x"}], "a": True}) == b'{"a":true,"b":[1,{"c":"x"}]}'
