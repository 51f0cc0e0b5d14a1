"""A share of the seeded schedules in the default suite; `make sim` plays ten thousand.

Each share runs in a process of its own with one hash seed, because a schedule is the same everywhere only then.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHARES = 4
SEEDS = 45


@pytest.mark.spec("RB-16", "RB-37", "ON-30", "ON-33")
@pytest.mark.parametrize("share", range(SHARES))
def test_seeded_schedules_keep_every_invariant(share: int) -> None:
    seeds = f"{share * SEEDS}:{(share + 1) * SEEDS}"
    played = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--jobs", "1", "--seeds", seeds],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert played.returncode == 0, played.stdout[-8000:] + played.stderr[-2000:]
