"""OME's kinds (`ome.io/v1beta1`), as the caches decode them. See `spec/api-types.md`.

Typed where a decision reads a field; pod specs, components, runtime and model specs stay raw dicts, so that nothing
unknown is lost on the way from a user's manifest to a pod.
"""

from ome.api.types.accelerators import AcceleratorClass
from ome.api.types.inference_replica import (
    InferenceReplica,
    InferenceReplicaSpec,
    InferenceReplicaStatus,
    InstanceOperation,
    InstanceStatus,
    InstanceTermination,
    MigrationStatus,
    Pacing,
    ParentReference,
    RetryBlock,
    Runner,
)
from ome.api.types.inference_service import (
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
    ModelRef,
    ReplicaRefs,
    ServingRuntimeRef,
)
from ome.api.types.lifecycle import (
    InPlaceUpdateStrategy,
    LifecycleSpec,
    MigrationPolicy,
    RollingUpdate,
    RolloutHold,
    UpdateStrategy,
)
from ome.api.types.models import BaseModel, ClusterBaseModel, FineTunedWeight, ModelStatus
from ome.api.types.policies import AutoscalerPolicy, BenchmarkJob, RolloutPolicy
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime, ServingRuntimeStatus

GROUP = "ome.io"
VERSION = "v1beta1"
API_VERSION = "ome.io/v1beta1"

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "AcceleratorClass",
    "AutoscalerPolicy",
    "BaseModel",
    "BenchmarkJob",
    "ClusterBaseModel",
    "ClusterServingRuntime",
    "FineTunedWeight",
    "InPlaceUpdateStrategy",
    "InferenceReplica",
    "InferenceReplicaSpec",
    "InferenceReplicaStatus",
    "InferenceService",
    "InferenceServiceSpec",
    "InferenceServiceStatus",
    "InstanceOperation",
    "InstanceStatus",
    "InstanceTermination",
    "LifecycleSpec",
    "MigrationPolicy",
    "MigrationStatus",
    "ModelRef",
    "ModelStatus",
    "Pacing",
    "ParentReference",
    "ReplicaRefs",
    "RetryBlock",
    "RollingUpdate",
    "RolloutHold",
    "RolloutPolicy",
    "Runner",
    "ServingRuntime",
    "ServingRuntimeRef",
    "ServingRuntimeStatus",
    "UpdateStrategy",
]
