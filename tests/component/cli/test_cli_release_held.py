"""`instance release-held` over HTTP against a scripted API server: the texts, the exit codes, and what is sent."""

from __future__ import annotations

import io
import json
import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ome.kube.resources import (
    CLUSTER_SERVING_RUNTIMES,
    CONTROLLER_REVISIONS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
)
from tests.support.cli_objects import (
    HELD,
    REPLICA_UID,
    SERVICE_UID,
    block,
    replica,
    revision,
    runtime,
    runtime_spec,
    service,
)
from tests.support.cli_server import Answer, Ran, StubCluster, Tool, status

RELEASE = ("instance", "release-held", "chat", "--component", "engine", "--revision", HELD)
NOT_RELEASABLE = "action refused: no exact current valid Held retry block is releasable"
STALE = "held-release preview became stale; inspect instance retry-blocks and retry explicitly"
UNKNOWN = "held-release request outcome unknown; inspect instance retry-blocks before another explicit request"
NOT_CONFIRMED = "action not confirmed; noninteractive input requires --yes"
RUNTIME_REFUSED = "action refused: active runtime is unavailable, inconsistent or unbound"
SAFETY = "action refused: controller safety evidence is stale or inconsistent"
READ_FAILED = "required Kubernetes API request failed; check access and connectivity"
BOUNDS = "action refused: safety inputs exceed inspection bounds"
PLACEMENT = "action refused: placement sources and derived services cannot be mutated"

RESULT = {
    "apiVersion": "cli.ome.io/v1alpha1",
    "kind": "ActionResult",
    "collectedAt": "2026-09-28T14:03:12.418207153Z",
    "action": "instance release-held",
    "target": {
        "kind": "InferenceReplica",
        "namespace": "prod",
        "name": "chat-engine",
        "uid": REPLICA_UID,
        "resourceVersion": "184213",
    },
    "dryRun": "none",
    "revisionHash": "7f9c4d2b",
    "accepted": True,
    "applied": True,
    "message": "API accepted release annotation request; controller release/convergence not observed.",
    "followUp": "kubectl ome instance retry-blocks chat --component=engine -n prod --context=prod-cluster",
}


@pytest.fixture
def held(cluster: StubCluster) -> StubCluster:
    """The walkthrough's cluster: `chat` with one Held revision."""
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(blocks=[block()]))
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec()))
    return cluster


def edit_replica(cluster: StubCluster, edit: Callable[[dict[str, Any]], Any], name: str = "chat-engine") -> None:
    cluster.change(INFERENCE_REPLICAS, name, "prod", edit)


def assert_refused(ran: Ran, cluster: StubCluster, message: str, code: int = 1) -> None:
    assert ran.err.endswith(f"error: {message}\n")
    assert (ran.code, ran.out) == (code, "")
    assert cluster.sent("PATCH") == []


# -- the good ending ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("CI-25", "CR-25", "CR-31")
def test_the_json_result_is_the_walkthroughs_byte_for_byte(held: StubCluster, tool: Tool) -> None:
    ran = tool(*RELEASE, "--yes", "-o", "json")
    assert ran.code == 0
    assert ran.out == json.dumps(RESULT, indent=2) + "\n"


@pytest.mark.spec("CI-19", "CI-22")
@pytest.mark.parametrize("revision_flag", [HELD, "7f9c4d2b"])
def test_one_json_patch_is_sent_with_the_full_name(held: StubCluster, tool: Tool, revision_flag: str) -> None:
    ran = tool(
        "instance", "release-held", "chat", "--component=engine", f"--revision={revision_flag}", "--yes", "-o=json"
    )
    assert ran.json["revisionHash"] == "7f9c4d2b"
    (call,) = held.sent("PATCH")
    assert call.headers["content-type"] == "application/json-patch+json"
    assert call.path == "/apis/ome.io/v1beta1/namespaces/prod/inferencereplicas/chat-engine"
    assert call.body == [
        {"op": "test", "path": "/metadata/uid", "value": REPLICA_UID},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "184213"},
        {"op": "add", "path": "/metadata/annotations/ome.io~1release-held-revision", "value": HELD},
    ]
    stored = held.read(INFERENCE_REPLICAS, "chat-engine", "prod")["metadata"]["annotations"]
    assert stored["ome.io/release-held-revision"] == HELD


