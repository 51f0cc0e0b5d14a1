"""Where a service's rollouts stand, as far as its status says: for `rollout status`, `status` and `wait
--for=rollout=...`. Pure.

The status cannot be tied to the current generation, so what it reports is REPORTED and the verified STATE stays
Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ome.cli.evidence import objects

ORDER = ("Failed", "RollingBack", "RolledBack", "Paused", "Unknown", "InProgress", "Staged", "Succeeded")
NOT_CONFIGURED = "NotConfigured"
_PHASES = {
    "Stable": "Succeeded",
    "Canarying": "InProgress",
    "BlueGreenStandby": "InProgress",
    "Pending": "InProgress",
    "Promoting": "InProgress",
    "Paused": "Paused",
    "RollingBack": "RollingBack",
    "RolledBack": "RolledBack",
    "Failed": "Failed",
}
_GROUP_PHASES = {
    "Idle": "Succeeded",
    "Surging": "InProgress",
    "Waiting": "InProgress",
    "Shifting": "InProgress",
    "Draining": "InProgress",
    "ScalingDown": "InProgress",
    "Staged": "Staged",
    "Failed": "Failed",
    "RollingBack": "RollingBack",
    "Paused": "Paused",
}


class Issue(NamedTuple):
    code: str
    group: int | None = None
    component: str = ""

    @property
    def text(self) -> str:
        group = f" group={self.group}" if self.group is not None else ""
        return f"{self.code}{group}" + (f" component={self.component}" if self.component else "")


class ComponentRollout(NamedTuple):
    component: str
    group: int | None
    strategy: str
    group_phase: str
    phase: str
    step: str
    gate: str
    capacity: str
    traffic: str
    rolled_out: str
    ready: str
    previous: str


class Rollout(NamedTuple):
    state: str
    reported: str
    evidence: str
    epoch: str
    coordination: str
    components: tuple[ComponentRollout, ...]
    issues: tuple[Issue, ...]


def _groups(service: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The plan in force: the pinned one while a run is active, else the declared one."""
    pinned = objects.items(service, "status", "rollout", "activeRun", "plan", "groups")
    if pinned:
        return [objects.mapping(entry, "group") for entry in pinned]
    return [entry for entry in objects.items(service, "spec", "rollout", "groups") if isinstance(entry, Mapping)]


def _strategy(group: Mapping[str, Any] | None) -> str:
    if group is None:
        return "Independent"
    for key, name in (("canary", "Canary"), ("rollingUpdate", "RollingUpdate"), ("blueGreen", "BlueGreen")):
        if group.get(key) is not None:
            return name
    return "Unknown" if group.get("policyRef") is not None else "BlueGreen"


def _revisions_state(status: Mapping[str, Any]) -> str:
    """What a component's revisions say by themselves; `""` when it records none."""
    current = objects.text(status, "lifecycle", "currentRevision")
    update = objects.text(status, "lifecycle", "updateRevision")
    if update:
        return "Stable" if current == update else "Pending"
    rolled, ready = objects.text(status, "latestRolledoutRevision"), objects.text(status, "latestReadyRevision")
    if rolled or ready:
        return "Stable" if rolled == ready or not ready else "Pending"
    return ""


def _step(status: Mapping[str, Any], group: Mapping[str, Any] | None) -> tuple[str, str, str, str]:
    """(step, gate, capacity, traffic) of a canary; all empty outside one."""
    canary = objects.mapping(status, "canary")
    steps = objects.items(group, "canary", "steps") if group is not None else []
    current = objects.count(canary, "currentStep")
    if not canary or not steps or not 0 <= current < len(steps):
        return "", "", "", ""
    step = steps[current]
    gate = "Immediate"
    if objects.get(step, "analysis") is not None:
        gate = "Analysis"
    elif objects.get(step, "pause") is not None:
        gate = "Timed" if objects.text(step, "pause", "duration") else "Manual"
    traffic = f"{objects.count(step, 'traffic')}% -> {objects.count(canary, 'observedTrafficWeight')}%"
    return f"{current + 1}/{len(steps)}", gate, str(objects.get(step, "capacity") or ""), traffic


def _coordination(service: Mapping[str, Any], groups: list[Mapping[str, Any]]) -> str:
    if not any(group.get("canary") is None for group in groups):
        return "NotApplicable"
    found = [
        entry
        for entry in objects.items(service, "status", "conditions")
        if isinstance(entry, Mapping) and entry.get("type") == "RolloutCoordinationReady"
    ]
    if not found:
        return "Unobserved"
    status = objects.text(found[0], "status")
    return status if len(found) == 1 and status in ("True", "False", "Unknown") else "Invalid"


def rollout(service: Mapping[str, Any]) -> Rollout:
    """The service's rollout as reported; `NotConfigured` when neither spec nor status knows of one."""
    groups = _groups(service)
    coordinated = objects.items(service, "status", "rolloutCoordination", "groups")
    member = {
        name: index
        for index, group in enumerate(groups)
        for name in objects.items(group, "components")
        if isinstance(name, str)
    }
    states: list[str] = []
    issues: list[Issue] = []
    components = []
    for component in objects.COMPONENTS:
        if not isinstance(objects.get(service, "spec", component), Mapping):
            continue
        number = member.get(component)
        group = groups[number] if number is not None else None
        status = objects.get(service, "status", "components", component)
        if not isinstance(status, Mapping):
            issues.append(Issue("ComponentStatusMissing", component=component))
            states.append("Unknown")
            status = {}
        phase = objects.text(status, "rolloutPhase") or _revisions_state(status)
        if phase:
            states.append(_PHASES.get(phase, "Unknown"))
        step, gate, capacity, traffic = _step(status, group)
        components.append(
            ComponentRollout(
                component,
                number,
                _strategy(group),
                _group_phase(coordinated, component) if number is not None else "",
                phase,
                step,
                gate,
                capacity,
                traffic,
                objects.text(status, "latestRolledoutRevision"),
                objects.text(status, "latestReadyRevision"),
                objects.text(status, "previousRolledoutRevision"),
            )
        )
    states += [_GROUP_PHASES.get(objects.text(entry, "phase"), "Unknown") for entry in coordinated]
    for index, group in enumerate(groups):
        if group.get("canary") is None and index >= len(coordinated):
            issues.append(Issue("GroupStatusMissing", index))
            states.append("Unknown")
    if not states and not groups:
        return Rollout(
            NOT_CONFIGURED, NOT_CONFIGURED, "Declared", "NotApplicable", "NotApplicable", tuple(components), ()
        )
    reported = next((state for state in ORDER if state in states), "Unknown")
    issues.append(Issue("EpochUnverifiable"))
    coordination = _coordination(service, groups)
    return Rollout(
        "Unknown", reported, "Reported", "Unverifiable", coordination, tuple(components), tuple(sorted(issues, key=str))
    )


def _group_phase(coordinated: list[Any], component: str) -> str:
    for entry in coordinated:
        if component in objects.items(entry, "components"):
            return objects.text(entry, "phase") or "Unknown"
    return "Unknown"


def malformed(service: Mapping[str, Any]) -> bool:
    """Status that is not of the shape the API gives it."""
    shapes = (
        (objects.get(service, "status", "components"), Mapping),
        (objects.get(service, "status", "rollout"), Mapping),
        (objects.get(service, "status", "rolloutCoordination"), Mapping),
    )
    return any(value is not None and not isinstance(value, shape) for value, shape in shapes)
