"""Paths, queries, selectors and Accept headers, as tables."""

from __future__ import annotations

import pytest

from ome.local.apiserver import negotiate
from ome.local.apiserver.errors import Problem, go_quote, invalid, invalid_value, required
from ome.local.apiserver.registry import Registry, version_priority
from ome.local.apiserver.routing import Query, parse
from ome.local.apiserver.selectors import check_fields, parse_fields, parse_labels


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", "", ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", "watch=true", ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", "watch=0", ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/watch/namespaces/n/pods", "", ("watch", "", "pods", "n", "", "")),
        ("GET", "/api/v1/namespaces/n", "", ("get", "", "namespaces", "n", "n", "")),
        ("PUT", "/api/v1/namespaces/n/finalize", "", ("update", "", "namespaces", "n", "n", "finalize")),
        ("GET", "/api/v1/namespaces/n/pods/p/log", "", ("get", "", "pods", "n", "p", "log")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            "",
            ("deletecollection", "apps", "deployments", "n", "", ""),
        ),
        (
            "PATCH",
            "/apis/example.com/v1/namespaces/n/boats/a%2Fb",
            "",
            ("patch", "example.com", "boats", "n", "a/b", ""),
        ),
        ("GET", "/api/v1/namespaces//pods", "", ("list", "", "pods", "", "", "")),
    ],
)
def test_a_path_says_what_is_wanted(method: str, path: str, query: str, expected: tuple[str, ...]) -> None:
    route = parse(method, path, Query(query))
    assert (route.verb, route.group, route.resource, route.namespace, route.name, route.subresource) == expected


@pytest.mark.parametrize("path", ["/", "/healthz", "/api", "/apis/apps", "/apis/apps/v1", "/openapi/v3/api/v1"])
def test_a_path_without_a_resource_is_only_a_path(path: str) -> None:
    assert not parse("GET", path, Query("")).is_resource


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a in (b,c),d", {"a": "c", "d": ""}, True),
        ("a notin (b, c)", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        (" a = b , c ", {"a": "b", "c": "x"}, True),
        ("n gt 4", {"n": "5"}, True),
        ("n lt 4", {"n": "x"}, False),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    selector = parse_labels(text)
    assert selector is not None
    assert selector.matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("=b", "unable to parse requirement: found '=', expected: identifier"),
        ("a=b,,c", "unable to parse requirement: found ',', expected: identifier after ','"),
    ],
)
def test_bad_label_selectors_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(Problem) as refused:
        parse_labels(text)
    assert (refused.value.code, refused.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("metadata.namespace==n,status.phase=Running", True),
        ("status.phase=Pending", False),
        (r"status.phase=Run\,ning", False),
    ],
)
def test_field_selectors(text: str, matches: bool) -> None:
    selector = check_fields(parse_fields(text), "", "pods", ("status.phase",), custom=False)
    assert selector is not None
    assert selector.matches("n", "a", {"status.phase": "Running"}) is matches


@pytest.mark.parametrize(
    ("storage", "custom", "message"),
    [
        ("pods", False, "field label not supported: spec.x"),
        ("boats.example.com", True, "field label not supported: spec.x"),
        (
            "configmaps",
            False,
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_fields_that_cannot_be_selected(storage: str, custom: bool, message: str) -> None:
    with pytest.raises(Problem) as refused:
        check_fields(parse_fields("spec.x=1"), "", storage, (), custom=custom)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", ("application/json", "")),
        ("*/*", ("application/json", "")),
        ("application/yaml", ("application/yaml", "")),
        ("text/html;q=0.9, application/yaml;q=0.5, application/json;q=0.8", ("application/json", "")),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ("application/json", "Table")),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", ("application/json", "")),
        ("application/vnd.kubernetes.protobuf,application/json", ("application/vnd.kubernetes.protobuf", "")),
    ],
)
def test_an_accept_header_chooses_a_form(accept: str, expected: tuple[str, str]) -> None:
    form = negotiate.choose(accept)
    assert (form.media_type, form.transform) == expected


@pytest.mark.parametrize("accept", ["text/html", "application/*", "application/cbor"])
def test_what_cannot_be_given_is_refused(accept: str) -> None:
    with pytest.raises(Problem) as refused:
        negotiate.choose(accept)
    assert refused.value.code == 406


def test_a_custom_object_has_no_protobuf_but_its_metadata_has() -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    assert negotiate.choose(f"{protobuf},application/json", protobuf=False).media_type == "application/json"
    partial = f"{protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert negotiate.choose(partial, protobuf=False).media_type == protobuf


def test_versions_sort_as_discovery_lists_them() -> None:
    versions = ["v1alpha1", "foo1", "v10beta3", "v2", "v1", "v11beta2", "foo10", "v10"]
    assert sorted(versions, key=version_priority) == [
        "v10", "v2", "v1", "v11beta2", "v10beta3", "v1alpha1", "foo1", "foo10",
    ]  # fmt: skip


def test_groups_come_in_a_real_servers_order() -> None:
    names = [group for group, _ in Registry().groups()]
    assert names[:4] == ["apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"]


def test_several_faults_are_listed_in_brackets() -> None:
    problem = invalid("Widget", "example.com", "a", [required("spec.x"), invalid_value("spec.y", "b", "odd")])
    assert problem.message == (
        'Widget.example.com "a" is invalid: [spec.x: Required value, spec.y: Invalid value: "b": odd]'
    )
    assert problem.details is not None
    assert [cause["field"] for cause in problem.details["causes"]] == ["spec.x", "spec.y"]


def test_text_is_quoted_as_go_does() -> None:
    assert go_quote('a"b\\\n\x01é') == '"a\\"b\\\\\\n\\x01é"'
