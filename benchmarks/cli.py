"""What a read command of kubectl-ome costs, as whole processes, beside `kubectl get` of the same object in the same
run.

    python benchmarks/cli.py [--rounds 15]

Starts a small embedded cluster in a temporary directory and ends it. Prints a table; never passes or fails. The
budget is 100 ms for a whole process on a machine with nothing else to do, the aim twice what `kubectl get` needs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
SERVICE = """\
apiVersion: ome.io/v1beta1
kind: ClusterServingRuntime
metadata: {name: bench}
spec:
  engineConfig:
    runner: {name: ome-container, image: "docker.io/library/engine:1"}
---
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: bench, namespace: default}
spec:
  deploymentMode: OMENative
  runtime: {name: bench}
  engine: {minReplicas: 1, maxReplicas: 1}
"""
COMMANDS = (
    ("kubectl", "get", "inferenceservice", "bench", "-o", "json"),
    ("kubectl-ome", "get", "inferenceservice", "bench", "-o", "json"),
    ("kubectl-ome", "get", "inferenceservice", "bench"),
    ("kubectl-ome", "instance", "list", "bench"),
    ("kubectl-ome", "instance", "retry-blocks", "bench", "--component", "engine"),
    ("kubectl-ome", "runtime", "effective", "bench"),
    ("kubectl-ome", "runtime", "history", "bench"),
    ("kubectl-ome", "rollout", "status", "bench"),
    ("kubectl-ome", "status", "bench"),
    ("kubectl-ome", "version"),
)


def once(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """(seconds on the wall, seconds of CPU) of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(environment: dict[str, str], rounds: int) -> None:
    """Round by round, so that every command meets the same machine."""
    figures: dict[tuple[str, ...], list[tuple[float, float]]] = {command: [] for command in COMMANDS}
    for command in COMMANDS:
        once(command, environment)
    for _ in range(rounds):
        for command in COMMANDS:
            figures[command].append(once(command, environment))
    base = statistics.median(wall for wall, _ in figures[COMMANDS[0]])
    print(f"{'command':64}{'median ms':>11}{'best ms':>9}{'cpu ms':>8}{'x kubectl':>11}")
    for command, found in figures.items():
        walls = [wall * 1000 for wall, _ in found]
        cpu = min(seconds * 1000 for _, seconds in found)
        ratio = statistics.median(walls) / (base * 1000)
        print(f"{' '.join(command):64}{statistics.median(walls):11.0f}{min(walls):9.0f}{cpu:8.0f}{ratio:11.1f}")
    print(f"load average while measuring: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "OME_LOCAL_DATA_DIR": folder,
            "KUBECONFIG": f"{folder}/kubeconfig",
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        }

        def local(*arguments: str) -> None:
            subprocess.run(
                [str(BIN / "ome"), "local", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
            )

        local("up", "--port", "0")
        try:
            apply = [str(BIN / "kubectl"), "apply", "-f", "-"]
            subprocess.run(apply, env=environment, input=SERVICE.encode(), stdout=subprocess.DEVNULL, check=True)
            wait = [str(BIN / "kubectl-ome"), "wait", "bench", "--for=condition=Ready"]
            subprocess.run(wait, env=environment, stdout=subprocess.DEVNULL, check=True)
            measure(environment, rounds)
        finally:
            local("down")


if __name__ == "__main__":
    main()
