"""A pod's life on a node, as the kubelet decides it: what to start and stop, and the status to report. Pure.

`decide` is called by `kubelet.py`, again and again until it wants nothing more started; the status of the last call
is written.
Phases, condition reasons and messages are the kubelet's own. What a simulated pod does is scripted by `runtime.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ome.api.meta import timestamp, whole_second
from ome.local.node import references
from ome.local.node.containers import (
    ContainerMemory,
    Notice,
    Step,
    Surroundings,
    advance,
    terminated,
)
from ome.local.node.images import ImagePolicy
from ome.local.node.references import Found
from ome.local.node.runtime import Exit, Observation, exit_of, is_plain_init
from ome.local.objects import Json, Object, condition, time_of, with_condition

RECHECK: Final = 5.0  # seconds after which a missing Secret or ConfigMap is looked for again
OWN_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_MEMORY: Final = ContainerMemory()


@dataclass(frozen=True, slots=True)
class PodMemory:
    """What the kubelet remembers of a pod."""

    ip: str
    started_at: datetime
    containers: Mapping[str, ContainerMemory] = field(default_factory=dict)
    failed: tuple[str, str] | None = None  # reason and message of a failure of the pod as a whole


@dataclass(frozen=True, slots=True)
class Sight:
    """All that a decision depends on. `found` holds the Secrets and ConfigMaps read so far in this pass."""

    pod: Object
    memory: PodMemory
    seen: Mapping[str, Observation]
    policy: ImagePolicy
    found: Found
    host_ip: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now: read `needs` and decide again, or stop and start containers and decide again, or report."""

    memory: PodMemory
    needs: frozenset[references.Reference] = frozenset()
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    status: Json | None = None
    remove: bool = False
    wake: datetime | None = None
    notices: tuple[Notice, ...] = ()


def decide(sight: Sight) -> Decision:
    """The next step of the pod."""
    pod = sight.pod
    if pod.metadata.deleting:
        return _terminate(sight)
    if pod.status.get("phase") in ("Succeeded", "Failed"):
        return Decision(sight.memory, stop=_running(sight))
    overdue = _deadline(pod, sight.memory)
    if overdue is not None and sight.now >= overdue and sight.memory.failed is None:
        message = "Pod was active on the node longer than the specified deadline"
        sight = replace(sight, memory=replace(sight.memory, failed=("DeadlineExceeded", message)))
        notice = Notice("Normal", "DeadlineExceeded", message)
        return replace(_fail(sight), notices=(notice,))
    if sight.memory.failed is not None:
        return _fail(sight)
    return _live(sight, overdue)


# -- a pod that should run ---------------------------------------------------------------------------------------------


def _live(sight: Sight, overdue: datetime | None) -> Decision:
    spec = sight.pod.spec
    needs = references.of_volumes(spec) - sight.found.keys() if not sight.seen else set()
    if needs:
        return Decision(sight.memory, needs=frozenset(needs))
    blocked = references.volume_error(spec, sight.found) if not sight.seen else ""
    if blocked:
        idle = _all_waiting(sight, "PodInitializing" if spec.get("initContainers") else "ContainerCreating")
        notice = Notice("Warning", "FailedMount", blocked)
        return _report(sight, idle, sight.now + timedelta(seconds=RECHECK), (notice,), blocked=True)
    steps: dict[str, Step] = {}
    initialized = True
    for container in spec.get("initContainers") or ():
        if not initialized:
            steps[container["name"]] = _idle(sight, container, "PodInitializing")
            continue
        outcome = _step(sight, container)
        if isinstance(outcome, Decision):
            return outcome
        steps[container["name"]] = outcome
        initialized = _init_passed(sight.pod, container, outcome)
        if outcome.done is not None and outcome.done.code != 0:
            return _init_failed(sight, steps)
    for container in spec.get("containers") or ():
        if not initialized:
            steps[container["name"]] = _idle(sight, container, "PodInitializing")
            continue
        outcome = _step(sight, container)
        if isinstance(outcome, Decision):
            return outcome
        steps[container["name"]] = outcome
    return _result(sight, steps, overdue)


