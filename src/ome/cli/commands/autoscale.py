"""`kubectl ome autoscale status`: the follow-up of `scale`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ome.cli.app import App
from ome.cli.commands.instance import read_service, write_report
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, output_option


def _live_scale(session: Any, service: Mapping[str, Any], entry: Any) -> Any:
    """The counts of the InferenceReplica a component's autoscaler is aimed at."""
    from ome.cli.evidence.autoscale import LiveScale
    from ome.cli.evidence.replicas import belongs_to, component_of, is_current
    from ome.cli.session import reason_of
    from ome.kube import requests
    from ome.kube.errors import KubeError
    from ome.kube.resources import INFERENCE_REPLICAS

    if entry.target_evidence != "Reported":
        return LiveScale("NotSelected")
    if entry.target_kind != "InferenceReplica":
        return LiveScale("Unsupported")
    name = entry.target_name
    try:
        replica = session.get(INFERENCE_REPLICAS, name, session.namespace)
        scale = session.send(requests.get(INFERENCE_REPLICAS, name, session.namespace, subresource="scale"))
    except KubeError as error:
        reason = reason_of(error)
        return LiveScale(reason if reason in ("Forbidden", "NotFound") else "Unavailable")
    if not belongs_to(replica, service) or component_of(replica) != entry.component:
        return LiveScale("Invalid")
    if objects.is_deleting(replica):
        return LiveScale("Deleting")
    if objects.resource_version(scale) != objects.resource_version(replica):
        return LiveScale("Changed")
    if not is_current(replica, service):
        return LiveScale("Stale")
    return LiveScale(
        "Reported", objects.count(replica, "spec", "replicas"), objects.count(replica, "status", "replicas")
    )


def _status(args: tuple[str, ...], live_scale: bool, output: str) -> None:
    from ome.cli.evidence import autoscale
    from ome.cli.output.table import render_table
    from ome.cli.session import Session

    exactly(args, 1)
    check_output(output, ("table", "wide", "json", "yaml"))
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    found = autoscale.autoscaling(service)
    chosen = found.components if live_scale else ()
    live = {entry.component: _live_scale(session, service, entry) for entry in chosen}
    if output == "table":
        app.out(render_table(autoscale.HEADER, autoscale.rows(found, live), app.width()))
    elif output == "wide":
        app.out(render_table(autoscale.WIDE_HEADER, autoscale.wide_rows(found, session.namespace), app.width()))
    else:
        warnings = [] if found.state == "Reported" else ["PartialData"]
        write_report(app, "AutoscaleStatusReport", service, autoscale.content(found, live), warnings, output)


status_command = Command(
    "status",
    _status,
    params=[
        arguments(),
        click.Option(["--live-scale"], is_flag=True, help="Compare with the InferenceReplicas as they are now."),
        output_option(),
    ],
    help="Show the autoscaler of each component, as OME reports it.",
)
