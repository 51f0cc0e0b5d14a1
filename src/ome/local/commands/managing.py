"""The manager as a child process outside the cluster: its files, its start, its end.

It is the program that runs in a container, `ome manager`, with the token of its ServiceAccount, ports that were
free, and the flags it is given. It belongs to whoever started it; that it lives is known by a lock that the process
holds, so a killed one is seen as such at once. The cluster process renews its token.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ome.kube import requests
from ome.kube.clock import SystemClock
from ome.kube.resources import SERVICE_ACCOUNTS
from ome.kube.sync import SyncClient
from ome.local.commands.data import DataDir, is_locked, read_json, take_lock, write_private
from ome.local.commands.installing import FIELD_MANAGER, OME_NAMESPACE, resource_of, webhook_bodies
from ome.local.commands.refusals import Refusal

ACCOUNT: Final = "ome-controller-manager"
TOKEN_SECONDS: Final = 3600
RENEW_AFTER: Final = 1800.0
LOOK_EVERY: Final = 30.0
READY_WITHIN: Final = 90.0  # a start takes two seconds, and many times that on a machine that is busy
STOP_WITHIN: Final = 20.0


@dataclass(frozen=True, slots=True)
class ManagerFiles:
    """Where the manager's things lie in the data directory."""

    folder: Path

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"


@dataclass(frozen=True, slots=True)
class Ports:
    """The loopback ports of a manager."""

    webhook: int
    health: int
    metrics: int


def files_of(data: DataDir) -> ManagerFiles:
    return ManagerFiles(data.manager)


def is_running(data: DataDir) -> bool:
    """Whether a manager that was started here lives."""
    return is_locked(files_of(data).lock)


def facts(data: DataDir) -> dict[str, Any]:
    """What is known of the manager: `running`, and while it runs `pid`, `ports`, `arguments`."""
    if not is_running(data):
        return {"running": False}
    return {"running": True, **read_json(files_of(data).state)}


def request_token(client: SyncClient) -> str:
    """A fresh token of the manager's ServiceAccount."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    request = requests.create(SERVICE_ACCOUNTS, body, OME_NAMESPACE, name=ACCOUNT, subresource="token")
    return str(client.json(request)["status"]["token"])


def renew_token(data: DataDir, client: SyncClient) -> None:
    """Write a fresh token where the manager reads it."""
    write_private(files_of(data).token, request_token(client))


def token_is_old(data: DataDir) -> bool:
    """Whether the manager's token has lived half of its life."""
    try:
        written = files_of(data).token.stat().st_mtime
    except OSError:
        return True
    return SystemClock().now().timestamp() - written > RENEW_AFTER