def _step(sight: Sight, container: Mapping[str, Any]) -> Step | Decision:
    """The container's step, or the wish to read what its environment names first."""
    name = container["name"]
    seen = sight.seen.get(name)
    needs = references.of_container(container) - sight.found.keys()
    fresh = seen is None or seen.exit is not None
    if fresh and needs:
        return Decision(sight.memory, needs=frozenset(needs))
    around = Surroundings(
        pod_name=sight.pod.name,
        namespace=sight.pod.namespace,
        uid=sight.pod.uid,
        policy=sight.policy,
        restart=_restart_policy(sight.pod, container),
        config_error=references.config_error(container, sight.pod.namespace, sight.found) if fresh else "",
        now=sight.now,
    )
    return advance(container, sight.memory.containers.get(name, _MEMORY), seen, around)


def _restart_policy(pod: Object, container: Mapping[str, Any]) -> str:
    policy = str(container.get("restartPolicy") or pod.spec.get("restartPolicy") or "Always")
    if is_plain_init(pod, container):
        return "Never" if policy == "Never" else "OnFailure"
    return policy


def _init_passed(pod: Object, container: Mapping[str, Any], step: Step) -> bool:
    if container.get("restartPolicy") == "Always":
        return step.running and step.started
    return step.done is not None and step.done.code == 0


def _init_failed(sight: Sight, steps: dict[str, Step]) -> Decision:
    for container in sight.pod.spec.get("containers") or ():
        steps.setdefault(container["name"], _idle(sight, container, "PodInitializing"))
    memory = _remember(sight, steps)
    status = _status(sight, steps)
    return Decision(memory, stop=_running(sight), status={**status, "phase": "Failed"})


def _result(sight: Sight, steps: Mapping[str, Step], overdue: datetime | None) -> Decision:
    memory = _remember(sight, steps)
    notices = tuple(notice for step in steps.values() for notice in step.notices)
    start = tuple(name for name, step in steps.items() if step.start)
    stop = tuple(name for name, step in steps.items() if step.stop)
    if start or stop:
        return Decision(memory, start=start, stop=stop, notices=notices)
    recheck = any(_reason(step) == "CreateContainerConfigError" for step in steps.values())
    wakes = [step.wake for step in steps.values() if step.wake is not None]
    if recheck:
        wakes.append(sight.now + timedelta(seconds=RECHECK))
    if overdue is not None:
        wakes.append(overdue)
    return _report(replace(sight, memory=memory), steps, min(wakes) if wakes else None, notices)


def _report(
    sight: Sight,
    steps: Mapping[str, Step],
    wake: datetime | None,
    notices: tuple[Notice, ...],
    *,
    blocked: bool = False,
) -> Decision:
    status = _status(sight, steps, blocked=blocked)
    if status["phase"] in ("Succeeded", "Failed"):
        return Decision(sight.memory, stop=_running(sight), status=status, notices=notices)
    return Decision(sight.memory, status=status, wake=wake, notices=notices)


def _remember(sight: Sight, steps: Mapping[str, Step]) -> PodMemory:
    return replace(
        sight.memory,
        containers={**sight.memory.containers, **{name: step.memory for name, step in steps.items()}},
    )


def _idle(sight: Sight, container: Mapping[str, Any], reason: str) -> Step:
    memory = sight.memory.containers.get(container["name"], _MEMORY)
    return Step(memory, {"waiting": {"reason": reason}})


def _all_waiting(sight: Sight, reason: str) -> dict[str, Step]:
    return {container["name"]: _idle(sight, container, reason) for container in _containers(sight.pod)}


def _containers(pod: Object) -> list[Mapping[str, Any]]:
    return [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]


def _running(sight: Sight) -> tuple[str, ...]:
    return tuple(name for name, seen in sight.seen.items() if seen.exit is None)


def _reason(step: Step) -> str:
    return str((step.state.get("waiting") or {}).get("reason", ""))


# -- a pod that must end -----------------------------------------------------------------------------------------------


def _deadline(pod: Object, memory: PodMemory) -> datetime | None:
    seconds = pod.spec.get("activeDeadlineSeconds")
    return None if seconds is None else memory.started_at + timedelta(seconds=float(seconds))


