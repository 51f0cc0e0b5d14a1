"""One container's life as the kubelet decides it: pull, make, run, restart with backoff. Pure.

`advance` takes what the runtime shows and what the kubelet remembers, and says what to do next and how the
container's state reads. Called by `lifecycle.py` for each container of a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ome.api.meta import timestamp
from ome.local.node.images import ImagePolicy, invalid_reference, next_backoff, pull_error
from ome.local.node.runtime import Exit, Observation
from ome.local.objects import Json

ERROR_SHOWN: Final = 5.0  # seconds that ErrImagePull shows before it reads ImagePullBackOff
CREATE_RETRY: Final = 10.0  # seconds until a container that could not be created is tried again
STABLE_AFTER: Final = 600.0  # seconds a container must have run for its crash backoff to start anew


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """What the kubelet remembers of a container beyond what the runtime shows."""

    starts: int = 0
    pulled: str = ""
    pull_backoff: float = 0.0
    pull_failed_at: datetime | None = None
    pull_failed: str = ""
    """The image that was not there: the wait is for that one, another one is pulled at once."""
    last_exit: Exit | None = None
    crash_backoff: float = 0.0
    restart_at: datetime | None = None
    replacing: bool = False
    create_error: str = ""
    create_failed_at: datetime | None = None

    @property
    def restarts(self) -> int:
        return max(0, self.starts - 1)


@dataclass(frozen=True, slots=True)
class Notice:
    """An event about the pod; `container` names the container it is about, for the event's field path."""

    type: str
    reason: str
    message: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Where a container stands. `state` is the API's ContainerState; at most one of `start` and `stop` is True."""

    memory: ContainerMemory
    state: Json
    start: bool = False
    stop: bool = False
    running: bool = False
    started: bool = False
    ready: bool = False
    done: Exit | None = None
    wake: datetime | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container's next step depends on, beside itself."""

    pod_name: str
    namespace: str
    uid: str
    policy: ImagePolicy
    restart: str  # Always, OnFailure or Never, for this container
    config_error: str
    now: datetime


def advance(
    container: Mapping[str, Any], memory: ContainerMemory, seen: Observation | None, around: Surroundings
) -> Step:
    """The container's next step."""
    if seen is None:
        return _prepare(container, memory, around)
    if seen.exit is None:
        return _run(container, memory, seen, around)
    return _ended(container, memory, seen.exit, around)


def _run(container: Mapping[str, Any], memory: ContainerMemory, seen: Observation, around: Surroundings) -> Step:
    state: Json = {"running": {"startedAt": timestamp(seen.started_at)}}
    name = str(container["name"])
    changed = seen.image != container.get("image")
    if changed and not memory.replacing:
        message = f"Container {name} definition changed, will be restarted"
        notice = Notice("Normal", "Killing", message, name)
        memory = replace(memory, replacing=True)
        return Step(memory, state, stop=True, running=True, started=seen.started, notices=(notice,))
    return Step(
        memory,
        state,
        running=True,
        started=seen.started,
        ready=seen.started and seen.ready and not changed,
        wake=seen.changes_at,
    )


def _ended(container: Mapping[str, Any], memory: ContainerMemory, end: Exit, around: Surroundings) -> Step:
    if memory.last_exit != end:
        memory = _note_end(memory, end)
    again = memory.replacing or around.restart == "Always" or (around.restart == "OnFailure" and end.code != 0)
    if not again:
        return Step(memory, {"terminated": terminated(end)}, done=end)
    if memory.restart_at is not None and around.now < memory.restart_at:
        return _back_off(container, memory, around)
    return _prepare(container, memory, around)


def _note_end(memory: ContainerMemory, end: Exit) -> ContainerMemory:
    """Kubernetes restarts at once after the first end, and backs off from the second on."""
    if memory.replacing:
        return replace(memory, last_exit=end, restart_at=None)
    ran = (end.finished_at - end.started_at).total_seconds()
    if memory.last_exit is None or ran >= STABLE_AFTER:
        return replace(memory, last_exit=end, crash_backoff=0.0, restart_at=None)
    backoff = next_backoff(memory.crash_backoff)
    return replace(
        memory, last_exit=end, crash_backoff=backoff, restart_at=end.finished_at + timedelta(seconds=backoff)
    )


def _back_off(container: Mapping[str, Any], memory: ContainerMemory, around: Surroundings) -> Step:
    name = str(container["name"])
    pod = f"{around.pod_name}_{around.namespace}({around.uid})"
    wait = _go_seconds(memory.crash_backoff)
    message = f"back-off {wait} restarting failed container={name} pod={pod}"
    notice = Notice("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {pod}", name)
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    return Step(memory, state, wake=memory.restart_at, notices=(notice,))


