"""Endpoints, disruption budgets, autoscalers, claims and the life of nodes: what one pass decides."""

from __future__ import annotations

from typing import Any

import pytest

from ome.kube.resources import DEPLOYMENTS
from ome.local.objects import Object, condition
from ome.local.plan import Create, Delete, Emit, Patch, Plan
from ome.local.workloads import autoscaling, disruption, endpoint_slices, node_lifecycle, volumes
from tests.unit.local_workloads.builders import NOW, Build, at, pod


def patches(plan: Plan) -> dict[str, Any]:
    return {f"{a.name}/{a.subresource}": a.body for a in plan.actions if isinstance(a, Patch)}


# -- EndpointSlices ----------------------------------------------------------------------------------------------------

N1 = Build("n1", "Node", "", labels={"topology.kubernetes.io/zone": "z1"}).build()


def service(**spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return Build("web", "Service", spec={"selector": {"app": "web"}, "ports": ports, **spec}).build()


def behind(name: str, *, ready: bool = True) -> Build:
    found = pod(name).on("n1").showing(podIP=f"198.18.1.{ord(name[0])}")
    return found.ready() if ready else found.unready()


def slice_of(found: Object, *pods: Build, nodes: list[Object] | None = None) -> dict[str, Any]:
    known = {node.name: node for node in ([N1] if nodes is None else nodes)}
    snapshot = endpoint_slices.Snapshot(found, [p.build() for p in pods], known, [])
    (action, *_) = endpoint_slices.decide(snapshot).actions
    assert isinstance(action, Create)
    return dict(action.body)


def conditions(body: dict[str, Any]) -> dict[str, tuple[bool, bool, bool]]:
    return {
        found["targetRef"]["name"]: tuple(found["conditions"][key] for key in ("ready", "serving", "terminating"))
        for found in body["endpoints"]
    }


def test_ready_serving_and_terminating() -> None:
    body = slice_of(service(), behind("a"), behind("b", ready=False), behind("c").deleting())
    assert conditions(body) == {"a": (True, True, False), "b": (False, False, False), "c": (False, True, True)}
    assert body["endpoints"][0]["zone"] == "z1"


def test_unready_addresses_are_published_when_asked() -> None:
    body = slice_of(service(publishNotReadyAddresses=True), behind("b", ready=False))
    assert conditions(body) == {"b": (True, False, False)}


def test_a_pod_on_a_missing_node_is_not_listed_unless_published() -> None:
    assert slice_of(service(), behind("a"), nodes=[])["endpoints"] == []
    published = slice_of(service(publishNotReadyAddresses=True), behind("a"), nodes=[])
    assert len(published["endpoints"]) == 1


def test_ended_pods_and_pods_without_an_address_are_left_out() -> None:
    body = slice_of(service(), behind("a").showing(phase="Failed"), pod("b").on("n1").ready())
    assert body["endpoints"] == []


def test_a_named_target_port_is_looked_up_in_the_pod() -> None:
    ports = [{"name": "m", "port": 81, "targetPort": "metrics"}]
    containers = [{"name": "c", "ports": [{"name": "metrics", "containerPort": 9090}]}]
    body = slice_of(service(ports=ports), behind("a").having(containers=containers))
    assert body["ports"] == [{"name": "m", "port": 9090, "protocol": "TCP"}]


def test_a_headless_service_is_labelled_so() -> None:
    labels = slice_of(service(clusterIP="None"), behind("a"))["metadata"]["labels"]
    assert labels["service.kubernetes.io/headless"] == ""
    assert labels["kubernetes.io/service-name"] == "web"


# -- PodDisruptionBudgets ----------------------------------------------------------------------------------------------

BUDGETS = {
    "minAvailable as a number": ({"minAvailable": 2}, 3, None, (3, 2, 1)),
    "minAvailable as a share of what is wanted": ({"minAvailable": "50%"}, 3, 5, (5, 3, 0)),
    "maxUnavailable as a number": ({"maxUnavailable": 1}, 3, 3, (3, 2, 1)),
    "maxUnavailable as a share rounds up": ({"maxUnavailable": "30%"}, 4, 4, (4, 2, 2)),
    "nothing to disrupt": ({"minAvailable": 1}, 0, None, (0, 1, 0)),
}


@pytest.mark.parametrize("case", BUDGETS.values(), ids=BUDGETS.keys())
def test_how_many_may_go(case: Any) -> None:
    spec, healthy, controlled, expected = case
    pods = [pod(f"p{n}").ready().build() for n in range(healthy)]
    snapshot = disruption.Snapshot(Build("b", "PodDisruptionBudget", spec=spec).build(), pods, controlled)
    told = patches(disruption.decide(snapshot, NOW))["b/status"]["status"]
    assert (told["expectedPods"], told["desiredHealthy"], told["disruptionsAllowed"]) == expected
    reason = "SufficientPods" if expected[2] else "InsufficientPods"
    assert told["conditions"][0]["reason"] == reason


def test_a_granted_eviction_counts_until_it_is_seen_or_forgotten() -> None:
    granted = {"p0": "2026-03-01T12:00:00Z"}
    budget = Build("b", "PodDisruptionBudget", spec={"minAvailable": 1}).showing(disruptedPods=granted).build()
    pods = [pod(f"p{n}").ready().build() for n in range(2)]
    plan = disruption.decide(disruption.Snapshot(budget, pods, None), at(10))
    told = patches(plan)["b/status"]["status"]
    assert (told["currentHealthy"], told["disruptionsAllowed"], plan.after) == (1, 0, 110)
    later = patches(disruption.decide(disruption.Snapshot(budget, pods, None), at(121)))["b/status"]["status"]
    assert (later["currentHealthy"], later["disruptedPods"]) == (2, None)


# -- HorizontalPodAutoscalers ------------------------------------------------------------------------------------------

BOUNDS = {
    "below the minimum": (1, 2, 5, 2),
    "above the maximum": (9, 2, 5, 5),
    "inside": (3, 2, 5, None),
    "at zero": (0, 2, 5, None),
}


@pytest.mark.parametrize("case", BOUNDS.values(), ids=BOUNDS.keys())
def test_an_autoscaler_keeps_its_bounds(case: tuple[int, int, int, int | None]) -> None:
    current, minimum, maximum, expected = case
    spec = {"minReplicas": minimum, "maxReplicas": maximum, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    scale = {"spec": {"replicas": current}, "status": {"replicas": current}}
    snapshot = autoscaling.Snapshot(Build("h", "HPA", spec=spec).build(), DEPLOYMENTS, scale)
    found = patches(autoscaling.decide(snapshot, NOW))
    assert found.get("web/scale", {}).get("spec", {}).get("replicas") == expected
    active = condition(found["h/status"]["status"], "ScalingActive")
    assert active is not None
    assert active["status"] == "False"


AUTOSCALER_COUNTS = {
    "inside, never scaled: no size was asked for": ({}, 3, {"currentReplicas": 3, "desiredReplicas": 0}),
    "scaling: what was, and what is asked for": ({}, 1, {"currentReplicas": 1, "desiredReplicas": 2}),
    "after scaling: the last size asked for": (
        {"desiredReplicas": 2, "currentReplicas": 1},
        2,
        {"currentReplicas": 2, "desiredReplicas": 2},
    ),
    "a target of none": ({}, 0, {"desiredReplicas": 0}),
}


@pytest.mark.parametrize("case", AUTOSCALER_COUNTS.values(), ids=AUTOSCALER_COUNTS.keys())
def test_an_autoscaler_tells_both_counts(case: tuple[dict[str, int], int, dict[str, int]]) -> None:
    before, current, expected = case
    spec = {"minReplicas": 2, "maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    hpa = Build("h", "HPA", spec=spec, status=before).build()
    plan = autoscaling.decide(autoscaling.Snapshot(hpa, DEPLOYMENTS, {"spec": {"replicas": current}}), NOW)
    status = {**before, **patches(plan)["h/status"]["status"]}
    assert {name: status[name] for name in ("currentReplicas", "desiredReplicas") if name in status} == expected
    assert ("lastScaleTime" in status) == (current == 1)


def test_an_autoscaler_without_a_target_says_so() -> None:
    hpa = Build("h", "HPA", spec={"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}).build()
    plan = autoscaling.decide(autoscaling.Snapshot(hpa, DEPLOYMENTS, None, 'deployments.apps "web" not found'), NOW)
    found = condition(patches(plan)["h/status"]["status"], "AbleToScale")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "FailedGetScale")


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_claim_gets_a_folder_and_is_bound() -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Gi"}}}
    claim = Build("data", "PersistentVolumeClaim", "prod", spec=spec)
    (action,) = volumes.decide(volumes.Snapshot(claim.build(), None, "/data/volumes")).actions
    assert isinstance(action, Create)
    assert action.body["spec"]["hostPath"] == {"path": "/data/volumes/prod/data"}
    assert action.body["spec"]["capacity"] == {"storage": "2Gi"}
    volume = Build(action.body["metadata"]["name"], "PersistentVolume", "", spec=action.body["spec"]).build()
    found = patches(volumes.decide(volumes.Snapshot(claim.build(), volume, "/data/volumes")))
    assert found["data/"]["spec"] == {"volumeName": volume.name}
    assert found["data/status"]["status"]["phase"] == "Bound"
    assert found[f"{volume.name}/status"]["status"]["phase"] == "Bound"


def volume(name: str, **spec: Any) -> Object:
    whole = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"], **spec}
    return Build(name, "PersistentVolume", "", spec=whole).build()


def claim_of(**spec: Any) -> Object:
    whole = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    return Build("data", "PersistentVolumeClaim", "prod", spec=whole).build()


def test_a_claim_of_a_class_that_does_not_exist_waits_and_says_why() -> None:
    snapshot = volumes.Snapshot(claim_of(storageClassName="none-such"), None, "/data", has_class=False)
    (event,) = volumes.decide(snapshot).actions
    assert isinstance(event, Emit)
    assert (event.reason, event.message) == ("ProvisioningFailed", 'storageclass.storage.k8s.io "none-such" not found')


FITS: dict[str, tuple[dict[str, Any], bool]] = {
    "what holds the claim fits": ({}, True),
    "one that is too small does not": ({"capacity": {"storage": "1Gi"}}, False),
    "one of another class does not": ({"storageClassName": "manual"}, False),
    "one without the access mode does not": ({"accessModes": ["ReadWriteOnce"]}, False),
    "one that somebody has does not": ({"claimRef": {"namespace": "a", "name": "b"}}, False),
    "a block device does not": ({"volumeMode": "Block"}, False),
}


@pytest.mark.parametrize(("spec", "fits"), FITS.values(), ids=FITS)
def test_which_volume_fits_a_claim(spec: dict[str, Any], fits: bool) -> None:
    assert (volumes.fitting(claim_of(), [volume("v", **spec)]) is not None) == fits


def test_the_smallest_volume_that_fits_is_taken() -> None:
    found = volumes.fitting(claim_of(), [volume("large"), volume("small", capacity={"storage": "3Gi"})])
    assert found is not None
    assert found.name == "small"


@pytest.mark.parametrize("spec", [{}, {"claimRef": {"namespace": "a", "name": "b"}}], ids=["for any", "for one claim"])
def test_a_new_volume_is_available(spec: dict[str, Any]) -> None:
    assert patches(volumes.offer(volume("v", **spec)))["v/status"] == {"status": {"phase": "Available"}}
    assert patches(volumes.offer(volume("v", claimRef={"name": "c", "uid": "u"}))) == {}


def test_the_volume_goes_with_its_claim_only_when_it_was_made_up() -> None:
    made_up = Build("v", "PersistentVolume", "", annotations={volumes.PROVISIONED_BY: volumes.PROVISIONER}).build()
    own = Build("v", "PersistentVolume", "").build()
    assert isinstance(volumes.release(made_up).actions[0], Delete)
    assert patches(volumes.release(own))["v/status"] == {"status": {"phase": "Released"}}


# -- nodes -------------------------------------------------------------------------------------------------------------


def machine(ready: str | None = "True", **spec: Any) -> Build:
    found = Build("n1", "Node", "", spec=spec)
    return found if ready is None else found.condition("Ready", ready)


def live(node: Build, *pods: Build, renewed: float | None = 0, now: float = 0) -> Plan:
    moment = None if renewed is None else at(renewed)
    snapshot = node_lifecycle.Snapshot(node.build(), moment, [found.build() for found in pods])
    return node_lifecycle.decide(snapshot, at(now))


def taint(key: str, effect: str, since: float = 0) -> dict[str, str]:
    return {"key": f"node.kubernetes.io/{key}", "effect": effect, "timeAdded": f"2026-03-01T12:{since // 60:02.0f}:00Z"}


def test_a_node_that_renews_its_lease_is_left_alone() -> None:
    plan = live(machine(), renewed=-30)
    assert plan.actions == []
    assert plan.after == 10


def test_a_silent_node_turns_unknown_and_its_pods_unready() -> None:
    plan = live(machine(), pod("a").on("n1").ready(), renewed=-41)
    found = patches(plan)
    ready = condition(found["n1/status"]["status"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    effects = [(t["key"], t["effect"]) for t in found["n1/"]["spec"]["taints"]]
    assert effects == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert found["a/status"]["status"]["conditions"][0]["reason"] == "NodeNotReady"


def test_a_pod_leaves_an_unreachable_node_when_its_toleration_ends() -> None:
    tolerations = [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ]
    dead = machine("Unknown", taints=[taint("unreachable", "NoSchedule"), taint("unreachable", "NoExecute")])
    patient = pod("a").on("n1").having(tolerations=tolerations)
    assert live(dead, patient, renewed=-100, now=299).after == 1
    gone = live(dead, patient, pod("b").on("n1"), renewed=-100, now=0)
    assert [a.name for a in gone.actions if isinstance(a, Delete)] == ["b"]
    assert [a.name for a in live(dead, patient, renewed=-100, now=300).actions if isinstance(a, Delete)] == ["a"]


def test_a_node_that_speaks_again_loses_its_taints_but_keeps_foreign_ones() -> None:
    foreign = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    node = machine("True", taints=[foreign, taint("unreachable", "NoSchedule"), taint("unreachable", "NoExecute")])
    assert patches(live(node))["n1/"]["spec"]["taints"] == [foreign]


def test_a_cordon_is_a_taint() -> None:
    found = patches(live(machine(unschedulable=True)))["n1/"]["spec"]["taints"]
    assert [(t["key"], t["effect"]) for t in found] == [("node.kubernetes.io/unschedulable", "NoSchedule")]


def test_the_taint_of_a_new_node_stays_until_it_is_ready() -> None:
    fresh = taint("not-ready", "NoSchedule")
    assert live(machine(None, taints=[fresh]), renewed=None).actions == []
    assert patches(live(machine("True", taints=[fresh])))["n1/"]["spec"]["taints"] is None


def test_pods_of_a_node_that_is_gone_stay_for_forty_seconds_and_fail_then() -> None:
    pods = [pod("a").on("n1").build(), pod("done").on("n1").showing(phase="Succeeded").build()]
    waiting = node_lifecycle.collect_orphans(pods, 30.0, at(0))
    assert (waiting.actions, waiting.after) == ([], 10.0)
    failed, *deleted = node_lifecycle.collect_orphans(pods, 40.0, at(0)).actions
    assert isinstance(failed, Patch)
    assert (failed.name, failed.body["status"]["phase"]) == ("a", "Failed")
    (condition,) = failed.body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByPodGC")
    assert [(d.name, d.grace_period) for d in deleted if isinstance(d, Delete)] == [("a", 0), ("done", 0)]
