"""One pass, decided: snapshots in, plans out. What needs no cluster to be seen (`docs/spec/omenative.md` section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ome.api.core import ContainerState, ContainerStatus, ControllerRevision, SchedulingGate, StateWaiting
from ome.api.meta import ObjectMeta, OwnerReference
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaStatus, InstanceStatus, RetryBlock
from ome.omenative.actions import CreatePod, DeletePod, Plan
from ome.omenative.names import FINALIZER
from ome.omenative.observe import Member, Refusal, Refused, Snapshot
from ome.omenative.planner import plan
from ome.omenative.settings import Settings, parse_settings

from .builders import NOW, at, block, member, row, updating

OLD, NEW, NEWER = "chat-engine-aaaaaaaa", "chat-engine-bbbbbbbb", "chat-engine-cccccccc"
CHART = parse_settings(
    {
        "instanceReadyTimeout": "30m",
        "stuckPodGracePeriod": "60s",
        "updateRetry": {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0},
    }
)
SPEC: dict[str, Any] = {
    "component": "engine",
    "parentRef": {"name": "chat"},
    "replicas": 1,
    "lifecycle": {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}},
}


def revision(name: str, number: int) -> ControllerRevision:
    data = {"podSpec": {"containers": [{"name": "ome-container", "image": name}]}}
    return ControllerRevision(
        metadata=ObjectMeta(name=name, namespace="prod", uid=name),
        revision=number,
        data=msgspec.Raw(msgspec.json.encode(data)),
    )


def snapshot(
    rows: list[InstanceStatus],
    pods: list[Member],
    *,
    update: str = NEW,
    blocks: tuple[RetryBlock, ...] = (),
    annotations: dict[str, str] | None = None,
    refusals: dict[str, Refusal] | None = None,
    **spec: Any,
) -> Snapshot:
    owner = OwnerReference(api_version="ome.io/v1beta1", kind="InferenceService", name="chat", uid="u", controller=True)
    metadata = ObjectMeta(
        name="chat-engine",
        namespace="prod",
        uid="replica",
        generation=2,
        finalizers=(FINALIZER,),
        owner_references=(owner,),
        annotations=annotations or {},
    )
    status = InferenceReplicaStatus(
        current_revision=OLD, update_revision=update, instance_statuses=tuple(rows), retry_blocks=blocks
    )
    wanted = msgspec.convert({**SPEC, **spec}, type(InferenceReplica().spec))
    return Snapshot(
        replica=InferenceReplica(metadata=metadata, spec=wanted, status=status),
        pods=tuple(found.pod for found in pods),
        revisions=tuple(revision(name, n) for n, name in enumerate((OLD, NEW, NEWER), start=1)),
        update_revision=update,
        refusals=refusals or {},
    )


def decide(found: Snapshot, settings: Settings = CHART, now: Any = NOW) -> Plan:
    return plan(found, settings, now)


def created(decided: Plan) -> list[str]:
    return [action.name for action in decided.actions if isinstance(action, CreatePod)]


def deleted(decided: Plan) -> list[str]:
    return [action.name for action in decided.actions if isinstance(action, DeletePod)]


def owned_by(rows: Sequence[InstanceStatus], found: Member) -> Member:
    """The pod as the only operation of these rows made it."""
    (operation,) = [row.operation.id for row in rows if row.operation is not None]
    annotations = {"internal.ome.io/operation": operation}
    return Member(replace(found.pod, metadata=replace(found.pod.metadata, annotations=annotations)))


RAN = row(0, running_revision=OLD, target_revision=OLD)
OLD_POD = member("chat-engine-0-default-0", ContainersReady=True, Ready=True, gate=True)


def test_an_operation_is_recorded_in_the_plan_that_creates_its_pod() -> None:
    decided = decide(snapshot([RAN], [OLD_POD]))
    (changed,) = decided.status.instance_statuses
    assert changed.operation is not None
    assert (changed.operation.step, changed.operation.target_revision) == ("Surge", NEW)
    assert created(decided) == ["chat-engine-0-default-1"]
    (action,) = [a for a in decided.actions if isinstance(a, CreatePod)]
    assert action.operation == changed.operation.id


@pytest.mark.spec("RB-16", "RB-17")
@pytest.mark.parametrize(
    ("other", "starts"), [(row(1, running_revision=OLD), True), (updating(1, "Surge", NEW), False)]
)
def test_a_retry_starts_unless_another_is_in_flight(other: InstanceStatus, starts: bool) -> None:
    retrying = block(NEW, "RetryInProgress", last_failure_at=at(-9), first_failure_at=at(-9))
    lifecycle = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 3}}}
    pods = [OLD_POD, member("chat-engine-1-default-0", ContainersReady=True, Ready=True, gate=True)]
    decided = decide(snapshot([RAN, other], pods, blocks=(retrying,), replicas=2, lifecycle=lifecycle))
    assert ("chat-engine-0-default-1" in created(decided)) is starts


@pytest.mark.spec("RB-22")
def test_a_block_stays_while_an_operation_targets_its_revision() -> None:
    drained = replace(updating(0, "SurgeDrain", NEW), running_revision=OLD)
    kept = block(NEW, "RetryInProgress", last_failure_at=at(-9), first_failure_at=at(-9))
    pods = [
        OLD_POD,
        member("chat-engine-0-default-1", revision="bbbbbbbb", ContainersReady=True, Ready=True, gate=True),
    ]
    assert decide(snapshot([drained], pods, update=NEWER, blocks=(kept,))).status.retry_blocks == (kept,)
    assert decide(snapshot([RAN], [OLD_POD], update=NEWER, blocks=(kept,))).status.retry_blocks == ()


def test_a_superseded_block_is_not_pruned_while_paused() -> None:
    kept = block(NEW, "Held", 3, last_failure_at=at(-9), first_failure_at=at(-9))
    decided = decide(snapshot([RAN], [OLD_POD], update=NEWER, blocks=(kept,), paused=True))
    assert decided.status.retry_blocks == (kept,)


@pytest.mark.spec("RB-31")
def test_a_release_removes_only_the_block_it_names() -> None:
    blocks = (block(NEW, "Held", 3), block(NEWER, "Held", 3))
    request = {"ome.io/release-held-revision": "bbbbbbbb"}
    decided = decide(snapshot([RAN], [OLD_POD], blocks=blocks, annotations=request))
    assert decided.status.retry_blocks == (blocks[1],)
    assert decided.again
    assert created(decided) == []


@pytest.mark.spec("RB-44", "RB-8")
@pytest.mark.parametrize("kind", [Refused.INVALID, Refused.NAMESPACE, Refused.QUOTA])
def test_a_refused_pod_is_judged_on_the_next_look(kind: Refused) -> None:
    started = decide(snapshot([RAN], [OLD_POD])).status.instance_statuses
    refused = {"chat-engine-0-default-1": Refusal(kind, "no")}
    decided = decide(snapshot(list(started), [OLD_POD], refusals=refused))
    (changed,) = decided.status.instance_statuses
    assert created(decided) == []
    if kind is Refused.QUOTA:
        assert changed.operation is not None
        assert (changed.operation.waiting, changed.operation.deadline) == ("QuotaExceeded", None)
        assert decided.blocks is None
        return
    assert changed.phase == "Failed"
    assert (decided.blocks is not None) == (kind is Refused.INVALID)


@pytest.mark.spec("RB-8")
@pytest.mark.parametrize("where", ["container_statuses", "init_container_statuses"])
@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"]
)
def test_a_container_or_init_container_that_waits_in_a_counting_reason_charges(reason: str, where: str) -> None:
    started = decide(snapshot([RAN], [OLD_POD])).status.instance_statuses
    made = owned_by(started, member("chat-engine-0-default-1", revision="bbbbbbbb", ContainersReady=False)).pod
    waiting = ContainerStatus(name="c", state=ContainerState(waiting=StateWaiting(reason=reason)))
    stuck = Member(replace(made, status=replace(made.status, **{where: (waiting,)})))
    assert decide(snapshot(list(started), [OLD_POD, stuck]), now=at(59)).blocks is None
    decided = decide(snapshot(list(started), [OLD_POD, stuck]), now=at(60))
    assert decided.blocks is not None
    (charged,) = decided.blocks
    assert (charged.target_revision, charged.attempts_started, charged.reason) == (NEW, 1, reason)


@pytest.mark.spec("ON-17")
def test_a_scheduling_gate_parks_the_deadline_and_its_end_grants_a_full_window() -> None:
    started = decide(snapshot([RAN], [OLD_POD])).status.instance_statuses
    made = owned_by(started, member("chat-engine-0-default-1", revision="bbbbbbbb", ContainersReady=False))
    gated = Member(replace(made.pod, spec=replace(made.pod.spec, scheduling_gates=(SchedulingGate(name="queue"),))))
    parked = decide(snapshot(list(started), [OLD_POD, gated]), now=at(7200)).status.instance_statuses
    (shown,) = parked
    assert shown.operation is not None
    assert (shown.phase, shown.operation.deadline, shown.operation.waiting) == ("Updating", None, "")
    (again,) = decide(snapshot(list(parked), [OLD_POD, made]), now=at(7200)).status.instance_statuses
    assert again.operation is not None
    assert again.operation.deadline == at(7200 + 1800)


@pytest.mark.spec("RB-36")
def test_a_leftover_of_another_revision_is_evicted_and_charges_nobody() -> None:
    started = decide(snapshot([RAN], [OLD_POD], update=NEWER)).status.instance_statuses
    leftover = member("chat-engine-0-default-1", revision="bbbbbbbb", ContainersReady=False)
    decided = decide(snapshot(list(started), [OLD_POD, leftover], update=NEWER), now=at(300))
    assert deleted(decided) == ["chat-engine-0-default-1"]
    assert decided.status.retry_blocks == ()
    assert decided.status.instance_statuses[0].phase == "Updating"


def test_the_same_observation_gives_the_same_plan() -> None:
    found = snapshot([RAN], [OLD_POD])
    assert decide(found) == decide(found)


def test_what_is_decided_twice_changes_nothing_the_second_time() -> None:
    settled = snapshot([RAN], [OLD_POD], update=OLD)
    first = decide(settled)
    again = decide(replace_status(settled, first.status))
    assert again.status == first.status
    assert again.notices == ()
    assert [type(action).__name__ for action in again.actions] == [type(action).__name__ for action in first.actions]


def replace_status(found: Snapshot, status: InferenceReplicaStatus) -> Snapshot:
    from dataclasses import replace as with_fields

    return with_fields(found, replica=replace(found.replica, status=status))


def test_an_operation_that_fails_in_a_pass_creates_nothing_in_it() -> None:
    started = decide(snapshot([RAN], [OLD_POD])).status.instance_statuses
    late = decide(snapshot(list(started), [OLD_POD]), now=at(1801))
    assert late.status.instance_statuses[0].phase == "Failed"
    assert created(late) == []


@pytest.mark.parametrize(
    ("running", "phase", "state", "made"),
    [
        (NEW, "Pending", "Held", ["chat-engine-0-default-0"]),
        (NEW, "Pending", "Backoff", []),
        ("", "Pending", "Held", []),
        ("", "Creating", "Held", []),
        ("", "Failed", "Held", []),
    ],
)
def test_a_lost_pod_of_a_revision_that_ran_is_made_anew_though_the_revision_is_held(
    running: str, phase: str, state: str, made: list[str]
) -> None:
    """A registry was out of order while an Instance was added: that holds the revision on which all others run."""
    kept = block(NEW, state, 3, next_retry_at=at(60) if state == "Backoff" else None)
    decided = decide(snapshot([row(0, phase, running_revision=running)], [], blocks=(kept,)))
    assert created(decided) == made
    assert decided.status.retry_blocks == (kept,)
