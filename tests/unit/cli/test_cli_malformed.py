"""Whatever the API server hands over, a report comes out: literal objects with random parts replaced by junk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from ome.cli.actions.rollout_work import has_rollout_work, replica_is_busy
from ome.cli.errors import CliError
from ome.cli.evidence import (
    autoscale,
    effective_report,
    history,
    instance_detail,
    instances,
    listing,
    migrations,
    rollout_report,
    status_report,
)
from ome.cli.evidence.chains import Chain, member
from ome.cli.evidence.effective import LiveEvidence, RevisionEvidence, RuntimeEvidence, effective
from ome.cli.evidence.instance_detail import Deployment, PodEvents
from ome.cli.evidence.replicas import collect
from ome.cli.evidence.retry_blocks import HEADER, retry_blocks_report
from ome.cli.evidence.revisions import declared_source, read_revision, with_group_issues
from ome.cli.evidence.rollout import rollout
from ome.cli.evidence.status_report import Observation, StatusEvidence
from ome.cli.output.report import to_json
from ome.cli.output.table import render_table
from ome.cli.wait.observation import Counts, Ended, Snapshot
from ome.cli.wait.replica_checks import (
    CurrentReplicasCheck,
    HeldRevisionCheck,
    MigrationCheck,
    ReadyReplicasCheck,
)
from ome.cli.wait.request import WaitRequest
from ome.cli.wait.service_checks import ReadyCheck, RolloutCheck, RuntimeSyncCheck
from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES
from tests.support.cli_objects import (
    HELD,
    LLAMA_NAMESPACE,
    LLAMA_RUNTIME,
    NOW,
    block,
    drifted,
    merged,
    pinned_service,
    replica,
    revision,
    row,
    runtime,
    runtime_spec,
    service,
)

JUNK: list[Any] = [
    None,
    True,
    -1,
    2**40,
    1.5,
    "",
    "x",
    "\x1b[2J\u202e",
    [],
    {},
    [None],
    [1],
    {"a": None},
    "2026-13-45T99:00:00Z",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def spoiled(obj: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The object with one to four of its parts replaced."""
    found = deepcopy(obj)
    for _ in range(chance.randint(1, 4)):
        *parents, last = chance.choice(places(found))
        holder = found
        for step in parents:
            holder = holder[step]
        holder[last] = deepcopy(chance.choice(JUNK))
    return found


COMPONENT_STATUS = {
    "engine": {
        "rolloutPhase": "Paused",
        "lifecycle": {"currentRevision": "a", "updateRevision": "b"},
        "autoscaler": {
            "class": "HPA",
            "managedBy": "ome",
            "currentReplicas": 1,
            "desiredReplicas": 2,
            "conditions": [],
        },
        "canary": {"currentStep": 0, "observedTrafficWeight": 10},
        "scaleTargetRef": {"apiVersion": "ome.io/v1beta1", "kind": "InferenceReplica", "name": "chat-engine"},
        "selectedAccelerator": {"acceleratorClass": "h100"},
    }
}
SERVICE = service(
    metadata={
        "annotations": {"ome.io/runtime-sync": "t"},
        "labels": {"a": "b"},
        "creationTimestamp": "2026-09-28T11:00:00Z",
    },
    spec={
        "rollout": {"groups": [{"components": ["engine"], "canary": {"steps": [{"capacity": "25%", "traffic": 1}]}}]},
        "placement": {"mode": "Single"},
        "acceleratorSelector": {"policy": "BestFit"},
    },
    status={
        "conditions": [drifted(), {"type": "Ready", "status": "True", "lastTransitionTime": "2026-09-28T11:00:00Z"}],
        "components": COMPONENT_STATUS,
        "rollout": {"activeRun": {"plan": {"groups": []}}, "lastRun": {"outcome": "RolledBack"}},
        "rolloutCoordination": {"groups": [{"components": ["engine"], "phase": "Paused"}]},
        "traffic": {"conditions": [{"type": "BackendPolicyReady", "status": "True", "observedGeneration": 2}]},
        "placement": {"phase": "Placed", "candidates": [{"cluster": "c"}], "cluster": "c", "endpoint": "http://x"},
    },
)
MIGRATION = {"requestUUID": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "sourceInstance": 0, "surgeInstance": 4,
             "phase": "Draining", "trigger": "Manual", "startedAt": "2026-09-28T11:00:00Z",
             "hintTargetNodes": ["n"], "message": "m"}  # fmt: skip