@pytest.mark.spec("CI-26", "CI-12")
@pytest.mark.parametrize("output", ["table", "wide"])
def test_the_table_result_cuts_values_at_56(held: StubCluster, tool: Tool, output: str) -> None:
    assert tool(*RELEASE, "--yes", "-o", output).out == (
        "FIELD           VALUE\n"
        "action          instance release-held\n"
        "target          InferenceReplica/prod/chat-engine\n"
        "dry-run         none\n"
        "accepted        Yes\n"
        "applied         Yes\n"
        "request-id      -\n"
        "revision-hash   7f9c4d2b\n"
        "message         API accepted release annotation request; controller r...\n"
        "follow-up       kubectl ome instance retry-blocks chat --component=en...\n"
        "hint            Use -o json or -o yaml for full values.\n"
    )


@pytest.mark.spec("CI-27")
def test_the_preview_is_exact_and_goes_to_stderr(held: StubCluster, tool: Tool) -> None:
    ran = tool(*RELEASE, "--yes", "-o", "json")
    assert ran.err == (
        "HELD RELEASE PREVIEW   VALUE\n"
        "Action                 Alpha instance release-held\n"
        "Context                prod-cluster\n"
        "Workload NS            prod\n"
        "OME NS                 ome\n"
        "Parent                 InferenceService/chat\n"
        f"Parent UID             {SERVICE_UID}\n"
        "Parent RV              184100\n"
        "Parent generation      2\n"
        "Global parent status   2 advisory Unverifiable; not acknowledgement\n"
        "Component              engine\n"
        "Target                 InferenceReplica/chat-engine\n"
        f"IR UID                 {REPLICA_UID}\n"
        "IR RV                  184213\n"
        "IR generation          4\n"
        "Native observed        4\n"
        "Parent stamp           2\n"
        f"Revision               {HELD}\n"
        "Hash                   7f9c4d2b\n"
        "State                  Held\n"
        "Attempts               3\n"
        "Dry-run                none\n"
        "Pause depth            none\n"
        "Membership             1 IRs / 1 pages\n"
        f"Test UID               {REPLICA_UID}\n"
        "Test RV                184213\n"
        "Add annotation         ome.io/release-held-revision\n"
        f"Exact value            {HELD}\n"
        "Controller stamp       existing controller-write=true preserved\n"
        "Pause effect           Mailbox may be consumed; release does not resume work\n"
        "Held check             Actor initial snapshot; fresh removal does not recheck\n"
        "Consumption            Fresh delete is not handled value/UID compare-and-delete\n"
        "Later observation      Both absent on original UID is consistent, not attribution\n"
        "Scope                  One IR release request; no spec/status/scale mutation\n"
        "Acceptance             Not release, retry, garbage collection or availability\n"
        "Race                   IR CAS is not a parent/runtime/membership transaction\n"
        "Actor limits           Consumption has no durable request-correlated receipt\n"
        "Actor retention        Historical retry records may be retention-pruned\n"
    )


@pytest.mark.spec("CI-44")
@pytest.mark.parametrize("depth", ["true", "freeze"])
def test_a_paused_service_may_be_released_and_the_preview_says_so(held: StubCluster, tool: Tool, depth: str) -> None:
    held.put(INFERENCE_SERVICES, service(metadata={"annotations": {"ome.io/rollout-paused": depth}}))
    ran = tool(*RELEASE, "--yes")
    assert ran.code == 0
    assert f"\nPause depth            {depth}\n" in ran.err


# -- dry runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CI-23", "CR-13")
def test_a_client_dry_run_reads_twice_and_sends_nothing(held: StubCluster, tool: Tool) -> None:
    ran = tool(*RELEASE, "--yes", "--dry-run", "client", "-o", "json")
    assert (ran.json["accepted"], ran.json["applied"]) == (False, False)
    assert ran.json["message"] == "Validated locally; no patch sent."
    assert held.sent("PATCH") == []
    reads = [call.path for call in held.sent("GET") if call.path.endswith("/inferenceservices/chat")]
    assert len(reads) == 2


