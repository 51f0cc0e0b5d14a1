#!/usr/bin/env python3
"""What services cost the manager: calls, CPU and passes for a new service, for a runtime edit, idle, after a restart.

    services.py [N] [--cluster embedded|kube] [--mode RawDeployment|OMENative]

N pinned services (default 200) on `ome local`, or on a real control plane of its own with the product's nodes. The
manager is a process of its own with its production role and flags; its calls come from its own metrics (Lease traffic
does not count), CPU seconds of every process from /proc. On a busy machine compare calls, CPU and ratios, not seconds.

Beside it, in the same run: a bare client that makes the very same writes (the services through the same webhooks,
finalizer, pin, and every object that the manager made of them) with as many connections, while nobody leads.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ome.api.keys import INFERENCE_SERVICE_FINALIZER
from ome.kube.config import ClusterConfig
from ome.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    HPAS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    NAMESPACES,
    PDBS,
    PODS,
    SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from ome.kube.sync import SyncClient
from ome.local.commands import managing
from ome.local.commands.data import read_json
from tests.support.scenario import ScenarioCluster, open_cluster

Json = dict[str, Any]

NS = "bench"
THREADS = 8
PRODUCTION_FLAGS = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
    "--config-cache-ttl=30s",
)
# What may be made of a service, in an order in which it can be made again. The workload of each mode comes first.
WORKLOADS = {"RawDeployment": DEPLOYMENTS, "OMENative": INFERENCE_REPLICAS}
DEPENDENTS = (SERVICES, HPAS, PDBS, CONFIG_MAPS, CONTROLLER_REVISIONS, PODS)
SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")


def runtime(namespace: str, value: str) -> Json:
    container = {"name": "ome-container", "image": "docker.io/library/server:1", "args": [f"--value={value}"]}
    return {
        "apiVersion": SERVING_RUNTIMES.api_version,
        "kind": SERVING_RUNTIMES.kind,
        "metadata": {"name": "shared", "namespace": namespace},
        "spec": {"engineConfig": {"runner": {**container, "resources": {"requests": {"cpu": "10m"}}}}},
    }


def service(namespace: str, number: int, mode: str) -> Json:
    return {
        "apiVersion": INFERENCE_SERVICES.api_version,
        "kind": INFERENCE_SERVICES.kind,
        "metadata": {"name": f"s-{number:04d}", "namespace": namespace},
        "spec": {
            "deploymentMode": mode,
            "runtime": {"name": "shared", "kind": "ServingRuntime", "autoSync": False},
            "engine": {"minReplicas": 1, "maxReplicas": 1},
        },
    }


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Totals so far: the manager's calls by method and resource, its passes, CPU seconds of it and of the cluster."""

    calls: Counter[str] = field(default_factory=Counter)
    passes: float = 0.0
    manager: float = 0.0
    cluster: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.calls.values())


class Meter:
    def __init__(self, cluster: ScenarioCluster) -> None:
        self._cluster = cluster

    def read(self) -> Reading:
        facts = managing.facts(self._cluster.data)
        with urllib.request.urlopen(facts["metrics"]) as answer:
            text = answer.read().decode()
        calls: Counter[str] = Counter()
        for method, resource, value in re.findall(
            r'^rest_client_requests_total\{method="(\w+)",resource="([^"]+)"\} (\S+)$', text, re.M
        ):
            if resource != "leases" and float(value):
                calls[f"{method} {resource}"] = int(float(value))
        passes = sum(float(v) for v in re.findall(r"^controller_runtime_reconcile_total\{[^}]*\} (\S+)$", text, re.M))
        return Reading(calls, passes, cpu_seconds(int(facts["pid"])), sum(map(cpu_seconds, self._cluster_pids())))

    def _cluster_pids(self) -> list[int]:
        if not self._cluster.real:
            return [int(read_json(self._cluster.data.state)["pid"])]
        folder = self._cluster.kubeconfig.parent
        return [int(path.read_text().split()[0]) for path in folder.glob("*.pid")]

    def quiet(self, seconds: float = 4.0, limit: float = 900.0) -> Reading:
        """Wait until the manager makes no request for some seconds."""
        deadline = time.monotonic() + limit
        last, since = self.read(), time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(1.0)  # to render the metrics costs the manager more than to count
            now = self.read()
            if now.total != last.total:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > seconds:
                return now
        raise SystemExit("the manager never came to rest")


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(what: str, before: Reading, after: Reading, count: int, *, detail: bool = False) -> None:
    calls, passes = after.total - before.total, after.passes - before.passes
    cpu, cluster = after.manager - before.manager, after.cluster - before.cluster
    each = f"; each: {calls / count:.1f} calls, {1000 * cpu / count:.1f} ms CPU, {passes / count:.1f} passes"
    line = f"{what}: {calls} API calls, {cpu:.2f} s CPU, {passes:.0f} passes{each if count > 1 else ''}"
    print(f"{line}; the cluster's CPU {cluster:.1f} s", flush=True)
    if detail:
        for name, number in (after.calls - before.calls).most_common():
            print(f"    {number / count:6.2f}  {name}")


def in_threads(config: ClusterConfig, count: int, work: Callable[[SyncClient, int], object]) -> float:
    """Do `count` pieces of work over 8 connections; seconds it took."""

    def part(first: int) -> None:
        with SyncClient(config) as client:
            for number in range(first, count, THREADS):
                work(client, number)

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(part, range(THREADS)))
    return time.monotonic() - began


