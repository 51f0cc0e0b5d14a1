"""The walkthrough of held revisions and their release, typed with the real kubectl and the real kubectl-ome.

By default with short settings (`FAST`); with `--slow` once more with the chart's own (60 s, 1 m, 2 m).
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.scenario import ScenarioCluster, like

ROOT = Path(__file__).resolve().parents[2]
FAST = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "4s",
    "unschedulableGracePeriod": "15m",
    "revisionHistoryLimit": 10,
    "updateRetry": {"maxAttempts": 3, "initialDelay": "3s", "maxDelay": "30m", "multiplier": 2.0},
}
PULLING = ("ErrImagePull", "ImagePullBackOff")
# Long enough to be looked at with three commands on a loaded machine.
FIRST_DELAY = 8
GOOD = "docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64"
EMPTY = "COMP   STATE   TARGET   ATT   NEXT   REL   REASON\n-      EMPTY   -        -     -      NO    -\n"
EVENT_COLUMNS = "custom-columns=TYPE:.type,OBJECT:.involvedObject.name,MESSAGE:.message"
CHAT = """\
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata:
  name: chat
  namespace: prod
spec:
  deploymentMode: OMENative
  model:
    name: qwen3-0-6b
  runtime:
    name: srt-qwen3-0-6b
  engine:
    minReplicas: 3
    maxReplicas: 3
    runner:
      name: ome-container
      image: docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64
    lifecycle:
      updateStrategy:
        type: SurgeThenDrain
        rollingUpdate:
          maxSurge: 1
