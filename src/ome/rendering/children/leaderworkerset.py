"""The LeaderWorkerSet of a MultiNode component (deprecated mode; spec/inference-service.md section 4)."""

from __future__ import annotations

from ome.api import keys
from ome.rendering.model import RenderedComponent

from .metadata import Json, Owner, object_metadata

_MAX_NAME = 35


def leader_worker_set_name(component: RenderedComponent) -> str:
    """`lws-` and the component's name, cut so that the pods' names still fit."""
    return f"lws-{component.name}"[:_MAX_NAME].rstrip("-")


def leader_worker_set(owner: Owner, component: RenderedComponent) -> Json:
    """Body of the LeaderWorkerSet; the component must have workers. maxReplicas has no effect in this mode."""
    labels = {key: value for key, value in component.labels.items() if key != keys.APP}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": object_metadata(
            owner, leader_worker_set_name(component), labels=labels, annotations=component.annotations
        ),
        "spec": {
            "replicas": component.replicas.minimum,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 1},
            },
            "networkConfig": {"subdomainPolicy": "Shared"},
            "leaderWorkerTemplate": {
                "size": component.pods_per_instance,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": component.template,
                "workerTemplate": component.worker_template,
            },
        },
    }
