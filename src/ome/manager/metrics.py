"""What `/metrics` exports, under the names that dashboards and alerts rely on (`spec/manager.md` section 7)."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ome.kube.requests import Request

LEASE_PATH = "/apis/coordination.k8s.io/"


class ManagerMetrics:
    """One registry for one process; implements `ome.kube.controller.ControllerMetrics`."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._active = self._gauge("controller_runtime_active_workers", "Busy workers", "controller")
        self._limit = self._gauge("controller_runtime_max_concurrent_reconciles", "Worker limit", "controller")
        self._passes = self._counter(
            "controller_runtime_reconcile_total", "Passes, failures included", "controller", "result"
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a pass",
            ["controller"],
            registry=self.registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60),
        )
        self._leader = self._gauge("leader_election_master_status", "1 on the leader", "name")
        self.webhook_requests = self._counter(
            "controller_runtime_webhook_requests_total", "Admission requests by HTTP code", "webhook", "code"
        )
        self.group_transitions = self._counter(
            "ome_omenative_rollout_group_transition_total",
            "Transitions of rollout groups",
            "namespace",
            "isvc",
            "group",
            "to",
        )
        self.leads = False
        """Whether this process runs the controllers."""
        self._requests = self._counter("rest_client_requests_total", "Requests to the API server", "method", "resource")
        self._requests_of: dict[tuple[str, str], Counter] = {}
        """The counters in use: to find one by its labels costs more than to count."""
        self._depths: dict[str, Callable[[], int]] = {}
        self.registry.register(_QueueDepths(self._depths))

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def declared(self, controller: str, workers: int, depth: Callable[[], int]) -> None:
        self._limit.labels(controller).set(workers)
        self._active.labels(controller).set(0)
        for result in ("success", "error", "requeue", "requeue_after"):
            self._passes.labels(controller, result)
        self._depths[controller] = depth

    def started(self, controller: str) -> None:
        self._active.labels(controller).inc()

    def finished(self, controller: str, result: str, seconds: float) -> None:
        self._active.labels(controller).dec()
        self._passes.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds)

    def leading(self, lease: str, leads: bool) -> None:
        """Note whether this process holds the Lease."""
        self.leads = leads
        self._leader.labels(lease).set(1 if leads else 0)

    def request(self, request: Request) -> None:
        """Count a request to the API server."""
        key = (request.method, _resource_of(request.path))
        counter = self._requests_of.get(key)
        if counter is None:
            counter = self._requests_of[key] = self._requests.labels(*key)
        counter.inc()

    def webhook(self, webhook: str, code: int) -> None:
        """Count an answered admission request."""
        self.webhook_requests.labels(webhook, str(code)).inc()

    def render(self) -> bytes:
        """The Prometheus text."""
        return generate_latest(self.registry)


class _QueueDepths(Collector):
    def __init__(self, depths: dict[str, Callable[[], int]]) -> None:
        self._depths = depths

    def collect(self) -> list[GaugeMetricFamily]:
        family = GaugeMetricFamily("workqueue_depth", "Keys waiting in a controller's queue", labels=["name"])
        for name, depth in self._depths.items():
            family.add_metric([name], depth())
        return [family]


def _resource_of(path: str) -> str:
    """The plural (and subresource) of a request path, so that names do not become label values."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return "discovery"
    return rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