def write_kubeconfig(data: DataDir, server: str, bundle: str) -> None:
    """A kubeconfig whose user is the ServiceAccount, by its token file."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(bundle.encode()).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "ome-local", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"tokenFile": str(files_of(data).token)}}],
        "contexts": [{"name": "ome-local", "context": {"cluster": "ome-local", "user": ACCOUNT}}],
        "current-context": "ome-local",
    }
    write_private(files_of(data).kubeconfig, json.dumps(config, indent=2))


def choose_ports(data: DataDir) -> Ports:
    """The ports of the last time where they are still free, others where not."""
    known = read_json(files_of(data).state).get("ports") or {}
    return Ports(*(_free_port(int(known.get(name, 0))) for name in ("webhook", "health", "metrics")))


def _free_port(wanted: int) -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def arguments_for(data: DataDir, ports: Ports, more: Sequence[str]) -> list[str]:
    """The manager's command line; the user's flags come last and win."""
    return [
        f"--kubeconfig={files_of(data).kubeconfig}",
        "--webhook",
        "--webhook-host=127.0.0.1",
        f"--webhook-port={ports.webhook}",
        f"--webhook-cert-dir={data.manager / 'serving-certs'}",
        f"--health-probe-addr=127.0.0.1:{ports.health}",
        f"--metrics-bind-address=127.0.0.1:{ports.metrics}",
        "--leader-elect",
        f"--leader-election-namespace={OME_NAMESPACE}",
        # as the chart sets them
        "--inferenceservice-max-concurrent-reconciles=4",
        "--inferencereplica-max-concurrent-reconciles=4",
        *more,
    ]


def check_flags(more: Sequence[str]) -> None:
    """Raise Refusal for flags that the manager would not start with, before anything is started or stopped for them.

    `--help` is answered and ends the process.
    """
    if not more:
        return
    from ome.manager.flags import FlagError, HelpRequested, StartupProblem, parse_flags, usage, validate

    try:
        validate(parse_flags(["--leader-elect", *more]))
    except HelpRequested:
        print(usage())
        raise SystemExit(0) from None
    except (FlagError, StartupProblem) as problem:
        raise Refusal(f"the operator does not start with these flags: {problem}") from None


def start(data: DataDir, client: SyncClient, server: str, bundle: str, more: Sequence[str] = ()) -> dict[str, Any]:
    """Start the manager and wait until it is ready. Raises Refusal when it runs already or ends at once."""
    data.prepare()
    files = files_of(data)
    descriptor = take_lock(files.lock)
    if descriptor is None:
        pid = read_json(files.state).get("pid")
        raise Refusal(f"the manager is already running (process {pid}); `ome local manager restart` starts it anew")
    try:
        ports = choose_ports(data)
        chosen = {"webhook": ports.webhook, "health": ports.health, "metrics": ports.metrics}
        # The number of one that was killed may be another program's by now.
        write_private(files.state, json.dumps({"ports": chosen}, indent=2))
        renew_token(data, client)
        write_kubeconfig(data, server, bundle)
        for body in webhook_bodies(ports.webhook):
            client.apply(resource_of(body), body, field_manager=FIELD_MANAGER)
        arguments = arguments_for(data, ports, more)
        began = data.manager_log.stat().st_size if data.manager_log.exists() else 0
        process = _spawn(data, arguments, descriptor)
    finally:
        os.close(descriptor)
    state = {
        "pid": process.pid,
        "ports": chosen,
        "arguments": list(more),
        "metrics": f"http://127.0.0.1:{ports.metrics}/metrics",
        "health": f"http://127.0.0.1:{ports.health}/readyz",
    }
    write_private(files.state, json.dumps(state, indent=2))
    _wait_ready(data, process, ports, began)
    return state


def _spawn(data: DataDir, arguments: Sequence[str], lock: int) -> subprocess.Popen[bytes]:
    """The process; it inherits the lock and holds it as long as it lives."""
    log = data.manager_log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "ome", "manager", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            start_new_session=True,
        )


def _wait_ready(data: DataDir, process: subprocess.Popen[bytes], ports: Ports, began: int) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        code = process.poll()
        if code is not None:
            raise Refusal(f"the manager ended with exit code {code}: {_reason(data.manager_log, began, code)}")
        if _answers_ready(ports.health):
            return
        time.sleep(0.05)
    raise Refusal(f"the manager is not ready after {READY_WITHIN:g} s: {_reason(data.manager_log, began, 0)}")


def _answers_ready(port: int) -> bool:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def stop(data: DataDir, *, within: float = STOP_WITHIN) -> bool:
    """End the manager: SIGTERM, and SIGKILL when it does not end in time. Returns whether one was running."""
    files = files_of(data)
    if not is_locked(files.lock):
        return False
    pid = int(read_json(files.state).get("pid") or 0)
    if pid <= 0:
        raise Refusal(f"a manager is running, but {files.state} does not say which process it is")
    for number, seconds in ((signal.SIGTERM, within), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _reap(pid)
            if not is_locked(files.lock):
                return True
            time.sleep(0.05)
    raise Refusal(f"the manager (process {pid}) does not end")


def _reap(pid: int) -> None:
    """Collect the exit code when the manager is our own child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _reason(path: Path, began: int, code: int) -> str:
    """What the manager's log says of its end: wrong flags come first, before the usage; failures come last."""
    try:
        with path.open("rb") as file:
            file.seek(began)
            text = file.read().decode("utf-8", "replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return f"it left nothing in {path}"
    return _plain(lines[0] if code == 2 else lines[-1])


def _plain(line: str) -> str:
    """A log line as a sentence."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict):
        return line
    return ": ".join(str(entry[name]) for name in ("msg", "error") if entry.get(name)) or line
