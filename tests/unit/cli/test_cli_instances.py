"""`instance list` and `instance status` from literal objects, and the decoding of rows under both encodings."""

from __future__ import annotations

from typing import Any

import pytest

from ome.cli.evidence import instance_detail, instances
from ome.cli.evidence.instance_detail import Deployment, PodEvents
from ome.cli.evidence.instances import InstanceList, instance_list, revisions_cell, table_rows
from ome.cli.evidence.replicas import Replicas, collect
from ome.cli.evidence.rows import RowsError, decode, parse_index_set
from ome.cli.output.table import render_table
from tests.support.cli_objects import merged, replica, row, service

PARENT = service(spec={"decoder": {}})


def listed(*replicas: dict[str, Any], of: dict[str, Any] | None = None) -> InstanceList:
    parent = of or PARENT
    return instance_list(parent, collect(parent, replicas))


def with_rows(component: str, *found: dict[str, Any], **status: Any) -> dict[str, Any]:
    return replica(component, PARENT, status={"instanceStatuses": list(found), "replicas": len(found)} | status)


ENGINE = with_rows("engine", row(0, "chat-engine-a"))
DECODER = with_rows(
    "decoder",
    row(
        3,
        "chat-decoder-old",
        incarnation=8,
        phase="Updating",
        targetRevision="chat-decoder-new",
        podCount=4,
        operation={"type": "Update"},
    ),
    observedGeneration=3,
)


@pytest.mark.spec("CI-13")
def test_the_list_of_the_spec_byte_for_byte() -> None:
    assert render_table(instances.HEADER, table_rows(listed(DECODER, ENGINE))) == (
        "COMP      IDX/INC   PHASE      PODS    REVS          AOF   EVIDENCE\n"
        "engine    0/1       Ready      1/1/1   chat...ne-a   A--   OK\n"
        "decoder   3/8       Updating   1/1/4   chat...-new   AO-   STALE:3/4\n"
    )


@pytest.mark.spec("CI-15")
@pytest.mark.parametrize(
    ("running", "target", "cell"),
    [
        ("abcdefghijk", "", "abcdefghijk"),
        ("abcdefghijkl", "", "abcd...ijkl"),
        ("abcde", "fghij", "abcde>fghij"),
        ("abcde", "fghijk", "abcd...hijk"),
        ("", "new", ">new"),
        ("same", "same", "same"),
    ],
)
def test_revisions_are_whole_up_to_eleven_characters(running: str, target: str, cell: str) -> None:
    assert revisions_cell(running, target) == cell


TWO = [row(0, "a"), row(1, "a")]
EVIDENCE: list[tuple[str, dict[str, Any]]] = [
    ("OK", with_rows("engine", *TWO)),
    ("SPARSE", with_rows("engine", row(0, "a"), row(2, "a"))),
    ("EMPTY", with_rows("engine")),
    ("STALE:3/4", with_rows("engine", *TWO, observedGeneration=3)),
    ("NOT-OBSERVED", with_rows("engine", observedGeneration=None)),
    ("NOT-REPORTED", with_rows("engine", replicas=2)),
    ("ROWS-LIMIT", with_rows("engine", *[{"index": n, "phase": "Ready"} for n in range(20_001)])),
    ("BAD:DUP-IDX", with_rows("engine", row(0, "a"), row(0, "a"))),
    ("BAD:GEN", with_rows("engine", *TWO, observedGeneration=5)),
    ("BAD:REVISION", with_rows("engine", row(0, "Not A Name"))),
    ("BAD:COUNTS", with_rows("engine", *TWO, replicas=3)),
    ("BAD:COUNTS", with_rows("engine", row(0, "a", servingPodCount=2))),
    ("BAD:PHASE", with_rows("engine", row(0, "a", phase="Sleeping"))),
    ("BAD:INSTANCE", with_rows("engine", merged(row(0, "a"), {"index": None}))),
    ("BAD", with_rows("engine", *TWO, instanceStatusEncoding="Rot13")),
]


@pytest.mark.spec("CI-14")
@pytest.mark.parametrize(("evidence", "stored"), EVIDENCE, ids=[f"{name}-{n}" for n, (name, _) in enumerate(EVIDENCE)])
def test_every_evidence_value(evidence: str, stored: dict[str, Any]) -> None:
    assert {line[-1] for line in table_rows(listed(stored))} == {evidence}


@pytest.mark.spec("CI-14")
@pytest.mark.parametrize(
    ("stamp", "evidence"), [("1", "STALE:PARENT"), (None, "PARENT-UNAVL"), ("x", "BAD:PARENT"), ("3", "BAD:PARENT")]
)
def test_evidence_about_the_parent(stamp: str | None, evidence: str) -> None:
    stored = replica(of=PARENT, metadata={"annotations": {"ome.io/parent-generation": stamp}})
    assert {line[-1] for line in table_rows(listed(stored))} == {evidence}


