"""Pod specs of one component: the runner with its environment, mounts, resources and arguments, placed among the
pod's containers (`spec/serving-runtimes.md section 7.2`; the comments number its steps).

Pure. Called by `ome.rendering.render`, once for a single pod or a leader and once for a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ome.rendering import accelerators
from ome.rendering.merge import CONTAINER, merge_object
from ome.rendering.model import (
    MAIN_CONTAINER,
    AcceleratorFacts,
    Component,
    ComponentNotConfiguredError,
    Json,
)
from ome.rendering.models import ModelParts
from ome.rendering.placeholders import PlaceholderValues, expand

PARALLELISM_SIZE = "PARALLELISM_SIZE"

_NOT_POD_SPEC = frozenset(
    {
        "minReplicas",
        "maxReplicas",
        "timeoutSeconds",
        "labels",
        "annotations",
        "servicePortAppProtocols",
        "minAvailable",
        "maxUnavailable",
        "deploymentStrategy",
        "lifecycle",
        "autoscaler",
        "autoscalerPolicyRef",
        "runner",
        "leader",
        "worker",
        "size",
        "topologyKey",
        "topologySpread",
        "topologySpreadKey",
        "acceleratorOverride",
        "config",
    }
)

_DEFAULT_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """Everything one pod spec is made of, resolved.

    `source` is the merged component, leader or worker; `service_source` and `runtime_source` the layers it was
    merged from."""

    component: Component
    runtime_name: str
    source: Mapping[str, Any]
    service_source: Mapping[str, Any] = field(default_factory=dict)
    runtime_source: Mapping[str, Any] = field(default_factory=dict)
    values: PlaceholderValues
    parts: ModelParts = field(default_factory=ModelParts)
    runtime_node_selector: Mapping[str, str] = field(default_factory=dict)
    class_node_selector: Mapping[str, str] = field(default_factory=dict)
    accelerator: AcceleratorFacts | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    router_config: Mapping[str, str] = field(default_factory=dict)
    counted_resources: tuple[str, ...] = ()
    pods_per_instance: int = 1
    keep_model_selector: bool = False
    """The model-ready selector is re-applied last and cannot be overridden."""
    grace_period_seconds: int | None = None
    scheduler_name: str | None = None
    pull_if_not_present: bool = False
    default_probe: bool = False


def build_pod_spec(plan: PodPlan) -> Json:
    """The pod spec. Raises `ComponentNotConfiguredError` without any container, `TemplateError` for a bad
    placeholder."""
    spec = {key: deepcopy(value) for key, value in plan.source.items() if key not in _NOT_POD_SPEC}
    runner = _equip_runner(plan)  # 2
    containers, main = _place(spec.get("containers") or [], runner, plan)  # 3
    containers[main] = expand(containers[main], plan.values)  # 4
    spec["containers"] = containers
    _add_volumes(spec, plan.parts.volumes)  # 5
    _set_node_selector(spec, plan)  # 6
    _set_node_affinity(spec, plan)  # 7
    if plan.grace_period_seconds is not None and spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = plan.grace_period_seconds
    if plan.scheduler_name and not spec.get("schedulerName"):
        spec["schedulerName"] = plan.scheduler_name
    if plan.pull_if_not_present:
        for container in (*containers, *(spec.get("initContainers") or [])):
            container.setdefault("imagePullPolicy", "IfNotPresent")
    if plan.default_probe:
        _set_default_probe(containers)
    return spec


def service_ports(spec: Mapping[str, Any], app_protocols: Mapping[str, str]) -> tuple[Json, ...]:
    """Ports of the component Service: those of the pod's first container, or one 8080 named like it
    (`spec/inference-service.md section 4`)."""
    first = spec["containers"][0]
    declared = first.get("ports") or [{"name": first["name"], "containerPort": _DEFAULT_PORT}]
    ports = []
    for port in declared:
        number = port["containerPort"]
        entry: Json = {"port": number, "targetPort": number, "protocol": port.get("protocol") or "TCP"}
        if port.get("name"):
            entry["name"] = port["name"]
        protocol = app_protocols.get(port.get("name") or "")
        if protocol:
            entry["appProtocol"] = protocol
        ports.append(entry)
    return tuple(ports)


def requests_any(specs: Iterable[Mapping[str, Any] | None], resources: Iterable[str]) -> bool:
    """Whether any container of the pods asks for one of these resources."""
    wanted = set(resources)
    for spec in specs:
        for container in (spec or {}).get("containers") or []:
            asked = container.get("resources") or {}
            if wanted & {*(asked.get("requests") or {}), *(asked.get("limits") or {})}:
                return True
    return False


def _equip_runner(plan: PodPlan) -> Json | None:
    source_runner = plan.source.get("runner")
    if source_runner is None:
        return None
    runner: Json = deepcopy(dict(source_runner))
    runner.setdefault("name", MAIN_CONTAINER)
    environment = Environment(runner.get("env") or [])
    for variable in plan.parts.env:
        environment.set_default(variable)
    mounts = runner.get("volumeMounts") or []
    taken = {mount.get("mountPath") for mount in mounts}
    mounts.extend(deepcopy(mount) for mount in plan.parts.mounts if mount["mountPath"] not in taken)
    if mounts:
        runner["volumeMounts"] = mounts
    if plan.accelerator is not None:
        accelerators.set_resources(runner, plan.accelerator, plan.service_source.get("runner"))
    accelerators.override_arguments(runner, plan.overrides)
    if plan.component is not Component.ROUTER and not plan.overrides.get("tensorParallelismOverride"):
        count = accelerators.accelerator_count(runner, plan.counted_resources)
        if count:
            environment.replace({"name": PARALLELISM_SIZE, "value": str(count * plan.pods_per_instance)})
    for name in sorted(plan.router_config):
        environment.append({"name": name, "value": plan.router_config[name]})
    overridden = plan.overrides.get("environmentOverride") or {}
    for name in sorted(overridden):
        environment.replace({"name": name, "value": overridden[name]})
    if environment.variables:
        runner["env"] = environment.variables
    return runner


class Environment:
    """A container's env list: one entry a name, in order."""

    def __init__(self, variables: list[Json]) -> None:
        self.variables = variables

    def set_default(self, variable: Mapping[str, Any]) -> None:
        """Append it, unless a variable of that name exists, whatever its value."""
        if self._find(variable["name"]) is None:
            self.variables.append(dict(variable))

    def replace(self, variable: Mapping[str, Any]) -> None:
        """Set it in the place of a variable of the same name, else at the end."""
        place = self._find(variable["name"])
        if place is None:
            self.variables.append(dict(variable))
        else:
            self.variables[place] = dict(variable)

    def append(self, variable: Mapping[str, Any]) -> None:
        """Set it at the end; a variable of the same name goes."""
        self.variables[:] = [entry for entry in self.variables if entry.get("name") != variable["name"]]
        self.variables.append(dict(variable))

    def _find(self, name: str) -> int | None:
        return next((index for index, entry in enumerate(self.variables) if entry.get("name") == name), None)


