"""`rollout status|pause|resume`, `migration status|history|start` and `scale` over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ome.kube.resources import (
    CLUSTER_SERVING_RUNTIMES,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    PODS,
)
from tests.support.cli_objects import merged, replica, row, runtime, runtime_spec, service
from tests.support.cli_server import Ran, StubCluster, Tool, status

REVISION = "chat-engine-6c4f8b1d"
REQUEST_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
READ_FAILED = "required Kubernetes API request failed; check access and connectivity"
MAILBOX = "action refused: a rollout promote or rollback mailbox is present"


@pytest.fixture
def chat(cluster: StubCluster) -> StubCluster:
    """`chat` with three idle engine Instances and their pods."""
    cluster.put(INFERENCE_SERVICES, service(spec={"engine": {"minReplicas": 1, "maxReplicas": 10}}))
    cluster.put(INFERENCE_REPLICAS, replica())
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("srt-qwen3-0-6b", runtime_spec()))
    for index in range(3):
        labels = {
            "ome.io/inferenceservice": "chat",
            "component": "engine",
            "ome.io/managed-by": "OMENative",
            "ome.io/instance-index": str(index),
            "ome.io/revision-hash": "6c4f8b1d",
        }
        meta = {"name": f"chat-engine-{index}-default-0", "namespace": "prod", "uid": f"p{index}", "labels": labels}
        cluster.put(PODS, {"metadata": meta | {"resourceVersion": "5"}, "spec": {"nodeName": f"gpu-{index}"}})
    cluster.put(CONTROLLER_REVISIONS, {"metadata": {"name": REVISION, "namespace": "prod", "uid": "r"}, "revision": 1})
    return cluster


def assert_failed(ran: Ran, cluster: StubCluster, message: str, code: int = 1, patches: int = 0) -> None:
    assert ran.err.endswith(f"error: {message}\n")
    assert (ran.code, ran.out, len(cluster.sent("PATCH"))) == (code, "", patches)


def touch(cluster: StubCluster, resource: Any, name: str) -> Callable[[], Any]:
    return lambda: cluster.change(resource, name, "prod", lambda obj: obj["metadata"].setdefault("annotations", {}))


# -- rollout -----------------------------------------------------------------------------------------------------------


def test_rollout_status_of_a_canary_at_a_manual_gate(cluster: StubCluster, tool: Tool) -> None:
    steps = [{"capacity": "25%", "traffic": 10, "pause": {}}, {"capacity": "100%", "traffic": 100}]
    cluster.put(
        INFERENCE_SERVICES,
        service(
            spec={"rollout": {"groups": [{"components": ["engine"], "canary": {"steps": steps}}]}},
            status={
                "components": {
                    "engine": {
                        "rolloutPhase": "Paused",
                        "canary": {"currentStep": 0, "observedTrafficWeight": 10, "targetID": "t"},
                    }
                },
                "rolloutCoordination": {"groups": [{"components": ["engine"], "phase": "Paused"}]},
            },
        ),
    )
    assert tool("rollout", "status", "chat").out == (
        "FIELD          SERVICE             ENGINE       DECODER   ROUTER\n"
        "STATE          Unknown             -            -         -\n"
        "REPORTED       Paused              -            -         -\n"
        "EVIDENCE       Reported            -            -         -\n"
        "EPOCH          Unverifiable        -            -         -\n"
        "COORDINATION   NotApplicable       -            -         -\n"
        "GROUP          -                   0            -         -\n"
        "STRATEGY       -                   Canary       -         -\n"
        "GROUP-PHASE    -                   Paused       -         -\n"
        "PHASE          -                   Paused       -         -\n"
        "STEP           -                   1/2          -         -\n"
        "GATE           -                   Manual       -         -\n"
        "CAPACITY       -                   25%          -         -\n"
        "TRAFFIC        -                   10% -> 10%   -         -\n"
        "ISSUES         EpochUnverifiable   -            -         -\n"
    )


def busy(cluster: StubCluster) -> None:
    working = row(0, REVISION, phase="Updating", operation={"type": "Update"})
    rows = [working, row(1, REVISION), row(2, REVISION)]
    cluster.put(INFERENCE_REPLICAS, replica(status={"instanceStatuses": rows}))


def paused(cluster: StubCluster, depth: str = "true", **annotations: str) -> None:
    keys = {"ome.io/rollout-paused": depth} | annotations
    cluster.put(INFERENCE_SERVICES, service(metadata={"annotations": keys}))


def test_pause_sets_the_annotation_once_there_is_work(chat: StubCluster, tool: Tool) -> None:
    assert_failed(
        tool("rollout", "pause", "chat", "--yes"),
        chat,
        "action refused: no applicable active rollout or lifecycle work was observed",
    )
    busy(chat)
    ran = tool("rollout", "pause", "chat", "--yes")
    assert ran.code == 0
    assert "message         API accepted annotation request; convergence not obse...\n" in ran.out
    stored = chat.read(INFERENCE_SERVICES, "chat", "prod")["metadata"]["annotations"]
    assert stored == {"ome.io/rollout-paused": "true"}


def test_resume_previews_and_removes_the_annotation(chat: StubCluster, tool: Tool) -> None:
    paused(chat)
    ran = tool("rollout", "resume", "chat", "--yes")
    assert ran.code == 0
    assert ran.err == (
        "ALPHA guarded action preview (not controller convergence)\n"
        "FIELD               VALUE\n"
        "Action              rollout resume\n"
        "Context             prod-cluster\n"
        "Workload NS         prod\n"
        "OME NS              ome\n"
        "Target              InferenceService/chat\n"
        "UID                 5b1f2a44-0c1d-4f7e-8d29-2d1f0f6f9a11\n"
        "ResourceVersion     184100\n"
        "Dry-run             none\n"
        "Affected            engine\n"
        "Pause depth         true\n"
        "Remove annotation   ome.io/rollout-paused\n"
        'Value               "true"\n'
        "Active records      operations=0 migrations=0\n"
        "Scope: service-wide OMENative lifecycle, not a full workload freeze.\n"
        "true holds Update/Create/Migration; RestartPolicy repair continues.\n"
        "freeze also holds existing-instance repair; resume clears either depth.\n"
        "Canary timed gates continue aging and may advance immediately on resume.\n"
        "Deliberate scale-down and deletion teardown can still proceed.\n"
        "Parent UID/resourceVersion CAS is not a multi-object transaction.\n"
    )
    assert chat.read(INFERENCE_SERVICES, "chat", "prod")["metadata"]["annotations"] == {}


@pytest.mark.parametrize(
    ("action", "prepare", "message"),
    [
        ("pause", lambda c: paused(c, "freeze"), "action refused: service is already paused; freeze is preserved"),
        ("resume", lambda c: None, "action refused: service has no recognized pause"),
        ("resume", lambda c: paused(c, "True"), "action refused: service has no recognized pause"),
        ("resume", lambda c: paused(c, **{"ome.io/rollout-rollback": "true"}), MAILBOX),
    ],
)
def test_pause_and_resume_refuse(
    chat: StubCluster, tool: Tool, action: str, prepare: Callable[[StubCluster], Any], message: str
) -> None:
    prepare(chat)
    assert_failed(tool("rollout", action, "chat", "--yes"), chat, message)


def test_resume_can_discard_pending_requests(chat: StubCluster, tool: Tool) -> None:
    paused(chat, **{"ome.io/rollout-rollback": "true"})
    assert tool("rollout", "resume", "chat", "--yes", "--discard-pending-actions").code == 0
    assert chat.read(INFERENCE_SERVICES, "chat", "prod")["metadata"]["annotations"] == {}


# -- scale -------------------------------------------------------------------------------------------------------------

SCALE = ("scale", "chat", "--component=engine", "--replicas=5", "--override-autoscaler", "--yes")
INVALID_SCALE = (
    "invalid scale arguments; require one service, component engine|decoder|router, positive base-10 --replicas, "
    "supported output/dry-run and valid namespace/context/timeout"
)


def test_scale_patches_the_subresource(chat: StubCluster, tool: Tool) -> None:
    ran = tool(*SCALE)
    assert ran.code == 0
    (call,) = chat.sent("PATCH")
    assert call.path.endswith("/inferencereplicas/chat-engine/scale")
    assert call.body[2] == {"op": "replace", "path": "/spec/replicas", "value": 5}
    assert [line.split("   ")[0] for line in ran.out.splitlines()[1:]] == [
        "action", "target", "component", "field", "replicas", "bounds", "class / owner", "source", "override",
        "transient", "dry-run", "accepted", "applied", "instances", "parent freshness", "message", "follow-up", "hint",
    ]  # fmt: skip
    assert "bounds             1..10\n" in ran.out
    assert ran.err.splitlines()[0] == "ALPHA guarded scale preview (not controller convergence)"
    assert "/scale spec.replicas    3 -> 5\n" in ran.err
    assert "verified ownership      HPA / ome\n" in ran.err


def test_scale_dry_runs(chat: StubCluster, tool: Tool) -> None:
    client = tool(*SCALE, "--dry-run=client", "-o", "json").json
    assert (client["applied"], client["message"]) == (False, "Validated locally; no scale patch sent.")
    assert chat.sent("PATCH") == []
    server = tool(*SCALE, "--dry-run=server", "-o", "json").json
    assert (server["accepted"], server["applied"]) == (True, False)
    assert chat.read(INFERENCE_REPLICAS, "chat-engine", "prod")["spec"]["replicas"] == 3


def put_service(cluster: StubCluster, **changes: Any) -> None:
    base = service(spec={"engine": {"minReplicas": 1, "maxReplicas": 10}})
    cluster.put(INFERENCE_SERVICES, merged(base, changes))


SCALE_REFUSALS: list[tuple[str, tuple[str, ...], Callable[[StubCluster], Any], str]] = [
    ("no override", (*SCALE[:4], "--yes"), lambda c: None,
     "manual scale is transient and requires --override-autoscaler --yes for every ownership class"),
    ("zero", ("scale", "chat", "--component=engine", "--replicas=0", "--override-autoscaler", "--yes"),
     lambda c: None, INVALID_SCALE),
    ("override without yes", SCALE[:5], lambda c: None, INVALID_SCALE),
    ("unknown flag", (*SCALE, "--nope"), lambda c: None, INVALID_SCALE),
    ("above the maximum", (*SCALE[:3], "--replicas=11", *SCALE[4:]), lambda c: None,
     "manual scale replicas must be positive and within verified bounds and partitions"),
    ("no maximum", SCALE, lambda c: put_service(c, spec={"engine": {"maxReplicas": None}}),
     "manual scale replicas must be positive and within verified bounds and partitions"),
    ("during a rollout", SCALE,
     lambda c: c.put(INFERENCE_REPLICAS, replica(status={"updateRevision": "chat-engine-0"})),
     "manual scale refused: selected lifecycle, migration or rollout work is active"),
    ("an operation", SCALE, busy, "manual scale refused: selected lifecycle, migration or rollout work is active"),
    ("pending sync", SCALE, lambda c: put_service(c, metadata={"annotations": {"ome.io/runtime-sync": "x"}}),
     "manual scale source evidence is unavailable or inconsistent"),
    ("no such component", ("scale", "chat", "--component=router", *SCALE[3:]), lambda c: None,
     "manual scale source evidence is unavailable or inconsistent"),
    ("a policy", SCALE, lambda c: put_service(c, spec={"engine": {"autoscalerPolicyRef": {"name": "p"}}}),
     "manual scale requires locally verifiable autoscaling; winning policy resolution is unavailable"),
    ("count unset", SCALE, lambda c: c.put(INFERENCE_REPLICAS, replica(spec={"replicas": 0})),
     "manual scale requires complete current selected replica and Scale evidence"),
    ("stale", SCALE, lambda c: c.put(INFERENCE_REPLICAS, replica(status={"observedGeneration": 3})),
     "action refused: controller safety evidence is stale or inconsistent"),
    ("mailbox", SCALE,
     lambda c: put_service(c, metadata={"annotations": {"ome.io/rollout-promote": "aaaaaa"}}), MAILBOX),
    ("no service", ("scale", "none", *SCALE[2:]), lambda c: None, READ_FAILED),
]  # fmt: skip


@pytest.mark.spec("CS-12")
@pytest.mark.parametrize(
    ("what", "arguments", "prepare", "message"), SCALE_REFUSALS, ids=[what for what, *_ in SCALE_REFUSALS]
)
def test_scale_refuses(
    chat: StubCluster,
    tool: Tool,
    what: str,
    arguments: tuple[str, ...],
    prepare: Callable[[StubCluster], Any],
    message: str,
) -> None:
    prepare(chat)
    assert_failed(tool(*arguments), chat, message)


@pytest.mark.spec("CS-13")
def test_a_change_at_the_second_read_of_scale_exits_1(chat: StubCluster, tool: Tool) -> None:
    chat.before("GET", "/inferenceservices/chat", touch(chat, INFERENCE_REPLICAS, "chat-engine"), nth=2)
    message = "manual scale source changed; inspect current status and prepare a new request"
    assert_failed(tool(*SCALE), chat, message)


@pytest.mark.spec("CS-13")
def test_a_conflict_at_the_patch_of_scale_exits_3(chat: StubCluster, tool: Tool) -> None:
    chat.before("PATCH", "/scale", touch(chat, INFERENCE_REPLICAS, "chat-engine"))
    message = "guarded scale precondition rejected; inspect current status and prepare a new request"
    assert_failed(tool(*SCALE), chat, message, 3, 1)


def test_a_failed_patch_of_scale_leaves_the_outcome_unknown(chat: StubCluster, tool: Tool) -> None:
    chat.always("PATCH", "/scale", status(403, "Forbidden", "no"))
    message = "scale request outcome unknown; inspect kubectl ome autoscale status before preparing another request"
    assert_failed(tool(*SCALE), chat, message, 1, 1)


# -- migration ---------------------------------------------------------------------------------------------------------


def moving(phase: str = "SurgePending", message: str = "surge allocated; waiting for surge pods", **more: Any) -> Any:
    return {"requestUUID": REQUEST_ID, "sourceInstance": 1, "phase": phase, "message": message} | more


@pytest.mark.spec("CS-10")
def test_migration_status_without_records(chat: StubCluster, tool: Tool) -> None:
    assert tool("migration", "status", "chat").out == (
        "SUBJECT/COMP   STATUS          DETAIL\n-/-            Empty/Current   -\n"
    )


@pytest.mark.spec("CS-10")
def test_migration_status_while_pods_are_awaited(chat: StubCluster, tool: Tool) -> None:
    chat.put(INFERENCE_REPLICAS, replica(status={"migrations": [moving()]}))
    assert tool("migration", "status", "chat").out == (
        "SUBJECT/COMP      STATUS                        DETAIL\n"
        "7c9e6679/engine   SurgePending/Active/Current   MSG: surge allocated; w...\n"
    )


@pytest.mark.spec("CS-10")
@pytest.mark.parametrize(
    ("phase", "status_cell", "outcome"),
    [
        ("Accepted", "Accepted/Active/Current", "InProgress"),
        ("SurgePending", "SurgePending/Active/Current", "InProgress"),
        ("SurgeReady", "SurgeReady/Active/Current", "InProgress"),
        ("Draining", "Draining/Active/Current", "InProgress"),
        ("Completed", "Completed/Terminal/Current", "Completed"),
        ("Failed", "Failed/Terminal/Current", "Failed"),
        ("Sideways", "Sideways/Invalid/Current", "Unknown"),
    ],
)
def test_the_phases_of_one_migration(chat: StubCluster, tool: Tool, phase: str, status_cell: str, outcome: str) -> None:
    chat.put(INFERENCE_REPLICAS, replica(status={"migrations": [moving(phase)]}))
    assert tool("migration", "status", "chat").out.splitlines()[1].split()[1] == status_cell
    document = tool("migration", "status", "chat", "-o", "json").json
    assert (document["kind"], document["content"]["migrations"][0]["outcome"]) == ("MigrationStatusReport", outcome)


def test_migration_history_joins_the_audit_trail(chat: StubCluster, tool: Tool) -> None:
    done = moving("Completed", "migrated to instance=4", completedAt="2026-09-28T10:31:00Z")
    chat.put(INFERENCE_REPLICAS, replica(status={"migrations": [done]}))
    audit = [
        {"id": "3f2a9c1e-7425-40de-944b-e07fc1f90ae7", "component": "engine", "phase": "Failed",
         "completedAt": "2026-09-28T09:20:00Z", "outcomeReason": "deadline exceeded while waiting"},
        {"id": REQUEST_ID, "component": "engine", "phase": "Completed", "completedAt": "2026-09-28T10:31:00Z",
         "outcomeReason": "migrated"},
    ]  # fmt: skip
    meta = {"name": "chat-ome-migration-audit", "namespace": "prod"}
    chat.put(CONFIG_MAPS, {"metadata": meta, "data": {"history.json": json.dumps(audit)}})
    assert tool("migration", "history", "chat").out == (
        "EVID    REQUEST/COMP   PHASE/STATE   WHEN           DETAIL\n"
        "AUTH    7c9e6679/E     Completed/T   09-28T10:31Z   migrated to insta...\n"
        "AUDIT   7c9e6679/E     Completed/T   09-28T10:31Z   migrated\n"
        "AUDIT   3f2a9c1e/E     Failed/T      09-28T09:20Z   deadline exceeded...\n"
    )


START = ("migration", "start", "chat", "--component=engine", "--instance=1", "--yes")
PRECONDITION = "migration precondition conflicts or is stale; inspect migration status and retry explicitly"


def test_migration_start_adds_one_request(chat: StubCluster, tool: Tool) -> None:
    ran = tool(*START, "--hint-node", "gpu-7,gpu-8", "--reason", "node maintenance", "-o", "json")
    assert ran.code == 0
    document = ran.json
    key = f"ome.io/migration-request-v1-{document['requestID']}"
    stored = chat.read(INFERENCE_SERVICES, "chat", "prod")["metadata"]["annotations"]
    assert json.loads(stored[key]) == {
        "schemaVersion": "v1",
        "component": "engine",
        "instance": 1,
        "from_node": "gpu-1",
        "hint_target_nodes": ["gpu-7", "gpu-8"],
        "reason": "node maintenance",
        "requested_at": "2026-09-28T14:03:12Z",
        "requested_by": "kubectl-ome",
    }
    assert document["message"].startswith("API accepted annotation request; delivery and converg")
    lines = dict(line.split("   ", 1) for line in ran.err.splitlines()[1:27])
    assert lines["From node"].strip() == "gpu-1"
    assert lines["Current nodes"].strip() == "gpu-1"
    assert lines["Reason"].strip() == '"node maintenance"'


def test_an_earlier_request_can_be_looked_up(chat: StubCluster, tool: Tool) -> None:
    request_id = tool(*START, "-o", "json").json["requestID"]
    ran = tool(*START, "--request-id", request_id, "-o", "json")
    assert (ran.code, ran.json["accepted"]) == (0, False)
    assert ran.json["message"].startswith("Identical retained mailbox observed; no replay sent; ")
    assert_failed(tool(*START, "--request-id", REQUEST_ID), chat, PRECONDITION, 3, 1)


def stale_replica(cluster: StubCluster) -> None:
    cluster.put(INFERENCE_REPLICAS, replica(status={"observedGeneration": 3}))


MIGRATION_CONFLICTS: list[tuple[str, Callable[[StubCluster], Any]]] = [
    ("paused", lambda c: paused(c)),
    ("rollback mailbox", lambda c: put_service(c, metadata={"annotations": {"ome.io/rollout-rollback": "true"}})),
    ("no such instance", lambda c: c.put(INFERENCE_REPLICAS, replica(status={"instanceStatuses": [], "replicas": 0}))),
    ("busy", lambda c: c.put(INFERENCE_REPLICAS, replica(status={"instanceStatuses": [
        row(0, REVISION), row(1, REVISION, operation={"type": "Update"}), row(2, REVISION)]}))),
    ("moving already", lambda c: c.put(INFERENCE_REPLICAS, replica(status={"migrations": [moving()]}))),
    ("never", lambda c: c.put(INFERENCE_REPLICAS, replica(
        spec={"lifecycle": {"migrationPolicy": {"mode": "Never"}}}))),
    ("stale", stale_replica),
    ("pod missing", lambda c: c.remove(PODS, "chat-engine-1-default-0", "prod")),
]  # fmt: skip


@pytest.mark.spec("CS-11")
@pytest.mark.parametrize(("what", "prepare"), MIGRATION_CONFLICTS, ids=[what for what, _ in MIGRATION_CONFLICTS])
def test_a_migration_that_cannot_start_now_exits_3(
    chat: StubCluster, tool: Tool, what: str, prepare: Callable[[StubCluster], Any]
) -> None:
    prepare(chat)
    assert_failed(tool(*START), chat, PRECONDITION, 3)


@pytest.mark.spec("CS-11")
def test_a_deleted_service_exits_1(chat: StubCluster, tool: Tool) -> None:
    put_service(chat, metadata={"deletionTimestamp": "2026-09-28T14:00:00Z"})
    assert_failed(tool(*START), chat, "action refused: target is being deleted")
    chat.remove(INFERENCE_SERVICES, "chat", "prod")
    assert_failed(tool(*START), chat, READ_FAILED)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--instance=01",), "instance must be a canonical integer from 0 through 2147483647"),
        (("--component=gpu",), "invalid migration request values; use --help"),
        (("--reason=see http://x",), "invalid migration request values; use --help"),
        (("--reason=token=abcdef",), "invalid migration request values; use --help"),
        (("--hint-node=a,a",), "invalid migration node hints"),
        (("--from-node=a", "--hint-node=a"), "invalid migration node hints"),
    ],
)
def test_migration_flags(chat: StubCluster, tool: Tool, flags: tuple[str, ...], message: str) -> None:
    assert_failed(tool(*START, *flags), chat, message)
    assert chat.calls == []


def test_a_change_before_the_patch_of_a_migration_exits_3(chat: StubCluster, tool: Tool) -> None:
    chat.before("PATCH", "/inferenceservices/", touch(chat, INFERENCE_SERVICES, "chat"))
    message = "guarded migration rejected; inspect migration status using preview UUID"
    assert_failed(tool(*START), chat, message, 3, 1)


# -- autoscale ---------------------------------------------------------------------------------------------------------


def scaled(**scaler: Any) -> dict[str, Any]:
    base = {
        "class": "HPA",
        "managedBy": "ome",
        "specSource": "default",
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "lastScaleTime": "2026-08-31T18:20:00Z",
        "conditions": [{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": "True"}],
    }
    target = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceReplica", "name": "chat-engine"}
    entry = {"autoscaler": merged(base, scaler), "scaleTargetRef": target}
    return service(status={"components": {"engine": entry}})


def test_autoscale_status(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, scaled())
    assert tool("autoscale", "status", "chat").out == (
        "FIELD              SERVICE    ENGINE         DECODER   ROUTER\n"
        "STATE              Reported   Reported       -         -\n"
        "CLASS              -          HPA            -         -\n"
        "MANAGED-BY         -          ome            -         -\n"
        "SPEC-SOURCE        -          default        -         -\n"
        "TARGET-KIND        -          IR             -         -\n"
        "TARGET-NAME        -          chat-engine    -         -\n"
        "TARGET-EVIDENCE    -          Reported       -         -\n"
        "CURRENT            -          2              -         -\n"
        "DESIRED            -          3              -         -\n"
        "REPLICA-EVIDENCE   -          Reported       -         -\n"
        "LAST-SCALE         -          Aug31 18:20Z   -         -\n"
        "COND-EVIDENCE      -          Reported       -         -\n"
        "ABLE-TO-SCALE      -          True           -         -\n"
        "SCALING-ACTIVE     -          True           -         -\n"
    )
    wide = tool("autoscale", "status", "chat", "-o", "wide").out.splitlines()[1].split()
    assert wide[6] == "InferenceReplica/prod/chat-engine"
    assert wide[-2] == "AbleToScale=True,ScalingActive=True"


@pytest.mark.parametrize(
    ("scaler", "state", "issue"),
    [
        ({"currentReplicas": None}, "Partial", "ReplicaAmbig"),
        ({"class": "Magic"}, "Invalid", "BadClass"),
        ({"managedBy": "external"}, "Invalid", "OwnerMismatch"),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, "Partial", "BadCondition"),
    ],
)
def test_autoscale_issues(cluster: StubCluster, tool: Tool, scaler: dict[str, Any], state: str, issue: str) -> None:
    cluster.put(INFERENCE_SERVICES, scaled(**scaler))
    lines = tool("autoscale", "status", "chat").out.splitlines()
    assert lines[1].split()[:3] == ["STATE", state, state]
    assert issue in "".join(line for line in lines if line.startswith(("ISSUES", " ")))


def test_autoscale_status_against_the_live_replica(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, scaled())
    cluster.put(INFERENCE_REPLICAS, replica(spec={"replicas": 3}, status={"replicas": 2}))
    found = dict(
        line.split()[:1] + line.split()[2:3]
        for line in tool("autoscale", "status", "chat", "--live-scale").out.splitlines()
    )
    assert (found["LIVE-EVIDENCE"], found["LIVE-SPEC"], found["LIVE-CURRENT"]) == ("Reported", "3", "2")
    assert found["LIVE-COUNT"] == "Equal"
