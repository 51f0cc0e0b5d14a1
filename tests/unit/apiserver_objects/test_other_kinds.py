"""Defaults, refusals and fixed fields of the remaining kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ome.local.apiserver import kinds

from .support import created, texts, updated

RBAC = "rbac.authorization.k8s.io"
NETWORK = "networking.k8s.io"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
Case = tuple[str, str, str, dict[str, Any], dict[str, Any]]

DEFAULTS: dict[str, Case] = {
    "an autoscaler aims at the processor": (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
        {
            "spec": {
                "maxReplicas": 3,
                "minReplicas": 1,
                "scaleTargetRef": TARGET,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ],
            },
            "status": {"currentMetrics": None, "desiredReplicas": 0},
        },
    ),
    "a scaling behaviour is completed": (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": TARGET,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
            }
        },
        {
            "spec.behavior": {
                "scaleDown": {
                    "policies": [{"periodSeconds": 15, "type": "Percent", "value": 100}],
                    "selectPolicy": "Max",
                    "stabilizationWindowSeconds": 60,
                },
                "scaleUp": {
                    "policies": [
                        {"periodSeconds": 15, "type": "Pods", "value": 4},
                        {"periodSeconds": 15, "type": "Percent", "value": 100},
                    ],
                    "selectPolicy": "Max",
                    "stabilizationWindowSeconds": 0,
                },
            }
        },
    ),
    "a network policy knows its directions": (
        NETWORK,
        "v1",
        "NetworkPolicy",
        {"spec": {"podSelector": {}, "egress": [{}], "ingress": [{"ports": [{"port": 80}]}]}},
        {
            "spec": {
                "egress": [{}],
                "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
            }
        },
    ),
    "a storage class deletes and binds at once": (
        "storage.k8s.io",
        "v1",
        "StorageClass",
        {"provisioner": "example.com/x"},
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    "a claim is a file system and waits": (
        "",
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}},
        {
            "spec.volumeMode": "Filesystem",
            "spec.resources": {"requests": {"storage": "1Gi"}},
            "status": {"phase": "Pending"},
        },
    ),
    "a namespace wears its name and is active": (
        "",
        "v1",
        "Namespace",
        {},
        {
            "metadata.labels": {"kubernetes.io/metadata.name": "x"},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        },
    ),
    "subjects have their group": (
        RBAC,
        "v1",
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "x"},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}, {"kind": "User", "name": "u"}],
        },
        {
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "default"},
                {"apiGroup": RBAC, "kind": "User", "name": "u"},
            ],
        },
    ),
    "a limit is a default": (
        "",
        "v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
        {
            "spec.limits": [
                {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}
            ]
        },
    ),
    "a hook fails closed": (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        {
            "webhooks": [
                {
                    "name": "a.example.com",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://127.0.0.1:1/x"},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}],
                }
            ]
        },
        {
            "webhooks": [
                {
                    "name": "a.example.com",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://127.0.0.1:1/x"},
                    "failurePolicy": "Fail",
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                    "timeoutSeconds": 10,
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["*"],
                            "resources": ["pods"],
                            "scope": "*",
                        }
                    ],
                }
            ]
        },
    ),
}


def at(obj: dict[str, Any], path: str) -> Any:
    found: Any = obj
    for part in path.split("."):
        found = found[part]
    return found


@pytest.mark.parametrize("sentence", DEFAULTS)
def test_defaults(sentence: str) -> None:
    group, version, kind, body, wanted = DEFAULTS[sentence]
    obj, errors = created({"metadata": {"name": "x"}, **body}, group, version, kind)
    assert texts(errors) == []
    assert {path: at(obj, path) for path in wanted} == wanted


REFUSED: dict[str, tuple[str, str, str, dict[str, Any], list[str]]] = {
    "an autoscaler's many faults": (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "minReplicas": 0,
                "maxReplicas": 0,
                "scaleTargetRef": {"kind": "Deployment"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}},
                    }
                ],
            }
        },
        [
            "spec.scaleTargetRef.name: Required value",
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero "
            "replicas",
            "spec.maxReplicas: Required value",
        ],
    ),
    "a budget says one of two": (
        "policy",
        "v1",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
        [
            "spec: Invalid value: "
            '{"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: '
            "minAvailable and maxUnavailable cannot be both set"
        ],
    ),
    "a lease lasts": (
        "coordination.k8s.io",
        "v1",
        "Lease",
        {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "an event lives where its object does": (
        "",
        "v1",
        "Event",
        {"involvedObject": {"namespace": "other"}},
        ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
    ),
    "a claim asks for storage in a way that exists": (
        "",
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["Sometimes"]}},
        [
            'spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"',
            "spec.resources[storage]: Required value",
        ],
    ),
    "an ingress leads somewhere": (
        NETWORK,
        "v1",
        "Ingress",
        {"spec": {}},
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
    "a path has a type": (
        NETWORK,
        "v1",
        "Ingress",
        {
            "spec": {
                "rules": [
                    {"http": {"paths": [{"path": "/", "backend": {"service": {"name": "s", "port": {"number": 1}}}}]}}
                ]
            }
        },
        ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
    ),
    "a user's priority is not the system's": (
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        {"metadata": {"name": "system-x"}, "value": 5},
        [
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
            "only. error: "
            "system-x is not a known system priority class"
        ],
    ),
    "a key stands in one map": (
        "",
        "v1",
        "ConfigMap",
        {"data": {"k": "x"}, "binaryData": {"k": "eA=="}},
        ['data[k]: Invalid value: "k": duplicate of key present in binaryData'],
    ),
    "a config map is small": (
        "",
        "v1",
        "ConfigMap",
        {"data": {"k": "x" * 1_048_577}},
        ["[]: Too long: may not be more than 1048576 bytes"],
    ),
    "a hook names its side effects and one client": (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        {"webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"], "clientConfig": {}}]},
        [
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ],
    ),
    "a role's rule says what it allows": (
        RBAC,
        "v1",
        "Role",
        {"rules": [{"resources": ["pods"], "apiGroups": [""]}]},
        ["rules[0].verbs: Required value"],
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence: str) -> None:
    group, version, kind, body, wanted = REFUSED[sentence]
    assert texts(created({"metadata": {"name": "x"}, **body}, group, version, kind)[1]) == wanted


FIXED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], list[str]]] = {
    "the role of a binding": (
        RBAC,
        "RoleBinding",
        {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"}},
        {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "y"}},
        [
            'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"y"}: field is '
            "immutable",
        ],
    ),
    "the value of a priority": (
        "scheduling.k8s.io",
        "PriorityClass",
        {"value": 500},
        {"value": 600},
        ["value: Forbidden: may not be changed in an update."],
    ),
    "the parameters of a storage class": (
        "storage.k8s.io",
        "StorageClass",
        {"provisioner": "p"},
        {"provisioner": "p", "parameters": {"a": "b"}},
        ["parameters: Invalid value: null: field is immutable"],
    ),
    "the type of a secret": ("", "Secret", {}, {"type": "other"}, ['type: Invalid value: "other": field is immutable']),
    "what is sealed": (
        "",
        "ConfigMap",
        {"immutable": True, "data": {"a": "1"}},
        {"immutable": True, "data": {"a": "2"}},
        ["data: Forbidden: field is immutable when `immutable` is set"],
    ),
    "the data of a revision": (
        "apps",
        "ControllerRevision",
        {"revision": 1, "data": {"a": 1}},
        {"revision": 2, "data": {"a": 2}},
        ['data: Invalid value: {"a":2}: field is immutable'],
    ),
}


@pytest.mark.parametrize("sentence", FIXED)
def test_fixed_fields(sentence: str) -> None:
    group, kind, before, after, wanted = FIXED[sentence]
    old, _ = created({"metadata": {"name": "x"}, **before}, group, "v1", kind)
    body = {**copy.deepcopy(old), **after}
    assert texts(updated(body, old, group, "v1", kind)[1]) == wanted


def test_a_namespace_cannot_lose_its_label() -> None:
    old, _ = created({"metadata": {"name": "x"}}, "", "v1", "Namespace")
    body = copy.deepcopy(old)
    body["metadata"]["labels"] = {"kubernetes.io/metadata.name": "other"}
    obj, errors = updated(body, old, "", "v1", "Namespace")
    assert (obj["metadata"]["labels"], errors) == ({"kubernetes.io/metadata.name": "x"}, [])


def test_a_kind_without_rules_is_served_all_the_same() -> None:
    obj, errors = created({"metadata": {"name": "x"}}, "storage.k8s.io", "v1", "CSIDriver")
    assert (errors, obj["metadata"].get("generation")) == ([], None)


def test_a_config_map_keeps_the_generation_it_is_sent() -> None:
    obj, _ = created({"metadata": {"name": "x", "generation": 9}}, "", "v1", "ConfigMap")
    assert obj["metadata"]["generation"] == 9


def test_endpoints_are_deprecated() -> None:
    strategy = kinds.strategy("", "v1", "Endpoints")
    assert strategy.warnings({}) == ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