"""
RUNNER = {
    "name": "ome-container",
    "image": GOOD,
    "command": [
        "python3",
        "-m",
        "sglang.launch_server",
        "--host=0.0.0.0",
        "--port=8080",
        "--model-path=$(MODEL_PATH)",
        "--tp-size=1",
    ],
    "ports": [{"containerPort": 8080, "name": "http1", "protocol": "TCP"}],
    "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    "resources": {
        "requests": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
    },
}
STAGE: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}},
    {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterBaseModel",
        "metadata": {"name": "qwen3-0-6b"},
        "spec": {
            "vendor": "Qwen",
            "modelCapabilities": ["TEXT_TO_TEXT"],
            "storage": {"storageUri": "hf://Qwen/Qwen3-0.6B", "path": "/raid/models/Qwen/Qwen3-0.6B"},
        },
    },
    {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "srt-qwen3-0-6b"},
        "spec": {
            "supportedModelFormats": [
                {
                    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
                    "modelFramework": {"name": "transformers", "version": "4.51.0"},
                    "modelArchitecture": "Qwen3ForCausalLM",
                    "priority": 1,
                }
            ],
            "modelSizeRange": {"min": "500M", "max": "1B"},
            "engineConfig": {
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
                "runner": RUNNER,
            },
        },
    },
]
ROLES: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-{role}", "namespace": "prod"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    for user, role in (("ann", "reader"), ("pat", "reader"), ("pat", "patcher"))
] + [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": "prod"},
        "rules": [{"apiGroups": ["ome.io"], "resources": resources, "verbs": verbs}],
    }
    for name, resources, verbs in (
        ("reader", ["*"], ["get", "list"]),
        ("patcher", ["inferenceservices", "inferencereplicas"], ["patch"]),
    )
]


class Watcher:
    """Looks every moment that the old Instances serve, and keeps what it saw."""

    def __init__(self, operator: Operator) -> None:
        self.problems: list[str] = []
        self._operator = operator
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            serving = self._operator.replica().get("status", {}).get("servingReplicas")
            pods = self._operator.pods()
            old = [p for name, p in pods.items() if name.endswith("-default-0") and _is(p, "Ready", "ome.io/serving")]
            if serving != 3 or len(old) != 3 or len(pods) > 4:
                self.problems.append(f"serving {serving}, old ready {len(old)}, pods {sorted(pods)}")

    def end(self) -> list[str]:
        self._stop.set()
        self._thread.join(20)
        return self.problems


def _is(pod: dict[str, Any], *conditions: str) -> bool:
    true = {c["type"] for c in pod["status"].get("conditions", []) if c["status"] == "True"}
    return set(conditions) <= true


def block_of(replica: dict[str, Any]) -> dict[str, Any]:
    """The retry block of the current target, or {}."""
    status = replica.get("status", {})
    blocks = status.get("retryBlocks") or []
    return next((b for b in blocks if b["targetRevision"] == status.get("updateRevision")), {})


def state_of(block: dict[str, Any]) -> str:
    return f"{block.get('state', '')}/{block.get('attemptsStarted', 0)}"


class Operator:
    """Somebody who looks after `chat` in `prod`."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self.c = cluster

    def stage(self) -> None:
        c = self.c
        c.kubectl("config rename-context", c.kubectl("config current-context").ok().out.strip(), "prod-cluster").ok()
        self.deny("*:v0.0.0-missing*")
        c.apply(*STAGE)
        more = ["--kubeconfig", str(c.kubeconfig)] if c.real else []
        ready = "model ready qwen3-0-6b --format safetensors --architecture Qwen3ForCausalLM --size 596M"
        c.until(lambda: c.local(ready, *more).code == 0, what="nodes")
        wait = "wait --for=jsonpath={.status.state}=Ready clusterbasemodel/qwen3-0-6b --timeout=120s"
        assert c.kubectl(wait).ok().out == "clusterbasemodel.ome.io/qwen3-0-6b condition met\n"
        c.apply(*ROLES)

    def deny(self, pattern: str) -> None:
        self.c.local("image deny", pattern, *(["--kubeconfig", str(self.c.kubeconfig)] if self.c.real else [])).ok()

    def allow(self, pattern: str) -> None:
        self.c.local("image allow", pattern, *(["--kubeconfig", str(self.c.kubeconfig)] if self.c.real else [])).ok()

    def image(self, reference: str) -> None:
        """Put an image into chat.yaml and apply it."""
        self.c.write("chat.yaml", CHAT.replace(GOOD, reference))
        assert self.c.kubectl("apply -f chat.yaml").ok().out == "inferenceservice.ome.io/chat configured\n"

    def replica(self, name: str = "chat-engine") -> dict[str, Any]:
        found: dict[str, Any] = self.c.get(f"inferencereplica {name} -n prod")
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        found = self.c.get("pods -n prod -l ome.io/inferenceservice=chat")
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def block(self, name: str = "chat-engine") -> dict[str, Any]:
        """The retry block of the current target, or {}."""
        return block_of(self.replica(name))

    def state(self, name: str = "chat-engine") -> str:
        return state_of(self.block(name))

    def held(self) -> str:
        """Wait until the current target is held, and name it."""
        self.c.eventually(self.state, "Held/3")
        return str(self.block()["targetRevision"])

    def table(self) -> str:
        return self.c.ome("instance retry-blocks chat --component engine -n prod").ok().out

    def events(self, reason: str, name: str = "chat") -> list[str]:
        selector = f"--field-selector reason={reason},involvedObject.name={name}"
        out = self.c.kubectl(f"get events -n prod {selector} -o", EVENT_COLUMNS).ok().out
        return out.splitlines()[1:]

    def condition(self, kind: str) -> str:
        found = self.c.get("inferenceservice chat -n prod")
        return next((c["status"] for c in found["status"]["conditions"] if c["type"] == kind), "")

    def release(self, revision: str, *more: str, **options: Any) -> Any:
        command = f"instance release-held chat -n prod --component engine --revision {revision}"
        return self.c.ome(command, *more, **options)

    def mailbox(self) -> str:
        path = r"jsonpath={.metadata.annotations.ome\.io/release-held-revision}"
        return self.c.kubectl("get inferencereplica chat-engine -n prod -o", path).ok().out

    def annotate(self, value: str, *more: str) -> Any:
        suffix = f"={value}" if value else "-"
        return self.c.kubectl(
            "annotate inferencereplica chat-engine -n prod", f"ome.io/release-held-revision{suffix}", *more
        )


