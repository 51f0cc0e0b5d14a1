"""Columnar status: index sets, round trips, refusals, the spelling that is written (`docs/spec/api-types.md` 4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ome.api.columnar import ColumnarError, decode_rows, encode_rows, format_indexes, parse_indexes
from ome.api.types.inference_replica import (
    InferenceReplicaStatus,
    InstanceOperation,
    InstanceStatus,
    InstanceTermination,
)
from ome.omenative.encoding import UndecodableStatus, dense, merge_patch, wire

from .builders import NOW, row


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1, 2], "0-2"),
        ([5, 3, 4, 9], "3-5,9"),
        ([*range(9), *range(10, 115), 116], "0-8,10-114,116"),
    ],
)
def test_an_index_set_is_ascending_and_merged(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, limit=1000) == sorted(indexes)


@pytest.mark.parametrize("text", ["1,0", "0,1", "0-0", "3-2", "01", "0, 2", "-1", "a", "0-", "1-3,3", "99999999999"])
def test_a_malformed_index_set_is_refused(text: str) -> None:
    with pytest.raises(ColumnarError):
        parse_indexes(text, limit=1000)


def test_an_index_set_above_the_bound_is_refused_before_it_is_built() -> None:
    with pytest.raises(ColumnarError, match="more than 20000 indexes"):
        parse_indexes("0-2000000000", limit=20_000)


rows = st.builds(
    InstanceStatus,
    index=st.integers(0, 40),
    incarnation=st.integers(0, 3),
    phase=st.sampled_from(["Ready", "Failed", "Updating"]),
    running_revision=st.sampled_from(["", "a-1", "a-2"]),
    target_revision=st.sampled_from(["", "a-2"]),
    pod_count=st.integers(0, 2),
    serving_pod_count=st.integers(0, 1),
    available_pod_count=st.integers(0, 1),
    admitted=st.booleans(),
    active_ordinal=st.integers(0, 1),
    ready_since=st.sampled_from([None, NOW]),
    operation=st.sampled_from([None, InstanceOperation(id="x", type="Update", step="Surge", started_at=NOW)]),
    last_failure=st.sampled_from([None, InstanceTermination(pod_name="p", reason="r", time=NOW)]),
    announced=st.sampled_from([(), ("FoundOrphan@x",)]),
)


@given(st.lists(rows, max_size=12, unique_by=lambda found: found.index))
def test_rows_survive_the_columns(found: list[InstanceStatus]) -> None:
    assert decode_rows(encode_rows(found), limit=100) == tuple(found)


@pytest.mark.parametrize(
    "change",
    [
        {"phases": []},
        {"phases": [{"value": "Ready", "indexes": "0-2"}, {"value": "Failed", "indexes": "2"}]},
        {"phases": [{"value": "Ready", "indexes": "0-3"}]},
        {"incarnations": [{"value": 0, "indexes": "0"}]},
        {"admitted": "7"},
        {"rowOrder": [0, 1]},
        {"entries": [{"index": 2}, {"index": 1}]},
        {"entries": "x"},
    ],
)
def test_columns_that_contradict_themselves_are_refused(change: dict[str, Any]) -> None:
    columns = encode_rows([row(0), row(1), row(2)])
    with pytest.raises(ColumnarError):
        decode_rows({**columns, **change}, limit=100)


def test_columns_are_written_only_where_they_are_smaller() -> None:
    few = InferenceReplicaStatus(instance_statuses=(InstanceStatus(index=0, phase="Ready"),))
    many = InferenceReplicaStatus(
        instance_statuses=tuple(row(i, running_revision="chat-engine-aaaaaaaa") for i in range(50))
    )
    assert "instanceStatuses" in wire(few, columnar=True, limit=100)
    written = wire(many, columnar=True, limit=100)
    assert written["instanceStatusEncoding"] == "ColumnarV2"
    assert "instanceStatuses" not in written
    assert "instanceStatuses" in wire(many, columnar=True, limit=49)
    assert "instanceStatuses" in wire(many, columnar=False, limit=100)
    stored = InferenceReplicaStatus(
        instance_status_encoding="ColumnarV2", instance_status_columns=written["instanceStatusColumns"]
    )
    assert dense(stored, 100).instance_statuses == many.instance_statuses
    with pytest.raises(UndecodableStatus):
        dense(stored, 49)
    with pytest.raises(UndecodableStatus):
        dense(replace(stored, instance_status_encoding="ColumnarV9"), 100)


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 3}}, {"b": {"c": 3, "d": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_the_patch_holds_only_what_differs(
    before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(before, after) == patch
