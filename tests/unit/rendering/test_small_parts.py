"""Placeholders, flags, modes, effective values and node labels."""

from __future__ import annotations

from typing import Any

import pytest

from ome.api.config import DeployConfig, ReplicaDefaults, StrategyDefault
from ome.rendering import effective
from ome.rendering.arguments import merge_flags, set_parallelism
from ome.rendering.model import (
    Component,
    DeploymentMode,
    DeploymentModeError,
    RenderDefaults,
    ServiceFacts,
    TemplateError,
)
from ome.rendering.models import model_node_label
from ome.rendering.modes import check_mode, choose_mode, declared_mode, mode_combination_error
from ome.rendering.placeholders import PlaceholderValues, expand, expand_text

VALUES = PlaceholderValues(
    "chat",
    "prod",
    {"team": "a", "a.b/c-d": "dotted"},
    {"note": 'say "hi" \\ <b> & {{.Name}}\nsecond line'},
)

TEXTS: dict[str, tuple[str, str]] = {
    "name": ("--served-model-name={{.Name}}", "--served-model-name=chat"),
    "namespace, with spaces": ("{{ .Namespace }}", "prod"),
    "label": ("{{.Labels.team}}", "a"),
    "missing label": ("{{.Labels.absent}}", "<no value>"),
    "missing annotation": ("x-{{.Annotations.absent}}", "x-<no value>"),
    "index": ("{{index .Labels `a.b/c-d`}}", "dotted"),
    "index with quotes": ('{{index .Labels "a.b/c-d"}}', "dotted"),
    "missing index": ("{{index .Labels `absent`}}", ""),
    "several": ("{{.Name}}.{{.Namespace}}", "chat.prod"),
    "no placeholder": ("<&> $(POD) }} {", "<&> $(POD) }} {"),
    "white space trimmed": ("a {{- .Name -}} b", "achatb"),
    "literal braces": ('{{"{{"}} .Name }}', "{{ .Name }}"),
    "comment": ("a{{/* why */}}b", "ab"),
}


@pytest.mark.spec("SR-18")
@pytest.mark.parametrize(("text", "result"), TEXTS.values(), ids=TEXTS)
def test_placeholders(text: str, result: str) -> None:
    assert expand_text(text, VALUES) == result


@pytest.mark.spec("SR-18")
@pytest.mark.parametrize(
    "text",
    [
        "{{.Name",
        "{{.Foo}}",
        "{{.Labels}}",
        "{{.Labels.a-b}}",
        "{{if .Name}}x{{end}}",
        "{{}}",
        "{{ message['role'] }}",
        "{{{.Name}}}x{{",
    ],
)
def test_malformed_placeholders_are_refused(text: str) -> None:
    with pytest.raises(TemplateError, match="malformed placeholder"):
        expand_text(text, VALUES)


@pytest.mark.spec("SR-25")
def test_a_value_arrives_unchanged_and_is_not_expanded_again() -> None:
    note = VALUES.annotations["note"]
    container = {
        "args": ["{{.Annotations.note}}"],
        "env": [{"name": "N", "value": "x-{{.Annotations.note}}"}],
        "tty": True,
    }
    assert expand(container, VALUES) == {"args": [note], "env": [{"name": "N", "value": f"x-{note}"}], "tty": True}


FLAGS: dict[str, tuple[list[str], list[str], list[str], list[str]]] = {
    "a flag of args gets the value": (["--a=1", "--b=2"], [], ["--b=3"], ["--a=1", "--b=3"]),
    "in its own two-word form": (["--a", "1", "--b"], [], ["--a=3"], ["--a", "3", "--b"]),
    "a new flag is appended": (["--a=1"], [], ["--new"], ["--a=1", "--new"]),
    "two-word overrides count": (["--a=1"], [], ["--a", "2", "--c", "3"], ["--a=2", "--c=3"]),
    "a flag only in command stays there": (["--a=1"], ["run", "--b=2"], ["--b=3"], ["--a=1"]),
    "a bare flag stays": (["--a"], [], ["--a"], ["--a"]),
    "a longer flag is another": (
        ["--mem-frac-static=1"],
        [],
        ["--mem-frac=2"],
        ["--mem-frac-static=1", "--mem-frac=2"],
    ),
}


