"""The tool as a process: what it imports, its help, its flags, its endings."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ome.kube.resources import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from tests.support.cli_objects import HELD, block, replica, runtime, runtime_spec, service
from tests.support.cli_server import Answer, StubCluster, Tool, write_kubeconfig

PROGRAM = [sys.executable, "-c", "from ome.cli.main import main; main()"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, env=os.environ | environment, check=False
    )


# Every leaf, so that no command can bring the asynchronous half in by a lazy import.
LEAVES = (
    "autoscale", "get", "instance", "instance_status", "release_held", "logs", "migration", "migration_start",
    "rollout", "runtime", "runtime_explain", "runtime_sync", "runtime_tree", "scale", "status", "version", "wait",
)  # fmt: skip
IMPORTS = """
import sys
from importlib import import_module
for name in {leaves!r}:
    import_module("ome.cli.commands." + name)
for name in {modules!r}:
    import_module(name)
print([name for name in sys.modules if name.split(".")[0] in ("asyncio", "aiohttp")])
"""


def test_no_command_imports_the_asynchronous_half() -> None:
    package = Path(__file__).parents[3] / "src" / "ome" / "cli"
    modules = [
        ".".join(("ome", "cli", *path.relative_to(package).with_suffix("").parts))
        for path in sorted(package.rglob("*.py"))
        if path.name != "__init__.py"
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(leaves=LEAVES, modules=modules)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_read_imports_no_more_than_it_needs(cluster: StubCluster, tmp_path: Path) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    kubeconfig = write_kubeconfig(tmp_path, cluster)
    code = (
        "import sys; from ome.cli.tree import run; "
        f"run(['get', 'isvc', '--kubeconfig', {str(kubeconfig)!r}]); "
        "print([m for m in ('msgspec', 'orjson', 'ome.rendering', 'ome.runtimes', 'ome.api.types', 'subprocess') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


GLOBAL_FLAGS = (
    "--namespace", "--kubeconfig", "--context", "--cluster", "--user", "--server", "--token",
    "--certificate-authority", "--client-certificate", "--client-key", "--tls-server-name",
    "--insecure-skip-tls-verify", "--as", "--as-uid", "--as-group", "--as-user-extra", "--request-timeout",
    "--cache-dir", "--disable-compression", "--help",
)  # fmt: skip


@pytest.mark.spec("CR-1")
def test_help_of_a_group_names_its_commands_and_the_global_flags() -> None:
    done = run("runtime", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("explain", "effective", "tree", "history", "sync", *GLOBAL_FLAGS):
        assert word in done.stdout


@pytest.mark.spec("CR-1")
def test_every_global_flag_parses_and_reaches_the_request(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service(namespace="team"))
    address = f"http://127.0.0.1:{cluster.port}"
    ran = tool(
        "get", "isvc", "chat", "-n", "team", "--context=prod-cluster", "--cluster=c", "--user=u", "-s", address,
        "--token=other", "--tls-server-name=x", "--insecure-skip-tls-verify", "--as=ann", "--as-uid=7",
        "--as-group=a", "--as-group=b", "--as-user-extra=scope=read", "--request-timeout=10s", "--cache-dir=/nowhere",
        "--disable-compression",
    )  # fmt: skip
    assert ran.code == 0
    headers = cluster.calls[-1].headers
    assert headers["authorization"] == "Bearer other"
    assert (headers["impersonate-user"], headers["impersonate-uid"]) == ("ann", "7")
    assert headers["impersonate-extra-scope"] == "read"


@pytest.mark.spec("CR-1")
def test_the_namespace_comes_from_the_flag_then_the_context_then_default(
    cluster: StubCluster, tool: Tool, tmp_path: Path
) -> None:
    def asked(*flags: str) -> str:
        tool("get", "isvc", "chat", *flags)
        return cluster.calls[-1].path.split("/")[5]

    assert asked("-n", "flag") == "flag"
    assert asked() == "prod"
    document = json.loads(tool.kubeconfig.read_text())
    del document["contexts"][0]["context"]["namespace"]
    tool.kubeconfig.write_text(json.dumps(document))
    assert asked() == "default"


def test_global_flags_may_stand_before_the_command(cluster: StubCluster, tool: Tool) -> None:
    tool("-n", "early", "instance", "list", "chat")
    assert cluster.calls[-1].path.split("/")[5] == "early"


@pytest.mark.spec("CR-2", "CI-48")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("runtime", "effective", "chat", "--nope"), "unknown flag: --nope"),
        (("instance", "list"), "accepts 1 arg(s), received 0"),
        (("nope",), 'unknown command "nope" for "kubectl ome"'),
        (("instance", "nope"), 'unknown command "nope" for "kubectl ome instance"'),
        (("get", "isvc", "-o", "name"), 'unsupported output format "name" (supported: table, wide, json, yaml)'),
    ],
)
def test_errors_are_one_line_on_stderr(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments, KUBECONFIG="/nonexistent")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {message}\n")


def test_no_kubeconfig_is_said_plainly() -> None:
    done = run("get", "isvc", KUBECONFIG="/nonexistent/kubeconfig")
    assert done.returncode == 1
    assert done.stderr == "error: no kubeconfig found at /nonexistent/kubeconfig\n"


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_left_ends_the_tool_quietly(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    ran = tool("get", "isvc", stdout=ClosedPipe())
    assert (ran.code, ran.err) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wait", "chat", "--for=condition=Ready"), "Canceled"),
        (("status", "chat"), "status read was cancelled or timed out"),
        (("get", "isvc"), "context canceled"),
    ],
)
def test_ctrl_c_is_an_error_of_one_line(
    cluster: StubCluster, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    def slow(call: object) -> Answer | None:
        time.sleep(5)
        return None

    cluster.hooks.append(slow)
    kubeconfig = write_kubeconfig(tmp_path, cluster)
    process = subprocess.Popen(
        [*PROGRAM, *arguments, "--kubeconfig", str(kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not cluster.calls and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (1, "", f"error: {message}\n")


@pytest.mark.slow
@pytest.mark.spec("CI-41")
def test_the_prompt_ends_after_45_real_seconds(cluster: StubCluster, tmp_path: Path) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(blocks=[block(firstFailureAt=None, lastFailureAt=None)]))
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec()))
    kubeconfig = write_kubeconfig(tmp_path, cluster)
    master, slave = pty.openpty()
    started = time.monotonic()
    done = subprocess.run(
        [*PROGRAM, "instance", "release-held", "chat", "--component=engine", f"--revision={HELD}"],
        stdin=slave,
        capture_output=True,
        text=True,
        timeout=90,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        check=False,
    )
    os.close(master)
    os.close(slave)
    assert 44 < time.monotonic() - started < 60
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("Confirm this exact action? [y/N] \nerror: context deadline exceeded\n")
    assert cluster.sent("PATCH") == []
