"""What kubectl-ome needs and does on a whole cluster: the two documented roles, a release, a roll forward, and
requests that wait.

The walkthroughs themselves are `test_held_revisions.py` and `test_runtime_revisions.py`; here the tool is the subject.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.scenario import Ran, ScenarioCluster

RUNTIME = (Path(__file__).parent / "data" / "runtime.yaml").read_text()
# One attempt, so that a revision is held within seconds.
LIFECYCLE = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "2s",
    "unschedulableGracePeriod": "15m",
    "revisionHistoryLimit": 10,
    "updateRetry": {"maxAttempts": 1, "initialDelay": "1s", "maxDelay": "30m", "multiplier": 2.0},
}
EMPTY = "COMP   STATE   TARGET   ATT   NEXT   REL   REASON\n-      EMPTY   -        -     -      NO    -\n"
COLUMNS = "custom-columns=TYPE:.type,OBJECT:.involvedObject.name,MESSAGE:.message"
UNKNOWN = "held-release request outcome unknown; inspect instance retry-blocks before another explicit request"
SERVICE = "llama-3-2-3b-instruct"
A, B = (f"r-llama-demo-sglang-llama-3-2-3b-{digits}" for digits in ("590753e8", "af9539ac"))


def role(name: str, *rules: tuple[str, list[str], list[str]]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources, verbs in rules],
    }


def binding(name: str, of: str, users: list[str], namespace: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": of},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users],
    }


READER = role(
    "kubectl-ome-reader",
    ("ome.io", ["*"], ["get", "list"]),
    ("", ["pods", "events"], ["list"]),
    ("", ["pods/log"], ["get"]),
    ("apps", ["deployments"], ["get"]),
    ("apps", ["controllerrevisions"], ["get", "list"]),
)
ACTIONS = role(
    "kubectl-ome-actions",
    ("ome.io", ["inferenceservices", "inferencereplicas", "inferencereplicas/scale"], ["patch"]),
)


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


MODEL = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "ClusterBaseModel",
    "metadata": {"name": SERVICE},
    "spec": {
        "vendor": "meta",
        "modelCapabilities": ["TEXT_TO_TEXT"],
        "storage": {"storageUri": "hf://meta-llama/Llama-3.2-3B-Instruct", "path": "/raid/models/llama"},
    },
}


def chat(tag: str) -> dict[str, Any]:
    runner = {"name": "ome-container", "image": f"docker.io/lmsysorg/sglang:{tag}"}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "prod"},
        "spec": {
            "deploymentMode": "OMENative",
            "model": {"name": SERVICE},
            "runtime": {"name": "srt-chat"},
            "engine": {"minReplicas": 1, "maxReplicas": 3, "runner": runner},
        },
    }


def chat_runtime() -> dict[str, Any]:
    entry = {
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
        "modelArchitecture": "LlamaForCausalLM",
    }
    runner = {"name": "ome-container", "image": "docker.io/lmsysorg/sglang:good"}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "srt-chat"},
        "spec": {"supportedModelFormats": [entry], "engineConfig": {"runner": runner}},
    }


class Person:
    """Somebody at a terminal; `as_` is who the API server takes them for."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self.c = cluster
        self._more = ["--kubeconfig", str(cluster.kubeconfig)] if cluster.real else []

    def stage(self) -> None:
        c = self.c
        c.configure("lifecycle", LIFECYCLE)
        self.image("deny", "*:missing*")
        c.apply(namespace("prod"), namespace("llama-demo"), MODEL, chat_runtime(), READER, ACTIONS)
        c.apply(
            binding("readers", "kubectl-ome-reader", ["ann", "pat"]),
            binding("actions", "kubectl-ome-actions", ["pat"], "prod"),
        )
        marks = f"model ready {SERVICE} --format safetensors --architecture LlamaForCausalLM --size 3.21B"
        c.until(lambda: c.local(marks, *self._more).code == 0, what="nodes")

    def image(self, verb: str, pattern: str) -> None:
        self.c.local(f"image {verb}", pattern, *self._more).ok()

    def replica(self) -> dict[str, Any]:
        found: dict[str, Any] = self.c.get("inferencereplica chat-engine -n prod")
        return found

    def blocks(self) -> str:
        return self.c.ome("instance retry-blocks chat --component engine -n prod").ok().out

    def held(self, tag: str) -> str:
        """Change the image to one that does not exist, and wait until its revision is held."""
        self.c.apply(chat(tag))
        revision: str = self.c.until(self._held_revision, what="a held revision")
        return revision

    def _held_revision(self) -> str:
        status = self.replica().get("status", {})
        states = {block["targetRevision"]: block["state"] for block in status.get("retryBlocks") or []}
        update = str(status.get("updateRevision", ""))
        fresh = "  YES   " in self.blocks()
        return update if states.get(update) == "Held" and fresh else ""

    def release(self, revision: str, *more: str) -> Ran:
        command = f"instance release-held chat -n prod --component engine --revision {revision}"
        return self.c.ome(command, *more)

    def mailbox(self) -> str:
        path = r"jsonpath={.metadata.annotations.ome\.io/release-held-revision}"
        return self.c.kubectl("get inferencereplica chat-engine -n prod -o", path).ok().out

    def events(self, reason: str) -> list[str]:
        out = self.c.kubectl(f"get events -n prod --field-selector reason={reason} -o", COLUMNS).ok().out
        return out.splitlines()


