"""kubectl logs, exec, attach, cp and port-forward of process pods, and what the kubelet keeps of them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.scenario import ScenarioCluster

NS = "streams"
TALKER = "echo begun; echo aside >&2; n=0; while :; do n=$((n+1)); echo line $n; sleep 0.3; done"
SHELL = "while read line; do echo heard $line; if [ $line = end ]; then exit 4; fi; done"


@pytest.fixture(scope="module")
def cluster(opener: Callable[..., ScenarioCluster]) -> ScenarioCluster:
    found = opener(nodes=2)
    found.make_namespace(NS)
    found.kubectl(f"config set-context --current --namespace={NS}").ok()
    found.apply(
        pod("talker", TALKER),
        pod("web", "echo up; exec python3 -m http.server 8080 --bind 0.0.0.0 --directory /etc", ready=8080),
        pod("sim", "", image="registry.example/web:1"),
    )
    found.kubectl("wait --for=condition=Ready pod/talker pod/web pod/sim --timeout=120s").ok()
    return found


def pod(name: str, script: str, *, image: str = "local/sh:1", ready: int = 0, **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": image}
    if script:
        container["command"] = ["sh", "-c", script]
    if ready:
        container["readinessProbe"] = {"tcpSocket": {"port": ready}, "periodSeconds": 1}
    container.update({key: more.pop(key) for key in [*more] if key in CONTAINER_FIELDS})
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


CONTAINER_FIELDS = ("stdin", "stdinOnce", "tty", "terminationMessagePath", "terminationMessagePolicy")


def status_of(c: ScenarioCluster, name: str) -> dict[str, Any]:
    found = c.get(f"pod {name}")["status"].get("containerStatuses") or [{}]
    return dict(found[0])


def ended(c: ScenarioCluster, name: str) -> dict[str, Any]:
    """The terminated state of a pod's container, once it is there."""

    def found() -> Any:
        return status_of(c, name).get("state", {}).get("terminated")

    return dict(c.until(found, what=f"the end of {name}"))


class Background:
    """kubectl in the background, and what it has said."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._read = 0

    def line(self, wanted: str, seconds: float = 60.0) -> str:
        """The next whole line that has this in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines = self._output.read_text().splitlines(keepends=True)
            for number in range(self._read, len(lines)):
                if wanted in lines[number] and lines[number].endswith("\n"):
                    self._read = number + 1
                    return lines[number]
            time.sleep(0.05)
        raise AssertionError(f"{wanted!r} did not come: {self._output.read_text()}")


@contextmanager
def running(c: ScenarioCluster, command: str) -> Iterator[Background]:
    """kubectl until the end of the block."""
    output = c.folder / f"kubectl-{time.monotonic_ns()}.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["kubectl", *command.split()], env=c.environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield Background(output)
    finally:
        process.kill()
        process.wait(10)


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_log_shows_both_outputs_in_the_order_they_came(cluster: ScenarioCluster) -> None:
    cluster.until(lambda: "line 1\n" in cluster.kubectl("logs talker").ok().out)
    first = cluster.kubectl("logs talker --limit-bytes=12").ok().out
    assert first == "begun\naside\n"


def test_a_log_is_followed_from_its_end(cluster: ScenarioCluster) -> None:
    with running(cluster, "logs -f talker --tail=1") as followed:
        number = int(followed.line("line ").split()[1])
        assert followed.line(f"line {number + 3}\n")


def test_a_followed_log_ends_with_its_container(cluster: ScenarioCluster) -> None:
    cluster.apply(pod("brief", "echo one; sleep 2; echo two; exit 0", restartPolicy="Never"))
    cluster.until(lambda: status_of(cluster, "brief").get("state", {}).keys() & {"running", "terminated"})
    assert cluster.kubectl("logs -f brief").ok().out == "one\ntwo\n"


def test_a_log_is_cut_by_time_and_shows_times(cluster: ScenarioCluster) -> None:
    cluster.until(lambda: "line 5\n" in cluster.kubectl("logs talker").ok().out)
    stamped = cluster.kubectl("logs talker --timestamps --tail=5").ok().out.splitlines()
    assert len(stamped) == 5
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line \d+$", line) for line in stamped)
    since = stamped[2].split()[0]
    later = cluster.kubectl(f"logs talker --timestamps --since-time={since}").ok().out.splitlines()
    assert since[:19] <= later[0][:19]  # the API knows whole seconds
    assert {*stamped[2:]} <= {*later}
    assert "begun" not in cluster.kubectl("logs talker --since=1s").ok().out


