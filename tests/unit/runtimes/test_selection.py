"""Which runtime serves a model, and in which words the others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ome.rendering.model import Component, ModelFacts, ServiceFacts
from ome.runtimes.inheritance import resolve_chain
from ome.runtimes.lookup import ResolvedRuntime
from ome.runtimes.reading import Runtime, RuntimeSnapshot
from ome.runtimes.selection import (
    Check,
    InvalidModelError,
    NamedRuntimeError,
    NoRuntimeFoundError,
    Requirements,
    check_named,
    explain,
    select,
)
from tests.unit.runtimes.builders import runtime

MODEL = ModelFacts(
    name="llama-3-2-3b",
    spec={
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.46.0"},
        "modelArchitecture": "LlamaForCausalLM",
        "modelParameterSize": "3.21B",
    },
)
SERVICE = ServiceFacts(name="chat", namespace="llama-demo", components={Component.ENGINE: {}})
FORMAT = "mt:safetensors:1.0.0:LlamaForCausalLM:transformers:4.46.0"


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.46.0"},
        "modelArchitecture": "LlamaForCausalLM",
        "autoSelect": True,
        **changes,
    }


def csr(name: str = "rt", *entries: dict[str, Any], **spec: Any) -> Runtime:
    return runtime(name, {"supportedModelFormats": [*(entries or (entry(),))], **spec})


def _ranked(*runtimes: Runtime) -> list[tuple[str, int]]:
    return [(item.runtime.name, item.score) for item in explain(MODEL, Requirements(), runtimes) if not item.exclusion]


def _weighted(priority: int) -> dict[str, Any]:
    return entry(
        modelFormat={"name": "safetensors", "version": "1.0.0", "weight": 1},
        modelFramework={"name": "transformers", "version": "4.46.0", "weight": 1},
        priority=priority,
    )


def _example(priority: int) -> list[Runtime]:
    vllm = entry(
        modelFormat={"name": "safetensors", "version": "1.0.0", "weight": 2},
        modelFramework={"name": "transformers", "version": "4.46.0", "weight": 1},
        priority=2,
    )
    return [
        csr("srt-llama-large", _weighted(3), modelSizeRange={"min": "1B", "max": "70B"}),
        csr("srt-llama-small", _weighted(priority), modelSizeRange={"min": "1B", "max": "8B"}),
        csr("vllm-llama", vllm),
        runtime("team-llama", {"supportedModelFormats": [entry()]}, namespace="llama-demo"),
    ]


@pytest.mark.spec("SR-2")
def test_the_worked_ranking() -> None:
    assert _ranked(*_example(3)) == [
        ("team-llama", 2),
        ("vllm-llama", 6),
        ("srt-llama-small", 6),
        ("srt-llama-large", 6),
    ]


@pytest.mark.spec("SR-2")
def test_a_higher_priority_goes_first_among_cluster_runtimes() -> None:
    assert _ranked(*_example(4))[:2] == [("team-llama", 2), ("srt-llama-small", 8)]


def test_equal_runtimes_go_by_name() -> None:
    assert [name for name, _ in _ranked(csr("b"), csr("a"))] == ["a", "b"]


def _service(**parts: Any) -> ServiceFacts:
    return replace(SERVICE, **parts)


MODE = {"annotations": {"ome.io/deploymentMode": "MultiNode"}}
EXCLUSIONS: dict[str, tuple[Runtime, ServiceFacts, Check, str]] = {
    "disabled": (csr(disabled=True), SERVICE, Check.DISABLED, "runtime is disabled"),
    "a class of the selector": (
        csr(acceleratorRequirements={"acceleratorClasses": ["a100"]}),
        _service(accelerator_selector={"acceleratorClass": "h100"}),
        Check.ACCELERATOR_CLASS,
        "runtime does not support the required accelerator class",
    ),
    "a class of the annotation, no list": (
        csr(),
        _service(annotations={"ome.io/accelerator-class": "h100"}),
        Check.ACCELERATOR_CLASS,
        "runtime does not support the required accelerator class",
    ),
    "a class of the decoder": (
        csr(acceleratorRequirements={"acceleratorClasses": ["a100"]}),
        _service(
            components={Component.ENGINE: {}, Component.DECODER: {"acceleratorOverride": {"acceleratorClass": "h100"}}}
        ),
        Check.ACCELERATOR_CLASS,
        "runtime does not support the required accelerator class",
    ),
    "an empty class": (
        csr(acceleratorRequirements={"acceleratorClasses": ["a100"]}),
        _service(annotations={"ome.io/accelerator-class": ""}),
        Check.ACCELERATOR_CLASS,
        "runtime does not support the required accelerator class",
    ),
    "engine mode": (
        csr(engineConfig=MODE),
        _service(deployment_mode="OMENative"),
        Check.DEPLOYMENT_MODE,
        "runtime engine deployment mode MultiNode does not match requested engine deployment mode OMENative",
    ),
    "decoder mode": (
        csr(decoderConfig=MODE),
        _service(deployment_mode="OMENative", components={Component.ENGINE: {}, Component.DECODER: {}}),
        Check.DEPLOYMENT_MODE,
        "runtime decoder deployment mode MultiNode does not match requested decoder deployment mode OMENative",
    ),
    "architecture and framework version": (
        csr("rt", entry(modelArchitecture="Qwen", modelFramework={"name": "transformers", "version": "4.40.0"})),
        SERVICE,
        Check.FORMAT,
        f"model format '{FORMAT}' not in supported formats: architecture mismatch (model=LlamaForCausalLM, "
        "runtime=Qwen), framework version mismatch (model=4.46.0, runtime=4.40.0)",
    ),
    "two entries": (
        csr("rt", entry(modelArchitecture="A"), entry(modelArchitecture="B")),
        SERVICE,
        Check.FORMAT,
        f"model format '{FORMAT}' not in supported formats: architecture mismatch (model=LlamaForCausalLM, runtime=A); "
        "architecture mismatch (model=LlamaForCausalLM, runtime=B)",
    ),
    "no entries": (
        runtime("rt", {}),
        SERVICE,
        Check.FORMAT,
        f"model format '{FORMAT}' not in supported formats: no supported formats defined",
    ),
    "size": (
        csr(modelSizeRange={"min": "70B"}),
        SERVICE,
        Check.SIZE,
        "model size 3.21B is outside supported range [70B, inf)",
    ),
    "no autoSelect": (
        csr("rt", entry(autoSelect=None), entry(autoSelect=False)),
        SERVICE,
        Check.AUTO_SELECT,
        "supports the model but has no supportedModelFormats[].autoSelect=true entry, so automatic selection skips it "
        "(pin it explicitly via spec.runtime.name instead)",
    ),
    "autoSelect on another entry only": (
        csr("rt", entry(autoSelect=False), entry(modelFormat={"name": "gguf"})),
        SERVICE,
        Check.SCORE,
        "matching format safetensors is not autoSelect-enabled (a different supportedModelFormats entry on this "
        "runtime has autoSelect=true, but not the one that matches this model)",
    ),
    "a negative score": (
        csr("rt", entry(modelFormat={"name": "safetensors", "version": "1.0.0", "weight": -4})),
        SERVICE,
        Check.SCORE,
        "auto-select score is 0",
    ),
}


@pytest.mark.spec("SR-5", "CR-5")
@pytest.mark.parametrize(("candidate", "service", "check", "reason"), EXCLUSIONS.values(), ids=EXCLUSIONS)
def test_exclusions(candidate: Runtime, service: ServiceFacts, check: Check, reason: str) -> None:
    (judged,) = explain(MODEL, Requirements.of(service), [candidate])
    assert judged.exclusion is not None
    assert (judged.exclusion.check, judged.exclusion.reason) == (check, reason)


PASSING: dict[str, tuple[Runtime, ServiceFacts]] = {
    "a listed class": (
        csr(acceleratorRequirements={"acceleratorClasses": ["a100", "h100"]}),
        _service(annotations={"ome.io/accelerator-class": "a100"}, accelerator_selector={"acceleratorClass": "h100"}),
    ),
    "a policy filters nothing": (csr(), _service(accelerator_selector={"policy": "Cheapest"})),
    "a mode only the runtime declares": (csr(engineConfig=MODE), SERVICE),
    "a decoder mode without decoder": (csr(decoderConfig=MODE), _service(deployment_mode="OMENative")),
    "an unknown mode counts as none": (
        csr(engineConfig={"annotations": {"ome.io/deploymentMode": "multinode"}}),
        _service(deployment_mode="OMENative"),
    ),
    "metadata annotations are no mode": (
        csr(engineConfig=MODE),
        _service(annotations={"ome.io/deploymentMode": "OMENative"}),
    ),
    "an enabled entry of the same format lets another match": (
        csr("rt", entry(autoSelect=False), entry(modelArchitecture="Other")),
        SERVICE,
    ),
}


@pytest.mark.parametrize(("candidate", "service"), PASSING.values(), ids=PASSING)
def test_what_does_not_exclude(candidate: Runtime, service: ServiceFacts) -> None:
    (judged,) = explain(MODEL, Requirements.of(service), [candidate])
    assert judged.exclusion is None


@pytest.mark.spec("SR-4")
def test_a_weight_of_zero_scores_ten_and_five() -> None:
    zero = entry(
        modelFormat={"name": "safetensors", "version": "1.0.0", "weight": 0},
        modelFramework={"name": "transformers", "version": "4.46.0", "weight": 0},
    )
    assert _ranked(csr("rt", zero)) == [("rt", 15)]


def test_the_failure_text_lists_the_excluded_by_name_and_counts_all() -> None:
    reader = RuntimeSnapshot(
        [
            csr("z", disabled=True),
            runtime(
                "a", {"supportedModelFormats": [entry()], "modelSizeRange": {"min": "70B"}}, namespace="llama-demo"
            ),
            csr("silent", entry(autoSelect=False)),
            runtime("elsewhere", {"supportedModelFormats": [entry()]}, namespace="other"),
        ]
    )
    with pytest.raises(NoRuntimeFoundError) as refused:
        select(MODEL, SERVICE, reader)
    assert str(refused.value) == (
        "no runtime found to support model safetensors with format safetensors in namespace llama-demo. Checked 3 "
        "runtimes (1 namespace-scoped, 2 cluster-scoped). Excluded runtimes: a (model size 3.21B is outside supported "
        "range [70B, inf)); z (runtime is disabled)"
    )


def test_the_failure_text_without_candidates() -> None:
    with pytest.raises(NoRuntimeFoundError) as refused:
        select(MODEL, SERVICE, RuntimeSnapshot())
    assert str(refused.value) == (
        "no runtime found to support model safetensors with format safetensors in namespace llama-demo"
    )


@pytest.mark.spec("SR-6")
def test_selection_ignores_what_is_inherited_and_naming_applies_it() -> None:
    parent = csr("parent", disabled=True)
    child = runtime("child", {"disabled": False}, parent="parent")
    reader = RuntimeSnapshot([parent, child])
    with pytest.raises(NoRuntimeFoundError, match="no supported formats defined"):
        select(MODEL, SERVICE, reader)
    assert check_named(ResolvedRuntime(resolve_chain(child, reader)), MODEL, SERVICE) is None


def _named(candidate: Runtime) -> ResolvedRuntime:
    return ResolvedRuntime(resolve_chain(candidate, RuntimeSnapshot([candidate])))


ADVISORIES: dict[str, tuple[Runtime, ServiceFacts, str | None]] = {
    "it declares the model": (csr(), SERVICE, None),
    "without autoSelect it still does": (csr("rt", entry(autoSelect=False)), SERVICE, None),
    "a size mismatch": (
        csr(modelSizeRange={"max": "1B"}),
        SERVICE,
        "runtime rt does not support model safetensors: model size 3.21B is outside supported range (-inf, 1B]",
    ),
    "a class prints an empty model": (
        csr(),
        _service(accelerator_selector={"acceleratorClass": "x"}),
        "runtime rt does not support model : runtime does not support the required accelerator class",
    ),
    "a mode prints an empty model": (
        csr(engineConfig=MODE),
        _service(deployment_mode="RawDeployment"),
        "runtime rt does not support model : runtime engine deployment mode MultiNode does not match requested engine "
        "deployment mode RawDeployment",
    ),
}


@pytest.mark.parametrize(("candidate", "service", "text"), ADVISORIES.values(), ids=ADVISORIES)
def test_named_runtimes(candidate: Runtime, service: ServiceFacts, text: str | None) -> None:
    assert check_named(_named(candidate), MODEL, service) == text


def test_a_named_runtime_that_must_not_be_used() -> None:
    with pytest.raises(NamedRuntimeError, match=r"^cluster-scoped runtime rt is disabled$"):
        check_named(_named(csr(disabled=True)), MODEL, SERVICE)
    nameless = replace(MODEL, spec={})
    with pytest.raises(
        NamedRuntimeError, match=r"^invalid model specification: modelFormat.name: model format name is required$"
    ):
        check_named(_named(csr()), nameless, SERVICE)


def test_a_model_that_cannot_be_matched() -> None:
    sharded = replace(MODEL, spec={**MODEL.spec, "distribution": "Sharded"})
    with pytest.raises(InvalidModelError, match="no model cache provider is configured for sharded model loading"):
        select(sharded, SERVICE, RuntimeSnapshot([csr()]))
    with pytest.raises(InvalidModelError, match="model format name is required"):
        select(replace(MODEL, spec={"modelFormat": {"name": ""}}), SERVICE, RuntimeSnapshot([csr()]))


def test_excluded_runtimes_come_after_namespaced_first_by_name() -> None:
    runtimes = [
        csr("b", disabled=True),
        csr("ok"),
        runtime("z", {"disabled": True}, namespace="p"),
        csr("a", disabled=True),
    ]
    names = [item.runtime.name for item in explain(MODEL, Requirements(), runtimes)]
    assert names == ["ok", "z", "a", "b"]
