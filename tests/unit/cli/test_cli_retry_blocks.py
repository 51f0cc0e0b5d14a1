"""The report of `instance retry-blocks` from literal objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ome.cli.evidence.replicas import Replicas, collect
from ome.cli.evidence.retry_blocks import (
    ALIASES,
    HEADER,
    RetryBlocksReport,
    attempts_cell,
    retry_blocks_report,
    target_cell,
)
from ome.cli.output.table import render_table
from ome.cli.output.text import digest
from tests.support.cli_objects import HELD, NOW, block, replica, service


def report(*replicas: dict[str, Any], of: dict[str, Any] | None = None, component: str = "engine") -> RetryBlocksReport:
    parent = of or service()
    return retry_blocks_report(parent, collect(parent, replicas), component, NOW)


def table(found: RetryBlocksReport) -> str:
    return render_table(HEADER, found.rows())


@pytest.mark.spec("CI-1")
def test_the_held_block_of_the_walkthrough_prints_two_exact_lines() -> None:
    assert table(report(replica(blocks=[block()]))) == (
        "COMP     STATE   TARGET           ATT   NEXT   REL   REASON\n"
        "engine   HELD    chat-#4c6a152e   3     -      YES   ImagePullB...\n"
    )


@pytest.mark.spec("CI-2")
def test_no_blocks_print_the_empty_table() -> None:
    assert table(report(replica())) == (
        "COMP   STATE   TARGET   ATT   NEXT   REL   REASON\n-      EMPTY   -        -     -      NO    -\n"
    )


@pytest.mark.spec("CI-3", "CI-4")
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("abcdefghijklmn", "abcdefghijklmn"),
        ("abcdefghijklmno", "abcde#41c7760c"),
        ("chat-engine-7f9c4d2b", "chat-#4c6a152e"),
        ("Not_A_Name", "!" + digest("Not_A_Name")),
    ],
)
def test_a_target_is_whole_up_to_fourteen_characters_then_an_alias(name: str, cell: str) -> None:
    assert target_cell(name) == cell


@pytest.mark.spec("CI-4")
@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("chat-engine-7f9c4d2b", "4c6a152e"),
        ("r-llama-demo-sglang-llama-3-2-3b-590753e8", "1cd9e1bc"),
        ("r-llama-demo-sglang-llama-3-2-3b-af9539ac", "daecf07f"),
    ],
)
def test_digests_are_the_start_of_the_names_sha256(name: str, start: str) -> None:
    assert digest(name) == start


@pytest.mark.spec("CI-5")
@pytest.mark.parametrize(("attempts", "cell"), [(99, "99"), (100, "99+"), (-1, "?"), (0, "0")])
def test_attempts(attempts: int, cell: str) -> None:
    assert attempts_cell(attempts) == cell


@pytest.mark.spec("CI-6", "CI-7")
def test_a_backoff_block_shows_its_next_attempt_in_minutes() -> None:
    waiting = block(state="Backoff", attemptsStarted=1, nextRetryAt="2026-09-28T14:03:59Z")
    found = report(replica(blocks=[waiting]))
    assert found.rows() == [["engine", "BACKOFF", "chat-#4c6a152e", "1", "26-09-28T14:03Z", "NO", "ImagePullB..."]]


@pytest.mark.spec("CI-7")
def test_a_running_retry_may_keep_the_time_of_its_backoff() -> None:
    running = block(state="RetryInProgress", nextRetryAt="2026-09-28T14:00:00Z")
    assert report(replica(blocks=[running])).rows()[0][1] == "RUNNING"


STALE = {"status": {"observedGeneration": 3}}
ISSUES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("STATUS_UNOBS", [replica(blocks=[block()], status={"observedGeneration": None})], {}),
    ("STATUS_STALE", [replica(blocks=[block()], status={"observedGeneration": 3})], {}),
    ("OBSGEN_BAD", [replica(blocks=[block()], status={"observedGeneration": 5})], {}),
    ("PARENT_MISS", [replica(blocks=[block()], metadata={"annotations": {"ome.io/parent-generation": None}})], {}),
    ("PARENT_BAD", [replica(blocks=[block()], metadata={"annotations": {"ome.io/parent-generation": "02"}})], {}),
    ("PARENT_STALE", [replica(blocks=[block()], metadata={"annotations": {"ome.io/parent-generation": "1"}})], {}),
    ("PARENT_AHEAD", [replica(blocks=[block()], metadata={"annotations": {"ome.io/parent-generation": "3"}})], {}),
    ("NO_COMPONENT", [], {}),
    ("DUP_COMP", [replica(blocks=[block()]), replica(blocks=[block()], metadata={"name": "other", "uid": "u2"})], {}),
    ("ID_REJECT", [replica(blocks=[block()]), replica(metadata={"name": "stray", "ownerReferences": []})], {}),
    ("BLOCK_TRUNC", [replica(blocks=[block(f"chat-engine-{n:08x}") for n in range(257)])], {}),
    ("TARGET_BAD", [replica(blocks=[block("chat-engine-7F9C4D2B")])], {}),
    ("STATE_BAD", [replica(blocks=[block(state="Paused")])], {}),
    ("ATT_BAD", [replica(blocks=[block(attemptsStarted=None)])], {}),
    ("TIME_BAD", [replica(blocks=[block(nextRetryAt="2026-09-28T14:30:00Z")])], {}),
    ("DUP_TARGET", [replica(blocks=[block(), block()])], {}),
]


@pytest.mark.spec("CI-8", "CI-9")
@pytest.mark.parametrize(("alias", "replicas", "changes"), ISSUES, ids=[alias for alias, *_ in ISSUES])
def test_every_issue_has_its_row_and_releases_nothing(
    alias: str, replicas: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    rows = report(*replicas, of=service(**changes)).rows()
    assert alias in [row[6] for row in rows if row[1] == "ISSUE"]
    assert {row[5] for row in rows} == {"NO"}


@pytest.mark.spec("CI-8")
@pytest.mark.parametrize(
    ("alias", "replicas"),
    [
        ("COLL_UNAV", Replicas(unavailable="Forbidden")),
        ("COLL_TRUNC", Replicas((replica(blocks=[block()]),), truncated=True)),
    ],
)
def test_an_incomplete_collection_is_an_issue(alias: str, replicas: Replicas) -> None:
    rows = retry_blocks_report(service(), replicas, "engine", NOW).rows()
    assert alias in [row[6] for row in rows if row[1] == "ISSUE"]
    assert {row[5] for row in rows} == {"NO"}


def test_the_aliases_are_the_eighteen_of_the_spec() -> None:
    assert len(ALIASES) == 18
    assert len(set(ALIASES.values())) == 18


@pytest.mark.spec("CI-7")
def test_an_unknown_state_is_invalid_and_an_issue() -> None:
    rows = report(replica(blocks=[block(state="Paused")])).rows()
    assert [row[1] for row in rows] == ["INVALID", "ISSUE"]
    assert rows[1][6] == "STATE_BAD"


@pytest.mark.spec("CI-9")
@pytest.mark.parametrize(
    ("what", "replicas", "of"),
    [
        ("replica stale", [replica(blocks=[block()], **STALE)], service()),
        ("parent stale", [replica(blocks=[block()])], service(metadata={"generation": 3})),
        (
            "replica deleting",
            [replica(blocks=[block()], metadata={"deletionTimestamp": "2026-09-28T14:00:00Z"})],
            service(),
        ),
        (
            "service deleting",
            [replica(blocks=[block()])],
            service(metadata={"deletionTimestamp": "2026-09-28T14:00:00Z"}),
        ),
    ],
)
def test_a_held_block_is_not_offered_for_release_when(
    what: str, replicas: list[dict[str, Any]], of: dict[str, Any]
) -> None:
    rows = retry_blocks_report(of, collect(of, replicas), "engine", NOW).rows()
    assert rows[0][1] == "HELD"
    assert rows[0][5] == "NO"


TIMES = [
    ("backoff without a next attempt", block(state="Backoff")),
    ("held with a next attempt", block(nextRetryAt="2026-09-28T14:30:00Z")),
    ("last failure in the future", block(lastFailureAt=(NOW + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"))),
    ("first failure in the future", block(firstFailureAt="2027-01-01T00:00:00Z", lastFailureAt=None)),
    ("last before first", block(lastFailureAt="2026-09-28T13:49:59Z")),
    ("next before first", block(state="Backoff", nextRetryAt="2026-09-28T13:49:59Z")),
    ("no time at all", block(lastFailureAt="yesterday")),
]


@pytest.mark.spec("CI-8")
@pytest.mark.parametrize(("what", "raw"), TIMES, ids=[what for what, _ in TIMES])
def test_contradicting_times(what: str, raw: dict[str, Any]) -> None:
    assert "TIME_BAD" in [row[6] for row in report(replica(blocks=[raw])).rows()]


@pytest.mark.spec("CI-10", "CI-49")
@pytest.mark.parametrize(
    ("reason", "cell"),
    [
        ("ErrImagePull", "ErrImagePull"),
        ("ImagePullBackOff", "ImagePullB..."),
        ("CreateContainerConfigError", "CreateCont..."),
        ("InvalidImageName", "InvalidIma..."),
        ("InvalidPodSpec", "InvalidPod..."),
    ],
)
def test_reasons_are_cut_in_the_table_and_whole_in_json(reason: str, cell: str) -> None:
    found = report(replica(blocks=[block(reason=reason)]))
    assert found.rows()[0][6] == cell
    assert found.content()["blocks"][0]["reason"] == reason


@pytest.mark.spec("CI-10")
def test_json_carries_the_whole_block_and_the_counts() -> None:
    content = report(replica(blocks=[block(), block("chat-engine-00000001", state="RetryInProgress")])).content()
    assert content["summary"] == {"state": "Reported", "blocks": 2, "held": 1, "eligible": 1, "truncated": False}
    held = next(entry for entry in content["blocks"] if entry["state"] == "Held")
    assert held == {
        "component": "engine",
        "inferenceReplica": "chat-engine",
        "targetRevision": HELD,
        "state": "Held",
        "attemptsStarted": 3,
        "firstFailureAt": "2026-09-28T13:50:00Z",
        "lastFailureAt": "2026-09-28T13:55:00Z",
        "reason": "ImagePullBackOff",
        "reasonTruncated": False,
        "releaseEligible": True,
        "freshness": "Current",
    }
    assert content["issues"] == []


@pytest.mark.spec("CI-56")
def test_a_service_edited_while_drifted_shows_its_replicas_as_behind() -> None:
    edited = service(metadata={"generation": 3})
    rows = report(replica(blocks=[block()]), of=edited).rows()
    assert [row[6] for row in rows if row[1] == "ISSUE"] == ["PARENT_STALE"]
    assert rows[0][5] == "NO"


def test_hostile_text_of_a_block_reaches_no_terminal() -> None:
    text = table(report(replica(blocks=[block(reason="a\x1b[2J\u202eb")])))
    assert "\x1b" not in text
    assert "\u202e" not in text
