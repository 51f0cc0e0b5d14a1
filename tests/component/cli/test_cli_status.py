"""`kubectl ome status` over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.resources import CLUSTER_SERVING_RUNTIMES, EVENTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, PODS
from tests.support.cli_objects import merged, replica, row, runtime, runtime_spec, service
from tests.support.cli_server import StubCluster, Tool, status

GOLDEN = """\
FIELD                VALUE
Name                 qwen2-5-7b
Namespace            demo
Ready                NotRecorded / Unavailable
Ready reason
Declared runtime
Model                qwen2-5-7b
Generation           1 observed=0; advisory Unverifiable
Pod observation      Reported count=0 truncated=false
Event observation    Reported count=0 truncated=false
engine               NotRecorded / Unavailable; Ready pods=0/0 restarts=0
Rollout              Unknown reported=Unknown
Rollout evidence     Reported / Unverifiable
Autoscaling          Unavailable / Unavailable parent status
Placement            NotConfigured / NotApplicable / NotRecorded
Traffic              Unavailable / Unavailable parent status
Runtime active       Unavailable / Unavailable AutoSelectionNotProbed
Accelerator          Unavailable / Unavailable AutoSelectionNotProbed
Full safe values     Use -o json or -o yaml
Rollout detail       kubectl ome rollout status NAME
Autoscale detail     kubectl ome autoscale status NAME
Placement detail     kubectl ome placement status NAME
Traffic detail       kubectl ome traffic status NAME
Runtime detail       kubectl ome runtime effective NAME
Accelerator detail   kubectl ome accelerator explain NAME
"""
WIDE = (
    "Ready message", "Condition inspection", "Pod targets skipped", "Event targets skip", "engine Pod total",
    "engine Pod Ready", "engine restarts", "engine phases", "engine evidence", "Coordination Ready", "Rollout issue",
    "Rollout warning", "Placement evidence", "Placement mode", "Collected at", "Source generation", "Source evidence",
)  # fmt: skip


def fresh() -> dict[str, Any]:
    return service(
        "qwen2-5-7b",
        "demo",
        metadata={"generation": 1},
        spec={"runtime": None, "deploymentMode": None, "model": {"name": "qwen2-5-7b"}},
        status=None,
    )


@pytest.mark.spec("CS-1")
def test_a_service_that_was_just_created(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, fresh())
    ran = tool("status", "qwen2-5-7b", "-n", "demo")
    assert (ran.code, ran.err, ran.out) == (0, "", GOLDEN)


@pytest.mark.spec("CS-1")
def test_wide_adds_its_rows(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, fresh())
    narrow = {line[:20].strip() for line in GOLDEN.splitlines()}
    lines = tool("status", "qwen2-5-7b", "-n", "demo", "-o", "wide").out.splitlines()
    labels = [line.split("   ")[0].strip() for line in lines]
    assert set(labels) - narrow == set(WIDE)
    assert [label for label in labels if label == "Rollout issue"] == ["Rollout issue"] * 2
    assert "Condition inspection   Complete 0/0" in lines


def test_json_of_ready(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, fresh())
    document = tool("status", "qwen2-5-7b", "-n", "demo", "-o", "json").json
    assert document["kind"] == "StatusReport"
    assert document["content"]["ready"] == {
        "status": "NotRecorded",
        "validity": "Unavailable",
        "inspection": {"state": "Complete", "total": 0, "inspected": 0, "warnings": []},
    }


@pytest.mark.spec("CS-2")
def test_a_missing_service(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("status", "none")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: status InferenceService was not found\n")


@pytest.mark.spec("CS-2")
def test_more_than_thirty_seconds(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.before("GET", "/pods", lambda: tool.time.sleep(31))
    ran = tool("status", "chat")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: status read was cancelled or timed out\n")


def event(kind: str, name: str, message: str, reason: str = "Failed", count: int = 2) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.{count}", "namespace": "prod"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": f"2026-09-28T14:00:{count:02d}Z",
        "involvedObject": {"kind": kind, "name": name},
    }


@pytest.mark.spec("CS-3")
def test_addresses_and_credentials_are_masked(cluster: StubCluster, tool: Tool) -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Unreachable",
        "message": "cannot reach https://registry.example/secret",
        "lastTransitionTime": "2026-09-28T14:00:00Z",
    }
    cluster.put(INFERENCE_SERVICES, service(status={"conditions": [condition]}))
    cluster.put(EVENTS, event("InferenceService", "chat", "login failed: password=hunter2"))
    for output in ("wide", "json"):
        out = tool("status", "chat", "-o", output).out
        assert "registry.example" not in out
        assert "hunter2" not in out
        assert "[OMITTED]" in out
        assert "[REDACTED]" in out


def pod(name: str, phase: str = "Running", ready: str = "True", **changes: Any) -> dict[str, Any]:
    base = {
        "metadata": {
            "name": name,
            "namespace": "prod",
            "uid": name,
            "labels": {"ome.io/inferenceservice": "chat", "component": "engine"},
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": 1}],
        },
    }
    return merged(base, changes)


@pytest.mark.spec("CS-4")
def test_a_held_revision_leaves_the_engine_ready_and_shows_the_surge_pod(cluster: StubCluster, tool: Tool) -> None:
    ready = {"type": "EngineReady", "status": "True", "lastTransitionTime": "2026-09-28T13:00:00Z"}
    cluster.put(INFERENCE_SERVICES, service(status={"conditions": [ready]}))
    cluster.put(PODS, *(pod(f"chat-engine-{n}-default-0") for n in range(3)))
    cluster.put(PODS, pod("chat-engine-0-default-1", "Pending", "False"))
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec()))
    out = tool("status", "chat", "-o", "wide").out
    assert "\nengine                 True / Valid; Ready pods=3/4 restarts=4\n" in out
    assert "\nengine phases          R=3 P=1 F=0 S=0 U=0 deleting=0\n" in out
    assert "\nRuntime active         Reported / Available\n" in out


def test_events_are_newest_first_and_bounded(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(PODS, *(pod(f"p-{n:02d}") for n in range(17)))
    cluster.put(EVENTS, event("Pod", "p-00", "old", "Old", 1), event("InferenceService", "chat", "new", "New", 9))
    out = tool("status", "chat", "-o", "wide").out
    assert "\nWarning Inference...   chat New\n" in out
    assert out.index("chat New") < out.index("p-00 Old")
    assert "\nEvent observation      Partial count=2 truncated=true\n" in out
    assert "\nEvent targets skip     2\n" in out


def test_a_read_that_is_forbidden_still_leaves_a_report(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.always("GET", "/pods", status(403, "Forbidden", "no"))
    ran = tool("status", "chat")
    assert ran.code == 0
    assert "\nPod observation      Unavailable count=0 truncated=false Forbidden\n" in ran.out


def test_pods_without_a_component_are_an_issue(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(PODS, pod("stray", metadata={"labels": {"component": None}}))
    assert "\nIssue                UnsupportedComponent\n" in tool("status", "chat").out


# -- instance list and status over HTTP --------------------------------------------------------------------------------


def test_instance_list_reads_the_services_replicas(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica())
    out = tool("instance", "list", "chat").out
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["engine", f"{n}/1"] for n in range(3)]
    document = tool("instance", "list", "chat", "-o", "json").json
    assert (document["kind"], document["content"]["summary"]["instances"]) == ("InstanceListReport", 3)


@pytest.mark.spec("CI-12")
@pytest.mark.parametrize("command", [("list",), ("retry-blocks", "--component=engine")])
def test_wide_is_refused_where_there_is_none(cluster: StubCluster, tool: Tool, command: tuple[str, ...]) -> None:
    ran = tool("instance", *command, "chat", "-o", "wide")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")


@pytest.mark.spec("CI-11")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--component is required"),
        (("--component", "gpu"), "component must be engine, decoder, or router"),
    ],
)
def test_the_component_flag(cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], message: str) -> None:
    ran = tool("instance", "retry-blocks", "chat", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")


@pytest.mark.spec("CI-12", "CI-18")
def test_instance_status_reads_at_most_sixteen_pods(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    failed = row(0, "chat-engine-6c4f8b1d", phase="Failed")
    cluster.put(INFERENCE_REPLICAS, replica(status={"instanceStatuses": [failed], "replicas": 1}))
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec()))
    labels = {"ome.io/managed-by": "OMENative", "ome.io/instance-index": "0", "ome.io/runner": "default"}
    cluster.put(PODS, *(pod(f"p-{n:02d}", metadata={"labels": labels}) for n in range(17)))
    cluster.put(EVENTS, event("Pod", "p-00", "secret text of the event"))
    ran = tool("instance", "status", "chat", "0", "--component=engine")
    assert ran.code == 0
    assert sum(line.startswith("pod ") for line in ran.out.splitlines()) == 16
    assert "event        Pod/p-00 reason=Failed count=2\n" in ran.out
    for output in ("table", "wide", "json"):
        assert "secret text" not in tool("instance", "status", "chat", "0", "--component=engine", "-o", output).out
