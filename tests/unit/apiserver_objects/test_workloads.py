"""Kinds that make pods: defaults, refusals, what is fixed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .support import container, created, texts, updated, workload

APPS = ("apps", "v1")


def test_a_deployment_gains_its_defaults() -> None:
    obj, errors = created(workload(), *APPS, "Deployment")
    assert errors == []
    assert {key: value for key, value in obj["spec"].items() if key not in ("selector", "template")} == {
        "progressDeadlineSeconds": 600,
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }
    assert (obj["status"], obj["metadata"]["generation"]) == ({}, 1)
    assert "enableServiceLinks" not in obj["spec"]["template"]["spec"]


def test_a_stateful_set_gains_its_defaults() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    obj, errors = created(workload(serviceName="x", volumeClaimTemplates=[claim]), *APPS, "StatefulSet")
    assert errors == []
    assert {key: value for key, value in obj["spec"].items() if key not in ("selector", "template")} == {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "podManagementPolicy": "OrderedReady",
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "serviceName": "x",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "partition": 0}},
        "volumeClaimTemplates": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {**claim["spec"], "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }
        ],
    }
    assert obj["status"] == {"replicas": 0, "availableReplicas": 0}


def test_a_job_names_its_pods_after_itself() -> None:
    body = {
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}},
    }
    obj, errors = created(body, "batch", "v1", "Job")
    uid = obj["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert errors == []
    assert obj["spec"]["template"]["metadata"]["labels"] == labels
    assert obj["metadata"]["labels"] == labels
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert {key: obj["spec"][key] for key in ("backoffLimit", "completions", "parallelism", "suspend")} == {
        "backoffLimit": 6,
        "completions": 1,
        "parallelism": 1,
        "suspend": False,
    }


MATCH = "`selector` does not match template `labels`"
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the selector matches the template": (
        {"selector": {"matchLabels": {"a": "x"}}},
        [f'spec.template.metadata.labels: Invalid value: {{"a":"b"}}: {MATCH}'],
    ),
    "a selector is required": (
        {"selector": None},
        ["spec.selector: Required value", f'spec.template.metadata.labels: Invalid value: {{"a":"b"}}: {MATCH}'],
    ),
    "pods of a deployment always restart": (
        {
            "replicas": -1,
            "progressDeadlineSeconds": 5,
            "minReadySeconds": 10,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"restartPolicy": "Never", "containers": [container()]},
            },
        },
        [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
        ],
    ),
    "Recreate knows no rolling settings": (
        {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    "a rollout must be able to move": (
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
        [
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0',
        ],
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_deployment_is_refused(sentence: str) -> None:
    spec, wanted = REFUSED[sentence]
    assert texts(created(workload(**spec), *APPS, "Deployment")[1]) == wanted


def test_a_job_does_not_restart_for_ever() -> None:
    body = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [container()]}}}}
    assert texts(created(body, "batch", "v1", "Job")[1]) == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


SCHEDULES: dict[str, list[str]] = {
    "*/5 * * * *": [],
    "@daily": [],
    "0 9-17 * jan-mar mon,fri": [],
    "every day": ['spec.schedule: Invalid value: "every day": expected exactly 5 fields, found 2: [every day]'],
    "61 * * * *": ['spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61'],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    body = {"metadata": {"name": "j"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}}
    assert texts(created(body, "batch", "v1", "CronJob")[1]) == SCHEDULES[schedule]


def changed(kind: str, spec: dict[str, Any], **before: Any) -> tuple[dict[str, Any], list[str]]:
    old, _ = created(workload(**before), *APPS, kind)
    body = copy.deepcopy(old)
    body["spec"].update(spec)
    obj, errors = updated(body, old, *APPS, kind)
    return obj, texts(errors)


OTHER = {
    "selector": {"matchLabels": {"a": "c"}},
    "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [container()]}},
}
FIXED: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[str]]] = {
    "a deployment's selector": (
        "Deployment",
        {},
        OTHER,
        ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
    ),
    "a replica set's selector": (
        "ReplicaSet",
        {},
        OTHER,
        ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
    ),
    "a stateful set's service": (
        "StatefulSet",
        {"serviceName": "x"},
        {"serviceName": "y"},
        ['spec.serviceName: Invalid value: "y": field is immutable'],
    ),
    "a stateful set's policy and selector": (
        "StatefulSet",
        {"serviceName": "x"},
        {"podManagementPolicy": "Parallel", **OTHER},
        [
            'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
            'spec.podManagementPolicy: Invalid value: "Parallel": field is immutable',
        ],
    ),
}


@pytest.mark.parametrize("sentence", FIXED)
def test_what_is_fixed(sentence: str) -> None:
    kind, before, change, wanted = FIXED[sentence]
    assert changed(kind, change, **before)[1] == wanted


GENERATIONS: dict[str, tuple[dict[str, Any], int]] = {
    "a change of the spec counts": ({"replicas": 5}, 2),
    "no change does not": ({"replicas": 1}, 1),
}


@pytest.mark.parametrize("sentence", GENERATIONS)
def test_the_generation_counts_changes_of_the_spec(sentence: str) -> None:
    change, wanted = GENERATIONS[sentence]
    assert changed("Deployment", change)[0]["metadata"]["generation"] == wanted


def test_a_label_is_no_change_of_the_spec_and_a_sent_generation_is_ignored() -> None:
    old, _ = created(workload(), *APPS, "Deployment")
    body = copy.deepcopy(old)
    body["metadata"].update(labels={"x": "y"}, generation=77)
    assert updated(body, old, *APPS, "Deployment")[0]["metadata"]["generation"] == 1


def test_counts_of_a_status_must_agree() -> None:
    old, _ = created(workload(replicas=0), *APPS, "ReplicaSet")
    body = copy.deepcopy(old)
    body["status"] = {"replicas": -3, "readyReplicas": 5}
    assert texts(updated(body, old, *APPS, "ReplicaSet", "status")[1]) == [
        "status.replicas: Invalid value: -3: must be greater than or equal to 0",
        "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.readyReplicas: Invalid value: 5: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
    ]
