"""A pod's life on a simulated node, second by second."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from ome.local.node.containers import Notice
from ome.local.node.images import ImagePolicy
from ome.local.node.lifecycle import Decision, PodMemory, Sight, decide, recall
from ome.local.node.references import Reference
from ome.local.node.runtime import SimulatedRuntime
from ome.local.objects import Json, Object, condition
from tests.unit.local_workloads.builders import NOW, Build, at, pod


@dataclass
class Player:
    """Plays one pod as the kubelet does, with a clock that is set by hand."""

    build: Build
    denied: list[str] = field(default_factory=list)
    objects: dict[Reference, frozenset[str]] = field(default_factory=dict)
    runtime: SimulatedRuntime = field(default_factory=SimulatedRuntime)
    memory: PodMemory | None = None
    notices: list[Notice] = field(default_factory=list)

    def look(self, seconds: float) -> Decision:
        """Let the kubelet look at this moment; its status becomes the pod's."""
        return asyncio.run(self._look(at(seconds)))

    async def _look(self, now: datetime) -> Decision:
        subject = self.build.build()
        if self.memory is None:
            self.memory = recall(subject, "198.18.1.1", NOW)
        found: dict[Reference, frozenset[str] | None] = {}
        for _ in range(20):
            sight = self._sight(subject, found, now)
            decision = decide(sight)
            self.memory = decision.memory
            self.notices += decision.notices
            if decision.needs:
                found.update({need: self.objects.get(need) for need in decision.needs})
                continue
            for name in decision.stop:
                await self.runtime.stop(subject, self._container(subject, name), 30.0, now)
            for name in decision.start:
                await self.runtime.start(subject, self._container(subject, name), 0, now)
            ends = any(o.exit is None and o.changes_at is None for o in self._sight(subject, found, now).seen.values())
            if not decision.start and not (decision.stop and not ends):
                break
        if decision.status is not None:
            self.build = self.build.showing(**decision.status)
        return decision

    def _sight(self, subject: Object, found: dict[Reference, frozenset[str] | None], now: datetime) -> Sight:
        assert self.memory is not None
        names = [c["name"] for f in ("initContainers", "containers") for c in subject.spec.get(f, ())]
        seen = {name: o for name in names if (o := self.runtime.observe(subject.uid, name, now)) is not None}
        return Sight(subject, self.memory, seen, ImagePolicy(tuple(self.denied)), found, "198.18.0.1", now)

    def _container(self, subject: Object, name: str) -> Json:
        return next(c for f in ("initContainers", "containers") for c in subject.spec.get(f, ()) if c["name"] == name)

    @property
    def status(self) -> Json:
        return self.build.status

    def reason(self) -> str:
        state: dict[str, Any] = self.status["containerStatuses"][0]["state"]
        return str(next(iter(state.values())).get("reason", next(iter(state))))


def simple(**spec: Any) -> Build:
    return pod("p").on("n1").having(containers=[{"name": "main", "image": "web:1"}], **spec)


def annotated(**script: str) -> Build:
    return simple().annotated({f"local.ome.io/{key.replace('_', '-')}": value for key, value in script.items()})


def is_ready(status: Json) -> bool:
    found = condition(status, "Ready")
    return found is not None and found["status"] == "True"


def test_a_plain_pod_runs_and_is_ready_at_once() -> None:
    player = Player(simple())
    player.look(0)
    assert player.status["phase"] == "Running"
    assert is_ready(player.status)
    assert player.status["podIP"] == "198.18.1.1"
    assert [found["type"] for found in player.status["conditions"]] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert all(found["observedGeneration"] == 1 for found in player.status["conditions"])
    assert [notice.reason for notice in player.notices] == ["Pulled", "Created", "Started"]


def test_looking_again_changes_nothing() -> None:
    player = Player(simple())
    player.look(0)
    before = player.status
    player.look(50)
    assert player.status == before


PULLS = [
    (0, "ErrImagePull"),
    (4.9, "ErrImagePull"),
    (5, "ImagePullBackOff"),
    (9.9, "ImagePullBackOff"),
    (10, "ErrImagePull"),
    (15, "ImagePullBackOff"),
    (29, "ImagePullBackOff"),
    (30, "ErrImagePull"),
    (35, "ImagePullBackOff"),
    (69, "ImagePullBackOff"),
    (70, "ErrImagePull"),
]


def test_an_image_that_does_not_exist_is_pulled_with_doubling_back_off() -> None:
    player = Player(simple(), denied=["web:*"])
    for seconds, expected in PULLS:
        player.look(seconds)
        assert (seconds, player.reason()) == (seconds, expected)
        assert player.status["phase"] == "Pending"


