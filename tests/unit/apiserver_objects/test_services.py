"""Services and their endpoints."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .support import created, texts, updated


def new(**spec: Any) -> tuple[dict[str, Any], list[str]]:
    obj, errors = created({"metadata": {"name": "s"}, "spec": spec}, "", "v1", "Service")
    return obj, texts(errors)


def test_a_service_gains_its_defaults() -> None:
    obj, errors = new(selector={"a": "b"}, ports=[{"port": 80}])
    assert errors == []
    assert obj["spec"] == {
        "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    assert obj["status"] == {"loadBalancer": {}}
    assert "generation" not in obj["metadata"]


TYPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a node port lets traffic in": ({"type": "NodePort", "ports": [{"port": 1}]}, {"externalTrafficPolicy": "Cluster"}),
    "a load balancer takes node ports": (
        {"type": "LoadBalancer", "ports": [{"port": 1}]},
        {"allocateLoadBalancerNodePorts": True},
    ),
    "a headless service has one address of both spellings": (
        {"clusterIP": "None"},
        {"clusterIP": "None", "clusterIPs": ["None"]},
    ),
    "sticky sessions last three hours": (
        {"sessionAffinity": "ClientIP", "ports": [{"port": 1}]},
        {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
    ),
}


@pytest.mark.parametrize("sentence", TYPES)
def test_types_bring_their_defaults(sentence: str) -> None:
    spec, wanted = TYPES[sentence]
    obj, errors = new(**spec)
    assert errors == []
    assert {key: obj["spec"].get(key) for key in wanted} == wanted


def test_an_external_name_has_neither_address_nor_policy() -> None:
    obj, errors = new(type="ExternalName", externalName="a.example.com")
    assert (obj["spec"], errors) == (
        {"externalName": "a.example.com", "sessionAffinity": "None", "type": "ExternalName"},
        [],
    )


SHOWN = '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "ports are required": ({"selector": {"a": "b"}}, ["spec.ports: Required value"]),
    "several ports have names": (
        {"ports": [{"port": 80}, {"port": 81}]},
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    "ports differ and are sound": (
        {
            "ports": [
                {"name": "a", "port": 80},
                {"name": "b", "port": 80},
                {"name": "b", "port": 0, "targetPort": "Bad_", "protocol": "ICMP"},
            ]
        },
        [
            'spec.ports[2].name: Duplicate value: "b"',
            "spec.ports[2].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            'spec.ports[2].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
            'spec.ports[2].targetPort: Invalid value: "Bad_": must contain only alpha-numeric characters (a-z, '
            "0-9), and "
            "hyphens (-)",
            f"spec.ports[1]: Duplicate value: {SHOWN}",
        ],
    ),
    "an external name is a name": ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
    "a type is one of four": (
        {"type": "Magic", "ports": [{"port": 1}]},
        [
            'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"'
        ],
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_service_is_refused(sentence: str) -> None:
    spec, wanted = REFUSED[sentence]
    assert new(**spec)[1] == wanted


ADDRESSED = {
    "clusterIP": "10.96.0.5",
    "clusterIPs": ["10.96.0.5"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}


def served(**spec: Any) -> dict[str, Any]:
    old, _ = new(selector={"a": "b"}, ports=[{"port": 80}], **spec)
    old["spec"].update(ADDRESSED)
    return old


def changed(old: dict[str, Any], **spec: Any) -> tuple[dict[str, Any], list[str]]:
    body = copy.deepcopy(old)
    body["spec"].update(spec)
    obj, errors = updated(body, old, "", "v1", "Service")
    return obj["spec"], texts(errors)


def test_an_address_stays() -> None:
    _, errors = changed(served(), clusterIP="10.96.77.77", clusterIPs=["10.96.77.77"])
    assert errors == ['spec.clusterIPs[0]: Invalid value: ["10.96.77.77"]: may not change once set']


def test_one_spelling_of_the_address_speaks_for_the_other() -> None:
    _, errors = changed(served(), clusterIP="None")
    assert errors == ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set']


def test_a_replace_without_the_address_keeps_it() -> None:
    body = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": {"a": "c"}, "ports": [{"port": 81}]}}
    obj, errors = updated(body, served(), "", "v1", "Service")
    assert errors == []
    assert {key: obj["spec"][key] for key in ADDRESSED} == ADDRESSED


def test_a_node_port_goes_with_the_type() -> None:
    old = served(type="NodePort")
    old["spec"]["ports"][0]["nodePort"] = 30123
    spec, errors = changed(old, type="ClusterIP")
    assert errors == []
    assert ("nodePort" in spec["ports"][0], "externalTrafficPolicy" in spec) == (False, False)


def test_an_address_goes_when_the_service_becomes_a_name() -> None:
    spec, errors = changed(served(), type="ExternalName", externalName="b.example.com")
    assert errors == []
    assert spec == {
        "externalName": "b.example.com",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ExternalName",
    }


def endpoint_slice(address: str = "10.1.2.3", family: str = "IPv4") -> dict[str, Any]:
    return {
        "metadata": {"name": "es"},
        "addressType": family,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
    }


def test_an_endpoint_slice_gains_its_defaults() -> None:
    obj, errors = created(endpoint_slice(), "discovery.k8s.io", "v1", "EndpointSlice")
    assert errors == []
    assert obj["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert obj["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {}}]
    assert obj["metadata"]["generation"] == 1


def test_nobody_is_reached_through_loopback() -> None:
    _, errors = created(endpoint_slice("127.0.0.1"), "discovery.k8s.io", "v1", "EndpointSlice")
    assert texts(errors) == [
        'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'
    ]


def test_the_family_of_a_slice_is_fixed() -> None:
    old, _ = created(endpoint_slice(), "discovery.k8s.io", "v1", "EndpointSlice")
    body = {**copy.deepcopy(old), "addressType": "IPv6"}
    _, errors = updated(body, old, "discovery.k8s.io", "v1", "EndpointSlice")
    assert texts(errors) == ["addressType: Invalid value: null: field is immutable"]


BY_TYPE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a node port on a service without": (
        {"ports": [{"port": 80, "nodePort": 30080}]},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    "one node port twice": (
        {
            "type": "NodePort",
            "ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30080}],
        },
        ["spec.ports[1].nodePort: Duplicate value: 30080"],
    ),
    "a policy for traffic that cannot come": (
        {"externalTrafficPolicy": "Local", "ports": [{"port": 80}]},
        [
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
        ],
    ),
    "a session without end": (
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100000}},
            "ports": [{"port": 80}],
        },
        [
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 100000: must be greater than 0 and "
            "less than 86400"
        ],
    ),
}


@pytest.mark.parametrize("sentence", BY_TYPE)
def test_what_goes_with_other_types_only(sentence: str) -> None:
    spec, wanted = BY_TYPE[sentence]
    assert new(**spec)[1] == wanted
