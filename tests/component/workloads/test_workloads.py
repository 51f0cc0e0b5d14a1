"""The workload controllers, scheduler and nodes together, over the API: what a user of a cluster sees."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.client import Client
from ome.kube.requests import Request
from ome.kube.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    HPAS,
    INFERENCE_REPLICAS,
    JOBS,
    NODES,
    PDBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
)
from ome.local.cluster import LocalWorkloads
from ome.local.inprocess import InProcessTransport
from tests.support.world import ADMIN, World, in_world

NAMESPACE = "work"


def template(image: str = "web:1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": image, "ports": [{"containerPort": 80}]}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **spec}}


def workload(kind: str, name: str = "web", api: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**selector, "template": template(), **spec},
    }


def of(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((found for found in status.get("conditions", ()) if found["type"] == type_), {})


async def rolled_out(world: World, replicas: int, image: str) -> None:
    """Wait until the Deployment says that it is done, and its pods run the image."""

    async def check() -> None:
        found = await world.get(DEPLOYMENTS, "web", NAMESPACE)
        status = found["status"]
        assert status["observedGeneration"] == found["metadata"]["generation"]
        assert of(status, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == replicas
        assert status.get("replicas", 0) == replicas
        pods = await world.list(PODS, NAMESPACE)
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}
        assert len(pods) == replicas

    await world.eventually(check)


@in_world(nodes=2, installed=False)
async def test_a_deployment_runs_rolls_scales_and_goes(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(workload("Deployment", replicas=3))
    await rolled_out(world, 3, "web:1")
    nodes = {pod["spec"]["nodeName"] for pod in await world.list(PODS, NAMESPACE)}
    assert nodes == {"node-1", "node-2"}
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template("web:2")}})
    await rolled_out(world, 3, "web:2")
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 5}})
    await rolled_out(world, 5, "web:2")
    sets = await world.list(REPLICA_SETS, NAMESPACE)
    revisions = {s["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: s["spec"]["replicas"] for s in sets}
    assert revisions == {"1": 0, "2": 5}
    await world.client.delete(DEPLOYMENTS, "web", NAMESPACE, propagation="Background")

    async def all_gone() -> None:
        assert await world.list(REPLICA_SETS, NAMESPACE) == []
        assert await world.list(PODS, NAMESPACE) == []

    await world.eventually(all_gone)


@in_world(nodes=1, installed=False)
async def test_a_rollout_never_falls_below_its_budget(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await world.create(workload("Deployment", replicas=4, strategy=strategy))
    await rolled_out(world, 4, "web:1")
    seen: list[tuple[int, int]] = []

    async def watch() -> None:
        while True:
            pods = await world.list(PODS, NAMESPACE)
            alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            count = len(alive)
            if not world.embedded:  # the surge is what is asked for: one set's new pod may come before the other's goes
                count = sum(found["spec"]["replicas"] for found in await world.list(REPLICA_SETS, NAMESPACE))
            seen.append((sum(of(pod["status"], "Ready").get("status") == "True" for pod in alive), count))
            await world.sleep(0.02)

    task = world.start(watch())
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template("web:2")}})
    await rolled_out(world, 4, "web:2")
    task.cancel()
    assert min(ready for ready, _ in seen) == 4
    assert max(count for _, count in seen) <= 5


@in_world(nodes=1, installed=False)
async def test_a_stuck_rollout_keeps_the_old_pods_and_says_why(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(workload("Deployment", replicas=2, progressDeadlineSeconds=5))
    await rolled_out(world, 2, "web:1")
    impossible = template("web:2", nodeSelector={"no": "such"})
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": impossible}})

    async def exceeded() -> None:
        status = (await world.get(DEPLOYMENTS, "web", NAMESPACE))["status"]
        assert of(status, "Progressing")["reason"] == "ProgressDeadlineExceeded"
        assert status["availableReplicas"] == 2

    await world.eventually(exceeded)


@in_world(nodes=1, installed=False)
async def test_a_pod_that_fits_nowhere_waits_and_is_placed_once_there_is_room(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    container = {"name": "main", "image": "web:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    for name in ("first", "second"):
        await world.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"containers": [container]},
            }
        )
        if name == "first":
            await world.eventually(lambda: ready(world, "first"))

    async def waits() -> None:
        found = of((await world.get(PODS, "second", NAMESPACE))["status"], "PodScheduled")
        assert found["reason"] == "Unschedulable"
        assert found["message"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        assert await world.events(NAMESPACE, "FailedScheduling")

    await world.eventually(waits)
    await world.client.delete(PODS, "first", NAMESPACE)
    await world.eventually(lambda: ready(world, "second"))


async def ready(world: World, name: str) -> None:
    assert of((await world.get(PODS, name, NAMESPACE))["status"], "Ready")["status"] == "True"


@in_world(nodes=1, installed=False)
async def test_a_service_finds_its_ready_pods(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
        workload("Deployment", replicas=2),
    )

    async def endpoints(count: int) -> None:
        slices = await world.list(ENDPOINT_SLICES, NAMESPACE, "kubernetes.io/service-name=web")
        found = [endpoint for s in slices for endpoint in s["endpoints"] or ()]
        assert sum(endpoint["conditions"]["ready"] for endpoint in found) == count == len(found)

    await world.eventually(lambda: endpoints(2))
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 1}})
    await world.eventually(lambda: endpoints(1))
    await world.client.delete(SERVICES, "web", NAMESPACE)

    async def no_slices() -> None:
        assert await world.list(ENDPOINT_SLICES, NAMESPACE) == []
        assert await world.list(ENDPOINTS, NAMESPACE) == []

    await world.eventually(no_slices)


@in_world(nodes=1, installed=False)
async def test_a_budget_follows_its_pods(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await world.create(workload("Deployment", replicas=3), budget)

    async def allows() -> None:
        status = (await world.get(PDBS, "budget", NAMESPACE))["status"]
        assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (3, 3, 1)

    await world.eventually(allows)


@in_world(nodes=1)
async def test_a_budget_asks_a_custom_controller_what_it_wants(world: World) -> None:
    """One of three pods is gone: its controller still wants three, so no other may go."""
    await world.make_namespace(NAMESPACE)
    metadata = {"name": "chat-engine", "namespace": NAMESPACE}
    template_ = {"metadata": {"labels": {"app": "web"}}, "spec": template()["spec"]}
    replica = await world.client.create(
        INFERENCE_REPLICAS,
        {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceReplica",
            "metadata": metadata,
            "spec": {"parentService": "chat", "component": "engine", "replicas": 3, "template": template_},
        },
    )
    owner = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "name": "chat-engine",
        "uid": replica["metadata"]["uid"],
        "controller": True,
    }
    for number in range(2):
        name = {"name": f"p{number}", "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": [owner]}
        await world.create({"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": template()["spec"]})
    await world.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": NAMESPACE},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
    )

    looks = 0

    async def forbids() -> None:
        # The real controller learns of new kinds every 30 seconds, and forgets a budget that needed one it did not know
        # until that budget or its pods change.
        nonlocal looks
        looks += 1
        await world.annotate(PDBS, "budget", NAMESPACE, looks=str(looks))
        await world.sleep(1)
        status = (await world.get(PDBS, "budget", NAMESPACE))["status"]
        assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (3, 2, 0)

    await world.eventually(forbids, timeout=120)


@in_world(nodes=1, installed=False)
async def test_an_autoscaler_moves_its_target_into_the_bounds(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await world.create(
        workload("Deployment", replicas=1),
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"minReplicas": 3, "maxReplicas": 4, "scaleTargetRef": reference},
        },
    )

    async def at(count: int) -> None:
        assert (await world.get(DEPLOYMENTS, "web", NAMESPACE))["spec"]["replicas"] == count

    await world.eventually(lambda: at(3))
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 9}})
    await world.eventually(lambda: at(4))

    async def inactive() -> None:
        status = (await world.get(HPAS, "web", NAMESPACE))["status"]
        assert of(status, "ScalingActive")["status"] == "False"

    await world.eventually(inactive)


@in_world(nodes=2, installed=False)
async def test_stateful_and_daemon_sets(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(workload("StatefulSet", "db", replicas=2, serviceName="db"), workload("DaemonSet", "agent"))

    async def running() -> None:
        stateful = (await world.get(STATEFUL_SETS, "db", NAMESPACE))["status"]
        assert (stateful.get("readyReplicas"), stateful["currentRevision"]) == (2, stateful["updateRevision"])
        daemon = (await world.get(DAEMON_SETS, "agent", NAMESPACE))["status"]
        assert (daemon["desiredNumberScheduled"], daemon["numberReady"]) == (2, 2)
        names = {pod["metadata"]["name"] for pod in await world.list(PODS, NAMESPACE)}
        assert {"db-0", "db-1"} <= names

    await world.eventually(running)


JOBS_TO_RUN = {
    "several": ({"completions": 3, "parallelism": 2}, 3),
    "indexed": ({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}, 2),
}


@pytest.mark.parametrize("case", JOBS_TO_RUN.values(), ids=JOBS_TO_RUN.keys())
@in_world(nodes=1, installed=False)
async def test_a_job_comes_to_its_end(world: World, case: tuple[dict[str, Any], int]) -> None:
    spec, count = case
    await world.make_namespace(NAMESPACE)
    job = workload("Job", "j", "batch/v1", **spec)
    job["spec"]["template"] = template(restartPolicy="Never")
    await world.create(job)

    async def complete() -> None:
        status = (await world.get(JOBS, "j", NAMESPACE))["status"]
        assert of(status, "Complete")["status"] == "True"
        assert status["succeeded"] == count

    await world.eventually(complete)
    pods = await world.list(PODS, NAMESPACE)
    assert len(pods) == count
    assert not any(pod["metadata"].get("finalizers") for pod in pods)


@pytest.mark.embedded_only("the real controller manager's clock does not jump ahead")
@in_world(nodes=1, installed=False)
async def test_a_cron_job_runs_on_time(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    spec = {"template": template(restartPolicy="Never")}
    await world.create(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "tick", "namespace": NAMESPACE},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": spec}, "successfulJobsHistoryLimit": 2},
        }
    )
    await world.sleep(3630)
    jobs = await world.list(JOBS, NAMESPACE)
    assert len(jobs) == 2
    status = (await world.get(CRON_JOBS, "tick", NAMESPACE))["status"]
    assert status["lastScheduleTime"] == "2026-10-01T13:00:00Z"


@pytest.mark.embedded_only("the real control plane has no provisioner")
@in_world(nodes=1, installed=False)
async def test_a_claim_binds_at_once(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": NAMESPACE},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )

    async def bound() -> None:
        found = await world.get(PERSISTENT_VOLUME_CLAIMS, "data", NAMESPACE)
        assert found["status"]["phase"] == "Bound"

    await world.eventually(bound)


@pytest.mark.embedded_only("a cluster without a provisioner leaves claims alone")
@in_world(nodes=0, installed=False)
async def test_a_claim_waits_for_its_class_or_for_a_volume_of_it(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    for name, storage_class in (("one", "fast"), ("two", "manual")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec["storageClassName"] = storage_class
        metadata = {"name": name, "namespace": NAMESPACE}
        await world.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    await world.sleep(5)
    claims = await world.list(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)
    assert {claim["status"]["phase"] for claim in claims} == {"Pending"}
    sort = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    await world.create({**sort, "provisioner": "example.com/any"})
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "mine"}}
    await world.create({**made, "spec": {**spec, "storageClassName": "manual"}})

    async def bound() -> None:
        found = {claim["metadata"]["name"]: claim for claim in await world.list(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}
        assert {claim["status"]["phase"] for claim in found.values()} == {"Bound"}
        assert found["two"]["spec"]["volumeName"] == "mine"

    await world.eventually(bound)


@pytest.mark.embedded_only("waits for minutes of real time")
@in_world(nodes=2, installed=False)
async def test_a_dead_node_loses_its_pods_and_comes_back(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    await world.create(workload("Deployment", replicas=2))
    await rolled_out(world, 2, "web:1")
    await world.annotate(NODES, "node-1", "", **{"local.ome.io/failed": "true"})
    await world.sleep(60)
    node = await world.get(NODES, "node-1")
    assert of(node["status"], "Ready")["status"] == "Unknown"
    lost = [p for p in await world.list(PODS, NAMESPACE) if p["spec"]["nodeName"] == "node-1"]
    assert [of(pod["status"], "Ready")["status"] for pod in lost] == ["False"]
    await world.sleep(320)
    alive = [p for p in await world.list(PODS, NAMESPACE) if "deletionTimestamp" not in p["metadata"]]
    assert {pod["spec"]["nodeName"] for pod in alive} == {"node-2"}
    await world.annotate(NODES, "node-1", "", **{"local.ome.io/failed": None})
    await world.sleep(5)
    node = await world.get(NODES, "node-1")
    assert of(node["status"], "Ready")["status"] == "True"
    assert not node["spec"].get("taints")
    assert len(await world.list(PODS, NAMESPACE)) == 2


@pytest.mark.embedded_only("counts requests of the controllers alone")
@pytest.mark.embedded_only("waits for minutes of real time")
@in_world(nodes=0, installed=False)
async def test_a_pod_on_a_node_that_does_not_exist_is_collected_after_a_while(world: World) -> None:
    await world.make_namespace(NAMESPACE)
    for name in ("first", "second"):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}}
        await world.create({**body, "spec": {"nodeName": "ghost", "containers": [{"name": "c", "image": "i"}]}})
        await world.sleep(35)
        assert [pod["metadata"]["name"] for pod in await world.list(PODS, NAMESPACE)] == [name]
        await world.sleep(10)
        assert await world.list(PODS, NAMESPACE) == []


@pytest.mark.embedded_only("the real control plane has controllers of its own")
@in_world(nodes=2, installed=False, workloads=False)
async def test_settled_workloads_cost_no_write(world: World) -> None:
    sent: list[Request] = []
    assert world.server is not None
    client = Client(InProcessTransport(world.server, ADMIN), on_request=sent.append)
    world.start(LocalWorkloads(client, world.clock).run())
    await world.make_namespace(NAMESPACE)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metadata = {"name": "web", "namespace": NAMESPACE}
    job = workload("Job", "j", "batch/v1")
    job["spec"]["template"] = template(restartPolicy="Never")
    await world.create(
        workload("Deployment", replicas=3),
        workload("StatefulSet", "db", replicas=2, serviceName="db"),
        workload("DaemonSet", "agent"),
        job,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": {"minReplicas": 1, "maxReplicas": 4, "scaleTargetRef": reference},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    await world.sleep(30)
    sent.clear()
    await world.sleep(600)
    assert [(request.method, request.path) for request in sent if request.is_write] == []


@pytest.mark.parametrize(
    ("selector", "share"),
    [
        ({"matchLabels": {"app": "web"}}, 1),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 1),
        ({}, 1),
        ({"matchLabels": {"app": "other"}}, 0),
    ],
    ids=["by labels", "by an expression", "everything", "nothing"],
)
@in_world(nodes=1, installed=False)
async def test_a_budget_finds_its_pods_however_it_selects_them(
    world: World, selector: dict[str, Any], share: int
) -> None:
    # One budget at a time: of several that select a pod, a real cluster looks only at one when that pod changes.
    await world.make_namespace(NAMESPACE)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": selector},
    }
    await world.create(workload("Deployment", replicas=2), budget)

    async def expects(count: int) -> None:
        assert len(await world.list(PODS, NAMESPACE)) == count
        assert (await world.get(PDBS, "web", NAMESPACE))["status"]["expectedPods"] == count * share

    await world.eventually(lambda: expects(2))
    await world.merge(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 4}})
    await world.eventually(lambda: expects(4))
