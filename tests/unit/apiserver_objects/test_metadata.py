"""Names, labels, annotations, owners, finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from ome.local.apiserver.kinds import metadata, names

from .support import texts

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u1", "controller": True}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "u2", "controller": True}


def faults(**meta: Any) -> list[str]:
    found = metadata.validate(
        {"name": "a", "namespace": "ns", **meta}, namespaced=True, name_rule=names.subdomain, builtin=True
    )
    return texts(found)


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a good object has none": ({}, []),
    "a name is required": ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
    "capitals are no name": ({"name": "Bad_"}, [f'metadata.name: Invalid value: "Bad_": {SUBDOMAIN}']),
    "a label's value has a form": (
        {"labels": {"ok": "not ok!"}},
        [
            'metadata.labels: Invalid value: "not ok!": a valid label must be an empty string or consist of '
            "alphanumeric "
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
            "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    ),
    "a label's key has a form": ({"labels": {"a b": "x"}}, [f'metadata.labels: Invalid value: "a b": {NAME_PART}']),
    "an annotation of nothing is wrong three times": (
        {"annotations": {"/": "x"}},
        [
            'metadata.annotations: Invalid value: "/": prefix part must be non-empty',
            'metadata.annotations: Invalid value: "/": name part must be non-empty',
            f'metadata.annotations: Invalid value: "/": {NAME_PART}',
        ],
    ),
    "annotations have a limit": (
        {"annotations": {"big": "x" * 262_142}},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    "a finalizer bears a domain": (
        {"finalizers": ["nodomain"]},
        [
            'metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor is '
            "it fully "
            "qualified"
        ],
    ),
    "an owner has a uid": (
        {"ownerReferences": [{key: value for key, value in OWNER.items() if key != "uid"}]},
        ["metadata.ownerReferences[0].uid: Required value: must not be empty"],
    ),
    "one owner may control": (
        {"ownerReferences": [OWNER, OTHER]},
        [
            'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"u1",'
            '"controller":true},{"apiVersion":"v1","kind":"ConfigMap","name":"y","uid":"u2","controller":true}]: '
            "Only one "
            'reference can have Controller set to true. Found "true" in references for ConfigMap/x and ConfigMap/y'
        ],
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_new_metadata(sentence: str) -> None:
    meta, wanted = FAULTS[sentence]
    assert faults(**meta) == wanted


def test_annotations_of_exactly_the_limit_are_well() -> None:
    assert faults(annotations={"big": "x" * (262_144 - 3)}) == []


NAMES: dict[str, tuple[Any, str, list[str]]] = {
    "a label may be digits": (names.label, "1a", []),
    "a label has no dots": (names.label, "1.bad", ["must not contain dots"]),
    "a label has a form": (names.label, "Bad_", [LABEL]),
    "a label is short": (names.label, "a" * 64, ["must be no more than 63 characters"]),
    "a subdomain is short": (names.subdomain, "a" * 254, ["must be no more than 253 characters"]),
    "a segment has no slash": (names.path_segment, "a/b", ["may not contain '/'"]),
    "a segment may have colons": (names.path_segment, "system:node", []),
    "a port's name has letters": (names.port_name, "80", ["must contain at least one letter (a-z)"]),
    "a port's name is short": (names.port_name, "a" * 16, ["must be no more than 15 characters"]),
    "a config key may not climb": (names.config_key, "..x", ["must not start with '..'"]),
}


@pytest.mark.parametrize("sentence", NAMES)
def test_names(sentence: str) -> None:
    rule, name, wanted = NAMES[sentence]
    assert rule(name) == wanted


GOING = {"name": "a", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/one"]}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "the uid is fixed": ({"uid": "u"}, {"uid": "other"}, ['metadata.uid: Invalid value: "other": field is immutable']),
    "labels may change": ({}, {"labels": {"a": "b"}}, []),
    "no finalizer comes to an object that goes": (
        GOING,
        {**GOING, "finalizers": ["example.com/one", "example.com/two"]},
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
            'finalizers []string{"example.com/two"}'
        ],
    ),
    "a finalizer may leave an object that goes": (GOING, {**GOING, "finalizers": []}, []),
    "nobody dates a deletion by hand": (
        {},
        {"deletionTimestamp": "2030-01-01T00:00:00Z"},
        ['metadata.deletionTimestamp: Invalid value: "2030-01-01T00:00:00Z": field is immutable'],
    ),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_changed_metadata(sentence: str) -> None:
    before, after, wanted = CHANGES[sentence]
    assert texts(metadata.validate_update(after, before, builtin=True)) == wanted


def test_a_custom_object_is_only_warned_of_a_finalizer_without_a_domain() -> None:
    meta = {"name": "a", "namespace": "ns", "finalizers": ["plain"]}
    found = metadata.validate(meta, namespaced=True, name_rule=names.subdomain, builtin=False)
    assert found == []
    assert metadata.finalizer_warnings(meta) == [
        'metadata.finalizers: "plain": prefer a domain-qualified finalizer name including a path (/) to avoid '
        "accidental "
        "conflicts with other finalizer writers"
    ]
