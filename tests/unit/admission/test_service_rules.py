"""The InferenceService validator: every rejection with its exact text, in the order of the specification."""

# ruff: noqa: E501 -- texts that users see stand on one line where they can

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.admission.services.proposal import Features
from tests.unit.admission.builders import judged, model, obj, refusal, runtime, service

ON = Features(autoscaler_policy=True, rollout_policy=True)
IMAGE = {"runner": {"name": "ome-container", "image": "x"}}
LEADER = {"leader": {}, "worker": {"size": 1}}


def engine(**fields: Any) -> dict[str, Any]:
    return service(engine=fields)


def native(**fields: Any) -> dict[str, Any]:
    return service(deploymentMode="OMENative", engine=fields)


def rolling(**budgets: Any) -> dict[str, Any]:
    return native(lifecycle={"updateStrategy": {"rollingUpdate": budgets}})


def test_the_usual_service_is_admitted_without_a_warning() -> None:
    verdict = judged(service())
    assert verdict.allowed
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("new", "text"),
    [
        pytest.param(
            engine(scaleTarget=80),
            "LegacyAutoscalerFieldsRejected: spec.engine.scaleTarget is no longer supported. Use "
            "spec.engine.autoscaler.hpa.metrics[0].resource.target.averageUtilization instead.",
            id="1 legacy field",
        ),
        pytest.param(
            service("1chat"),
            'invalid InferenceService name "1chat", must match "[a-z]([-a-z0-9]*[a-z0-9])?"',
            id="7 name",
        ),
        pytest.param(
            service(annotations={"ome.io/autoscalerClass": "vpa"}),
            "[vpa] is not a supported autoscaler class type",
            id="8 class",
        ),
        pytest.param(
            service(annotations={"ome.io/autoscalerClass": "hpa", "ome.io/metrics": "rps"}),
            "[rps] is not a supported metric",
            id="8 metric",
        ),
        pytest.param(
            engine(autoscaler={"class": "VPA"}),
            'engine: AutoscalerClassUnknown: autoscaler.class "VPA" is not one of HPA|KEDA|External|None',
            id="9 unknown class",
        ),
        pytest.param(
            engine(autoscaler={"class": "KEDA"}),
            "engine: KedaTriggersRequired: class=keda requires at least 1 trigger",
            id="9 no trigger",
        ),
        pytest.param(
            engine(autoscaler={"class": "HPA", "hpa": {"metrics": [{}]}}),
            "engine: HPAMetricMalformed: hpa.metrics[0].type is empty; must be one of "
            "Resource|Pods|Object|External|ContainerResource",
            id="9 metric without type",
        ),
        pytest.param(
            engine(autoscaler={"class": "HPA", "hpa": {"metrics": [{"type": "Pods"}]}}),
            "engine: HPAMetricMalformed: hpa.metrics[0].type=Pods but hpa.metrics[0].pods is nil",
            id="9 metric without source",
        ),
        pytest.param(
            engine(minReplicas=1, autoscaler={"class": "KEDA", "keda": {"triggers": [{}], "idleReplicaCount": 1}}),
            "engine: KedaIdleBelowMin: keda.idleReplicaCount must be < minReplicas (got idleReplicaCount=1, minReplicas=1)",
            id="9 idle count",
        ),
        pytest.param(
            service(annotations={"ome.io/autoscalerClass": "hpa"}, engine={"autoscaler": {"class": "None"}}),
            "AutoscalerAnnotationConflict: ome.io/autoscalerClass annotation is present together with "
            "spec.engine.autoscaler; remove the annotation — per-Component autoscaler block wins",
            id="10 annotation and block",
        ),
        pytest.param(
            service(annotations={"ome.io/targetUtilizationPercentage": "0"}),
            "the target utilization percentage should be a [1-100] integer",
            id="12 utilization",
        ),
        pytest.param(
            service(engine=None, decoder={}), "decoder cannot be specified without engine", id="13 decoder alone"
        ),
        pytest.param(
            native(leader={}),
            "InvalidLeaderWorkerPairing: engine.leader is set but engine.worker is not; multi-pod configurations require "
            "both (LeaderRequiresWorker)",
            id="14 leader alone",
            marks=pytest.mark.spec("IS-25"),
        ),
        pytest.param(
            native(worker={}),
            "InvalidLeaderWorkerPairing: engine.worker is set but engine.leader is not; multi-pod configurations require "
            "both (WorkerRequiresLeader)",
            id="14 worker alone",
        ),
        pytest.param(
            native(leader={}, worker={"size": 0}),
            "InvalidLeaderWorkerPairing: engine.worker.size must be a positive integer when set; leave it unset to use the "
            "runtime's size or one worker (WorkerSizeMustBePositive)",
            id="14 no workers",
        ),
        pytest.param(
            service(engine={"annotations": {"ome.io/deploymentMode": "OMENative"}}, decoder={}),
            'InvalidDeploymentModeCombination: engine deploymentMode="OMENative" does not match decoder '
            'deploymentMode=""; when either is OMENative, both must use the same value',
            id="16 modes",
        ),
        pytest.param(
            engine(minReplicas=0),
            "InvalidScaleToZero: engine.minReplicas=0 requires KEDA autoscaling (set spec.engine.autoscaler.class=KEDA or "
            "the ome.io/autoscalerClass=keda annotation); Serverless mode no longer auto-promotes scale-to-zero",
            id="17 scale to zero",
            marks=pytest.mark.spec("IS-12"),
        ),
        pytest.param(engine(minReplicas=-1), "spec.engine.minReplicas must be >= 0", id="18 negative minimum"),
        pytest.param(engine(maxReplicas=-1), "spec.engine.maxReplicas must be >= 1", id="18 negative maximum"),
        pytest.param(
            engine(minReplicas=5, maxReplicas=2),
            "spec.engine.minReplicas (5) must be <= maxReplicas (2)",
            id="18 crossed bounds",
        ),
        pytest.param(
            engine(minAvailable=1, maxUnavailable=1),
            "spec.engine.minAvailable and spec.engine.maxUnavailable cannot both be set",
            id="19 both budgets",
        ),
        pytest.param(
            engine(maxUnavailable="150%"),
            "spec.engine.maxUnavailable must be a non-negative integer or a percentage from 0% to 100%",
            id="19 bad budget",
        ),
        pytest.param(
            native(lifecycle={"minReadySeconds": -1}),
            "spec.engine.lifecycle.minReadySeconds must be >= 0, got -1 (InvalidMinReadySeconds)",
            id="23 min ready seconds",
        ),
        pytest.param(
            rolling(maxSurge=0, maxUnavailable="0%"),
            "spec.engine.lifecycle.updateStrategy.rollingUpdate: maxSurge=0 and maxUnavailable=0 together yield an "
            "unstartable rollout (RollingUpdateZeroBudget)",
            id="23 zero budgets",
        ),
        pytest.param(
            service(model=None, runtime=None),
            "at least one of spec.model or spec.runtime must be set",
            id="24 nothing named",
            marks=pytest.mark.spec("IS-4"),
        ),
        pytest.param(
            service(model={"name": "gone"}),
            'referenced model "gone" not found in namespace "llama-demo": ensure a BaseModel exists in this namespace or '
            "a ClusterBaseModel exists cluster-wide with this name",
            id="26 model missing",
        ),
    ],
)
def test_rejections(new: dict[str, Any], text: str) -> None:
    assert refusal(new) == text


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        pytest.param(service(scalingPolicy={"mode": "Pinned"}), "ScalingModeNotImplemented", id="2 scaling mode"),
        pytest.param(native(**LEADER, lifecycle={"readyPolicy": "None"}), "InvalidReadyPolicy", id="4 ready policy"),
        pytest.param(
            service(model=None, runtime=None, engine=LEADER), "MultiPodLeanModelNeedsRunner", id="15 lean multi-pod"
        ),
        pytest.param(rolling(maxSurge=-1), "InvalidRollingUpdateInteger", id="23 negative budget"),
        pytest.param(rolling(maxUnavailable="some"), "InvalidRollingUpdatePercent", id="23 no percentage"),
    ],
)
def test_rejections_by_reason(new: dict[str, Any], reason: str) -> None:
    assert reason in refusal(new)


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(
            engine(minReplicas=0, autoscaler={"class": "KEDA", "keda": {"triggers": [{}]}}), id="zero with KEDA"
        ),
        pytest.param(
            service(annotations={"ome.io/autoscalerClass": "keda"}, engine={"minReplicas": 0}),
            id="zero, annotated keda",
        ),
        pytest.param(engine(minAvailable=0), id="minAvailable 0 opts out"),
        pytest.param(engine(minReplicas=2, maxReplicas=0), id="maxReplicas 0 counts as unset"),
        pytest.param(native(lifecycle={"readyPolicy": "None"}), id="readyPolicy None on a single pod"),
        pytest.param(
            service(deploymentMode="RawDeployment", engine={**LEADER, "lifecycle": {"readyPolicy": "None"}}),
            id="readyPolicy None outside OMENative",
        ),
        pytest.param(service(model=None), id="a runtime alone"),
        pytest.param(service(deploymentMode="OMENative", decoder={}), id="one mode for both"),
        pytest.param(service(runtime={"name": "sglang", "kind": "Nothing"}), id="an unknown runtime kind is looked up"),
    ],
)
def test_admitted(new: dict[str, Any]) -> None:
    assert refusal(new) == ""


