"""`kubectl ome runtime effective` and `history`."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, ome_namespace_option, output_option

_FORMATS = ("table", "wide", "json", "yaml")
_SOURCES = ["InferenceService", "ServingRuntime", "ClusterServingRuntime", "ControllerRevision"]


def _collect(app: App, args: tuple[str, ...], ome_namespace: str, output: str) -> tuple[Any, Any, Any]:
    """(session, service, evidence) of a service, with its model's compatibility looked at."""
    from ome.cli.reads import get_service
    from ome.cli.runtime_reads import read_runtime, with_compatibility
    from ome.cli.session import Session
    from ome.kube.errors import KubeError

    exactly(args, 1)
    check_output(output, _FORMATS)
    session = Session.open(app)
    try:
        service = get_service(session, args[0])
    except KubeError as error:
        raise CliError(f"get InferenceService: {error}") from error
    try:
        evidence = with_compatibility(session, read_runtime(session, service, ome_namespace))
    except KubeError as error:
        raise CliError(f"collect runtime evidence: {error}") from error
    return session, service, evidence


def _write(app: App, kind: str, service: Any, content: Any, warnings: list[str], output: str) -> None:
    from ome.cli.output.report import encode, report

    document = report(
        kind,
        objects.namespace(service),
        objects.name(service),
        app.collected_at(),
        content,
        sources=_SOURCES,
        warnings=warnings,
    )
    app.out(encode(document, output))


def _effective(args: tuple[str, ...], ome_namespace: str, output: str) -> None:
    from ome.cli.evidence import effective_report
    from ome.cli.evidence.effective import effective
    from ome.cli.output.table import render_table

    app: App = click.get_current_context().obj
    _, service, evidence = _collect(app, args, ome_namespace, output)
    found = effective(evidence)
    if output == "table":
        app.out(render_table(effective_report.HEADER, effective_report.rows(found), app.width()))
    elif output == "wide":
        app.out(render_table(effective_report.WIDE_HEADER, effective_report.wide_rows(found), app.width()))
    else:
        content, warnings = effective_report.content(found), effective_report.warnings(found)
        _write(app, "RuntimeEffectiveReport", service, content, warnings, output)


def _history(args: tuple[str, ...], ome_namespace: str, output: str) -> None:
    from ome.cli.evidence import history
    from ome.cli.evidence.effective import effective
    from ome.cli.output.table import render_table
    from ome.cli.runtime_reads import read_history

    app: App = click.get_current_context().obj
    session, service, evidence = _collect(app, args, ome_namespace, output)
    judged = effective(evidence)
    revisions, window = read_history(session, service, judged, ome_namespace)
    found = history.history(service, judged, dict(evidence.revisions), revisions, window)
    if output == "table":
        width = min(history.WIDTH, app.width() or history.WIDTH)
        app.out(render_table(history.HEADER, history.rows(found), width))
    elif output == "wide":
        app.out(render_table(history.WIDE_HEADER, history.wide_rows(found), app.width()))
    else:
        warnings = ["PartialData"] if found.report_issues else []
        if window.truncated:
            warnings.append("Truncated")
        _write(app, "RuntimeHistoryReport", service, history.content(found), warnings, output)


effective_command = Command(
    "effective",
    _effective,
    params=[arguments(), ome_namespace_option(), output_option()],
    help="Show the runtime a service runs: live as defined now, active as it should run, and its pin.",
)
history_command = Command(
    "history",
    _history,
    params=[arguments(), ome_namespace_option(), output_option()],
    help="List the stored revisions of a service's runtime, newest first. -o wide prints full names.",
)