@pytest.mark.spec("CI-14")
def test_a_component_claimed_twice_shows_no_rows() -> None:
    twice = listed(ENGINE, replica(of=PARENT, metadata={"name": "zz", "uid": "u"}))
    assert table_rows(twice) == [["engine", "-", "-", "-", "-", "-", "BAD:DUP-COMP"]]


@pytest.mark.spec("CI-14")
@pytest.mark.parametrize(
    ("replicas", "last"),
    [
        (Replicas((ENGINE,), unavailable="Forbidden"), "SOURCE-UNAVL"),
        (Replicas((ENGINE,), rejected=1), "REJECTED"),
        (Replicas((ENGINE,), truncated=True), "TRUNCATED"),
    ],
)
def test_collection_problems_add_a_summary_row(replicas: Replicas, last: str) -> None:
    lines = table_rows(instance_list(PARENT, replicas))
    assert lines[-1] == ["summary", "-", "-", "-", "-", "-", last]
    assert len(lines) == 2


@pytest.mark.spec("CI-14")
@pytest.mark.parametrize(
    ("replicas", "value"), [(Replicas(), "OK"), (Replicas(unavailable="Forbidden"), "SOURCE-UNAVL")]
)
def test_nothing_at_all_is_one_row_of_dashes(replicas: Replicas, value: str) -> None:
    assert table_rows(instance_list(PARENT, replicas)) == [["-", "-", "-", "-", "-", "-", value]]


COLUMNS = {
    "members": "0-1,3",
    "phases": [{"value": "Ready", "indexes": "0-1"}, {"value": "Updating", "indexes": "3"}],
    "runningRevisions": [{"value": "a", "indexes": "0-1,3"}],
    "targetRevisions": [{"value": "a", "indexes": "0-1"}, {"value": "b", "indexes": "3"}],
    "incarnations": [{"value": 1, "indexes": "0-1,3"}],
    "podCounts": [{"value": 1, "indexes": "0-1,3"}],
    "servingPodCounts": [{"value": 1, "indexes": "0-1,3"}],
    "availablePodCounts": [{"value": 1, "indexes": "0-1,3"}],
    "admitted": "0-1,3",
    "entries": [{"index": 3, "operation": {"type": "Update"}}],
}
DENSE = [row(0, "a"), row(1, "a"), row(3, "a", targetRevision="b", phase="Updating", operation={"type": "Update"})]


def columnar(**changes: Any) -> dict[str, Any]:
    columns = {key: value for key, value in (COLUMNS | changes).items() if value is not None}
    status = {"instanceStatuses": None, "instanceStatusEncoding": "ColumnarV2", "instanceStatusColumns": columns}
    return replica(of=PARENT, status=status | {"replicas": 3})


@pytest.mark.spec("CI-16")
def test_both_encodings_of_the_same_rows_list_the_same() -> None:
    assert decode(columnar()) == DENSE
    assert table_rows(listed(columnar())) == table_rows(listed(with_rows("engine", *DENSE)))


def test_a_row_order_is_kept() -> None:
    assert [entry["index"] for entry in decode(columnar(rowOrder=[3, 0, 1]))] == [3, 0, 1]


BROKEN = [
    {"members": "1,0"},
    {"members": "0-1,2"},
    {"members": "00"},
    {"members": ""},
    {"rowOrder": [0, 1]},
    {"phases": [{"value": "Ready", "indexes": "0-1"}]},
    {"phases": [{"value": "Ready", "indexes": "0-1,3"}, {"value": "Pending", "indexes": "3"}]},
    {"incarnations": [{"value": 0, "indexes": "0"}]},
    {"podCounts": [{"value": 1, "indexes": "9"}]},
    {"admitted": "9"},
    {"entries": [{"index": 3}]},
    {"entries": [{"index": 9, "readySince": "x"}]},
]


@pytest.mark.parametrize("changes", BROKEN)
def test_contradicting_columns_do_not_decode(changes: dict[str, Any]) -> None:
    with pytest.raises(RowsError):
        decode(columnar(**changes))


def test_index_sets() -> None:
    assert parse_index_set("0-2,5,7-8") == [0, 1, 2, 5, 7, 8]


# -- status ------------------------------------------------------------------------------------------------------------

NATIVE = Deployment("OMENative", "ServiceSpec", "LiveRuntime", "Computed")


