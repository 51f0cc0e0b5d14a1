"""Merging JSON objects under both rule sets."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ome.rendering.effective import merge_component
from ome.rendering.merge import INHERITANCE, SERVICE, merge_object

KEYED = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumes": "name"}


def _items(field: str, *values: str | int) -> list[dict[str, Any]]:
    return [{KEYED[field]: value} for value in values]


ORDERS: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "an entry only the service has comes first": ([1, 2], [3], [3, 1, 2]),
    "a shared entry is followed by the service's own": ([1, 2], [2, 3], [1, 2, 3]),
    "another port comes before the runtime's": ([8080], [9000], [9000, 8080]),
    "a runtime-only entry stays before a shared one that is later there": ([1, 2, 3], [3], [1, 2, 3]),
    "the service's order of shared entries wins": ([1, 2], [2, 1], [2, 1]),
    "equal lists stay": ([1, 2], [1, 2], [1, 2]),
}


@pytest.mark.spec("SR-24")
@pytest.mark.parametrize("field", KEYED)
@pytest.mark.parametrize(("runtime", "service", "result"), ORDERS.values(), ids=ORDERS)
def test_order_of_lists_merged_by_key(field: str, runtime: list[Any], service: list[Any], result: list[Any]) -> None:
    merged = merge_object({field: _items(field, *runtime)}, {field: _items(field, *service)}, SERVICE)
    assert merged[field] == _items(field, *result)


SERVICE_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "maps merge by key": (
        {"labels": {"a": "1", "b": "1"}},
        {"labels": {"b": "2", "c": "2"}},
        {"labels": {"a": "1", "b": "2", "c": "2"}},
    ),
    "requests and limits merge by key": (
        {"runner": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}}},
        {"runner": {"resources": {"requests": {"cpu": "3"}}}},
        {"runner": {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "2"}}}},
    ),
    "args are replaced whole": (
        {"runner": {"args": ["a", "b"]}},
        {"runner": {"args": ["c"]}},
        {"runner": {"args": ["c"]}},
    ),
    "command is replaced whole": (
        {"runner": {"command": ["a"]}},
        {"runner": {"command": ["b"]}},
        {"runner": {"command": ["b"]}},
    ),
    "tolerations are replaced whole": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "scalars are replaced": ({"hostNetwork": True}, {"hostNetwork": False}, {"hostNetwork": False}),
    "zero counts": ({"minReplicas": 3}, {"minReplicas": 0}, {"minReplicas": 0}),
    "env merges field by field by name": (
        {"runner": {"env": [{"name": "A", "value": "1"}]}},
        {"runner": {"env": [{"name": "A", "value": "2"}]}},
        {"runner": {"env": [{"name": "A", "value": "2"}]}},
    ),
    "a runner of another name still merges and renames": (
        {"runner": {"name": "ome-container", "image": "i"}},
        {"runner": {"name": "mine"}},
        {"runner": {"name": "mine", "image": "i"}},
    ),
    "the autoscaler comes whole from one layer": (
        {"autoscaler": {"class": "HPA", "hpa": {"metrics": []}}},
        {"autoscaler": {"class": "None"}},
        {"autoscaler": {"class": "None"}},
    ),
    "lifecycle merges field by field": (
        {"lifecycle": {"restartPolicy": "None", "updateStrategy": {"type": "RecreatePod"}}},
        {"lifecycle": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}},
        {
            "lifecycle": {
                "restartPolicy": "None",
                "updateStrategy": {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1}},
            }
        },
    ),
    "a runtime's accelerator override and policy reference say nothing": (
        {"acceleratorOverride": {"acceleratorClass": "x"}, "autoscalerPolicyRef": {"name": "p"}},
        {},
        {},
    ),
    "Recreate leaves no rolling update behind": (
        {"deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"deploymentStrategy": {"type": "Recreate"}},
        {"deploymentStrategy": {"type": "Recreate"}},
    ),
    "an unknown field is never dropped": ({"future": {"a": 1}}, {"later": 2}, {"future": {"a": 1}, "later": 2}),
    "an empty volume source survives": (
        {},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ),
}


@pytest.mark.parametrize(("runtime", "service", "result"), SERVICE_CASES.values(), ids=SERVICE_CASES)
def test_service_over_runtime(runtime: dict[str, Any], service: dict[str, Any], result: dict[str, Any]) -> None:
    assert merge_component(runtime, service) == result


INHERITANCE_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a scalar of the child replaces, disabled included": ({"disabled": True}, {"disabled": False}, {"disabled": False}),
    "objects merge field by field": (
        {"modelSizeRange": {"min": "1B"}},
        {"modelSizeRange": {"max": "2B"}},
        {"modelSizeRange": {"min": "1B", "max": "2B"}},
    ),
    "nodeSelector merges by key": (
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    "imagePullSecrets merge by name": (
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": [{"name": "b"}]},
        {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]},
    ),
    "containers merge by name": (
        {"containers": [{"name": "c", "image": "1"}]},
        {"containers": [{"name": "c", "args": ["x"]}]},
        {"containers": [{"name": "c", "image": "1", "args": ["x"]}]},
    ),
    "topologySpreadConstraints merge by topologyKey": (
        {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 2}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 2}]},
    ),
    "other lists are replaced": (
        {"supportedModelFormats": [{"name": "a"}]},
        {"supportedModelFormats": [{"name": "b"}]},
        {"supportedModelFormats": [{"name": "b"}]},
    ),
    "switching a volume source leaves both": (
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
    ),
}


@pytest.mark.parametrize(("parent", "child", "result"), INHERITANCE_CASES.values(), ids=INHERITANCE_CASES)
def test_child_over_parent(parent: dict[str, Any], child: dict[str, Any], result: dict[str, Any]) -> None:
    assert merge_object(parent, child, INHERITANCE) == result


@pytest.mark.spec("SR-9")
@pytest.mark.parametrize("empty", [[], {}, "", None], ids=["list", "map", "string", "null"])
def test_an_empty_value_of_the_child_removes_nothing(empty: Any) -> None:
    parent = {"args": ["a"], "labels": {"a": "1"}, "image": "i", "disabled": True}
    assert merge_object(parent, dict.fromkeys(parent, empty), INHERITANCE) == parent


def test_nothing_is_shared_with_the_inputs() -> None:
    lower = {"a": {"b": [1]}, "env": [{"name": "A", "valueFrom": {"x": {}}}]}
    upper = {"c": {"d": [2]}, "env": [{"name": "B", "valueFrom": {"y": {}}}]}
    before = deepcopy((lower, upper))
    merged = merge_object(lower, upper, SERVICE)
    merged["a"]["b"].append(9)
    merged["c"]["d"].append(9)
    for variable in merged["env"]:
        variable["valueFrom"]["z"] = 1
    assert (lower, upper) == before
