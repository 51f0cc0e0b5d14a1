"""Rules 3, 4, 7, 13 to 16, 19 and 23: what a service and its components may look like."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from ome.admission.services.proposal import Proposal
from ome.api import keys
from ome.api.intstr import is_zero
from ome.api.names import SERVICE_NAME_PATTERN, is_service_name
from ome.rendering.model import Component
from ome.rendering.modes import declared_mode, mode_combination_error

Json = dict[str, Any]

POD_SETS: Final = ("engine", "decoder")
_PERCENT: Final = re.compile(r"^(\d+)%$")


# -- migration requests ------------------------------------------------------------------------------------------------


def migration_requests(proposal: Proposal) -> str:
    before = proposal.before.metadata.annotations if proposal.before else {}
    for key, value in sorted(proposal.annotations.items()):
        if key.startswith(keys.MIGRATION_REQUEST_PREFIX) and key not in before:
            problem = _migration_problem(proposal, key, value)
            if problem:
                return problem
    return ""


def _migration_problem(proposal: Proposal, key: str, value: str) -> str:
    uuid = key.removeprefix(keys.MIGRATION_REQUEST_PREFIX)
    if not uuid:
        return f"migration request {key}: annotation key carries no request UUID"
    try:
        request = json.loads(value)
    except ValueError as error:
        return f"migration request {uuid}: the value is not valid JSON: {error}"
    if not isinstance(request, dict):
        return f"migration request {uuid}: the value must be a JSON object"
    component = request.get("component", "")
    if component not in proposal.components:
        return f'migration request {uuid}: component "{component}" does not exist on this InferenceService'
    instance = request.get("instance", 0)
    if not isinstance(instance, int) or isinstance(instance, bool):
        return f"migration request {uuid}: instance must be an integer, got {json.dumps(instance)}"
    return f"migration request {uuid}: instance must be >= 0, got {instance}" if instance < 0 else ""


# -- names and combinations --------------------------------------------------------------------------------------------


def service_name(proposal: Proposal) -> str:
    if is_service_name(proposal.name):
        return ""
    return f'invalid InferenceService name "{proposal.name}", must match "{SERVICE_NAME_PATTERN}"'


def decoder_needs_engine(proposal: Proposal) -> str:
    alone = "decoder" in proposal.components and "engine" not in proposal.components
    return "decoder cannot be specified without engine" if alone else ""


def multi_pod(spec: Json) -> bool:
    return spec.get("leader") is not None or spec.get("worker") is not None


def ready_policy(proposal: Proposal) -> str:
    for component in POD_SETS:
        spec = proposal.components.get(component)
        if spec is None or (spec.get("lifecycle") or {}).get("readyPolicy") != "None":
            continue
        if multi_pod(spec) and proposal.omenative(component):
            return (
                f"spec.{component}.lifecycle.readyPolicy=None is not accepted on a multi-pod component: an Instance is "
                "ready when all of its pods are; use AllPodReady or leave it unset (InvalidReadyPolicy)"
            )
    return ""


def leader_and_worker(proposal: Proposal) -> str:
    for component in POD_SETS:
        spec = proposal.components.get(component)
        if spec is None:
            continue
        leader, worker = spec.get("leader"), spec.get("worker")
        if leader is not None and worker is None:
            return (
                f"InvalidLeaderWorkerPairing: {component}.leader is set but {component}.worker is not; "
                "multi-pod configurations require both (LeaderRequiresWorker)"
            )
        if worker is not None and leader is None:
            return (
                f"InvalidLeaderWorkerPairing: {component}.worker is set but {component}.leader is not; "
                "multi-pod configurations require both (WorkerRequiresLeader)"
            )
        size = (worker or {}).get("size")
        if size is not None and size < 1:
            return (
                f"InvalidLeaderWorkerPairing: {component}.worker.size must be a positive integer when set; "
                "leave it unset to use the runtime's size or one worker (WorkerSizeMustBePositive)"
            )
    return ""


def has_image(pod: Json | None) -> bool:
    return bool(((pod or {}).get("runner") or {}).get("image"))


def lean_multi_pod(proposal: Proposal) -> str:
    """Without model and runtime nothing could fill an image in."""
    if proposal.model_name or proposal.runtime_name:
        return ""
    for component in POD_SETS:
        spec = proposal.components.get(component)
        if spec is None or not multi_pod(spec):
            continue
        if not (has_image(spec.get("leader")) and has_image(spec.get("worker"))):
            return (
                f"MultiPodLeanModelNeedsRunner: spec.{component} has a leader and workers, but the service names no "
                "model and no runtime; multi-pod lean specs must declare both runner images"
            )
    return ""


def mode_combination(proposal: Proposal) -> str:
    if not all(component in proposal.components for component in POD_SETS):
        return ""
    engine = declared_mode(proposal.facts, Component.ENGINE)
    decoder = declared_mode(proposal.facts, Component.DECODER)
    return mode_combination_error(engine, decoder) or ""


# -- disruption and lifecycle ------------------------------------------------------------------------------------------


def disruption_budgets(proposal: Proposal) -> str:
    for component, spec in proposal.components.items():
        where = f"spec.{component}"
        given = {name: spec[name] for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None}
        if len(given) == 2:
            return f"{where}.minAvailable and {where}.maxUnavailable cannot both be set"
        for name, value in given.items():
            if not _is_budget(value):
                return f"{where}.{name} must be a non-negative integer or a percentage from 0% to 100%"
    return ""


def _is_budget(value: Any) -> bool:
    if isinstance(value, int):
        return value >= 0
    match = _PERCENT.match(str(value))
    return match is not None and int(match[1]) <= 100


def lifecycles(proposal: Proposal) -> str:
    problems = (lifecycle_problem(f"spec.{name}", spec) for name, spec in proposal.components.items())
    return next((problem for problem in problems if problem), "")


def lifecycle_problem(where: str, spec: Json) -> str:
    """A component's (or standalone replica's) `lifecycle`; `where` is the path of what holds it."""
    lifecycle = spec.get("lifecycle") or {}
    seconds = lifecycle.get("minReadySeconds")
    if seconds is not None and seconds < 0:
        return f"{where}.lifecycle.minReadySeconds must be >= 0, got {seconds} (InvalidMinReadySeconds)"
    rolling = (lifecycle.get("updateStrategy") or {}).get("rollingUpdate") or {}
    path = f"{where}.lifecycle.updateStrategy.rollingUpdate"
    problem = next(rolling_update_problems(path, rolling), "")
    if problem or not both_zero(rolling):
        return problem
    return f"{path}: maxSurge=0 and maxUnavailable=0 together yield an unstartable rollout (RollingUpdateZeroBudget)"


def rolling_update_problems(where: str, rolling: Json) -> Iterator[str]:
    """Budgets that are neither a count nor a percentage."""
    for name in ("maxSurge", "maxUnavailable"):
        value = rolling.get(name)
        if isinstance(value, int) and value < 0:
            yield f"{where}.{name} must be >= 0, got {value} (InvalidRollingUpdateInteger)"
        if isinstance(value, str) and _PERCENT.match(value) is None:
            rule = 'must be an integer or a percentage such as "25%"'
            yield f'{where}.{name} {rule}, got "{value}" (InvalidRollingUpdatePercent)'


def both_zero(rolling: Json) -> bool:
    """Both budgets are set, and both to nothing."""
    values = [rolling.get("maxSurge"), rolling.get("maxUnavailable")]
    return all(value is not None and is_zero(value) for value in values)
