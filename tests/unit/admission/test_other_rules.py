"""Runtimes, replicas, models, revisions, policies: their validators."""

# ruff: noqa: E501 -- texts that users see stand on one line where they can

from __future__ import annotations

from typing import Any

import pytest

from ome.admission.models import validate_model
from ome.admission.policies import validate_benchmark, validate_policy
from ome.admission.replicas import ReplicaProposal, validate_replica
from ome.admission.revisions import validate_revision
from ome.admission.runtimes import default_runtime, validate_runtime
from ome.runtimes.reading import RuntimeKind
from tests.unit.admission.builders import NAMESPACE, model, obj, runtime, service, world

MANAGER = "system:serviceaccount:ome:ome-controller-manager"


# -- runtimes ----------------------------------------------------------------------------------------------------------


def runtime_refusal(new: dict[str, Any], *others: dict[str, Any]) -> str:
    return validate_runtime(new, RuntimeKind(new["kind"]), world(*others)).message


def child(name: str, parent: str, **spec: Any) -> dict[str, Any]:
    return runtime(name, annotations={"ome.io/inherit-from": parent}, **spec)


@pytest.mark.spec("SR-8")
@pytest.mark.parametrize("disabled", [True, False])
def test_chains(disabled: bool) -> None:
    assert runtime_refusal(child("a", "gone", disabled=disabled)) == (
        'inherit-from parent "gone" not found (chain so far: [a])'
    )
    assert runtime_refusal(child("a", "b", disabled=disabled), child("b", "a")) == "inheritance cycle detected: [a b a]"
    links = [child(f"r{n}", f"r{n + 1}") for n in range(1, 5)] + [runtime("r5")]
    assert runtime_refusal(child("r0", "r1", disabled=disabled), *links).startswith(
        "inheritance chain exceeds max depth 5"
    )
    assert runtime_refusal(child("r1", "r2", disabled=disabled), *links) == ""


@pytest.mark.spec("SR-8")
def test_a_profile_is_disabled() -> None:
    mark = {"ome.io/runtime-profile": "true"}
    assert runtime_refusal(runtime(annotations=mark)) == (
        'runtimes carrying ome.io/runtime-profile="true" must also set spec.disabled: true'
    )
    assert runtime_refusal(runtime(annotations=mark, disabled=True)) == ""


@pytest.mark.spec("SR-20")
@pytest.mark.parametrize("disabled", [True, False])
@pytest.mark.parametrize("mode", ["Proportional", "Pinned"])
def test_scaling_modes(mode: str, disabled: bool) -> None:
    assert "ScalingModeNotImplemented" in runtime_refusal(runtime(scalingPolicy={"mode": mode}, disabled=disabled))
    assert runtime_refusal(runtime(scalingPolicy={"mode": "Independent"}, disabled=disabled)) == ""


@pytest.mark.spec("SR-17")
def test_unknown_classes() -> None:
    needs = {"acceleratorRequirements": {"acceleratorClasses": ["h100", "b", "a"]}}
    known = obj("AcceleratorClass", "h100")
    assert runtime_refusal(runtime(**needs), known) == (
        "unknown accelerator classes referenced in AcceleratorRequirements: [b a]"
    )
    assert runtime_refusal(runtime(disabled=True, **needs), known) == ""


def test_priorities_of_one_format() -> None:
    def entries(first: int, second: int, **names: str) -> dict[str, Any]:
        shared = {"modelFormat": {"name": "f"}, "modelFramework": {"name": "g"}, "autoSelect": True}
        names_ = [names.get("one", ""), names.get("two", "")]
        return {
            "supportedModelFormats": [
                {**shared, "name": name, "priority": priority}
                for name, priority in zip(names_, (first, second), strict=True)
            ]
        }

    assert "different priorities assigned for the model format" in runtime_refusal(runtime(**entries(1, 2)))
    assert runtime_refusal(runtime(**entries(1, 1))) == ""
    assert runtime_refusal(runtime(**entries(1, 2, one="a", two="b"))) == ""
    assert runtime_refusal(runtime(disabled=True, **entries(1, 2))) == ""


def test_policy_references_have_no_place_in_a_runtime() -> None:
    assert "autoscalerPolicyRef" in runtime_refusal(
        runtime(disabled=True, decoderConfig={"autoscalerPolicyRef": {"name": "p"}})
    )


