"""Rollout arithmetic, revisions, conditions: what one pass over a Deployment decides."""

from __future__ import annotations

from typing import Any

import pytest

from ome.local.objects import Object, condition
from ome.local.plan import Create, Delete, Emit, Patch, Plan
from ome.local.workloads.deployments import DESIRED, MAXIMUM, REVISION, REVISION_HISTORY, Snapshot, decide
from tests.unit.local_workloads.builders import NOW, Build, at, deployment, pod, rolling, template


def replica_set(
    image: str,
    size: int,
    *,
    available: int | None = None,
    revision: int = 1,
    desired: int | None = None,
    made: float = 0,
) -> Build:
    count = size if available is None else available
    found = Build(
        f"web-{image.replace(':', '')}",
        "ReplicaSet",
        spec={"replicas": size, "template": template(image, app="web", **{"pod-template-hash": "x"})},
        status={"replicas": size, "readyReplicas": count, "availableReplicas": count, "observedGeneration": 1},
        annotations={REVISION: str(revision), DESIRED: str(desired if desired is not None else size), MAXIMUM: "9"},
    )
    return found.made(made)


def run(owner: Build, *sets: Build, pods: list[Object] | None = None, seconds: float = 0) -> Plan:
    built = owner.build()
    owned = [found.owned_by(built, "Deployment").build() for found in sets]
    return decide(Snapshot(built, owned, pods or []), at(seconds))


def sizes(plan: Plan) -> dict[str, int]:
    """The new size of every ReplicaSet that the plan scales (a patch without an event only renews annotations)."""
    return {
        action.name: action.body["spec"]["replicas"]
        for action in plan.actions
        if isinstance(action, Patch) and "replicas" in action.body.get("spec", {}) and action.done is not None
    }


def created(plan: Plan) -> dict[str, Any] | None:
    return next((dict(action.body) for action in plan.actions if isinstance(action, Create)), None)


def status(plan: Plan) -> dict[str, Any]:
    return next((a.body["status"] for a in plan.actions if isinstance(a, Patch) and a.subresource == "status"), {})


def events(plan: Plan) -> list[str]:
    found = [a if isinstance(a, Emit) else getattr(a, "done", None) for a in plan.actions]
    return [emit.message for emit in found if emit is not None]


ROLLING_STEPS = {
    "the new one grows by the surge": (10, rolling(3, 0), [("web:1", 10, 10), ("web:2", 0, 0)], {"web-web2": 3}),
    "surge in percent rounds up": (10, rolling("25%", 0), [("web:1", 10, 10), ("web:2", 0, 0)], {"web-web2": 3}),
    "unavailable in percent rounds down": (
        10,
        rolling(0, "25%"),
        [("web:1", 10, 10), ("web:2", 0, 0)],
        {"web-web1": 8},
    ),
    "nothing moves while the surge waits": (10, rolling(3, 0), [("web:1", 10, 10), ("web:2", 3, 0)], {}),
    "each available new pod frees an old one": (
        10,
        rolling(3, 0),
        [("web:1", 10, 10), ("web:2", 3, 2)],
        {"web-web1": 8},
    ),
    "both rounding to nothing means one unavailable": (
        1,
        rolling("0%", "0%"),
        [("web:1", 1, 1), ("web:2", 0, 0)],
        {"web-web1": 0},
    ),
    "old pods that never became available go first": (
        10,
        rolling(2, 0),
        [("web:1", 10, 7), ("web:2", 2, 2)],
        {"web-web1": 8},
    ),
    "the last old pod goes when the new ones stand": (
        2,
        rolling(1, 0),
        [("web:1", 1, 1), ("web:2", 2, 2)],
        {"web-web1": 0},
    ),
    "the new one never passes the wanted size": (3, rolling(3, 3), [("web:1", 0, 0), ("web:2", 2, 2)], {"web-web2": 3}),
}


@pytest.mark.parametrize("case", ROLLING_STEPS.values(), ids=ROLLING_STEPS.keys())
def test_a_rolling_update_moves_by_its_budget(case: Any) -> None:
    replicas, strategy, sets, expected = case
    built = [
        replica_set(image, size, available=available, revision=number, desired=replicas, made=number)
        for number, (image, size, available) in enumerate(sets, 1)
    ]
    assert sizes(run(deployment(replicas, "web:2", strategy=strategy), *built)) == expected


