"""Pods that are real processes: served, logged, entered, rolled without losing a request, gone with the cluster."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.scenario import ScenarioCluster

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "local"


@pytest.fixture(scope="module")
def cluster(opener: Callable[..., ScenarioCluster]) -> ScenarioCluster:
    found = opener(nodes=1)
    for name in ("engine/runtime.yaml", "engine/service.yaml"):
        found.kubectl("apply -f", str(EXAMPLES / name)).ok()
    found.kubectl("wait --for=condition=Ready inferenceservice/echo -n demo --timeout=120s").ok()
    return found


def url_of(cluster: ScenarioCluster, service: str) -> str:
    def found() -> str:
        return cluster.local(f"url {service}", *cluster.elsewhere).out.strip()

    return str(cluster.until(found, what=f"an address of {service}"))


def post(url: str, body: dict[str, Any], timeout: float = 60.0) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        raw = answer.read()
        assert answer.status == 200, raw
        found: dict[str, Any] = json.loads(raw)
        return found
    finally:
        connection.close()


QUESTION = {"messages": [{"role": "user", "content": "hello"}]}


class Client(threading.Thread):
    """Asks every 10 ms, and keeps what went wrong."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.asked = 0
        self.lost: list[str] = []
        self.pods: set[str] = set()
        self._stop_asking = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stop_asking.wait(0.01):
            self.asked += 1
            try:
                text = post(self.url, QUESTION)["choices"][0]["message"]["content"]
                self.pods.add(text.rpartition("in pod ")[2].rstrip("."))
            except (OSError, AssertionError, http.client.HTTPException) as error:
                self.lost.append(f"{time.strftime('%H:%M:%S')} {type(error).__name__}: {error}")

    def end(self) -> None:
        self._stop_asking.set()
        self.join(30)


def test_a_service_answers_through_its_address(cluster: ScenarioCluster) -> None:
    answer = post(url_of(cluster, "demo/echo"), QUESTION)
    assert answer["model"] == "echo"
    assert 'You said: "hello"' in answer["choices"][0]["message"]["content"]


def pod_of(cluster: ScenarioCluster, service: str = "echo") -> str:
    selector = f"-l ome.io/inferenceservice={service} --field-selector=status.phase=Running"
    names = cluster.kubectl(f"get pods -n demo {selector} -o name").ok().out.split()
    return names[0].removeprefix("pod/")


def test_logs_exec_and_copy(cluster: ScenarioCluster) -> None:
    c, pod = cluster, pod_of(cluster)
    assert "listening on 198.18." in c.kubectl(f"logs {pod} -n demo").ok().out
    stamped = c.kubectl(f"logs {pod} -n demo --timestamps --tail=1").ok().out
    assert stamped[:4].isdigit()
    assert c.kubectl(f"exec {pod} -n demo -- hostname").ok().out.strip() == pod[:63]
    assert c.kubectl(f"exec {pod} -n demo -- sh -c", "exit 7").code == 7
    assert c.kubectl(f"exec -i {pod} -n demo -- cat", stdin="through").ok().out == "through"
    assert "198.18." in c.kubectl(f"exec {pod} -n demo -- printenv POD_IP").ok().out
    c.write("file.txt", "copied")
    c.kubectl(f"cp file.txt demo/{pod}:/tmp/ome-copied.txt").ok()
    assert c.kubectl(f"exec {pod} -n demo -- cat /tmp/ome-copied.txt").ok().out == "copied"
    c.kubectl(f"exec {pod} -n demo -- rm /tmp/ome-copied.txt").ok()


