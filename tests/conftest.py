"""Settings of every tier, and the real control plane of `--cluster kube`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTROL_PLANE = ROOT / "hack" / "kubernetes" / "control_plane.py"
KUBECONFIG_VARIABLE = "OME_TEST_KUBECONFIG"
_RUN_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        choices=("embedded", "kube"),
        default="embedded",
        help="where component and scenario tests run: the embedded cluster or the real control plane",
    )
    parser.addoption("--slow", action="store_true", help="run also what needs minutes of real time")
    parser.addoption(
        "--failed-files",
        action="store_true",
        help="run only the files with a failure in the last run, whole, for tests of a scenario follow one another",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the control plane that component tests share, one a worker; each scenario module has one of its own."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A job that a shell put into the background ignores Ctrl-C, and its children would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--cluster") != "kube" or os.environ.get(KUBECONFIG_VARIABLE):
        return
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # only workers run tests
    folder = tempfile.TemporaryDirectory(prefix="ome-kube-")
    command = [sys.executable, str(CONTROL_PLANE), "up", "--nodes", "none"]
    environment = {**os.environ, "OME_KUBE_RUN_DIR": f"{folder.name}/run"}
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if started.returncode != 0:
        folder.cleanup()
        raise pytest.UsageError(f"the real control plane did not start: {started.stderr.strip()}")
    config.stash[_RUN_FOLDER] = folder
    os.environ[KUBECONFIG_VARIABLE] = started.stdout.strip()


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_RUN_FOLDER, None)
    if folder is None:
        return
    environment = {**os.environ, "OME_KUBE_RUN_DIR": f"{folder.name}/run"}
    subprocess.run([sys.executable, str(CONTROL_PLANE), "down"], env=environment, capture_output=True, check=False)
    os.environ.pop(KUBECONFIG_VARIABLE, None)
    folder.cleanup()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--failed-files"):
        _keep_failed_files(config, items)
    # Scenarios mostly wait: begun first, they overlap with everything else.
    items.sort(key=lambda item: "scenario" not in item.path.parts)
    real = config.getoption("--cluster") == "kube"
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="needs minutes of real time: make test-slow"))
        only = item.get_closest_marker("embedded_only")
        if real and only is not None:
            item.add_marker(pytest.mark.skip(reason=f"embedded cluster only: {only.args[0] if only.args else ''}"))


def _keep_failed_files(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a failure on record (the run itself broke off) everything is kept."""
    failed = {test.partition("::")[0] for test in config.cache.get("cache/lastfailed", {})} if config.cache else set()
    if not failed:
        return
    others = [item for item in items if item.nodeid.partition("::")[0] not in failed]
    items[:] = [item for item in items if item.nodeid.partition("::")[0] in failed]
    config.hook.pytest_deselected(items=others)
