"""Pods: defaults, first status, refusals, what may change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .support import container, created, pod, texts, updated

UPDATE_TEXT = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def new(**spec: Any) -> tuple[dict[str, Any], list[str]]:
    obj, errors = created(pod(**spec), "", "v1", "Pod")
    return obj, texts(errors)


def test_the_smallest_pod_gains_its_defaults() -> None:
    obj, errors = new()
    assert errors == []
    assert obj["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["metadata"]["generation"] == 1


POLICIES = {
    "i": "Always",
    "i:latest": "Always",
    "i:1.2": "IfNotPresent",
    "r:5000/i": "Always",
    "i@sha256:ab": "IfNotPresent",
}


@pytest.mark.parametrize("image", POLICIES)
def test_the_pull_policy_follows_the_tag(image: str) -> None:
    obj, _ = new(containers=[container(image=image)])
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == POLICIES[image]


CONTAINERS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "ports speak TCP": ({"ports": [{"containerPort": 80}]}, "ports", [{"containerPort": 80, "protocol": "TCP"}]),
    "requests follow limits": (
        {"resources": {"limits": {"cpu": "1000m", "memory": "1024Gi"}}},
        "resources",
        {"limits": {"cpu": "1", "memory": "1Ti"}, "requests": {"cpu": "1", "memory": "1Ti"}},
    ),
    "a given request stays": (
        {"resources": {"limits": {"cpu": 2}, "requests": {"cpu": "500m"}}},
        "resources",
        {"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}},
    ),
    "probes have their times": (
        {"livenessProbe": {"httpGet": {"port": 80}}},
        "livenessProbe",
        {
            "failureThreshold": 3,
            "periodSeconds": 10,
            "successThreshold": 1,
            "timeoutSeconds": 1,
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        },
    ),
    "field references name the version": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        "env",
        [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
    ),
}


@pytest.mark.parametrize("sentence", CONTAINERS)
def test_containers_gain_defaults(sentence: str) -> None:
    fields, name, wanted = CONTAINERS[sentence]
    obj, _ = new(containers=[container(**fields)])
    assert obj["spec"]["containers"][0][name] == wanted


VOLUMES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a volume of nothing is an empty directory": ({}, {"emptyDir": {}}),
    "files of a ConfigMap have a mode": (
        {"configMap": {"name": "x"}},
        {"configMap": {"name": "x", "defaultMode": 420}},
    ),
    "a host path has an empty type": ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
    "a token lasts an hour": (
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {
            "projected": {
                "defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            }
        },
    ),
}


@pytest.mark.parametrize("sentence", VOLUMES)
def test_volumes_gain_defaults(sentence: str) -> None:
    given, wanted = VOLUMES[sentence]
    obj, errors = new(volumes=[{"name": "v", **given}])
    assert (obj["spec"]["volumes"], errors) == ([{"name": "v", **wanted}], [])


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a pod has containers": ({"containers": []}, ["spec.containers: Required value"]),
    "a request is not above its limit": (
        {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
        ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    "amounts are compared, not texts": (
        {"containers": [container(resources={"requests": {"memory": "1025Mi"}, "limits": {"memory": "1Gi"}})]},
        [
            'spec.containers[0].resources.requests: Invalid value: "1025Mi": must be less than or equal to memory '
            "limit of "
            "1Gi"
        ],
    ),
    "an extended resource needs its limit": (
        {"containers": [container(resources={"requests": {"nvidia.com/gpu": "1"}})]},
        ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    "an extended resource is whole": (
        {"containers": [container(resources={"limits": {"nvidia.com/gpu": "1.5"}})]},
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer',
            'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "1500m": must be an integer',
        ],
    ),
    "a port is a port": (
        {"containers": [container(ports=[{"containerPort": 70000}])]},
        ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    "a mount needs its volume": (
        {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
        ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
    ),
    "a value or a source, not both": (
        {
            "containers": [
                container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
            ]
        },
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ],
    ),
    "a volume has one source": (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    "a gated pod is on no node": (
        {"nodeName": "x", "schedulingGates": [{"name": "example.com/a"}]},
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    "a restart policy is one of three": (
        {"restartPolicy": "Often"},
        ['spec.restartPolicy: Unsupported value: "Often": supported values: "Always", "OnFailure", "Never"'],
    ),
    "an image has no space around it": (
        {"containers": [container(image=" x")]},
        ['spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace'],
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_pod_is_refused(sentence: str) -> None:
    spec, wanted = REFUSED[sentence]
    assert new(**spec)[1] == wanted


QUALITY: dict[str, tuple[dict[str, Any], str]] = {
    "nothing asked": ({}, "BestEffort"),
    "only a device": ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    "some asked": ({"requests": {"cpu": "1"}}, "Burstable"),
    "both limited": ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    "limited above what is asked": ({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
}


@pytest.mark.parametrize("sentence", QUALITY)
def test_the_quality_of_service(sentence: str) -> None:
    resources, wanted = QUALITY[sentence]
    assert new(containers=[container(resources=resources)])[0]["status"]["qosClass"] == wanted


def test_a_gated_pod_says_so_in_its_status() -> None:
    obj, _ = new(schedulingGates=[{"name": "example.com/a"}])
    assert [(item["type"], item["reason"]) for item in obj["status"]["conditions"]] == [
        ("PodScheduled", "SchedulingGated")
    ]


def changed(old: dict[str, Any], subresource: str = "", **spec: Any) -> tuple[dict[str, Any], list[str]]:
    body = copy.deepcopy(old)
    body["spec"].update(spec)
    obj, errors = updated(body, old, "", "v1", "Pod", subresource)
    return obj, texts(errors)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str], int]] = {
    "an image may change": ({}, {"containers": [container(image="i2", imagePullPolicy="Always")]}, [], 2),
    "a command may not": ({}, {"containers": [container(command=["x"])]}, [UPDATE_TEXT], 2),
    "a node may not be named": ({}, {"nodeName": "x"}, [UPDATE_TEXT], 2),
    "nothing changed, nothing counted": ({}, {}, [], 1),
    "a toleration may come": ({}, {"tolerations": [{"key": "x", "operator": "Exists"}]}, [], 2),
    "a toleration may not go": (
        {"tolerations": [{"key": "x", "operator": "Exists"}]},
        {"tolerations": []},
        [UPDATE_TEXT],
        2,
    ),
    "a container may not come": (
        {},
        {"containers": [container(), container(name="d")]},
        ["spec.containers: Forbidden: pod updates may not add or remove containers"],
        2,
    ),
    "a deadline may be shortened": ({"activeDeadlineSeconds": 200}, {"activeDeadlineSeconds": 100}, [], 2),
    "a deadline may not be lengthened": (
        {"activeDeadlineSeconds": 100},
        {"activeDeadlineSeconds": 200},
        ["spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"],
        2,
    ),
    "a gate may go": ({"schedulingGates": [{"name": "example.com/a"}]}, {"schedulingGates": []}, [], 2),
    "a gate may not come": (
        {"schedulingGates": [{"name": "example.com/a"}]},
        {"schedulingGates": [{"name": "example.com/c"}]},
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate "
            "'example.com/c'"
        ],
        2,
    ),
    "a gated pod may be steered": (
        {"schedulingGates": [{"name": "example.com/a"}]},
        {"nodeSelector": {"a": "b"}},
        [],
        2,
    ),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_what_of_a_pod_may_change(sentence: str) -> None:
    before, change, wanted, generation = CHANGES[sentence]
    obj, errors = changed(new(**before)[0], **change)
    assert (errors, obj["metadata"]["generation"]) == (wanted, generation)


def test_the_main_door_keeps_the_status() -> None:
    old, _ = new()
    body = {**copy.deepcopy(old), "status": {"phase": "Running"}}
    assert updated(body, old, "", "v1", "Pod")[0]["status"]["phase"] == "Pending"


def test_the_status_door_keeps_the_rest() -> None:
    old, _ = new()
    body = {**copy.deepcopy(old), "status": {"phase": "Running"}}
    body["spec"]["nodeName"] = "x"
    obj, errors = updated(body, old, "", "v1", "Pod", "status")
    assert (obj["status"]["phase"], obj["spec"], obj["metadata"]["generation"], errors) == (
        "Running",
        old["spec"],
        1,
        [],
    )


def test_the_quality_of_service_is_fixed() -> None:
    old, _ = new()
    body = {**copy.deepcopy(old), "status": {"phase": "Running", "qosClass": "Guaranteed"}}
    assert texts(updated(body, old, "", "v1", "Pod", "status")[1]) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]


MORE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "two containers cannot have one port of the node": (
        {
            "containers": [
                container(ports=[{"containerPort": 80, "hostPort": 8080}]),
                container(name="d", ports=[{"containerPort": 81, "hostPort": 8080}]),
            ]
        },
        ['spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//8080"'],
    ),
    "on the node's network ports are the node's": (
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
        [
            "spec.containers[0].ports[0].containerPort: Invalid value: 80: must match `hostPort` when `hostNetwork` is "
            "true"
        ],
    ),
    "nobody is graceful for less than no time": (
        {"terminationGracePeriodSeconds": -1},
        ["spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "an init container is not probed": (
        {"initContainers": [container(name="i", livenessProbe={"exec": {"command": ["x"]}})]},
        [
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
            "restartPolicy=Always"
        ],
    ),
    "no resolver without servers": (
        {"dnsPolicy": "None"},
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    "a preference has a weight": (
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                    ]
                }
            }
        },
        [
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: "
            "must be in the range 1-100"
        ],
    ),
}


@pytest.mark.parametrize("sentence", MORE)
def test_a_pod_is_refused_for_more(sentence: str) -> None:
    spec, wanted = MORE[sentence]
    assert new(**spec)[1] == wanted


def test_a_sidecar_may_be_probed() -> None:
    sidecar = container(name="i", restartPolicy="Always", livenessProbe={"exec": {"command": ["x"]}})
    assert new(initContainers=[sidecar])[1] == []


def through(subresource: str, old: dict[str, Any], **spec: Any) -> tuple[dict[str, Any], list[str]]:
    obj, errors = changed(old, subresource, **spec)
    return obj["spec"], errors


def test_a_pod_is_resized_through_its_own_door() -> None:
    old, _ = new(containers=[container(resources={"requests": {"cpu": "1"}})])
    wanted = [container(command=["x"], resources={"requests": {"cpu": "2"}})]
    spec, errors = through("resize", old, containers=wanted, nodeName="x")
    assert errors == []
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert ("command" in spec["containers"][0], "nodeName" in spec) == (False, False)


def test_a_pod_is_resized_within_its_quality_of_service() -> None:
    old, _ = new(containers=[container(resources={"requests": {"cpu": "1"}})])
    _, errors = through("resize", old, containers=[container(resources={})])
    assert errors == ['spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing']


def test_ephemeral_containers_come_and_stay() -> None:
    old, _ = new()
    debug = {"name": "debug", "image": "busybox:1"}
    spec, errors = through("ephemeralcontainers", old, ephemeralContainers=[debug], nodeName="x")
    assert errors == []
    assert ([item["name"] for item in spec["ephemeralContainers"]], "nodeName" in spec) == (["debug"], False)
    _, errors = through("ephemeralcontainers", {**old, "spec": spec}, ephemeralContainers=[])
    assert errors == ['spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed\n']