@pytest.mark.parametrize(("args", "command", "overrides", "result"), FLAGS.values(), ids=FLAGS)
def test_flags(args: list[str], command: list[str], overrides: list[str], result: list[str]) -> None:
    assert merge_flags(args, command, overrides) == result


PARALLELISM: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "first alias in args": (
        {"args": ["--tp=8", "--pp-size=1"]},
        {"tensorParallelSize": 4, "pipelineParallelSize": 2},
        {"args": ["--tp=4", "--pp-size=2"]},
    ),
    "else in command": (
        {"command": ["x", "--tensor-parallel-size", "8"], "args": ["y"]},
        {"tensorParallelSize": 4},
        {"command": ["x", "--tensor-parallel-size", "4"], "args": ["y"]},
    ),
    "never adds a flag": ({"args": ["y"]}, {"tensorParallelSize": 4}, {"args": ["y"]}),
    "0 does nothing": ({"args": ["--tp=8"]}, {"tensorParallelSize": 0}, {"args": ["--tp=8"]}),
}


@pytest.mark.parametrize(("container", "override", "result"), PARALLELISM.values(), ids=PARALLELISM)
def test_parallelism(container: dict[str, Any], override: dict[str, Any], result: dict[str, Any]) -> None:
    set_parallelism(container, override)
    assert container == result


def _annotated(mode: str) -> dict[str, Any]:
    return {"annotations": {"ome.io/deploymentMode": mode}}


def _service(component: dict[str, Any], mode: str = "", name: Component = Component.ENGINE) -> ServiceFacts:
    return ServiceFacts(name="chat", namespace="prod", deployment_mode=mode, components={name: component})


MODES: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    "nothing said": ({}, "", {}, "RawDeployment Default"),
    "component annotation": (_annotated("OMENative"), "RawDeployment", {}, "OMENative ComponentAnnotation"),
    "service before runtime": (
        _annotated("RawDeployment"),
        "",
        _annotated("OMENative"),
        "RawDeployment ComponentAnnotation",
    ),
    "runtime annotation before spec.deploymentMode": (
        {},
        "RawDeployment",
        _annotated("OMENative"),
        "OMENative ComponentAnnotation",
    ),
    "annotation RawDeployment before a leader": (
        {**_annotated("RawDeployment"), "leader": {}},
        "OMENative",
        {},
        "RawDeployment ComponentAnnotation",
    ),
    "an unknown value is skipped": (
        _annotated("Serverless"),
        "",
        _annotated("MultiNode"),
        "MultiNode ComponentAnnotation",
    ),
    "case counts": (_annotated("omenative"), "OMENative", {}, "OMENative ServiceSpec"),
    "spec.deploymentMode before the shape": ({"leader": {}}, "RawDeployment", {}, "RawDeployment ServiceSpec"),
    "a leader of the runtime": ({}, "", {"leader": {}, "worker": {}}, "OMENative LeaderWorkerShape"),
}


@pytest.mark.spec("IS-26")
@pytest.mark.parametrize(("own", "spec_mode", "config", "expected"), MODES.values(), ids=MODES)
def test_modes(own: dict[str, Any], spec_mode: str, config: dict[str, Any], expected: str) -> None:
    choice = choose_mode(
        Component.ENGINE, _service(own, spec_mode), {"engineConfig": config}, effective.merge_component(config, own)
    )
    assert f"{choice.mode} {choice.source}" == expected


def test_metadata_annotations_and_router_shapes_set_no_mode() -> None:
    facts = ServiceFacts(
        name="chat",
        namespace="prod",
        annotations={"ome.io/deploymentMode": "MultiNode"},
        components={Component.ROUTER: {"leader": {}}},
    )
    assert choose_mode(Component.ROUTER, facts, {}, {"leader": {}}).mode is DeploymentMode.RAW_DEPLOYMENT
    assert declared_mode(facts, Component.ROUTER) is None


