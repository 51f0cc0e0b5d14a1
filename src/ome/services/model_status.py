"""`status.modelStatus`: how far the engine's pods are with loading the model (spec/inference-service.md section 9).

Computed anew from the pods in every pass, so that a Ready service never keeps `InProgress` or `Pending`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ome.api.core import ContainerStatus, Pod, StateTerminated
from ome.api.meta import timestamp

Json = dict[str, Any]

MAIN_CONTAINER = "ome-container"
_CRASH_LOOP = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class _Failure:
    pod: str
    termination: StateTerminated | None
    waiting_message: str


def model_status(pods: Sequence[Pod], *, ready: bool) -> Json:
    """The whole `modelStatus` of a service with a model; `pods` are the engine's, `ready` is the service's
    condition.
    """
    failures = [failure for pod in pods if (failure := _failure(pod)) is not None]
    loaded = ready or any(pod.ready for pod in pods)
    status: Json = {
        "transitionStatus": _transition(bool(failures), ready),
        "modelRevisionStates": {
            "activeModelState": "Loaded" if loaded else "Pending",
            "targetModelState": _target_state(pods, bool(failures), ready),
        },
        "modelCopies": {"failedCopies": len(failures), "totalCopies": len(pods)},
    }
    if failures:
        status["lastFailureInfo"] = _failure_info(max(failures, key=_age_of))
    return status


def _transition(failed: bool, ready: bool) -> str:
    if failed:
        return "BlockedByFailedLoad"
    return "UpToDate" if ready else "InProgress"


def _target_state(pods: Sequence[Pod], failed: bool, ready: bool) -> str:
    if failed:
        return "FailedToLoad"
    if ready:
        return "Loaded"
    return "Loading" if any(_running(pod) for pod in pods) else "Pending"


def _main(pod: Pod) -> ContainerStatus | None:
    statuses = pod.status.container_statuses
    return next((status for status in statuses if status.name == MAIN_CONTAINER), statuses[0] if statuses else None)


def _running(pod: Pod) -> bool:
    main = _main(pod)
    return main is not None and main.state.running is not None


def _failure(pod: Pod) -> _Failure | None:
    main = _main(pod)
    if main is None:
        return None
    terminated = main.state.terminated
    if terminated is not None and terminated.exit_code != 0:
        return _Failure(pod.metadata.name, terminated, "")
    waiting = main.state.waiting
    if waiting is not None and waiting.reason == _CRASH_LOOP:
        return _Failure(pod.metadata.name, main.last_state.terminated, waiting.message)
    return None


def _age_of(failure: _Failure) -> tuple[float, str]:
    finished = failure.termination.finished_at if failure.termination else None
    return (finished.timestamp() if finished else 0.0, failure.pod)


def _failure_info(failure: _Failure) -> Json:
    info: Json = {"location": failure.pod, "reason": "ModelLoadFailed"}
    termination = failure.termination
    message = failure.waiting_message
    if termination is not None:
        message = termination.message or message or termination.reason
        info["exitCode"] = termination.exit_code
        if termination.finished_at is not None:
            info["time"] = timestamp(termination.finished_at)
    if message:
        info["message"] = message
    return info