@pytest.fixture(scope="module")
def person(opener: Callable[..., ScenarioCluster]) -> Person:
    someone = Person(opener(nodes=1))
    someone.stage()
    someone.c.apply(chat("good"))
    ready = someone.c.ome("wait chat -n prod --for=condition=Ready --timeout=2m")
    assert ready.code == 0, ready.out + ready.err
    return someone


@pytest.fixture(scope="module")
def first(person: Person) -> str:
    """The first held revision."""
    return person.held("missing-1")


@pytest.mark.spec("CR-30", "CI-53")
def test_the_reader_role_alone_looks_and_tries_but_changes_nothing(person: Person, first: str) -> None:
    reader = ("--as", "ann")
    for command in ("runtime effective chat", "runtime history chat", "instance list chat", "status chat", "get isvc"):
        assert person.c.ome(f"{command} -n prod", *reader).code == 0
    waited = person.c.ome("wait chat -n prod --for=condition=Ready", *reader).ok()
    assert "Outcome                 Matched" in waited.out
    client = person.release(first, "--yes", "--dry-run", "client", *reader)
    assert (client.code, "Validated locally; no patch sent." in client.out) == (0, True)
    for mode in ("server", "none"):
        refused = person.release(first, "--yes", "--dry-run", mode, *reader)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.endswith(f"error: {UNKNOWN}\n")
    assert person.mailbox() == ""


@pytest.mark.spec("CR-24")
def test_without_the_right_to_watch_a_wait_polls(person: Person) -> None:
    ran = person.c.ome("wait chat -n prod --for=condition=Ready=False --timeout=15s --as ann -o json")
    assert (ran.code, ran.err) == (2, "error: RequestedConditionUnmet\n")
    content = json.loads(ran.out)["content"]
    assert (content["pollingFallback"], content["counts"]["watches"]) == (True, 1)
    assert content["counts"]["polls"] >= 1


@pytest.mark.spec("CS-6", "CS-4")
def test_get_and_status_while_a_revision_is_held(person: Person, first: str) -> None:
    line = person.c.ome("get ir -n prod").ok().out.splitlines()[1].split()
    assert line[:7] == ["chat-engine", "engine", "chat", "1", "1", "1", "RolloutStalled=True"]
    out = person.c.ome("status chat -n prod").ok().out
    assert re.search(r"^engine +True / Valid; Ready pods=1/2 restarts=0$", out, re.MULTILINE)


@pytest.mark.spec("CI-52")
def test_a_request_that_waits_is_replaced_only_on_purpose_and_can_be_withdrawn(person: Person, first: str) -> None:
    c = person.c
    give_up = c.hold_lease()
    annotate = "annotate inferencereplica chat-engine -n prod"
    key = "ome.io/release-held-revision"
    done = "inferencereplica.ome.io/chat-engine annotated\n"
    assert c.kubectl(annotate, f"{key}=nope").ok().out == done
    again = c.kubectl(annotate, f"{key}={first}")
    assert again.code == 1
    assert f"'{key}' already has a value (nope)" in again.err
    assert person.mailbox() == "nope"
    refused = person.release(first, "--yes")
    message = "action refused: a release-held mailbox is already present; inspect instance retry-blocks"
    assert (refused.code, refused.out, refused.err) == (1, "", f"error: {message}\n")
    assert c.kubectl(annotate, f"{key}={first}", "--overwrite").ok().out == done
    assert person.mailbox() == first
    assert c.kubectl(annotate, f"{key}-").ok().out == done
    give_up()
    time.sleep(3)
    assert "HELD" in person.blocks()
    for reason in ("RetryBlockReleased", "RetryBlockReleaseSkipped"):
        assert len(person.events(reason)) <= 1, "nothing below the header: a withdrawn request gets no answer"


