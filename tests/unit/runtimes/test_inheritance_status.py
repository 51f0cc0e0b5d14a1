"""What the inheritance controller decides to write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ome.api.meta import Condition, ObjectMeta
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntimeStatus
from ome.runtimes.inheritance_status import StatusPlan, plan_status
from ome.runtimes.reading import RuntimeSnapshot
from tests.unit.runtimes.builders import runtime

NOW = datetime(2026, 9, 1, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)


def stored(parent: str = "", status: ServingRuntimeStatus | None = None) -> ClusterServingRuntime:
    annotations = {"ome.io/inherit-from": parent} if parent else {}
    return ClusterServingRuntime(
        metadata=ObjectMeta(name="leaf", annotations=annotations), status=status or ServingRuntimeStatus()
    )


def condition(plan: StatusPlan) -> Condition:
    assert plan.status is not None
    return next(item for item in plan.status.conditions if item.type == "InheritanceReady")


WITH_PARENT = RuntimeSnapshot([runtime("root")])


def test_a_runtime_without_parent_is_its_own_chain() -> None:
    plan = plan_status(stored(), RuntimeSnapshot(), NOW)
    assert plan.status is not None
    assert plan.status.inheritance_chain == ("leaf",)
    assert (condition(plan).status, condition(plan).reason) == ("True", "Resolved")
    assert plan.broken is None


def test_a_status_that_stands_is_not_written_again() -> None:
    first = plan_status(stored("root"), WITH_PARENT, NOW)
    again = plan_status(stored("root", first.status), WITH_PARENT, NOW + timedelta(hours=1))
    assert again == StatusPlan(None)


def test_a_break_keeps_the_chain_and_tells_once() -> None:
    first = plan_status(stored("root"), WITH_PARENT, EARLIER)
    broken = plan_status(stored("root", first.status), RuntimeSnapshot(), NOW)
    assert broken.status is not None
    assert broken.status.inheritance_chain == ("root", "leaf")
    assert (condition(broken).status, condition(broken).reason) == ("False", "ParentNotFound")
    assert condition(broken).last_transition_time == NOW
    assert str(broken.broken) == 'inherit-from parent "root" not found (chain so far: [leaf])'
    assert plan_status(stored("root", broken.status), RuntimeSnapshot(), NOW) == StatusPlan(None)


def test_another_reason_of_the_same_status_keeps_the_transition_time() -> None:
    first = plan_status(stored("root"), RuntimeSnapshot(), EARLIER)
    cycle = RuntimeSnapshot([runtime("root", parent="leaf"), runtime("leaf", parent="root")])
    changed = plan_status(stored("root", first.status), cycle, NOW)
    assert condition(changed).reason == "InheritanceCycle"
    assert condition(changed).last_transition_time == EARLIER


def test_conditions_of_others_stay() -> None:
    foreign = Condition(type="Other", status="True", reason="R", last_transition_time=EARLIER)
    plan = plan_status(stored(status=ServingRuntimeStatus(conditions=(foreign,))), RuntimeSnapshot(), NOW)
    assert plan.status is not None
    assert plan.status.conditions[0] == foreign