@pytest.fixture(scope="module")
def operator(opener: Callable[..., ScenarioCluster]) -> Operator:
    someone = Operator(opener(nodes=2))
    someone.c.configure("lifecycle", FAST)
    someone.stage()
    return someone


@pytest.fixture(scope="module")
def watcher(operator: Operator) -> Iterator[Watcher]:
    c = operator.c
    c.write("chat.yaml", CHAT)
    created = c.kubectl("apply -f chat.yaml").ok()
    assert (created.out, created.err) == ("inferenceservice.ome.io/chat created\n", "")
    ready = c.kubectl("wait --for=condition=Ready inferenceservice/chat -n prod --timeout=180s", timeout=190).ok()
    assert ready.out == "inferenceservice.ome.io/chat condition met\n"
    c.until(lambda: operator.replica()["status"].get("servingReplicas") == 3)
    looking = Watcher(operator)
    yield looking
    looking.end()


@pytest.mark.spec("ON-6", "ON-36", "IS-39")
def test_1_before(operator: Operator, watcher: Watcher) -> None:
    c = operator.c
    for name in ("irep", "inferencereplica", "inferencereplicas"):
        like(
            "NAME          COMPONENT   DESIRED   CURRENT   READY   AVAILABLE   AGE\n"
            "chat-engine   engine      3         3         3       3           <age>\n",
            c.kubectl(f"get {name} chat-engine -n prod").ok().out,
        )
    names = "".join(f"pod/chat-engine-{index}-default-0\n" for index in range(3))
    assert c.kubectl("get pods -n prod -o name").ok().out == names
    assert operator.table() == EMPTY


def seconds(block: dict[str, Any]) -> float:
    """From the last failure to the next attempt."""
    at = [datetime.fromisoformat(block[name]) for name in ("lastFailureAt", "nextRetryAt")]
    return (at[1] - at[0]).total_seconds()