def test_the_back_off_ends_at_five_minutes() -> None:
    player = Player(simple(), denied=["web:*"])
    now, waits = 0.0, []
    for _ in range(9):
        player.look(now)
        decision = player.look(now + 6)
        assert decision.wake is not None
        waits.append(round((decision.wake - at(now)).total_seconds()))
        now = (decision.wake - NOW).total_seconds()
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_a_pod_recovers_by_itself_once_its_image_exists() -> None:
    player = Player(simple(), denied=["web:*"])
    player.look(0)
    player.look(6)
    player.denied.clear()
    player.look(7)
    assert player.reason() == "ImagePullBackOff"
    player.look(10)
    assert is_ready(player.status)


def test_another_image_in_the_same_pod_is_pulled_at_once() -> None:
    """The kubelet's wait is for a pod and an image: a mended image does not wait for the broken one's turn."""
    player = Player(simple(), denied=["web:1"])
    player.look(0)
    player.look(30)
    player.look(71)
    player.build = player.build.having(containers=[{"name": "main", "image": "web:2"}])
    player.look(72)
    assert is_ready(player.status)


def test_an_image_name_that_cannot_be_parsed_waits_for_ever() -> None:
    player = Player(pod("p").on("n1").having(containers=[{"name": "main", "image": "Web/UPPER:1"}]))
    decision = player.look(0)
    assert player.reason() == "InvalidImageName"
    assert decision.wake is None
    assert player.status["containerStatuses"][0]["state"]["waiting"]["message"].endswith("must be lowercase")


def from_secret(key: str, *, optional: bool = False) -> list[Json]:
    reference = {"name": "creds", "key": key, **({"optional": True} if optional else {})}
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": reference}}]
    return [{"name": "main", "image": "web:1", "env": env}]


CONFIG_ERRORS = {
    "a secret that is missing": (from_secret("token"), {}, 'secret "creds" not found'),
    "a key that is missing": (
        from_secret("token"),
        {("secret", "creds"): frozenset(["other"])},
        "couldn't find key token in Secret default/creds",
    ),
    "a whole configmap that is missing": (
        [{"name": "main", "image": "web:1", "envFrom": [{"configMapRef": {"name": "settings"}}]}],
        {},
        'configmap "settings" not found',
    ),
}


@pytest.mark.parametrize("case", CONFIG_ERRORS.values(), ids=CONFIG_ERRORS.keys())
def test_what_the_environment_names_must_exist(case: Any) -> None:
    containers, objects, message = case
    player = Player(pod("p").on("n1").having(containers=containers), objects=objects)
    decision = player.look(0)
    waiting = player.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": message}
    assert decision.wake == at(5)
    player.objects = {("secret", "creds"): frozenset(["token"]), ("configmap", "settings"): frozenset()}
    player.look(5)
    assert is_ready(player.status)


def test_an_optional_reference_may_be_missing() -> None:
    player = Player(pod("p").on("n1").having(containers=from_secret("token", optional=True)))
    player.look(0)
    assert is_ready(player.status)


def test_a_volume_from_a_missing_secret_keeps_the_pod_from_starting() -> None:
    player = Player(simple(volumes=[{"name": "v", "secret": {"secretName": "creds"}}]))
    player.look(0)
    assert player.reason() == "ContainerCreating"
    assert "podIP" not in player.status
    assert player.notices[0].message == 'MountVolume.SetUp failed for volume "v" : secret "creds" not found'
    player.objects = {("secret", "creds"): frozenset()}
    player.look(5)
    assert is_ready(player.status)


def test_ready_after_and_never_ready() -> None:
    late = Player(annotated(ready_after="30s"))
    assert late.look(0).wake == at(30)
    assert not is_ready(late.status)
    late.look(30)
    assert is_ready(late.status)
    never = Player(annotated(never_ready="true"))
    assert never.look(1000).wake is None
    found = condition(never.status, "Ready")
    assert found is not None
    assert found["message"] == "containers with unready status: [main]"


def test_a_probe_delays_a_simulated_pod_by_no_more_than_a_second() -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 120}
    player = Player(pod("p").on("n1").having(containers=[{"name": "main", "image": "web:1", "readinessProbe": probe}]))
    assert player.look(0).wake == at(1)
    player.look(1)
    assert is_ready(player.status)


def test_a_crash_loop_restarts_at_once_then_backs_off() -> None:
    player = Player(annotated(crash_after="1s", exit_code="3"))
    player.look(0)
    player.look(1)
    assert player.status["containerStatuses"][0]["restartCount"] == 1
    assert player.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
    player.look(2)
    assert player.reason() == "CrashLoopBackOff"
    waiting = player.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == "back-off 10s restarting failed container=main pod=p_default(uid-Pod-p)"
    player.look(11.9)
    assert player.status["containerStatuses"][0]["restartCount"] == 1
    player.look(12)
    assert player.status["containerStatuses"][0]["restartCount"] == 2
    decision = player.look(13)
    assert decision.wake == at(33)
    assert player.status["phase"] == "Running"


