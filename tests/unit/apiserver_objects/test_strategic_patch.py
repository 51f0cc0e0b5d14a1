"""The strategic merge patch: merge keys, directives, order."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver import patches
from ome.local.apiserver.errors import Problem

from .support import PROPERTY

REPLICA_SET = "io.k8s.api.apps.v1.ReplicaSet"
POD_SPEC = "io.k8s.api.core.v1.PodSpec"


def names(spec: dict[str, Any], field: str = "containers") -> list[str]:
    return [item["name"] for item in spec[field]]


def spec() -> dict[str, Any]:
    return {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "args": ["x", "y"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}],
            },
            {"name": "d", "image": "j"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    document = spec()
    result = patches.strategic_merge(document, patch, POD_SPEC)
    assert document == spec()
    return result


def test_an_element_is_found_by_its_merge_key() -> None:
    result = patched({"containers": [{"name": "d", "image": "j2"}]})
    assert [(item["name"], item["image"]) for item in result["containers"]] == [("c", "i"), ("d", "j2")]


def test_a_new_element_goes_first() -> None:
    assert names(patched({"containers": [{"name": "e", "image": "k"}]})) == ["e", "c", "d"]


def test_an_order_is_kept_when_given() -> None:
    order = [{"name": name} for name in "cdf"]
    patch = {"$setElementOrder/containers": order, "containers": [{"name": "f", "image": "l"}]}
    assert names(patched(patch)) == ["c", "d", "f"]


def test_an_order_without_a_patch_only_reorders() -> None:
    assert names(patched({"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]})) == ["d", "c"]


def test_an_order_that_lacks_an_element_of_the_patch_is_refused() -> None:
    patch = {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "g", "image": "l"}]}
    with pytest.raises(Problem) as caught:
        patched(patch)
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == (
        "The order in patch list:\n[map[image:l name:g]]\n doesn't match $setElementOrder list:\n[map[name:c]]\n"
    )


def test_an_element_is_deleted_by_directive() -> None:
    assert names(patched({"containers": [{"name": "c", "$patch": "delete"}]})) == ["d"]


def test_a_list_is_replaced_by_directive() -> None:
    assert names(patched({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o"}]})) == ["only"]


def test_nested_lists_keep_what_the_server_had_in_its_place() -> None:
    change = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    env = patched({"containers": [{"name": "c", "env": change}]})["containers"][0]["env"]
    assert env == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]


def test_null_takes_a_field_out_of_an_element() -> None:
    change = {"name": "B", "value": None, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    env = patched({"containers": [{"name": "c", "env": [change]}]})["containers"][0]["env"]
    assert env[1] == {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def test_lists_without_a_merge_key_are_replaced_whole() -> None:
    result = patched({"containers": [{"name": "c", "args": ["z"]}], "tolerations": [{"key": "l"}]})
    assert result["containers"][0]["args"] == ["z"]
    assert result["tolerations"] == [{"key": "l"}]


def test_retained_keys_clear_the_others() -> None:
    change = {"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}
    assert patched({"volumes": [change]})["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_retained_keys_must_hold_what_the_patch_sets() -> None:
    with pytest.raises(Problem) as caught:
        patched({"volumes": [{"$retainKeys": ["name"], "name": "v", "hostPath": {"path": "/x"}}]})
    assert (caught.value.code, caught.value.message) == (400, "invalid patch format of retainKeys")


def test_an_element_needs_its_merge_key() -> None:
    with pytest.raises(Problem) as caught:
        patched({"containers": [{"image": "nokey"}]})
    assert caught.value.message == "map: map[image:nokey] does not contain declared merge key: name"


MAPS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "labels merge": ({"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
    "a map is replaced by directive": ({"a": "1"}, {"$patch": "replace", "c": "3"}, {"c": "3"}),
    "a map is emptied by directive": ({"a": "1"}, {"$patch": "delete"}, {}),
}


@pytest.mark.parametrize("sentence", MAPS)
def test_maps(sentence: str) -> None:
    before, change, after = MAPS[sentence]
    result = patches.strategic_merge({"metadata": {"labels": before}}, {"metadata": {"labels": change}}, REPLICA_SET)
    assert result["metadata"]["labels"] == after


def test_an_unknown_directive_on_something_absent_leaves_nothing() -> None:
    result = patches.strategic_merge({}, {"metadata": {"labels": {"$patch": "twist", "a": "b"}}}, REPLICA_SET)
    assert result == {"metadata": {"labels": {}}}


FINALIZERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "primitives are a set, in the order of the patch": ({"finalizers": ["f2", "f1"]}, ["f2", "f1"]),
    "primitives are deleted by directive": (
        {
            "$deleteFromPrimitiveList/finalizers": ["f1"],
            "$setElementOrder/finalizers": ["f2", "f3"],
            "finalizers": ["f3"],
        },
        ["f2", "f3"],
    ),
}


@pytest.mark.parametrize("sentence", FINALIZERS)
def test_lists_of_primitives(sentence: str) -> None:
    change, after = FINALIZERS[sentence]
    before = ["f1"] if "set" in sentence.split(",")[0] else ["f2", "f1"]
    result = patches.strategic_merge({"metadata": {"finalizers": before}}, {"metadata": change}, REPLICA_SET)
    assert result["metadata"]["finalizers"] == after


ELEMENTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcde"), "image": st.sampled_from("xyz")}),
    unique_by=lambda item: item["name"],
    max_size=5,
)


@PROPERTY
@given(ELEMENTS, ELEMENTS)
def test_merging_twice_is_merging_once(before: list[Any], change: list[Any]) -> None:
    patch = {"containers": change}
    once = patches.strategic_merge({"containers": before}, copy.deepcopy(patch), POD_SPEC)
    assert patches.strategic_merge(once, patch, POD_SPEC) == once


@PROPERTY
@given(ELEMENTS, ELEMENTS)
def test_nothing_is_lost_and_the_patch_wins(before: list[Any], change: list[Any]) -> None:
    merged = patches.strategic_merge({"containers": before}, {"containers": change}, POD_SPEC)["containers"]
    images = {item["name"]: item["image"] for item in (*before, *change)}
    assert {item["name"]: item["image"] for item in merged} == images
    assert len(merged) == len(images)
