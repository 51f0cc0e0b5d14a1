"""The manager's image holds `locks/manager.txt` and nothing else: that must be enough."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import importlib, sys
sys.modules.update(dict.fromkeys({absent!r}))
from ome.manager.process import ROOMS
for name in ("ome.__main__", "ome.admission.server", *ROOMS):
    importlib.import_module(name)
sys.argv = ["ome", "manager", "--help"]
importlib.import_module("ome.__main__").main()
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_manager_needs_no_more_than_its_lock() -> None:
    locked = {
        normal(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / "locks/manager.txt").read_text(), re.MULTILINE)
    }
    assert {"aiohttp", "msgspec"} <= locked
    absent = [
        module
        for module, distributions in packages_distributions().items()
        if module != "ome" and not {normal(name) for name in distributions} & locked
    ]
    assert "cel_expr_python" in absent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(absent=absent)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage of manager:")


def test_the_locks_agree() -> None:
    """What is tested is what runs in the image."""
    versions = [
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "locks" / name).read_text(), re.MULTILINE))
        for name in ("dev.txt", "manager.txt")
    ]
    assert versions[1].items() <= versions[0].items()
