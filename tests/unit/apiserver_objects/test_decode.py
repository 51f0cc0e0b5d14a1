"""Bodies read as built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from ome.local.apiserver import kinds
from ome.local.apiserver.kinds import DecodeError


def decoded(group: str, kind: str, body: Any) -> tuple[dict[str, Any], list[str]]:
    return kinds.strategy(group, "v1", kind).decode(body)


UNREADABLE: dict[str, tuple[str, str, Any, str]] = {
    "a text where a map belongs": (
        "",
        "ConfigMap",
        {"data": "text"},
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
    ),
    "a number where a text belongs": (
        "",
        "ConfigMap",
        {"data": {"k": 1}},
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    "a float for an integer": (
        "apps",
        "Deployment",
        {"spec": {"replicas": 1.0}},
        "json: cannot unmarshal number 1.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "an integer that does not fit": (
        "apps",
        "Deployment",
        {"spec": {"replicas": 3000000000}},
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "deep inside, the innermost struct and the whole path are named": (
        "",
        "Pod",
        {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": 1}]}]}},
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ),
    "a list where an object belongs": (
        "",
        "Pod",
        {"spec": []},
        "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
    ),
    "a quantity that is none": (
        "",
        "Pod",
        {"spec": {"containers": [{"resources": {"limits": {"memory": "1 Gig"}}}]}},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "data that is no base64": (
        "",
        "Secret",
        {"data": {"a": "%%%"}},
        "illegal base64 data at input byte 0",
    ),
}


@pytest.mark.parametrize("sentence", UNREADABLE)
def test_a_body_of_the_wrong_type_is_a_bad_request(sentence: str) -> None:
    group, kind, body, cause = UNREADABLE[sentence]
    with pytest.raises(DecodeError) as caught:
        decoded(group, kind, body)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert caught.value.cause == cause
    assert caught.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {cause}'


def test_a_strategic_patch_is_told_of_shapes_instead() -> None:
    with pytest.raises(DecodeError) as caught:
        decoded("", "Pod", {"spec": {"containers": {"name": "c"}}})
    assert caught.value.converter == "cannot restore slice from map"


def test_a_lease_needs_six_decimals() -> None:
    with pytest.raises(DecodeError):
        decoded("coordination.k8s.io", "Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}})


def test_unknown_fields_are_dropped_and_named_in_the_order_met() -> None:
    body = {
        "metadata": {"name": "d", "colour": "red"},
        "spec": {"shape": 1, "template": {"spec": {"containers": [{"name": "c", "imagee": "x"}]}}},
    }
    obj, unknown = decoded("apps", "Deployment", body)
    assert unknown == ["metadata.colour", "spec.shape", "spec.template.spec.containers[0].imagee"]
    assert "colour" not in obj["metadata"]


STORED: dict[str, tuple[str, str, Any, Any]] = {
    "empty optional maps go": ("", "ConfigMap", {"metadata": {"labels": {}}}, {"metadata": {}}),
    "a null label is an empty one": (
        "",
        "ConfigMap",
        {"metadata": {"labels": {"x": None}}},
        {"metadata": {"labels": {"x": ""}}},
    ),
    "structs that are no pointers are always there": (
        "apps",
        "Deployment",
        {},
        {
            "metadata": {},
            "status": {},
            "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": None}}},
        },
    ),
    "a slice without endpoints has null for a list": (
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [], "ports": []},
        {"metadata": {}, "addressType": "IPv4", "endpoints": None, "ports": None},
    ),
    "an unset time of an event is null": (
        "",
        "Event",
        {},
        {
            "metadata": {},
            "involvedObject": {},
            "source": {},
            "reportingComponent": "",
            "reportingInstance": "",
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
        },
    ),
    "an empty pointer to a text stays": (
        "",
        "Pod",
        {"spec": {"containers": [], "volumes": [{"name": "v", "hostPath": {"path": "/x", "type": ""}}]}},
        {
            "metadata": {},
            "status": {},
            "spec": {"containers": [], "volumes": [{"name": "v", "hostPath": {"path": "/x", "type": ""}}]},
        },
    ),
    "times are kept in UTC": (
        "coordination.k8s.io",
        "Lease",
        {"spec": {"renewTime": "2026-01-01T01:00:00.500000+02:00"}},
        {"metadata": {}, "spec": {"renewTime": "2025-12-31T23:00:00.500000Z"}},
    ),
    "stringData is data": (
        "",
        "Secret",
        {"stringData": {"a": "b"}},
        {"metadata": {}, "data": {"a": "Yg=="}},
    ),
}


@pytest.mark.parametrize("sentence", STORED)
def test_what_is_kept_is_what_go_would_write(sentence: str) -> None:
    group, kind, body, wanted = STORED[sentence]
    assert decoded(group, kind, body)[0] == wanted


def test_decoding_what_was_decoded_changes_nothing() -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}}
    once, _ = decoded("", "Pod", body)
    assert decoded("", "Pod", once) == (once, [])


def test_the_body_is_not_changed() -> None:
    body = {"metadata": {"labels": {"x": None}}}
    decoded("", "ConfigMap", body)
    assert body == {"metadata": {"labels": {"x": None}}}