@pytest.mark.spec("RB-1", "RB-2", "RB-3", "RB-4", "RB-24", "RB-34", "RB-35", "RB-43", "ON-26", "ON-35", "RB-52")
def test_2_how_chat_gets_held(operator: Operator, watcher: Watcher) -> None:
    c = operator.c
    old = operator.replica()["status"]["currentRevision"]
    slower = {**FAST, "updateRetry": {**FAST["updateRetry"], "initialDelay": f"{FIRST_DELAY}s"}}  # type: ignore[dict-item]
    c.configure("lifecycle", slower)
    with c.watch("get inferencereplica chat-engine -n prod --output-watch-events -o json") as watch:
        c.until(watch.events)
        operator.image("docker.io/lmsysorg/sglang:v0.0.0-missing")
        revision = c.until(lambda: _changed(operator.replica()["status"].get("updateRevision"), old))
        assert re.fullmatch(r"chat-engine-[0-9a-f]{8}", revision)
        digest = revision.rpartition("-")[2]
        new = c.until(lambda: operator.pods().get("chat-engine-0-default-1"))
        assert new["metadata"]["labels"]["ome.io/revision-hash"] == digest
        c.until(lambda: _waits_for(operator.pods().get("chat-engine-0-default-1")) in PULLING)
        alias = "chat-#" + hashlib.sha256(revision.encode()).hexdigest()[:8]
        c.eventually(operator.state, "Backoff/1")
        rows = operator.table().splitlines()
        like(f"engine   BACKOFF   {alias}   1     <next>   NO    <reason>", rows[1])
        assert operator.held() == revision
        c.until(lambda: state_of(block_of(watch.events()[-1][1])) == "Held/3", what="the end of the story")
        blocks = [block for _, replica in watch.events() if (block := block_of(replica))]
    story = [state_of(block) for block in blocks]
    told = [state for state, before in zip(story, ["", *story], strict=False) if state != before]
    wanted = ["Backoff/1", "RetryInProgress/1", "Backoff/2", "RetryInProgress/2", "Held/3"]
    assert [state for state in told if state in wanted] == wanted, told
    for attempt in (1, 2):
        waits = {seconds(block) for block in blocks if state_of(block) == f"Backoff/{attempt}"}
        assert waits == {FIRST_DELAY * attempt}
    block = operator.block()
    assert "nextRetryAt" not in block
    last = block["reason"]
    assert last in PULLING
    message = (
        f"Warning   chat     InferenceReplica prod/chat-engine component=engine update to revision {revision} held "
        f"after 3 failed attempt(s) (last failure: {last}); publish a corrected revision or raise "
        "lifecycle.updateRetry limits"
    )
    c.eventually(lambda: operator.events("RetryHeld"), [message])
    hold = {
        "gate": "Held",
        "reason": f"update to {revision} held after 3 failed attempt(s): {last}",
        "target": revision,
    }

    def holds() -> list[dict[str, str]]:
        service = c.get("inferenceservice chat -n prod")
        engine = service["status"]["components"]["engine"]
        mirrored = engine.get("lifecycle", {}).get("rolloutHold") or {}
        own = operator.replica()["status"].get("rolloutHold") or {}
        return [{key: found.get(key) for key in hold} for found in (own, mirrored)]

    c.eventually(holds, [hold, hold])
    assert (operator.condition("EngineReady"), operator.condition("Ready")) == ("True", "True")
    conditions = {c["type"]: c for c in operator.replica()["status"]["conditions"]}
    assert (conditions["RolloutStalled"]["status"], conditions["RolloutStalled"]["reason"]) == (
        "True",
        "InstancesFailing",
    )
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "InstanceFailed")
    uids = {pod["metadata"]["uid"] for pod in operator.pods().values()}
    c.configure("lifecycle", {**FAST, "updateRetry": {**FAST["updateRetry"], "maxAttempts": 10}})  # type: ignore[dict-item]
    c.kubectl("annotate inferencereplica chat-engine -n prod example.com/look=again").ok()
    c.stays(operator.state, "Held/3", seconds=4)
    assert {pod["metadata"]["uid"] for pod in operator.pods().values()} == uids
    c.configure("lifecycle", FAST)


def _waits_for(pod: dict[str, Any] | None) -> str:
    """The reason why the pod's container waits, or ''."""
    found = ((pod or {}).get("status", {}).get("containerStatuses") or [{}])[0]
    return str(found.get("state", {}).get("waiting", {}).get("reason", ""))


def _changed(now: Any, before: Any) -> str:
    return str(now) if now and now != before else ""


@pytest.mark.spec("CI-1", "RB-43")
def test_3_find_it(operator: Operator, watcher: Watcher) -> None:
    c = operator.c
    revision = operator.held()
    alias = "chat-#" + hashlib.sha256(revision.encode()).hexdigest()[:8]
    last = operator.block()["reason"]
    shown = last if len(last) <= 13 else "ImagePullB..."
    assert operator.table() == (
        "COMP     STATE   TARGET           ATT   NEXT   REL   REASON\n"
        f"engine   HELD    {alias}   3     -      YES   {shown}\n"
    )
    path = 'jsonpath={.status.retryBlocks[?(@.state=="Held")].targetRevision}'
    assert c.kubectl("get inferencereplica chat-engine -n prod -o", path).ok().out == revision
    report = json.loads(c.ome("instance retry-blocks chat --component engine -n prod -o json").ok().out)
    first = report["content"]["blocks"][0]
    facts = [first[key] for key in ("targetRevision", "reason", "releaseEligible", "attemptsStarted")]
    assert facts == [revision, last, True, 3]
    assert (report["content"]["summary"]["held"], report["content"]["summary"]["eligible"]) == (1, 1)
    missing = c.ome("instance retry-blocks chat -n prod")
    assert (missing.code, missing.err) == (1, "error: --component is required\n")
    other = c.ome("instance retry-blocks chat --component gpu -n prod")
    assert (other.code, other.err) == (1, "error: component must be engine, decoder, or router\n")
    assert c.ome("instance retry-blocks chat --component engine -n prod -o wide").code == 1