@pytest.mark.spec("IS-14")
def test_both_budget_fields_are_refused_whatever_they_say() -> None:
    assert "cannot both be set" in refusal(engine(minAvailable=0, maxUnavailable="100%"))


def test_the_first_rule_in_order_speaks() -> None:
    both_wrong = service("1chat", model=None, runtime=None)
    assert refusal(both_wrong).startswith("invalid InferenceService name")


def test_a_stored_scaling_mode_may_stay() -> None:
    stored = service(scalingPolicy={"mode": "Pinned"})
    assert refusal(stored, old=stored) == ""


@pytest.mark.spec("IS-28")
def test_what_is_being_deleted_may_always_be_updated() -> None:
    old = service(model={"name": "gone"})
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert refusal(service(model={"name": "gone"}), old=old) == ""


# -- migration requests ------------------------------------------------------------------------------------------------

PREFIX = "ome.io/migration-request-v1-"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (PREFIX, {}, f"migration request {PREFIX}: annotation key carries no request UUID"),
        (
            f"{PREFIX}u1",
            {"component": "decoder"},
            'migration request u1: component "decoder" does not exist on this InferenceService',
        ),
        (
            f"{PREFIX}u1",
            {"component": "engine", "instance": -2},
            "migration request u1: instance must be >= 0, got -2",
        ),
    ],
)
def test_migration_requests(key: str, value: dict[str, Any], text: str) -> None:
    new = service(annotations={key: json.dumps(value)})
    assert refusal(new) == text
    assert refusal(new, old=new) == "", "only added requests are checked"