@pytest.mark.spec("CI-24", "CI-54", "CR-13")
@pytest.mark.parametrize("flags", [("--dry-run", "server"), ("--dry-run=server",)])
def test_a_server_dry_run_stores_nothing(held: StubCluster, tool: Tool, flags: tuple[str, ...]) -> None:
    ran = tool(*RELEASE, "--yes", *flags, "-o", "json")
    assert (ran.json["dryRun"], ran.json["accepted"], ran.json["applied"]) == ("server", True, False)
    assert ran.json["message"] == "API dry-run accepted; no changes persisted."
    assert held.sent("PATCH")[0].query["dryRun"] == "All"
    annotations = held.read(INFERENCE_REPLICAS, "chat-engine", "prod")["metadata"]["annotations"]
    assert "ome.io/release-held-revision" not in annotations


# -- flags -------------------------------------------------------------------------------------------------------------

IDENTITY = "InferenceService and revision identities are required and must be safe"
FLAGS = [
    ("unknown flag", (*RELEASE, "--nope"), "invalid held-release action flags; use --help"),
    ("two services", (*RELEASE, "other"), "invalid held-release action flags; use --help"),
    ("output", (*RELEASE, "-o", "name"), "output must be table, wide, json or yaml"),
    ("dry run", (*RELEASE, "--dry-run", "maybe"), "dry-run must be none, client or server"),
    (
        "no component",
        ("instance", "release-held", "chat", "--revision", HELD),
        "component must be engine, decoder or router",
    ),
    ("no revision", ("instance", "release-held", "chat", "--component", "engine"), IDENTITY),
    ("empty revision", (*RELEASE[:-1], ""), IDENTITY),
    ("alias", (*RELEASE[:-1], "chat-#4c6a152e"), IDENTITY),
    ("upper-case hash", (*RELEASE[:-1], "7F9C4D2B"), IDENTITY),
    ("ome namespace", (*RELEASE, "--ome-namespace", "O_o"), "action OME namespace is invalid"),
    ("namespace", (*RELEASE, "-n", "Not_One"), "held-release action namespaces are invalid"),
]


@pytest.mark.spec("CI-20", "CI-21", "CI-48", "CR-2")
@pytest.mark.parametrize(("what", "arguments", "message"), FLAGS, ids=[what for what, *_ in FLAGS])
def test_flags_are_refused_before_any_request(
    held: StubCluster, tool: Tool, what: str, arguments: tuple[str, ...], message: str
) -> None:
    assert_refused(tool(*arguments, "--yes"), held, message)
    assert held.calls == []


def test_an_unknown_context_is_refused(held: StubCluster, tool: Tool) -> None:
    assert_refused(tool(*RELEASE, "--yes", "--context", "nope"), held, "selected context is unavailable or unsafe")


# -- refusals ----------------------------------------------------------------------------------------------------------