def on_a_terminal(cluster: ScenarioCluster, command: list[str], answer: str) -> tuple[int, str, str]:
    """Run a command whose input and error output are a terminal; answer its prompt. (exit code, stdout, terminal)."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        command, cwd=cluster.folder, env=cluster.environment, stdin=inner, stderr=inner, stdout=subprocess.PIPE
    )
    os.close(inner)
    seen = ""
    deadline = time.monotonic() + 30
    while "[y/N]" not in seen and time.monotonic() < deadline:
        if select.select([outer], [], [], 0.5)[0]:
            seen += os.read(outer, 65536).decode()
    os.write(outer, answer.encode())
    assert process.stdout is not None
    out = process.stdout.read().decode()
    code = process.wait(30)
    os.close(outer)
    return code, out, seen


@pytest.mark.spec("RB-25", "RB-50", "ON-37")
def test_4_release_it(operator: Operator, watcher: Watcher) -> None:
    c = operator.c
    revision = operator.held()
    digest = revision.rpartition("-")[2]
    trial = operator.release(revision, "--dry-run", "server", "--yes", "-o", "json").ok()
    assert trial.err.startswith("HELD RELEASE PREVIEW")
    result = json.loads(trial.out)
    assert [result[key] for key in ("dryRun", "accepted", "applied", "message")] == [
        "server",
        True,
        False,
        "API dry-run accepted; no changes persisted.",
    ]
    result = json.loads(operator.release(revision, "--dry-run", "client", "--yes", "-o", "json").ok().out)
    assert [result[key] for key in ("accepted", "applied", "message")] == [
        False,
        False,
        "Validated locally; no patch sent.",
    ]
    assert operator.mailbox() == ""
    refused = operator.release(revision, stdin="")
    assert refused.code == 1
    assert refused.err.splitlines()[-1] == "error: action not confirmed; noninteractive input requires --yes"

    operator.allow("*:v0.0.0-missing*")
    c.until(
        lambda: (found := operator.pods().get("chat-engine-0-default-1")) and _is(found, "ContainersReady"),
        what="a recovered pod",
    )
    c.stays(operator.state, "Held/3", seconds=3)
    assert operator.table().splitlines()[1].split()[1] == "HELD"
    leftover = operator.pods()["chat-engine-0-default-1"]
    assert not _is(leftover, "Ready")
    assert watcher.end() == []

    before = operator.replica()["metadata"]
    command = ["kubectl", "ome", "instance", "release-held", "chat", "-n", "prod", "--component", "engine"]
    code, out, seen = on_a_terminal(c, [*command, "--revision", revision, "-o", "json"], "y\n")
    assert code == 0, seen
    assert "Confirm this exact action? [y/N]" in seen
    result = json.loads(out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", result.pop("collectedAt"))
    assert re.fullmatch(r"\d+", result["target"].pop("resourceVersion"))
    assert list(result) == [
        "apiVersion",
        "kind",
        "action",
        "target",
        "dryRun",
        "revisionHash",
        "accepted",
        "applied",
        "message",
        "followUp",
    ]
    assert result == {
        "apiVersion": "cli.ome.io/v1alpha1",
        "kind": "ActionResult",
        "action": "instance release-held",
        "target": {"kind": "InferenceReplica", "namespace": "prod", "name": "chat-engine", "uid": before["uid"]},
        "dryRun": "none",
        "revisionHash": digest,
        "accepted": True,
        "applied": True,
        "message": "API accepted release annotation request; controller release/convergence not observed.",
        "followUp": "kubectl ome instance retry-blocks chat --component=engine -n prod --context=prod-cluster",
    }
    waited = c.ome(
        "wait chat --for=held-revision=unheld --component=engine --timeout=2m -n prod "
        f"--revision={revision} --ir-name=chat-engine --ir-uid={before['uid']}",
    ).ok()
    rows = {" ".join(line.split()) for line in waited.out.splitlines()}
    for row in ("Outcome Matched", "Target state Absent", "Mailbox Absent", "Reason Unheld"):
        assert row in rows
    assert "Requested HeldRevision=Unheld" in rows


@pytest.mark.spec("RB-25", "RB-19")
def test_5_check_it(operator: Operator) -> None:
    c = operator.c
    revision = operator.replica()["status"]["updateRevision"]
    c.eventually(operator.table, EMPTY)
    assert operator.events("RetryBlockReleased") == [
        "Normal   chat     InferenceReplica prod/chat-engine component=engine: Held retryBlock for revision "
        f"{revision} removed at operator request (ome.io/release-held-revision annotation)"
    ]
    assert operator.mailbox() == ""
    c.eventually(lambda: operator.replica()["status"].get("currentRevision"), revision)
    c.until(lambda: len(operator.pods()) == 3)
    assert sorted(operator.pods()) == [f"chat-engine-{index}-default-1" for index in range(3)]
    assert "rolloutHold" not in operator.replica()["status"]


@pytest.mark.spec("RB-25", "RB-29", "RB-33", "RB-46", "RB-49", "ON-34", "LA-7")
def test_6_by_annotation(operator: Operator) -> None:
    c = operator.c
    operator.deny("*:v0.0.0-missing2*")
    operator.image("docker.io/lmsysorg/sglang:v0.0.0-missing2")
    revision = operator.held()
    digest = revision.rpartition("-")[2]
    assert c.kubectl("auth can-i patch inferencereplicas.ome.io -n prod --as pat").ok().out == "yes\n"
    c.kubectl(f"annotate inferenceservice chat -n prod ome.io/release-held-revision={revision}").ok()
    c.stays(operator.state, "Held/3", seconds=2)
    edit = c.kubectl('patch inferencereplica chat-engine -n prod --type=merge -p \'{"spec":{"replicas":9}}\' --as pat')
    assert edit.code == 1
    assert edit.err.startswith('Error from server (Forbidden): admission webhook "')
    assert edit.err.endswith("edit the InferenceService instead\n")
    done = operator.annotate(revision, "--as", "pat").ok()
    assert done.out == "inferencereplica.ome.io/chat-engine annotated\n"
    c.until(lambda: operator.mailbox() == "")
    c.until(lambda: len(operator.events("RetryBlockReleased")) == 2)
    # Released without a fix: three attempts again, held again, and one more event.
    c.until(lambda: operator.state() not in ("Held/3", "/0"))
    assert operator.held() == revision
    c.until(lambda: len(operator.events("RetryHeld")) == 3)
    operator.annotate(digest).ok()
    c.until(lambda: len(operator.events("RetryBlockReleased")) == 3)
    assert f"revision {revision} removed" in operator.events("RetryBlockReleased")[-1]


@pytest.mark.spec("RB-21", "RB-23", "RB-30")
def test_7_replaced_and_paused(operator: Operator) -> None:
    c = operator.c
    revision = operator.held()
    released = len(operator.events("RetryBlockReleased"))
    operator.image("docker.io/lmsysorg/sglang:v0.5.6")
    c.eventually(lambda: operator.replica()["status"].get("currentRevision"), operator_update(operator))
    c.eventually(operator.table, EMPTY)
    assert len(operator.events("RetryBlockReleased")) == released
    operator.image("docker.io/lmsysorg/sglang:v0.0.0-missing2")
    assert operator.held() == revision
    c.kubectl("annotate inferenceservice chat -n prod ome.io/rollout-paused=true").ok()
    c.until(lambda: operator.replica()["spec"].get("paused"))
    uids = {pod["metadata"]["uid"] for pod in operator.pods().values()}
    operator.annotate(revision).ok()
    c.until(lambda: operator.mailbox() == "")
    c.stays(operator.table, EMPTY, seconds=3)
    assert {pod["metadata"]["uid"] for pod in operator.pods().values()} <= uids
    operator.allow("*:v0.0.0-missing2*")
    c.kubectl("annotate inferenceservice chat -n prod ome.io/rollout-paused-").ok()
    c.eventually(lambda: operator.replica()["status"].get("currentRevision"), revision)


def operator_update(operator: Operator) -> str:
    """The target after the last edit has been projected."""
    service = operator.c.get("inferenceservice chat -n prod")["metadata"]["generation"]
    operator.c.until(
        lambda: operator.replica()["metadata"]["annotations"].get("ome.io/parent-generation") == str(service)
    )
    operator.c.until(lambda: _seen(operator.replica()))
    return str(operator.replica()["status"]["updateRevision"])


def _seen(replica: dict[str, Any]) -> bool:
    return bool(replica["status"].get("observedGeneration") == replica["metadata"]["generation"])


@pytest.mark.spec("RB-27", "CI-52")
def test_8_refusals(operator: Operator) -> None:
    c = operator.c
    nothing = operator.release("chat-engine-00000000", "--yes")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err.endswith("error: action refused: no exact current valid Held retry block is releasable\n")
    operator.annotate("chat-engine-00000000").ok()
    c.until(lambda: operator.mailbox() == "")
    assert operator.events("RetryBlockReleaseSkipped")[-1].endswith(
        'release requested for revision "chat-engine-00000000" but no retryBlock exists for it; nothing to release'
    )
    give_up = c.hold_lease()
    try:
        operator.annotate("first").ok()
        again = operator.annotate("second")
        assert (again.code, again.err) == (
            1,
            "error: --overwrite is false but found the following declared annotation(s): "
            "'ome.io/release-held-revision' already has a value (first)\n",
        )
        operator.annotate("second", "--overwrite").ok()
        before = len(operator.events("RetryBlockReleaseSkipped"))
    finally:
        give_up()
    c.until(lambda: operator.mailbox() == "")
    skipped = operator.events("RetryBlockReleaseSkipped")
    assert len(skipped) == before + 1
    assert 'revision "second"' in skipped[-1]


COUNTING = {
    "InvalidImageName": {"runner": {"name": "ome-container", "image": "docker.io/UPPER/x:1"}},
    "CreateContainerConfigError": {
        "runner": {
            "name": "ome-container",
            "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "not-there", "key": "k"}}}],
        }
    },
    "InvalidPodSpec": {
        "runner": {"name": "ome-container", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    },
}


@pytest.mark.spec("RB-8", "RB-44")
def test_2_every_counting_reason_holds_on_a_first_deployment(operator: Operator) -> None:
    c = operator.c
    for reason, engine in COUNTING.items():
        c.apply(
            {
                "apiVersion": "ome.io/v1beta1",
                "kind": "InferenceService",
                "metadata": {"name": reason.lower(), "namespace": "prod"},
                "spec": {
                    "deploymentMode": "OMENative",
                    "model": {"name": "qwen3-0-6b"},
                    "runtime": {"name": "srt-qwen3-0-6b"},
                    "engine": {"minReplicas": 1, "maxReplicas": 1, **engine},
                },
            }
        )
    for reason in COUNTING:
        name = reason.lower()
        c.until(partial(operator.events, "RetryHeld", name), what=f"{reason} held")
        assert f"(last failure: {reason})" in operator.events("RetryHeld", name)[0]
        c.kubectl(f"delete inferenceservice {name} -n prod --wait=false").ok()
