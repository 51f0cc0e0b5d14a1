"""What the metrics say of the two promises: pins and drift, retry blocks, holds and pauses."""

from __future__ import annotations

from typing import Any

import msgspec

from ome.api.types.inference_replica import InferenceReplica
from ome.api.types.inference_service import InferenceService
from ome.manager.metrics import ManagerMetrics
from ome.manager.state_metrics import StateMetrics

METADATA = {"name": "chat", "namespace": "prod"}


def service(runtime: dict[str, Any], **status: Any) -> InferenceService:
    body = {"metadata": METADATA, "spec": {"runtime": {"name": "rt", **runtime}}, "status": status}
    return msgspec.convert(body, InferenceService)


def replica(spec: dict[str, Any], **status: Any) -> InferenceReplica:
    body = {"metadata": {**METADATA, "name": "chat-engine"}, "spec": {"component": "engine", **spec}, "status": status}
    return msgspec.convert(body, InferenceReplica)


def exported(
    services: list[InferenceService] | None = None,
    replicas: list[InferenceReplica] | None = None,
    *,
    leads: bool = True,
) -> set[str]:
    """The lines about services and replicas."""
    metrics = ManagerMetrics()
    metrics.registry.register(StateMetrics(lambda: services or [], lambda: replicas or [], leads=lambda: leads))
    lines = metrics.render().decode().splitlines()
    return {line for line in lines if line.startswith(("ome_inferenceservice_", "ome_inferencereplica_"))}


DRIFTED = {"type": "RuntimeDrifted", "status": "True", "reason": "RevisionMismatch"}
READY = {"type": "Ready", "status": "True"}


def test_a_pinned_service_shows_its_revision_and_its_drift() -> None:
    pinned = service({"autoSync": False}, pinnedRevisionName="r-prod-rt-590753e8", conditions=[DRIFTED, READY])
    assert exported([pinned]) == {
        'ome_inferenceservice_ready{isvc="chat",namespace="prod"} 1.0',
        'ome_inferenceservice_runtime_pinned{isvc="chat",namespace="prod",revision="r-prod-rt-590753e8"} 1.0',
        'ome_inferenceservice_runtime_drifted{isvc="chat",namespace="prod",reason="RevisionMismatch"} 1.0',
    }


def test_what_an_earlier_pin_left_in_the_status_raises_no_alert() -> None:
    unpinned = service({"autoSync": True}, pinnedRevisionName="r-prod-rt-590753e8", conditions=[DRIFTED])
    assert exported([unpinned]) == {'ome_inferenceservice_ready{isvc="chat",namespace="prod"} 0.0'}


def test_a_held_revision_names_its_cause_while_the_instances_serve() -> None:
    block = {"targetRevision": "chat-engine-7c9d2a10", "state": "Held", "reason": "ImagePullBackOff"}
    held = replica(
        {"replicas": 3, "parentRef": {"name": "chat"}},
        readyReplicas=3,
        servingReplicas=3,
        retryBlocks=[block],
        rolloutHold={"gate": "Held"},
    )
    plain = 'component="engine",isvc="chat",namespace="prod"'
    gated = 'component="engine",gate="Held",isvc="chat",namespace="prod"'
    assert exported(replicas=[held]) == {
        f'ome_inferencereplica_instances{{{plain},state="desired"}} 3.0',
        f'ome_inferencereplica_instances{{{plain},state="ready"}} 3.0',
        f'ome_inferencereplica_instances{{{plain},state="serving"}} 3.0',
        f'ome_inferencereplica_instances{{{plain},state="updated"}} 0.0',
        f'ome_inferencereplica_retry_block{{{plain},reason="ImagePullBackOff",revision="chat-engine-7c9d2a10",'
        'state="Held"} 1.0',
        f"ome_inferencereplica_rollout_hold{{{gated}}} 1.0",
        f"ome_inferencereplica_paused{{{plain}}} 0.0",
    }


def test_a_standalone_paused_replica_goes_by_its_own_name() -> None:
    lines = exported(replicas=[replica({"paused": True, "replicas": 0})])  # 0 runs one
    assert (
        'ome_inferencereplica_instances{component="engine",isvc="chat-engine",namespace="prod",state="desired"} 1.0'
        in lines
    )
    assert 'ome_inferencereplica_paused{component="engine",isvc="chat-engine",namespace="prod"} 1.0' in lines
    assert not any("retry_block" in line or "rollout_hold" in line for line in lines)


def test_a_replica_of_the_manager_that_does_not_lead_says_nothing() -> None:
    assert exported([service({})], [replica({})], leads=False) == set()
