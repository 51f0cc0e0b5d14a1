"""Instances come, break, are repaired and go: scale, pause, restarts, resets, teardown (`docs/spec/omenative.md` 9-11)."""

# ruff: noqa: E501 -- interface texts stand in one piece

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.sim.play import condition, gates, play, settled
from tests.sim.server import Refuse
from tests.sim.world import CHART, Json, World

SURGE_ONE = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}


def kill_pod(world: World, name: str) -> None:
    world.server.delete(("pods", "prod", name), grace=0)


def row(world: World, index: int) -> Json:
    return next(row for row in world.rows() if row.get("index", 0) == index)


@pytest.mark.spec("ON-24")
def test_scaling_up_fills_the_lowest_free_indices_and_down_keeps_the_lowest_ready() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=4)
        await settled(world)
        world.change(replicas=2)
        await settled(world)
        assert world.pod_names() == ["chat-engine-0-default-0", "chat-engine-1-default-0"]
        world.change(replicas=3)
        await settled(world)
        assert [r.get("index", 0) for r in world.rows()] == [0, 1, 2]
        world.change(replicas=0)
        await settled(world)
        assert world.pod_names() == ["chat-engine-0-default-0"]
        assert world.status()["replicas"] == 1

    play(story)


@pytest.mark.spec("ON-24")
def test_scaling_down_prefers_to_keep_ready_instances() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: "Failed" in world.phases())
        world.change(replicas=2)
        await world.until(lambda: len(world.rows()) == 2)
        assert [r.get("index", 0) for r in world.rows()] == [1, 2]

    play(story)


@pytest.mark.spec("ON-24")
def test_scaling_down_keeps_a_failed_instance_that_serves_rather_than_a_new_one_that_never_did() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: "Failed" in world.phases())
        world.change(replicas=2)
        await world.until(lambda: len(world.rows()) == 2)
        world.change(replicas=3)
        await world.until(lambda: world.phases() == ["Failed", "Failed", "Ready"])
        assert world.status()["servingReplicas"] == 2, "Instance 1 on its old pod, and Instance 2"
        world.change(replicas=2)
        await world.until(lambda: len(world.rows()) == 2)
        assert [r.get("index", 0) for r in world.rows()] == [1, 2]
        assert world.status()["servingReplicas"] == 2

    play(story)


@pytest.mark.spec("ON-23")
@pytest.mark.parametrize("mode", ["Recover", "Freeze"])
def test_paused_starts_no_update_and_no_new_instance_but_scales_down_and_lets_creations_finish(mode: str) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await world.run(1)
        world.change(paused=True, pauseMode=mode)
        await world.until(lambda: world.phases() == ["Ready", "Ready"], limit=20)
        names = world.pod_names()
        world.image("sglang:v2")
        world.change(replicas=3)
        await world.run(60)
        assert world.pod_names() == names
        assert world.phases() == ["Ready", "Ready"]
        world.change(replicas=1)
        await world.until(lambda: world.pod_names() == ["chat-engine-0-default-0"], limit=20)
        world.change(paused=None, pauseMode=None)
        await settled(world)
        assert world.pod_names() == ["chat-engine-0-default-1"]

    play(story)


@pytest.mark.spec("ON-23")
def test_a_surge_under_way_stops_before_its_old_pod_drains_while_paused() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:v2")
        await world.until(lambda: len(world.pods()) == 2)
        world.change(paused=True)
        await world.run(60)
        assert gates(world) == {"chat-engine-0-default-0": "True", "chat-engine-0-default-1": "True"}
        world.change(paused=None)
        await settled(world)
        assert world.pod_names() == ["chat-engine-0-default-1"]

    play(story)


@pytest.mark.spec("ON-23")
@pytest.mark.parametrize(("mode", "shown"), [("Recover", "Pending"), ("Freeze", "Ready")])
def test_a_lost_pod_is_made_again_only_after_the_pause(mode: str, shown: str) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.change(paused=True, pauseMode=mode)
        await world.run(2)
        kill_pod(world, "chat-engine-0-default-0")
        await world.run(60)
        assert world.pods() == []
        assert world.phases() == [shown]
        world.change(paused=None, pauseMode=None)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-23")