def count_of(client: SyncClient, resource: Resource, namespace: str) -> int:
    page = client.list_page(resource, namespace, limit=1)
    return len(page.items) + (page.remaining or 0)


def with_condition(client: SyncClient, type_: str) -> int:
    found = 0
    for item in client.list(INFERENCE_SERVICES, NS):
        conditions = (item.get("status") or {}).get("conditions") or ()
        found += any(c["type"] == type_ and c["status"] == "True" for c in conditions)
    return found


def wait(look: Callable[[], int], count: int, every: float) -> None:
    deadline = time.monotonic() + 900
    while look() < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{look()} of {count} after 900 s")
        time.sleep(every)


# -- the bare client ---------------------------------------------------------------------------------------------------


def owned_objects(client: SyncClient, name: str) -> list[tuple[Resource, Json]]:
    """What the manager made of one service, with what it made of that."""
    owners = {client.get(INFERENCE_SERVICES, name, NS)["metadata"]["uid"]}
    found: list[tuple[Resource, Json]] = []
    for resource in (*WORKLOADS.values(), *DEPENDENTS):
        for item in client.list(resource, NS):
            if owners & {reference["uid"] for reference in item["metadata"].get("ownerReferences") or ()}:
                owners.add(item["metadata"]["uid"])
                found.append((resource, item))
    return found


def template_of(resource: Resource, item: Json) -> str:
    """An object as a client would send it."""
    meta = {key: value for key, value in item["metadata"].items() if key not in SERVERS_OWN}
    body = {**item, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    body.pop("status", None)
    for name in ("clusterIP", "clusterIPs", "nodeName"):
        (body.get("spec") or {}).pop(name, None)
    return json.dumps(body)


def bare_writes(config: ClusterConfig, count: int, mode: str) -> tuple[float, int]:
    """Seconds, and writes a service, for a client that knows beforehand what to write."""
    with SyncClient(config) as client:
        templates = [(resource, template_of(resource, item)) for resource, item in owned_objects(client, "s-0000")]
        pin = client.get(INFERENCE_SERVICES, "s-0000", NS)["status"]["pinnedRevisionName"]
        client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}})
        client.apply(SERVING_RUNTIMES, runtime("bare", "2"), field_manager="bench")

    def write(client: SyncClient, number: int) -> None:
        name = f"s-{number:04d}"
        client.create(INFERENCE_SERVICES, service("bare", number, mode))
        finalizers = {"metadata": {"finalizers": [INFERENCE_SERVICE_FINALIZER]}}
        client.patch(INFERENCE_SERVICES, name, "bare", finalizers)
        pinned = {"status": {"pinnedRevisionName": pin}}
        client.patch(INFERENCE_SERVICES, name, "bare", pinned, subresource="status")
        for resource, text in templates:
            body = json.loads(text.replace("s-0000", name).replace(f'"namespace": "{NS}"', '"namespace": "bare"'))
            client.apply(resource, body, field_manager="bench")
        told = {"status": {"observedGeneration": 1}}
        client.patch(INFERENCE_SERVICES, name, "bare", told, subresource="status")

    return in_threads(config, count, write), len(templates) + 4


# -- the run -----------------------------------------------------------------------------------------------------------


def measure(cluster: ScenarioCluster, count: int, mode: str) -> None:
    config = ClusterConfig.load(str(cluster.kubeconfig))
    meter = Meter(cluster)
    with SyncClient(config) as client:
        client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
        client.apply(SERVING_RUNTIMES, runtime(NS, "1"), field_manager="bench")
        start = meter.quiet()
        began = time.monotonic()
        in_threads(config, count, lambda c, n: c.create(INFERENCE_SERVICES, service(NS, n, mode)))
        wait(lambda: count_of(client, PDBS, NS), count, 0.05)  # the last of a service's objects
        made = time.monotonic() - began
        wait(lambda: with_condition(client, "Ready"), count, 1.0)
        ready = time.monotonic() - began
        show(f"{count} new pinned {mode} services", start, meter.quiet(), count, detail=True)
        idle = meter.read()
        time.sleep(20)
        show("idle for 20 s", idle, meter.read(), 1)
        before = meter.read()
        began = time.monotonic()
        client.apply(SERVING_RUNTIMES, runtime(NS, "2"), field_manager="bench")
        wait(lambda: with_condition(client, "RuntimeDrifted"), count, 0.2)
        drifted = time.monotonic() - began
        show("one runtime edit", before, meter.quiet(), count)
        print(f"  all services report drift after {drifted:.1f} s")
        cluster.restart_manager(*PRODUCTION_FLAGS)
        show("a restart, until it is quiet (the manager's whole process)", Reading(), meter.quiet(), 1, detail=True)
        give_up = cluster.hold_lease()
        before = meter.quiet()
        bare, writes = bare_writes(config, count, mode)
        spent = meter.quiet()
        give_up()
    print(f"all objects exist after {made:.1f} s, all services are Ready after {ready:.1f} s")
    print(f"a bare client makes the same {writes} writes a service in {bare:.1f} s: ratio {made / bare:.2f}")
    print(f"  the cluster's CPU for it {spent.cluster - before.cluster:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--cluster", choices=("embedded", "kube"), default="embedded")
    parser.add_argument("--mode", choices=tuple(WORKLOADS), default="RawDeployment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ome-bench-") as folder:
        real = options.cluster == "kube"
        cluster = open_cluster(Path(folder), nodes=4, real=real, flags=PRODUCTION_FLAGS)
        try:
            measure(cluster, options.count, options.mode)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