# -- standalone replicas and references --------------------------------------------------------------------------------


def standalone(name: str, component: str = "engine", **spec: Any) -> dict[str, Any]:
    return obj("InferenceReplica", name, "llama-demo", component=component, **spec)


def fronting(**refs: Any) -> dict[str, Any]:
    return service(model=None, runtime=None, engine=None, replicaRefs=refs)


RENDERS_NOTHING = "the service writes nothing on, and renders nothing for, a referenced replica"


def test_a_standalone_replica_keeps_its_name() -> None:
    assert refusal(service(), standalone("chat-engine")) == (
        "a standalone InferenceReplica named chat-engine exists in namespace llama-demo (wait for it if it is being "
        "deleted) and this InferenceService would project a replica of that name; choose another name"
    )
    assert refusal(service(), standalone("chat")).endswith(
        "and its pods and Services would share names with the replicas this InferenceService projects; choose another name"
    )
    assert refusal(service(), standalone("chat-engine", parentRef={"name": "chat"})) == ""
    assert refusal(service(), standalone("chat-engine"), old=service()) == ""


@pytest.mark.spec("IS-32")
@pytest.mark.parametrize(
    ("new", "text"),
    [
        (
            fronting(decoder=["d"]),
            "spec.replicaRefs.engine is required when spec.replicaRefs is set; a service has an engine",
        ),
        (fronting(engine=["a", "b"]), "spec.replicaRefs.engine names 2 replicas; one entry per role is accepted"),
        (
            fronting(engine=["a"], router=["a"]),
            "InferenceReplica a is named by both spec.replicaRefs.engine and spec.replicaRefs.router; a replica serves one "
            "role",
        ),
        (
            service(model=None, runtime=None, replicaRefs={"engine": ["a"]}),
            "spec.engine and spec.replicaRefs cannot both be set; a service references all of its roles or none",
        ),
        (
            service(engine=None, runtime=None, replicaRefs={"engine": ["a"]}),
            "spec.model is not accepted with spec.replicaRefs; the referenced replicas carry their own model and runtime",
        ),
        (
            fronting(engine=["gone"]),
            "spec.replicaRefs.engine names InferenceReplica llama-demo/gone, which does not exist; create it first",
        ),
        (
            fronting(engine=["projected"]),
            "spec.replicaRefs.engine names InferenceReplica llama-demo/projected, which InferenceService other projects; "
            "name a standalone replica",
        ),
        (
            fronting(engine=["d"]),
            "spec.replicaRefs.engine names InferenceReplica llama-demo/d, whose component is decoder",
        ),
        (
            fronting(engine=["taken"]),
            "spec.replicaRefs.engine names InferenceReplica llama-demo/taken, which InferenceService front already fronts; "
            "a replica has one service",
        ),
        (
            {**fronting(engine=["a"]), "spec": {**fronting(engine=["a"])["spec"], "rollout": {"groups": []}}},
            "spec.rollout is not accepted with spec.replicaRefs; a referenced replica rolls on its own",
        ),
        *[
            (
                {**fronting(engine=["a"]), "spec": {**fronting(engine=["a"])["spec"], field: value}},
                f"spec.{field} is not accepted with spec.replicaRefs; {why}",
            )
            for field, value, why in (
                ("runtime", {"name": "rt"}, "the referenced replicas carry their own model and runtime"),
                ("acceleratorSelector", {"acceleratorClass": "h100"}, RENDERS_NOTHING),
                ("scalingPolicy", {"mode": "Independent"}, RENDERS_NOTHING),
            )
        ],
        (
            {**fronting(engine=["a"]), "spec": {**fronting(engine=["a"])["spec"], "deploymentMode": "RawDeployment"}},
            "spec.deploymentMode RawDeployment is not accepted with spec.replicaRefs; a referenced replica is OMENative",
        ),
        (fronting(engine=["a"]), ""),
    ],
)
def test_referenced_replicas(new: dict[str, Any], text: str) -> None:
    others = [
        standalone("a"),
        standalone("d", "decoder"),
        standalone("taken"),
        standalone("projected", parentRef={"name": "other"}),
        obj("InferenceService", "front", "llama-demo", replicaRefs={"engine": ["taken"]}),
    ]
    assert refusal(new, *others) == text


