"""Labels and annotations of a component: what is copied, what never is, what OME adds (`spec/inference-service.md
sections 2 and 4`, `spec/serving-runtimes.md section 7.4`, `spec/labels-and-annotations.md`).

Pure. Called by `ome.rendering.render`; `ome.rendering.children` asks it what a Service may carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api import keys
from ome.api.names import component_service
from ome.rendering.model import Component, DeploymentMode, ModelFacts, RenderInput
from ome.rendering.models import FineTuned

_NEVER_COPIED = frozenset(
    {
        keys.ROLLOUT_PROMOTE,
        keys.ROLLOUT_ROLLBACK,
        keys.IN_PLACE_IMAGE_TRANSITION,
        "internal.ome.io/storage-initializer-sourceuri",
        "kubectl.kubernetes.io/last-applied-configuration",
        # A request to OME must not roll pods by being written.
        keys.RUNTIME_SYNC,
        keys.ROLLOUT_PAUSED,
        keys.ROLLOUT_REPIN,
        keys.REVISION_HISTORY_LIMIT,
        keys.ROLLOUT_READY_TIMEOUT,
    }
)
_NOT_ON_SERVICES = frozenset({keys.INJECT_MODEL_INIT, keys.INJECT_FINE_TUNED_ADAPTER, keys.INJECT_SERVING_SIDECAR})
_NOT_ON_SERVICES_PREFIXES = (
    "prometheus.io/",
    "k8s.grafana.com/",
    "loki.grafana.com/",
    "networking.gke.io/",
    "rdma.ome.io/",
    "runtime.ome.io/",
)

_KUEUE_PRIORITY = "kueue-scheduling-high-priority"


def is_copied(annotation: str) -> bool:
    """Whether a service's annotation may stand on generated objects."""
    return annotation not in _NEVER_COPIED and not annotation.startswith(keys.MIGRATION_REQUEST_PREFIX)


def service_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The component's annotations without those that are for pods only: what its Services carry."""
    return {
        key: value
        for key, value in annotations.items()
        if key not in _NOT_ON_SERVICES and not key.startswith(_NOT_ON_SERVICES_PREFIXES)
    }


def component_annotations(
    facts: RenderInput, effective: Mapping[str, Any], fine_tuned: FineTuned | None
) -> dict[str, str]:
    """Service metadata below component (runtime below service), OME's own on top."""
    merged = {**facts.service.annotations, **(effective.get("annotations") or {})}
    annotations = {key: value for key, value in merged.items() if is_copied(key)}
    annotations[keys.SERVING_RUNTIME] = facts.runtime.name
    if facts.model is not None:
        annotations.update(_model_annotations(facts.model))
    if fine_tuned is not None:
        annotations[keys.INJECT_FINE_TUNED_ADAPTER] = fine_tuned.name
        annotations[keys.FINE_TUNED_STRATEGY] = fine_tuned.strategy
        if fine_tuned.merged:
            annotations[keys.FINE_TUNED_MERGED_WEIGHTS] = "true"
    return annotations


def component_labels(
    component: Component,
    mode: DeploymentMode,
    facts: RenderInput,
    effective: Mapping[str, Any],
    fine_tuned: FineTuned | None,
    *,
    under_quota: bool,
) -> dict[str, str]:
    """Labels of the component's objects and pods, without `app`. `under_quota`: a pod asks for a resource under
    quota admission."""
    labels = {**facts.service.labels, **(effective.get("labels") or {})}
    labels.update(_queue_labels(mode, {**facts.service.annotations, **(effective.get("annotations") or {})}))
    if mode is DeploymentMode.OME_NATIVE:
        labels.pop(keys.VISIBILITY, None)
        if not under_quota:
            labels.pop(keys.KUEUE_QUEUE_NAME, None)
    labels[keys.INFERENCE_SERVICE] = facts.service.name
    labels[keys.COMPONENT] = component.value
    labels[keys.SERVING_RUNTIME_LABEL] = facts.runtime.name
    labels[keys.FINE_TUNED_SERVING] = "true" if fine_tuned else "false"
    if facts.model is not None:
        labels.update(_model_labels(facts.model))
    if fine_tuned is not None:
        labels[keys.FINE_TUNED_STRATEGY_LABEL] = fine_tuned.strategy
        labels[keys.FINE_TUNED_MERGED_WEIGHTS_LABEL] = "true" if fine_tuned.merged else "false"
    return labels


def excluded_from_revision(
    annotations: Mapping[str, str], service_metadata: Mapping[str, str], declared: Mapping[str, Any]
) -> tuple[str, ...]:
    """Keys that came from the service's own metadata, not from `spec.<c>.annotations`: they mint no revision."""
    own = declared.get("annotations") or {}
    return tuple(sorted(key for key in service_metadata if key in annotations and key not in own))


def selector_app(service: str, component: Component) -> str:
    """The value of label `app` and of the selectors that use it."""
    return component_service(service, component.value)


def _model_annotations(model: ModelFacts) -> dict[str, str]:
    model_format = model.spec.get("modelFormat") or {}
    return _without_empty(
        {
            keys.BASE_MODEL_NAME: model.name,
            keys.BASE_MODEL_FORMAT: model_format.get("name"),
            keys.BASE_MODEL_FORMAT_VERSION: model_format.get("version"),
            keys.BASE_MODEL_VENDOR: model.spec.get("vendor"),
        }
    )


def _model_labels(model: ModelFacts) -> dict[str, str]:
    return _without_empty(
        {
            keys.BASE_MODEL_NAME_LABEL: model.name,
            keys.BASE_MODEL_SIZE: model.annotations.get(keys.MODEL_CATEGORY) or "SMALL",
            keys.BASE_MODEL_TYPE: "Serving",
            keys.BASE_MODEL_VENDOR_LABEL: model.spec.get("vendor"),
        }
    )


def _queue_labels(mode: DeploymentMode, annotations: Mapping[str, str]) -> dict[str, str]:
    volcano = annotations.get(keys.VOLCANO_QUEUE)
    if volcano and mode is not DeploymentMode.OME_NATIVE:
        return {keys.VOLCANO_QUEUE_NAME: volcano}
    cluster = annotations.get(keys.DEDICATED_AI_CLUSTER)
    if not cluster:
        return {}
    if keys.KUEUE_ENABLED in annotations:
        return {keys.KUEUE_QUEUE_NAME: cluster, keys.KUEUE_PRIORITY_CLASS: _KUEUE_PRIORITY}
    return {keys.VOLCANO_QUEUE_NAME: cluster}


def _without_empty(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
