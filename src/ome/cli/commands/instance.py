"""`kubectl ome instance list` and `retry-blocks`: read the service and its replicas, print one report."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, output_option, text_option

_FORMATS = ("table", "json", "yaml")


def component_flag(value: str) -> str:
    if not value:
        raise CliError("--component is required")
    if value not in objects.COMPONENTS:
        raise CliError("component must be engine, decoder, or router")
    return value


def read_service(session: Any, name: str) -> dict[str, Any]:
    from ome.cli.reads import get_service
    from ome.cli.session import is_missing_api, reason_of
    from ome.kube.errors import KubeError

    try:
        return get_service(session, name)
    except KubeError as error:
        reason = "OMEAPIMissing (install OME first)" if is_missing_api(error) else reason_of(error)
        raise CliError(f'get InferenceService "{session.namespace}/{name}": {reason}') from error


def write_report(app: App, kind: str, service: Any, content: Any, warnings: Any, output: str) -> None:
    from ome.cli.output.report import encode, report

    document = report(
        kind,
        objects.namespace(service),
        objects.name(service),
        app.collected_at(),
        content,
        sources=["InferenceService", "InferenceReplica"],
        warnings=warnings,
    )
    app.out(encode(document, output))


def _list(args: tuple[str, ...], output: str) -> None:
    from ome.cli.evidence import instances
    from ome.cli.output.table import render_table
    from ome.cli.reads import read_replicas
    from ome.cli.session import Session

    exactly(args, 1)
    check_output(output, _FORMATS)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    found = instances.instance_list(service, read_replicas(session, service))
    if output == "table":
        app.out(render_table(instances.HEADER, instances.table_rows(found), app.width()))
        return
    warnings = [] if found.state == "OK" else ["PartialData"]
    write_report(app, "InstanceListReport", service, instances.content(found), warnings, output)


def _retry_blocks(args: tuple[str, ...], component: str, output: str) -> None:
    from ome.cli.evidence.retry_blocks import HEADER, retry_blocks_report
    from ome.cli.output.table import render_table
    from ome.cli.reads import read_replicas
    from ome.cli.session import Session

    exactly(args, 1)
    component = component_flag(component)
    check_output(output, _FORMATS)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    found = retry_blocks_report(service, read_replicas(session, service), component, app.now())
    if output == "table":
        app.out(render_table(HEADER, found.rows(), app.width()))
        return
    write_report(app, "InstanceRetryBlocksReport", service, found.content(), found.warnings, output)


list_command = Command(
    "list",
    _list,
    params=[arguments(), output_option("Output format: table, json or yaml.")],
    help="List the Instances of a service's OMENative components, as their InferenceReplicas report them.",
)
retry_blocks_command = Command(
    "retry-blocks",
    _retry_blocks,
    params=[
        arguments(),
        text_option("--component", help="engine, decoder or router."),
        output_option("Output format: table, json or yaml."),
    ],
    help="Show the retry blocks of one component: what OME keeps retrying, and what it holds.",
)
