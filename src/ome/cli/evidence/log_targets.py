"""Which pods and containers `kubectl ome logs` reads (spec/cli-status-get-logs.md section 3). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api import keys
from ome.cli.errors import CliError
from ome.cli.evidence import objects

MAIN_CONTAINER = "ome-container"


class LogRequest(NamedTuple):
    service: str
    component: str
    instance: int
    revision: str
    container: str


class LogTarget(NamedTuple):
    pod: str
    container: str
    component: str
    scheduled: bool
    containers: tuple[str, ...]


def resolve_revision(request: LogRequest) -> LogRequest:
    """A full revision name also says the component; a bare hash needs `--component`. Raises the flag errors."""
    component, revision = request.component, request.revision
    if component and component not in objects.COMPONENTS:
        raise CliError(f'invalid component "{component}" (valid: engine, decoder, router)')
    if revision:
        named = _component_of(request.service, revision)
        if named is None and not objects.is_hash8(revision):
            raise CliError(f'invalid revision "{revision}": give <service>-<component>-<8 hex digits>, or the 8 digits')
        if named is None and not component:
            raise CliError("hash-only --revision requires --component")
        if named is not None and component and named != component:
            raise CliError(f'revision "{revision}" is of component {named}, not {component}')
        component = component or named or ""
    if request.instance >= 0 and not component:
        raise CliError("--instance requires --component")
    return request._replace(component=component, revision=revision.rpartition("-")[2])


def _component_of(service: str, revision: str) -> str | None:
    for component in objects.COMPONENTS:
        prefix = f"{service}-{component}-"
        if revision.startswith(prefix) and objects.is_hash8(revision[len(prefix) :]):
            return component
    return None


def selector(request: LogRequest) -> str:
    """The label selector, keys sorted as kubectl prints them."""
    labels = {keys.INFERENCE_SERVICE: request.service}
    if request.component:
        labels[keys.COMPONENT] = request.component
    if request.instance >= 0:
        labels |= {keys.MANAGED_BY: keys.MANAGED_BY_OMENATIVE, keys.INSTANCE_INDEX: str(request.instance)}
    if request.revision:
        labels |= {keys.MANAGED_BY: keys.MANAGED_BY_OMENATIVE, keys.REVISION_HASH: request.revision}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _containers(pod: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(objects.text(entry, "name") for entry in objects.items(pod, "spec", "containers"))


def _container(names: Sequence[str], asked: str) -> str:
    """The one asked for, OME's main container, or the only one; `""` when there is no telling."""
    if asked:
        return asked
    if MAIN_CONTAINER in names:
        return MAIN_CONTAINER
    return names[0] if len(names) == 1 else ""


def ambiguous(target: LogTarget) -> CliError:
    """The error of a pod whose container cannot be chosen, in the API server's words."""
    choices = " ".join(target.containers)
    return CliError(
        f"streaming logs for pod {target.pod}: a container name must be specified for pod {target.pod}, choose one of: "
        f"[{choices}]"
    )


def targets(pods: Sequence[Mapping[str, Any]], container: str) -> list[LogTarget]:
    """One target a pod, in name order."""
    found = [
        LogTarget(
            objects.name(pod),
            _container(_containers(pod), container),
            objects.label(pod, keys.COMPONENT) or "-",
            bool(objects.text(pod, "spec", "nodeName")),
            _containers(pod),
        )
        for pod in pods
    ]
    return sorted(found)