ROW = row(
    0,
    "chat-engine-6c4f8b1d",
    conditions=[{"type": "Failed", "status": "True", "observedGeneration": 1, "reason": "r"}],
    announced=["GangSplitRisk@#1"],
    operation={"type": "Migrate", "id": "i", "step": "CreateSurge", "surgeIndex": 1, "hintTargetNodes": ["n"],
               "strategy": "SurgeThenDrain", "waiting": "w", "startedAt": "2026-09-28T11:00:00Z"},
    lastFailure={"podName": "p", "containerName": "c", "reason": "r", "exitCode": 1, "time": "2026-09-28T11:00:00Z"},
)  # fmt: skip
DENSE = replica(
    of=SERVICE, blocks=[block()], status={"instanceStatuses": [ROW], "replicas": 1, "migrations": [MIGRATION],
                                          "conditions": [{"type": "Ready", "status": "True"}]},
)  # fmt: skip
COLUMNS = {
    "members": "0",
    "phases": [{"value": "Ready", "indexes": "0"}],
    "runningRevisions": [{"value": "a", "indexes": "0"}],
    "incarnations": [{"value": 1, "indexes": "0"}],
    "admitted": "0",
    "entries": [{"index": 0, "announced": ["a@b"]}],
}
COLUMNAR = merged(
    DENSE,
    {"status": {"instanceStatuses": None, "instanceStatusEncoding": "ColumnarV2", "instanceStatusColumns": COLUMNS}},
)
POD = {
    "metadata": {"name": "p", "uid": "u", "labels": {"component": "engine", "ome.io/runner": "default"}},
    "spec": {"nodeName": "n"},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"restartCount": 1}],
    },
}
EVENT = {
    "type": "Warning",
    "reason": "BackOff",
    "message": "m",
    "count": 2,
    "series": {"count": 3, "lastObservedTime": "2026-09-28T11:00:00Z"},
    "involvedObject": {"kind": "Pod", "name": "p", "uid": "u"},
}

Draw = Callable[[dict[str, Any]], dict[str, Any]]


def blocks_and_instances(draw: Draw) -> None:
    parent, stored = draw(SERVICE), [draw(DENSE), draw(COLUMNAR)]
    for found in ([stored[0]], [stored[1]], stored):
        replicas = collect(parent, found)
        report = retry_blocks_report(parent, replicas, "engine", NOW)
        render_table(HEADER, report.rows())
        to_json(report.content())
        listed = instances.instance_list(parent, replicas)
        render_table(instances.HEADER, instances.table_rows(listed))
        to_json(instances.content(listed))
        pods = [PodEvents(draw(POD), [draw(EVENT)])]
        deployment = Deployment("OMENative", "ServiceSpec", "LiveRuntime", "Computed")
        detail = instance_detail.instance_detail(parent, replicas, "engine", 0, deployment, pods, [])
        render_table(instance_detail.HEADER, instance_detail.table_rows(detail))
        render_table(instance_detail.HEADER, instance_detail.wide_rows(detail))
        to_json(instance_detail.content(detail))
        moved = migrations.migration_status(parent, found, "", False)
        render_table(migrations.HEADER, migrations.rows(moved))
        to_json(migrations.content(moved))
        audit, issues = migrations.audit_entries({"data": {"history.json": json.dumps([draw(MIGRATION)])}}, parent)
        joined = migrations.migration_history(moved, audit, "", issues, "Reported")
        render_table(migrations.HISTORY_HEADER, migrations.history_rows(joined))
        render_table(migrations.HISTORY_WIDE, migrations.history_wide_rows(joined))
        has_rollout_work(parent)
        for one in found:
            replica_is_busy(one, parent)