REPLICA_REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("no such block", replica(blocks=[block("chat-engine-00000000")]), NOT_RELEASABLE),
    ("no blocks", replica(), NOT_RELEASABLE),
    ("backoff", replica(blocks=[block(state="Backoff", nextRetryAt="2026-09-28T14:05:00Z")]), NOT_RELEASABLE),
    ("running", replica(blocks=[block(state="RetryInProgress")]), NOT_RELEASABLE),
    ("stale", replica(blocks=[block()], status={"observedGeneration": 3}), NOT_RELEASABLE),
    ("parent behind", replica(blocks=[block()], metadata={"annotations": {"ome.io/parent-generation": "1"}}),
    NOT_RELEASABLE),
    ("deleting", replica(blocks=[block()], metadata={"deletionTimestamp": "2026-09-28T14:00:00Z"}), NOT_RELEASABLE),
    ("not the controller's", replica(blocks=[block()], metadata={"annotations": {"ome.io/controller-write": None}}),
     NOT_RELEASABLE),
    ("no owner", replica(blocks=[block()], metadata={"ownerReferences": []}), NOT_RELEASABLE),
    ("other parent", replica(blocks=[block()], spec={"parentRef": {"name": "other"}}), NOT_RELEASABLE),
    ("malformed second block", replica(blocks=[block(), block("chat-engine-XX")]), NOT_RELEASABLE),
    ("failure one second ahead", replica(blocks=[block(lastFailureAt="2026-09-28T14:03:13Z")]), NOT_RELEASABLE),
    ("pacing-only block beside it", replica(blocks=[block(), block("chat-engine-00000001", attemptsStarted=None,
     state="Backoff", nextRetryAt="2026-09-28T14:05:00Z")]), NOT_RELEASABLE),
    ("mailbox", replica(blocks=[block()], metadata={"annotations": {"ome.io/release-held-revision": HELD}}),
     "action refused: a release-held mailbox is already present; inspect instance retry-blocks"),
    ("mailbox of another revision", replica(blocks=[block()], metadata={
        "annotations": {"ome.io/release-held-revision": "chat-engine-00000001"}}),
     "action refused: a release-held mailbox is already present; inspect instance retry-blocks"),
    ("empty mailbox", replica(blocks=[block()], metadata={"annotations": {"ome.io/release-held-revision": ""}}),
     "action refused: a release-held mailbox is already present; inspect instance retry-blocks"),
    ("mailbox and no block", replica(metadata={"annotations": {"ome.io/release-held-revision": HELD}}),
     "action refused: a release-held mailbox is already present; inspect instance retry-blocks"),
    ("unknown encoding", replica(blocks=[block()], status={"instanceStatusEncoding": "Rot13"}), SAFETY),
    ("columns without marker", replica(blocks=[block()], status={"instanceStatusColumns": {"members": "0"}}), SAFETY),
    ("marker without columns", replica(blocks=[block()], status={"instanceStatusEncoding": "ColumnarV2"}), SAFETY),
    ("too many annotations", replica(blocks=[block()], metadata={
        "annotations": {f"x/{n}": "" for n in range(257)}}), BOUNDS),
    ("too many rows", replica(blocks=[block()], status={
        "instanceStatuses": [{"index": n, "phase": "Ready"} for n in range(2049)]}), BOUNDS),
    ("too many migrations", replica(blocks=[block()], status={"migrations": [{}] * 257}), BOUNDS),
    ("placed", replica(blocks=[block()], metadata={"labels": {"ome.io/placement-origin": "a"}}), PLACEMENT),
]  # fmt: skip


@pytest.mark.spec("CI-30", "CI-29", "CI-31", "CI-33", "CI-34", "CI-51")
@pytest.mark.parametrize(("what", "stored", "message"), REPLICA_REFUSALS, ids=[what for what, *_ in REPLICA_REFUSALS])
def test_a_replica_that_is_not_safe_is_refused(
    held: StubCluster, tool: Tool, what: str, stored: dict[str, Any], message: str
) -> None:
    held.put(INFERENCE_REPLICAS, stored)
    assert_refused(tool(*RELEASE, "--yes"), held, message)


SERVICE_REFUSALS = [
    ("no uid", {"metadata": {"uid": None}}, "action refused: target identity is missing or unsafe"),
    (
        "unsafe version",
        {"metadata": {"resourceVersion": "1\u202e2"}},
        "action refused: target identity is missing or unsafe",
    ),
    ("no generation", {"metadata": {"generation": None}}, "action refused: target identity is missing or unsafe"),
    (
        "deleting",
        {"metadata": {"deletionTimestamp": "2026-09-28T14:00:00Z"}},
        "action refused: target is being deleted",
    ),
    ("annotations", {"metadata": {"annotations": {f"x/{n}": "" for n in range(257)}}}, BOUNDS),
    ("labels", {"metadata": {"labels": {f"x/{n}": "" for n in range(257)}}}, BOUNDS),
    ("finalizers", {"metadata": {"finalizers": [f"x/{n}" for n in range(65)]}}, BOUNDS),
    ("owners", {"metadata": {"ownerReferences": [{"name": str(n)} for n in range(17)]}}, BOUNDS),
    ("conditions", {"status": {"conditions": [{"type": f"c{n}"} for n in range(65)]}}, BOUNDS),
    ("size", {"metadata": {"annotations": {"x/y": "z" * (1 << 20)}}}, BOUNDS),
    ("placement", {"spec": {"placement": {"policy": "Any"}}}, PLACEMENT),
    ("placement status", {"status": {"placement": {}}}, PLACEMENT),
    ("placement finalizer", {"metadata": {"finalizers": ["ome.io/placement"]}}, PLACEMENT),
    ("no OMENative component", {"spec": {"deploymentMode": "RawDeployment"}}, RUNTIME_REFUSED),
]


