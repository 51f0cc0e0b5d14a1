"""JSON, merge and strategic patches: what they make of a document, and how they are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver import patches
from ome.local.apiserver.errors import Problem

from .support import PROPERTY

REFUSED = "the server rejected our request due to an error in our request"
DOCUMENT: dict[str, Any] = {
    "metadata": {"annotations": {"example.com/one": "1"}, "finalizers": ["f1", "f2"]},
    "data": {"k": "v", "deep": {"x": 1}},
}

APPLIES: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], Any]] = {
    "add sets a member": ([{"op": "add", "path": "/data/n", "value": 1}], ("data", "n"), 1),
    "replace of a missing member adds it": ([{"op": "replace", "path": "/data/n", "value": 1}], ("data", "n"), 1),
    "null can be set": ([{"op": "replace", "path": "/data", "value": None}], ("data",), None),
    "a dash appends": (
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "f3"}],
        ("metadata", "finalizers"),
        ["f1", "f2", "f3"],
    ),
    "an index inserts": (
        [{"op": "add", "path": "/metadata/finalizers/0", "value": "f0"}],
        ("metadata", "finalizers"),
        ["f0", "f1", "f2"],
    ),
    "a negative index counts from the end": (
        [{"op": "remove", "path": "/metadata/finalizers/-1"}],
        ("metadata", "finalizers"),
        ["f1"],
    ),
    "escapes reach slash and tilde": (
        [{"op": "replace", "path": "/metadata/annotations/example.com~1one", "value": "2"}],
        ("metadata", "annotations"),
        {"example.com/one": "2"},
    ),
    "move takes along": (
        [{"op": "move", "from": "/data/k", "path": "/data/m"}],
        ("data",),
        {"deep": {"x": 1}, "m": "v"},
    ),
    "copy leaves the source": ([{"op": "copy", "from": "/data/k", "path": "/data/m"}], ("data", "m"), "v"),
    "a test of an absent member against null passes": (
        [{"op": "test", "path": "/data/absent", "value": None}],
        ("data", "k"),
        "v",
    ),
    "operations see the ones before them": (
        [{"op": "add", "path": "/labels", "value": {}}, {"op": "add", "path": "/labels/x", "value": "y"}],
        ("labels",),
        {"x": "y"},
    ),
}
FAILS: dict[str, list[dict[str, Any]]] = {
    "a test of another value": [{"op": "test", "path": "/data/k", "value": "w"}],
    "true is not one": [{"op": "test", "path": "/data/deep/x", "value": True}],
    "add below a missing parent": [{"op": "add", "path": "/labels/x", "value": "y"}],
    "an index past the end": [{"op": "add", "path": "/metadata/finalizers/9", "value": "f"}],
    "remove of a missing member": [{"op": "remove", "path": "/data/absent"}],
    "replace below a missing parent": [{"op": "replace", "path": "/labels/x", "value": "y"}],
    "an unknown operation": [{"op": "frob", "path": "/data/k"}],
    "a path without a slash": [{"op": "add", "path": "data", "value": {}}],
    "a path through a text": [{"op": "add", "path": "/data/k/x", "value": 1}],
    "an index that is no number": [{"op": "remove", "path": "/metadata/finalizers/one"}],
}


@pytest.mark.parametrize("sentence", APPLIES)
def test_a_json_patch_applies_as_on_a_real_server(sentence: str) -> None:
    operations, where, expected = APPLIES[sentence]
    before = copy.deepcopy(DOCUMENT)
    found = patches.json_patch(DOCUMENT, operations)
    for part in where:
        found = found[part]
    assert found == expected
    assert before == DOCUMENT


@pytest.mark.parametrize("sentence", FAILS)
def test_a_json_patch_that_does_not_apply_says_nothing_of_its_cause(sentence: str) -> None:
    with pytest.raises(Problem) as caught:
        patches.json_patch(DOCUMENT, FAILS[sentence])
    assert (caught.value.code, caught.value.reason, caught.value.message, caught.value.details) == (
        422,
        "Invalid",
        REFUSED,
        {},
    )


def test_a_json_patch_is_a_list() -> None:
    with pytest.raises(Problem) as caught:
        patches.json_patch(DOCUMENT, {"op": "add"})
    assert caught.value.code == 400


def test_a_json_patch_of_too_many_operations_is_too_large() -> None:
    with pytest.raises(Problem) as caught:
        patches.json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * (patches.MAX_OPERATIONS + 1))
    assert caught.value.code == 413


def test_unknown_members_of_operations_are_named_by_position() -> None:
    assert patches.unknown_members([{"op": "add"}, {"op": "add", "note": 1}]) == ["[1].note"]


def test_a_webhook_is_told_why_its_patch_does_not_apply() -> None:
    operations = [{"op": "replace", "path": "/data/absent/deep", "value": "x"}]
    with pytest.raises(patches.DoesNotApplyError) as caught:
        patches.apply_operations(DOCUMENT, operations)
    assert str(caught.value) == (
        "replace operation does not apply: doc is missing path: /data/absent/deep: missing value"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def merge_patch_between(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """The smallest merge patch from one object without nulls to another."""
    patch: dict[str, Any] = dict.fromkeys(key for key in old if key not in new)
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            patch[key] = merge_patch_between(old[key], value)
        elif old[key] != value:
            patch[key] = value
    return patch


@PROPERTY
@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = patches.merge_patch(document, patch)
    assert patches.merge_patch(once, patch) == once


@PROPERTY
@given(OBJECT, OBJECT)
def test_a_merge_patch_leads_from_any_object_to_any_other(document: dict[str, Any], wanted: dict[str, Any]) -> None:
    document, wanted = without_nulls(document), without_nulls(wanted)
    assert patches.merge_patch(document, merge_patch_between(document, wanted)) == wanted


@PROPERTY
@given(OBJECT)
def test_an_empty_merge_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert patches.merge_patch(document, {}) == document


@PROPERTY
@given(OBJECT, OBJECT)
def test_no_patch_changes_the_document_it_is_given(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    patches.merge_patch(document, patch)
    assert before == (document, patch)


@pytest.mark.parametrize("patch", [[], None, "text", 1])
def test_a_merge_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(Problem) as caught:
        patches.merge_patch(DOCUMENT, patch)
    assert caught.value.code == 400