def _fail(sight: Sight) -> Decision:
    running = _running(sight)
    if running:
        wakes = [seen.changes_at for seen in sight.seen.values() if seen.changes_at is not None]
        return Decision(sight.memory, stop=running, wake=min(wakes) if wakes else None)
    status = _status(sight, _final_steps(sight))
    reason, message = sight.memory.failed or ("", "")
    return Decision(sight.memory, status={**status, "phase": "Failed", "reason": reason, "message": message})


def _terminate(sight: Sight) -> Decision:
    """End the containers, report how they ended when somebody still waits for the object, then remove it."""
    running = _running(sight)
    if running:
        wakes = [seen.changes_at for seen in sight.seen.values() if seen.changes_at is not None]
        notices = tuple(Notice("Normal", "Killing", f"Stopping container {name}", name) for name in running)
        return Decision(sight.memory, stop=running, wake=min(wakes) if wakes else None, notices=notices)
    if not sight.pod.metadata.finalizers:
        return Decision(sight.memory, remove=True)
    status = _status(sight, _final_steps(sight))
    if status["phase"] not in ("Succeeded", "Failed"):
        ends = [seen.exit for seen in sight.seen.values() if seen.exit is not None]
        status["phase"] = "Succeeded" if ends and all(end.code == 0 for end in ends) else "Failed"
    return Decision(sight.memory, status=status, remove=True)


def _final_steps(sight: Sight) -> dict[str, Step]:
    steps = {}
    for container in _containers(sight.pod):
        name = container["name"]
        memory = sight.memory.containers.get(name, _MEMORY)
        seen = sight.seen.get(name)
        if seen is not None and seen.exit is not None:
            steps[name] = Step(memory, {"terminated": terminated(seen.exit)}, done=seen.exit)
        else:
            steps[name] = Step(memory, {"waiting": {"reason": "ContainerCreating"}})
    return steps


# -- status ------------------------------------------------------------------------------------------------------------


def _status(sight: Sight, steps: Mapping[str, Step], *, blocked: bool = False) -> Json:
    """The whole status that the kubelet owns; other owners' conditions are kept as they are."""
    pod = sight.pod
    status = dict(pod.status)
    generation = pod.metadata.generation
    if generation:
        status["observedGeneration"] = generation
    status["hostIP"] = sight.host_ip
    status["hostIPs"] = [{"ip": sight.host_ip}]
    status["startTime"] = timestamp(sight.memory.started_at)
    if not blocked:
        ip = sight.host_ip if pod.spec.get("hostNetwork") else sight.memory.ip
        status["podIP"] = ip
        status["podIPs"] = [{"ip": ip}]
    for spec_field, status_field in (
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
    ):
        found = [_container_status(sight, container, steps) for container in pod.spec.get(spec_field) or ()]
        if found:
            status[status_field] = found
    status["phase"] = _phase(pod, steps)
    status["conditions"] = _conditions(sight, steps, status["phase"], blocked=blocked)
    return status


def _container_status(sight: Sight, container: Mapping[str, Any], steps: Mapping[str, Step]) -> Json:
    name, image = container["name"], str(container.get("image") or "")
    step = steps[name]
    seen = sight.seen.get(name)
    image = seen.image if seen is not None and step.running else image
    sidecar_or_main = not is_plain_init(sight.pod, container)
    built: Json = {
        "name": name,
        "image": image,
        "imageID": image_id(image) if seen is not None else "",
        "lastState": {},
        "ready": step.ready if sidecar_or_main else step.done is not None and step.done.code == 0,
        "restartCount": step.memory.restarts,
        "started": step.started and step.running,
        "state": step.state,
    }
    if seen is not None:
        built["containerID"] = seen.container_id
    last = step.memory.last_exit
    if last is not None and (step.done is None or step.done != last):
        built["lastState"] = {"terminated": terminated(last)}
    if container.get("resources"):
        built["resources"] = container["resources"]
    return built