@pytest.mark.spec("CI-30")
@pytest.mark.parametrize(("what", "changes", "message"), SERVICE_REFUSALS, ids=[what for what, *_ in SERVICE_REFUSALS])
def test_a_service_that_is_not_safe_is_refused(
    held: StubCluster, tool: Tool, what: str, changes: dict[str, Any], message: str
) -> None:
    held.put(INFERENCE_SERVICES, service(**changes))
    assert_refused(tool(*RELEASE, "--yes"), held, message)


@pytest.mark.spec("CI-30")
def test_more_than_32_replicas_are_too_many(held: StubCluster, tool: Tool) -> None:
    for number in range(33):
        held.put(INFERENCE_REPLICAS, replica(metadata={"name": f"x-{number}", "uid": f"u-{number}"}))
    assert_refused(tool(*RELEASE, "--yes"), held, BOUNDS)


@pytest.mark.spec("CI-30")
def test_a_component_claimed_twice_is_refused(held: StubCluster, tool: Tool) -> None:
    held.put(INFERENCE_REPLICAS, replica(metadata={"name": "zz", "uid": "u2"}))
    assert_refused(tool(*RELEASE, "--yes"), held, NOT_RELEASABLE)


@pytest.mark.spec("CI-30")
def test_a_component_without_a_replica_is_refused(held: StubCluster, tool: Tool) -> None:
    held.remove(INFERENCE_REPLICAS, "chat-engine", "prod")
    assert_refused(tool(*RELEASE, "--yes"), held, NOT_RELEASABLE)


@pytest.mark.spec("CI-21")
def test_a_seven_digit_hash_matches_nothing(held: StubCluster, tool: Tool) -> None:
    assert_refused(tool(*RELEASE[:-1], "7f9c4d2", "--yes"), held, NOT_RELEASABLE)


@pytest.mark.spec("CI-32")
def test_a_stale_decoder_refuses_an_engine_release(held: StubCluster, tool: Tool) -> None:
    held.put(INFERENCE_SERVICES, service(spec={"decoder": {}}))
    held.put(INFERENCE_REPLICAS, replica("decoder", status={"observedGeneration": 3}))
    assert_refused(tool(*RELEASE, "--yes"), held, NOT_RELEASABLE)


@pytest.mark.spec("CI-56")
def test_a_service_edited_while_its_replicas_wait_is_refused(held: StubCluster, tool: Tool) -> None:
    held.put(INFERENCE_SERVICES, service(metadata={"generation": 3}))
    assert_refused(tool(*RELEASE, "--yes"), held, NOT_RELEASABLE)
    assert "PARENT_STALE" in tool("instance", "retry-blocks", "chat", "--component", "engine").out


@pytest.mark.spec("CI-30")
def test_a_replica_that_changes_between_list_and_get_is_refused(held: StubCluster, tool: Tool) -> None:
    held.before("GET", "/inferencereplicas/chat-engine", lambda: edit_replica(held, lambda obj: None))
    assert_refused(tool(*RELEASE, "--yes"), held, SAFETY)


@pytest.mark.spec("CI-50")
def test_a_deleted_runtime_is_refused(held: StubCluster, tool: Tool) -> None:
    held.remove(CLUSTER_SERVING_RUNTIMES, "srt-qwen3-0-6b")
    assert_refused(tool(*RELEASE, "--yes"), held, RUNTIME_REFUSED)


@pytest.mark.spec("CI-50")
def test_a_disabled_runtime_is_refused(held: StubCluster, tool: Tool) -> None:
    held.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec(disabled=True)))
    assert_refused(tool(*RELEASE, "--yes"), held, RUNTIME_REFUSED)


@pytest.mark.spec("CI-50")
def test_a_runtime_this_identity_may_not_read_is_refused(held: StubCluster, tool: Tool) -> None:
    held.always("GET", "/clusterservingruntimes/", status(403, "Forbidden", "no"))
    assert_refused(tool(*RELEASE, "--yes"), held, RUNTIME_REFUSED)