@pytest.mark.parametrize(("mode", "incarnation"), [("Recover", 2), ("Freeze", 1)])
def test_a_pause_lets_repairs_go_on_and_a_freeze_does_not(mode: str, incarnation: int) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1, lifecycle={**SURGE_ONE, "restartPolicy": "RecreateInstanceOnPodRestart"})
        await settled(world)
        await world.run(5)
        world.change(paused=True, pauseMode=mode)
        await world.run(2)
        world.nodes.crash(world.pods()[0])
        await world.run(60)
        assert row(world, 0)["incarnation"] == incarnation
        assert len(world.events("RestartTriggered")) == incarnation - 1
        assert world.phases() == ["Ready"]
        world.change(paused=None, pauseMode=None)
        await world.until(lambda: row(world, 0)["incarnation"] == 2, limit=20)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-23", "ON-27")
@pytest.mark.parametrize("mode", ["Recover", "Freeze"])
def test_a_reset_is_answered_while_paused_and_its_rebuild_waits(mode: str) -> None:
    async def story(world: World) -> None:
        world.apply(image="sglang:missing", replicas=1)
        await world.until(lambda: "Failed" in world.phases())
        world.change(paused=True, pauseMode=mode)
        await world.run(2)
        world.nodes.pushed.add("missing")
        world.annotate("ome.io/reset-instances", "0")
        await world.until(lambda: "ome.io/reset-instances" not in world.replica()["metadata"]["annotations"], limit=10)
        assert len(world.events("InstancesReset")) == 1
        await world.run(120)
        assert world.pods() == []
        world.change(paused=None, pauseMode=None)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-21")
def test_without_a_restart_policy_only_the_lost_pod_is_replaced() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        kill_pod(world, "chat-engine-1-default-0")
        await world.until(lambda: world.phases()[1] != "Ready")
        await settled(world)
        assert row(world, 1)["incarnation"] == 1
        assert len(world.events("InstanceDemoted")) == 1
        pod = world.server.get("pods", "prod", "chat-engine-0-default-0")
        assert pod is not None
        world.nodes.crash(pod)
        await world.run(30)
        assert row(world, 0)["incarnation"] == 1
        assert world.events("RestartTriggered") == []

    play(story)


@pytest.mark.spec("ON-21")
def test_the_restart_policy_restarts_the_instance_when_its_main_container_does() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle={**SURGE_ONE, "restartPolicy": "RecreateInstanceOnPodRestart"})
        await settled(world)
        pod = world.server.get("pods", "prod", "chat-engine-0-default-0")
        assert pod is not None
        await world.run(5)
        world.nodes.crash(pod)
        await world.until(lambda: row(world, 0)["incarnation"] == 2, limit=20)
        (event,) = world.events("RestartTriggered")
        assert event["message"] == (
            "OMENative component=engine instance=0 restart triggered: pod chat-engine-0-default-0 container ome-container "
            "restarted after Ready: OOMKilled (exit 137) (incarnation=2)"
        )
        assert event["type"] == "Warning"
        await settled(world)
        assert len(world.events("RestartCompleted")) == 1
        assert row(world, 1)["incarnation"] == 1
        kill_pod(world, "chat-engine-1-default-0")
        await world.until(lambda: row(world, 1)["incarnation"] == 2, limit=20)
        await settled(world)

    play(story)


@pytest.mark.spec("ON-22")
def test_a_crash_loop_is_repaired_one_instance_at_a_time() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2, lifecycle=SURGE_ONE)
        await settled(world)
        await world.run(70)
        for name in world.pod_names():
            pod = copy.deepcopy(world.server.get("pods", "prod", name))
            assert pod is not None
            pod["spec"]["containers"][0]["image"] = "sglang:crash"
            world.server.update(("pods", "prod", name), pod)
        await world.until(lambda: "Restarting" in world.phases(), limit=70)
        assert world.phases() == ["Restarting", "Ready"]
        (held,) = world.events("RepairHeld")
        assert "held by Budget" in held["message"]
        await settled(world)
        assert [r["incarnation"] for r in world.rows()] == [2, 2]
        assert all(
            "wedged in CrashLoopBackOff past the stuck-pod grace" in e["message"]
            for e in world.events("RestartTriggered")
        )

    play(story)