def test_autoscalers_have_the_shape_that_services_need() -> None:
    bad = {"engineConfig": {"autoscaler": {"class": "KEDA"}}}
    assert runtime_refusal(runtime(**bad)) == "engine: KedaTriggersRequired: class=keda requires at least 1 trigger"
    assert runtime_refusal(runtime(disabled=True, **bad)) == ""


def test_the_engine_preset_fills_what_is_unset() -> None:
    plain = runtime(annotations={"ome.io/engine": "sglang-pd"}, engineConfig={"runner": {"image": "mine:1"}})
    patch = {operation["path"]: operation["value"] for operation in default_runtime(plain).patch}
    assert patch.keys() == {"/spec/engineConfig", "/spec/decoderConfig", "/spec/routerConfig"}
    engine = patch["/spec/engineConfig"]["runner"]
    assert engine["image"] == "mine:1"
    assert {port["containerPort"] for port in engine["ports"]} == {30000, 8998}
    assert "--disaggregation-mode=prefill" in engine["args"]
    assert patch["/spec/decoderConfig"]["runner"]["image"] == "lmsysorg/sglang:latest"
    assert patch["/spec/routerConfig"]["runner"]["image"] == "lmsysorg/sglang-router:latest"
    assert patch["/spec/routerConfig"]["runner"]["ports"][0]["containerPort"] == 30080


def test_another_preset_is_denied_and_none_changes_nothing() -> None:
    assert not default_runtime(runtime(annotations={"ome.io/engine": "tgi"})).allowed
    assert default_runtime(runtime()).patch == ()


# -- replicas ----------------------------------------------------------------------------------------------------------

STAMP = {"ome.io/controller-write": "true"}
RUNNER = {"name": "default", "size": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}


def replica(name: str = "chat-engine", *, annotations: Any = None, owner: str = "", **spec: Any) -> dict[str, Any]:
    complete = {"component": "engine", "runners": [RUNNER]} | spec
    written = {field: value for field, value in complete.items() if value is not None}
    return obj("InferenceReplica", name, NAMESPACE, annotations=annotations, owner=owner, **written)


def projected(**spec: Any) -> dict[str, Any]:
    return replica(annotations=STAMP, owner="chat", parentRef={"name": "chat"}, **spec)


def replica_refusal(
    new: dict[str, Any], old: dict[str, Any] | None = None, *others: dict[str, Any], by: str = "ann"
) -> str:
    return validate_replica(ReplicaProposal(new, old, by, MANAGER, world(*others))).message


@pytest.mark.spec("ON-34")
def test_who_may_write_a_projected_replica() -> None:
    stored = projected(replicas=2)
    annotated = projected(replicas=2)
    annotated["metadata"]["annotations"] = {**STAMP, "ome.io/reset-instances": "all"}
    assert replica_refusal(annotated, stored) == "", "a user annotates"
    unstamped = projected(replicas=2)
    unstamped["metadata"]["annotations"] = {"a": "b"}
    assert replica_refusal(unstamped, stored) == (
        "InferenceReplica llama-demo/chat-engine is projected by InferenceService llama-demo/chat and rejects a direct "
        "UPDATE without the ome.io/controller-write=true annotation; edit the InferenceService instead"
    )
    assert replica_refusal(replica(parentRef={"name": "other"})) == (
        "InferenceReplica llama-demo/chat-engine is projected by InferenceService llama-demo/other and rejects a direct "
        "CREATE without the ome.io/controller-write=true annotation; edit the InferenceService instead"
    )
    assert replica_refusal(projected(replicas=3), stored) == (
        "InferenceReplica llama-demo/chat-engine is projected by InferenceService llama-demo/chat, whose controller alone "
        "writes its spec; edit the InferenceService instead"
    )
    assert replica_refusal(projected(replicas=3), stored, by=MANAGER) == ""


@pytest.mark.spec("ON-34")
def test_a_finalizer_may_be_taken_without_the_stamp() -> None:
    bare = projected()
    del bare["metadata"]["annotations"]
    held = {**bare, "metadata": {**bare["metadata"], "finalizers": ["ome.io/ir-teardown"], "resourceVersion": "7"}}
    assert replica_refusal(bare, held) == ""