@pytest.mark.spec("IS-32")
def test_references_are_fixed_at_create() -> None:
    assert refusal(fronting(engine=["b"]), old=fronting(engine=["a"])) == (
        "spec.replicaRefs is fixed at create; delete and recreate the InferenceService to front other replicas"
    )


# -- the pin -----------------------------------------------------------------------------------------------------------


def pinned(revision: str, kind: str = "ServingRuntime", **more: Any) -> dict[str, Any]:
    return service(runtime={"name": "sglang", "kind": kind, "revision": revision, **more})


@pytest.mark.spec("RR-23")
@pytest.mark.parametrize("more", [{}, {"autoSync": True}])
def test_a_revision_needs_auto_sync_off(more: dict[str, bool]) -> None:
    assert refusal(pinned("r-llama-demo-sglang-590753e8", **more)) == (
        "spec.runtime.revision requires spec.runtime.autoSync=false; AutoSync=true would silently ignore the pin"
    )


@pytest.mark.spec("RR-23")
@pytest.mark.parametrize(
    "revision",
    [
        "cr-sglang-590753e8",
        "r-other-sglang-590753e8",
        "r-llama-demo-sglang-590753E8",
        "r-llama-demo-sglang-590753e",
        "r-llama-demo-sglang-590753e89",
    ],
)
def test_the_form_of_a_revision(revision: str) -> None:
    assert refusal(pinned(revision, autoSync=False)) == (
        f'spec.runtime.revision "{revision}" does not match the expected naming convention for runtime "sglang" '
        "(ServingRuntime); expected the form r-llama-demo-sglang-<8 lowercase hex chars>"
    )


