"""The CustomResourceDefinitions of `ome.io/v1beta1`, generated from tables (`spec/api-types.md`).

One source for every install: `ome.install` writes them out, the embedded cluster creates them.
Nothing here is read by a controller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ome.api.crds import models, placement, policies, replicas, rollouts, runtimes, services
from ome.api.crds.schema import Schema, rule, struct, text
from ome.api.types import GROUP, VERSION

AGE: Final = ("Age", "date", ".metadata.creationTimestamp")
Column = tuple[str, str, str] | tuple[str, str, str, int]
"""Name, type, JSONPath and, for columns of `-o wide`, priority 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of the API group. `feature` names the switch without which it is not installed."""

    kind: str
    plural: str
    namespaced: bool
    spec: Callable[[], Schema]
    status: Callable[[], Schema]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    scale: bool = False
    feature: str = ""
    metadata_rules: tuple[dict[str, Any], ...] = field(default=())


def _ready(type_: str = "Ready") -> str:
    return f".status.conditions[?(@.type=='{type_}')].status"


_RUNTIME_COLUMNS: Final[tuple[Column, ...]] = (
    ("Disabled", "boolean", ".spec.disabled"),
    ("ModelFormat", "string", ".spec.supportedModelFormats[*].modelFormat.name"),
    ("ModelFramework", "string", ".spec.supportedModelFormats[*].modelFramework.name"),
    ("ModelFrameworkVersion", "string", ".spec.supportedModelFormats[*].modelFramework.version"),
    ("ModelArchitecture", "string", ".spec.supportedModelFormats[*].modelArchitecture"),
    ("ModelSizeMin", "string", ".spec.modelSizeRange.min"),
    ("ModelSizeMax", "string", ".spec.modelSizeRange.max"),
    ("Images", "string", ".spec.containers[*].image"),
    AGE,
)
_MODEL_COLUMNS: Final[tuple[Column, ...]] = (
    ("Disabled", "boolean", ".spec.disabled"),
    ("Version", "string", ".spec.version"),
    ("Vendor", "string", ".spec.vendor"),
    ("Framework", "string", ".spec.modelFramework.name"),
    ("FrameworkVersion", "string", ".spec.modelFramework.version"),
    ("ModelFormat", "string", ".spec.modelFormat.name"),
    ("Architecture", "string", ".spec.modelArchitecture"),
    ("Capabilities", "string", ".spec.modelCapabilities[*]"),
    ("Size", "string", ".spec.modelParameterSize"),
    ("CompartmentID", "string", ".spec.compartmentID"),
    ("Ready", "string", ".status.state"),
    AGE,
)

KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        kind="InferenceService",
        plural="inferenceservices",
        namespaced=True,
        short_names=("isvc",),
        spec=services.spec,
        status=services.status,
        columns=(
            ("URL", "string", ".status.url"),
            ("Ready", "string", _ready()),
            ("BaseModel", "string", ".spec.model.name"),
            ("Runtime", "string", ".spec.runtime.name"),
            ("Placement", "string", ".status.placement.phase", 1),
            ("Plan-Source", "string", ".status.rollout.activeRun.plan.groups[0].source", 1),
            ("Plan-Drift", "string", _ready("RolloutPlanDrift"), 1),
            AGE,
        ),
    ),
    Kind(
        kind="ServingRuntime",
        plural="servingruntimes",
        namespaced=True,
        spec=runtimes.spec,
        status=runtimes.status,
        columns=_RUNTIME_COLUMNS,
    ),
    Kind(
        kind="ClusterServingRuntime",
        plural="clusterservingruntimes",
        namespaced=False,
        spec=runtimes.spec,
        status=runtimes.status,
        columns=_RUNTIME_COLUMNS,
    ),
    Kind(
        kind="BaseModel",
        plural="basemodels",
        namespaced=True,
        spec=models.base_model_spec,
        status=models.model_status,
        columns=_MODEL_COLUMNS,
    ),
    Kind(
        kind="ClusterBaseModel",
        plural="clusterbasemodels",
        namespaced=False,
        spec=models.base_model_spec,
        status=models.model_status,
        columns=_MODEL_COLUMNS,
    ),
    Kind(
        kind="FineTunedWeight",
        plural="finetunedweights",
        namespaced=False,
        spec=models.fine_tuned_weight_spec,
        status=models.model_status,
        columns=(
            ("Disabled", "boolean", ".spec.disabled"),
            ("Version", "string", ".spec.version"),
            ("Vendor", "string", ".spec.vendor"),
            ("CompartmentID", "string", ".spec.compartmentID"),
            ("ModelType", "string", ".spec.modelType"),
            ("Ready", "string", ".status.state"),
            AGE,
        ),
    ),
    Kind(
        kind="AcceleratorClass",
        plural="acceleratorclasses",
        namespaced=False,
        spec=models.accelerator_class_spec,
        status=models.accelerator_class_status,
        columns=(
            ("Vendor", "string", ".spec.vendor"),
            ("Family", "string", ".spec.family"),
            ("Memory", "string", ".spec.capabilities.memoryGB"),
            ("Nodes", "integer", ".status.availableNodes"),
            AGE,
        ),
    ),
    Kind(
        kind="InferenceReplica",
        plural="inferencereplicas",
        namespaced=True,
        short_names=("irep",),
        spec=replicas.spec,
        status=replicas.status,
        scale=True,
        columns=(
            ("Component", "string", ".spec.component"),
            ("Desired", "integer", ".spec.replicas"),
            ("Current", "integer", ".status.replicas"),
            ("Ready", "integer", ".status.readyReplicas"),
            ("Available", "integer", ".status.availableReplicas"),
            AGE,
        ),
    ),
    Kind(
        kind="BenchmarkJob",
        plural="benchmarkjobs",
        namespaced=True,
        spec=models.benchmark_job_spec,
        status=models.benchmark_job_status,
        columns=(AGE, ("Status", "string", ".status.state")),
    ),
    Kind(
        kind="AutoscalerPolicy",
        plural="autoscalerpolicies",
        namespaced=True,
        feature="autoscalerPolicy",
        spec=policies.spec,
        status=policies.status,
        columns=(("Class", "string", ".spec.class"), ("Ready", "string", _ready()), AGE),
    ),
    Kind(
        kind="RolloutPolicy",
        plural="rolloutpolicies",
        namespaced=True,
        feature="rolloutPolicy",
        spec=rollouts.policy_spec,
        status=rollouts.policy_status,
        columns=(("Ready", "string", _ready()), AGE),
    ),
    Kind(
        kind="TrafficMap",
        plural="trafficmaps",
        namespaced=True,
        short_names=("tm", "tmap"),
        spec=placement.traffic_map_spec,
        status=placement.traffic_map_status,
        columns=(
            ("Mode", "string", ".spec.mode"),
            ("Published", "string", _ready("Published")),
            ("Routable", "string", _ready("Routable")),
            ("Override", "string", _ready("OverrideActive")),
            ("Reason", "string", ".status.conditions[?(@.type=='Routable')].reason"),
            AGE,
        ),
    ),
    Kind(
        kind="WorkloadCluster",
        plural="workloadclusters",
        namespaced=False,
        spec=placement.workload_cluster_spec,
        status=placement.workload_cluster_status,
        columns=(("Ready", "string", _ready()), AGE),
    ),
    Kind(
        kind="AcceleratorQuota",
        plural="acceleratorquotas",
        namespaced=False,
        spec=placement.accelerator_quota_spec,
        status=placement.accelerator_quota_status,
        columns=(("Ready", "string", _ready()), AGE),
        metadata_rules=(rule("size(self.metadata.name) <= 63", "the name may be at most 63 characters long"),),
    ),
)

FEATURES: Final = tuple(kind.feature for kind in KINDS if kind.feature)


def crds(*, features: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions to install; a kind with a feature only when it is named. Do not change them."""
    return [crd(kind.plural) for kind in KINDS if not kind.feature or kind.feature in features]


@cache
def crd(plural: str) -> dict[str, Any]:
    """One CustomResourceDefinition by plural, e.g. `inferenceservices`. Raises `StopIteration` for an unknown one."""
    kind = next(kind for kind in KINDS if kind.plural == plural)
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        }
    schema = struct(
        {
            "apiVersion": text(),
            "kind": text(),
            "metadata": {"type": "object"},
            "spec": kind.spec(),
            "status": kind.status(),
        }
    )
    if kind.metadata_rules:
        schema["x-kubernetes-validations"] = list(kind.metadata_rules)
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    }


def _column(column: Column) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column[0], "type": column[1], "jsonPath": column[2]}
    if len(column) == 4:
        described["priority"] = column[3]
    return described