@pytest.mark.spec("ON-27")
@pytest.mark.parametrize(
    ("value", "reason", "text"),
    [
        ("1", "InstancesResetSkipped", "reset skipped for instance(s) 1 (Phase=Ready)"),
        ("7", "InstancesResetSkipped", "reset skipped for instance(s) 7 (no such instance)"),
        ("0", "InstancesResetSkipped", "reset skipped for instance(s) 0 (still serving)"),
        (" 1, 7 ,1", "InstancesResetSkipped", "reset skipped for instance(s) 1 (Phase=Ready), 7 (no such instance)"),
        (
            "x",
            "InstancesResetRejected",
            'ome.io/reset-instances="x" rejected: "x" is not a non-negative instance index; nothing reset',
        ),
        (
            "",
            "InstancesResetRejected",
            'ome.io/reset-instances="" rejected: expected "all" or a comma-separated list of instance indices; nothing reset',
        ),
    ],
)
def test_a_reset_says_what_it_did_not_do(value: str, reason: str, text: str) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: "Failed" in world.phases())
        world.annotate("ome.io/reset-instances", value)
        await world.run(3)
        (event,) = world.events(reason)
        assert event["message"] == f"InferenceReplica prod/chat-engine component=engine: {text}"
        assert "ome.io/reset-instances" not in world.replica()["metadata"]["annotations"]

    play(story)


@pytest.mark.spec("ON-27")
def test_a_reset_of_all_finds_nothing_when_nothing_failed() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.annotate("ome.io/reset-instances", "all")
        await world.run(3)
        (event,) = world.events("InstancesResetSkipped")
        assert event["message"].endswith("reset requested for all instances but none is Failed; nothing to reset")

    play(story)


@pytest.mark.spec("ON-27")
def test_a_reset_of_an_update_under_way_is_left_to_the_update() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: world.phases() == ["Updating"])
        world.annotate("ome.io/reset-instances", "0")
        await world.run(3)
        (event,) = world.events("InstancesResetSkipped")
        assert event["message"].endswith("reset skipped for instance(s) 0 (owned by Update)")

    play(story)


@pytest.mark.spec("ON-28")
def test_a_deleted_replica_keeps_its_finalizer_until_its_pods_are_gone() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.server.delete(("inferencereplicas", "prod", "chat-engine"))
        while world.pods():
            assert world.replica()["metadata"]["finalizers"] == ["ome.io/ir-teardown"]
            await world.run(1)
        await world.run(3)
        assert world.server.get("inferencereplicas", "prod", "chat-engine") is None

    play(story)


@pytest.mark.spec("ON-28")
def test_a_teardown_past_its_deadline_lets_go_and_says_so() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        pod = copy.deepcopy(world.pods()[0])
        pod["spec"]["terminationGracePeriodSeconds"] = 3600
        world.server.update(("pods", "prod", pod["metadata"]["name"]), pod)
        world.server.delete(("inferencereplicas", "prod", "chat-engine"))
        await world.run(590)
        assert world.replica()["metadata"]["finalizers"] == ["ome.io/ir-teardown"]
        await world.run(20)
        assert world.server.get("inferencereplicas", "prod", "chat-engine") is None
        (event,) = world.events("TeardownDeadlineExceeded")
        assert event["message"] == (
            'teardown deadline 10m0s exceeded (1 owned pod(s) observed; selector: parent="chat", component="engine"); releasing '
            "finalizer ome.io/ir-teardown to background GC; manual escape: kubectl patch inferencereplica chat-engine -n prod "
            '--type=merge -p \'{"metadata":{"finalizers":null}}\''
        )
        assert event["involvedObject"]["kind"] == "InferenceReplica"

    play(story, lifecycle={**CHART, "teardown": {"deadline": "10m"}})


