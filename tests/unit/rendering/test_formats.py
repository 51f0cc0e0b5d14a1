"""Versions, sizes, pipelines and the words for a mismatch."""

from __future__ import annotations

from typing import Any

import pytest

from ome.rendering.formats import (
    best_entry,
    entry_mismatches,
    entry_score,
    model_label,
    parse_version,
    size_mismatch,
    versions_match,
)

VERSIONS: list[tuple[str, str | None, str, bool]] = [
    ("1.0.0", None, "1.0", True),
    ("1.8.0", "GreaterThan", "1.7.0", True),
    ("1.8.0", "GreaterThan", "1.8.0", False),
    ("1.8.0", "GreaterThanOrEqual", "1.8.0", True),
    ("4.50.0", "GreaterThanOrEqual", "4.51.0", False),
    ("1.8.0-dev", "GreaterThan", "1.8.0-dev", True),
    ("4.45.0.dev0", "GreaterThanOrEqual", "4.44.0", False),
    ("4.50.0", "GreaterThanOrEqual", "4.45.0.dev0", False),
    ("1.8", "GreaterThan", "1.7.0", False),
    ("v1.0.0", "Equal", "1.0.0", True),
    ("1.0.0+a", "Equal", "1.0.0+b", False),
    ("1.0.0-rc1", "Equal", "1.0.0", False),
    ("v1.8.0", "GreaterThan", "1.7.0", False),
    ("1.10.0", "GreaterThan", "1.9.0", True),
    ("1.0", "Whatever", "1.0.0", False),
    ("1.0.0", "Whatever", "1.0.0", True),
    ("v1.0.0", "Whatever", "1.0.0", False),
    ("1.0.0-a", "Whatever", "v1.0.0-a", True),
]


@pytest.mark.spec("SR-3")
@pytest.mark.parametrize(("entry", "operator", "model", "match"), VERSIONS)
def test_versions(entry: str, operator: str | None, model: str, match: bool) -> None:
    assert versions_match(entry, operator, model) is match


@pytest.mark.parametrize(
    "text", ["1.08.0", "V1.0.0", "1.2-beta", "1.0.0-", "", "1.0.0+", "a", "1.", "1.2.3 ", "1.2.3\n"]
)
def test_what_is_no_version_matches_nothing(text: str) -> None:
    assert parse_version(text) is None
    assert not versions_match(text, None, text)


@pytest.mark.parametrize("text", ["1", "1.2", "1.2.3", "v1.2.3", "1.2.3.4", "4.45.0.dev0", "1.0.0-rc.1+b.2"])
def test_what_is_a_version(text: str) -> None:
    assert parse_version(text) is not None


SIZES: dict[str, tuple[dict[str, str] | None, str | None, str | None]] = {
    "below the minimum in M": (
        {"min": "500M", "max": "2B"},
        "3.21B",
        "model size 3.21B is outside supported range [500M, 2B]",
    ),
    "units compare by value": ({"min": "1B"}, "1500M", None),
    "no maximum": ({"min": "70B"}, "405B", None),
    "above the maximum": ({"min": "2B", "max": "4B"}, "70B", "model size 70B is outside supported range [2B, 4B]"),
    "only a minimum": ({"min": "70B"}, "8B", "model size 8B is outside supported range [70B, inf)"),
    "only a maximum": ({"max": "13B"}, "70B", "model size 70B is outside supported range (-inf, 13B]"),
    "inclusive at the minimum": ({"min": "2B", "max": "4B"}, "2B", None),
    "inclusive at the maximum": ({"min": "2B", "max": "4B"}, "4000M", None),
    "a lower-case maximum reads as 0": ({"max": "4b"}, "1B", "model size 1B is outside supported range (-inf, 4b]"),
    "a lower-case minimum is no limit": ({"min": "2b"}, "1B", None),
    "min above max rejects every size": (
        {"min": "4B", "max": "2B"},
        "3B",
        "model size 3B is outside supported range [4B, 2B]",
    ),
    "no range": (None, "3B", None),
    "a model without a size": ({"min": "70B"}, None, None),
    "trillions": ({"min": "0.9T", "max": "1T"}, "950B", None),
}


