"""Figures of the embedded API server as its clients see them: one process with TLS and a database, the client apart.

    python benchmarks/apiserver.py [--pods 10000] [--seconds 3] [--beside-real]

Prints a table; never passes or fails. `--beside-real` measures a real control plane (`make kube-binaries`) in the same
run, on the same machine and with the same client: kube-apiserver and etcd without fsync count as one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

PODS = "/api/v1/namespaces/default/pods"
TOKEN = "benchmark"
MERGE = {"content-type": "application/merge-patch+json"}


def pod(name: str) -> dict[str, Any]:
    """A pod of about the size that a serving pod has."""
    env = [{"name": f"VARIABLE_{n}", "value": f"value-{n}"} for n in range(12)]
    container = {
        "name": "engine",
        "image": "registry.example.com/engine:1.2.3",
        "args": ["--model", "/models/some-model", "--port", "8080"],
        "env": env,
        "ports": [{"containerPort": 8080}],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8080}},
    }
    metadata = {"name": name, "labels": {"app": "bench", "shard": str(hash(name) % 100)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


class Measured:
    """An API server that runs: how to reach it, and what its processes use."""

    url: str
    token: str
    tls: ssl.SSLContext
    start_seconds: float

    def processes(self) -> list[int]:
        raise NotImplementedError

    def memory(self) -> float:
        """Resident set of all processes in MiB."""
        total = 0
        for pid in self.processes():
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        return total / 1024

    def cpu(self) -> float:
        """Processor seconds used so far."""
        ticks = 0
        for pid in self.processes():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class Embedded(Measured):
    """The embedded API server alone, as a process of its own."""

    token = TOKEN

    def __init__(self, folder: Path) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ome.local.apiserver", "--data-dir", str(folder), "--token", TOKEN],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        kubeconfig = json.loads(Path(self.process.stdout.readline().strip()).read_text())
        self.start_seconds = time.perf_counter() - began
        self.url = kubeconfig["clusters"][0]["cluster"]["server"]
        self.tls = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))

    def processes(self) -> list[int]:
        return [self.process.pid]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)


class Real(Measured):
    """A real control plane without nodes. Its controllers and scheduler run too, and are not counted."""

    token = "ome-kube-admin"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        done = self._control_plane("up", "--nodes", "none")
        said = re.search(r"ready in ([0-9.]+) s", done.stderr)
        if done.returncode or said is None:
            raise SystemExit(f"the real control plane did not start: {done.stderr.strip()[-500:]}")
        self.start_seconds = float(said[1])
        self.url = str(yaml.safe_load((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"])
        self.tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def _control_plane(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(__file__).resolve().parents[1] / "hack" / "kubernetes" / "control_plane.py"
        environment = {**os.environ, "OME_KUBE_RUN_DIR": str(self.folder)}
        command = [sys.executable, str(program), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def processes(self) -> list[int]:
        return [int((self.folder / f"{name}.pid").read_text().split()[0]) for name in ("kube-apiserver", "etcd")]

    def stop(self) -> None:
        self._control_plane("down")


class Bench:
    def __init__(self, server: Measured, session: aiohttp.ClientSession, seconds: float) -> None:
        self.server = server
        self.session = session
        self.seconds = seconds

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        async with self.session.request(method, self.server.url + path, data=data, headers=headers) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.read()

    async def rate(self, connections: int, work: Callable[[int, int], Awaitable[Any]]) -> str:
        """How fast `work(connection, number)` goes on so many connections, and what a request costs the server."""
        took: list[float] = []
        end = time.perf_counter() + self.seconds

        async def one(connection: int) -> None:
            number = 0
            while (began := time.perf_counter()) < end:
                await work(connection, number)
                took.append(time.perf_counter() - began)
                number += 1

        began, used = time.perf_counter(), self.server.cpu()
        await asyncio.gather(*(one(connection) for connection in range(connections)))
        rate = len(took) / (time.perf_counter() - began)
        cost = (self.server.cpu() - used) / len(took) * 1e6
        return f"{rate:,.0f}/s, p99 {_percentile(took, 99) * 1000:.1f} ms, {cost:,.0f} us CPU each"

    async def fan_out(self, watchers: int, writes: int, pause: float) -> list[float]:
        """Milliseconds from a write to its event, for every watcher and write."""
        sent: dict[str, float] = {}
        delays: list[float] = []
        opened = asyncio.Semaphore(0)

        async def watch() -> None:
            url = f"{self.server.url}{PODS}?watch=1&resourceVersion={version}&fieldSelector=metadata.name=fan"
            async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=120)) as answer:
                opened.release()
                for _ in range(writes):
                    line = await answer.content.readline()
                    now = time.perf_counter()
                    mark = json.loads(line)["object"]["metadata"]["annotations"]["mark"]
                    delays.append((now - sent[mark]) * 1000)

        await self.call("POST", PODS, pod("fan"))
        version = json.loads(await self.call("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
        tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
        for _ in tasks:
            await opened.acquire()
        for number in range(writes):
            mark = str(number)
            sent[mark] = time.perf_counter()
            await self.call("PATCH", f"{PODS}/fan", {"metadata": {"annotations": {"mark": mark}}}, **MERGE)
            await asyncio.sleep(pause)
        await asyncio.gather(*tasks)
        return delays


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _row(what: str, figure: str) -> None:
    print(f"{what:<52} {figure}", flush=True)


async def _serves_pods(bench: Bench) -> None:
    """Wait until the ServiceAccount that every pod needs is there."""
    for _ in range(300):
        try:
            await bench.call("POST", PODS, pod("one"))
            return
        except AssertionError:
            await asyncio.sleep(0.1)
    raise SystemExit("no pod can be made")


async def measure(server: Measured, pods: int, seconds: float) -> None:
    connector = aiohttp.TCPConnector(ssl=server.tls, limit=0)
    headers = {"authorization": f"Bearer {server.token}", "content-type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        bench = Bench(server, session, seconds)
        _row("start to serving (process to kubeconfig printed)", f"{server.start_seconds:.2f} s")
        _row("memory, idle", f"{server.memory():.0f} MiB")
        await _serves_pods(bench)
        for connection in range(32):
            await bench.call("POST", PODS, pod(f"p{connection}"))
        for connections in (1, 32):
            _row(
                f"GET of a pod, {connections} connections",
                await bench.rate(connections, lambda _c, _n: bench.call("GET", f"{PODS}/one")),
            )
        for connections in (1, 32):
            figure = await bench.rate(
                connections,
                lambda c, n: bench.call("PATCH", f"{PODS}/p{c}", {"metadata": {"labels": {"n": str(n)}}}, **MERGE),
            )
            _row(f"merge PATCH of a pod, durable, {connections} connections", figure)
        figure = await bench.rate(8, lambda c, n: bench.call("POST", PODS, pod(f"made-{c}-{n}")))
        _row("create of a pod, durable, 8 connections", figure)
        delays = await bench.fan_out(50, 100, 0.02)
        p50, p99 = statistics.median(delays), _percentile(delays, 99)
        _row("write to event, 50 watchers, 50 writes/s", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        await bench.call("DELETE", f"{PODS}?labelSelector=app=bench")
        before = server.memory()
        await _fill(bench, pods)
        _row(
            f"memory, {pods:,} pods (the last events kept)",
            f"{server.memory():.0f} MiB (+{server.memory() - before:.0f})",
        )
        began = time.perf_counter()
        size = len(await bench.call("GET", PODS))
        _row(f"LIST of {pods:,} pods ({size / 1e6:.0f} MB)", f"{time.perf_counter() - began:.2f} s")
        began = time.perf_counter()
        await bench.call("GET", f"{PODS}?labelSelector=shard=7")
        _row(f"LIST of 1 % of {pods:,} by label", f"{(time.perf_counter() - began) * 1000:.0f} ms")


async def _fill(bench: Bench, pods: int) -> None:
    numbers = iter(range(pods))

    async def worker() -> None:
        for number in numbers:
            await bench.call("POST", PODS, pod(f"many-{number:05}"))

    await asyncio.gather(*(worker() for _ in range(8)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement of a rate")
    parser.add_argument("--beside-real", action="store_true", help="measure a real control plane too")
    arguments = parser.parse_args()
    print(f"embedded API server, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Embedded(folder)
        try:
            asyncio.run(measure(server, arguments.pods, arguments.seconds))
        finally:
            server.stop()
        again = Embedded(folder)
        _row(f"start to serving with {arguments.pods:,} stored pods", f"{again.start_seconds:.2f} s")
        again.stop()
    if arguments.beside_real:
        print("\nreal control plane")
        with tempfile.TemporaryDirectory() as name:
            real = Real(Path(name) / "run")
            try:
                asyncio.run(measure(real, arguments.pods, arguments.seconds))
            finally:
                real.stop()
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
