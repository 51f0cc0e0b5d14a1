"""The commands of the embedded cluster, and what they say when something is in their way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.embedded_only("these commands are the embedded cluster's")
PROGRAMS = Path(sys.executable).parent


@dataclass
class Ran:
    code: int
    out: str
    err: str


@dataclass
class Desk:
    """A person's shell with a data directory of its own."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def __call__(self, *arguments: str, data: Path | None = None, timeout: float = 120.0) -> Ran:
        environment = {**os.environ, "HOME": str(self.folder), "OME_LOCAL_DATA_DIR": str(data or self.data)}
        environment.pop("KUBECONFIG", None)
        done = subprocess.run(
            [str(PROGRAMS / "ome"), "local", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def up(self, *more: str) -> Ran:
        return self("up", "--port", "0", "--no-manager", *more)

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("status", "--output", "json").out)
        return found

    def kubectl(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(PROGRAMS / "kubectl"), "--kubeconfig", str(self.data / "kubeconfig"), *arguments],
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        return done.stdout


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A cluster that runs for the whole module."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    started = desk.up("--nodes", "2", "--gpus-per-node", "4")
    assert started.code == 0, started.err
    yield desk
    desk("down")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A fresh data directory; what is started in it is stopped."""
    found = Desk(tmp_path)
    yield found
    found("down")


def one_line(ran: Ran) -> str:
    """The refusal: exit code 1, one line, no traceback."""
    assert ran.code == 1, ran
    assert "Traceback" not in ran.err
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    return lines[0]


def test_status_tells_where_it_serves(running: Desk) -> None:
    facts = running.facts()
    assert facts["running"] is True
    assert facts["ready"] is True
    assert facts["nodes"] == 2
    assert facts["manager"] == {"running": False}
    assert running("status").out.startswith("cluster   ready   https://127.0.0.1:")


def test_up_twice_is_refused_and_harms_nothing(running: Desk) -> None:
    before = running.facts()["pid"]
    assert "a cluster is already running in" in one_line(running.up())
    assert running.facts()["pid"] == before


def test_the_nodes_have_the_gpus_that_were_asked_for(running: Desk) -> None:
    rows = json.loads(running("node", "list", "-o", "json").out)
    assert [(row["name"], row["status"], row["gpus"]) for row in rows] == [
        ("node-1", "Ready", "4"),
        ("node-2", "Ready", "4"),
    ]


def test_nodes_come_fail_recover_and_go(running: Desk) -> None:
    assert running("node", "add", "extra", "--gpus", "2", "--label", "zone=a").code == 0
    assert "extra" in running.kubectl("wait", "--for=condition=Ready", "node/extra", "--timeout=60s")
    assert running.kubectl("get", "nodes", "-l", "zone=a", "-o", "name") == "node/extra\n"
    assert running("node", "fail", "extra").code == 0
    assert json.loads(running("node", "list", "-o", "json").out)[0]["failed"] is True
    assert running("node", "recover", "extra").code == 0
    assert one_line(running("node", "recover", "extra")) == "Error: node extra has not failed"
    assert running("node", "remove", "extra").code == 0
    assert one_line(running("node", "fail", "extra")) == 'Error: nodes "extra" not found'


def test_images(running: Desk) -> None:
    assert running("image", "deny", "*:missing").out == "Denied *:missing.\n"
    assert running("image", "deny", "*:missing").out == "*:missing is already denied.\n"
    assert json.loads(running("image", "list", "-o", "json").out) == {"denied": ["*:missing"]}
    refused = one_line(running("image", "allow", "*:other"))
    assert refused == "Error: *:other is not on the list; denied is: *:missing"
    assert running("image", "allow", "*:missing").code == 0
    assert running("image", "list").out == ""


def test_a_model_is_marked_on_nodes(running: Desk) -> None:
    assert "there is no ClusterBaseModel tiny" in one_line(running("model", "ready", "tiny"))
    model = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterBaseModel",
        "metadata": {"name": "tiny"},
        "spec": {"storage": {"storageUri": "hf://example/tiny", "path": "/raid/models/tiny"}},
    }
    path = running.folder / "model.json"
    path.write_text(json.dumps(model))
    running.kubectl("apply", "-f", str(path))
    assert "there is no node nowhere" in one_line(running("model", "ready", "tiny", "--node", "nowhere"))
    marked = running("model", "ready", "tiny", "--architecture", "LlamaForCausalLM", "--size", "1B", "--node", "node-2")
    assert marked.out == "Model tiny is ready on node-2.\n"
    label = "models.ome.io/clusterbasemodel.tiny=Ready"
    assert running.kubectl("get", "nodes", "-l", label, "-o", "name") == "node/node-2\n"
    entry = json.loads(running.kubectl("get", "configmap", "node-2", "-n", "ome", "-o", "json"))
    assert entry["metadata"]["labels"] == {"models.ome/basemodel-status": "true", "node": "node-2"}
    value = json.loads(entry["data"]["clusterbasemodel.tiny"])
    assert (value["status"], value["config"]["modelArchitecture"]) == ("Ready", "LlamaForCausalLM")


def test_the_kubeconfig_is_printed_and_merged_only_when_asked(running: Desk) -> None:
    own = running.folder / ".kube" / "config"
    printed = json.loads(running("kubeconfig").out)
    assert printed["current-context"] == "ome-local"
    assert not own.exists()
    own.parent.mkdir(exist_ok=True)  # kubectl keeps its cache there
    mine = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        "clusters": [{"name": "work", "cluster": {"server": "https://example.com"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "current-context": "work",
    }
    own.write_text(json.dumps(mine))
    assert running("kubeconfig", "--merge").code == 0
    merged = yaml.safe_load(own.read_text())
    assert [context["name"] for context in merged["contexts"]] == ["work", "ome-local"]
    assert merged["current-context"] == "work"
    assert running("kubeconfig", "--merge", "--use").code == 0
    assert yaml.safe_load(own.read_text())["current-context"] == "ome-local"
    own.write_text("- not a kubeconfig\n")
    assert "is no kubeconfig; it is left as it is" in one_line(running("kubeconfig", "--merge"))
    assert own.read_text() == "- not a kubeconfig\n"


def test_env_and_url(running: Desk) -> None:
    assert f"export KUBECONFIG={running.data / 'kubeconfig'}" in running("env").out
    assert one_line(running("url", "default/absent")) == 'Error: services "absent" not found'
    running.kubectl("create", "deployment", "web", "--image=registry.example/web:1", "--port=80")
    running.kubectl("expose", "deployment", "web")
    running.kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    deadline = time.monotonic() + 60
    while "are simulated, nothing listens in them" not in (refused := one_line(running("url", "default/web"))):
        assert time.monotonic() < deadline, refused  # the cluster has not looked at the new Service yet
        time.sleep(0.1)


WRONG_USAGE = [
    ["up", "--nodes", "many"],
    ["up", "--nodes", "-1"],
    ["image", "deny"],
    ["image", "deny", " "],
    ["url", "web"],
    ["kubeconfig", "--use"],
    ["node", "add", "n", "--label", "x"],
    ["unknown"],
]


@pytest.mark.parametrize("arguments", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_is_exit_code_two(desk: Desk, arguments: Sequence[str]) -> None:
    ran = desk(*arguments)
    assert ran.code == 2
    assert "Usage:" in ran.err
    assert not desk.data.exists()


def test_commands_without_a_cluster_say_so(desk: Desk) -> None:
    for arguments in (["node", "list"], ["image", "list"], ["manager", "start"], ["url", "a/b"]):
        assert "no cluster is running in" in one_line(desk(*arguments))
    assert "there is no cluster in" in one_line(desk("kubeconfig"))
    assert desk("status").code == 1
    assert desk("down").code == 0
    assert one_line(desk("manager", "stop")) == "Error: the manager is not running"


def test_flags_that_the_operator_does_not_take_are_refused_before_anything_starts(desk: Desk) -> None:
    refused = one_line(desk("up", "--", "--no-such-flag"))
    assert refused == (
        "Error: the operator does not start with these flags: flag provided but not defined: -no-such-flag"
    )
    assert "must be greater than" in one_line(desk("up", "--", "--leader-elect-lease-duration=1s"))
    assert desk("up", "--", "--help").out.startswith("Usage of manager:")
    assert not desk.data.exists()


def test_a_busy_port_is_named_and_nothing_is_left_behind(desk: Desk) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        refused = one_line(desk("up", "--no-manager", "--port", port))
    assert refused == f"Error: port {port} is taken by another program; choose another one with --port"
    assert desk("status").code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named(desk: Desk) -> None:
    desk.data.mkdir()
    desk.data.chmod(0o500)
    assert "cannot write to the data directory" in one_line(desk.up())


def test_a_file_in_place_of_the_folder_is_named(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    assert "cannot write to the data directory" in one_line(desk.up())
    assert (tmp_path / "data").read_text() == "mine"
    (tmp_path / "data").unlink()


def test_a_damaged_database_is_left_as_it_is(desk: Desk) -> None:
    desk.data.mkdir()
    (desk.data / "cluster.db").write_bytes(b"this is no database at all" * 200)
    refused = one_line(desk.up())
    assert "cannot be read" in refused
    assert "ome local reset" in refused
    assert (desk.data / "cluster.db").read_bytes().startswith(b"this is no database")


def test_a_killed_cluster_comes_back_with_its_data(desk: Desk) -> None:
    assert desk.up("--nodes", "2").code == 0
    desk.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    desk.kubectl("create", "deployment", "web", "--image=registry.example/web:1")
    desk.kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    pods = desk.kubectl("get", "pods", "-o", "name")
    os.kill(desk.facts()["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while desk("status").code == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert desk("status").code == 1
    assert "with 2 node(s)" in desk.up().out
    assert desk.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
    desk.kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    assert desk.kubectl("get", "pods", "-o", "name") == pods


def test_a_closed_terminal_stops_the_cluster_in_order(desk: Desk) -> None:
    assert desk.up().code == 0
    os.kill(desk.facts()["pid"], signal.SIGHUP)
    deadline = time.monotonic() + 60
    while desk("status").code == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert desk("status").code == 1
    assert desk("logs", "--tail", "1").out.endswith(" INFO ome.local: stopping\n")


def test_reset_deletes_only_what_the_cluster_made(desk: Desk) -> None:
    assert desk.up().code == 0
    (desk.data / "mine.txt").write_text("keep")
    assert "confirm with --yes" in one_line(desk("reset"))
    assert desk("reset", "--yes").code == 0
    assert [path.name for path in desk.data.iterdir()] == ["mine.txt"]
    assert desk("status").code == 1


def test_the_manager_is_a_process_of_its_own(desk: Desk) -> None:
    started = desk("up", "--port", "0")
    assert started.code == 0, started.err
    first = json.loads(desk("manager", "status", "-o", "json").out)
    assert first["running"] is True
    os.kill(first["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while desk("manager", "status").code == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert desk("manager", "status").out == "stopped\n"
    assert desk.facts()["ready"] is True
    assert desk("manager", "start", "--", "--zap-log-level=debug").code == 0
    second = json.loads(desk("manager", "status", "-o", "json").out)
    assert second["arguments"] == ["--zap-log-level=debug"]
    assert second["ports"]["webhook"] == first["ports"]["webhook"]
    assert "already running" in one_line(desk("manager", "start"))
    failed = desk("manager", "restart", "--", "--no-such-flag")
    assert "flag provided but not defined: -no-such-flag" in one_line(failed)
    assert json.loads(desk("manager", "status", "-o", "json").out)["pid"] == second["pid"]
    assert desk("manager", "logs", "--tail", "1").code == 0
