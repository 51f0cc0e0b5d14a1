"""Rules 22 and 33: rollout groups, canaries, analyses, ordering (`spec/install-and-operate.md` section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ome.admission.services.proposal import Proposal
from ome.admission.services.shape import both_zero, rolling_update_problems
from ome.api import keys
from ome.api.duration import parse_nanoseconds
from ome.api.intstr import is_int_or_percent, parse_percent

Json = dict[str, Any]

_MINUTE: Final = 60 * 10**9
_NOT_RENDERED: Final = frozenset(
    (
        "minReplicas",
        "maxReplicas",
        "minAvailable",
        "maxUnavailable",
        "lifecycle",
        "autoscaler",
        "autoscalerPolicyRef",
        "topologySpread",
        "topologySpreadKey",
        "timeoutSeconds",
        "deploymentStrategy",
    )
)
"""Fields of a component whose change makes no new revision."""


def groups_of(spec: Json) -> list[Json]:
    groups: list[Json] = (spec.get("rollout") or {}).get("groups") or []
    return groups


def rollout_groups(proposal: Proposal) -> str:
    return next(_problems(proposal), "")


def _problems(proposal: Proposal) -> Iterator[str]:
    groups = groups_of(proposal.spec)
    yield from _references(proposal, groups)
    yield from _members(proposal, groups)
    for index, group in enumerate(groups):
        where = f"spec.rollout.groups[{index}]"
        yield from _modes(proposal, group, where)
        yield from _pacing(group, where)
        yield from _soak(group, where)
        if group.get("canary") is not None:
            yield from _canary(proposal, group, f"{where}.canary")
    if sum(is_canary(group) for group in groups) > 1:
        yield "spec.rollout.groups has more than one canary group; a service has one (MultipleCanaryGroups)"
    if not proposal.creating:
        yield from _lockstep(proposal, groups)
        yield from _pairing(proposal, groups)


def is_canary(group: Json) -> bool:
    if group.get("canary") is not None:
        return True
    inline = group.get("blueGreen") is not None or group.get("rollingUpdate") is not None
    return not inline and (group.get("policyRef") or {}).get("progression") == "canary"


def _is_rolling(group: Json) -> bool:
    if group.get("rollingUpdate") is not None:
        return True
    inline = group.get("blueGreen") is not None or group.get("canary") is not None
    return not inline and (group.get("policyRef") or {}).get("progression") == "rollingUpdate"


def _references(proposal: Proposal, groups: list[Json]) -> Iterator[str]:
    for index, group in enumerate(groups):
        reference = group.get("policyRef")
        if reference is None:
            continue
        where = f"spec.rollout.groups[{index}].policyRef"
        if not proposal.features.rollout_policy:
            yield (
                f"{where} needs the RolloutPolicy CRD, which was not installed when the manager started "
                "(RolloutPolicyRefUnsupported)"
            )
        kind = reference.get("kind") or "RolloutPolicy"
        if kind != "RolloutPolicy":
            yield f'{where}.kind "{kind}" is reserved; use RolloutPolicy (RolloutPolicyRefUnsupported)'


def _members(proposal: Proposal, groups: list[Json]) -> Iterator[str]:
    seen: set[str] = set()
    for index, group in enumerate(groups):
        where = f"spec.rollout.groups[{index}]"
        for component in group.get("components") or []:
            if component not in ("engine", "decoder", "router"):
                yield f'{where} names "{component}", which is no component (InvalidComponentInCoordinationGroup)'
            if component not in proposal.components:
                yield f"{where} names {component}, which the service does not declare (OrphanCoordinationGroup)"
            if component in seen:
                yield f"{where}: {component} belongs to a group already (DuplicateComponentInCoordinationGroups)"
            seen.add(component)


def _modes(proposal: Proposal, group: Json, where: str) -> Iterator[str]:
    reason = "CanaryRequiresOMENative" if is_canary(group) else "CoordinationRequiresOMENative"
    for component in group.get("components") or []:
        if component in proposal.components and not proposal.omenative(component):
            mode = proposal.mode(component)
            yield f"{where}: {component} runs in deployment mode {mode}; rollout groups need OMENative ({reason})"


def _pacing(group: Json, where: str) -> Iterator[str]:
    rolling = group.get("rollingUpdate")
    if not rolling:
        return
    yield from rolling_update_problems(f"{where}.rollingUpdate", rolling)
    if both_zero(rolling):
        yield (
            f"{where}.rollingUpdate: maxSurge=0 and maxUnavailable=0 together yield an unstartable rollout "
            "(ZeroBudgetPacingUnstartable)"
        )


def _soak(group: Json, where: str) -> Iterator[str]:
    if group.get("soak") is not None:
        yield from _duration(f"{where}.soak", group["soak"])


def _duration(where: str, value: Any) -> Iterator[str]:
    try:
        amount = parse_nanoseconds(str(value))
    except ValueError as error:
        yield f'{where} must be a duration such as "10m": {error} (InvalidDuration)'
        return
    if amount < 0:
        yield f"{where} must be >= 0, got {value} (InvalidDuration)"


# -- canary ------------------------------------------------------------------------------------------------------------


def _canary(proposal: Proposal, group: Json, where: str) -> Iterator[str]:
    canary, members = group["canary"], group.get("components") or []
    both = {"engine", "decoder"}
    if both <= proposal.components.keys() and len(both & set(members)) == 1:
        yield f"{where}: a service with engine and decoder must name both in its canary group (CanaryInvalid)"
    steps = canary.get("steps") or []
    if not steps:
        yield f"{where}.steps must hold at least one step (CanaryInvalid)"
    if canary.get("readyTimeout") is not None:
        yield from _duration(f"{where}.readyTimeout", canary["readyTimeout"])
    if (canary.get("scaleDownDelaySeconds") or 0) < 0:
        yield f"{where}.scaleDownDelaySeconds must be >= 0 (CanaryInvalid)"
    traffic = 0
    for index, step in enumerate(steps):
        yield from _step(step, f"{where}.steps[{index}]", traffic)
        traffic = step.get("traffic") or 0
    if steps and (steps[-1].get("traffic") != 100 or steps[-1].get("capacity") != "100%"):
        yield f'{where}: the last step must have capacity "100%" and traffic 100 (CanaryInvalid)'


def _step(step: Json, where: str, before: int) -> Iterator[str]:
    capacity, traffic = step.get("capacity"), step.get("traffic") or 0
    if not is_int_or_percent(capacity) or (isinstance(capacity, int) and capacity < 0):
        yield f'{where}.capacity must be a count or a percentage such as "25%", got {capacity!r} (CanaryInvalid)'
    elif isinstance(capacity, str) and parse_percent(capacity) > 100:
        yield f"{where}.capacity must be at most 100%, got {capacity} (CanaryInvalid)"
    if traffic < before:
        yield f"{where}.traffic must not decrease: {traffic} follows {before} (CanaryInvalid)"
    if step.get("pause") is not None and step.get("analysis") is not None:
        yield f"{where} has both pause and analysis; a step has one gate (CanaryInvalid)"
    pause = (step.get("pause") or {}).get("duration")
    if pause is not None:
        yield from _duration(f"{where}.pause.duration", pause)
    if step.get("analysis") is not None:
        yield from _analysis(step["analysis"], f"{where}.analysis")


def _analysis(analysis: Json, where: str) -> Iterator[str]:
    for field in ("interval", "initialDelay"):
        if analysis.get(field) is not None:
            yield from _duration(f"{where}.{field}", analysis[field])
    names: set[str] = set()
    for index, metric in enumerate(analysis.get("metrics") or []):
        name = metric.get("name") or ""
        if not name or name in names:
            yield f'{where}.metrics[{index}].name "{name}" must be set and unique (AnalysisInvalid)'
        names.add(name)
        if not (metric.get("query") or "").strip():
            yield f"{where}.metrics[{index}].query must not be empty (AnalysisInvalid)"
        if not _is_number(metric.get("threshold")):
            got = metric.get("threshold")
            yield f'{where}.metrics[{index}].threshold must be a number written as text, got "{got}" (AnalysisInvalid)'


def _is_number(text: Any) -> bool:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return False
    return value == value and abs(value) != float("inf")


# -- changes that must be made together --------------------------------------------------------------------------------


def _rendered(component: Json | None) -> Json:
    return {name: value for name, value in (component or {}).items() if name not in _NOT_RENDERED}


def _lockstep(proposal: Proposal, groups: list[Json]) -> Iterator[str]:
    for index, group in enumerate(groups):
        members = [name for name in group.get("components") or [] if name in proposal.old_spec]
        if not _is_rolling(group) or len(members) < 2:
            continue
        changed = [n for n in members if _rendered(proposal.spec.get(n)) != _rendered(proposal.old_spec.get(n))]
        if changed and len(changed) < len(members):
            left = ", ".join(name for name in members if name not in changed)
            yield (
                f"spec.rollout.groups[{index}] updates its components together: this change edits {', '.join(changed)} "
                f"but not {left} (RollingUpdateLockstepViolation)"
            )


def _pairing(proposal: Proposal, groups: list[Json]) -> Iterator[str]:
    new = (proposal.spec.get("rollout") or {}).get("pairingProtocol") or ""
    old = (proposal.old_spec.get("rollout") or {}).get("pairingProtocol") or ""
    pair = {"engine", "decoder"}
    if new == old or not pair <= proposal.components.keys():
        return
    if not any(pair <= set(group.get("components") or []) and not _is_rolling(group) for group in groups):
        yield (
            "spec.rollout.pairingProtocol changes, so engine and decoder must be in one blueGreen or canary group "
            "(PairingProtocolChangeUncoordinated)"
        )


# -- ordering (rule 33) ------------------------------------------------------------------------------------------------


def ordering(proposal: Proposal) -> str:
    """On create, or when an update changes `spec.rollout`."""
    if not proposal.creating and proposal.spec.get("rollout") == proposal.old_spec.get("rollout"):
        return ""
    return next(_ordering(proposal), "")


def _ordering(proposal: Proposal) -> Iterator[str]:
    groups = groups_of(proposal.spec)
    sequential = (proposal.spec.get("rollout") or {}).get("groupOrdering") != "Concurrent"
    sequence = len(groups) > 1 and all(_may_queue(group) for group in groups)
    if sequential and len(groups) > 1 and not sequence:
        yield (
            "spec.rollout.groupOrdering Sequential orders single-component blueGreen groups only; use Concurrent "
            "(GroupOrderingNotHonored)"
        )
    for index, group in enumerate(groups):
        if group.get("order"):
            yield f"spec.rollout.groups[{index}].order is not honored; leave it unset (OrderNotHonored)"
        if group.get("soak") is not None and not (sequential and sequence):
            yield (
                f"spec.rollout.groups[{index}].soak is honored only in a sequence of single-component blueGreen groups "
                "(SoakNotHonored)"
            )


def _may_queue(group: Json) -> bool:
    return len(group.get("components") or []) == 1 and not is_canary(group) and not _is_rolling(group)


# -- warnings ----------------------------------------------------------------------------------------------------------


def warnings(proposal: Proposal) -> list[str]:
    found: list[str] = []
    for index, group in enumerate(groups_of(proposal.spec)):
        where = f"spec.rollout.groups[{index}]"
        tolerance = (group.get("maintainRatio") or {}).get("tolerance") or 0
        if tolerance > 50:
            found.append(f"{where}.maintainRatio.tolerance {tolerance} hardly holds a ratio (RatioToleranceTooHigh)")
        timeout = (group.get("canary") or {}).get("readyTimeout")
        if timeout is not None and _is_short(timeout):
            found.append(f"{where}.canary.readyTimeout {timeout} is below 1m (RolloutTimeoutTooShort)")
    annotated = proposal.annotations.get(keys.ROLLOUT_READY_TIMEOUT)
    if annotated is not None and _is_short(annotated):
        found.append(f'annotation "{keys.ROLLOUT_READY_TIMEOUT}" {annotated} is below 1m (RolloutTimeoutTooShort)')
    return found


def _is_short(text: str) -> bool:
    try:
        return 0 < parse_nanoseconds(text) < _MINUTE
    except ValueError:
        return False
