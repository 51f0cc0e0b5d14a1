"""The two promises as metrics: pins, drift, held revisions and paused rollouts of every service.

Read from the caches at the moment of a scrape: nothing is counted twice, and nothing is forgotten after a restart. Only
the leader answers; three replicas would say everything three times. Built by `ome.manager.process`. The names stand in
docs/reference/manager.md, and the chart's group `ome.rollouts` alerts on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ome.api.meta import find_condition
from ome.api.types.inference_replica import InferenceReplica
from ome.api.types.inference_service import InferenceService
from ome.omenative.names import service_of
from ome.omenative.strategy import desired

SERVICE = ("namespace", "isvc")
COMPONENT = (*SERVICE, "component")


class StateMetrics(Collector):
    """A collector over the InferenceServices and InferenceReplicas that `services` and `replicas` return."""

    def __init__(
        self,
        services: Callable[[], Iterable[InferenceService]],
        replicas: Callable[[], Iterable[InferenceReplica]],
        *,
        leads: Callable[[], bool],
    ) -> None:
        self._services = services
        self._replicas = replicas
        self._leads = leads

    def describe(self) -> list[GaugeMetricFamily]:
        """No family depends on what is there; registering must not read a cache."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every family, empty on a replica that does not lead."""
        leads = self._leads()
        yield from _of_services(self._services() if leads else ())
        yield from _of_replicas(self._replicas() if leads else ())


def _of_services(services: Iterable[InferenceService]) -> Iterable[GaugeMetricFamily]:
    ready = _family("ome_inferenceservice_ready", "1 where the InferenceService's condition Ready is True", *SERVICE)
    pinned = _family(
        "ome_inferenceservice_runtime_pinned", "1 for the revision that a pinned service serves", *SERVICE, "revision"
    )
    drifted = _family(
        "ome_inferenceservice_runtime_drifted", "1 where a pinned service has drifted", *SERVICE, "reason"
    )
    for service in services:
        who = [service.metadata.namespace, service.metadata.name]
        ready.add_metric(who, _is_true(service, "Ready"))
        runtime = service.spec.runtime
        if runtime is None or not runtime.pinned:
            continue  # what an earlier pin left in the status is history
        if service.status.pinned_revision_name:
            pinned.add_metric([*who, service.status.pinned_revision_name], 1)
        drift = find_condition(service.status.conditions, "RuntimeDrifted")
        if drift is not None and drift.true:
            drifted.add_metric([*who, drift.reason], 1)
    return ready, pinned, drifted


def _of_replicas(replicas: Iterable[InferenceReplica]) -> Iterable[GaugeMetricFamily]:
    instances = _family("ome_inferencereplica_instances", "Instances by state", *COMPONENT, "state")
    blocks = _family(
        "ome_inferencereplica_retry_block",
        "1 for each revision whose rollout is retried or held",
        *COMPONENT,
        "revision",
        "state",
        "reason",
    )
    holds = _family("ome_inferencereplica_rollout_hold", "1 where no Instance can move, by gate", *COMPONENT, "gate")
    paused = _family("ome_inferencereplica_paused", "1 where a rollout is paused", *COMPONENT)
    for replica in replicas:
        status = replica.status
        who = [replica.metadata.namespace, service_of(replica), replica.spec.component]
        counts = {
            "desired": desired(replica),
            "ready": status.ready_replicas,
            "serving": status.serving_replicas,
            "updated": status.updated_replicas,
        }
        for state, count in counts.items():
            instances.add_metric([*who, state], count)
        for block in status.retry_blocks:
            blocks.add_metric([*who, block.target_revision, block.state, block.reason], 1)
        if status.rollout_hold is not None:
            holds.add_metric([*who, status.rollout_hold.gate], 1)
        paused.add_metric(who, int(replica.spec.paused))
    return instances, blocks, holds, paused


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _is_true(service: InferenceService, kind: str) -> int:
    condition = find_condition(service.status.conditions, kind)
    return int(condition is not None and condition.true)