REFUSED_MODES: dict[str, tuple[Component, DeploymentMode, dict[str, Any], str]] = {
    "VirtualDeployment on a component": (
        Component.ENGINE,
        DeploymentMode.VIRTUAL_DEPLOYMENT,
        {},
        "whole InferenceService",
    ),
    "MultiNode on a router": (Component.ROUTER, DeploymentMode.MULTI_NODE, {"worker": {}}, "for engine and decoder"),
    "MultiNode without worker": (
        Component.ENGINE,
        DeploymentMode.MULTI_NODE,
        {"leader": {}},
        "^engine: deployment mode MultiNode requires leader and worker; declare both, or choose RawDeployment or "
        "OMENative$",
    ),
}


@pytest.mark.parametrize(("component", "mode", "merged", "text"), REFUSED_MODES.values(), ids=REFUSED_MODES)
def test_refused_modes(component: Component, mode: DeploymentMode, merged: dict[str, Any], text: str) -> None:
    with pytest.raises(DeploymentModeError, match=text):
        check_mode(component, mode, merged)


def test_engine_and_decoder_must_agree_on_omenative() -> None:
    assert mode_combination_error(DeploymentMode.OME_NATIVE, None) == (
        'InvalidDeploymentModeCombination: engine deploymentMode="OMENative" does not match decoder deploymentMode=""; '
        "when either is OMENative, both must use the same value"
    )
    assert mode_combination_error(DeploymentMode.OME_NATIVE, DeploymentMode.OME_NATIVE) is None
    assert mode_combination_error(DeploymentMode.RAW_DEPLOYMENT, DeploymentMode.MULTI_NODE) is None


CHART = RenderDefaults(
    deploy=DeployConfig(
        replicas=ReplicaDefaults(default_min_replicas=1, default_max_replicas={"engine": 3, "decoder": 3, "router": 2}),
        termination_grace_period_seconds=600,
        update_strategy={"engine": StrategyDefault(type="SurgeThenDrain", max_surge="25%", max_unavailable="25%")},
    ),
    instance_ready_timeout="30m",
)
BOUNDS: dict[str, tuple[dict[str, Any], DeploymentMode, RenderDefaults, tuple[int, int]]] = {
    "chart defaults": ({}, DeploymentMode.RAW_DEPLOYMENT, CHART, (1, 3)),
    "without defaults": ({}, DeploymentMode.RAW_DEPLOYMENT, RenderDefaults(), (1, 1)),
    "a default maximum is raised": ({"minReplicas": 5}, DeploymentMode.RAW_DEPLOYMENT, CHART, (5, 5)),
    "0 is an unset maximum": ({"maxReplicas": 0}, DeploymentMode.RAW_DEPLOYMENT, CHART, (1, 3)),
    "a written maximum stays in RawDeployment": (
        {"minReplicas": 5, "maxReplicas": 2},
        DeploymentMode.RAW_DEPLOYMENT,
        CHART,
        (5, 2),
    ),
    "and is raised in OMENative": ({"minReplicas": 5, "maxReplicas": 2}, DeploymentMode.OME_NATIVE, CHART, (5, 5)),
    "an explicit 0 minimum": ({"minReplicas": 0}, DeploymentMode.RAW_DEPLOYMENT, CHART, (0, 3)),
}


@pytest.mark.parametrize(("merged", "mode", "defaults", "bounds"), BOUNDS.values(), ids=BOUNDS)
def test_replica_bounds(
    merged: dict[str, Any], mode: DeploymentMode, defaults: RenderDefaults, bounds: tuple[int, int]
) -> None:
    found = effective.replica_bounds(Component.ENGINE, mode, merged, defaults)
    assert (found.minimum, found.maximum) == bounds


def _strategy(**parts: Any) -> dict[str, Any]:
    return {"updateStrategy": parts}


