#!/usr/bin/env python3
"""What services cost the manager: API calls and CPU for a new service, for a runtime edit, idle, and after a restart.

`services.py [N] [--kube]`: N pinned RawDeployment services (default 200) on `ome local`, or on the real control plane.
Figures come from the manager's own metrics; Lease traffic does not count. Beside them stands what a bare client needs
to create the same Deployments.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ome.kube.config import ClusterConfig
from ome.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, NAMESPACES, SERVING_RUNTIMES
from ome.kube.sync import SyncClient
from ome.local.commands import managing
from tests.support.scenario import ScenarioCluster, open_cluster

NS = "bench"
THREADS = 8


def runtime(value: str) -> dict[str, Any]:
    runner = {"name": "ome-container", "image": "docker.io/library/server:1", "args": [f"--value={value}"]}
    return {
        "metadata": {"name": "shared", "namespace": NS},
        "spec": {"engineConfig": {"runner": {**runner, "resources": {"requests": {"cpu": "10m"}}}}},
    }


def service(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": f"s-{number:04d}", "namespace": NS},
        "spec": {
            "runtime": {"name": "shared", "kind": "ServingRuntime", "autoSync": False},
            "engine": {"minReplicas": 1, "maxReplicas": 1},
        },
    }


class Meter:
    """The manager's requests and CPU seconds so far."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self._cluster = cluster

    def read(self) -> tuple[float, float]:
        with urllib.request.urlopen(managing.facts(self._cluster.data)["metrics"]) as answer:
            text = answer.read().decode()
        calls = sum(
            float(value)
            for labels, value in re.findall(r"^rest_client_requests_total\{([^}]*)\} (\S+)$", text, re.M)
            if 'resource="leases"' not in labels
        )
        cpu = re.search(r"^process_cpu_seconds_total (\S+)$", text, re.M)
        return calls, float(cpu[1]) if cpu else 0.0

    def quiet(self, seconds: float = 4.0, limit: float = 900.0) -> tuple[float, float]:
        """Wait until no request is made for some seconds."""
        deadline = time.monotonic() + limit
        last, since = self.read(), time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(0.5)
            now = self.read()
            if now[0] != last[0]:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > seconds:
                return now
        raise SystemExit("the manager never came to rest")


def in_threads(config: ClusterConfig, count: int, work: Callable[[SyncClient, int], object]) -> float:
    """Do `count` pieces of work with 8 clients; seconds it took."""

    def part(first: int) -> None:
        with SyncClient(config) as client:
            for number in range(first, count, THREADS):
                work(client, number)

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(part, range(THREADS)))
    return time.monotonic() - began


def main() -> None:
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    count, real = (numbers or [200])[0], "--kube" in sys.argv
    with tempfile.TemporaryDirectory(prefix="ome-bench-") as folder:
        cluster = open_cluster(Path(folder), nodes=4, real=real)
        try:
            measure(cluster, count)
        finally:
            cluster.close()


def measure(cluster: ScenarioCluster, count: int) -> None:
    config = ClusterConfig.load(str(cluster.kubeconfig))
    meter = Meter(cluster)
    with SyncClient(config) as client:
        client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
        client.apply(
            SERVING_RUNTIMES,
            {"apiVersion": "ome.io/v1beta1", "kind": "ServingRuntime", **runtime("1")},
            field_manager="bench",
        )
        start = meter.quiet()
        began = time.monotonic()
        in_threads(config, count, lambda c, n: c.create(INFERENCE_SERVICES, service(n)))
        while len(client.list(DEPLOYMENTS, NS)) < count:
            time.sleep(0.2)
        created = time.monotonic() - began
        after = meter.quiet()
        show(f"{count} new pinned services", start, after, count)
        print(f"  all Deployments exist after {created:.1f} s")
        idle = meter.read()
        time.sleep(20)
        show("idle for 20 s", idle, meter.read(), 1)
        before = meter.read()
        began = time.monotonic()
        client.apply(
            SERVING_RUNTIMES,
            {"apiVersion": "ome.io/v1beta1", "kind": "ServingRuntime", **runtime("2")},
            field_manager="bench",
        )
        while drifted(client) < count:
            time.sleep(0.2)
        took = time.monotonic() - began
        show("one runtime edit", before, meter.quiet(), count)
        print(f"  all services report drift after {took:.1f} s")
        cluster.restart_manager()
        show("a restart, until it is quiet (whole process)", (0.0, 0.0), meter.quiet(), 1)
        bare = in_threads(config, count, lambda c, n: c.create(DEPLOYMENTS, deployment(n)))
        print(f"a bare client creates {count} Deployments in {bare:.1f} s ({THREADS} connections)")


def deployment(number: int) -> dict[str, Any]:
    labels = {"app": f"bare-{number:04d}"}
    container = {"name": "c", "image": "docker.io/library/server:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": labels["app"], "namespace": NS},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def drifted(client: SyncClient) -> int:
    found = 0
    for item in client.list(INFERENCE_SERVICES, NS):
        conditions = (item.get("status") or {}).get("conditions") or ()
        found += any(c["type"] == "RuntimeDrifted" and c["status"] == "True" for c in conditions)
    return found


def show(what: str, before: tuple[float, float], after: tuple[float, float], count: int) -> None:
    calls, cpu = after[0] - before[0], after[1] - before[1]
    each = f" ({calls / count:.1f} calls, {1000 * cpu / count:.1f} ms CPU each)" if count > 1 else ""
    print(f"{what}: {calls:.0f} API calls, {cpu:.2f} s CPU{each}", flush=True)


if __name__ == "__main__":
    main()
