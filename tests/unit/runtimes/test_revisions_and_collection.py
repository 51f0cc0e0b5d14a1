"""Revision objects, their reuse, and what the collector does with them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ome.api.meta import timestamp
from ome.runtimes.collection import Delete, Mark, Unmark, plan_collection
from ome.runtimes.revisions import StoredRevision, draft_revision, reusable
from tests.unit.runtimes.builders import NAME, NAMESPACE, REVISION_85, REVISION_90, canonical, example, stored

HASHES: dict[str, tuple[dict[str, Any], str]] = {
    "0.9": (example(), "590753e8"),
    "0.85": (example("0.85"), "af9539ac"),
    "0.8": (example("0.8"), "40a0481c"),
    "disabled": (example("0.85", disabled=True), "d03a10f1"),
    "explicitly enabled": (example("0.85", disabled=False), "51c5f8e2"),
    "the smallest": (
        {
            "engineConfig": {
                "runner": {"name": "ome-container", "image": "docker.io/library/busybox:1", "args": ["sleep", "1"]}
            }
        },
        "33a33825",
    ),
}


@pytest.mark.spec("RR-1")
@pytest.mark.parametrize(("spec", "hash8"), HASHES.values(), ids=HASHES)
def test_golden_hashes(spec: dict[str, Any], hash8: str) -> None:
    assert draft_revision("ServingRuntime", NAME, NAMESPACE, spec).hash8 == hash8


@pytest.mark.spec("RR-2", "RR-3")
def test_the_object_of_a_namespaced_kind() -> None:
    made = draft_revision("ServingRuntime", NAME, NAMESPACE, example()).to_object("ome")
    assert made["metadata"] == {
        "name": REVISION_90,
        "namespace": "ome",
        "labels": {
            "ome.io/runtime-of": NAME,
            "ome.io/runtime-of-kind": "ServingRuntime",
            "ome.io/runtime-of-namespace": NAMESPACE,
            "ome.io/revision-hash": "590753e8",
        },
        "annotations": {"ome.io/created-by": "ome-controller"},
    }
    assert (made["apiVersion"], made["kind"], made["revision"]) == ("apps/v1", "ControllerRevision", 1)
    assert json.dumps(made["data"], separators=(",", ":")) == canonical(example())


@pytest.mark.spec("RR-3")
@pytest.mark.parametrize("kind", ["ClusterServingRuntime", ""])
def test_the_object_of_the_cluster_kind(kind: str) -> None:
    made = draft_revision(kind, NAME, NAMESPACE, example()).to_object("ome")
    assert made["metadata"]["name"] == f"cr-{NAME}-590753e8"
    assert made["metadata"]["labels"]["ome.io/runtime-of-kind"] == "ClusterServingRuntime"
    assert made["metadata"]["labels"]["ome.io/runtime-of-namespace"] == ""


DRAFT = draft_revision("ServingRuntime", NAME, NAMESPACE, example())
OWN = stored(example())
FOREIGN = stored(example(), kind="ClusterServingRuntime")
REUSE: dict[str, tuple[list[StoredRevision], str | None]] = {
    "nothing stored": ([], None),
    "its own name": ([OWN], REVISION_90),
    "equal content of another scope, under its name": ([FOREIGN], f"cr-{NAME}-590753e8"),
    "its own name is preferred": ([FOREIGN, OWN], REVISION_90),
    "else the first by name": (
        [stored(example(), namespace="z"), stored(example(), namespace="a")],
        f"r-a-{NAME}-590753e8",
    ),
    "another hash": ([stored(example("0.85"))], None),
    "another runtime": ([stored(example(), name="other")], None),
    "data that is not what the label says": ([replace(stored(example("0.85")), labels=OWN.labels)], None),
    "data that does not decode": ([replace(OWN, data=msgspec.Raw(b"1"))], None),
}


@pytest.mark.spec("RR-4", "RR-39")
@pytest.mark.parametrize(("held", "name"), REUSE.values(), ids=REUSE)
def test_reuse(held: list[StoredRevision], name: str | None) -> None:
    found = reusable(DRAFT, held)
    assert (found.name if found else None) == name


NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def aged(
    number: int, *, name: str = NAME, marked: str | None = None, ome: bool = True, namespace: str = NAMESPACE
) -> StoredRevision:
    """Revision number `n`, created n days ago."""
    annotations = {"ome.io/created-by": "ome-controller" if ome else "somebody"}
    if marked is not None:
        annotations["ome.io/gc-eligible-since"] = marked
    revision = stored(example(f"0.{number}"), name=name, namespace=namespace, created=NOW - number * DAY)
    return replace(revision, annotations=annotations)


def plan(*revisions: StoredRevision, referenced: set[str] | None = None, retention: int = 2) -> dict[str, str]:
    made = plan_collection(revisions, referenced or set(), retention=retention, grace=DAY, now=NOW)
    return {_short(action.revision, revisions): type(action).__name__ for action in made.actions}


def _short(revision: StoredRevision, revisions: tuple[StoredRevision, ...]) -> str:
    return str((NOW - (revision.created or NOW)).days)


AGO = timestamp(NOW - timedelta(hours=23))
LONG_AGO = timestamp(NOW - DAY)


@pytest.mark.spec("RR-26")
def test_the_newest_are_kept_and_the_rest_marked() -> None:
    assert plan(aged(3), aged(1), aged(4), aged(2)) == {"3": "Mark", "4": "Mark"}


@pytest.mark.spec("RR-26")
def test_ten_newest_of_a_name_plus_all_referenced() -> None:
    revisions = [aged(number) for number in range(1, 15)]
    kept = {revisions[12].name}
    made = plan_collection(revisions, kept, retention=10, grace=DAY, now=NOW)
    assert [action.revision.name for action in made.actions] == [revisions[n].name for n in (10, 11, 13)]
    assert all(isinstance(action, Mark) for action in made.actions)


@pytest.mark.spec("RR-26")
def test_referenced_ones_count_in_the_positions() -> None:
    assert plan(aged(1), aged(2), aged(3), referenced={aged(1).name}) == {"3": "Mark"}


@pytest.mark.spec("RR-26")
def test_namesakes_share_one_quota() -> None:
    assert plan(aged(1), aged(2, namespace="other"), aged(3)) == {"3": "Mark"}
    assert plan(aged(1), aged(2), aged(3, name="another")) == {}


@pytest.mark.spec("RR-26", "RR-28")
def test_marks() -> None:
    table = {
        "kept and marked is unmarked": (plan(aged(1, marked=LONG_AGO)), {"1": "Unmark"}),
        "referenced and marked is unmarked": (
            plan(aged(1), aged(2), aged(3, marked=LONG_AGO), referenced={aged(3).name}),
            {"3": "Unmark"},
        ),
        "the grace period is over": (plan(aged(1), aged(2), aged(3, marked=LONG_AGO)), {"3": "Delete"}),
        "it is not": (plan(aged(1), aged(2), aged(3, marked=AGO)), {}),
        "an unparsable mark is set anew": (plan(aged(1), aged(2), aged(3, marked="yesterday")), {"3": "Mark"}),
        "no grace from long ago without a mark": (plan(aged(1), aged(2), aged(400)), {"400": "Mark"}),
    }
    for name, (found, wanted) in table.items():
        assert found == wanted, name


@pytest.mark.spec("RR-27")
def test_what_ome_did_not_make_is_left_alone() -> None:
    assert plan(aged(1), aged(2), aged(3, ome=False), aged(4, ome=False, marked=LONG_AGO)) == {}


@pytest.mark.spec("RR-28")
def test_a_mark_is_now_in_seconds_and_the_next_look_is_when_it_ends() -> None:
    made = plan_collection([aged(1), aged(2), aged(3, marked=AGO), aged(4)], (), retention=2, grace=DAY, now=NOW)
    (mark,) = made.actions
    assert isinstance(mark, Mark)
    assert mark.since == "2026-09-01T12:00:00Z"
    assert made.next_due == NOW + timedelta(hours=1)


def test_the_order_of_the_input_changes_nothing() -> None:
    revisions = [aged(number, marked=LONG_AGO if number % 2 else None) for number in range(1, 9)]
    forward = plan_collection(revisions, (), retention=2, grace=DAY, now=NOW)
    backward = plan_collection(revisions[::-1], (), retention=2, grace=DAY, now=NOW)
    assert forward == backward
    assert {type(action) for action in forward.actions} == {Mark, Delete, Unmark}


def test_names_of_the_example() -> None:
    assert stored(example("0.85")).name == REVISION_85
