"""`kubectl ome instance status`: one Instance with its pods and their Warning events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from ome.cli.app import App
from ome.cli.commands.instance import component_flag, read_service, write_report
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, ome_namespace_option, output_option, text_option

_FORMATS = ("table", "wide", "json", "yaml")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
MAX_INDEX = 2**31 - 1


def _index(value: str) -> int:
    if not _INDEX.fullmatch(value) or int(value) > MAX_INDEX:
        raise CliError("instance must be a canonical integer from 0 through 2147483647")
    return int(value)


def _deployment(session: Any, service: Mapping[str, Any], component: str, ome_namespace: str) -> Any:
    from ome.cli.evidence.effective import effective
    from ome.cli.evidence.instance_detail import Deployment
    from ome.cli.evidence.modes import VIRTUAL, component_modes
    from ome.cli.runtime_reads import read_runtime

    if any(mode.mode == VIRTUAL for mode in component_modes(service, {})):
        return Deployment(VIRTUAL, "ServiceAnnotation", "InferenceService", "Declared")
    found = effective(read_runtime(session, service, ome_namespace))
    if found.active_spec is None:
        return Deployment("Unknown", "-", "-", "Unavailable")
    origin = "ControllerRevision" if found.active.revision else "LiveRuntime"
    for mode in component_modes(service, found.active_spec):
        if mode.component == component:
            return Deployment(mode.mode, mode.source, origin, "Computed")
    return Deployment("NotDeclared", "-", origin, "Computed")


def _pods(
    session: Any, service: Mapping[str, Any], component: str, index: int
) -> tuple[list[Any], list[tuple[str, str]]]:
    """The Instance's pods with their Warning events, at most 16; and what could not be read."""
    from ome.api import keys
    from ome.cli.evidence.instance_detail import MAX_PODS, PodEvents, by_interest
    from ome.cli.session import reason_of
    from ome.kube.errors import KubeError
    from ome.kube.resources import EVENTS, PODS

    namespace, name = objects.namespace(service), objects.name(service)
    selector = {
        keys.INFERENCE_SERVICE: name,
        keys.COMPONENT: component,
        keys.MANAGED_BY: keys.MANAGED_BY_OMENATIVE,
        keys.INSTANCE_INDEX: str(index),
    }
    try:
        listed = session.listing(PODS, namespace, label_selector=",".join(f"{k}={v}" for k, v in selector.items()))
    except KubeError as error:
        return [], [("PodsUnavailable", reason_of(error))]
    problems = []
    pods = by_interest(listed.items)
    if listed.truncated or len(pods) > MAX_PODS:
        problems.append(("PodsTruncated", f"{len(pods)} pods"))
    found = []
    for pod in pods[:MAX_PODS]:
        fields = f"involvedObject.kind=Pod,involvedObject.name={objects.name(pod)},type=Warning"
        try:
            events = session.listing(EVENTS, namespace, field_selector=fields, page=25, pages=1).items
        except KubeError as error:
            problems.append(("EventsUnavailable", reason_of(error)))
            events = []
        mine = [event for event in events if objects.text(event, "involvedObject", "uid") in ("", objects.uid(pod))]
        found.append(PodEvents(pod, mine))
    return found, list(dict.fromkeys(problems))


def _status(args: tuple[str, ...], component: str, ome_namespace: str, output: str) -> None:
    from ome.cli.evidence import instance_detail
    from ome.cli.output.table import render_table
    from ome.cli.reads import read_replicas
    from ome.cli.session import Session

    exactly(args, 2)
    component, index = component_flag(component), _index(args[1])
    check_output(output, _FORMATS)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    deployment = _deployment(session, service, component, ome_namespace)
    replicas = read_replicas(session, service)
    pods, problems = _pods(session, service, component, index) if replicas.of(component) else ([], [])
    found = instance_detail.instance_detail(service, replicas, component, index, deployment, pods, problems)
    if output == "table":
        app.out(render_table(instance_detail.HEADER, instance_detail.table_rows(found), app.width()))
    elif output == "wide":
        app.out(render_table(instance_detail.HEADER, instance_detail.wide_rows(found), app.width()))
    else:
        warnings = ["PartialData"] if found.issues else []
        write_report(app, "InstanceStatusReport", service, instance_detail.content(found), warnings, output)


status_command = Command(
    "status",
    _status,
    params=[
        arguments("INFERENCESERVICE INDEX"),
        text_option("--component", help="engine, decoder or router."),
        ome_namespace_option(),
        output_option(),
    ],
    help="Show one Instance: phase, revisions, operation, last failure, pods and their Warning events.",
)