@pytest.mark.spec("RR-46")
def test_the_form_of_a_revision_of_the_default_kind() -> None:
    text = refusal(pinned("r-llama-demo-sglang-590753e8", "ClusterServingRuntime", autoSync=False))
    assert text.endswith("(ClusterServingRuntime); expected the form cr-sglang-<8 lowercase hex chars>")


@pytest.mark.spec("RR-23")
def test_a_revision_need_not_exist() -> None:
    assert refusal(pinned("r-llama-demo-sglang-00000000", autoSync=False)) == ""
    assert refusal(pinned("", autoSync=True)) == "", "an empty revision is none"


# -- models and runtimes -----------------------------------------------------------------------------------------------


def named(kind: str = "ServingRuntime", name: str = "rt", **more: Any) -> dict[str, Any]:
    return service(runtime={"name": name, "kind": kind, **more})


@pytest.mark.spec("RR-25")
@pytest.mark.parametrize(
    ("new", "others", "text"),
    [
        (named(), [], "runtime rt does not support model llama: ServingRuntime rt not found in namespace llama-demo"),
        (
            named("ClusterServingRuntime"),
            [],
            "runtime rt does not support model llama: runtime rt not found in namespace llama-demo or at cluster scope",
        ),
        (
            named(),
            [runtime("rt", disabled=True)],
            "runtime rt does not support model llama: namespace-scoped runtime rt is disabled",
        ),
        (
            named("ClusterServingRuntime"),
            [runtime("rt", "", disabled=True)],
            "runtime rt does not support model llama: cluster-scoped runtime rt is disabled",
        ),
    ],
)
@pytest.mark.parametrize("auto_sync", [True, False])
def test_a_missing_or_disabled_runtime_rejects_every_update(
    new: dict[str, Any], others: list[dict[str, Any]], text: str, auto_sync: bool
) -> None:
    new["spec"]["runtime"]["autoSync"] = auto_sync
    assert refusal(new, *others) == text
    assert refusal(new, *others, old=new) == text


@pytest.mark.spec("RR-25")
def test_without_a_model_a_pinned_service_is_not_asked_for_its_runtime() -> None:
    gone = {"name": "gone", "kind": "ServingRuntime", "autoSync": False}
    assert refusal(service(model=None, runtime=gone)) == ""
    assert refusal(service(model=None, runtime={**gone, "autoSync": True})) == "", "missing is admitted live, too"
    disabled = {"name": "off", "kind": "ServingRuntime"}
    assert (
        refusal(service(model=None, runtime=disabled), runtime("off", disabled=True))
        == "namespace-scoped runtime off is disabled"
    )


def test_a_broken_chain_rejects_the_services_that_name_it() -> None:
    broken = runtime("rt", annotations={"ome.io/inherit-from": "gone"})
    assert refusal(named(), broken) == (
        'runtime rt does not support model llama: inherit-from parent "gone" not found (chain so far: [rt])'
    )


def test_a_disabled_model_is_refused() -> None:
    assert refusal(service(model={"name": "off"}), model("off", disabled=True)) == "model off is disabled"


def test_a_named_runtime_that_declares_something_else_is_admitted_with_a_warning() -> None:
    other = runtime("rt", supportedModelFormats=[])
    verdict = judged(named(), other)
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning.startswith('runtime "rt" does not declare support for model "llama" (')
    assert warning.endswith("proceeding because the runtime was named explicitly")


