"""`runtime effective`, `history` and `sync` over HTTP against a scripted API server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ome.cli.evidence.history import alias
from ome.kube.resources import (
    CLUSTER_BASE_MODELS,
    CONTROLLER_REVISIONS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
)
from tests.support.cli_objects import (
    LLAMA,
    LLAMA_NAMESPACE,
    LLAMA_RUNTIME,
    REVISION_A,
    REVISION_B,
    drifted,
    merged,
    model,
    pinned_service,
    replica,
    revision,
    runtime,
    runtime_spec,
)
from tests.support.cli_server import Answer, Ran, StubCluster, Tool, status, write_kubeconfig

UNSAFE = "action refused: managed runtime sync safety evidence is unavailable or inconsistent"
MAILBOX = "action refused: a rollout promote or rollback mailbox is present"
EVIDENCE = "action refused: controller safety evidence is stale or inconsistent"
CHANGED = "runtime sync safety snapshot changed; refresh runtime effective and retry explicitly"
REJECTED = "guarded annotation patch rejected; refresh runtime effective and retry explicitly"
UNKNOWN = "runtime sync request outcome unknown; check runtime effective; do not replay"
READ_FAILED = "required Kubernetes API request failed; check access and connectivity"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

DRIFTED = pinned_service(status={"conditions": [drifted()]})
SYNC = ("runtime", "sync", LLAMA)


@pytest.fixture
def tool(cluster: StubCluster, tmp_path: Path) -> Tool:
    return Tool(cluster, write_kubeconfig(tmp_path, cluster, namespace=LLAMA_NAMESPACE))


def stage(cluster: StubCluster, fraction: str = "0.85", service: dict[str, Any] | None = None, **spec: Any) -> None:
    """The walkthrough after its second step: pinned to A, the live runtime edited."""
    cluster.put(INFERENCE_SERVICES, service or DRIFTED)
    cluster.put(SERVING_RUNTIMES, runtime(LLAMA_RUNTIME, runtime_spec(fraction, **spec), LLAMA_NAMESPACE))
    cluster.put(CONTROLLER_REVISIONS, revision(LLAMA_RUNTIME, runtime_spec(), LLAMA_NAMESPACE))
    cluster.put(CLUSTER_BASE_MODELS, model())


def assert_refused(ran: Ran, cluster: StubCluster, message: str, code: int = 1) -> None:
    assert ran.err.endswith(f"error: {message}\n")
    assert (ran.code, ran.out) == (code, "")
    assert cluster.sent("PATCH") == []


# -- effective ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CR-6")
def test_effective_of_the_drifted_walkthrough(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    ran = tool("runtime", "effective", LLAMA)
    assert (ran.code, ran.err) == (0, "")
    lines = [re.split(r"\s{3,}", line) for line in ran.out.splitlines()]
    for expected in (
        ["SCOPE", "FIELD", "VALUE"],
        ["Live", "RUNTIME", "SR/llama-demo/sglang-llama-3-2-3b"],
        ["Live", "HASH", "af9539ac"],
        ["Active", "REVISION", REVISION_A],
        ["Active", "HASH", "590753e8"],
        ["Service", "PIN", "ManagedPin/Resolved"],
        ["Service", "SYNC", "Absent"],
        ["Service", "DRIFT", "ReportedTrue/RevisionMismatch"],
        ["Service", "LIVE-RELATION", "Different"],
    ):
        assert expected in lines


@pytest.mark.spec("MA-10")
def test_revisions_of_another_ome_namespace_need_its_name(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.remove(CONTROLLER_REVISIONS, REVISION_A, "ome")
    moved = revision(LLAMA_RUNTIME, runtime_spec(), LLAMA_NAMESPACE, metadata={"namespace": "other"})
    cluster.put(CONTROLLER_REVISIONS, moved)
    assert "ManagedPin/RevisionMissing" in tool("runtime", "effective", LLAMA).out
    assert "ManagedPin/Resolved" in tool("runtime", "effective", LLAMA, "--ome-namespace", "other").out
    assert "RevisionNotFound" in tool("runtime", "history", LLAMA, "-o", "wide").out
    assert "RevisionNotFound" not in tool("runtime", "history", LLAMA, "-o", "wide", "--ome-namespace=other").out


def test_effective_json_has_selection_and_chain_and_no_spec(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    document = tool("runtime", "effective", LLAMA, "-o", "json").json
    assert document["kind"] == "RuntimeEffectiveReport"
    assert document["metadata"] == {"namespace": LLAMA_NAMESPACE, "name": LLAMA}
    assert document["content"]["selection"]["mode"] == "Explicit"
    assert document["content"]["inheritance"]["chain"] == [
        {"kind": "ServingRuntime", "name": LLAMA_RUNTIME, "namespace": LLAMA_NAMESPACE}
    ]
    assert document["content"]["live"]["hash"] == "af9539ac"


def test_a_model_the_runtime_does_not_declare_is_an_issue(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(spec={"runtime": {"autoSync": True}}, status={"pinnedRevisionName": None}))
    assert "DeclaredCompatibilityMismatch" not in tool("runtime", "effective", LLAMA).out
    cluster.put(CLUSTER_BASE_MODELS, model(modelParameterSize="70B"))
    assert "DeclaredCompatibilityMismatch" in tool("runtime", "effective", LLAMA).out


def test_an_automatic_choice_is_shown_as_the_live_view(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(spec={"runtime": None}, status={"pinnedRevisionName": None}))
    document = tool("runtime", "effective", LLAMA, "-o", "json").json
    assert document["content"]["selection"] == {"mode": "Selected", "runtime": "SR/llama-demo/sglang-llama-3-2-3b"}
    assert document["content"]["service"]["pinMode"] == "AutoSync"


@pytest.mark.spec("CR-2")
def test_a_missing_service_is_an_error_of_one_line(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("runtime", "effective", "none")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == 'error: get InferenceService: inferenceservices.ome.io "none" not found\n'
    assert tool("runtime", "effective", "No_Name").err.startswith('error: InferenceService name "No_Name" is invalid: ')


# -- history -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CR-10", "CR-27")
def test_history_wide_lists_full_names_newest_first(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(REVISION_B))
    cluster.put(
        CONTROLLER_REVISIONS,
        revision(LLAMA_RUNTIME, runtime_spec("0.85"), LLAMA_NAMESPACE, created="2026-09-28T14:17:13Z"),
    )
    source = "ServingRuntime/llama-demo/sglang-llama-3-2-3b"
    assert tool("runtime", "history", LLAMA, "-o", "wide").out == (
        "OBSERVATION   COMPLETENESS       PAGES   REVISION                                    CREATED                "
        "HASH       ROLES                     SOURCE                                          CONSISTENCY   "
        "RELATION          REVISION-ISSUES   REPORT-ISSUES\n"
        f"Complete      RetentionBounded   1/1     {REVISION_B}   2026-09-28T14:17:13Z   af9539ac   "
        f"Active,Reported,History   {source}   Consistent    MatchesLive       -                 -\n"
        f"Complete      RetentionBounded   1/1     {REVISION_A}   2026-09-28T14:15:57Z   590753e8   "
        f"History                   {source}   Consistent    DiffersFromLive   -                 -\n"
    )
    assert tool("runtime", "history", LLAMA).out == (
        "WINDOW    REVISION         CREATED           ROLES   CHECK   LIVE    ISSUES\n"
        "C/B/1/1   r-...#daecf07f   26-09-28T14:17Z   ARH     OK      MATCH   R0/G0\n"
        "C/B/1/1   r-...#1cd9e1bc   26-09-28T14:15Z   H       OK      DIFF    R0/G0\n"
    )


@pytest.mark.spec("CR-10")
def test_revisions_of_the_same_second_are_ordered_by_version(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(REVISION_B))
    newer = revision(LLAMA_RUNTIME, runtime_spec("0.85"), LLAMA_NAMESPACE, metadata={"resourceVersion": "1001"})
    cluster.put(CONTROLLER_REVISIONS, newer)
    names = [line.split()[3] for line in tool("runtime", "history", LLAMA, "-o", "wide").out.splitlines()[1:]]
    assert names == [REVISION_B, REVISION_A]


@pytest.mark.spec("CR-10")
def test_a_requested_revision_is_marked(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(spec={"runtime": {"revision": REVISION_A}}))
    document = tool("runtime", "history", LLAMA, "-o", "json").json
    assert document["content"]["revisions"][0]["roles"] == ["Active", "Requested", "Reported", "History"]


@pytest.mark.spec("CR-10")
def test_a_foreign_revision_of_the_same_name_is_flagged(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.put(CONTROLLER_REVISIONS, revision(LLAMA_RUNTIME, runtime_spec("0.7"), "other-team"))
    lines = tool("runtime", "history", LLAMA, "-o", "wide").out.splitlines()
    assert [("RevisionSourceMismatch" in line) for line in lines if "r-other-team-" in line] == [True]
    assert [("RevisionSourceMismatch" in line) for line in lines if REVISION_A in line] == [False]


def test_no_revisions_still_print_the_window(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=pinned_service(spec={"runtime": {"autoSync": True}}, status={"pinnedRevisionName": None}))
    cluster.remove(CONTROLLER_REVISIONS, REVISION_A, "ome")
    assert tool("runtime", "history", LLAMA).out.splitlines()[1].split() == [
        "C/B/1/1",
        "-",
        "-",
        "-",
        "-",
        "-",
        "R0/G0",
    ]
    cluster.always("GET", "/controllerrevisions", status(403, "Forbidden", "no"))
    assert tool("runtime", "history", LLAMA).out.splitlines()[1].split() == [
        "U/I/0/1",
        "-",
        "-",
        "-",
        "-",
        "-",
        "R0/G1",
    ]


@pytest.mark.spec("CR-26")
@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("cr-vllm-llama-3c18f4a0", "cr...#1c63d586"),
        ("cr-vllm-llama-1baf272d", "cr...#fd54e47d"),
        (REVISION_A, "r-...#1cd9e1bc"),
        (REVISION_B, "r-...#daecf07f"),
        ("cr-a-590753e8", "cr-a-590753e8"),
    ],
)
def test_history_aliases(name: str, short: str) -> None:
    assert alias(name) == short


# -- sync --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CR-11", "CR-25")
def test_sync_sets_one_annotation_with_a_new_token(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    ran = tool(*SYNC, "--yes", "-o", "json")
    assert ran.code == 0
    document = ran.json
    assert UUID4.fullmatch(document["requestID"])
    assert list(document) == [
        "apiVersion", "kind", "collectedAt", "action", "target", "dryRun", "requestID", "revisionHash", "accepted",
        "applied", "message", "followUp",
    ]  # fmt: skip
    assert document["action"] == "runtime sync"
    assert document["revisionHash"] == "af9539ac"
    assert (document["accepted"], document["applied"]) == (True, True)
    assert document["message"] == "API accepted annotation request; consumption and convergence not observed."
    assert document["followUp"] == (
        f"kubectl ome runtime effective {LLAMA} -n llama-demo --context=prod-cluster --ome-namespace=ome"
    )
    token = f"cli-runtime-sync-{document['requestID']}"
    (call,) = cluster.sent("PATCH")
    assert call.body == [
        {"op": "test", "path": "/metadata/uid", "value": DRIFTED["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "900"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/ome.io~1runtime-sync", "value": token},
    ]
    assert cluster.read(INFERENCE_SERVICES, LLAMA, LLAMA_NAMESPACE)["metadata"]["annotations"] == {
        "ome.io/runtime-sync": token
    }


def test_an_old_token_is_tested_and_replaced(cluster: StubCluster, tool: Tool) -> None:
    old = {"metadata": {"annotations": {"ome.io/runtime-sync": "old"}}, "status": {"lastRuntimeSyncToken": "old"}}
    stage(cluster, service=merged(DRIFTED, old))
    assert tool(*SYNC, "--yes").code == 0
    (call,) = cluster.sent("PATCH")
    assert call.body[2] == {"op": "test", "path": "/metadata/annotations/ome.io~1runtime-sync", "value": "old"}
    assert call.body[3]["op"] == "replace"


def with_status(**changes: Any) -> dict[str, Any]:
    return merged(DRIFTED, {"status": changes})


SYNC_REFUSALS: list[tuple[str, Callable[[StubCluster], Any], str]] = [
    ("not drifted", lambda c: stage(c, "0.9", pinned_service()), UNSAFE),
    ("follows live", lambda c: stage(c, service=merged(DRIFTED, {"spec": {"runtime": {"autoSync": True}}})), UNSAFE),
    ("explicit revision",
     lambda c: stage(c, service=merged(DRIFTED, {"spec": {"runtime": {"revision": REVISION_A}}})), UNSAFE),
    ("token pending",
     lambda c: stage(c, service=merged(DRIFTED, {"metadata": {"annotations": {"ome.io/runtime-sync": "t"}}})), UNSAFE),
    ("drift not reported yet", lambda c: stage(c, service=pinned_service()), UNSAFE),
    ("live disabled", lambda c: stage(c, disabled=True), UNSAFE),
    ("foreign revisions", lambda c: (stage(c), c.put(CONTROLLER_REVISIONS,
     revision(LLAMA_RUNTIME, runtime_spec("0.7"), "other-team"))), UNSAFE),
    ("33 revisions", lambda c: (stage(c), c.put(CONTROLLER_REVISIONS, *(
        revision(LLAMA_RUNTIME, runtime_spec(f"0.{n}"), LLAMA_NAMESPACE) for n in range(100, 132)))), UNSAFE),
    ("revisions unreadable", lambda c: (stage(c), c.always(
        "GET", "/namespaces/ome/controllerrevisions", status(403, "Forbidden", "no"))), UNSAFE),
    ("runtime being deleted", lambda c: (stage(c), c.put(SERVING_RUNTIMES, runtime(
        LLAMA_RUNTIME, runtime_spec("0.85"), LLAMA_NAMESPACE, deletionTimestamp="2026-09-28T14:00:00Z"))), UNSAFE),
    ("active run", lambda c: stage(c, service=with_status(rollout={"activeRun": {"runID": "r"}})), EVIDENCE),
    ("rolled back", lambda c: stage(c, service=with_status(rollout={"lastRun": {"outcome": "RolledBack"}})), EVIDENCE),
    ("canary holds", lambda c: stage(c, service=with_status(canary={"rolledBackRevisionHash": "aa"})), EVIDENCE),
    *((f"mailbox {key}", lambda c, key=key: stage(c, service=merged(
        DRIFTED, {"metadata": {"annotations": {f"ome.io/rollout-{key}": "x"}}})), MAILBOX)
      for key in ("promote", "rollback", "repin")),
    ("being deleted", lambda c: stage(c, service=merged(
        DRIFTED, {"metadata": {"deletionTimestamp": "2026-09-28T14:00:00Z"}})),
     "action refused: target is being deleted"),
    ("no such service", lambda c: None, READ_FAILED),
]  # fmt: skip


@pytest.mark.spec("CR-12", "CR-28")
@pytest.mark.parametrize(("what", "prepare", "message"), SYNC_REFUSALS, ids=[what for what, *_ in SYNC_REFUSALS])
def test_sync_refuses(
    cluster: StubCluster, tool: Tool, what: str, prepare: Callable[[StubCluster], Any], message: str
) -> None:
    prepare(cluster)
    assert_refused(tool(*SYNC, "--yes"), cluster, message)


@pytest.mark.spec("CR-28")
def test_a_second_sync_at_once_is_refused_as_pending(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    assert tool(*SYNC, "--yes").code == 0
    ran = tool(*SYNC, "--yes")
    assert (ran.code, ran.err) == (1, f"error: {UNSAFE}\n")
    assert len(cluster.sent("PATCH")) == 1


NATIVE = merged(DRIFTED, {"spec": {"deploymentMode": "OMENative"}})


def native_replica(**changes: Any) -> dict[str, Any]:
    return replica(of=NATIVE, **changes)


NATIVE_REFUSALS: list[tuple[str, dict[str, Any] | None, str]] = [
    ("no replica", None, EVIDENCE),
    ("an operation", native_replica(status={"instanceStatuses": [
        {"index": n, "phase": "Updating", "operation": {"type": "Update"}} for n in range(3)]}), EVIDENCE),
    ("transient scale", native_replica(spec={"replicas": 4}), EVIDENCE),
    ("migration", native_replica(status={"migrations": [{"requestUUID": "u", "phase": "SurgePending"}]}), EVIDENCE),
    ("rollback pacing", native_replica(spec={"pacing": {"rollbackToRevision": "x"}}), EVIDENCE),
    ("retry blocks", native_replica(blocks=[{"targetRevision": "x", "state": "Held"}]), EVIDENCE),
    ("lag", native_replica(status={"observedGeneration": 3}), EVIDENCE),
    ("parent lag", native_replica(metadata={"annotations": {"ome.io/parent-generation": "0"}}), EVIDENCE),
    ("wrong name", native_replica(metadata={"name": "elsewhere"}), EVIDENCE),
    ("counts", native_replica(status={"readyReplicas": 4}), EVIDENCE),
    ("rows do not decode", native_replica(status={"instanceStatusEncoding": "Rot13"}), EVIDENCE),
    ("release mailbox", native_replica(metadata={"annotations": {"ome.io/release-held-revision": "x"}}), MAILBOX),
]  # fmt: skip


@pytest.mark.spec("CR-12")
@pytest.mark.parametrize(("what", "stored", "message"), NATIVE_REFUSALS, ids=[what for what, *_ in NATIVE_REFUSALS])
def test_sync_refuses_an_omenative_service_that_is_busy(
    cluster: StubCluster, tool: Tool, what: str, stored: dict[str, Any] | None, message: str
) -> None:
    stage(cluster, service=NATIVE)
    if stored is not None:
        cluster.put(INFERENCE_REPLICAS, stored)
    assert_refused(tool(*SYNC, "--yes"), cluster, message)


def test_sync_of_an_idle_omenative_service(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster, service=NATIVE)
    cluster.put(INFERENCE_REPLICAS, native_replica())
    assert tool(*SYNC, "--yes").code == 0


@pytest.mark.spec("CR-13")
@pytest.mark.parametrize(
    ("mode", "accepted", "message"),
    [
        ("client", False, "Validated locally; no patch sent."),
        ("server", True, "API dry-run accepted; no changes persisted."),
    ],
)
def test_sync_dry_runs(cluster: StubCluster, tool: Tool, mode: str, accepted: bool, message: str) -> None:
    stage(cluster)
    document = tool(*SYNC, "--yes", "--dry-run", mode, "-o", "json").json
    assert (document["accepted"], document["applied"], document["message"]) == (accepted, False, message)
    assert [call.query.get("dryRun") for call in cluster.sent("PATCH")] == ([] if mode == "client" else ["All"])
    assert "annotations" not in cluster.read(INFERENCE_SERVICES, LLAMA, LLAMA_NAMESPACE)["metadata"]


@pytest.mark.spec("CR-14")
def test_sync_without_a_terminal_shows_the_preview_and_stops(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    ran = tool(*SYNC)
    assert ran.err.startswith("ALPHA runtime sync preview (acceptance is not convergence)\n")
    assert_refused(ran, cluster, "action not confirmed; noninteractive input requires --yes")


@pytest.mark.spec("CR-17")
def test_sync_preview_rows_and_closing_lines(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    ran = tool(*SYNC, "--yes", "-o", "json")
    title, header, *lines = ran.err.splitlines()
    assert title == "ALPHA runtime sync preview (acceptance is not convergence)"
    assert header.split() == ["FIELD", "VALUE"]
    request_id = ran.json["requestID"]
    assert [tuple(re.split(r"\s{3,}", line, maxsplit=1)) for line in lines[:-6]] == [
        ("Action", "runtime sync"),
        ("Context", "prod-cluster"),
        ("Workload NS", "llama-demo"),
        ("OME NS", "ome"),
        ("Target", f"InferenceService/{LLAMA}"),
        ("UID", "8f7c1f43-90a2-4f37-8ad5-6f9a0f0b7d10"),
        ("ResourceVersion", "900"),
        ("Dry-run", "none"),
        ("Generation", "1"),
        ("Reported gen", "1"),
        ("Freshness", "Unverifiable (advisory global status)"),
        ("Pin", REVISION_A),
        ("Pin source", "ServingRuntime/llama-demo/sglang-llama-3-2-3b"),
        ("Source", "ServingRuntime/llama-demo/sglang-llama-3-2-3b"),
        ("Source UID", "uid-sglang-llama-3-2-3b"),
        ("Source RV", "77"),
        ("Source gen", "1"),
        ("Pin UID", "uid-590753e8"),
        ("Pin RV", "500"),
        ("Current hash", "590753e8"),
        ("Target hash", "af9539ac"),
        ("Predicted pin", REVISION_B),
        ("Target evidence", "NotFound"),
        ("Old sync token", "Absent"),
        ("Pause state", "Not recognized"),
        ("Request UUID", request_id),
        ("Set annotation", "ome.io/runtime-sync"),
        ("New token", f"cli-runtime-sync-{request_id}"),
    ]
    assert lines[-6:] == [
        "API acceptance is not convergence or serving-revision readiness.",
        "Requests latest merged live runtime when controller consumes the token.",
        "Previewed content is not locked by this annotation.",
        "Parent CAS is not an atomic transaction across runtimes, revisions and IRs.",
        "Global observed generation is advisory; freshness is Unverifiable.",
        "Existing pause/freeze and lifecycle/rollout policies remain in effect.",
    ]


@pytest.mark.spec("CR-17")
def test_a_stored_target_is_shown_with_its_identity(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.put(CONTROLLER_REVISIONS, revision(LLAMA_RUNTIME, runtime_spec("0.85"), LLAMA_NAMESPACE))
    labels = [line.split("   ")[0] for line in tool(*SYNC, "--yes").err.splitlines()]
    at = labels.index("Old sync token")
    assert labels[at - 1 : at + 4] == ["Target evidence", "Old sync token", "Target UID", "Target RV", "Pause state"]


@pytest.mark.spec("CR-15")
def test_a_runtime_edited_between_the_reads_ends_with_3(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    newer = runtime(LLAMA_RUNTIME, runtime_spec("0.8"), LLAMA_NAMESPACE)
    cluster.before("GET", "/inferenceservices/", lambda: cluster.put(SERVING_RUNTIMES, newer), nth=2)
    assert_refused(tool(*SYNC, "--yes"), cluster, CHANGED, 3)


@pytest.mark.spec("CR-15")
def test_a_failed_second_read_ends_with_3(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.before("GET", "/inferenceservices/", lambda: status(403, "Forbidden", "no"), nth=2)
    assert_refused(tool(*SYNC, "--yes"), cluster, CHANGED, 3)


@pytest.mark.spec("CR-15")
def test_a_service_changed_before_the_patch_ends_with_3(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.before(
        "PATCH",
        "/inferenceservices/",
        lambda: cluster.change(INFERENCE_SERVICES, LLAMA, LLAMA_NAMESPACE, lambda obj: None),
    )
    ran = tool(*SYNC, "--yes")
    assert ran.err.endswith(f"error: {REJECTED}\n")
    assert (ran.code, ran.out) == (3, "")


@pytest.mark.spec("CR-16", "CR-30")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (status(500, "InternalError", "boom"), UNKNOWN),
        (status(503, "ServiceUnavailable", "later"), UNKNOWN),
        (Answer(drop=True), UNKNOWN),
        (status(403, "Forbidden", "no patch", {"name": LLAMA}), READ_FAILED),
    ],
    ids=["500", "503", "lost", "forbidden"],
)
def test_a_failed_patch_is_sent_once(cluster: StubCluster, tool: Tool, answer: Answer, message: str) -> None:
    stage(cluster)
    cluster.always("PATCH", "/inferenceservices/", answer)
    ran = tool(*SYNC, "--yes")
    assert ran.err.endswith(f"error: {message}\n")
    assert (ran.code, ran.out, len(cluster.sent("PATCH"))) == (1, "", 1)


def test_an_answer_without_the_token_is_unbound(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    cluster.always("PATCH", "/inferenceservices/", Answer(body=DRIFTED))
    assert tool(*SYNC, "--yes").err.endswith(
        "error: runtime sync response is unbound; outcome unknown, check runtime effective; do not replay\n"
    )


def test_the_table_result(cluster: StubCluster, tool: Tool) -> None:
    stage(cluster)
    lines = tool(*SYNC, "--yes").out.splitlines()
    assert [line.split("   ")[0] for line in lines[1:]] == [
        "action", "target", "dry-run", "accepted", "applied", "request-id", "revision-hash", "message", "follow-up",
        "hint",
    ]  # fmt: skip
    assert lines[-1] == "hint            Use -o json or -o yaml for full values."