STRATEGIES: dict[str, tuple[dict[str, Any], dict[str, Any], RenderDefaults, dict[str, Any]]] = {
    "the operator's budget of the default type": (
        {},
        {},
        CHART,
        {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": "25%"}},
    ),
    "only the budget the resolved type reads": (
        _strategy(type="InPlaceIfPossible"),
        {},
        CHART,
        {"type": "InPlaceIfPossible", "rollingUpdate": {"maxUnavailable": "25%"}},
    ),
    "the runtime before the operator": (
        {},
        _strategy(type="RecreatePod", rollingUpdate={"maxUnavailable": 2}),
        CHART,
        {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 2}},
    ),
    "field by field over three layers": (
        _strategy(rollingUpdate={"partition": 1}),
        _strategy(type="RecreatePod"),
        CHART,
        {"type": "RecreatePod", "rollingUpdate": {"partition": 1, "maxUnavailable": "25%"}},
    ),
    "an explicit 0 is a budget": (
        _strategy(rollingUpdate={"maxSurge": 0}),
        {},
        CHART,
        {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 0}},
    ),
    "no operator defaults": ({}, {}, RenderDefaults(), {"type": "SurgeThenDrain"}),
}


@pytest.mark.spec("ON-14")
@pytest.mark.parametrize(("own", "config", "defaults", "strategy"), STRATEGIES.values(), ids=STRATEGIES)
def test_update_strategies(
    own: dict[str, Any], config: dict[str, Any], defaults: RenderDefaults, strategy: dict[str, Any]
) -> None:
    found = effective.lifecycle(Component.ENGINE, {"lifecycle": own}, {"lifecycle": config}, defaults, multi_pod=False)
    assert found["updateStrategy"] == strategy


TIMEOUTS: dict[str, tuple[str | None, str | None, str | None]] = {
    "service": ("5m", "10m", "5m"),
    "runtime": (None, "10m", "10m"),
    "operator": (None, None, "30m"),
    "0s in the service hides the runtime's value": ("0s", "10m", "30m"),
}


@pytest.mark.spec("ON-14")
@pytest.mark.parametrize(("own", "config", "result"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_instance_ready_timeout(own: str | None, config: str | None, result: str) -> None:
    layers = [{"lifecycle": {"instanceReadyTimeout": value} if value else {}} for value in (own, config)]
    found = effective.lifecycle(Component.ENGINE, layers[0], layers[1], CHART, multi_pod=False)
    assert found["instanceReadyTimeout"] == result


def test_lifecycle_fallbacks_follow_the_shape() -> None:
    single = effective.lifecycle(Component.ENGINE, {}, {}, RenderDefaults(), multi_pod=False)
    gang = effective.lifecycle(Component.ENGINE, {}, {}, RenderDefaults(), multi_pod=True)
    assert (single["restartPolicy"], single["readyPolicy"]) == ("None", "None")
    assert (gang["restartPolicy"], gang["readyPolicy"]) == ("RecreateInstanceOnPodRestart", "AllPodReady")
    assert "instanceReadyTimeout" not in single


def test_an_explicit_zero_of_min_ready_seconds_wins() -> None:
    defaults = RenderDefaults(deploy=DeployConfig(min_ready_seconds=30))
    assert effective.min_ready_seconds({"lifecycle": {"minReadySeconds": 0}}, defaults) == 0
    assert effective.min_ready_seconds({}, defaults) == 30


LABELS: dict[str, tuple[str, str, str]] = {
    "cluster": ("llama", "", "models.ome.io/clusterbasemodel.llama"),
    "namespaced": ("llama", "prod", "models.ome.io/prod.basemodel.llama"),
    "a long cluster name": (
        "a-very-long-model-name-of-more-than-thirty-two-letters",
        "",
        "models.ome.io/clusterbasemodel.a61411dd-than-thirty-two-letters",
    ),
}


@pytest.mark.spec("MO-3")
@pytest.mark.parametrize(("name", "namespace", "label"), LABELS.values(), ids=LABELS)
def test_model_node_labels(name: str, namespace: str, label: str) -> None:
    assert model_node_label(name, namespace) == label


@pytest.mark.spec("MO-4")
def test_a_long_namespaced_pair_shortens_the_namespace_first() -> None:
    label = model_node_label("m" * 30, "team-platform-a")
    namespace, _, name = label.removeprefix("models.ome.io/").partition(".basemodel.")
    assert (len(namespace), name) == (8, "m" * 30)
