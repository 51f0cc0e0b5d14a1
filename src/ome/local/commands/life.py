"""`ome local up`, `status`, `down`, `reset`, `logs`."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import click

from ome.local.commands.data import DataDir, already_running, read_json
from ome.local.commands.options import data_option, output_option, print_json
from ome.local.commands.refusals import Refusal

DEFAULT_PORT: Final = 7443
START_WITHIN: Final = 90.0
STOP_WITHIN: Final = 30.0
_REPORT: Final = "OME_LOCAL_REPORT_FD"


@click.command()
@data_option
@click.option("--nodes", type=click.IntRange(0, 1000), default=1, show_default=True, help="Nodes to have.")
@click.option(
    "--gpus-per-node", "gpus", type=click.IntRange(0, 1024), default=8, show_default=True, help="GPUs of each new node."
)
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: a free one.")
@click.option("--no-manager", is_flag=True, help="Start no operator.")
@click.option(
    "--node-grace-period",
    "grace",
    type=click.FloatRange(1.0, 3600.0),
    default=40.0,
    show_default=True,
    help="Seconds until a silent node counts as failed.",
)
@click.option("--detach/--foreground", default=True, help="Return once it serves [default], or stay until Ctrl-C.")
@output_option
@click.argument("manager_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- FLAGS]")
def up(
    data: DataDir,
    nodes: int,
    gpus: int,
    port: int,
    no_manager: bool,
    grace: float,
    detach: bool,
    output: str,
    manager_arguments: tuple[str, ...],
) -> None:
    """Start the cluster: API server, controllers, nodes, and OME in it.

    Flags after -- go to the operator: ome local up -- --zap-log-level=debug
    """
    if data.is_held():
        raise Refusal(already_running(data))
    if manager_arguments:
        from ome.local.commands import managing

        managing.check_flags(manager_arguments)
    data.prepare()
    if detach:
        facts = _start_detached(data)
        _print_facts(facts, output)
        return
    gc.disable()  # what is imported stays; the server collects once it serves
    from ome.local.commands import serve

    wanted = serve.Wanted(data, port, nodes, gpus, not no_manager, manager_arguments, grace)
    _set_up_logging()
    serve.run(wanted, lambda facts: _report(facts, output))


def _set_up_logging() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _report(facts: dict[str, Any], output: str) -> None:
    """Tell whoever started us that we serve."""
    descriptor = os.environ.pop(_REPORT, "")
    if descriptor:
        with os.fdopen(int(descriptor), "w") as pipe:
            json.dump(facts, pipe)
        return
    _print_facts(facts, output)
    if output == "text":
        click.echo("Press Ctrl-C to stop.")


def _start_detached(data: DataDir) -> dict[str, Any]:
    """Start ourselves again in the background, with the same arguments, and wait for the facts."""
    reading, writing = os.pipe()
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    position = arguments.index("up") + 1
    arguments.insert(position, "--foreground")
    environment = {**os.environ, _REPORT: str(writing)}
    environment["OME_LOCAL_DATA_DIR"] = str(data.root)
    with data.log.open("ab") as log:
        started = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ome", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
            start_new_session=True,
            env=environment,
        )
    os.close(writing)
    try:
        facts = _await_report(process, reading)
    except KeyboardInterrupt:  # it would not notice: it has a session of its own
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WITHIN)
        raise
    if facts is not None:
        return facts
    raise Refusal(_why_it_ended(data, started, process))


def _await_report(process: subprocess.Popen[bytes], reading: int) -> dict[str, Any] | None:
    deadline = time.monotonic() + START_WITHIN
    received = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while (left := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([pipe], [], [], min(left, 0.5))
            if not readable:
                continue
            part = pipe.read(65536)
            if not part:
                break
            received += part
    if received:
        found: dict[str, Any] = json.loads(received)
        return found
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
    if process.poll() is None:
        process.terminate()
    return None


def _why_it_ended(data: DataDir, started: int, process: subprocess.Popen[bytes]) -> str:
    with data.log.open("rb") as log:
        log.seek(started)
        lines = log.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        if line.startswith("Error: "):
            return line.removeprefix("Error: ")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"the cluster did not start (exit code {process.returncode}): {last}; its log is {data.log}"


def _print_facts(facts: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(facts)
        return
    click.echo(f"The cluster serves on {facts['server']}, with {facts['nodes']} node(s).")
    click.echo(f"export KUBECONFIG={shlex.quote(facts['kubeconfig'])}")


@click.command()
@data_option
@output_option
def status(data: DataDir, output: str) -> None:
    """Say whether the cluster and its operator run. Exit code 1 when the cluster does not."""
    from ome.local.commands import managing

    running = data.is_held()
    facts: dict[str, Any] = {"running": running, "dataDir": str(data.root)}
    if running:
        facts.update(data.read_state())
        facts["ready"] = "server" in facts and _answers(data)
        facts["manager"] = managing.facts(data)
    if output == "json":
        print_json(facts)
    else:
        _print_status(facts)
    if not running:
        sys.exit(1)


def _answers(data: DataDir) -> bool:
    from ome.kube.config import ClusterConfig
    from ome.kube.errors import KubeError
    from ome.kube.requests import Request
    from ome.kube.sync import SyncClient

    try:
        with SyncClient(ClusterConfig.load(str(data.kubeconfig)), timeout=5.0) as client:
            return client.request(Request("GET", "/readyz")).status == 200
    except KubeError:
        return False


def _print_status(facts: dict[str, Any]) -> None:
    if not facts["running"]:
        click.echo(f"No cluster is running in {facts['dataDir']}.")
        return
    if "server" in facts:
        state = "ready" if facts["ready"] else "not ready"
        click.echo(f"cluster   {state}   {facts['server']}   process {facts.get('pid', '?')}")
    else:
        click.echo("cluster   starting")
    manager = facts["manager"]
    click.echo(f"manager   running   process {manager.get('pid', '?')}" if manager["running"] else "manager   stopped")
    click.echo(f"data      {facts['dataDir']}")


@click.command()
@data_option
def down(data: DataDir) -> None:
    """Stop the cluster and the operator. The data stays."""
    if not stop_cluster(data):
        click.echo(f"No cluster is running in {data.root}.")
        return
    click.echo("Stopped.")


def stop_cluster(data: DataDir) -> bool:
    """End the cluster process and the manager. Returns whether anything was running."""
    from ome.local.commands import managing

    was_running = data.is_held()
    if was_running:
        _end(data)
    return managing.stop(data) or was_running


def _end(data: DataDir) -> None:
    pid = _pid_of(data)
    for number, seconds in ((signal.SIGTERM, STOP_WITHIN), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not data.is_held():
                return
            time.sleep(0.05)
    raise Refusal(f"the cluster process {pid} does not end")


def _pid_of(data: DataDir) -> int:
    """The process; one that is still starting has not said its number yet."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        pid = int(read_json(data.state).get("pid") or 0)
        if pid > 0:
            return pid
        if not data.is_held():
            raise Refusal("the cluster ended by itself")
        time.sleep(0.1)
    raise Refusal(f"a cluster is starting in {data.root} and cannot be stopped yet; try again")


