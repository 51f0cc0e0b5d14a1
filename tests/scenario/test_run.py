"""`ome local run`, the front door: one command until a model has answered, without the weights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.embedded_only("it starts the embedded cluster")
OME = Path(sys.executable).parent / "ome"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell's environment with a data directory of its own; whatever still runs in it is ended."""
    environment = {**os.environ, "HOME": str(tmp_path), "OME_LOCAL_DATA_DIR": str(tmp_path / "data")}
    environment.pop("KUBECONFIG", None)
    yield environment
    subprocess.run([OME, "local", "down"], env=environment, capture_output=True, timeout=60, check=False)


def test_the_tour_ends_in_an_answer_and_leaves_nothing_behind(desk: dict[str, str]) -> None:
    command = [OME, "local", "run", "--engine", "simulated", "--port", "0", "--exit-after-tour"]
    done = subprocess.run(command, env=desk, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\[ *[\d.]+ s\] cluster serving on https://127\.0\.0\.1:\d+$", done.stdout, re.MULTILINE)
    question, answer = re.search(r"^  > (.+)\n  (\S.*)$", done.stdout, re.MULTILINE).groups()  # type: ignore[union-attr]
    assert question
    assert answer
    assert "from the start to the answer" in done.stdout
    assert "ome local chat" in done.stdout
    assert "Ctrl-C" not in done.stdout
    status = subprocess.run([OME, "local", "status"], env=desk, capture_output=True, text=True, timeout=60, check=False)
    assert status.returncode != 0
    assert not _processes(desk["OME_LOCAL_DATA_DIR"])


def test_the_model_answers_until_ctrl_c(desk: dict[str, str], tmp_path: Path) -> None:
    command = [OME, "local", "run", "--engine", "simulated", "--port", "0"]
    with (tmp_path / "out").open("w+") as out:
        process = subprocess.Popen(command, env=desk, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            url = _url(tmp_path / "out", process)
            body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
            request = urllib.request.Request(url, body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as response:
                assert b'"choices"' in response.read()
            process.send_signal(2)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()
            process.wait(timeout=30)
    said = (tmp_path / "out").read_text()
    assert "Traceback" not in said
    assert said.endswith("s] stopped; what was made is kept for the next start (ome local reset deletes it)\n")
    assert not _processes(desk["OME_LOCAL_DATA_DIR"])


def _url(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"The model answers at (http://\S+)", log.read_text())
        if found is not None and "Ctrl-C" in log.read_text():
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"no model answers:\n{log.read_text()}")


def _processes(folder: str) -> list[str]:
    """Command lines that name the folder, a moment after the end."""
    for _ in range(300):
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if folder in line:
                found.append(line)
        if not found:
            return []
        time.sleep(0.1)
    return found
