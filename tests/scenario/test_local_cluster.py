"""What people do with a cluster's workloads and nodes, typed with the real kubectl."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.scenario.conftest import Opener
from tests.support.scenario import ScenarioCluster

NS = "shop"


@pytest.fixture(scope="module")
def cluster(opener: Opener) -> ScenarioCluster:
    found = opener(nodes=2)
    found.make_namespace(NS)
    found.kubectl(f"config set-context --current --namespace={NS}").ok()
    return found


def deployment(name: str, replicas: int, image: str = "registry.example/web:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "web", "image": image, "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def images(cluster: ScenarioCluster, name: str) -> list[str]:
    pods = cluster.get(f"pods -l app={name}")["items"]
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"])


def test_a_rollout_goes_forward_and_back(cluster: ScenarioCluster) -> None:
    cluster.apply(deployment("web", 3))
    done = 'deployment "web" successfully rolled out'
    assert done in cluster.kubectl("rollout status deploy/web --timeout=120s").ok().out
    cluster.kubectl("set image deploy/web web=registry.example/web:2").ok()
    assert done in cluster.kubectl("rollout status deploy/web --timeout=120s").ok().out
    cluster.eventually(lambda: images(cluster, "web"), ["registry.example/web:2"] * 3)
    assert cluster.kubectl("rollout undo deploy/web").ok().out == "deployment.apps/web rolled back\n"
    cluster.kubectl("rollout status deploy/web --timeout=120s").ok()
    cluster.eventually(lambda: images(cluster, "web"), ["registry.example/web:1"] * 3)
    history = cluster.kubectl("rollout history deploy/web").ok().out
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]


def test_scaling_up_and_down(cluster: ScenarioCluster) -> None:
    cluster.apply(deployment("scaled", 1))
    for replicas in (4, 0, 2):
        cluster.kubectl(f"scale deploy/scaled --replicas={replicas}").ok()
        cluster.eventually(lambda: len(images(cluster, "scaled")), replicas)
    cluster.kubectl("wait deploy/scaled --for=condition=Available --timeout=120s").ok()


def waiting_reason(cluster: ScenarioCluster, name: str) -> set[str]:
    found = set()
    for pod in cluster.get(f"pods -l app={name}")["items"]:
        for status in pod["status"].get("containerStatuses", ()):
            found.add(status["state"].get("waiting", {}).get("reason", "running"))
    return found


def test_an_image_that_does_not_exist_holds_the_rollout_until_it_does(cluster: ScenarioCluster) -> None:
    target = ["--kubeconfig", str(cluster.kubeconfig)]
    cluster.apply(deployment("shop", 2))
    cluster.kubectl("rollout status deploy/shop --timeout=120s").ok()
    cluster.local("image deny", "*:v0.0.0-missing*", *target).ok()
    assert cluster.local("image list", *target).ok().out == "*:v0.0.0-missing*\n"
    cluster.kubectl("set image deploy/shop web=registry.example/web:v0.0.0-missing").ok()
    cluster.until(lambda: "ImagePullBackOff" in waiting_reason(cluster, "shop"))
    assert cluster.get("deploy shop")["status"]["availableReplicas"] == 2

    def told() -> bool:  # after the status
        events = cluster.get("events --field-selector reason=Failed")["items"]
        return any("not found" in event["message"] for event in events)

    cluster.until(told)
    cluster.local("image allow", "*:v0.0.0-missing*", *target).ok()
    cluster.kubectl("rollout status deploy/shop --timeout=120s").ok()
    assert images(cluster, "shop") == ["registry.example/web:v0.0.0-missing"] * 2


def nodes_of(cluster: ScenarioCluster, name: str) -> set[str]:
    pods = cluster.get(f"pods -l app={name}")["items"]
    return {pod["spec"].get("nodeName", "") for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def test_a_drain_respects_the_budget_and_moves_the_pods(cluster: ScenarioCluster) -> None:
    cluster.apply(deployment("guarded", 4))
    cluster.kubectl("rollout status deploy/guarded --timeout=120s").ok()
    cluster.kubectl("create poddisruptionbudget guard --selector=app=guarded --min-available=3").ok()
    cluster.eventually(lambda: cluster.get("pdb guard")["status"].get("disruptionsAllowed"), 1)
    assert nodes_of(cluster, "guarded") == {"node-1", "node-2"}
    drained = cluster.kubectl("drain node-1 --ignore-daemonsets --delete-emptydir-data --timeout=120s").ok()
    assert "node/node-1 drained" in drained.out
    cluster.kubectl("rollout status deploy/guarded --timeout=120s").ok()
    # The pod that replaces the last one may have no node yet.
    cluster.eventually(lambda: nodes_of(cluster, "guarded"), {"node-2"})
    assert "SchedulingDisabled" in cluster.kubectl("get node node-1").ok().out
    cluster.kubectl("uncordon node-1").ok()
    cluster.kubectl("scale deploy/guarded --replicas=6").ok()
    cluster.until(lambda: nodes_of(cluster, "guarded") == {"node-1", "node-2"})


def test_a_pod_that_does_not_fit_says_why(cluster: ScenarioCluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "huge"},
        "spec": {
            "containers": [
                {"name": "c", "image": "registry.example/c:1", "resources": {"limits": {"nvidia.com/gpu": "64"}}}
            ]
        },
    }
    cluster.apply(pod)

    def message() -> str:
        conditions = cluster.get("pod huge")["status"].get("conditions") or [{}]
        return str(conditions[0].get("message", ""))

    cluster.until(lambda: message().startswith("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."))
    cluster.until(lambda: "FailedScheduling" in cluster.kubectl("describe pod huge").ok().out)


def test_simulated_pods_are_scripted_by_annotations(cluster: ScenarioCluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late", "annotations": {"local.ome.io/ready-after": "3s"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }
    began = time.monotonic()
    cluster.apply(pod)
    cluster.kubectl("wait pod/late --for=condition=Ready --timeout=120s").ok()
    assert time.monotonic() - began >= 2


def test_a_job_completes(cluster: ScenarioCluster) -> None:
    cluster.kubectl("create job once --image=registry.example/job:1").ok()
    cluster.kubectl("wait job/once --for=condition=Complete --timeout=120s").ok()
    assert "1/1" in cluster.kubectl("get job once").ok().out