def test_taking_the_owner_away_makes_nothing_standalone() -> None:
    freed = replica(annotations=STAMP, parentRef=None)
    assert "is immutable" in replica_refusal(freed, projected())
    owned_only = replica(annotations=STAMP, owner="chat")
    assert "writes its spec" in replica_refusal(replica(annotations=STAMP, replicas=4), owned_only)


@pytest.mark.parametrize(
    ("new", "part"),
    [
        (replica(annotations=STAMP), "ome.io/controller-write belongs to projected replicas"),
        (replica(annotations={"ome.io/composed-fields": "x"}), "ome.io/composed-fields belongs to projected replicas"),
        (replica(annotations={"ome.io/migration-request-v1-u": "{}"}), "migration requests"),
        (replica(placementReplicaLimit=1), "spec.placementReplicaLimit"),
        (replica(runners=None), "one template source is required"),
        (replica(modelRef={"name": "llama"}), "one template source"),
        (replica(runners=[{**RUNNER, "name": "leader"}]), "a leader and a worker"),
        (replica(runners=None, runtimeRef={"name": "sglang", "autoSync": False}), "follows the live runtime"),
        (
            replica(runners=None, runtimeRef={"name": "sglang", "kind": "ServingRuntime"}, component="router"),
            "routerConfig",
        ),
        (replica(autoscaler={"class": "HPA"}), "spec.autoscaler.class HPA is not supported"),
        (replica(lifecycle={"minReadySeconds": 3}), "spec.lifecycle.minReadySeconds is not read here"),
        (replica("1a"), 'must match "[a-z]([-a-z0-9]*[a-z0-9])?"'),
        (replica("front"), "collide with InferenceService llama-demo/front"),
        (replica("front-decoder"), "collide with InferenceService llama-demo/front"),
        (replica(pacing={"partition": 3}, replicas=2), "must be <= replicas (2)"),
        (
            replica(
                runners=[
                    {
                        **RUNNER,
                        "template": {
                            "spec": {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/"}]}]}
                        },
                    }
                ]
            ),
            "mounts volume v, which is not declared",
        ),
    ],
)
def test_refused_standalone_replicas(new: dict[str, Any], part: str) -> None:
    assert part in replica_refusal(new, None, runtime(), service("front"))


@pytest.mark.parametrize(
    "new",
    [
        replica(),
        replica(autoscaler={"class": "External"}),
        replica(runners=None, modelRef={"name": "llama"}),
        replica(runners=None, runtimeRef={"name": "sglang", "kind": "ServingRuntime"}),
        replica(runners=None, runtimeRef={"name": "gone"}),
        replica(runners=[{**RUNNER, "name": "leader"}, {**RUNNER, "name": "worker", "size": 2}]),
    ],
)
def test_admitted_standalone_replicas(new: dict[str, Any]) -> None:
    assert replica_refusal(new, None, runtime()) == ""


def test_the_component_is_fixed() -> None:
    assert "spec.component is immutable" in replica_refusal(replica(component="decoder"), replica())


def test_a_replica_scaled_below_its_partition_can_still_be_annotated() -> None:
    stored = replica(pacing={"partition": 3}, replicas=2)
    annotated = replica(pacing={"partition": 3}, replicas=2, annotations={"ome.io/reset-instances": "all"})
    assert replica_refusal(annotated, stored) == ""


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("MO-11")
@pytest.mark.parametrize(
    ("uri", "cluster", "more", "text"),
    [
        (
            "pvc://claim/sub",
            True,
            {},
            "ClusterBaseModel PVC URI must specify a namespace (format: pvc://{namespace}:{pvc-name}/{sub-path}), got "
            '"pvc://claim/sub"',
        ),
        (
            "pvc://ns:claim/sub",
            False,
            {},
            "namespaced BaseModel PVC URI must not specify a namespace; the BaseModel's own namespace is used, got "
            '"pvc://ns:claim/sub"',
        ),
        (
            "pvc://claim",
            False,
            {},
            'invalid PVC storage URI "pvc://claim": invalid PVC storage URI format: missing subpath',
        ),
        (
            "pvc://claim/sub",
            False,
            {"distribution": "Sharded"},
            "PVC storage URIs are not compatible with distribution=Sharded; use distribution=PerNode (or omit) for pvc:// "
            "models",
        ),
        ("pvc://claim/sub", False, {}, ""),
        ("pvc://ns:claim/sub", True, {}, ""),
        ("hf://a/b", True, {"distribution": "Sharded"}, ""),
    ],
)
def test_models(uri: str, cluster: bool, more: dict[str, Any], text: str) -> None:
    assert validate_model(model(storage={"storageUri": uri}, **more), cluster=cluster).message == text


# -- runtime revisions -------------------------------------------------------------------------------------------------


def revision(created_by: str = "ome-controller", **changes: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "ome",
        "name": "cr-rt-1",
        "labels": {"a": "b"},
        "annotations": {"ome.io/created-by": created_by},
    }
    return {"metadata": metadata | changes.pop("metadata", {}), "data": {"containers": None}, "revision": 1} | changes


@pytest.mark.spec("RR-29")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"data": {"disabled": True}}, "ControllerRevision ome/cr-rt-1 is owned by OME; .data is immutable"),
        ({"metadata": {"labels": {}}}, "ControllerRevision ome/cr-rt-1 is owned by OME; .labels are immutable"),
        ({"revision": 2}, "ControllerRevision ome/cr-rt-1 is owned by OME; .revision is immutable"),
        ({"metadata": {"annotations": {}, "finalizers": ["x"]}}, ""),
    ],
)
def test_revisions_are_immutable(changes: dict[str, Any], text: str) -> None:
    assert validate_revision(revision(**changes), revision()).message == text


