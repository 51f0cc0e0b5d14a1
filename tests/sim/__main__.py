"""`python -m tests.sim --seeds 0:10000`: many schedules; a failing seed prints the command that replays it."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from .schedule import run

CHUNK = 8
LONGEST = 60.0  # seconds of CPU


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    arguments.add_argument("--seeds", default="0:1000", help="first:last, last excluded; or one seed")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments.add_argument("--verbose", action="store_true", help="print the schedule of each seed")
    options = arguments.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # a schedule is the same everywhere only with one order of sets
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    gc.freeze()  # as the manager does after its start: what is here stays
    gc.set_threshold(50_000, 20, 100)
    first, colon, last = options.seeds.partition(":")
    seeds = range(int(first), int(last)) if colon else range(int(first), int(first) + 1)
    return play(seeds, options.jobs, options.verbose)


def play(seeds: range, jobs: int, verbose: bool) -> int:
    """Play them; 1 when any failed."""
    began = time.monotonic()
    if jobs == 1 or len(seeds) < 2 * CHUNK:
        failed = tell(seeds, map(attempt, seeds), verbose)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            failed = tell(seeds, pool.map(attempt, seeds, chunksize=CHUNK), verbose)
    used = sum(os.times()[:4])
    spent = f"{time.monotonic() - began:.0f} s ({used / len(seeds):.2f} s of CPU each)"
    print(f"{len(seeds)} schedules in {spent}, {failed} failed")
    return 1 if failed else 0


def tell(seeds: range, results: Iterable[tuple[str, list[str]]], verbose: bool) -> int:
    """Report each as it comes; how many failed."""
    failed = 0
    for played, (seed, result) in enumerate(zip(seeds, results, strict=True), 1):
        failed += report(seed, result, verbose)
        if played % 500 == 0 and played < len(seeds):
            print(f"{played} of {len(seeds)} schedules, {failed} failed", file=sys.stderr, flush=True)
    return failed


def attempt(seed: int) -> tuple[str, list[str]]:
    """The failure of one seed (empty if none) and its log."""
    logging.getLogger("ome").propagate = False
    signal.signal(signal.SIGPROF, _stuck)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        return "", run(seed)
    except AssertionError as error:
        return str(error), []
    except Stuck:
        return f"seed {seed}: not over after {LONGEST:.0f} s of CPU: something goes round without time moving", []
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Stuck(BaseException):
    """A schedule takes many times what the longest one does. No handler on the way may take it for its own."""


def _stuck(*_: object) -> None:
    raise Stuck


def report(seed: int, result: tuple[str, list[str]], verbose: bool) -> int:
    failure, told = result
    if failure:
        print(f"{failure}\nreplay: python -m tests.sim --seeds {seed} --verbose\n", flush=True)
        return 1
    if verbose:
        print("\n".join(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
