"""Projection and digest: whether an apply would change anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ome.services.children import Child, KeptChild, digest, projection

Json = dict[str, Any]


def deployment(**spec: Any) -> Json:
    return {
        "metadata": {
            "name": "chat-engine",
            "namespace": "prod",
            "resourceVersion": "12",
            "labels": {"app": "chat-engine", "foreign": "x"},
            "managedFields": [
                {
                    "manager": "ome-manager",
                    "operation": "Apply",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}}},
                        "f:spec": {
                            "f:template": {
                                "f:spec": {
                                    "f:containers": {
                                        'k:{"name":"main"}': {
                                            ".": {},
                                            "f:name": {},
                                            "f:image": {},
                                            "f:resources": {"f:limits": {"f:memory": {}}},
                                        }
                                    }
                                }
                            }
                        },
                    },
                },
                {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ],
        },
        "spec": {
            "replicas": 3,
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "a:1",
                            "terminationMessagePath": "/dev/termination-log",
                            "resources": {"limits": {"memory": "1Ti"}},
                        },
                        {"name": "foreign", "image": "b:1"},
                    ]
                }
            },
            **spec,
        },
        "status": {"replicas": 3},
    }


def decoded(obj: Json) -> Child:
    return msgspec.json.decode(msgspec.json.encode(obj), type=Child)


def applied(image: str = "a:1", memory: str = "1024Gi") -> Json:
    container = {"name": "main", "image": image, "resources": {"limits": {"memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat-engine", "namespace": "prod", "labels": {"app": "chat-engine"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_defaults_foreign_parts_and_spellings_of_a_quantity_do_not_count() -> None:
    assert decoded(deployment()).digest == digest(applied())


@pytest.mark.parametrize("body", [applied(image="a:2"), applied(memory="1Gi")], ids=["image", "memory"])
def test_a_different_value_counts(body: Json) -> None:
    assert decoded(deployment()).digest != digest(body)


def test_a_field_that_somebody_took_over_counts() -> None:
    live = deployment()
    owned = live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    del owned['k:{"name":"main"}']["f:image"]
    assert decoded(live).digest != digest(applied())


def test_a_field_that_we_own_and_no_longer_apply_counts() -> None:
    body = applied()
    del body["spec"]["template"]["spec"]["containers"][0]["image"]
    assert decoded(deployment()).digest != digest(body)


def test_an_object_of_which_we_own_nothing_has_no_digest() -> None:
    live = deployment()
    live["metadata"]["managedFields"] = live["metadata"]["managedFields"][1:]
    child = decoded(live)
    assert (child.digest, child.kept) == (b"", {})


def test_a_child_keeps_little() -> None:
    live = deployment()
    live["metadata"]["labels"]["component"] = "engine"
    live["status"]["conditions"] = [{"type": "Available", "status": "True"}]
    child = decoded(live)
    assert child.spec is None
    assert child.metadata.managed_fields == []
    assert child.metadata.labels == {"component": "engine"}
    assert (child.kept, child.created_with()) == ({}, {})
    assert (child.replicas, child.version) == (3, 12)
    assert child.reported() == {"conditions": [{"type": "Available", "status": "True"}]}


def test_a_kind_that_keeps_its_metadata_knows_the_owned_part_of_it() -> None:
    child = msgspec.json.decode(msgspec.json.encode(deployment()), type=KeptChild)
    assert child.created_with() == {"labels": {"app": "chat-engine"}}
    assert child.reported() == {}


def test_a_count_that_is_ours_is_known_as_such() -> None:
    live = deployment()
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:replicas"] = {}
    assert decoded(live).kept == {"replicas": 3}


def test_set_members_and_whole_values_are_projected() -> None:
    live = {"spec": {"set": ["a", "b"], "atomic": {"x": 1}, "gone": 1}}
    fields = {"f:spec": {"f:set": {'v:"a"': {}}, "f:atomic": {}, "f:absent": {}}}
    assert projection(live, fields) == {"spec": {"set": ["a"], "atomic": {"x": 1}}}
    assert projection(live, None) is None