def test_the_log_before_a_crash_is_kept_and_absent_ones_are_explained(cluster: ScenarioCluster) -> None:
    c = cluster
    missing = c.kubectl("logs talker --previous")
    assert (missing.code, missing.out) == (1, "")
    assert 'previous terminated container "c" in pod "talker" not found' in missing.err
    c.local("image deny local/absent:1", *c.elsewhere).ok()
    c.apply(pod("absent", "true", image="local/absent:1"))
    c.until(lambda: "waiting" in status_of(c, "absent").get("state", {}))
    assert 'container "c" in pod "absent" is waiting to start: ' in c.kubectl("logs absent").err
    c.apply(pod("crash", "echo about to fail; exit 3"))
    c.until(lambda: status_of(c, "crash").get("restartCount", 0) >= 1)
    assert c.kubectl("logs crash --previous").ok().out == "about to fail\n"
    c.kubectl("delete pod crash absent --grace-period=0 --force").ok()


# -- exec and cp -------------------------------------------------------------------------------------------------------


def test_a_command_has_its_own_outputs_input_and_exit_code(cluster: ScenarioCluster) -> None:
    done = cluster.kubectl("exec -i talker -- sh -c", "cat; echo aside >&2; exit 7", stdin="typed\n")
    assert (done.code, done.out) == (7, "typed\n")
    assert done.err == "aside\ncommand terminated with exit code 7\n"


def test_a_command_in_a_terminal_is_interactive(cluster: ScenarioCluster) -> None:
    said, code = in_terminal(
        cluster, "exec -it talker -- sh", ["stty size\n", "test -t 0 && echo ter''minal\n", "exit 5\n"]
    )
    assert "30 100" in said
    assert "terminal\r\n" in said
    assert code == 5