@pytest.mark.spec("SR-3")
@pytest.mark.parametrize(("size_range", "size", "reason"), SIZES.values(), ids=SIZES)
def test_sizes(size_range: dict[str, str] | None, size: str | None, reason: str | None) -> None:
    assert size_mismatch(size_range, {"modelParameterSize": size} if size else {}) == reason


MODEL: dict[str, Any] = {
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "modelFramework": {"name": "transformers", "version": "4.46.0"},
    "modelArchitecture": "LlamaForCausalLM",
}
ENTRY: dict[str, Any] = {
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "modelFramework": {"name": "transformers", "version": "4.46.0"},
    "modelArchitecture": "LlamaForCausalLM",
}


def _format(**parts: Any) -> dict[str, Any]:
    return {"modelFormat": {"name": "safetensors", **parts}}


MISMATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "all equal": ({}, {}, []),
    "another format": (
        {"modelFormat": {"name": "gguf", "version": "2"}},
        {},
        ["format name mismatch (model=gguf, runtime=safetensors)"],
    ),
    "another format version": (_format(version="2.0.0"), {}, ["format version mismatch (model=2.0.0, runtime=1.0.0)"]),
    "no format version": (_format(), {}, ["model has no format version but runtime requires 1.0.0"]),
    "only the model has a format version": (
        {},
        _format(),
        ["model has format version but runtime has no version requirement"],
    ),
    "no framework": ({"modelFramework": None}, {}, ["model has no framework but runtime requires transformers"]),
    "another framework says nothing of versions": (
        {"modelFramework": {"name": "onnx", "version": "9"}},
        {},
        ["framework name mismatch (model=onnx, runtime=transformers)"],
    ),
    "no framework version": (
        {"modelFramework": {"name": "transformers"}},
        {},
        ["model has no framework version but runtime requires 4.46.0"],
    ),
    "another architecture": (
        {"modelArchitecture": "X"},
        {},
        ["architecture mismatch (model=X, runtime=LlamaForCausalLM)"],
    ),
    "only the model has an architecture": (
        {},
        {"modelArchitecture": None},
        ["model has architecture LlamaForCausalLM but runtime has no architecture requirement"],
    ),
    "only the runtime has an architecture": (
        {"modelArchitecture": None},
        {},
        ["model has no architecture but runtime requires LlamaForCausalLM"],
    ),
    "only the model is quantized": (
        {"quantization": "fp8"},
        {},
        ["model has quantization fp8 but runtime has no quantization requirement"],
    ),
    "only the runtime is quantized": (
        {},
        {"quantization": "fp8"},
        ["model has no quantization but runtime requires fp8"],
    ),
    "names compare case-sensitively": (
        {"modelFormat": {"name": "SafeTensors", "version": "1.0.0"}},
        {},
        ["format name mismatch (model=SafeTensors, runtime=safetensors)"],
    ),
    "an empty version counts as set": (_format(version=""), {}, ["format version mismatch (model=, runtime=1.0.0)"]),
}


@pytest.mark.parametrize(("model", "entry", "reasons"), MISMATCHES.values(), ids=MISMATCHES)
def test_mismatches(model: dict[str, Any], entry: dict[str, Any], reasons: list[str]) -> None:
    assert entry_mismatches({**ENTRY, **entry}, {**MODEL, **model}) == reasons


@pytest.mark.spec("SR-27")
def test_four_mismatches_in_their_order() -> None:
    model = {
        "modelFormat": {"name": "gguf", "version": "1"},
        "modelFramework": {"name": "llamacpp", "version": "9"},
        "modelArchitecture": "A",
        "quantization": "int4",
    }
    assert entry_mismatches({**ENTRY, "quantization": "fp8"}, model) == [
        "architecture mismatch (model=A, runtime=LlamaForCausalLM)",
        "quantization mismatch (model=int4, runtime=fp8)",
        "format name mismatch (model=gguf, runtime=safetensors)",
        "framework name mismatch (model=llamacpp, runtime=transformers)",
    ]