def runtimes(draw: Draw) -> None:
    parent = draw(pinned_service(status={"conditions": [drifted()]}))
    live = draw(runtime(LLAMA_RUNTIME, runtime_spec("0.85"), LLAMA_NAMESPACE))
    stored = draw(revision(LLAMA_RUNTIME, runtime_spec(), LLAMA_NAMESPACE))
    expected = declared_source(parent)
    read = with_group_issues([read_revision(stored, expected, "ome")])
    named = {entry.name: RevisionEvidence(entry) for entry in read}
    found = effective(RuntimeEvidence(parent, LiveEvidence(Chain((member(live, LLAMA_NAMESPACE),))), named))
    render_table(effective_report.HEADER, effective_report.rows(found))
    render_table(effective_report.WIDE_HEADER, effective_report.wide_rows(found))
    to_json(effective_report.content(found))
    past = history.history(parent, found, named, read, history.Window(1, 1))
    render_table(history.HEADER, history.rows(past), 80)
    render_table(history.WIDE_HEADER, history.wide_rows(past))
    to_json(history.content(past))


def service_reports(draw: Draw) -> None:
    parent = draw(SERVICE)
    pods, issues = status_report.counted_pods([draw(POD), draw(POD)])
    observation = Observation("Reported", len(pods))
    evidence = StatusEvidence(
        parent, pods, observation, [draw(EVENT)], observation, 0, None, "NotConfigured", tuple(issues), "now", NOW
    )
    render_table(status_report.HEADER, status_report.rows(evidence, True))
    to_json(status_report.content(evidence))
    scaling = autoscale.autoscaling(parent)
    render_table(autoscale.HEADER, autoscale.rows(scaling, {}))
    render_table(autoscale.WIDE_HEADER, autoscale.wide_rows(scaling, "prod"))
    to_json(autoscale.content(scaling, {}))
    state = rollout(parent)
    render_table(rollout_report.HEADER, rollout_report.rows(state))
    render_table(rollout_report.WIDE_HEADER, rollout_report.wide_rows(state))
    to_json(rollout_report.content(state))
    for kind, resource, obj in (("isvc", INFERENCE_SERVICES, parent), ("ir", INFERENCE_REPLICAS, draw(DENSE))):
        found = listing.find_kind(kind)
        assert found is not None
        render_table(*listing.table(found, [(resource, obj)], NOW, wide=True, all_namespaces=True))


def waits(draw: Draw) -> None:
    request = WaitRequest(
        "chat", "", "True", 1, "engine", 1, "7c9e6679-7425-40de-944b-e07fc1f90ae7", HELD, "chat-engine", "u"
    )
    snapshot = Snapshot(draw(SERVICE), [draw(DENSE), draw(COLUMNAR)])
    stable = request._replace(wanted="Succeeded")
    for check in (
        ReadyCheck(request),
        RolloutCheck(stable),
        RuntimeSyncCheck(request),
        MigrationCheck(request),
        ReadyReplicasCheck(request),
        CurrentReplicasCheck(request),
        HeldRevisionCheck(request),
    ):
        try:
            seen = check.observe(snapshot, NOW)
        except CliError:
            # Too much to inspect is an ending of its own.
            continue
        ended = Ended("prod", "chat", "TimedOut", seen, Counts(), "Poll", False, 1)
        render_table(("FIELD", "VALUE"), [list(line) for line in check.rows(ended, True)])
        to_json(check.content(ended))


@pytest.mark.parametrize("report", [blocks_and_instances, runtimes, service_reports, waits])
@pytest.mark.parametrize("seed", range(60))
def test_a_report_comes_out_of_any_object(report: Callable[[Draw], None], seed: int) -> None:
    chance = random.Random(seed)
    report(lambda obj: spoiled(obj, chance) if chance.random() < 0.7 else deepcopy(obj))
