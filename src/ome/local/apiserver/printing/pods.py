"""The row of a pod: what a person should know of it at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ome.local.apiserver.printing.layouts import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    Object,
    look,
    moment,
    short_duration,
    text,
)

_SPEC: Final = "io.k8s.api.core.v1.PodSpec#"
_STATUS: Final = "io.k8s.api.core.v1.PodStatus#"


class _Summary:
    """ready: containers ready; total; reason: the STATUS column; restarts and when the last one was."""

    def __init__(self, pod: Object) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        self.restarts = 0
        self.last_restart: datetime | None = None
        self.ready = 0
        sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or ()) + len(sidecars)
        self.reason = status.get("reason") or status.get("phase") or ""
        conditions = {c.get("type"): c for c in status.get("conditions") or ()}
        if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        initializing = self._init_containers(spec, status, sidecars)
        initialized = (conditions.get("Initialized") or {}).get("status") == "True"
        if not initializing or initialized:
            self._containers(status, ready=(conditions.get("Ready") or {}).get("status") == "True")
        if (pod.get("metadata") or {}).get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif status.get("phase") not in ("Succeeded", "Failed"):
                self.reason = "Terminating"

    def _init_containers(self, spec: Object, status: Object, sidecars: set[Any]) -> bool:
        total = len(spec.get("initContainers") or ())
        sidecar_restarts = 0
        sidecar_last: datetime | None = None
        initializing = False
        for index, container in enumerate(status.get("initContainerStatuses") or ()):
            state = container.get("state") or {}
            restarts = container.get("restartCount") or 0
            self.restarts += restarts
            self.last_restart = _latest(self.last_restart, container)
            if container.get("name") in sidecars:
                sidecar_restarts += restarts
                sidecar_last = _latest(sidecar_last, container)
                if container.get("started"):
                    self.ready += 1 if container.get("ready") else 0
                    continue
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if terminated is not None and terminated.get("exitCode") == 0:
                continue
            if terminated is not None:
                self.reason = "Init:" + _terminated(terminated)
            elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
                self.reason = "Init:" + waiting["reason"]
            else:
                self.reason = f"Init:{index}/{total}"
            initializing = True
            break
        if not initializing:
            self.restarts, self.last_restart = sidecar_restarts, sidecar_last
        return initializing

    def _containers(self, status: Object, *, ready: bool) -> None:
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            state = container.get("state") or {}
            self.restarts += container.get("restartCount") or 0
            self.last_restart = _latest(self.last_restart, container)
            waiting, terminated = state.get("waiting") or {}, state.get("terminated")
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated is not None:
                self.reason = _terminated(terminated)
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            self.reason = "Running" if ready else "NotReady"


def _latest(known: datetime | None, container: Mapping[str, Any]) -> datetime | None:
    finished = moment(look(container, "lastState.terminated.finishedAt"))
    return finished if finished is not None and (known is None or finished > known) else known


def _terminated(state: Mapping[str, Any]) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _ready(pod: Object, now: datetime) -> str:
    summary = _Summary(pod)
    return f"{summary.ready}/{summary.total}"


def _status(pod: Object, now: datetime) -> str:
    return str(_Summary(pod).reason)


def _restarts(pod: Object, now: datetime) -> str:
    summary = _Summary(pod)
    if summary.restarts and summary.last_restart is not None:
        return f"{summary.restarts} ({short_duration((now - summary.last_restart).total_seconds())} ago)"
    return str(summary.restarts)


def _address(pod: Object, now: datetime) -> str:
    addresses = look(pod, "status.podIPs") or ()
    return str(addresses[0].get("ip")) if addresses else NONE


def _gates(pod: Object, now: datetime) -> str:
    gates = look(pod, "spec.readinessGates") or ()
    if not gates:
        return NONE
    true = {c.get("type") for c in look(pod, "status.conditions") or () if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


def _conditions(pod: Object) -> list[dict[str, Any]]:
    phase = look(pod, "status.phase")
    if phase == "Succeeded":
        message = "The pod has completed successfully."
    elif phase == "Failed":
        message = "The pod failed."
    else:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


LAYOUT: Final = Layout(
    [
        NAME,
        Column("Ready", _ready, "The aggregate readiness state of this pod for accepting traffic."),
        Column("Status", _status, "The aggregate status of the containers in this pod."),
        Column(
            "Restarts",
            _restarts,
            "The number of times the containers in this pod have been restarted and when the last container in this "
            "pod has restarted.",
        ),
        AGE,
        Column("IP", _address, _STATUS + "podIP", wide=True),
        Column("Node", text("spec.nodeName", NONE), _SPEC + "nodeName", wide=True),
        Column("Nominated Node", text("status.nominatedNodeName", NONE), _STATUS + "nominatedNodeName", wide=True),
        Column("Readiness Gates", _gates, _SPEC + "readinessGates", wide=True),
    ],
    _conditions,
)