def test_the_label_leaves_unset_parts_out() -> None:
    assert model_label(MODEL) == "mt:safetensors:1.0.0:LlamaForCausalLM:transformers:4.46.0"
    assert (
        model_label({**MODEL, "quantization": "fp8", "modelFramework": None})
        == "mt:safetensors:1.0.0:LlamaForCausalLM:fp8"
    )


PIPELINE = {
    "className": "FluxPipeline",
    "vae": {"library": "diffusers", "type": "AutoencoderKL"},
    "additionalComponents": {"text_encoder_2": {"library": "transformers", "type": "T5"}},
}
PIPELINES: dict[str, tuple[Any, Any, str | None]] = {
    "an entry without the block takes any model": (None, PIPELINE, None),
    "an empty block wants a pipeline": ({}, None, "diffusion pipeline required by runtime but not specified in model"),
    "an empty block takes any pipeline": ({}, PIPELINE, None),
    "another class": ({"className": "X"}, PIPELINE, "pipeline class mismatch (model=FluxPipeline, runtime=X)"),
    "no class": ({"className": "X"}, {"vae": {}}, "pipeline class mismatch (model=<nil>, runtime=X)"),
    "a component lacks": (
        {"scheduler": {"type": "S"}},
        PIPELINE,
        "component scheduler required by runtime but not specified in model",
    ),
    "another library": ({"vae": {"library": "l"}}, PIPELINE, "vae library mismatch (model=diffusers, runtime=l)"),
    "another type": ({"vae": {"type": "t"}}, PIPELINE, "vae type mismatch (model=AutoencoderKL, runtime=t)"),
    "no additional components": (
        {"additionalComponents": {"a": {}}},
        {"className": "x"},
        "diffusion pipeline missing required additional components",
    ),
    "an additional component lacks": (
        {"additionalComponents": {"a": {}}},
        PIPELINE,
        "diffusion component a missing in model",
    ),
    "everything matches": (PIPELINE, PIPELINE, None),
}


@pytest.mark.parametrize(("entry", "model", "reason"), PIPELINES.values(), ids=PIPELINES)
def test_pipelines(entry: Any, model: Any, reason: str | None) -> None:
    found = entry_mismatches({**ENTRY, "diffusionPipeline": entry}, {**MODEL, "diffusionPipeline": model})
    assert found == ([reason] if reason else [])


SCORES: dict[str, tuple[dict[str, Any], int]] = {
    "weights default to 1, priority to 1": ({"modelFormat": {"name": "f"}, "modelFramework": {"name": "g"}}, 2),
    "priority multiplies": (
        {"modelFormat": {"name": "f", "weight": 2}, "modelFramework": {"name": "g", "weight": 1}, "priority": 2},
        6,
    ),
    "a stored 0 counts as 10 and 5": (
        {"modelFormat": {"name": "f", "weight": 0}, "modelFramework": {"name": "g", "weight": 0}},
        15,
    ),
    "negative weights count": (
        {"modelFormat": {"name": "f", "weight": -3}, "modelFramework": {"name": "g", "weight": 1}},
        -2,
    ),
}


@pytest.mark.spec("SR-4")
@pytest.mark.parametrize(("entry", "score"), SCORES.values(), ids=SCORES)
def test_scores(entry: dict[str, Any], score: int) -> None:
    assert entry_score(entry) == score


def test_the_entry_whose_overrides_apply_fits_wholly_before_it_scores() -> None:
    other = {**ENTRY, "modelArchitecture": "Other", "priority": 9}
    assert best_entry([other, ENTRY], MODEL, auto_select_only=False) is ENTRY
    assert best_entry([other], MODEL, auto_select_only=False) is other
    assert best_entry([ENTRY], MODEL, auto_select_only=True) is None
    assert best_entry([{**ENTRY, "modelFormat": {"name": "gguf"}}], MODEL, auto_select_only=False) is None
