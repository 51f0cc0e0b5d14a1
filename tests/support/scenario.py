"""A cluster for scenario tests, driven from outside by the real programs: kubectl, kubectl-ome, ome.

Embedded: `ome local up` in a data folder of its own. With `--cluster kube`: a real control plane of its own
(`hack/kubernetes`), the product's node stand-in, and the manager started the same way. Scenarios run on a real clock
with short settings.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ome.kube.config import ClusterConfig
from ome.kube.sync import SyncClient
from ome.local.commands import managing
from ome.local.commands.data import DataDir

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
CONTROL_PLANE = ROOT / "hack" / "kubernetes" / "control_plane.py"
# Every look is a kubectl of its own, which costs a core as long as it runs.
POLL = 0.4
# A manager that cannot renew its Lease in time ends, and nobody starts it anew: the times are the program's own.
FAST_FLAGS = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=500ms",
    "--config-cache-ttl=1s",
)


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    command: str
    code: int
    out: str
    err: str

    def ok(self) -> Ran:
        """Itself, when the exit code is 0; otherwise the test fails with what was printed."""
        assert self.code == 0, f"{self.command}\nexit {self.code}\n{self.out}{self.err}"
        return self


@dataclass(frozen=True)
class Watch:
    """What a `kubectl get --watch` in the background has printed so far, in the API server's order."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text()

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Type and object of each whole event, for a watch with `--output-watch-events -o json`."""
        found, text, at = [], self.text, 0
        while start := re.compile(r"\S").search(text, at):
            try:
                event, at = json.JSONDecoder().raw_decode(text, start.start())
            except json.JSONDecodeError:
                break  # the rest is still being written
            found.append((event["type"], event["object"]))
        return found


@dataclass
class ScenarioCluster:
    """One cluster, and what a person at a terminal does with it. `folder` is where the person works."""

    kubeconfig: Path
    data: DataDir
    folder: Path
    real: bool
    environment: dict[str, str] = field(default_factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _nodes: subprocess.Popen[bytes] | None = None
    _watches: int = 0

    # -- commands ----------------------------------------------------------------------------------------------------

    def run(self, command: str | Sequence[str], *, stdin: str | None = "", timeout: float = 180.0) -> Ran:
        """Run a command line in the working folder. `stdin` None leaves the input unconnected."""
        argv = shlex.split(command) if isinstance(command, str) else [*command]
        done = subprocess.run(
            argv, cwd=self.folder, env=self.environment, input=stdin, capture_output=True, text=True, timeout=timeout
        )
        return Ran(shlex.join(argv), done.returncode, done.stdout, done.stderr)

    def kubectl(self, command: str, *more: str, **options: Any) -> Ran:
        """`kubectl <command>`; `more` are arguments that a shell would have to quote."""
        return self.run(["kubectl", *shlex.split(command), *more], **options)

    def ome(self, command: str, *more: str, **options: Any) -> Ran:
        """`kubectl ome <command>`, as a plugin."""
        return self.run(["kubectl", "ome", *shlex.split(command), *more], **options)

    def local(self, command: str, *more: str, **options: Any) -> Ran:
        """`ome local <command>`."""
        return self.run(["ome", "local", *shlex.split(command), *more], **options)

    @contextmanager
    def watch(self, command: str, *more: str) -> Iterator[Watch]:
        """`kubectl <command> --watch` beside the block; it must still run when the block ends."""
        self._watches += 1
        path = self.folder / f"watch-{self._watches}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                ["kubectl", *shlex.split(command), *more, "--watch"], cwd=self.folder, env=self.environment, stdout=log
            )
        self._processes.append(process)
        try:
            yield Watch(path)
            assert process.poll() is None, f"kubectl {command} --watch ended with {process.returncode}"
        finally:
            process.terminate()
            process.wait(10)
            self._processes.remove(process)

    def write(self, name: str, text: str) -> Path:
        """A file in the working folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def apply(self, *documents: Mapping[str, Any]) -> Ran:
        """`kubectl apply -f -` of some objects."""
        return self.kubectl("apply -f -", stdin=yaml.safe_dump_all(documents)).ok()

    def get(self, what: str, **options: Any) -> Any:
        """`kubectl get <what> -o json`, decoded."""
        return json.loads(self.kubectl(f"get {what} -o json", **options).ok().out)

    def make_namespace(self, name: str) -> None:
        """Create a namespace that takes pods: on a real control plane the account they run as comes a moment later."""
        self.kubectl(f"create namespace {name}").ok()
        self.takes_pods(name)

    def takes_pods(self, namespace: str) -> None:
        if self.real:
            command = f"get serviceaccount default -n {namespace}"
            self.until(lambda: self.kubectl(command).code == 0, what=f"the account of pods in {namespace}")

    # -- waiting -----------------------------------------------------------------------------------------------------

    # How long something that must happen may take says nothing of the product: on a loaded machine it is long.

    def eventually(self, look: Callable[[], Any], wanted: Any, *, timeout: float = 120.0) -> None:
        """Wait until `look()` equals `wanted`; fails with the last value."""
        deadline = time.monotonic() + timeout
        while True:
            found = look()
            if found == wanted:
                return
            assert time.monotonic() <= deadline, f"after {timeout:g} s still\n{found}\nnot\n{wanted}"
            time.sleep(POLL)

    def until(self, look: Callable[[], Any], *, timeout: float = 120.0, what: str = "") -> Any:
        """Wait until `look()` is truthy, and return it."""
        deadline = time.monotonic() + timeout
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < deadline, f"not true after {timeout:g} s: {what or look}"
            time.sleep(POLL)

    def stays(self, look: Callable[[], Any], wanted: Any, *, seconds: float) -> None:
        """`look()` equals `wanted` for that long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            assert found == wanted, f"no longer\n{wanted}\nbut\n{found}"
            time.sleep(POLL)

    # -- the nodes ---------------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> list[str]:
        """What an `ome local` command needs to work on this cluster and not on an embedded one."""
        return ["--kubeconfig", str(self.kubeconfig)] if self.real else []

    def node_process(self) -> int:
        """The process that plays the nodes; on the embedded cluster it is the cluster itself."""
        if self._nodes is not None:
            return self._nodes.pid
        return int(json.loads(self.local("status --output json").ok().out)["pid"])

    def start_nodes(self, nodes: int, gpus: int = 8) -> None:
        """Play the nodes of a real control plane."""
        command = ["ome", "local", "nodes", *self.elsewhere, "--nodes", str(nodes), "--gpus-per-node", str(gpus)]
        with (self.folder.parent / "nodes.log").open("ab") as log:
            self._nodes = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(self._nodes)

    # -- the operator ------------------------------------------------------------------------------------------------

    def configure(self, key: str, value: Any) -> None:
        """Change one entry of the operator's configuration."""
        body = json.dumps({"data": {key: json.dumps(value)}})
        self.kubectl("patch configmap inferenceservice-config -n ome --type=merge -p", body).ok()

    def start_manager(self, *flags: str) -> None:
        config = ClusterConfig.load(str(self.kubeconfig))
        with SyncClient(config) as client:
            managing.start(self.data, client, config.server, config.ca_data.decode(), [*FAST_FLAGS, *flags])

    def stop_manager(self) -> None:
        managing.stop(self.data)

    def restart_manager(self, *flags: str) -> None:
        self.stop_manager()
        self.start_manager(*flags)

    def hold_lease(self) -> Callable[[], None]:
        """Take the operator's Lease and keep it; the returned function gives it up. Admission goes on meanwhile."""
        self.stop_manager()
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lease_holder", str(self.kubeconfig)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        self._processes.append(holder)
        self.start_manager()

        def give_up() -> None:
            holder.terminate()
            holder.wait(10)

        return give_up

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything that this cluster started."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.stop_manager()
        if self.real:
            self.run([sys.executable, str(CONTROL_PLANE), "down"]).ok()
        else:
            self.local("down").ok()


