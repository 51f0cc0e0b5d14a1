"""modelStatus from pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ome.api.core import ContainerState, ContainerStatus, Pod, PodStatus, StateRunning, StateTerminated, StateWaiting
from ome.api.meta import Condition, ObjectMeta
from ome.services.model_status import model_status

RUNNING = ContainerState(running=StateRunning())
DIED = StateTerminated(exit_code=137, reason="OOMKilled", finished_at=datetime(2026, 1, 2, tzinfo=UTC))


def pod(name: str, state: ContainerState | None = None, *, ready: bool = False, last: Any = None) -> Pod:
    container = ContainerStatus(
        name="ome-container", state=state or ContainerState(), last_state=last or ContainerState()
    )
    conditions = (Condition(type="Ready", status="True"),) if ready else ()
    statuses = (ContainerStatus(name="sidecar", state=RUNNING), container) if state is not None else ()
    return Pod(metadata=ObjectMeta(name=name), status=PodStatus(conditions=conditions, container_statuses=statuses))


CASES: dict[str, tuple[list[Pod], bool, tuple[str, str, str, int, int]]] = {
    "no pod yet": ([], False, ("InProgress", "Pending", "Pending", 0, 0)),
    "a pod that does not run": ([pod("a")], False, ("InProgress", "Pending", "Pending", 0, 1)),
    "a pod that loads": ([pod("a", RUNNING)], False, ("InProgress", "Pending", "Loading", 0, 1)),
    "a Ready service": ([pod("a", RUNNING, ready=True)], True, ("UpToDate", "Loaded", "Loaded", 0, 1)),
    "one of two crashed": (
        [pod("a", RUNNING, ready=True), pod("b", ContainerState(terminated=DIED))],
        True,
        ("BlockedByFailedLoad", "Loaded", "FailedToLoad", 1, 2),
    ),
    "a clean end is no failure": (
        [pod("a", ContainerState(terminated=StateTerminated(exit_code=0)))],
        False,
        ("InProgress", "Pending", "Pending", 0, 1),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_transitions(sentence: str) -> None:
    pods, ready, expected = CASES[sentence]
    status = model_status(pods, ready=ready)
    states, copies = status["modelRevisionStates"], status["modelCopies"]
    assert (
        status["transitionStatus"],
        states["activeModelState"],
        states["targetModelState"],
        copies["failedCopies"],
        copies["totalCopies"],
    ) == expected


def test_the_last_failure_tells_pod_code_and_reason() -> None:
    looping = ContainerState(waiting=StateWaiting(reason="CrashLoopBackOff", message="back-off 10s"))
    status = model_status([pod("b", looping, last=ContainerState(terminated=DIED))], ready=False)
    assert status["lastFailureInfo"] == {
        "location": "b",
        "reason": "ModelLoadFailed",
        "exitCode": 137,
        "message": "back-off 10s",
        "time": "2026-01-02T00:00:00Z",
    }
