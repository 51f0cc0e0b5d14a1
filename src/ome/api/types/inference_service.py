"""InferenceService as the caches hold it (`spec/api-types.md` section 3)."""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from typing import Any

from ome.api.meta import Condition, Model, ObjectMeta


class ModelRef(Model, frozen=True, kw_only=True):
    name: str = ""
    kind: str = "ClusterBaseModel"
    api_group: str = "ome.io"
    fine_tuned_weights: tuple[str, ...] = ()
    overlays: tuple[dict[str, Any], ...] = ()


class ServingRuntimeRef(Model, frozen=True, kw_only=True):
    """`auto_sync` unset means true; an empty `revision` means unset."""

    name: str = ""
    kind: str = "ClusterServingRuntime"
    api_group: str = "ome.io"
    auto_sync: bool | None = None
    revision: str = ""

    @property
    def pinned(self) -> bool:
        """Whether the service renders from a stored revision (`spec/runtime-revisions.md` section 4)."""
        return bool(self.name) and self.auto_sync is False


class ReplicaRefs(Model, frozen=True, kw_only=True):
    engine: tuple[str, ...] = ()
    decoder: tuple[str, ...] = ()
    router: tuple[str, ...] = ()


class InferenceServiceSpec(Model, frozen=True, kw_only=True):
    deployment_mode: str = ""
    engine: dict[str, Any] | None = None
    decoder: dict[str, Any] | None = None
    router: dict[str, Any] | None = None
    model: ModelRef | None = None
    runtime: ServingRuntimeRef | None = None
    accelerator_selector: dict[str, Any] | None = None
    traffic: dict[str, Any] | None = None
    rollout: dict[str, Any] | None = None
    scaling_policy: dict[str, Any] | None = None
    replica_refs: ReplicaRefs | None = None
    placement: dict[str, Any] | None = None
    routing: dict[str, Any] | None = None

    def component(self, name: str) -> dict[str, Any] | None:
        """The raw spec of `engine`, `decoder` or `router`. Raises `KeyError` for any other name."""
        return {"engine": self.engine, "decoder": self.decoder, "router": self.router}[name]


class InferenceServiceStatus(Model, frozen=True, kw_only=True):
    """What decisions read of the last status. A writer that wants to keep the rest reads the object raw."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    url: str = ""
    address: dict[str, Any] | None = None
    addresses: list[dict[str, Any]] = []
    components: dict[str, dict[str, Any]] = {}
    model_status: dict[str, Any] | None = None
    migration_history: list[dict[str, Any]] = []
    mounted_overlays: list[dict[str, Any]] = []
    traffic: dict[str, Any] | None = None
    canary: dict[str, Any] | None = None
    placement: dict[str, Any] | None = None
    pinned_revision_name: str = ""
    last_runtime_sync_token: str = ""
    rollout: dict[str, Any] | None = None
    rollout_coordination: dict[str, Any] | None = None
    annotations: dict[str, str] = {}


class InferenceService(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: InferenceServiceSpec = InferenceServiceSpec()
    status: InferenceServiceStatus = InferenceServiceStatus()