def open_cluster(folder: Path, *, nodes: int, real: bool, gpus: int = 8, flags: Sequence[str] = ()) -> ScenarioCluster:
    """Start a cluster with OME in it. `folder` is empty and only for this cluster."""
    work = folder / "work"
    work.mkdir(parents=True)
    data = DataDir(folder / "data")
    environment = {
        **os.environ,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "OME_LOCAL_DATA_DIR": str(data.root),
        "OME_KUBE_RUN_DIR": str(folder / "kube"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "OME_SCENARIO": "1",
    }
    environment.pop("OME_TEST_KUBECONFIG", None)
    kubeconfig = folder / "kube" / "kubeconfig" if real else data.kubeconfig
    environment["KUBECONFIG"] = str(kubeconfig)
    cluster = ScenarioCluster(kubeconfig, data, work, real, environment)
    try:
        _start(cluster, folder, nodes, gpus, flags)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _start(cluster: ScenarioCluster, folder: Path, nodes: int, gpus: int, flags: Sequence[str]) -> None:
    if not cluster.real:
        up = f"up --port 0 --nodes {nodes} --gpus-per-node {gpus} --"
        cluster.local(up, *FAST_FLAGS, *flags).ok()
        return
    cluster.run([sys.executable, str(CONTROL_PLANE), "up", "--nodes", "none"], timeout=300).ok()
    cluster.start_nodes(nodes, gpus)
    manifests = cluster.run(
        [sys.executable, "-m", "ome.install", "print", "--config", "chart", "--webhook-url", "https://127.0.0.1:1"]
    ).ok()
    # Read by the C library and handed on as JSON: in Python the definitions take a quarter of a minute.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = [d for d in yaml.load_all(manifests.out, loader) if "Webhook" not in d["kind"]]
    definitions = [d for d in documents if d["kind"] in ("Namespace", "CustomResourceDefinition")]
    for batch in (definitions, [d for d in documents if d not in definitions]):
        listed = {"apiVersion": "v1", "kind": "List", "items": batch}
        cluster.kubectl("apply --server-side -f -", stdin=json.dumps(listed)).ok()
    established = "wait --for=condition=Established crd --all --timeout=60s"
    # kubectl gives up at once on a definition that has no conditions yet.
    cluster.until(lambda: cluster.kubectl(established).code == 0, what="the definitions to be served")
    cluster.takes_pods("default")
    cluster.start_manager(*flags)


def like(pattern: str, text: str) -> None:
    """Assert that a text is exact but for `<...>` parts of the pattern, each standing for something without a blank."""
    expression = "".join(
        r"\S+" if part.startswith("<") and part.endswith(">") and part != "<none>" else re.escape(part)
        for part in re.split(r"(<[^<>\n]+>)", pattern)
    )
    assert re.fullmatch(expression, text), f"expected:\n{pattern}\nfound:\n{text}"