def in_terminal(c: ScenarioCluster, command: str, typed: list[str]) -> tuple[str, int]:
    """kubectl at a terminal of 30 lines and 100 columns: what the screen showed, and its exit code."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        ["kubectl", *command.split()],
        env=c.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = b""
    waiting, deadline = [*typed], time.monotonic() + 120
    quiet_since = time.monotonic()
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    data = os.read(ours, 65536)
                except OSError:
                    break
                screen += data
                quiet_since = time.monotonic()
            elif waiting and screen and time.monotonic() - quiet_since > 0.5:
                os.write(ours, waiting.pop(0).encode())
                quiet_since = time.monotonic()
        return screen.decode("utf-8", "replace"), process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_folders_are_copied_in_and_out(cluster: ScenarioCluster, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "deep").mkdir(parents=True)
    blob = os.urandom(3 * 2**20)
    (source / "deep" / "blob").write_bytes(blob)
    (source / "text").write_text("text\n")
    place = f"/tmp/ome-streams-{os.getpid()}"
    try:
        cluster.kubectl(f"cp {source} talker:{place}").ok()
        cluster.kubectl(f"cp talker:{place} {back}").ok()
    finally:
        cluster.kubectl(f"exec talker -- rm -rf {place}").ok()
    assert (back / "deep" / "blob").read_bytes() == blob
    assert (back / "text").read_text() == "text\n"


# -- attach ------------------------------------------------------------------------------------------------------------


def test_who_attaches_sees_what_is_said_from_then_on(cluster: ScenarioCluster) -> None:
    with running(cluster, "attach talker") as attached:
        found = attached.line("line ")
        assert int(found.split()[1]) > 1


def test_who_attaches_to_an_open_input_can_type(cluster: ScenarioCluster) -> None:
    c = cluster
    c.apply(pod("listener", SHELL, stdin=True, restartPolicy="Never"))
    c.until(lambda: status_of(c, "listener").get("state", {}).get("running"))
    done = c.kubectl("attach -i listener", stdin="hello\nend\n")
    assert "heard hello\nheard end\n" in done.out
    assert ended(c, "listener")["exitCode"] == 4
    assert c.kubectl("logs listener").ok().out == "heard hello\nheard end\n"


def test_a_container_with_a_terminal_is_attached_to_as_one(cluster: ScenarioCluster) -> None:
    c = cluster
    c.apply(pod("console", f"test -t 0 && {SHELL}", stdin=True, tty=True, restartPolicy="Never"))
    c.until(lambda: status_of(c, "console").get("state", {}).get("running"))
    screen, _ = in_terminal(c, "attach -it console", ["hello\r", "end\r"])
    assert "heard hello\r\n" in screen


# -- port-forward ------------------------------------------------------------------------------------------------------


def test_a_forwarded_port_answers_many_requests_and_says_what_is_refused(cluster: ScenarioCluster) -> None:
    with running(cluster, "port-forward pod/web :8080 :81") as forwarding:
        port = forwarding.line("-> 8080").split(":")[1].split()[0]
        for _ in range(20):
            with urlopen(f"http://127.0.0.1:{port}/hosts", timeout=60) as answer:
                assert answer.status == 200
        line = forwarding.line("-> 81\n")
        with (
            pytest.raises(OSError),
            urlopen(f"http://127.0.0.1:{line.split(':')[1].split()[0]}/", timeout=10),
        ):
            pass
        assert "failed to connect to port 81 in the pod: Connection refused" in forwarding.line("error occurred")


# -- what simulated pods and dead nodes answer -------------------------------------------------------------------------


def test_a_simulated_pod_has_an_empty_log_and_nothing_to_enter(cluster: ScenarioCluster) -> None:
    c = cluster
    assert c.kubectl("logs sim").ok().out == ""
    assert c.kubectl("logs -f sim").ok().out == ""
    why = "container c is simulated (image registry.example/web:1): there is no process to run in"
    for command in ("exec sim -- true", "attach sim"):
        refused = c.kubectl(command)
        assert refused.code == 1
        assert refused.err.endswith(f"error: unable to upgrade connection: {why}\n"), refused.err
    refused = c.kubectl("port-forward pod/sim :80")
    assert refused.code == 1
    assert "the pod is simulated: nothing listens on its ports" in refused.err


# -- the last message --------------------------------------------------------------------------------------------------


def test_the_last_message_is_read_from_its_file_or_the_log(cluster: ScenarioCluster) -> None:
    c = cluster
    fallback: dict[str, Any] = {"terminationMessagePolicy": "FallbackToLogsOnError", "restartPolicy": "Never"}
    c.apply(
        pod("written", "printf 'out of paper' > /dev/termination-log; exit 2", restartPolicy="Never"),
        pod("placed", "echo done > /ome-last/words", terminationMessagePath="/ome-last/words", restartPolicy="Never"),
        pod("logged", "echo first; echo why; exit 2", **fallback),
        pod("silent", "echo only logged; exit 2", restartPolicy="Never"),
    )
    messages = {"written": "out of paper", "placed": "done\n", "logged": "first\nwhy\n", "silent": ""}
    for name, message in messages.items():
        assert ended(c, name).get("message", "") == message, name


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_nobody_but_the_api_server_enters_a_pod_by_the_nodes_port(cluster: ScenarioCluster) -> None:
    if not cluster.real:
        pytest.skip("the embedded API server asks in its own process: no port is open")
    node = cluster.get("nodes")["items"][0]["status"]
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    authority = cluster.kubeconfig.parent / "ca.crt"
    context = ssl.create_default_context(cafile=str(authority))
    with pytest.raises(OSError, match=r"certificate required|CERTIFICATE_REQUIRED|alert|reset|closed"):
        urlopen(f"https://localhost:{port}/containerLogs/{NS}/talker/c", context=context, timeout=10).read()


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_killed_stand_in_leaves_nothing_running_and_the_next_goes_on(opener: Callable[..., ScenarioCluster]) -> None:
    c = opener(nodes=1)
    marker = f"ome-left-behind-{os.getpid()}"
    script = f"echo run; exec python3 -c 'import time; time.sleep(600) # {marker}'"
    c.apply(pod("sleeper", script, stdin=True), pod("leaves", script))
    c.kubectl("wait --for=condition=Ready pod/sleeper pod/leaves --timeout=120s").ok()
    command = ["sh", "-c", f": {marker}; sleep 600"]
    entered = subprocess.Popen(["kubectl", "exec", "sleeper", "--", *command], env=c.environment)
    attached = subprocess.Popen(["kubectl", "attach", "-i", "sleeper"], env=c.environment, stdin=subprocess.PIPE)
    try:
        c.until(lambda: len(processes(marker)) >= 3, what="two pods and a command")
        os.kill(c.node_process(), signal.SIGKILL)
        c.until(lambda: not processes(marker, without="kubectl"), what="everything of the pods to end")
        assert entered.wait(60) != 0
        attached.wait(60)
    finally:
        for process in (entered, attached):
            process.kill()
            process.wait()
    if not c.real:
        return
    c.kubectl("delete pod leaves --grace-period=0 --force").ok()
    c.start_nodes(1)
    c.until(lambda: status_of(c, "sleeper").get("restartCount", 0) == 1, what="the pod to run again")
    c.until(lambda: c.kubectl("logs sleeper").out == "run\n", what="its new log")
    assert c.kubectl("logs sleeper --previous").ok().out == "run\n"
    uid = c.get("pod sleeper")["metadata"]["uid"]
    pods = c.data.stand_in / "pods"
    c.eventually(lambda: [path.name for path in pods.iterdir()], [uid])
    assert json.loads(c.kubectl("get csr -o json").ok().out)["items"] == []


def processes(marker: str, without: str = "pytest") -> list[str]:
    """Command lines that hold the marker, kubectl's own apart."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if marker in text and without not in text and not text.startswith("kubectl"):
            found.append(text)
    return found