@click.command()
@data_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(data: DataDir, yes: bool) -> None:
    """Stop the cluster and delete all of its data: objects, certificates, volumes, logs."""
    if not data.root.exists():
        click.echo(f"Nothing to delete: {data.root} does not exist.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise Refusal("reset deletes all data of the cluster; confirm with --yes")
        click.confirm(f"Delete all data of the cluster in {data.root}?", abort=True)
    stop_cluster(data)
    for path in _ours(data):
        _delete(path)
    with contextlib.suppress(OSError):
        data.root.rmdir()  # only when nothing foreign is in it
    click.echo("Deleted.")


def _ours(data: DataDir) -> list[Path]:
    """What a cluster makes in its data directory; anything else there is not ours to delete."""
    folders = (data.certificates, data.log.parent, data.volumes, data.pods, data.manager)
    # What the process pods leave: sockets, the nodes' files, weights, and the ports of `ome local url`.
    processes = [*(data.root / name for name in ("run", "nodes", "weights")), data.stand_in, data.urls]
    database = [data.database.with_name(data.database.name + suffix) for suffix in ("", "-wal", "-shm")]
    return [*folders, *processes, *database, data.kubeconfig, data.state, data.lock]


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(f"cannot delete {path}: {error.strerror or error}") from error


@click.command()
@data_option
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("--tail", type=click.IntRange(0), help="Only the last lines.")
def logs(data: DataDir, follow: bool, tail: int | None) -> None:
    """Print the log of the cluster process (of a detached one; in the foreground it goes to the terminal)."""
    print_log(data.log, follow=follow, tail=tail)


def print_log(path: Path, *, follow: bool, tail: int | None) -> None:
    """Print a log file, and what is added to it until Ctrl-C when following."""
    try:
        file = path.open("r", encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise Refusal(f"there is no log yet: {path}") from None
    with file:
        lines = file.readlines()
        for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
            click.echo(line, nl=False)
        while follow:
            try:
                line = file.readline()
                if line:
                    click.echo(line, nl=False)
                else:
                    time.sleep(0.2)
            except KeyboardInterrupt:
                return