def test_the_first_replica_set_carries_revision_size_and_hash() -> None:
    plan = run(deployment(3).annotated({"kubernetes.io/change-cause": "first"}))
    body = created(plan)
    assert body is not None
    digest = body["metadata"]["labels"]["pod-template-hash"]
    assert body["metadata"]["name"] == f"web-{digest}"
    assert body["spec"]["replicas"] == 3
    assert body["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert body["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    assert body["metadata"]["annotations"] == {
        "kubernetes.io/change-cause": "first",
        REVISION: "1",
        DESIRED: "3",
        MAXIMUM: "4",
    }
    assert f"Scaled up replica set web-{digest} from 0 to 3" in events(plan)
    progressing = condition(status(plan), "Progressing")
    assert progressing is not None
    assert progressing["reason"] == "NewReplicaSetCreated"


def test_the_same_template_always_has_the_same_hash() -> None:
    first, second = created(run(deployment(1))), created(run(deployment(5)))
    assert first is not None
    assert second is not None
    assert first["metadata"]["name"] == second["metadata"]["name"]


def test_a_name_that_somebody_else_has_counts_as_a_collision() -> None:
    body = created(run(deployment(1)))
    assert body is not None
    taken = frozenset([body["metadata"]["name"]])
    plan = decide(Snapshot(deployment(1).build(), (), (), taken), NOW)
    other = created(plan)
    assert other is not None
    assert other["metadata"]["name"] not in taken
    assert status(plan)["collisionCount"] == 1


def test_going_back_gives_the_old_replica_set_the_next_revision() -> None:
    owner = deployment(2, "web:1").annotated({REVISION: "2"})
    plan = run(
        owner,
        replica_set("web:1", 0, revision=1, desired=2, made=-20),
        replica_set("web:2", 2, revision=2, desired=2, made=-10),
    )
    patch = next(a for a in plan.actions if isinstance(a, Patch) and a.name == "web-web1")
    assert patch.body["metadata"]["annotations"][REVISION] == "3"
    assert patch.body["metadata"]["annotations"][REVISION_HISTORY] == "1"
    own = next(a for a in plan.actions if isinstance(a, Patch) and a.name == "web")
    assert own.subresource == "status"
    assert own.body["metadata"]["annotations"] == {REVISION: "3"}
    # One write, and none that an old cache decided: the version goes with it.
    assert own.body["metadata"]["resourceVersion"] == owner.build().metadata.resource_version


def test_recreate_waits_for_the_last_old_pod() -> None:
    owner = deployment(2, "web:2", strategy={"type": "Recreate"})
    old = replica_set("web:1", 2, desired=2)
    assert sizes(run(owner, old)) == {"web-web1": 0}
    gone = replica_set("web:1", 0, desired=2).owned_by(owner.build(), "Deployment").build()
    ending = pod("web-1-a").owned_by(gone, "ReplicaSet").showing(phase="Running").deleting().build()
    waiting = decide(Snapshot(owner.build(), [gone], [ending]), NOW)
    assert created(waiting) is None
    body = created(decide(Snapshot(owner.build(), [gone], []), NOW))
    assert body is not None
    assert body["spec"]["replicas"] == 2


def test_a_paused_deployment_scales_but_rolls_nothing_out() -> None:
    owner = deployment(4, "web:2", paused=True)
    plan = run(owner, replica_set("web:1", 2, desired=2))
    assert created(plan) is None
    assert sizes(plan) == {"web-web1": 4}
    progressing = condition(status(plan), "Progressing")
    assert progressing is not None
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")


def test_scaling_during_a_rollout_is_shared_in_proportion() -> None:
    """The example of the Kubernetes documentation: 10 replicas, surge 3, unavailable 2, then scaled to 15."""
    owner = deployment(15, "web:2", strategy=rolling(3, 2))
    old = replica_set("web:1", 8, desired=10, made=-20).annotated({MAXIMUM: "13"})
    new = replica_set("web:2", 5, available=0, desired=10, revision=2, made=-10).annotated({MAXIMUM: "13"})
    assert sizes(run(owner, old, new)) == {"web-web1": 11, "web-web2": 7}


def test_available_follows_the_pods_that_may_be_missing() -> None:
    owner = deployment(4, strategy=rolling(0, 1))
    short = condition(status(run(owner, replica_set("web:1", 4, available=2))), "Available")
    enough = condition(status(run(owner, replica_set("web:1", 4, available=3))), "Available")
    assert short is not None
    assert enough is not None
    assert (short["status"], short["reason"], short["message"]) == (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )
    assert (enough["status"], enough["reason"], enough["message"]) == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )


def test_a_finished_rollout_says_so_and_keeps_counts() -> None:
    told = status(run(deployment(3), replica_set("web:1", 3)))
    assert {name: told[name] for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")} == {
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert told["terminatingReplicas"] == 0
    assert "unavailableReplicas" not in told
    progressing = condition(told, "Progressing")
    assert progressing is not None
    assert progressing["reason"] == "NewReplicaSetAvailable"
    assert progressing["message"] == 'ReplicaSet "web-web1" has successfully progressed.'


def test_a_rollout_that_does_not_move_times_out_at_its_deadline() -> None:
    stuck = replica_set("web:1", 1, available=0)
    owner = deployment(1, progressDeadlineSeconds=5).showing(replicas=1, updatedReplicas=1, unavailableReplicas=1)
    owner = owner.condition(
        "Progressing", "True", reason="ReplicaSetUpdated", message="", lastUpdateTime="2026-03-01T12:00:00Z"
    )
    before = run(owner, stuck, seconds=4)
    assert before.after is not None
    assert 0.9 <= before.after <= 1.3
    found = condition(status(run(owner, stuck, seconds=6)), "Progressing")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert found["message"] == 'ReplicaSet "web-web1" has timed out progressing.'


def test_history_beyond_the_limit_is_deleted_oldest_first() -> None:
    owner = deployment(1, "web:5", revisionHistoryLimit=2)
    old = [replica_set(f"web:{n}", 0, revision=n, desired=1, made=n) for n in range(1, 5)]
    plan = run(owner, *old, replica_set("web:5", 1, revision=5, made=9))
    assert [a.name for a in plan.actions if isinstance(a, Delete)] == ["web-web1", "web-web2"]


def test_nothing_is_written_when_nothing_changed() -> None:
    owner = deployment(3).annotated({REVISION: "1"})
    settled = replica_set("web:1", 3, desired=3).annotated({MAXIMUM: "4"})
    first = run(owner, settled)
    told = {name: value for name, value in status(first).items() if value is not None}
    assert run(owner.showing(**told), settled, seconds=30).actions == []