@pytest.mark.spec("ON-28")
def test_a_teardown_without_a_deadline_says_what_it_waits_for() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        pod = copy.deepcopy(world.pods()[0])
        pod["spec"]["terminationGracePeriodSeconds"] = 600
        world.server.update(("pods", "prod", pod["metadata"]["name"]), pod)
        world.server.delete(("inferencereplicas", "prod", "chat-engine"))
        await world.run(300)
        (event,) = world.events("TeardownBlocked")
        assert event["message"].startswith(
            'teardown blocked: 1 owned pod(s) and 0 owned PodGroup(s) remain (selector: parent="chat", component="engine"); '
            "finalizer ome.io/ir-teardown holds until cleanup completes (no lifecycle.teardown.deadline configured); manual "
            "escape: kubectl patch inferencereplica chat-engine -n prod"
        )

    play(story, lifecycle={key: value for key, value in CHART.items() if key != "teardown"})


@pytest.mark.spec("ON-28")
def test_only_a_pod_on_a_dead_node_is_deleted_by_force() -> None:
    lifecycle = {**CHART, "forceDelete": {"overdueSlack": "30s", "nodeUnreachableThreshold": "60s"}}

    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        stuck = world.server.get("pods", "prod", "chat-engine-1-default-0")
        assert stuck is not None
        node = stuck["spec"]["nodeName"]
        world.nodes.silent.add(stuck["metadata"]["name"])
        world.change(replicas=1)
        await world.run(120)
        assert world.server.get("pods", "prod", "chat-engine-1-default-0") is not None
        assert world.events("PodForceDeleted") == []
        world.server.remove(("nodes", "", node))
        await world.run(10)
        world.annotate("tick", "1")
        await world.run(10)
        assert world.server.get("pods", "prod", "chat-engine-1-default-0") is None
        (event,) = world.events("PodForceDeleted")
        assert "force-deleted stuck-Terminating pod chat-engine-1-default-0" in event["message"]
        assert "(evidence=node-gone, " in event["message"]

    play(story, lifecycle=lifecycle)


@pytest.mark.spec("ON-29")
def test_an_overdue_drain_is_told_once_and_never_fails() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        pod = copy.deepcopy(world.server.get("pods", "prod", "chat-engine-1-default-0"))
        assert pod is not None
        pod["spec"]["terminationGracePeriodSeconds"] = 400
        world.server.update(("pods", "prod", pod["metadata"]["name"]), pod)
        world.change(replicas=1)
        await world.run(120)
        assert condition(world, "DrainOverdue")["status"] == "True"
        assert condition(world, "DrainOverdue")["message"] == "1 Instance(s) draining past their deadline (1)"
        world.annotate("tick", "1")
        await world.run(30)
        (event,) = world.events("DrainOverdue")
        assert event["count"] == 1
        assert event["message"].startswith("OMENative component=engine instance=1: drain overdue by ")
        assert "1 pod(s) still Terminating (chat-engine-1-default-0)" in event["message"]
        assert row(world, 1)["phase"] == "Deleting"
        await settled(world, limit=600)
        assert condition(world, "DrainOverdue")["status"] == "False"

    play(story, lifecycle={**CHART, "instanceReadyTimeout": "60s"})