def _place(containers: list[Json], runner: Json | None, plan: PodPlan) -> tuple[list[Json], int]:
    """The containers with the runner among them, and the index of the main one."""
    if runner is None:
        if not containers:
            raise _not_configured(plan)
        return containers, 0
    for index, container in enumerate(containers):
        if container.get("name") == runner["name"]:
            merged = merge_object(container, runner, CONTAINER)
            arguments = [*(container.get("args") or []), *(runner.get("args") or [])]
            if arguments:
                merged["args"] = arguments
            containers[index] = merged
            return containers, index
    return [*containers, runner], len(containers)


def _not_configured(plan: PodPlan) -> ComponentNotConfiguredError:
    name = plan.component.value
    return ComponentNotConfiguredError(
        f"{name} has no container: spec.{name} declares none and runtime {plan.runtime_name} has no "
        f"{plan.component.config_key} that does (no containers found in pod spec and no runner spec provided)",
        plan.component,
    )


def _add_volumes(spec: Json, volumes: Iterable[Mapping[str, Any]]) -> None:
    present = spec.get("volumes") or []
    names = {volume.get("name") for volume in present}
    present.extend(deepcopy(dict(volume)) for volume in volumes if volume["name"] not in names)
    if present:
        spec["volumes"] = present


def _set_node_selector(spec: Json, plan: PodPlan) -> None:
    """Low to high: model-ready, component config, runtime, class, service component."""
    ready = plan.parts.node_selector
    selector: dict[str, str] = {**ready}
    selector.update(plan.runtime_source.get("nodeSelector") or {})
    selector.update(plan.runtime_node_selector)
    selector.update(plan.class_node_selector)
    selector.update(plan.service_source.get("nodeSelector") or {})
    if plan.keep_model_selector:
        selector.update(ready)
    if selector:
        spec["nodeSelector"] = selector
    else:
        spec.pop("nodeSelector", None)


def _set_node_affinity(spec: Json, plan: PodPlan) -> None:
    if plan.accelerator is None or plan.service_source.get("affinity"):
        return
    wanted = accelerators.class_node_affinity(plan.accelerator)
    affinity = spec.get("affinity") or {}
    if wanted and not affinity.get("nodeAffinity"):
        spec["affinity"] = {**affinity, "nodeAffinity": wanted}


def _set_default_probe(containers: Iterable[Json]) -> None:
    """Without it a pod counts as ready at once (`spec/serving-runtimes.md section 7.7`)."""
    for container in containers:
        if container.get("name") == MAIN_CONTAINER and not container.get("readinessProbe"):
            ports = container.get("ports") or []
            port = ports[0]["containerPort"] if ports else _DEFAULT_PORT
            container["readinessProbe"] = {"tcpSocket": {"port": port}, **_DEFAULT_PROBE}