@pytest.mark.spec("CI-42")
def test_a_wrong_ome_namespace_with_a_pinned_runtime_is_refused(held: StubCluster, tool: Tool) -> None:
    pin = {"spec": {"runtime": {"autoSync": False}}, "status": {"pinnedRevisionName": "cr-srt-qwen3-0-6b-590753e8"}}
    held.put(INFERENCE_SERVICES, service(**pin))
    held.put(CONTROLLER_REVISIONS, revision("srt-qwen3-0-6b", runtime_spec()))
    assert_refused(tool(*RELEASE, "--yes", "--ome-namespace", "nowhere"), held, RUNTIME_REFUSED)
    assert tool(*RELEASE, "--yes").code == 0


@pytest.mark.spec("CI-43")
def test_a_missing_service_fails_the_read(held: StubCluster, tool: Tool) -> None:
    assert_refused(tool("instance", "release-held", "none", *RELEASE[3:], "--yes"), held, READ_FAILED)


def test_an_unreachable_server_fails_the_read(held: StubCluster, tool: Tool) -> None:
    assert_refused(tool(*RELEASE, "--yes", "--server", "http://127.0.0.1:1"), held, READ_FAILED)


# -- between preview and patch -----------------------------------------------------------------------------------------


def annotate(obj: dict[str, Any]) -> None:
    obj["metadata"].setdefault("annotations", {})["tick"] = "1"


@pytest.mark.spec("CI-35", "CI-36", "CR-15")
@pytest.mark.parametrize("what", ["replica", "service", "runtime", "sibling status", "read right"])
def test_anything_that_changes_after_the_preview_makes_it_stale(held: StubCluster, tool: Tool, what: str) -> None:
    held.put(INFERENCE_SERVICES, service(spec={"decoder": {}}))
    held.put(INFERENCE_REPLICAS, replica("decoder"))
    changes: dict[str, Callable[[], Any]] = {
        "replica": lambda: edit_replica(held, annotate),
        "service": lambda: held.change(INFERENCE_SERVICES, "chat", "prod", annotate),
        "runtime": lambda: held.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec("0.85"))),
        "sibling status": lambda: edit_replica(held, lambda obj: obj["status"].update(replicas=4), "chat-decoder"),
        "read right": lambda: held.always("GET", "/inferencereplicas", status(403, "Forbidden", "no")),
    }
    held.before("GET", "/inferenceservices/chat", changes[what], nth=2)
    assert_refused(tool(*RELEASE, "--yes"), held, STALE, 3)


@pytest.mark.spec("CI-36")
def test_a_live_runtime_edited_under_a_pin_makes_the_preview_stale(held: StubCluster, tool: Tool) -> None:
    stored = revision("srt-qwen3-0-6b", runtime_spec())
    pin = {
        "spec": {"runtime": {"autoSync": False}},
        "status": {"pinnedRevisionName": stored["metadata"]["name"]},
    }
    held.put(INFERENCE_SERVICES, service(**pin))
    held.put(CONTROLLER_REVISIONS, stored)

    def change() -> None:
        held.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec("0.85")))

    held.before("GET", "/inferenceservices/chat", change, nth=2)
    assert_refused(tool(*RELEASE, "--yes"), held, STALE, 3)


@pytest.mark.spec("CI-37")
def test_a_second_read_that_takes_the_rest_of_the_45_seconds_is_a_timeout(held: StubCluster, tool: Tool) -> None:
    held.before("GET", "/inferenceservices/chat", lambda: tool.time.sleep(46), nth=2)
    assert_refused(tool(*RELEASE, "--yes"), held, "context deadline exceeded")


@pytest.mark.spec("CI-38", "CR-15")
def test_a_change_between_re_read_and_patch_is_rejected_by_the_tests(held: StubCluster, tool: Tool) -> None:
    held.before("PATCH", "/inferencereplicas/", lambda: edit_replica(held, annotate))
    ran = tool(*RELEASE, "--yes")
    assert ran.err.endswith("error: guarded held-release rejected; inspect instance retry-blocks\n")
    assert (ran.code, ran.out, len(held.sent("PATCH"))) == (3, "", 1)


@pytest.mark.spec("CI-38")
@pytest.mark.parametrize("code", [409, 412])
def test_a_conflict_answer_is_a_rejection(held: StubCluster, tool: Tool, code: int) -> None:
    held.always("PATCH", "/inferencereplicas/", status(code, "Conflict", "changed", {"name": "chat-engine"}))
    assert tool(*RELEASE, "--yes").code == 3