def test_a_model_without_format_is_refused() -> None:
    assert refusal(service(model={"name": "new"}), model("new", modelFormat=None)) == (
        "runtime sglang does not support model new: invalid model specification: modelFormat.name: model format name is "
        "required"
    )


def test_selection() -> None:
    chosen = judged(service(runtime=None))
    assert chosen.warnings == ("Runtime sglang will be auto-selected for model llama",)
    other = model("phi", modelArchitecture="Phi3ForCausalLM")
    unselected = service(runtime=None, model={"name": "phi"})
    assert refusal(unselected, other).startswith(
        "no supporting runtime found for model phi and engine does not have complete runner configuration: no runtime "
        "found to support model"
    )
    assert refusal(service(runtime=None, model={"name": "phi"}, engine=IMAGE), other) == "", "a full runner needs none"
    assert refusal(service(runtime=None, model={"name": "phi"}, engine=None), other) == "", "nothing to render"


def test_a_base_model_of_the_namespace_comes_first() -> None:
    own = obj("BaseModel", "llama", "llama-demo", disabled=True, storage={"storageUri": "hf://a/b"})
    assert refusal(service(), own) == "model llama is disabled"


def test_a_claim_of_another_namespace() -> None:
    claim = model("on-claim", storage={"storageUri": "pvc://elsewhere:weights/llama"})
    assert refusal(service(model={"name": "on-claim"}), claim) == (
        'ClusterBaseModel "on-claim" references PVC in namespace "elsewhere", but InferenceService is in namespace '
        '"llama-demo"; Kubernetes does not allow pods to mount PVCs from another namespace. Either move the '
        'InferenceService to namespace "elsewhere" or replicate the PVC into namespace "llama-demo".'
    )


@pytest.mark.parametrize(
    ("overlays", "text"),
    [
        ([{"name": ""}], "overlay name cannot be empty"),
        ([{"name": "llama"}], 'overlay "llama" must not reference the primary model of the same kind/apiGroup'),
        ([{"name": "a-b"}, {"name": "a-b"}], 'overlay "a-b" is declared more than once'),
        (
            [{"name": "a-b"}, {"name": "a_b"}],
            'overlays "a-b" and "a_b" both sanitize to env var OVERLAY_A_B_MODEL_PATH; rename one (hyphens and '
            "underscores collapse to the same form)",
        ),
        (
            [{"name": "gone"}],
            'overlay "gone" not found in namespace "llama-demo": ClusterBaseModel "gone" does not exist',
        ),
        ([{"name": "a-b"}], ""),
    ],
)
def test_overlays(overlays: list[dict[str, str]], text: str) -> None:
    new = service(model={"name": "llama", "kind": "ClusterBaseModel", "apiGroup": "ome.io", "overlays": overlays})
    assert refusal(new, model("a-b"), model("a_b")) == text


# -- policies ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("IN-20")
def test_autoscaler_policy_references() -> None:
    reference = {"name": "p", "kind": "AutoscalerPolicy"}
    assert refusal(engine(autoscalerPolicyRef=reference)).startswith("AutoscalerPolicyFeatureDisabled")
    assert refusal(engine(autoscalerPolicyRef=reference), features=ON) == ""
    reserved = {"name": "p", "kind": "ClusterAutoscalerPolicy"}
    assert "reserved" in refusal(engine(autoscalerPolicyRef=reserved), features=ON)
    assert "InvalidScaleToZero" in refusal(engine(autoscalerPolicyRef=reference, minReplicas=0), features=ON)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_an_ignored_deployment_strategy_is_said() -> None:
    verdict = judged(native(deploymentStrategy={"type": "Recreate"}))
    assert verdict.warnings == (
        'engine.deploymentStrategy is set but deploymentMode is "OMENative"; deploymentStrategy applies only to '
        "RawDeployment and is ignored here — use engine.lifecycle.updateStrategy.rollingUpdate for rollout pacing",
    )
    assert judged(engine(deploymentStrategy={"type": "Recreate"})).warnings == ()