@pytest.mark.spec("CI-45", "CI-46", "CI-53", "CR-29")
def test_reader_and_patch_are_enough_for_a_whole_release(person: Person, first: str) -> None:
    patcher = ("--as", "pat")
    held = person.events("RetryHeld")
    assert held[0].split() == ["TYPE", "OBJECT", "MESSAGE"]
    assert re.fullmatch(
        rf"Warning   chat     InferenceReplica prod/chat-engine component=engine update to revision {first} held after "
        r"1 failed attempt\(s\) \(last failure: (ErrImagePull|ImagePullBackOff)\); publish a corrected revision or "
        r"raise lifecycle.updateRetry limits",
        held[1],
    )
    person.image("allow", "*:missing*")
    ran = person.release(first, "--yes", "-o", "json", *patcher)
    assert ran.code == 0, ran.err
    target = json.loads(ran.out)["target"]
    waited = person.c.ome(
        f"wait chat -n prod --for=held-revision=unheld --component=engine --revision={first} --timeout=120s",
        f"--ir-name={target['name']}",
        f"--ir-uid={target['uid']}",
        *patcher,
    )
    assert waited.code == 0, waited.out + waited.err
    person.c.eventually(person.blocks, EMPTY)
    assert person.mailbox() == ""
    assert person.events("RetryBlockReleased") == [
        "TYPE     OBJECT   MESSAGE",
        f"Normal   chat     InferenceReplica prod/chat-engine component=engine: Held retryBlock for revision {first} "
        "removed at operator request (ome.io/release-held-revision annotation)",
    ]
    person.c.eventually(lambda: person.replica()["status"].get("currentRevision"), first)


@pytest.mark.spec("CI-47")
def test_an_annotation_by_hand_releases_the_same_way(person: Person, first: str) -> None:
    person.image("deny", "*:missing*")
    second = person.held("missing-2")
    person.image("allow", "*:missing*")
    before = person.events("RetryBlockReleased")
    done = person.c.kubectl(
        "annotate inferencereplica chat-engine -n prod --as pat", f"ome.io/release-held-revision={second}"
    )
    assert done.ok().out == "inferencereplica.ome.io/chat-engine annotated\n"
    person.c.eventually(person.mailbox, "")  # taken last: the status and the event come before
    person.c.eventually(person.blocks, EMPTY)
    (line,) = [line for line in person.events("RetryBlockReleased") if line not in before]
    assert line.endswith(
        f": Held retryBlock for revision {second} removed at operator request (ome.io/release-held-revision annotation)"
    )


def _unless_stale(done: Ran) -> Ran | None:
    """What a command did; None when the object changed after the preview (exit 3), which asks to be run again."""
    return None if done.code == 3 else done


@pytest.mark.spec("CR-27", "CR-28")
def test_a_roll_forward_with_sync_wait_and_history(person: Person) -> None:
    c = person.c
    pinned = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": SERVICE, "namespace": "llama-demo"},
        "spec": {
            "model": {"name": SERVICE},
            "runtime": {"name": "sglang-llama-3-2-3b", "kind": "ServingRuntime", "autoSync": False},
            "engine": {"minReplicas": 1, "maxReplicas": 1},
        },
    }
    c.kubectl("apply -f -", stdin=RUNTIME).ok()
    c.apply(pinned)

    def pin() -> str:
        return c.kubectl(f"get isvc {SERVICE} -n llama-demo -o", "jsonpath={.status.pinnedRevisionName}").ok().out

    def drift() -> str:
        path = '{.status.conditions[?(@.type=="RuntimeDrifted")].reason}'
        return c.kubectl(f"get isvc {SERVICE} -n llama-demo -o", f"jsonpath={path}").ok().out

    c.eventually(pin, A)
    c.kubectl("apply -f -", stdin=RUNTIME.replace("--mem-frac=0.9", "--mem-frac=0.85")).ok()
    c.eventually(drift, "RevisionMismatch")
    c.kubectl(f"wait --for=condition=Ready isvc/{SERVICE} -n llama-demo --timeout=120s").ok()
    synced = c.until(lambda: _unless_stale(c.ome(f"runtime sync {SERVICE} -n llama-demo --yes -o json")))
    result = json.loads(synced.ok().out)
    assert result["revisionHash"] == "af9539ac"
    waited = c.ome(f"wait {SERVICE} -n llama-demo --for=runtime-sync=acknowledged --request-id={result['requestID']}")
    assert waited.code == 0, waited.out + waited.err
    assert pin() == B
    lines = [
        line.split() for line in c.ome(f"runtime history {SERVICE} -n llama-demo -o wide").ok().out.splitlines()[1:]
    ]
    assert [(line[3], line[6], line[9]) for line in lines] == [
        (B, "Active,Reported,History", "MatchesLive"),
        (A, "History", "DiffersFromLive"),
    ]
    second = c.ome(f"runtime sync {SERVICE} -n llama-demo --yes")
    refusal = "action refused: managed runtime sync safety evidence is unavailable or inconsistent"
    assert (second.code, second.out, second.err) == (1, "", f"error: {refusal}\n")
