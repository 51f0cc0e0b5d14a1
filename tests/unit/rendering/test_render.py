"""Components as they come out whole."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from ome.api.config import DeployConfig
from ome.rendering.metadata import service_annotations
from ome.rendering.model import (
    AcceleratorFacts,
    Component,
    ComponentNotConfiguredError,
    DeploymentMode,
    DeploymentModeError,
    FineTunedWeightError,
    FineTunedWeightFacts,
    ModelFacts,
    RenderDefaults,
    RenderInput,
    TemplateError,
)
from ome.rendering.render import render, render_component
from tests.unit.rendering.builders import FORMAT, MODEL, PVC, RUNNER, engine, env, facts, main

GANG = {"runner": deepcopy(RUNNER)}
ROUTER_CONFIG = {
    "config": {"alpha": "2", "zeta": "1"},
    "runner": {
        "name": "router",
        "image": "router:1",
        "args": ["--isvc={{.Name}}"],
        "env": [{"name": "zeta", "value": "user"}, {"name": "keep", "value": "k"}],
        "ports": [{"containerPort": 8000, "name": "http"}],
    },
}


def _with_router(own: dict[str, Any] | None = None, **more: Any) -> RenderInput:
    return facts(runtime={"routerConfig": ROUTER_CONFIG}, components={Component.ROUTER: own or {}}, **more)


@pytest.mark.spec("SR-12", "MO-12")
def test_a_model_on_the_host() -> None:
    rendered = engine(facts())
    container, pod = main(rendered), rendered.template["spec"]
    assert env(container) == {"MODEL_PATH": "/raid/models/llama-3-2-3b", "PARALLELISM_SIZE": "1"}
    assert container["volumeMounts"][-1] == {
        "name": "llama-3-2-3b",
        "mountPath": "/raid/models/llama-3-2-3b",
        "readOnly": True,
    }
    assert pod["volumes"][-1] == {"name": "llama-3-2-3b", "hostPath": {"path": "/raid/models/llama-3-2-3b"}}
    assert pod["nodeSelector"] == {"models.ome.io/clusterbasemodel.llama-3-2-3b": "Ready"}
    assert "--served-model-name=chat" in container["args"]
    assert "--model-path=$(MODEL_PATH)" in container["args"]


@pytest.mark.spec("MO-12")
def test_a_model_on_a_claim() -> None:
    rendered = engine(facts(model=PVC))
    assert env(main(rendered))["MODEL_PATH"] == "/opt/ml/model"
    assert main(rendered)["volumeMounts"][-1] == {
        "name": "llama-3-2-3b",
        "mountPath": "/opt/ml/model",
        "readOnly": True,
        "subPath": "llama/3b",
    }
    assert rendered.template["spec"]["volumes"][-1] == {
        "name": "llama-3-2-3b",
        "persistentVolumeClaim": {"claimName": "weights", "readOnly": True},
    }
    assert "nodeSelector" not in rendered.template["spec"]


@pytest.mark.spec("SR-12")
def test_a_preset_model_path_is_respected_and_none_comes_without_a_model() -> None:
    preset = facts({"runner": {"name": "ome-container", "env": [{"name": "MODEL_PATH", "value": "/mine"}]}})
    assert env(main(engine(preset)))["MODEL_PATH"] == "/mine"
    bare = engine(facts(model=None))
    assert "MODEL_PATH" not in env(main(bare))
    assert [volume["name"] for volume in bare.template["spec"]["volumes"]] == ["dshm"]
    assert not any(label.startswith("base-model") for label in bare.labels)


def _pod_facts(model: ModelFacts) -> dict[str, Any]:
    pod = engine(facts(model=model)).template["spec"]
    return {"volumes": [volume["name"] for volume in pod["volumes"]], "selector": pod.get("nodeSelector", {})}


MODELS: dict[str, tuple[ModelFacts, dict[str, Any]]] = {
    "vendor: only the selector": (
        replace(MODEL, spec={"storage": {"storageUri": "vendor://v/t/p", "path": "/x"}}),
        {"volumes": ["dshm"], "selector": {"models.ome.io/clusterbasemodel.llama-3-2-3b": "Ready"}},
    ),
    "local without a path: only the selector": (
        replace(MODEL, spec={"storage": {"storageUri": "local:///x"}}),
        {"volumes": ["dshm"], "selector": {"models.ome.io/clusterbasemodel.llama-3-2-3b": "Ready"}},
    ),
    "a dot in the name": (
        replace(MODEL, name="llama-3.2"),
        {"volumes": ["dshm", "llama-3-2"], "selector": {"models.ome.io/clusterbasemodel.llama-3.2": "Ready"}},
    ),
    "a BaseModel": (
        replace(MODEL, namespace="prod"),
        {"volumes": ["dshm", "llama-3-2-3b"], "selector": {"models.ome.io/prod.basemodel.llama-3-2-3b": "Ready"}},
    ),
}


@pytest.mark.parametrize(("model", "expected"), MODELS.values(), ids=MODELS)
def test_other_models(model: ModelFacts, expected: dict[str, Any]) -> None:
    assert _pod_facts(model) == expected


@pytest.mark.spec("IS-23")
def test_overlays_stand_beside_the_model() -> None:
    overlay = ModelFacts(name="lora-a", spec={"storage": {"storageUri": "hf://x/y", "path": "/raid/lora"}})
    rendered = engine(facts(overlays=(overlay,)))
    assert env(main(rendered))["OVERLAY_LORA_A_MODEL_PATH"] == "/opt/ml/model-overlays/lora-a"
    assert main(rendered)["volumeMounts"][-1]["mountPath"] == "/opt/ml/model-overlays/lora-a"
    assert rendered.template["spec"]["volumes"][-1] == {"name": "lora-a", "hostPath": {"path": "/raid/lora"}}
    assert rendered.template["spec"]["nodeSelector"]["models.ome.io/clusterbasemodel.lora-a"] == "Ready"


@pytest.mark.spec("SR-28")
@pytest.mark.parametrize("model", [MODEL, PVC], ids=["hf", "pvc"])
def test_a_router_gets_nothing_of_the_model(model: ModelFacts) -> None:
    overlay = replace(MODEL, name="lora")
    given = _with_router(model=model, overlays=(overlay,))
    pod = render_component(given, Component.ROUTER).template["spec"]
    assert "volumes" not in pod
    assert "nodeSelector" not in pod
    assert "volumeMounts" not in pod["containers"][0]
    assert "MODEL_PATH" not in env(pod["containers"][0])


@pytest.mark.spec("IS-46")
def test_router_config_becomes_env_in_key_order_once() -> None:
    given = _with_router({"config": {"beta": "b", "alpha": "isvc"}})
    rendered = render_component(given, Component.ROUTER)
    container = main(rendered)
    assert [(item["name"], item["value"]) for item in container["env"]] == [
        ("keep", "k"),
        ("alpha", "isvc"),
        ("beta", "b"),
        ("zeta", "1"),
    ]
    assert container["args"] == ["--isvc=chat"]
    assert rendered.template["spec"]["serviceAccountName"] == "chat-router"
    assert "readinessProbe" not in container


@pytest.mark.spec("SR-21", "SR-26")
def test_a_container_named_like_the_runner_keeps_its_place_and_joins_args() -> None:
    listed = [
        {"name": "before", "image": "b"},
        {"name": "ome-container", "image": "podspec:1", "args": ["--podspec"], "workingDir": "/w"},
        {"name": "after", "image": "a"},
    ]
    rendered = engine(facts(config={"containers": listed}))
    containers = rendered.template["spec"]["containers"]
    assert [container["name"] for container in containers] == ["before", "ome-container", "after"]
    assert containers[1]["args"][:2] == ["--podspec", "--host=0.0.0.0"]
    assert containers[1]["image"] == RUNNER["image"]
    assert containers[1]["workingDir"] == "/w"
    assert {key: containers[0][key] for key in listed[0]} == listed[0]


@pytest.mark.spec("SR-21")
def test_without_such_a_container_the_runner_comes_last() -> None:
    rendered = engine(facts(config={"containers": [{"name": "proxy", "image": "p", "ports": [{"containerPort": 80}]}]}))
    assert [container["name"] for container in rendered.template["spec"]["containers"]] == ["proxy", "ome-container"]
    assert rendered.service_ports == ({"port": 80, "targetPort": 80, "protocol": "TCP"},)


def test_without_a_runner_the_first_container_is_the_main_one() -> None:
    given = facts(config={"runner": None, "containers": [{"name": "c1", "image": "c1:1", "args": ["{{.Name}}"]}]})
    container = main(engine(given))
    assert container["args"] == ["chat"]
    assert "env" not in container


def test_a_component_without_any_container() -> None:
    given = facts(components={Component.DECODER: {}})
    with pytest.raises(ComponentNotConfiguredError) as refused:
        render_component(given, Component.DECODER)
    assert str(refused.value) == (
        "decoder has no container: spec.decoder declares none and runtime sglang has no decoderConfig that does "
        "(no containers found in pod spec and no runner spec provided)"
    )


def test_what_came_before_an_error_stands() -> None:
    rendering = render(facts(components={Component.DECODER: {}, Component.ROUTER: {}}))
    assert [component.name for component in rendering.components] == ["chat-engine"]
    assert isinstance(rendering.error, ComponentNotConfiguredError)


@pytest.mark.spec("IS-6")
def test_undeclared_components_are_not_rendered() -> None:
    rendering = render(facts(runtime={"routerConfig": ROUTER_CONFIG}))
    assert [component.component for component in rendering.components] == [Component.ENGINE]


def test_a_service_without_engine_and_a_wrong_pair_of_modes_render_nothing() -> None:
    alone = replace(facts(), service=replace(facts().service, components={Component.ROUTER: {}}))
    assert str(render(alone).error) == "engine component is required"
    native = {"annotations": {"ome.io/deploymentMode": "OMENative"}}
    pair = render(facts(native, components={Component.DECODER: {"runner": {"name": "d", "image": "i"}}}))
    assert pair.components == ()
    assert isinstance(pair.error, DeploymentModeError)
    assert str(pair.error).startswith("InvalidDeploymentModeCombination")


@pytest.mark.spec("SR-18")
def test_a_malformed_placeholder_fails_the_component() -> None:
    with pytest.raises(TemplateError):
        engine(facts({"runner": {"name": "ome-container", "args": ["{{.Nam"]}}))


PROBES: dict[str, tuple[RenderInput, Any]] = {
    "the first port": (facts(), {"port": 8080}),
    "8080 without ports": (facts(config={"runner": {**RUNNER, "ports": []}}), {"port": 8080}),
    "another first port": (
        facts({"runner": {"name": "ome-container", "ports": [{"containerPort": 9000}]}}),
        {"port": 9000},
    ),
    "its own probe stays": (
        facts({"runner": {"name": "ome-container", "readinessProbe": {"exec": {"command": ["x"]}}}}),
        None,
    ),
    "another container name": (facts({"runner": {"name": "mine"}}), None),
    "OMENative": (facts(service={"deployment_mode": "OMENative"}), None),
    "a probe profile": (facts({"annotations": {"runtime.ome.io/probe-profile": "sglang-http"}}), None),
}


@pytest.mark.spec("SR-23")
@pytest.mark.parametrize(("given", "socket"), PROBES.values(), ids=PROBES)
def test_the_default_probe(given: RenderInput, socket: Any) -> None:
    probe = main(engine(given)).get("readinessProbe", {})
    assert probe.get("tcpSocket") == socket
    if socket is not None:
        assert probe == {
            "tcpSocket": socket,
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        }


H100 = AcceleratorFacts(
    name="h100",
    spec={
        "discovery": {
            "nodeSelector": {"gpu": "h100", "zone": "class"},
            "affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
                "podAffinity": {"x": 1},
            },
        },
        "resources": [{"name": "nvidia.com/gpu", "quantity": "4"}, {"name": "rdma/ib"}],
    },
)


@pytest.mark.spec("SR-13")
def test_node_selector_precedence() -> None:
    ready = "models.ome.io/clusterbasemodel.llama-3-2-3b"
    given = facts(
        {"nodeSelector": {"d": "service", ready: "Never"}},
        config={"nodeSelector": {"a": "config", "b": "config", "zone": "config", "d": "config"}},
        runtime={"nodeSelector": {"b": "runtime", "zone": "runtime", "d": "runtime"}},
        accelerator=H100,
    )
    assert engine(given).template["spec"]["nodeSelector"] == {
        "a": "config",
        "b": "runtime",
        "zone": "class",
        "gpu": "h100",
        "d": "service",
        ready: "Ready",
    }


def test_class_resources_and_affinity() -> None:
    container, pod = main(engine(facts(accelerator=H100))), engine(facts(accelerator=H100)).template["spec"]
    for kind in ("requests", "limits"):
        assert container["resources"][kind] == {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "4", "rdma/ib": "1"}
    assert env(container)["PARALLELISM_SIZE"] == "4"
    assert pod["affinity"] == {"nodeAffinity": H100.spec["discovery"]["affinity"]["nodeAffinity"]}
    own = facts(
        {
            "runner": {"name": "ome-container", "resources": {"limits": {"cpu": "12"}}},
            "affinity": {"podAntiAffinity": {}},
        },
        accelerator=H100,
    )
    assert main(engine(own))["resources"]["limits"] == {"cpu": "12", "memory": "30Gi", "nvidia.com/gpu": "1"}
    assert "nodeAffinity" not in engine(own).template["spec"]["affinity"]


OVERRIDES = {
    "h100": {
        "runtimeArgsOverride": ["--mem-frac=0.85", "--new-flag"],
        "tensorParallelismOverride": {"tensorParallelSize": 4, "pipelineParallelSize": 2},
        "environmentOverride": {"A": "class", "Z": "class"},
    }
}


def _overridden(accelerator: str, *, selected: bool = False, auto_select: bool = True) -> dict[str, Any]:
    runner = {**RUNNER, "args": ["--tp-size=8", "--pp-size=1", "--mem-frac=0.9"], "env": [{"name": "A", "value": "rt"}]}
    formats = [{**FORMAT, "autoSelect": auto_select, "acceleratorConfig": OVERRIDES}]
    given = facts(
        config={"runner": runner},
        runtime={"supportedModelFormats": formats},
        accelerator=AcceleratorFacts(name=accelerator, spec={}),
    )
    return main(engine(replace(given, runtime=replace(given.runtime, selected=selected))))


@pytest.mark.spec("SR-11")
def test_overrides_of_the_chosen_class() -> None:
    container = _overridden("h100")
    assert container["args"] == ["--tp-size=4", "--pp-size=2", "--mem-frac=0.85", "--new-flag"]
    assert env(container) == {"A": "class", "MODEL_PATH": "/raid/models/llama-3-2-3b", "Z": "class"}


@pytest.mark.spec("SR-11")
def test_a_class_without_overrides_changes_no_argument() -> None:
    container = _overridden("a100")
    assert container["args"] == ["--tp-size=8", "--pp-size=1", "--mem-frac=0.9"]
    assert env(container)["PARALLELISM_SIZE"] == "1"


def test_a_selected_runtime_reads_auto_select_entries_only() -> None:
    assert _overridden("h100", selected=True, auto_select=False)["args"][0] == "--tp-size=8"
    assert _overridden("h100", selected=False, auto_select=False)["args"][0] == "--tp-size=4"


def _gang(own: dict[str, Any] | None = None, mode: str = "", **more: Any) -> RenderInput:
    config = {"leader": deepcopy(GANG), "worker": {**deepcopy(GANG), "size": 3}, "runner": None}
    return facts(own, config=config, service={"deployment_mode": mode}, **more)


@pytest.mark.spec("SR-12")
def test_a_gang_has_two_templates_and_counts_its_gpus() -> None:
    rendered = engine(_gang())
    assert rendered.mode is DeploymentMode.OME_NATIVE
    assert rendered.worker_template is not None
    assert (rendered.worker_size, rendered.pods_per_instance) == (3, 4)
    assert env(main(rendered))["PARALLELISM_SIZE"] == "4"
    worker = rendered.worker_template["spec"]["containers"][0]
    assert env(worker) == env(main(rendered))
    assert rendered.worker_template["spec"]["volumes"][-1]["name"] == "llama-3-2-3b"
    assert not rendered.leaders_only
    assert engine(_gang({"worker": {"size": 1}})).worker_size == 1
    assert engine(_gang({"worker": {"size": 1}})).leaders_only


def test_a_gang_of_undeclared_size_has_one_worker() -> None:
    config = {"leader": deepcopy(GANG), "worker": deepcopy(GANG), "runner": None}
    assert engine(facts(config=config)).worker_size == 1


def test_a_selector_of_a_gang_can_be_overridden_and_only_its_own_counts() -> None:
    ready = "models.ome.io/clusterbasemodel.llama-3-2-3b"
    rendered = engine(_gang({"leader": {"nodeSelector": {ready: "Never"}}, "nodeSelector": {"x": "component"}}))
    assert rendered.template["spec"]["nodeSelector"] == {ready: "Never"}
    assert rendered.worker_template is not None
    assert rendered.worker_template["spec"]["nodeSelector"] == {ready: "Ready"}


def test_multi_node_leaders_are_marked_and_workers_are_not_scraped() -> None:
    own = {"annotations": {"ome.io/deploymentMode": "MultiNode", "prometheus.io/scrape": "true"}}
    rendered = engine(_gang(own))
    assert rendered.template["metadata"]["labels"]["ray.io/node-type"] == "head"
    assert rendered.template["metadata"]["labels"]["app"] == "chat-engine"
    assert rendered.worker_template is not None
    assert "app" not in rendered.worker_template["metadata"]["labels"]
    assert "app" not in rendered.labels
    assert "prometheus.io/scrape" in rendered.template["metadata"]["annotations"]
    assert "prometheus.io/scrape" not in rendered.worker_template["metadata"]["annotations"]
    assert main(rendered)["imagePullPolicy"] == "IfNotPresent"


def test_a_leader_in_raw_deployment_is_the_only_pod() -> None:
    rendered = engine(_gang(mode="RawDeployment"))
    assert rendered.mode is DeploymentMode.RAW_DEPLOYMENT
    assert rendered.worker_template is None
    assert rendered.worker_size == 0
    assert main(rendered)["image"] == RUNNER["image"]


def test_half_a_gang_is_refused() -> None:
    with pytest.raises(DeploymentModeError, match="requires leader and worker"):
        engine(facts(config={"worker": deepcopy(GANG)}))


def test_labels_and_annotations() -> None:
    given = facts(
        {
            "annotations": {"both": "engine", "rdma.ome.io/auto-inject": "true"},
            "labels": {"both": "engine", "component": "mine"},
        },
        config={"annotations": {"both": "runtime", "rt": "1"}, "labels": {"both": "runtime", "rt": "1"}},
        service={"labels": {"both": "meta", "team": "a"}, "annotations": {"both": "meta", "note": "n"}},
        model=replace(MODEL, annotations={"models.ome.io/category": "LARGE"}),
    )
    rendered = engine(given)
    assert rendered.labels == {
        "both": "engine",
        "team": "a",
        "rt": "1",
        "app": "chat-engine",
        "ome.io/inferenceservice": "chat",
        "component": "engine",
        "serving-runtime": "sglang",
        "fine-tuned-serving": "false",
        "base-model-name": "llama-3-2-3b",
        "base-model-size": "LARGE",
        "base-model-type": "Serving",
        "base-model-vendor": "meta-llama",
    }
    assert rendered.annotations == {
        "both": "engine",
        "note": "n",
        "rt": "1",
        "rdma.ome.io/auto-inject": "true",
        "ome.io/serving-runtime": "sglang",
        "ome.io/base-model-name": "llama-3-2-3b",
        "ome.io/base-model-format": "safetensors",
        "ome.io/base-model-format-version": "1.0.0",
        "ome.io/base-model-vendor": "meta-llama",
    }
    assert rendered.template["metadata"] == {"labels": rendered.labels, "annotations": rendered.annotations}
    assert rendered.revision_excluded_annotations == ("note",)
    assert "rdma.ome.io/auto-inject" not in service_annotations(rendered.annotations)
    assert service_annotations(rendered.annotations)["note"] == "n"


REQUESTS = (
    "ome.io/runtime-sync",
    "ome.io/rollout-paused",
    "ome.io/rollout-repin",
    "ome.io/rollout-promote",
    "ome.io/rollout-rollback",
    "ome.io/revision-history-limit",
    "ome.io/rollout-ready-timeout",
    "ome.io/migration-request-v1-1234",
    "kubectl.kubernetes.io/last-applied-configuration",
    "internal.ome.io/in-place-image-transition",
    "internal.ome.io/storage-initializer-sourceuri",
)


@pytest.mark.parametrize("key", REQUESTS)
@pytest.mark.parametrize("mode", ["RawDeployment", "OMENative"])
def test_a_request_to_ome_changes_nothing_that_is_rendered(key: str, mode: str) -> None:
    before = engine(facts(service={"deployment_mode": mode}))
    after = engine(facts(service={"deployment_mode": mode, "annotations": {key: "x"}}))
    assert after == before


@pytest.mark.spec("LA-3")
@pytest.mark.parametrize(
    "key",
    [
        "prometheus.io/port",
        "k8s.grafana.com/x",
        "loki.grafana.com/x",
        "networking.gke.io/x",
        "rdma.ome.io/profile",
        "runtime.ome.io/shm-profile",
        "ome.io/inject-model-init",
    ],
)
def test_pod_only_annotations_are_kept_from_services(key: str) -> None:
    rendered = engine(facts(service={"annotations": {key: "x"}}))
    assert rendered.template["metadata"]["annotations"][key] == "x"
    assert key not in service_annotations(rendered.annotations)


QUEUES: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "volcano before the dedicated cluster": (
        {"ome.io/volcano-queue": "vq", "ome.io/dedicated-ai-cluster": "dac"},
        "RawDeployment",
        {"volcano.sh/queue-name": "vq"},
    ),
    "dedicated cluster": ({"ome.io/dedicated-ai-cluster": "dac"}, "RawDeployment", {"volcano.sh/queue-name": "dac"}),
    "kueue by presence": (
        {"ome.io/dedicated-ai-cluster": "dac", "kueue-enabled": "false"},
        "RawDeployment",
        {"kueue.x-k8s.io/queue-name": "dac", "kueue.x-k8s.io/priority-class": "kueue-scheduling-high-priority"},
    ),
    "no volcano in OMENative": ({"ome.io/volcano-queue": "vq"}, "OMENative", {}),
}


@pytest.mark.spec("LA-4")
@pytest.mark.parametrize(("annotations", "mode", "labels"), QUEUES.values(), ids=QUEUES)
def test_queue_labels(annotations: dict[str, str], mode: str, labels: dict[str, str]) -> None:
    rendered = engine(facts(service={"annotations": annotations, "deployment_mode": mode}))
    found = {key: value for key, value in rendered.labels.items() if "kueue" in key or "volcano" in key}
    assert found == labels


def test_an_omenative_component_joins_a_queue_only_under_quota() -> None:
    def queue(resources: tuple[str, ...]) -> str | None:
        defaults = RenderDefaults(quota_accelerator_resources=resources)
        service = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}, "deployment_mode": "OMENative"}
        return engine(facts(service=service, defaults=defaults)).labels.get("kueue.x-k8s.io/queue-name")

    assert queue(("nvidia.com/gpu",)) == "lq"
    assert queue(("google.com/tpu",)) is None
    assert queue(()) == "lq"


def test_grace_period_and_scheduler() -> None:
    chart = RenderDefaults(deploy=DeployConfig(termination_grace_period_seconds=600))
    scheduled = facts(runtime={"schedulerName": "gang"}, defaults=chart)
    pod = engine(scheduled).template["spec"]
    assert (pod["terminationGracePeriodSeconds"], pod["schedulerName"]) == (600, "gang")
    own = engine(facts({"terminationGracePeriodSeconds": 5, "schedulerName": "mine"}, defaults=chart)).template["spec"]
    assert (own["terminationGracePeriodSeconds"], own["schedulerName"]) == (5, "mine")
    gang = engine(_gang(defaults=chart))
    assert gang.worker_template is not None
    assert gang.worker_template["spec"]["terminationGracePeriodSeconds"] == 600
    assert "terminationGracePeriodSeconds" not in engine(facts()).template["spec"]


@pytest.mark.spec("IS-37")
def test_of_a_runtimes_top_level_pod_fields_only_two_reach_pods() -> None:
    top = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAffinity": {}},
        "imagePullSecrets": [{"name": "s"}],
        "containers": [{"name": "c", "image": "i"}],
        "labels": {"l": "1"},
        "annotations": {"a": "1"},
        "hostIPC": True,
        "hostNetwork": True,
        "dnsPolicy": "None",
    }
    assert engine(facts(runtime=top)) == engine(facts())
    changed = engine(facts(runtime={"nodeSelector": {"n": "1"}, "schedulerName": "s"})).template["spec"]
    assert (changed["nodeSelector"]["n"], changed["schedulerName"]) == ("1", "s")


def test_service_ports_and_their_protocols() -> None:
    given = facts({"servicePortAppProtocols": {"http1": "http", "nobody": "x"}})
    assert engine(given).service_ports == (
        {"name": "http1", "port": 8080, "targetPort": 8080, "protocol": "TCP", "appProtocol": "http"},
    )
    bare = facts(
        {"servicePortAppProtocols": {"ome-container": "grpc"}},
        config={"runner": {"name": "ome-container", "image": "i"}},
    )
    assert engine(bare).service_ports == (
        {"name": "ome-container", "port": 8080, "targetPort": 8080, "protocol": "TCP", "appProtocol": "grpc"},
    )


def _weight(**spec: Any) -> FineTunedWeightFacts:
    return FineTunedWeightFacts(
        name="tuned", spec={"hyperParameters": {"strategy": "lora"}, "configuration": {}, **spec}
    )


def test_a_fine_tuned_weight() -> None:
    rendered = engine(
        facts(fine_tuned_weights=(_weight(),), model=replace(MODEL, spec={**MODEL.spec, "vendor": "meta"}))
    )
    assert rendered.annotations["ome.io/inject-fine-tuned-adapter"] == "tuned"
    assert rendered.labels["fine-tuned-serving"] == "true"
    assert rendered.labels["fine-tuned-weight-ft-strategy"] == "lora"
    assert env(main(rendered))["SERVED_MODEL_NAME"] == "/data/tuned"
    assert env(main(rendered))["MODEL_PATH"] == "/raid/models/llama-3-2-3b"


@pytest.mark.spec("MO-24")
def test_merged_weights_leave_no_base_volume_and_no_selector() -> None:
    given = facts(
        {"nodeSelector": {"mine": "1"}},
        runtime={"nodeSelector": {"rt": "1"}},
        accelerator=H100,
        fine_tuned_weights=(_weight(configuration={"merged_weights": True}),),
    )
    rendered = engine(given)
    assert rendered.template["spec"]["nodeSelector"] == {"mine": "1"}
    assert [volume["name"] for volume in rendered.template["spec"]["volumes"]] == ["dshm", "model-empty-dir"]
    assert "MODEL_PATH" not in env(main(rendered))
    assert rendered.annotations["ome.io/fine-tuned-serving-with-merged-weights"] == "true"


WEIGHTS: dict[str, tuple[tuple[FineTunedWeightFacts, ...], str]] = {
    "two": ((_weight(), _weight()), "stacked fine-tuned serving is not supported yet"),
    "no configuration": ((_weight(configuration=None),), "unexpected end of JSON input"),
    "no strategy": ((_weight(hyperParameters={}),), 'hyper-parameter "strategy"'),
    "a strategy that is no label value": (
        (_weight(hyperParameters={"strategy": "a b"}),),
        'hyper-parameter "strategy"',
    ),
}


@pytest.mark.spec("MO-23")
@pytest.mark.parametrize(("weights", "text"), WEIGHTS.values(), ids=WEIGHTS)
def test_unusable_fine_tuned_weights(weights: tuple[FineTunedWeightFacts, ...], text: str) -> None:
    with pytest.raises(FineTunedWeightError, match=text):
        engine(facts(fine_tuned_weights=weights))


def test_a_model_prepared_by_an_init_container_is_neither_mounted_nor_named() -> None:
    rendered = engine(facts({"annotations": {"ome.io/inject-model-init": "true"}}))
    assert "MODEL_PATH" not in env(main(rendered))
    assert [mount["name"] for mount in main(rendered)["volumeMounts"]] == ["dshm"]
    assert rendered.template["spec"]["volumes"][-1]["name"] == "model-empty-dir"


def test_layers_of_autoscaler_and_budgets_are_passed_on() -> None:
    given = facts(
        {"autoscaler": {"class": "None"}, "minAvailable": "50%", "autoscalerPolicyRef": {"name": "p"}},
        config={"autoscaler": {"class": "HPA"}, "maxUnavailable": 1},
    )
    rendered = engine(given)
    assert (rendered.autoscaler.service, rendered.autoscaler.runtime) == ({"class": "None"}, {"class": "HPA"})
    assert rendered.autoscaler.policy_ref == {"name": "p"}
    assert (rendered.disruption.min_available, rendered.disruption.max_unavailable) == ("50%", 1)


def test_rendering_shares_nothing_with_its_input() -> None:
    given = _gang(accelerator=H100, overlays=(replace(MODEL, name="o"),))
    before = json.dumps(given.runtime.spec), json.dumps(H100.spec), json.dumps(MODEL.spec)
    rendered = engine(given)
    _deface(rendered.template)
    _deface(rendered.worker_template)
    _deface(rendered.effective)
    assert (json.dumps(given.runtime.spec), json.dumps(H100.spec), json.dumps(MODEL.spec)) == before


def test_rendering_twice_gives_the_same() -> None:
    assert engine(_gang()) == engine(_gang())


def _deface(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _deface(item)
        value["defaced"] = True
    elif isinstance(value, list):
        for item in value:
            _deface(item)
        value.append("defaced")
