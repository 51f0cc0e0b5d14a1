#!/usr/bin/env python3
"""Compares the embedded cluster with the recorded answers of a real Kubernetes API server, and keeps what was reached.

Starts a cluster in a folder of its own, plays the recorded raw requests (wire) and kubectl sessions (twin) that lie
beside the checkout, and prints both shares. `hack/twin-differs.json` names the steps that are known to differ, and why:
another one that differs twice in a row fails this program. `--update` writes the file anew and keeps the reasons.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(os.environ.get("OME_RECORDED_ANSWERS") or ROOT.parent / "shared")
KNOWN = ROOT / "hack" / "twin-differs.json"
PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True)
class Outcome:
    """Which steps (`case/step`) differ, and of how many."""

    differing: frozenset[str]
    steps: int

    def __str__(self) -> str:
        same = self.steps - len(self.differing)
        return f"same {same} of {self.steps} steps ({100 * same / max(1, self.steps):.1f} %)"


def cluster(folder: Path, *arguments: str) -> None:
    """`ome local` on a cluster of our own."""
    environment = {**os.environ, "OME_LOCAL_DATA_DIR": str(folder)}
    subprocess.run([str(PROGRAMS / "ome"), "local", *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def play(which: str, kubeconfig: Path, only: Iterable[str] = ()) -> Outcome:
    """Run one of the two batteries, or some of its cases."""
    command = [sys.executable, str(RECORDED / which / "run"), "--kubeconfig", str(kubeconfig), "--json", "--jobs", "4"]
    command += ["--fresh"] if which == "wire" else ["--kubectl", str(PROGRAMS / "kubectl")]
    for pattern in only:
        command += ["--only", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{which} could not be played: {done.stderr.strip()[-500:]}")
    if which == "wire":
        document = json.loads(done.stdout)
        return Outcome(frozenset(f"{row['case']}/{row['step']}" for row in document["differing"]), document["steps"])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Outcome(frozenset(f"{row['case']}/{row['step']}" for row in rows if not row["same"]), len(rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write down what differs now")
    options = parser.parse_args()
    if not (RECORDED / "twin" / "run").exists():
        print("left out: the recorded answers are not beside the checkout")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves no cluster behind
    known: dict[str, dict[str, str]] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    outcomes: dict[str, Outcome] = {}
    failed = False
    with tempfile.TemporaryDirectory(prefix="ome-twin-") as name:
        folder = Path(name)
        cluster(folder, "up", "--port", "0", "--nodes", "0", "--no-manager")
        try:
            for which in ("wire", "twin"):
                outcomes[which] = play(which, folder / "kubeconfig")
                print(f"{which}: {outcomes[which]}", flush=True)
                new = outcomes[which].differing - known.get(which, {}).keys()
                if not new or options.update:
                    continue
                # These machines are shared: what differs once may have been late; what differs twice is different.
                again = play(which, folder / "kubeconfig", sorted({step.partition("/")[0] + "*" for step in new}))
                for step in sorted(new & again.differing):
                    print(f"{which}: differs and did not before: {step}")
                    failed = True
        finally:
            cluster(folder, "down")
    if options.update:
        found = {
            which: {step: known.get(which, {}).get(step, "") for step in sorted(outcome.differing)}
            for which, outcome in outcomes.items()
        }
        KNOWN.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
