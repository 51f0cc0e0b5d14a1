"""StatefulSets, DaemonSets, Jobs and CronJobs: what one pass decides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ome.api.meta import ObjectMeta
from ome.local.objects import Object, RevisionObject
from ome.local.plan import Create, Delete, Patch, Plan
from ome.local.workloads import cron_jobs, daemon_sets, jobs, stateful_sets
from ome.local.workloads.templates import template_hash
from tests.unit.local_workloads.builders import NOW, Build, at, pod, template


def made(plan: Plan, kind: str = "Pod") -> list[str]:
    found = [action.body for action in plan.actions if isinstance(action, Create) and action.body["kind"] == kind]
    return [body["metadata"].get("name") or body["metadata"]["generateName"] for body in found]


def gone(plan: Plan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Delete)]


def told(plan: Plan) -> dict[str, Any]:
    return next((a.body["status"] for a in plan.actions if isinstance(a, Patch) and a.subresource == "status"), {})


# -- StatefulSet -------------------------------------------------------------------------------------------------------


def stateful_set(replicas: int, image: str = "web:1", **spec: Any) -> Build:
    return Build(
        "db", "StatefulSet", spec={"replicas": replicas, "template": template(image), "serviceName": "db", **spec}
    )


def member(ordinal: int, image: str = "web:1", *, ready: bool = True) -> Build:
    found = pod(f"db-{ordinal}", app="web", **{"controller-revision-hash": f"db-{template_hash(template(image))}"})
    return found.ready() if ready else found.unready()


def step(owner: Build, *pods: Build) -> Plan:
    return stateful_sets.decide(stateful_sets.Snapshot(owner.build(), [found.build() for found in pods], []), NOW)


def test_a_stateful_set_starts_one_pod_after_another() -> None:
    assert made(step(stateful_set(3))) == ["db-0"]
    assert made(step(stateful_set(3), member(0, ready=False))) == []
    assert made(step(stateful_set(3), member(0))) == ["db-1"]


def test_parallel_management_starts_all_at_once() -> None:
    assert made(step(stateful_set(3, podManagementPolicy="Parallel"))) == ["db-0", "db-1", "db-2"]


def test_scaling_down_takes_the_highest_ordinal() -> None:
    assert gone(step(stateful_set(1), member(0), member(1), member(2))) == ["db-2"]


def test_an_update_goes_from_the_highest_ordinal_to_the_partition() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    owner = stateful_set(3, "web:2", updateStrategy=strategy)
    assert gone(step(owner, member(0), member(1), member(2))) == ["db-2"]
    assert gone(step(owner, member(0), member(1), member(2, "web:2", ready=False))) == []
    assert gone(step(owner, member(0), member(1), member(2, "web:2"))) == ["db-1"]
    assert gone(step(owner, member(0), member(1, "web:2"), member(2, "web:2"))) == []


def test_a_claim_is_made_for_each_ordinal() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    plan = step(stateful_set(1, volumeClaimTemplates=[claim]))
    assert made(plan, "PersistentVolumeClaim") == ["data-db-0"]
    body = next(a.body for a in plan.actions if isinstance(a, Create) and a.body["kind"] == "Pod")
    assert body["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    assert body["spec"]["hostname"] == "db-0"
    assert body["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


# -- DaemonSet ---------------------------------------------------------------------------------------------------------


def node(name: str, **spec: Any) -> Object:
    return Build(name, "Node", "", labels={"kubernetes.io/hostname": name}, spec=spec).build()


def daemon_set(image: str = "web:1", **spec: Any) -> Build:
    return Build("agent", "DaemonSet", spec={"template": template(image), **spec})


def daemon(node_name: str, image: str = "web:1", *, ready: bool = True) -> Build:
    found = pod(f"agent-{node_name}", app="web", **{"controller-revision-hash": template_hash(template(image))})
    found = found.on(node_name)
    return found.ready() if ready else found.unready()


def daemons(owner: Build, nodes: list[Object], *pods: Build) -> Plan:
    known = RevisionObject(metadata=ObjectMeta(name=f"agent-{template_hash(owner.spec['template'])}"), revision=1)
    return daemon_sets.decide(
        daemon_sets.Snapshot(owner.build(), [found.build() for found in pods], nodes, [known]), NOW
    )


def test_every_node_gets_one_daemon_pinned_by_name() -> None:
    plan = daemons(daemon_set(), [node("n1"), node("n2")], daemon("n1"))
    (body,) = [action.body for action in plan.actions if isinstance(action, Create)]
    terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n2"]


def test_a_daemon_runs_on_a_cordoned_node_but_not_beside_a_foreign_taint() -> None:
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    plan = daemons(daemon_set(), [node("n1", unschedulable=True), node("n2", taints=[taint])])
    assert told(plan)["desiredNumberScheduled"] == 1
    assert len(made(plan)) == 1


def test_an_update_takes_one_daemon_at_a_time() -> None:
    nodes = [node("n1"), node("n2")]
    assert gone(daemons(daemon_set("web:2"), nodes, daemon("n1"), daemon("n2"))) == ["agent-n1"]
    assert gone(daemons(daemon_set("web:2"), nodes, daemon("n1", "web:2", ready=False), daemon("n2"))) == []


# -- Job ---------------------------------------------------------------------------------------------------------------


def job(**spec: Any) -> Build:
    return Build(
        "j", "Job", spec={"completions": 1, "parallelism": 1, "backoffLimit": 6, "template": template(), **spec}
    )


def worker(name: str, phase: str, *, tracked: bool = True) -> Build:
    found = pod(name).showing(phase=phase)
    return found.finalized(jobs.TRACKING) if tracked else found


def work(owner: Build, *pods: Build, seconds: float = 0) -> Plan:
    return jobs.decide(jobs.Snapshot(owner.build(), [found.build() for found in pods]), at(seconds))


def test_a_job_keeps_as_many_pods_as_it_needs() -> None:
    assert len(made(work(job(completions=5, parallelism=2)))) == 2
    assert len(made(work(job(completions=5, parallelism=2), worker("a", "Running")))) == 1
    assert len(made(work(job(completions=5, parallelism=9).showing(succeeded=4)))) == 1


def test_an_ended_pod_is_noted_then_released_then_counted() -> None:
    first = work(job(), worker("a", "Succeeded"))
    assert told(first)["uncountedTerminatedPods"] == {"succeeded": ["uid-Pod-a"]}
    assert "succeeded" not in told(first)
    noted = job().showing(**told(first))
    second = work(noted, worker("a", "Succeeded"))
    release = next(a for a in second.actions if isinstance(a, Patch) and a.name == "a")
    assert release.body["metadata"]["finalizers"] is None
    third = work(noted, worker("a", "Succeeded", tracked=False))
    assert told(third)["succeeded"] == 1
    assert [(c["type"], c["reason"]) for c in told(third)["conditions"]] == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]


def test_too_many_failures_fail_the_job() -> None:
    told_ = told(work(job(backoffLimit=1).showing(failed=2, startTime="2026-03-01T12:00:00Z")))
    assert [(c["type"], c["reason"]) for c in told_["conditions"]] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


def test_a_job_that_is_late_is_failed_and_its_pods_deleted() -> None:
    owner = job(activeDeadlineSeconds=5).showing(startTime="2026-03-01T12:00:00Z")
    assert work(owner, worker("a", "Running"), seconds=4).after == 1
    late = work(owner, worker("a", "Running"), seconds=5)
    assert gone(late) == ["a"]
    assert [c["type"] for c in told(late)["conditions"]] == ["FailureTarget"]


def test_a_suspended_job_has_no_pods_and_no_start_time() -> None:
    plan = work(job(suspend=True).showing(startTime="2026-03-01T12:00:00Z"), worker("a", "Running"))
    assert gone(plan) == ["a"]
    assert told(plan)["startTime"] is None
    assert told(plan)["conditions"][0]["reason"] == "JobSuspended"


def test_indexes_are_given_once_each() -> None:
    owner = job(completions=3, parallelism=3, completionMode="Indexed").showing(completedIndexes="1")
    busy = worker("a", "Running").annotated({jobs.INDEX: "0"})
    plan = work(owner, busy)
    assert made(plan) == ["j-2-"]


def test_a_finished_job_is_swept_after_its_time_to_live() -> None:
    done = job(ttlSecondsAfterFinished=10).condition("Complete", "True")
    assert work(done, seconds=4).after == 6
    assert gone(work(done, seconds=10)) == ["j"]


# -- CronJob -----------------------------------------------------------------------------------------------------------

TIMES = {
    "every minute": ("* * * * *", "2026-03-01T12:01"),
    "a step": ("*/15 * * * *", "2026-03-01T12:15"),
    "a daily hour": ("30 4 * * *", "2026-03-02T04:30"),
    "a weekday by name": ("0 9 * * mon", "2026-03-02T09:00"),
    "sunday as 7": ("0 9 * * 7", "2026-03-08T09:00"),
    "day or weekday when both are named": ("0 0 15 * fri", "2026-03-06T00:00"),
    "the next year": ("0 0 1 1 *", "2027-01-01T00:00"),
    "a macro": ("@monthly", "2026-04-01T00:00"),
    "a range with a step": ("0 8-18/5 * * *", "2026-03-01T13:00"),
}


@pytest.mark.parametrize("case", TIMES.values(), ids=TIMES.keys())
def test_the_next_time_of_a_schedule(case: tuple[str, str]) -> None:
    text, expected = case
    found = cron_jobs.Schedule.parse(text).after(NOW)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_cron_job_makes_the_job_that_is_due() -> None:
    cron = Build("tick", "CronJob", spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template()}}})
    early = cron_jobs.decide(cron_jobs.Snapshot(cron.build(), []), at(60))
    assert made(early, "Job") == []
    assert early.after is not None
    assert 239 <= early.after <= 241
    due = cron_jobs.decide(cron_jobs.Snapshot(cron.build(), []), at(301))
    assert made(due, "Job") == [f"tick-{int(at(300).timestamp()) // 60}"]
    assert told(due)["lastScheduleTime"] == "2026-03-01T12:05:00Z"


def test_forbid_and_replace_look_at_what_still_runs() -> None:
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template()}}}
    running = Build("tick-1", "Job").build()
    for policy, jobs_made, jobs_gone in (("Forbid", 0, []), ("Replace", 1, ["tick-1"]), ("Allow", 1, [])):
        cron = Build("tick", "CronJob", spec={**spec, "concurrencyPolicy": policy})
        plan = cron_jobs.decide(cron_jobs.Snapshot(cron.build(), [running]), at(301))
        assert (len(made(plan, "Job")), gone(plan)) == (jobs_made, jobs_gone)
