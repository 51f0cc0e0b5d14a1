"""The validating webhooks of RolloutPolicies, AutoscalerPolicies and BenchmarkJobs.

`spec/install-and-operate.md` sections 6.4, 7 and 10. The policy kinds exist only with their feature.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ome.admission.review import ALLOWED, Verdict, deny
from ome.admission.world import World
from ome.api import keys
from ome.api.names import COMPONENTS
from ome.api.types.inference_service import InferenceService

Json = dict[str, Any]

PROGRESSIONS: Final = ("canary", "blueGreen", "rollingUpdate")
TEMPLATE_VARIABLES: Final = frozenset(
    ("Namespace", "ISVCName", "Component", "MinReplicas", "MaxReplicas", "TargetName")
)
_FIELD: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_VARIABLE: Final = re.compile(r"^\s*\.(\w+)\s*$")
_SCENARIO: Final = re.compile(
    r"^(D\(\d+,\d+\)|N\(\d+,\d+\)/\(\d+,\d+\)|U\(\d+,\d+\)/\(\d+,\d+\)|I\(\d+,\d+(,\d+)?\)|E\(\d+(,\d+)?\))$"
)


def validate_policy(kind: str, new: Json | None, old: Json | None, world: World) -> Verdict:
    """Create, update or delete (`new` None) of `RolloutPolicy` or `AutoscalerPolicy`."""
    if new is None:
        return _deletion(kind, old or {}, world)
    rules = _rollout_problems if kind == "RolloutPolicy" else _autoscaler_problems
    problem = next(rules(new, old, world), "")
    return deny(problem) if problem else ALLOWED


# -- deletion ----------------------------------------------------------------------------------------------------------


def _deletion(kind: str, policy: Json, world: World) -> Verdict:
    metadata = policy.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(keys.ALLOW_IN_USE_DELETE) == "true":
        return ALLOWED
    users = _users(kind, metadata.get("name", ""), world.services(metadata.get("namespace", "")))
    if not users:
        return ALLOWED
    return deny(
        f'{kind} "{metadata.get("name", "")}" is referenced by {len(users)} InferenceService(s): {", ".join(users)}; '
        f'remove the refs first, or set the {keys.ALLOW_IN_USE_DELETE}="true" annotation to force deletion'
    )


def _users(kind: str, name: str, services: Any) -> list[str]:
    refers = _rolls_with if kind == "RolloutPolicy" else _scales_with
    return sorted(service.metadata.name for service in services if refers(service, name))


def _rolls_with(service: InferenceService, name: str) -> bool:
    groups = (service.spec.rollout or {}).get("groups") or []
    return any((group.get("policyRef") or {}).get("name") == name for group in groups)


def _scales_with(service: InferenceService, name: str) -> bool:
    specs = (service.spec.component(component) or {} for component in COMPONENTS)
    return any((spec.get("autoscalerPolicyRef") or {}).get("name") == name for spec in specs)


# -- rollout policies --------------------------------------------------------------------------------------------------


def _rollout_problems(new: Json, old: Json | None, world: World) -> Iterator[str]:
    metadata, spec = new.get("metadata") or {}, new.get("spec") or {}
    kinds = [name for name in PROGRESSIONS if spec.get(name) is not None]
    if len(kinds) != 1:
        yield f"spec must hold exactly one of {', '.join(PROGRESSIONS)}, got {len(kinds)}"
    before = [name for name in PROGRESSIONS if ((old or {}).get("spec") or {}).get(name) is not None]
    if old is not None and before != kinds:
        users = _users("RolloutPolicy", metadata.get("name", ""), world.services(metadata.get("namespace", "")))
        if users:
            yield (
                f"the progression of a policy in use is immutable ({', '.join(before)} cannot become "
                f"{', '.join(kinds)}); referenced by {', '.join(users)}"
            )
    yield from _canary_problems(spec.get("canary") or {})


def _canary_problems(canary: Json) -> Iterator[str]:
    prometheus = canary.get("prometheus") or {}
    for field in ("serverAddress", "authRef"):
        if prometheus.get(field) is not None:
            yield f"spec.canary.prometheus.{field} is not accepted in a policy; use providerRef"
    for index, step in enumerate(canary.get("steps") or []):
        where = f"spec.canary.steps[{index}]"
        capacity = step.get("capacity")
        if not isinstance(capacity, str) or not capacity.endswith("%"):
            yield f'{where}.capacity must be a percentage such as "25%" in a policy, got {capacity!r}'
        if step.get("analysis") is not None and prometheus.get("providerRef") is None:
            yield f"{where}.analysis needs spec.canary.prometheus.providerRef"


# -- autoscaler policies -----------------------------------------------------------------------------------------------


def _autoscaler_problems(new: Json, old: Json | None, world: World) -> Iterator[str]:
    spec = new.get("spec") or {}
    if spec.get("enforcement") == "Required":
        yield "spec.enforcement Required is reserved; use Default"
    for index, trigger in enumerate((spec.get("keda") or {}).get("triggers") or []):
        yield from _trigger_problems(trigger, f"spec.keda.triggers[{index}]")


def _trigger_problems(trigger: Json, where: str) -> Iterator[str]:
    metadata: dict[str, str] = trigger.get("metadata") or {}
    for key in ("serverAddress", "authModes"):
        if key in metadata:
            yield f"{where}.metadata.{key} is not accepted in a policy; use providerRef"
    if trigger.get("queryReturnsDesiredReplicas") and trigger.get("metricType") != "AverageValue":
        yield f"{where}.queryReturnsDesiredReplicas needs metricType AverageValue"
    if trigger.get("type") == "prometheus":
        if trigger.get("providerRef") is None:
            yield f"{where} is a prometheus trigger and needs providerRef"
        if "ignoreNullValues" not in metadata:
            yield f"{where} is a prometheus trigger and needs an explicit metadata.ignoreNullValues"
    for key, value in metadata.items():
        for field in _FIELD.findall(value):
            match = _VARIABLE.match(field)
            if match is None or match[1] not in TEMPLATE_VARIABLES:
                known = ", ".join(sorted(TEMPLATE_VARIABLES))
                yield f"{where}.metadata.{key}: {{{{{field}}}}} is no plain variable; known are {known}"


# -- benchmark jobs ----------------------------------------------------------------------------------------------------


def validate_benchmark(new: Json) -> Verdict:
    """A BenchmarkJob: one endpoint, readable scenarios, useful numbers."""
    problem = next(_benchmark_problems(new.get("spec") or {}), "")
    return deny(problem) if problem else ALLOWED


def _benchmark_problems(spec: Json) -> Iterator[str]:
    endpoint = spec.get("endpoint") or {}
    if (endpoint.get("inferenceService") is None) == (endpoint.get("endpoint") is None):
        yield "spec.endpoint must hold exactly one of inferenceService and endpoint"
    for field in ("maxTimePerIteration", "maxRequestsPerIteration"):
        value = spec.get(field)
        if value is not None and value <= 0:
            yield f"spec.{field} must be > 0, got {value}"
    for value in spec.get("numConcurrency") or []:
        if value <= 0:
            yield f"spec.numConcurrency must hold positive numbers, got {value}"
    for scenario in spec.get("trafficScenarios") or []:
        if _SCENARIO.match(scenario.replace(" ", "")) is None:
            yield (
                f'spec.trafficScenarios: "{scenario}" is no scenario; use D(a,b), N(m,s)/(m,s), U(a,b)/(a,b), '
                "I(w,h[,n]) or E(n)"
            )