def _go_seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _prepare(container: Mapping[str, Any], memory: ContainerMemory, around: Surroundings) -> Step:
    """Everything between the wish to start a container and its start: image, then configuration."""
    image, name = str(container.get("image") or ""), str(container["name"])
    invalid = invalid_reference(image)
    if invalid:
        notices = (
            Notice("Warning", "InspectFailed", invalid, name),
            Notice("Warning", "Failed", "Error: InvalidImageName", name),
        )
        return _waiting(memory, "InvalidImageName", invalid, notices=notices)
    notices_before: tuple[Notice, ...] = ()
    if memory.pulled != image or container.get("imagePullPolicy") == "Always":
        pulled = _pull(image, name, memory, around)
        if isinstance(pulled, Step):
            return pulled
        memory, notices_before = pulled
    if around.config_error:
        notice = Notice("Warning", "Failed", f"Error: {around.config_error}", name)
        return _waiting(memory, "CreateContainerConfigError", around.config_error, notices=(*notices_before, notice))
    again = memory.create_failed_at and memory.create_failed_at + timedelta(seconds=CREATE_RETRY)
    if again and around.now < again:
        notice = Notice("Warning", "Failed", f"Error: {memory.create_error}", name)
        return _waiting(memory, "CreateContainerError", memory.create_error, wake=again, notices=(notice,))
    memory = replace(memory, starts=memory.starts + 1, replacing=False, restart_at=None, create_failed_at=None)
    begun = (
        *notices_before,
        Notice("Normal", "Created", f"Container created: {name}", name),
        Notice("Normal", "Started", f"Container started: {name}", name),
    )
    return Step(memory, {"waiting": {"reason": "ContainerCreating"}}, start=True, notices=begun)


def _pull(
    image: str, name: str, memory: ContainerMemory, around: Surroundings
) -> Step | tuple[ContainerMemory, tuple[Notice, ...]]:
    if memory.pull_failed != image:
        memory = replace(memory, pull_backoff=0.0, pull_failed_at=None)
    failed_at = memory.pull_failed_at
    if failed_at is not None and around.now < failed_at + timedelta(seconds=memory.pull_backoff):
        return _pull_waits(image, name, memory, failed_at, around)
    if not around.policy.denies(image):
        memory = replace(memory, pulled=image, pull_backoff=0.0, pull_failed_at=None)
        return memory, (Notice("Normal", "Pulled", f'Container image "{image}" already present on machine', name),)
    backoff = next_backoff(memory.pull_backoff)
    memory = replace(memory, pull_backoff=backoff, pull_failed_at=around.now, pull_failed=image)
    error = pull_error(image)
    notices = (
        Notice("Normal", "Pulling", f'Pulling image "{image}"', name),
        Notice("Warning", "Failed", f'Failed to pull image "{image}": {error}', name),
        Notice("Warning", "Failed", "Error: ErrImagePull", name),
    )
    return _waiting(memory, "ErrImagePull", error, wake=around.now + timedelta(seconds=ERROR_SHOWN), notices=notices)


def _pull_waits(image: str, name: str, memory: ContainerMemory, failed_at: datetime, around: Surroundings) -> Step:
    turns = failed_at + timedelta(seconds=ERROR_SHOWN)
    if around.now < turns:
        return _waiting(memory, "ErrImagePull", pull_error(image), wake=turns)
    message = f'Back-off pulling image "{image}": ErrImagePull: {pull_error(image)}'
    notices = (
        Notice("Normal", "BackOff", f'Back-off pulling image "{image}"', name),
        Notice("Warning", "Failed", "Error: ImagePullBackOff", name),
    )
    again = failed_at + timedelta(seconds=memory.pull_backoff)
    return _waiting(memory, "ImagePullBackOff", message, wake=again, notices=notices)


def _waiting(
    memory: ContainerMemory,
    reason: str,
    message: str = "",
    *,
    wake: datetime | None = None,
    notices: tuple[Notice, ...] = (),
) -> Step:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    return Step(memory, {"waiting": waiting}, wake=wake, notices=notices)


def terminated(end: Exit) -> Json:
    """The API's ContainerStateTerminated."""
    built: Json = {
        "exitCode": end.code,
        "reason": end.reason,
        "startedAt": timestamp(end.started_at),
        "finishedAt": timestamp(end.finished_at),
    }
    if end.container_id:
        built["containerID"] = end.container_id
    if end.message:
        built["message"] = end.message
    return built