@pytest.mark.spec("ON-17")
def test_a_quota_parks_the_instance_and_is_announced_once() -> None:
    async def story(world: World) -> None:
        full = True

        def admit(collection: str, obj: dict[str, Any]) -> None:
            if full and collection == "pods" and "-1-default" in obj["metadata"]["name"]:
                raise Refuse(403, "Forbidden", "pods is forbidden: exceeded quota: gpus")

        world.server.admit = admit
        world.apply(replicas=2)
        await world.run(120)
        waiting = row(world, 1)["operation"]
        assert (waiting["waiting"], waiting.get("deadline")) == ("QuotaExceeded", None)
        assert row(world, 1)["phase"] == "Creating"
        assert row(world, 0)["phase"] == "Ready"
        (event,) = world.events("InstanceQuotaBlocked")
        assert event["count"] == 1
        full = False
        await settled(world)

    play(story)


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes'),
        (403, "Forbidden", "maximum cpu usage per Container is 500m, but limit is 1"),
        (400, "BadRequest", 'admission webhook "policy.example.com" denied the request: no'),
    ],
)
def test_a_policy_that_keeps_the_new_pods_out_is_told_on_the_service(code: int, reason: str, words: str) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=3, lifecycle=SURGE_ONE)
        await settled(world)
        denied = True

        def admit(collection: str, obj: dict[str, Any]) -> None:
            known = world.server.get(collection, "prod", obj["metadata"]["name"])
            if denied and collection == "pods" and known is None:
                raise Refuse(code, reason, words)

        world.server.admit = admit
        world.image("sglang:v2")
        await world.run(120)
        assert world.status()["servingReplicas"] == 3
        assert world.blocks() == [], "no revision is to blame for certain"
        (event,) = world.events("InstanceRejected")
        assert (
            event["message"] == f"OMENative component=engine instance=0 pod chat-engine-0-default-1 rejected: {words}"
        )
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "chat")
        assert 2 <= event["count"] < 40, "asked again, and less and less often"
        denied = False
        await settled(world)

    play(story)


def test_a_namespace_that_goes_away_fails_instances_without_a_charge() -> None:
    async def story(world: World) -> None:
        def admit(collection: str, obj: dict[str, Any]) -> None:
            if collection == "pods":
                causes = [{"reason": "NamespaceTerminating"}]
                raise Refuse(403, "Forbidden", "namespace prod is being terminated", causes)

        world.server.admit = admit
        world.apply(replicas=1)
        await world.run(60)
        assert world.blocks() == []
        assert row(world, 0)["lastFailure"]["reason"] == "NamespaceTerminating"
        assert world.server.writes < 60

    play(story)


def test_a_pod_that_ended_for_good_is_recycled() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        pod = copy.deepcopy(world.pods()[0])
        pod["status"]["phase"] = "Failed"
        pod["status"]["reason"] = "Evicted"
        world.nodes.frozen.add(pod["metadata"]["uid"])
        world.server.update(("pods", "prod", pod["metadata"]["name"]), pod)
        await world.until(lambda: bool(world.events("TerminalPodRecycled")), limit=20)
        assert row(world, 0)["lastFailure"]["reason"] == "Evicted"
        await settled(world)

    play(story)


@pytest.mark.spec("ON-30")
@pytest.mark.parametrize("seconds", range(1, 16, 2))
def test_a_manager_that_starts_again_goes_on_where_the_old_one_was(seconds: int) -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        world.image("sglang:v2")
        await world.run(seconds)
        world.stop()
        await world.run(30)
        world.start()
        await settled(world)
        assert sorted(world.pod_names()) == ["chat-engine-0-default-1", "chat-engine-1-default-1"]
        assert world.events("InstanceFailed") == []

    play(story)


def test_a_lost_status_makes_no_second_set_of_pods() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=2)
        await settled(world)
        uids = {pod["metadata"]["uid"] for pod in world.pods()}
        world.stop()
        bare = copy.deepcopy(world.replica())
        del bare["status"]
        world.server.update(("inferencereplicas", "prod", "chat-engine"), bare, status=True)
        world.start()
        await settled(world)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == uids

    play(story)


def test_a_pod_of_somebody_else_under_our_name_is_never_touched() -> None:
    async def story(world: World) -> None:
        spec = {"containers": [{"name": "x", "image": "theirs"}]}
        head = {"name": "chat-engine-0-default-0", "namespace": "prod", "labels": {"ome.io/managed-by": "OMENative"}}
        world.server.create("pods", {"metadata": head, "spec": spec})
        uid = world.server.get("pods", "prod", head["name"])["metadata"]["uid"]  # type: ignore[index]
        world.apply(replicas=2)
        await world.run(120)
        assert world.server.get("pods", "prod", head["name"])["metadata"]["uid"] == uid  # type: ignore[index]
        assert row(world, 1)["phase"] == "Ready"
        assert row(world, 0)["phase"] == "Creating"

    play(story)