def test_memory_runs_out() -> None:
    player = Player(annotated(oom_after="2s"))
    player.look(0)
    player.look(2)
    last = player.status["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)


ENDS = {
    "restartPolicy Never, exit 0": ("Never", "0", "Succeeded"),
    "restartPolicy Never, exit 1": ("Never", "1", "Failed"),
    "restartPolicy OnFailure, exit 0": ("OnFailure", "0", "Succeeded"),
    "restartPolicy OnFailure, exit 1": ("OnFailure", "1", "Running"),
    "restartPolicy Always, exit 0": ("Always", "0", "Running"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_the_phase_follows_the_restart_policy(case: tuple[str, str, str]) -> None:
    policy, code, phase = case
    player = Player(annotated(crash_after="1s", exit_code=code).having(restartPolicy=policy))
    player.look(0)
    player.look(1)
    player.look(2)
    assert player.status["phase"] == phase


def test_a_jobs_pod_succeeds_at_once() -> None:
    job = Build("j", "Job").build()
    player = Player(simple(restartPolicy="Never").owned_by(job, "Job"))
    player.look(0)
    assert player.status["phase"] == "Succeeded"
    assert player.reason() == "Completed"


def test_init_containers_run_in_order_before_the_main_ones() -> None:
    spec = [{"name": "first", "image": "i:1"}, {"name": "second", "image": "gone:1"}]
    player = Player(simple(initContainers=spec), denied=["gone:*"])
    player.look(0)
    states = [next(iter(found["state"])) for found in player.status["initContainerStatuses"]]
    assert states == ["terminated", "waiting"]
    assert player.reason() == "PodInitializing"
    found = condition(player.status, "Initialized")
    assert found is not None
    assert (found["status"], found["message"]) == ("False", "containers with incomplete status: [second]")
    player.denied.clear()
    player.look(10)
    assert is_ready(player.status)


def test_a_readiness_gate_keeps_the_pod_out_until_somebody_opens_it() -> None:
    player = Player(simple(readinessGates=[{"conditionType": "ome.io/serving"}]))
    player.look(0)
    ready, containers = condition(player.status, "Ready"), condition(player.status, "ContainersReady")
    assert ready is not None
    assert containers is not None
    assert containers["status"] == "True"
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "ome.io/serving" does not exist.',
    )
    player.build = player.build.condition("ome.io/serving", "True")
    player.look(1)
    assert is_ready(player.status)
    assert condition(player.status, "ome.io/serving") is not None


def test_a_changed_image_restarts_the_container_in_place() -> None:
    player = Player(simple())
    player.look(0)
    player.build = player.build.having(containers=[{"name": "main", "image": "web:2"}])
    player.look(5)
    (found,) = player.status["containerStatuses"]
    assert (found["image"], found["restartCount"]) == ("web:2", 1)
    assert found["lastState"]["terminated"]["exitCode"] == 0
    assert any(notice.reason == "Killing" for notice in player.notices)
    assert is_ready(player.status)


def test_a_deleted_pod_ends_and_is_removed() -> None:
    player = Player(simple())
    player.look(0)
    player.build = player.build.deleting()
    decision = player.look(1)
    assert decision.remove
    assert decision.status is None


def test_a_finalizer_gets_to_see_how_the_pod_ended() -> None:
    player = Player(simple().finalized("example.com/hold"))
    player.look(0)
    player.build = player.build.deleting()
    decision = player.look(1)
    assert decision.remove
    assert player.status["phase"] == "Succeeded"


def test_a_pre_stop_sleep_is_waited_for() -> None:
    hook = {"preStop": {"sleep": {"seconds": 7}}}
    player = Player(pod("p").on("n1").having(containers=[{"name": "main", "image": "web:1", "lifecycle": hook}]))
    player.look(0)
    player.build = player.build.deleting()
    waiting = player.look(1)
    assert (waiting.remove, waiting.wake) == (False, at(8))
    assert player.look(8).remove


def test_a_deadline_fails_the_pod() -> None:
    player = Player(simple(activeDeadlineSeconds=10))
    assert player.look(0).wake == at(10)
    player.look(10)
    assert (player.status["phase"], player.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_new_stand_in_takes_over_what_the_old_one_ran() -> None:
    before = Player(simple())
    before.look(0)
    after = Player(before.build)
    after.runtime.adopt(after.build.build())
    after.look(100)
    assert after.status == before.status
    assert after.notices == []
