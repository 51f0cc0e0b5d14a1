"""`kubectl ome wait` over HTTP, with a clock that moves only when the tool sleeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES
from tests.support.cli_objects import (
    HELD,
    REPLICA_UID,
    block,
    drifted,
    merged,
    replica,
    row,
    service,
)
from tests.support.cli_server import Answer, Ran, StubCluster, Tool, status

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-09-28T14:00:00Z", "reason": "Serving"}
UNMET = "error: RequestedConditionUnmet\n"
REQUEST_ID = "123e4567-e89b-42d3-a456-426614174000"
TOKEN = f"cli-runtime-sync-{REQUEST_ID}"


def ready(condition_status: str = "True", **changes: Any) -> dict[str, Any]:
    return service(status={"conditions": [READY | {"status": condition_status} | changes]})


def fields(ran: Ran) -> dict[str, str]:
    """The two-column table as a mapping."""
    header, *lines = ran.out.splitlines()
    at = header.index("VALUE")
    return {line[:at].strip(): line[at:].strip() for line in lines}


@pytest.mark.spec("CR-18")
def test_a_ready_service_matches_at_the_first_look(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready())
    ran = tool("wait", "chat", "--for=condition=Ready", "--timeout=30m")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "FIELD                   VALUE\n"
        "Service                 prod/chat\n"
        "Requested               Ready=True\n"
        "Outcome                 Matched\n"
        "Observed Ready          True\n"
        "Condition validity      Valid\n"
        "Reason                  ConditionMatched\n"
        "Evidence                Reported\n"
        "Generation freshness    Unverifiable\n"
        "Freshness caveat        Reported condition; not current-spec convergence\n"
        "Condition inspection    Complete (1/1)\n"
        "Source method           InitialGET\n"
        "Polling fallback        false\n"
        "Elapsed milliseconds    0\n"
        "GET / WATCH / polls     1 / 0 / 0\n"
        "Events / observations   0 / 1\n"
    )


@pytest.mark.spec("CR-18", "CR-25")
def test_the_same_as_json(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready())
    document = tool("wait", "chat", "--for=condition=Ready", "-o", "json").json
    assert document == {
        "apiVersion": "cli.ome.io/v1alpha1",
        "kind": "WaitReport",
        "metadata": {"namespace": "prod", "name": "chat"},
        "collectedAt": "2026-09-28T14:03:12.418207153Z",
        "sources": [],
        "content": {
            "requested": "Ready=True",
            "outcome": "Matched",
            "reason": "ConditionMatched",
            "observed": {
                "status": "True",
                "validity": "Valid",
                "generationFreshness": "Unverifiable",
                "inspection": {"state": "Complete", "total": 1, "inspected": 1, "warnings": []},
            },
            "evidence": "Reported",
            "elapsedMilliseconds": 0,
            "counts": {"gets": 1, "watches": 0, "polls": 0, "events": 0, "observations": 1},
            "sourceMethod": "InitialGET",
            "pollingFallback": False,
        },
        "warnings": [],
    }
    assert list(document["content"])[:4] == ["requested", "outcome", "reason", "observed"]


@pytest.mark.spec("CR-18")
def test_a_watch_sees_the_change(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready("False"))
    event = {"type": "MODIFIED", "object": merged(ready(), {"metadata": {"resourceVersion": "9"}})}
    cluster.hooks.append(lambda call: Answer(lines=[event]) if call.query.get("watch") else None)
    ran = tool("wait", "chat", "--for=condition=Ready")
    assert ran.code == 0
    found = fields(ran)
    assert (found["Source method"], found["GET / WATCH / polls"]) == ("Watch", "1 / 1 / 0")
    assert found["Events / observations"] == "1 / 2"
    watch = next(call for call in cluster.calls if call.query.get("watch"))
    assert watch.query["fieldSelector"] == "metadata.name=chat"
    assert watch.query["resourceVersion"] == "184100"


def test_an_expired_watch_is_followed_by_a_fresh_read(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready("False"))
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

    def expire(call: Any) -> Answer | None:
        if not call.query.get("watch"):
            return None
        cluster.put(INFERENCE_SERVICES, ready())
        return Answer(lines=[gone])

    cluster.hooks.append(expire)
    found = fields(tool("wait", "chat", "--for=condition=Ready"))
    assert (found["Outcome"], found["Source method"]) == ("Matched", "RefreshGET")


@pytest.mark.spec("CR-24")
def test_without_the_right_to_watch_it_polls(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready("False"))
    cluster.hooks.append(lambda call: status(403, "Forbidden", "no watch") if call.query.get("watch") else None)
    tool.time.on_sleep = lambda: cluster.put(INFERENCE_SERVICES, ready())
    found = fields(tool("wait", "chat", "--for=condition=Ready"))
    assert (found["Polling fallback"], found["Source method"]) == ("true", "Poll")
    assert found["GET / WATCH / polls"] == "2 / 1 / 1"


@pytest.mark.spec("CR-19")
def test_a_timeout_prints_the_last_look_and_exits_2(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, ready("False"))
    cluster.hooks.append(lambda call: status(403, "Forbidden", "no watch") if call.query.get("watch") else None)
    ran = tool("wait", "chat", "--for=condition=Ready", "--timeout=12s")
    assert (ran.code, ran.err) == (2, UNMET)
    found = fields(ran)
    assert (found["Outcome"], found["Reason"], found["Observed Ready"]) == ("TimedOut", "ConditionNotMatched", "False")
    assert found["Elapsed milliseconds"] == "12000"


@pytest.mark.spec("CR-19")
def test_a_missing_service_ends_at_once(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("wait", "chat", "--for=condition=Ready")
    assert (ran.code, ran.err) == (2, UNMET)
    assert (fields(ran)["Outcome"], fields(ran)["Reason"]) == ("NotFound", "PredicateUnmet")
    assert tool.time.monotonic() == 1000.0


def later(cluster: StubCluster, tool: Tool, change: Callable[[], Any]) -> Ran:
    """A polling wait during which something happens to the service."""
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(blocks=[block()]))
    tool.time.on_sleep = change
    return tool(*HELD_WAIT)


HELD_WAIT = (
    "wait", "chat", "--for=held-revision=unheld", "--component=engine", f"--revision={HELD}", "--ir-name=chat-engine",
    f"--ir-uid={REPLICA_UID}",
)  # fmt: skip


@pytest.mark.spec("CR-19")
@pytest.mark.parametrize(
    ("outcome", "change"),
    [
        ("Deleted", lambda c: c.remove(INFERENCE_SERVICES, "chat", "prod")),
        (
            "Deleted",
            lambda c: c.put(INFERENCE_SERVICES, service(metadata={"deletionTimestamp": "2026-09-28T14:03:00Z"})),
        ),
        ("Replaced", lambda c: c.put(INFERENCE_SERVICES, service(metadata={"uid": "another"}))),
    ],
)
def test_a_service_that_goes_away_ends_the_wait(
    cluster: StubCluster, tool: Tool, outcome: str, change: Callable[[StubCluster], Any]
) -> None:
    ran = later(cluster, tool, lambda: change(cluster))
    assert (ran.code, ran.err) == (2, UNMET)
    assert fields(ran)["Outcome"] == outcome


# -- held-revision -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("CR-21", "CR-29")
def test_a_released_revision_matches(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica())
    assert tool(*HELD_WAIT, "--timeout=2m").out == (
        "FIELD                  VALUE\n"
        "Service                prod/chat\n"
        "Requested              HeldRevision=Unheld\n"
        "Component              engine\n"
        "Revision               chat-engine-7f9c4d2b\n"
        "InferenceReplica       chat-engine\n"
        "Outcome                Matched\n"
        "Target state           Absent\n"
        "Mailbox                Absent\n"
        "Validity               Valid\n"
        "Reason                 Unheld\n"
        "Evidence               Reported\n"
        "Interpretation         Exact revision no longer Held on original IR\n"
        "Attribution            Unverifiable; not action attribution\n"
        "State caveat           Pruning/re-Held races; no request receipt\n"
        "Source method          InitialGET\n"
        "GET / WATCH / polls    1 / 0 / 0\n"
        "Elapsed milliseconds   0\n"
    )


@pytest.mark.spec("CR-21")
def test_a_revision_that_failed_again_is_not_held_either(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    waiting = block(state="Backoff", attemptsStarted=1, nextRetryAt="2026-09-28T14:05:00Z")
    cluster.put(INFERENCE_REPLICAS, replica(blocks=[waiting]))
    assert fields(tool(*HELD_WAIT))["Target state"] == "Backoff"


HELD_STATES: list[tuple[str, dict[str, Any] | None, str]] = [
    ("held", replica(blocks=[block()]), "Held"),
    ("request waiting", replica(blocks=[block()], metadata={"annotations": {"ome.io/release-held-revision": HELD}}),
     "MailboxPending"),
    ("request by hash", replica(metadata={"annotations": {"ome.io/release-held-revision": "7f9c4d2b"}}),
     "MailboxPending"),
    ("another request", replica(metadata={"annotations": {"ome.io/release-held-revision": "x"}}), "MailboxSuperseded"),
    ("another replica", replica(metadata={"uid": "another"}), "ReplicaReplaced"),
    ("no replica", None, "ReplicaMissing"),
    ("deleting", replica(metadata={"deletionTimestamp": "2026-09-28T14:00:00Z"}), "Deleting"),
    ("stale", replica(status={"observedGeneration": 3}), "SourceStale"),
    ("parent behind", replica(metadata={"annotations": {"ome.io/parent-generation": "1"}}), "SourceStale"),
    ("not the service's", replica(metadata={"ownerReferences": []}), "SourceInvalid"),
    ("placed", replica(metadata={"labels": {"ome.io/placement-origin": "x"}}), "UnsupportedPlacement"),
    ("malformed blocks", replica(blocks=[block(state="Odd")]), "InvalidRetryBlocks"),
    ("undecodable rows", replica(status={"instanceStatusEncoding": "Rot13"}), "InvalidStatus"),
]  # fmt: skip


@pytest.mark.spec("CR-21")
@pytest.mark.parametrize(("what", "stored", "reason"), HELD_STATES, ids=[what for what, *_ in HELD_STATES])
def test_held_revision_goes_on_while(
    cluster: StubCluster, tool: Tool, what: str, stored: dict[str, Any] | None, reason: str
) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    if stored is not None:
        cluster.put(INFERENCE_REPLICAS, stored)
    ran = tool(*HELD_WAIT, "--timeout=6s")
    assert (ran.code, fields(ran)["Reason"], fields(ran)["Outcome"]) == (2, reason, "TimedOut")


@pytest.mark.spec("CR-29")
def test_the_wait_ends_once_ome_has_answered(cluster: StubCluster, tool: Tool) -> None:
    def answer() -> None:
        cluster.put(INFERENCE_REPLICAS, replica())

    ran = later(cluster, tool, answer)
    assert ran.code == 0
    assert (fields(ran)["Source method"], fields(ran)["GET / WATCH / polls"]) == ("Poll", "2 / 0 / 1")


# -- runtime-sync ------------------------------------------------------------------------------------------------------


def synced(token: str | None = TOKEN, recorded: str | None = TOKEN, **changes: Any) -> dict[str, Any]:
    base = service(
        metadata={"annotations": {"ome.io/runtime-sync": token}} if token else {},
        spec={"runtime": {"autoSync": False}},
        status={"pinnedRevisionName": "cr-srt-qwen3-0-6b-590753e8", "lastRuntimeSyncToken": recorded},
    )
    return merged(base, changes)


SYNC_WAIT = ("wait", "chat", "--for=runtime-sync=acknowledged", f"--request-id={REQUEST_ID}", "--timeout=6s")


@pytest.mark.spec("CR-20", "CR-27")
def test_an_acknowledged_sync_matches(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, synced())
    ran = tool(*SYNC_WAIT)
    assert ran.out == (
        "FIELD                  VALUE\n"
        "Service                prod/chat\n"
        "Requested              RuntimeSync=Acknowledged\n"
        f"Request ID             {REQUEST_ID}\n"
        "Outcome                Matched\n"
        "Token state            Acknowledged\n"
        "Drift state            Clear\n"
        "Managed pin            Managed\n"
        "Placement              Direct\n"
        "Validity               Valid\n"
        "Reason                 RuntimeSyncObserved\n"
        "Evidence               Reported\n"
        "Interpretation         Token acknowledged in bound parent snapshot\n"
        "Sync caveat            Reported token; not live-runtime convergence\n"
        "Attribution            Same-object state; not action attribution\n"
        "Source method          InitialGET\n"
        "Polling fallback       false\n"
        "Elapsed milliseconds   0\n"
        "GET / WATCH / polls    1 / 0 / 0\n"
    )


@pytest.mark.spec("CR-20")
@pytest.mark.parametrize(
    ("of", "row_name", "value"),
    [
        (synced(recorded="older"), "Token state", "Pending"),
        (synced("newer", TOKEN), "Token state", "Superseded"),
        (synced(None, TOKEN), "Token state", "StatusOnly"),
        (synced(None, None), "Token state", "Absent"),
        (synced(status={"conditions": [drifted()]}), "Drift state", "ReportedTrue"),
        (synced(spec={"runtime": {"revision": "cr-srt-qwen3-0-6b-590753e8"}}), "Managed pin", "NotApplicable"),
        (synced(spec={"runtime": {"autoSync": True}}), "Managed pin", "NotApplicable"),
        (synced(status={"pinnedRevisionName": None}), "Managed pin", "Unavailable"),
        (synced(spec={"placement": {}}), "Placement", "UnsupportedPlacement"),
    ],
)
def test_a_sync_that_is_not_acknowledged_goes_on(
    cluster: StubCluster, tool: Tool, of: dict[str, Any], row_name: str, value: str
) -> None:
    cluster.put(INFERENCE_SERVICES, of)
    ran = tool(*SYNC_WAIT)
    assert (ran.code, ran.err, fields(ran)[row_name]) == (2, UNMET, value)


# -- replicas ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CR-22")
def test_ready_replicas_match_an_exact_count(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica())
    arguments = ("wait", "chat", "--for=replicas=ready", "--component=engine", "--timeout=6s")
    found = fields(tool(*arguments, "--replicas=3", "-o", "wide"))
    assert (found["Outcome"], found["Observed ready"], found["Interpretation"]) == (
        "Matched",
        "3",
        "Exact at observed IR snapshot",
    )
    assert found["Cancellation"] == "Cooperative requests; plugins may ignore it"
    ran = tool(*arguments, "--replicas=2")
    assert (ran.code, fields(ran)["Reason"]) == (2, "ReplicaReadyNotMatched")


@pytest.mark.spec("CR-22")
def test_ready_replicas_may_be_zero(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(status={"readyReplicas": None}))
    assert tool("wait", "chat", "--for=replicas=ready", "--component=engine", "--replicas=0").code == 0


@pytest.mark.spec("CR-22")
def test_a_gap_in_the_indices_leaves_the_ready_count_invalid(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    gap = [row(0, "a"), row(1, "a"), row(3, "a")]
    cluster.put(INFERENCE_REPLICAS, replica(status={"instanceStatuses": gap}))
    ran = tool("wait", "chat", "--for=replicas=ready", "--component=engine", "--replicas=3", "--timeout=6s")
    found = fields(ran)
    assert (ran.code, found["Count validity"], found["Observed ready"]) == (2, "Invalid", "<unavailable>")


@pytest.mark.spec("CR-22")
def test_current_replicas_compare_desired_and_current(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(status={"readyReplicas": 2}))
    arguments = ("wait", "chat", "--for=replicas=current", "--component=engine", "--timeout=6s")
    found = fields(tool(*arguments, "--replicas=3"))
    assert (found["Outcome"], found["Current replicas"], found["Ready replicas"]) == ("Matched", "3", "2")
    cluster.put(INFERENCE_REPLICAS, replica(spec={"replicas": 4}))
    assert fields(tool(*arguments, "--replicas=4"))["Reason"] == "ReplicaScaleNotMatched"
    bound = (*arguments, "--replicas=3", "--ir-name=chat-engine", "--ir-uid=another")
    assert fields(tool(*bound))["Reason"] == "InvalidReplicaScaleEvidence"
    cluster.put(INFERENCE_REPLICAS, replica(metadata={"annotations": {"ome.io/parent-generation": "1"}}))
    assert fields(tool(*arguments, "--replicas=3"))["Freshness"] == "Stale"


# -- rollout, migration ------------------------------------------------------------------------------------------------


def rolled(**component: Any) -> dict[str, Any]:
    return service(status={"components": {"engine": component}})


@pytest.mark.parametrize(
    ("predicate", "of", "code", "reported"),
    [
        ("stable", rolled(rolloutPhase="Stable"), 0, "Succeeded"),
        ("stable", rolled(lifecycle={"currentRevision": "a", "updateRevision": "a"}), 0, "Succeeded"),
        ("stable", rolled(lifecycle={"currentRevision": "a", "updateRevision": "b"}), 2, "InProgress"),
        ("failed", rolled(rolloutPhase="Failed"), 0, "Failed"),
        ("rolled-back", rolled(rolloutPhase="RolledBack"), 0, "RolledBack"),
        ("stable", rolled(url="http://x"), 2, "NotConfigured"),
        ("stable", service(), 2, "Unknown"),
    ],
)
def test_rollout_states(
    cluster: StubCluster, tool: Tool, predicate: str, of: dict[str, Any], code: int, reported: str
) -> None:
    cluster.put(INFERENCE_SERVICES, of)
    cluster.hooks.append(lambda call: status(403, "Forbidden", "no watch") if call.query.get("watch") else None)
    ran = tool("wait", "chat", f"--for=rollout={predicate}", "--timeout=6s")
    assert (ran.code, fields(ran)["Reported rollout"]) == (code, reported)


@pytest.mark.parametrize(
    ("phase", "code", "outcome"),
    [
        ("Completed", 0, "Completed"),
        ("Failed", 0, "Failed"),
        ("Relocated", 0, "Relocated"),
        ("Draining", 2, "InProgress"),
    ],
)
def test_migrations_end_in_three_ways(cluster: StubCluster, tool: Tool, phase: str, code: int, outcome: str) -> None:
    cluster.put(INFERENCE_SERVICES, service())
    cluster.put(INFERENCE_REPLICAS, replica(status={"migrations": [{"requestUUID": REQUEST_ID, "phase": phase}]}))
    ran = tool("wait", "chat", "--for=migration=terminal", f"--request-id={REQUEST_ID}", "--timeout=6s")
    assert (ran.code, fields(ran)["Migration outcome"], fields(ran)["Component"]) == (code, outcome, "engine")


# -- errors ------------------------------------------------------------------------------------------------------------

PREDICATE = (
    "InvalidWaitPredicate: require condition=Ready[=True|False|Unknown], rollout=stable|failed|rolled-back, "
    "migration=terminal, replicas=ready|current, runtime-sync=acknowledged, or held-revision=unheld"
)
MIGRATION_ID = "InvalidMigrationRequestID: require canonical UUID only with migration=terminal"
SYNC_ID = "InvalidRuntimeSyncRequestID: require canonical v4 UUID with runtime-sync=acknowledged"
READY_FLAGS = (
    "InvalidReadyReplicaFlags: require --component=engine|decoder|router and --replicas=N only with replicas=ready; "
    "N must be nonnegative"
)
CURRENT_FLAGS = (
    "InvalidCurrentReplicaFlags: require --component=engine|decoder|router and positive --replicas=N; --ir-name and "
    "--ir-uid must be paired"
)
HELD_FLAGS = (
    "InvalidHeldRevisionTarget: require --component, full --revision, --ir-name and --ir-uid only with "
    "held-revision=unheld"
)
READY_FOR = "--for=condition=Ready"
FLAG_ERRORS: list[tuple[tuple[str, ...], str]] = [
    (("chat", READY_FOR, "--nope"), "InvalidWaitFlags"),
    (("chat", READY_FOR, "--timeout=30"), "InvalidWaitFlags"),
    (("chat", READY_FOR, "--replicas=many"), "InvalidWaitFlags"),
    ((READY_FOR,), "accepts 1 arg(s), received 0"),
    (("a", "b", READY_FOR), "accepts 1 arg(s), received 2"),
    (("No_Name", READY_FOR), "InvalidInferenceServiceName"),
    (("chat", READY_FOR, "-n", "Not_One"), "InvalidNamespace"),
    (("chat",), PREDICATE),
    (("chat", "--for=condition=Loaded"), PREDICATE),
    (("chat", "--for=migration=terminal"), MIGRATION_ID),
    (("chat", "--for=migration=terminal", "--request-id=X"), MIGRATION_ID),
    (("chat", READY_FOR, f"--request-id={REQUEST_ID}"), MIGRATION_ID),
    (("chat", "--for=runtime-sync=acknowledged"), SYNC_ID),
    (("chat", "--for=runtime-sync=acknowledged", "--request-id=123e4567-e89b-12d3-a456-426614174000"), SYNC_ID),
    (("chat", "--for=replicas=ready", "--replicas=1"), READY_FLAGS),
    (("chat", "--for=replicas=ready", "--component=engine", "--replicas=-1"), READY_FLAGS),
    (("chat", READY_FOR, "--component=engine"), READY_FLAGS),
    (("chat", "--for=replicas=current", "--component=engine", "--replicas=0"), CURRENT_FLAGS),
    (("chat", "--for=replicas=current", "--component=engine", "--replicas=1", "--ir-name=x"), CURRENT_FLAGS),
    (("chat", "--for=held-revision=unheld", "--component=engine", "--revision=7f9c4d2b", "--ir-name=a", "--ir-uid=b"),
     HELD_FLAGS),
    (("chat", READY_FOR, "--revision=x"), HELD_FLAGS),
    (("chat", READY_FOR, "--timeout=0s"), "InvalidWaitTimeout: require positive duration no greater than 24h"),
    (("chat", READY_FOR, "--timeout=25h"), "InvalidWaitTimeout: require positive duration no greater than 24h"),
    (("chat", READY_FOR, "-o", "name"), "InvalidOutputFormat: supported table, wide, json, yaml"),
    (("chat", READY_FOR, "--context=nope"), "WaitConfigurationUnavailable"),
]  # fmt: skip


@pytest.mark.spec("CR-23")
@pytest.mark.parametrize(
    ("arguments", "message"), FLAG_ERRORS, ids=[f"{n}-{m[:24]}" for n, (_, m) in enumerate(FLAG_ERRORS)]
)
def test_flag_errors_come_before_any_request(
    cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], message: str
) -> None:
    ran = tool("wait", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")
    assert cluster.calls == []


def test_a_failed_read_is_an_error_without_a_report(cluster: StubCluster, tool: Tool) -> None:
    cluster.always("GET", "/inferenceservices/", status(403, "Forbidden", "no"))
    ran = tool("wait", "chat", READY_FOR)
    assert (ran.code, ran.out, ran.err) == (1, "", "error: AcquisitionFailed\n")


def test_too_many_conditions_are_an_error(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service(status={"conditions": [{"type": f"c{n}"} for n in range(257)]}))
    assert tool("wait", "chat", READY_FOR).err == "error: ConditionInspectionLimit\n"


@pytest.mark.parametrize(
    ("conditions", "reason", "warning"),
    [
        ([READY, READY | {"status": "False"}], "InvalidCondition", "ConflictingReadyConditions"),
        ([READY | {"lastTransitionTime": "2027-01-01T00:00:00Z"}], "InvalidCondition", "FutureConditionTimestamp"),
        ([READY | {"status": "Perhaps"}], "InvalidCondition", "InvalidConditionRecord"),
    ],
)
def test_a_ready_condition_that_cannot_be_trusted_never_matches(
    cluster: StubCluster, tool: Tool, conditions: list[dict[str, Any]], reason: str, warning: str
) -> None:
    cluster.put(INFERENCE_SERVICES, service(status={"conditions": conditions}))
    cluster.hooks.append(lambda call: status(403, "Forbidden", "no watch") if call.query.get("watch") else None)
    ran = tool("wait", "chat", READY_FOR, "--timeout=6s")
    assert (ran.code, fields(ran)["Reason"], fields(ran)["Inspection warning"]) == (2, reason, warning)
