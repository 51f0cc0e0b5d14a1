"""Values a component ends up with when service, runtime and operator configuration are asked in turn
(`spec/inference-service.md section 2`, effective defaults; `spec/omenative.md section 2.2`).

Pure; nothing is ever written back to the InferenceService. Called by `ome.rendering.render`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api.config import StrategyDefault
from ome.api.duration import parse_duration
from ome.rendering.merge import SERVICE, merge_object
from ome.rendering.model import (
    Component,
    DeploymentMode,
    DisruptionInput,
    Json,
    RenderDefaults,
    ReplicaBounds,
)

SURGE_THEN_DRAIN = "SurgeThenDrain"
RECREATE_INSTANCE = "RecreateInstanceOnPodRestart"
ALL_POD_READY = "AllPodReady"
NONE = "None"


def merge_component(runtime_config: Mapping[str, Any] | None, component: Mapping[str, Any]) -> Json:
    """The service's component laid over the runtime's config (`spec/serving-runtimes.md section 7.1`).

    `autoscaler` comes whole from one layer; a runtime's `acceleratorOverride` and `autoscalerPolicyRef` say nothing."""
    below = {
        key: value
        for key, value in (runtime_config or {}).items()
        if key not in ("acceleratorOverride", "autoscalerPolicyRef")
    }
    merged = merge_object(below, component, SERVICE)
    strategy = merged.get("deploymentStrategy")
    if isinstance(strategy, dict) and strategy.get("type") == "Recreate":
        # A runtime's rollingUpdate under a service's Recreate would be refused by the API server.
        strategy.pop("rollingUpdate", None)
    return merged


def replica_bounds(
    component: Component, mode: DeploymentMode, effective: Mapping[str, Any], defaults: RenderDefaults
) -> ReplicaBounds:
    """A maximum somebody wrote stays as it is, except in OMENative; only a default maximum is raised to the minimum."""
    minimum = effective.get("minReplicas")
    if minimum is None:
        minimum = defaults.deploy.min_replicas
    written = effective.get("maxReplicas")
    if not written:
        return ReplicaBounds(minimum=minimum, maximum=max(defaults.deploy.max_replicas(component), minimum))
    raised = max(written, minimum) if mode is DeploymentMode.OME_NATIVE else written
    return ReplicaBounds(minimum=minimum, maximum=raised)


def disruption_input(effective: Mapping[str, Any]) -> DisruptionInput:
    """Both budgets as the merge left them."""
    return DisruptionInput(min_available=effective.get("minAvailable"), max_unavailable=effective.get("maxUnavailable"))


def min_ready_seconds(effective: Mapping[str, Any], defaults: RenderDefaults) -> int:
    """Service, runtime, operator, 0; an explicit 0 counts as set."""
    value = (effective.get("lifecycle") or {}).get("minReadySeconds")
    if value is None:
        value = defaults.deploy.min_ready_seconds
    return value or 0


def lifecycle(
    component: Component,
    service: Mapping[str, Any],
    runtime_config: Mapping[str, Any] | None,
    defaults: RenderDefaults,
    *,
    multi_pod: bool,
) -> Json:
    """The effective LifecycleSpec, field by field: service, runtime, operator, built-in. `minReadySeconds` is not in
    it: it has a field of its own on the InferenceReplica. Empty strings count as unset."""
    own = service.get("lifecycle") or {}
    merged = merge_object((runtime_config or {}).get("lifecycle") or {}, own, SERVICE)
    merged.pop("minReadySeconds", None)
    timeout = merged.get("instanceReadyTimeout")
    if not timeout or _is_zero(str(timeout)):
        # `0s` means unset: the service's has replaced, and so hidden, the runtime's value.
        merged["instanceReadyTimeout"] = defaults.instance_ready_timeout
    merged["restartPolicy"] = merged.get("restartPolicy") or (RECREATE_INSTANCE if multi_pod else NONE)
    merged["readyPolicy"] = merged.get("readyPolicy") or (ALL_POD_READY if multi_pod else NONE)
    default = defaults.deploy.update_strategy.get(component, StrategyDefault())
    merged["updateStrategy"] = _update_strategy(merged.get("updateStrategy") or {}, default)
    return {key: value for key, value in merged.items() if value is not None}


def _update_strategy(written: Json, default: StrategyDefault) -> Json:
    """The operator's default fills only the budget the resolved type reads."""
    strategy = dict(written)
    strategy["type"] = written.get("type") or default.type or SURGE_THEN_DRAIN
    budget, value = (
        ("maxSurge", default.max_surge)
        if strategy["type"] == SURGE_THEN_DRAIN
        else ("maxUnavailable", default.max_unavailable)
    )
    rolling = dict(written.get("rollingUpdate") or {})
    if rolling.get(budget) is None and value is not None:
        rolling[budget] = value
    if rolling:
        strategy["rollingUpdate"] = rolling
    return strategy


def _is_zero(duration: str) -> bool:
    if not duration:
        return False
    try:
        return not parse_duration(duration)
    except ValueError:
        return False