def test_port_forward(cluster: ScenarioCluster) -> None:
    process = subprocess.Popen(
        ["kubectl", "port-forward", f"pod/{pod_of(cluster)}", "-n", "demo", ":8080"],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Forwarding from 127.0.0.1:"), line
        port = line.split(":")[1].split()[0]
        for _ in range(3):
            assert post(f"http://127.0.0.1:{port}", QUESTION)["model"] == "echo"
    finally:
        process.terminate()
        process.wait(10)


def test_two_pods_bind_the_same_port_and_see_the_cluster_by_name(cluster: ScenarioCluster) -> None:
    c = cluster
    command = "python3 -m http.server 8080 --bind 0.0.0.0 --directory /"
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "demo", "labels": {"app": "twins"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "local/python:1",
                        "command": command.split(),
                        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
                    }
                ],
                "terminationGracePeriodSeconds": 1,
            },
        }
        for name in ("twin-a", "twin-b")
    ]
    c.apply(
        *pods,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "twins", "namespace": "demo"},
            "spec": {"selector": {"app": "twins"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    c.kubectl("wait --for=condition=Ready pod/twin-a pod/twin-b -n demo --timeout=120s").ok()
    fetch = "import urllib.request as u; print(u.urlopen('http://twins.demo.svc.cluster.local/etc/hosts').status)"

    def fetched() -> str:
        return c.kubectl("exec twin-a -n demo -- python3 -c", fetch).out

    c.eventually(fetched, "200\n")
    version = (
        "import ssl, urllib.request as u; d='/var/run/secrets/kubernetes.io/serviceaccount/';"
        "h={'Authorization': 'Bearer '+open(d+'token').read()};"
        "r=u.Request('https://kubernetes.default.svc/version', headers=h);"
        "print(u.urlopen(r, context=ssl.create_default_context(cafile=d+'ca.crt')).status)"
    )
    assert c.kubectl("exec twin-a -n demo -- python3 -c", version).ok().out == "200\n"
    c.kubectl("delete pod twin-a twin-b -n demo").ok()


def test_a_crashing_process_is_restarted_with_backoff_and_its_old_log_is_kept(cluster: ScenarioCluster) -> None:
    c = cluster
    c.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "crash", "namespace": "demo"},
            "spec": {
                "containers": [
                    {"name": "c", "image": "local/sh:1", "command": ["sh", "-c", "echo about to fail; exit 3"]}
                ]
            },
        }
    )

    def status() -> dict[str, Any]:
        found = c.get("pod crash -n demo")["status"].get("containerStatuses") or [{}]
        return dict(found[0])

    c.until(lambda: status().get("restartCount", 0) >= 1)
    ended = status()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert c.kubectl("logs crash -n demo --previous").ok().out == "about to fail\n"
    c.until(lambda: status()["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    c.kubectl("delete pod crash -n demo --grace-period=0 --force").ok()


def test_a_rollout_loses_no_request_pinned_or_not(cluster: ScenarioCluster) -> None:
    c = cluster
    service = yaml.safe_load_all((EXAMPLES / "engine" / "service.yaml").read_text())
    pinned = next(document for document in service if document["kind"] == "InferenceService")
    pinned["metadata"]["name"] = "pinned"
    pinned["spec"]["runtime"]["autoSync"] = False
    c.apply(pinned)
    c.kubectl("wait --for=condition=Ready inferenceservice/pinned -n demo --timeout=120s").ok()
    clients = [Client(url_of(c, f"demo/{name}")) for name in ("echo", "pinned")]
    try:
        time.sleep(0.5)
        runtime = (EXAMPLES / "engine" / "runtime.yaml").read_text()
        c.kubectl("apply -f -", stdin=runtime.replace("--port=8080", "--port=8080, --ctx-size=4096")).ok()
        c.until(lambda: len(clients[0].pods) == 2, what="the follower to roll")
        c.kubectl("rollout status deployment/echo-engine -n demo --timeout=120s").ok()
        assert len(clients[1].pods) == 1
        c.kubectl("annotate inferenceservice pinned -n demo ome.io/runtime-sync=go").ok()
        c.until(lambda: len(clients[1].pods) == 2, what="the pinned one to roll")
        c.kubectl("rollout status deployment/pinned-engine -n demo --timeout=120s").ok()
        time.sleep(2)
    finally:
        for client in clients:
            client.end()
    assert [client.lost for client in clients] == [[], []]
    assert all(client.asked > 50 for client in clients)


@pytest.mark.spec("RB-34")
def test_a_held_revision_keeps_answering_until_the_image_is_there(cluster: ScenarioCluster) -> None:
    c = cluster
    c.configure(
        "lifecycle",
        {
            "stuckPodGracePeriod": "2s",
            "instanceReadyTimeout": "5m",
            "updateRetry": {"maxAttempts": 2, "initialDelay": "1s", "maxDelay": "1m", "multiplier": 1.0},
        },
    )
    body: dict[str, Any] = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "native", "namespace": "demo"},
        "spec": {
            "deploymentMode": "OMENative",
            "runtime": {"name": "local-engine"},
            "engine": {"minReplicas": 2, "maxReplicas": 2},
        },
    }
    c.apply(body)
    c.kubectl("wait --for=condition=Ready inferenceservice/native -n demo --timeout=120s").ok()
    client = Client(url_of(c, "demo/native"))
    try:
        c.local("image deny", "local/engine:missing", *c.elsewhere).ok()
        body["spec"]["engine"]["runner"] = {"name": "ome-container", "image": "local/engine:missing"}
        c.apply(body)
        path = "jsonpath={.status.retryBlocks[0].state}"
        c.eventually(
            lambda: c.kubectl("get inferencereplica native-engine -n demo -o", path).ok().out, "Held", timeout=60
        )
        before = len(client.pods)
        c.local("image allow", "local/engine:missing", *c.elsewhere).ok()
        revision = c.get("inferencereplica native-engine -n demo")["status"]["updateRevision"]
        c.kubectl(f"annotate inferencereplica native-engine -n demo ome.io/release-held-revision={revision}").ok()
        current = "jsonpath={.status.currentRevision}"
        c.eventually(
            lambda: c.kubectl("get inferencereplica native-engine -n demo -o", current).ok().out, revision, timeout=90
        )
        time.sleep(2)
        assert len(client.pods) > before
    finally:
        client.end()
    assert client.lost == []