@pytest.mark.spec("RR-29")
def test_revisions_of_others_are_not_ours_to_guard() -> None:
    assert validate_revision(revision("", revision=2), revision("")).allowed


# -- policies and benchmarks -------------------------------------------------------------------------------------------


def policy(kind: str, *, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return obj(kind, "p", NAMESPACE, annotations=annotations, **spec)


@pytest.mark.spec("IN-18")
def test_a_policy_in_use_cannot_be_deleted() -> None:
    user = service("a", rollout={"groups": [{"components": ["engine"], "policyRef": {"name": "p"}}]})
    old = policy("RolloutPolicy", blueGreen={})
    assert validate_policy("RolloutPolicy", None, old, world(user, service("b"))).message == (
        'RolloutPolicy "p" is referenced by 1 InferenceService(s): a; remove the refs first, or set the '
        'ome.io/allow-in-use-delete="true" annotation to force deletion'
    )
    forced = policy("RolloutPolicy", annotations={"ome.io/allow-in-use-delete": "true"}, blueGreen={})
    assert validate_policy("RolloutPolicy", None, forced, world(user)).allowed
    assert validate_policy("RolloutPolicy", None, old, world(service("b"))).allowed


@pytest.mark.parametrize(
    ("new", "part"),
    [
        (policy("RolloutPolicy", blueGreen={}, canary={"steps": []}), "exactly one of"),
        (policy("RolloutPolicy", canary={"steps": [{"capacity": 2, "traffic": 1}]}), "must be a percentage"),
        (policy("RolloutPolicy", canary={"prometheus": {"serverAddress": "http://p"}}), "use providerRef"),
        (policy("AutoscalerPolicy", enforcement="Required"), "reserved"),
        (
            policy("AutoscalerPolicy", keda={"triggers": [{"type": "cpu", "metadata": {"serverAddress": "x"}}]}),
            "use providerRef",
        ),
        (
            policy("AutoscalerPolicy", keda={"triggers": [{"type": "prometheus", "metadata": {}}]}),
            "needs providerRef",
        ),
        (
            policy("AutoscalerPolicy", keda={"triggers": [{"type": "cpu", "metadata": {"q": "{{ .Name | upper }}"}}]}),
            "no plain variable",
        ),
    ],
)
def test_refused_policies(new: dict[str, Any], part: str) -> None:
    assert part in validate_policy(new["kind"], new, None, world()).message


def test_benchmarks() -> None:
    target = {"inferenceService": {"name": "chat", "namespace": NAMESPACE}}
    good = obj(
        "BenchmarkJob", "b", NAMESPACE, endpoint=target, trafficScenarios=["D(100,200)", "N(1,2)/(3,4)", "E(64)"]
    )
    assert validate_benchmark(good).allowed
    bad = obj("BenchmarkJob", "b", NAMESPACE, endpoint=target, trafficScenarios=["X(1)"])
    assert '"X(1)" is no scenario' in validate_benchmark(bad).message
    assert "exactly one of" in validate_benchmark(obj("BenchmarkJob", "b", NAMESPACE, endpoint={})).message
