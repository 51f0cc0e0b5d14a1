"""What runs a pod's containers, as a protocol, and the runtime that only pretends.

The kubelet decides *when* containers start and stop and what the API shows of them; a runtime makes it so and says what
became of them. `SimulatedRuntime` needs no process and no time: it is a script of moments computed from the pod and the
clock. A runtime that runs real processes fulfils the same protocol and is asked first (`handles`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from ome.api.duration import parse_seconds
from ome.local.objects import Object, time_of

READY_AFTER: Final = "local.ome.io/ready-after"
CRASH_AFTER: Final = "local.ome.io/crash-after"
EXIT_CODE: Final = "local.ome.io/exit-code"
NEVER_READY: Final = "local.ome.io/never-ready"
OOM_AFTER: Final = "local.ome.io/oom-after"
# A simulated server answers its first probe; waiting out a real server's delays would only slow a laptop's tour down.
LONGEST_PROBE_DELAY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. `reason` is Completed, Error or OOMKilled."""

    code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    container_id: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One container as its runtime has it now.

    `started` and `ready` are the verdicts of the startup and readiness probes; `changes_at` is the moment at which the
    runtime already knows that this will change (a runtime of real processes calls back instead).
    """

    image: str
    container_id: str
    started_at: datetime
    started: bool = True
    ready: bool = True
    exit: Exit | None = None
    changes_at: datetime | None = None


class ContainerRuntime(Protocol):
    """Runs the containers of the pods it handles. Containers are known by pod uid and container name."""

    def handles(self, image: str) -> bool:
        """Whether this runtime runs the image."""
        ...

    async def start(self, pod: Object, container: Mapping[str, Any], attempt: int, now: datetime) -> None:
        """Start a container; an earlier one of the same name has ended. Raises OSError with a reason for the user."""
        ...

    async def stop(self, pod: Object, container: Mapping[str, Any], grace: float, now: datetime) -> None:
        """Ask a container to end within `grace` seconds. Its end shows in `observe`."""
        ...

    async def forget(self, uid: str) -> None:
        """The pod is gone from the API: end what is left of it."""
        ...

    def adopt(self, pod: Object) -> None:
        """Take note of a pod that an earlier process of ours was running, by its status."""
        ...

    def observe(self, uid: str, container: str, now: datetime) -> Observation | None:
        """The container, or None when it was never started."""
        ...


@dataclass(frozen=True, slots=True)
class Script:
    """What a simulated container will do, in seconds after its start. None means never."""

    started: float = 0.0
    ready: float | None = 0.0
    ends: float | None = None
    code: int = 0
    reason: str = "Completed"


def script_for(pod: Object, container: Mapping[str, Any]) -> Script:
    """Read the script off the pod: annotations steer its first container, Jobs and init containers end at once."""
    started = _probe_delay(container, "startupProbe")
    script = Script(started=started, ready=started + _probe_delay(container, "readinessProbe"))
    if is_plain_init(pod, container):
        return replace(script, ends=0.0)
    controller = pod.metadata.controller
    if controller is not None and controller.kind == "Job":
        script = replace(script, ends=0.0)
    containers = pod.spec.get("containers") or ()
    if containers and containers[0].get("name") == container.get("name"):
        return _annotated(pod.metadata.annotations, script)
    return script


def _annotated(annotations: Mapping[str, str], script: Script) -> Script:
    if annotations.get(NEVER_READY) in ("true", "True", "1", "yes"):
        script = replace(script, ready=None)
    ready_after = _seconds(annotations, READY_AFTER)
    if ready_after is not None and script.ready is not None:
        script = replace(script, ready=ready_after)
    crash_after, oom_after = _seconds(annotations, CRASH_AFTER), _seconds(annotations, OOM_AFTER)
    if crash_after is not None:
        script = _ending(script, crash_after, _exit_code(annotations, 1))
    elif script.ends is not None:
        script = _ending(script, script.ends, _exit_code(annotations, 0))
    if oom_after is not None and (script.ends is None or oom_after <= script.ends):
        script = replace(script, ends=oom_after, code=137, reason="OOMKilled")
    return script


def _ending(script: Script, after: float, code: int) -> Script:
    return replace(script, ends=after, code=code, reason="Error" if code else "Completed")


def _seconds(annotations: Mapping[str, str], name: str) -> float | None:
    try:
        return max(0.0, parse_seconds(annotations[name]))
    except (KeyError, ValueError):
        return None


def _exit_code(annotations: Mapping[str, str], default: int) -> int:
    try:
        return int(annotations[EXIT_CODE]) & 0xFF
    except (KeyError, ValueError):
        return default


def _probe_delay(container: Mapping[str, Any], probe: str) -> float:
    found = container.get(probe) or {}
    return min(float(found.get("initialDelaySeconds") or 0), LONGEST_PROBE_DELAY)


def is_plain_init(pod: Object, container: Mapping[str, Any]) -> bool:
    """An init container that runs to its end; one with restartPolicy Always is a sidecar."""
    if container.get("restartPolicy") == "Always":
        return False
    return any(found.get("name") == container.get("name") for found in pod.spec.get("initContainers") or ())


@dataclass(frozen=True, slots=True)
class _Running:
    image: str
    container_id: str
    started_at: datetime
    script: Script
    stopped_at: datetime | None = None
    ended: Exit | None = None

    def observe(self, now: datetime) -> Observation:
        ended = self.ended or self._end(now)
        moments = [self._at(self.script.started), self._at(self.script.ready), self._end_moment()]
        coming = [moment for moment in moments if moment is not None and moment > now]
        ready_at = self._at(self.script.ready)
        return Observation(
            image=self.image,
            container_id=self.container_id,
            started_at=self.started_at,
            started=ended is None and now >= self.started_at + timedelta(seconds=self.script.started),
            ready=ended is None and self.stopped_at is None and ready_at is not None and now >= ready_at,
            exit=ended,
            changes_at=min(coming) if coming and ended is None else None,
        )

    def _at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.started_at + timedelta(seconds=seconds)

    def _end_moment(self) -> datetime | None:
        moments = [moment for moment in (self._at(self.script.ends), self.stopped_at) if moment is not None]
        return min(moments) if moments else None

    def _end(self, now: datetime) -> Exit | None:
        moment = self._end_moment()
        if moment is None or moment > now:
            return None
        by_itself = moment == self._at(self.script.ends)
        code, reason = (self.script.code, self.script.reason) if by_itself else (0, "Completed")
        return Exit(code, reason, self.started_at, moment, self.container_id)


class SimulatedRuntime:
    """Containers that exist as moments only. Handles every image."""

    def __init__(self) -> None:
        self._containers: dict[tuple[str, str], _Running] = {}

    def handles(self, image: str) -> bool:
        return True

    async def start(self, pod: Object, container: Mapping[str, Any], attempt: int, now: datetime) -> None:
        name, image = str(container["name"]), str(container.get("image") or "")
        digest = hashlib.sha256(f"{pod.uid}/{name}/{attempt}".encode()).hexdigest()
        running = _Running(image, f"simulated://{digest}", now, script_for(pod, container))
        self._containers[pod.uid, name] = running

    async def stop(self, pod: Object, container: Mapping[str, Any], grace: float, now: datetime) -> None:
        key = pod.uid, str(container["name"])
        running = self._containers.get(key)
        if running is None or running.stopped_at is not None:
            return
        hook = ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
        delay = min(float(hook.get("seconds") or 0), grace)
        self._containers[key] = replace(running, stopped_at=now + timedelta(seconds=delay))

    async def forget(self, uid: str) -> None:
        for key in [key for key in self._containers if key[0] == uid]:
            del self._containers[key]

    def adopt(self, pod: Object) -> None:
        specs = {
            found["name"]: found for field in ("initContainers", "containers") for found in pod.spec.get(field) or ()
        }
        for field in ("initContainerStatuses", "containerStatuses"):
            for status in pod.status.get(field) or ():
                spec = specs.get(status.get("name"))
                if spec is not None:
                    self._adopt(pod, spec, status)

    def _adopt(self, pod: Object, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        state = status.get("state") or {}
        key = pod.uid, str(spec["name"])
        image, container_id = str(status.get("image") or ""), str(status.get("containerID") or "")
        began = time_of((state.get("running") or {}).get("startedAt"))
        if began is not None:
            self._containers[key] = _Running(image, container_id, began, script_for(pod, spec))
        ended = exit_of(state.get("terminated"))
        if ended is not None:
            script = script_for(pod, spec)
            self._containers[key] = _Running(image, container_id, ended.started_at, script, ended=ended)

    def observe(self, uid: str, container: str, now: datetime) -> Observation | None:
        running = self._containers.get((uid, container))
        return None if running is None else running.observe(now)


def exit_of(terminated: Mapping[str, Any] | None) -> Exit | None:
    """A raw `terminated` state read back."""
    if not terminated:
        return None
    finished = time_of(terminated.get("finishedAt"))
    began = time_of(terminated.get("startedAt")) or finished
    if finished is None or began is None:
        return None
    return Exit(
        int(terminated.get("exitCode", 0)),
        str(terminated.get("reason") or ""),
        began,
        finished,
        str(terminated.get("containerID") or ""),
        str(terminated.get("message") or ""),
    )
