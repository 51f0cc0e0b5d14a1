"""Request bodies, and objects that have two versions."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ome.local.apiserver import bodies
from ome.local.apiserver.errors import Problem
from ome.local.apiserver.negotiate import dump_yaml
from ome.local.apiserver.registry import Registry
from ome.local.apiserver.versions import to_served, to_stored


def test_repeated_keys_are_found_however_deep() -> None:
    data = b'{"data": {"a": "1", "a": "2"}, "list": [{"x": 1, "x": 2}]}'
    found = bodies.decode_json(data, "ConfigMap", check_duplicates=True)
    assert found.duplicates == ['duplicate field "data.a"', 'duplicate field "list[0].x"']
    assert found.value["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":"\xff\xfe"}', {"a": "\ufffd\ufffd"}),
        (b'{"a":"\\ud800x"}', {"a": "\ufffdx"}),
        (b"null", {}),
        (b'{"a":"\\ud800","b":9223372036854775808}', {"a": "\ufffd", "b": 9223372036854775808.0}),
    ],
)
def test_json_is_read_as_leniently_as_go_reads_it(data: bytes, value: object) -> None:
    assert bodies.decode_json(data, "ConfigMap", check_duplicates=False).value == value


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b'{"a":', b"hello", b'{"a":1}{"b":2}', b"{" * 20000])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(Problem) as refused:
        bodies.decode_json(data, "ConfigMap", check_duplicates=True)
    assert refused.value.code == 400
    assert refused.value.message.startswith("the object provided is unrecognized (must be of type ConfigMap)")


BOMB = "a: &a [1,1]\n" + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in pairwise("abcdefghij"))
EXPLOSIVE = {
    "lists of lists of lists": (BOMB, "document contains excessive aliasing"),
    "merges of merges": (
        BOMB.replace("[1,1]", "{x: 1}").replace("[*", "{<<: [*").replace("]\n", "]}\n"),
        "document contains excessive aliasing",
    ),
    "a list in itself": ("a: &a [*a]\n", "anchor 'a' value contains itself"),
}


@pytest.mark.parametrize("sentence", EXPLOSIVE)
def test_yaml_that_explodes_is_refused_before_it_does(sentence: str) -> None:
    text, why = EXPLOSIVE[sentence]
    with pytest.raises(ValueError, match=why):
        bodies.parse_yaml(text.encode())


def test_ordinary_aliases_and_merges_are_read() -> None:
    text = b"base: &b {x: 1, z: 2}\nuse: {<<: *b, z: 3}\nlist: [*b, *b]\n"
    base = {"x": 1, "z": 2}
    assert bodies.parse_yaml(text)[0] == {"base": base, "use": {"x": 1, "z": 3}, "list": [base, base]}


@pytest.mark.parametrize("data", [b'{"a": 18446744073709551616}', b"a: 18446744073709551616"], ids=["json", "yaml"])
def test_a_number_beyond_64_bits_is_a_float(data: bytes) -> None:
    (found,) = bodies.parse_yaml(data)[0].values()
    assert isinstance(found, float)


def test_yaml_has_its_old_booleans_and_only_its_first_document() -> None:
    value, repeated = bodies.parse_yaml(b"on: y\nb: 2001-01-01\nb: x\n---\nother: 1\n")
    assert value == {"true": True, "b": "x"}
    assert repeated == ['line 3: key "b" already set in map']


def test_yaml_answers_quote_what_would_read_as_something_else() -> None:
    value = {"a": "2026-01-01T00:00:00Z", "b": "true", "c": "plain", "d": "two\nlines\n"}
    assert dump_yaml(value) == b'a: "2026-01-01T00:00:00Z"\nb: "true"\nc: plain\nd: |\n  two\n  lines\n'


def test_an_event_has_other_names_in_the_events_group() -> None:
    type_ = Registry().find("events.k8s.io", "v1", "events")
    assert type_ is not None
    newer = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {},
        "regarding": {"kind": "Pod"},
        "note": "n",
    }
    stored = to_stored(type_, dict(newer))
    assert (stored["involvedObject"], stored["message"], stored["apiVersion"]) == ({"kind": "Pod"}, "n", "v1")
    assert to_served(type_, stored)["note"] == "n"


def test_an_autoscaler_of_version_one_is_stored_as_version_two() -> None:
    type_ = Registry().find("autoscaling", "v1", "horizontalpodautoscalers")
    assert type_ is not None
    older = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
    }
    stored = to_stored(type_, dict(older))
    metric = stored["spec"]["metrics"][0]["resource"]
    assert (metric["name"], metric["target"]["averageUtilization"]) == ("cpu", 70)
    assert to_served(type_, stored)["spec"] == older["spec"]