def image_id(image: str) -> str:
    """A made-up but stable digest of the reference."""
    repository = image.split("@", 1)[0]
    head, slash, tail = repository.rpartition("/")
    return f"{head}{slash}{tail.split(':', 1)[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def _phase(pod: Object, steps: Mapping[str, Step]) -> str:
    if not _initialized(pod, steps):
        return "Pending"
    waiting = running = 0
    ends: list[Exit] = []
    for container in pod.spec.get("containers") or ():
        step = steps[container["name"]]
        last = step.done or step.memory.last_exit
        if step.running:
            running += 1
        elif last is not None:
            ends.append(last)
        else:
            waiting += 1
    if waiting:
        return "Pending"
    policy = pod.spec.get("restartPolicy") or "Always"
    if running or policy == "Always":
        return "Running"
    if all(end.code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _initialized(pod: Object, steps: Mapping[str, Step]) -> bool:
    return all(
        _init_passed(pod, container, steps[container["name"]])
        for container in pod.spec.get("initContainers") or ()
        if container["name"] in steps
    )


def _conditions(sight: Sight, steps: Mapping[str, Step], phase: str, *, blocked: bool) -> list[Json]:
    pod, now = sight.pod, whole_second(sight.now)
    more: Json = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
    conditions: list[Json] = [dict(found) for found in pod.status.get("conditions") or ()]

    def put(type_: str, on: bool, reason: str = "", message: str = "") -> None:
        nonlocal conditions
        status = "True" if on else "False"
        conditions = with_condition(conditions, type_, status, now, reason=reason, message=message, **more)

    put("PodReadyToStartContainers", not blocked and phase not in ("Succeeded", "Failed"))
    init = [found["name"] for found in pod.spec.get("initContainers") or ()]
    if _initialized(pod, steps):
        put("Initialized", True, "PodCompleted" if phase == "Succeeded" else "")
    else:
        undone = [name for name in init if not steps[name].done and not steps[name].started]
        put("Initialized", False, "ContainersNotInitialized", _unready("incomplete", undone))
    ready, reason, message = _containers_ready(pod, steps, phase)
    gate_reason, gate_message = _gates(pod)
    if not ready:
        put("Ready", False, reason, message)
    elif gate_reason:
        put("Ready", False, gate_reason, gate_message)
    else:
        put("Ready", True)
    put("ContainersReady", ready, reason, message)
    if not any(found.get("type") == "PodScheduled" and found.get("status") == "True" for found in conditions):
        put("PodScheduled", True)
    return conditions


def _containers_ready(pod: Object, steps: Mapping[str, Step], phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    needed = [found["name"] for found in _containers(pod) if not is_plain_init(pod, found)]
    unready = [name for name in needed if not steps[name].ready]
    if unready:
        return False, "ContainersNotReady", _unready("unready", unready)
    return True, "", ""


def _unready(what: str, names: list[str]) -> str:
    return f"containers with {what} status: [{' '.join(names)}]"


def _gates(pod: Object) -> tuple[str, str]:
    messages = []
    for gate in pod.spec.get("readinessGates") or ():
        name = gate.get("conditionType", "")
        found = condition(pod.status, name)
        if found is None:
            messages.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found.get("status") != "True":
            messages.append(f'the status of pod readiness gate "{name}" is not "True", but {found.get("status")}')
    return ("ReadinessGatesNotReady", ", ".join(messages)) if messages else ("", "")


def recall(pod: Object, ip: str, now: datetime) -> PodMemory:
    """The memory of a pod that is seen for the first time, as far as its status tells it (we may have been
    restarted)."""
    containers: dict[str, ContainerMemory] = {}
    for status_field in ("initContainerStatuses", "containerStatuses"):
        for status in pod.status.get(status_field) or ():
            containers[status["name"]] = _recalled(status)
    started = time_of(pod.status.get("startTime")) or whole_second(now)
    return PodMemory(str(pod.status.get("podIP") or ip), started, containers)


def _recalled(status: Mapping[str, Any]) -> ContainerMemory:
    state = status.get("state") or {}
    ran = bool(status.get("containerID"))
    last = exit_of((status.get("lastState") or {}).get("terminated"))
    return ContainerMemory(
        starts=int(status.get("restartCount", 0)) + 1 if ran else 0,
        pulled=str(status.get("image") or "") if ran else "",
        last_exit=exit_of(state.get("terminated")) or last,
    )
