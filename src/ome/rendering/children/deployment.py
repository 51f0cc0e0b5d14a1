"""The Deployment of a RawDeployment component (spec/inference-service.md section 4, "Deployment")."""

from __future__ import annotations

from ome.api import keys
from ome.rendering.model import RenderedComponent

from .metadata import Json, Owner, object_metadata

_DEFAULT_STRATEGY: Json = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
_PROGRESS_DEADLINE_SECONDS = 600
_REVISION_HISTORY_LIMIT = 10


def with_pull_policy(pod_spec: Json) -> Json:
    """A copy whose containers pull `IfNotPresent` where they say nothing.

    Kubernetes alone would always pull an image tagged `:latest`.
    """
    result = dict(pod_spec)
    for field in ("initContainers", "containers"):
        if field in result:
            result[field] = [
                container if container.get("imagePullPolicy") else {**container, "imagePullPolicy": "IfNotPresent"}
                for container in result[field]
            ]
    return result


def deployment(owner: Owner, component: RenderedComponent, *, replicas: int | None = None) -> Json:
    """Body of the Deployment `{isvc}-{c}`; it carries the labels and annotations of its template.

    `replicas` is None unless OME owns the count (autoscaler class None).
    """
    spec: Json = {
        "selector": {"matchLabels": {keys.APP: component.selector_app}},
        "strategy": component.deployment_strategy or _DEFAULT_STRATEGY,
        "progressDeadlineSeconds": _PROGRESS_DEADLINE_SECONDS,
        "revisionHistoryLimit": _REVISION_HISTORY_LIMIT,
        "template": {
            "metadata": component.template["metadata"],
            "spec": with_pull_policy(component.template["spec"]),
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": object_metadata(owner, component.name, labels=component.labels, annotations=component.annotations),
        "spec": spec,
    }
