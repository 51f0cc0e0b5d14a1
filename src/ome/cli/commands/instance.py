"""`kubectl ome instance list` and `retry-blocks`: read the service and its replicas, print one report."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, output_option, text_option

_FORMATS = ("table", "json", "yaml")


def _component(value: str) -> str:
    if not value:
        raise CliError("--component is required")
    if value not in objects.COMPONENTS:
        raise CliError("component must be engine, decoder, or router")
    return value


def _service(session: Any, name: str) -> dict[str, Any]:
    from ome.cli.reads import get_service
    from ome.cli.session import is_missing_api, reason_of
    from ome.kube.errors import KubeError

    try:
        return get_service(session, name)
    except KubeError as error:
        reason = "OMEAPIMissing (install OME first)" if is_missing_api(error) else reason_of(error)
        raise CliError(f'get InferenceService "{session.namespace}/{name}": {reason}') from error


def _retry_blocks(args: tuple[str, ...], component: str, output: str) -> None:
    from ome.cli.evidence.retry_blocks import HEADER, retry_blocks_report
    from ome.cli.output.report import encode, report
    from ome.cli.output.table import render_table
    from ome.cli.reads import read_replicas
    from ome.cli.session import Session

    exactly(args, 1)
    component = _component(component)
    check_output(output, _FORMATS)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = _service(session, args[0])
    found = retry_blocks_report(service, read_replicas(session, service), component, app.now())
    if output == "table":
        app.out(render_table(HEADER, found.rows(), app.width()))
        return
    namespace, name = objects.namespace(service), objects.name(service)
    document = report(
        "InstanceRetryBlocksReport",
        namespace,
        name,
        app.collected_at(),
        found.content(),
        sources=["InferenceService", "InferenceReplica"],
        warnings=found.warnings,
    )
    app.out(encode(document, output))


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
