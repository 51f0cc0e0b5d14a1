"""A ReplicaSet's pods: how many, and which go first."""

from __future__ import annotations

import pytest

from ome.local.objects import Object
from ome.local.plan import Create, Delete
from ome.local.workloads.replica_sets import DELETION_COST, Snapshot, decide, least_useful, report
from tests.unit.local_workloads.builders import NOW, Build, pod, template


def replica_set(replicas: int, **spec: object) -> Object:
    return Build("web-1", "ReplicaSet", spec={"replicas": replicas, "template": template(), **spec}).build()


def test_missing_pods_are_made_under_a_generated_name() -> None:
    plan = decide(Snapshot(replica_set(3), [pod("a").ready().build()]))
    assert len(plan.actions) == 2
    action = plan.actions[0]
    assert isinstance(action, Create)
    assert action.body["metadata"]["generateName"] == "web-1-"
    assert action.body["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


def test_pods_that_end_or_are_being_deleted_do_not_count() -> None:
    pods = [pod("a").deleting().build(), pod("b").showing(phase="Failed").build(), pod("c").ready().build()]
    assert len(decide(Snapshot(replica_set(2), pods)).actions) == 1


LESS_USEFUL_FIRST = {
    "a pod without a node": (pod("a"), pod("b").on("n1")),
    "a pending pod": (pod("a").on("n1").showing(phase="Pending"), pod("b").on("n1").showing(phase="Running")),
    "a pod that is not ready": (pod("a").on("n1").unready(), pod("b").on("n1").ready()),
    "a pod of lower deletion cost": (
        pod("a").on("n1").ready().annotated({DELETION_COST: "-5"}),
        pod("b").on("n1").ready(),
    ),
    "a pod ready for a shorter time": (pod("a").on("n1").ready(since=-5), pod("b").on("n1").ready(since=-50)),
    "a pod that restarted more often": (
        pod("a").on("n1").ready().showing(containerStatuses=[{"restartCount": 3}]),
        pod("b").on("n1").ready(),
    ),
    "a younger pod": (pod("a").on("n1").ready().made(-5), pod("b").on("n1").ready().made(-50)),
}


@pytest.mark.parametrize("pair", LESS_USEFUL_FIRST.values(), ids=LESS_USEFUL_FIRST.keys())
def test_the_less_useful_pod_is_deleted_first(pair: tuple[Build, Build]) -> None:
    less, more = (found.build() for found in pair)
    for order in ([less, more], [more, less]):
        assert [found.name for found in least_useful(order, order)] == ["a", "b"]


def test_the_fuller_node_gives_first() -> None:
    pods = [pod("a").on("n1").ready().build(), pod("b").on("n2").ready().build(), pod("c").on("n2").ready().build()]
    assert least_useful(pods, pods)[0].spec["nodeName"] == "n2"


def test_surplus_pods_are_deleted_with_their_uid() -> None:
    pods = [pod("a").ready().build(), pod("b").unready().build()]
    (action,) = decide(Snapshot(replica_set(1), pods)).actions
    assert isinstance(action, Delete)
    assert (action.name, action.uid) == ("b", "uid-Pod-b")


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    pods = [pod("a").ready(since=-20).build(), pod("b").ready(since=-4).build()]
    plan = report(Snapshot(replica_set(2, minReadySeconds=10), pods), NOW)
    (patch,) = plan.actions
    told = patch.body["status"]  # type: ignore[union-attr]
    assert (told["readyReplicas"], told["availableReplicas"], told["replicas"]) == (2, 1, 2)
    assert plan.after == 6


def test_a_refused_create_is_told_as_replica_failure() -> None:
    (patch,) = report(Snapshot(replica_set(1), [], refusal="exceeded quota: q"), NOW).actions
    (found,) = patch.body["status"]["conditions"]  # type: ignore[union-attr]
    assert (found["type"], found["reason"], found["message"]) == ("ReplicaFailure", "FailedCreate", "exceeded quota: q")
