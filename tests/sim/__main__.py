"""`python -m tests.sim --seeds 0:10000`: many schedules; a failing seed prints the command that replays it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from .schedule import run


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    arguments.add_argument("--seeds", default="0:1000", help="first:last, last excluded; or one seed")
    arguments.add_argument("--jobs", type=int, default=1, help="processes")
    arguments.add_argument("--verbose", action="store_true", help="print the schedule of each seed")
    options = arguments.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # a schedule is the same everywhere only with one order of sets
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    first, colon, last = options.seeds.partition(":")
    seeds = range(int(first), int(last)) if colon else range(int(first), int(first) + 1)
    return play(seeds, options.jobs, options.verbose)


def play(seeds: range, jobs: int, verbose: bool) -> int:
    """Play them; 1 when any failed."""
    began, failed = time.monotonic(), 0
    if jobs == 1:
        results = map(attempt, seeds)
        failed = sum(report(seed, result, verbose) for seed, result in zip(seeds, results, strict=True))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            results = pool.map(attempt, seeds, chunksize=8)
            failed = sum(report(seed, result, verbose) for seed, result in zip(seeds, results, strict=True))
    print(f"{len(seeds)} schedules in {time.monotonic() - began:.0f} s, {failed} failed")
    return 1 if failed else 0


def attempt(seed: int) -> tuple[str, list[str]]:
    """The failure of one seed (empty if none) and its log."""
    logging.getLogger("ome").propagate = False
    try:
        return "", run(seed)
    except AssertionError as error:
        return str(error), []


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