@pytest.mark.spec("CI-39", "CR-16", "CI-53")
@pytest.mark.parametrize(
    "answer",
    [
        status(403, "Forbidden", "no patch", {"name": "chat-engine"}),
        status(500, "InternalError", "webhook did not answer"),
        status(422, "Invalid", "spec is wrong", {"name": "chat-engine", "causes": [{"field": "spec"}]}),
        Answer(drop=True),
    ],
    ids=["403", "500", "invalid", "connection lost"],
)
def test_any_other_failure_of_the_patch_leaves_the_outcome_unknown(
    held: StubCluster, tool: Tool, answer: Answer
) -> None:
    held.always("PATCH", "/inferencereplicas/", answer)
    ran = tool(*RELEASE, "--yes")
    assert ran.err.endswith(f"error: {UNKNOWN}\n")
    assert (ran.code, ran.out, len(held.sent("PATCH"))) == (1, "", 1)


@pytest.mark.spec("CI-40")
@pytest.mark.parametrize("change", [{"uid": "other"}, {"name": "other"}, {"resourceVersion": ""}])
def test_an_answer_for_another_object_is_unbound(held: StubCluster, tool: Tool, change: dict[str, str]) -> None:
    held.always("PATCH", "/inferencereplicas/", Answer(body=replica(metadata=change)))
    ran = tool(*RELEASE, "--yes")
    assert ran.err.endswith(
        "error: held-release API response is unbound or unavailable; outcome unknown, inspect instance retry-blocks\n"
    )
    assert (ran.code, ran.out) == (1, "")


# -- the prompt --------------------------------------------------------------------------------------------------------


@contextmanager
def terminal(answer: bytes | None) -> Iterator[Any]:
    """A terminal at which somebody types `answer`; None keeps silent."""
    master, slave = pty.openpty()
    stdin = os.fdopen(slave, "r")
    if answer is not None:
        os.write(master, answer)
    try:
        yield stdin
    finally:
        stdin.close()
        os.close(master)


@pytest.mark.spec("CI-28")
@pytest.mark.parametrize("answer", [b"y\n", b"YES\n", b"Yes\n"])
def test_a_yes_at_the_prompt_goes_on(held: StubCluster, tool: Tool, answer: bytes) -> None:
    with terminal(answer) as stdin:
        ran = tool(*RELEASE, stdin=stdin)
    assert ran.err.endswith("Confirm this exact action? [y/N] ")
    assert ran.code == 0


@pytest.mark.spec("CI-28")
@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"\x04", b"maybe\n"])
def test_anything_else_at_the_prompt_sends_nothing(held: StubCluster, tool: Tool, answer: bytes) -> None:
    with terminal(answer) as stdin:
        assert_refused(tool(*RELEASE, stdin=stdin), held, NOT_CONFIRMED)


@pytest.mark.spec("CI-28", "CI-55", "CR-14")
@pytest.mark.parametrize("piped", ["", "yes\nyes\n"])
def test_without_a_terminal_nothing_is_asked_and_nothing_sent(held: StubCluster, tool: Tool, piped: str) -> None:
    ran = tool(*RELEASE, stdin=io.StringIO(piped))
    assert ran.err.startswith("HELD RELEASE PREVIEW")
    assert "Confirm" not in ran.err
    assert_refused(ran, held, NOT_CONFIRMED)


@pytest.mark.spec("CI-41")
def test_silence_at_the_prompt_ends_with_the_45_seconds(held: StubCluster, tool: Tool) -> None:
    with terminal(None) as stdin:
        # The prompt waits in real time for what virtual time leaves: all but a moment of the 45 s.
        held.before("GET", "/inferencereplicas/chat-engine", lambda: tool.time.sleep(44.95))
        ran = tool(*RELEASE, stdin=stdin)
    assert_refused(ran, held, "context deadline exceeded")
    assert "Confirm this exact action? [y/N] " in ran.err


@pytest.mark.spec("CI-55")
def test_yes_works_with_stdin_closed(held: StubCluster, tool: Tool) -> None:
    closed = io.StringIO()
    closed.close()
    assert tool(*RELEASE, "--yes", stdin=closed).code == 0