def test_nothing_is_left_behind_when_the_cluster_is_killed(opener: Callable[..., ScenarioCluster]) -> None:
    c = opener(nodes=1)
    c.make_namespace("demo")
    marker = f"ome-left-behind-{os.getpid()}"
    command = ["python3", "-c", f"import time; time.sleep(600) # {marker}"]
    c.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "sleeper", "namespace": "demo"},
            "spec": {"containers": [{"name": "c", "image": "local/sh:1", "command": command}]},
        }
    )
    c.kubectl("wait --for=condition=Ready pod/sleeper -n demo --timeout=120s").ok()
    assert running(marker)
    os.kill(c.node_process(), signal.SIGKILL)
    c.until(lambda: not running(marker), what="the pod's process to end")


def running(marker: str) -> list[str]:
    """Processes whose command line holds the marker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if marker in text and "pytest" not in text:
            found.append(text)
    return found


def test_a_router_spreads_requests_over_two_engines(cluster: ScenarioCluster) -> None:
    c = cluster
    for name in ("router/runtime.yaml", "router/service.yaml"):
        c.kubectl("apply -f", str(EXAMPLES / name)).ok()
    c.kubectl("wait --for=condition=RouterReady inferenceservice/routed -n demo --timeout=120s").ok()
    c.kubectl("wait --for=condition=Ready inferenceservice/routed -n demo --timeout=120s").ok()
    url = url_of(c, "demo/routed")
    seen: set[str] = set()

    def both() -> bool:
        seen.add(post(url, QUESTION)["choices"][0]["message"]["content"].rpartition("in pod ")[2])
        return len(seen) == 2

    c.until(both, what="answers of both engines")