def pod(name: str = "chat-engine-0-default-0", **changes: Any) -> dict[str, Any]:
    base = {
        "metadata": {"name": name, "uid": "p", "labels": {"ome.io/runner": "default"}},
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Running", "containerStatuses": [{"restartCount": 7}]},
    }
    return base | changes


FAILED = row(
    0,
    "",
    phase="Failed",
    runningRevision=None,
    targetRevision="chat-engine-6c4f8b1d",
    servingPodCount=0,
    availablePodCount=0,
    lastFailure={
        "podName": "chat-engine-0-default-0",
        "containerName": "ome-container",
        "reason": "Error",
        "exitCode": 1,
        "time": "2026-09-14T20:52:31Z",
    },
)


def detail(
    stored: list[dict[str, Any]],
    index: int = 0,
    deployment: Deployment = NATIVE,
    pods: list[PodEvents] | None = None,
    replicas: Replicas | None = None,
) -> instance_detail.InstanceDetail:
    return instance_detail.instance_detail(
        PARENT, replicas or collect(PARENT, stored), "engine", index, deployment, pods or [], []
    )


@pytest.mark.spec("CI-17", "CI-18")
def test_the_status_of_the_spec_byte_for_byte() -> None:
    events = [{"reason": "BackOff", "count": 21, "message": "Back-off restarting failed container token=hunter2"}]
    found = detail([with_rows("engine", FAILED)], pods=[PodEvents(pod(), events)])
    assert render_table(instance_detail.HEADER, instance_detail.table_rows(found)) == (
        "FIELD        VALUE\n"
        "state        Reported engine[0] evidence=Reported\n"
        "deployment   mode=OMENative source=ServiceSpec origin=LiveRuntime evidence...\n"
        "encoding     name=DenseV1 evidence=Reported reason=-\n"
        "instance     chat-engine inc=1 phase=Failed admitted=true\n"
        "revisions    running=- target=chat-engine-6c4f8b1d\n"
        "persisted    pods=1 serving=0 available=0\n"
        "lifecycle    activeOrdinal=0 readySince=-\n"
        "failure      pod=chat-engine-0-default-0 container=ome-container reason=Er...\n"
        "fail time    2026-09-14T20:52:31Z\n"
        "pod          chat-engine-0-default-0 default/Running ready=False serving=F...\n"
        "event        Pod/chat-engine-0-default-0 reason=BackOff count=21\n"
    )


@pytest.mark.spec("CI-17")
@pytest.mark.parametrize(
    ("state", "arguments"),
    [
        ("Reported", {"stored": [with_rows("engine", row(0, "a"))]}),
        ("Partial", {"stored": [with_rows("engine", row(0, "a"), observedGeneration=3)]}),
        ("Missing", {"stored": [with_rows("engine", row(0, "a"))], "index": 5}),
        ("NotProjected", {"stored": []}),
        (
            "NotOMENative",
            {"stored": [], "deployment": Deployment("RawDeployment", "Default", "LiveRuntime", "Computed")},
        ),
        ("Unavailable", {"stored": [], "replicas": Replicas(unavailable="Forbidden")}),
        ("Unavailable", {"stored": [with_rows("engine", observedGeneration=None)]}),
    ],
)
def test_each_state_can_be_reached(state: str, arguments: dict[str, Any]) -> None:
    assert detail(**arguments).state == state


@pytest.mark.spec("CI-18")
def test_credentials_in_reasons_are_redacted() -> None:
    failed = row(0, "a", lastFailure={"podName": "p", "containerName": "c", "reason": "token=abcdef", "message": "x"})
    found = detail([with_rows("engine", failed)])
    text = render_table(instance_detail.HEADER, instance_detail.table_rows(found))
    assert "abcdef" not in text
    assert "reason=[REDACTED]" in text
    assert "abcdef" not in str(instance_detail.content(found))


def test_wide_shows_one_whole_field_a_row() -> None:
    updating = row(
        0,
        "a",
        phase="Updating",
        operation={
            "type": "Migrate",
            "id": "op-1",
            "step": "CreateSurge",
            "startedAt": "2026-09-28T14:00:00Z",
            "surgeIndex": 4,
            "waiting": "quota",
        },
    )
    found = detail([with_rows("engine", updating)], pods=[PodEvents(pod(), [])])
    lines = dict(map(tuple, instance_detail.wide_rows(found)))  # type: ignore[arg-type]
    assert lines["phase"] == "Updating"
    assert lines["operation started"] == "2026-09-28T14:00:00Z"
    assert lines["operation deadline"] == "-"
    assert lines["operation surge index"] == "4"
    assert lines["op hold"] == "waiting=quota quotaRefused=-"
    assert lines["pod[0] ready"] == "False"
    assert lines["pod[0] restarts"] == "7"
