"""`kubectl ome migration status` and `history`."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.commands.instance import read_service, write_report
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, output_option, text_option


def _check_component(component: str) -> None:
    if component and component not in objects.COMPONENTS:
        raise CliError("component must be engine, decoder, or router")


def _read_status(session: Any, service: Any, component: str) -> Any:
    from ome.cli.evidence.migrations import migration_status
    from ome.cli.reads import list_replicas

    listed = list_replicas(session, service)
    return migration_status(service, listed.items, component, listed.truncated)


def _status(args: tuple[str, ...], component: str, output: str) -> None:
    from ome.cli.evidence import migrations
    from ome.cli.output.table import render_table
    from ome.cli.session import Session, reason_of
    from ome.kube.errors import KubeError

    exactly(args, 1)
    check_output(output, ("table", "json", "yaml"))
    _check_component(component)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    try:
        found = _read_status(session, service, component)
    except KubeError as error:
        raise CliError(f"list inferencereplicas {session.namespace}: {reason_of(error)}") from error
    if output == "table":
        app.out(render_table(migrations.HEADER, migrations.rows(found), app.width()))
        return
    content, warnings = migrations.content(found), migrations.warnings(found)
    write_report(app, "MigrationStatusReport", service, content, warnings, output)


def _read_audit(session: Any, service: Any) -> tuple[list[Any], list[str], str]:
    """(entries, issues, state) of the audit ConfigMap; one that does not exist is no issue."""
    from ome.cli.evidence.migrations import audit_entries
    from ome.cli.session import reason_of
    from ome.kube.errors import KubeError
    from ome.kube.resources import CONFIG_MAPS

    name = f"{objects.name(service)}-ome-migration-audit"
    try:
        found = session.find(CONFIG_MAPS, name, objects.namespace(service))
    except KubeError as error:
        return [], ["AuditUnavailable"], reason_of(error)
    entries, issues = audit_entries(found, service)
    return entries, issues, "NotFound" if found is None else "Reported"


def _history(args: tuple[str, ...], component: str, output: str) -> None:
    from ome.cli.evidence import migrations
    from ome.cli.output.table import render_table
    from ome.cli.session import Session
    from ome.kube.errors import KubeError

    exactly(args, 1)
    check_output(output, ("table", "wide", "json", "yaml"))
    _check_component(component)
    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = read_service(session, args[0])
    issues: list[str] = []
    try:
        status = _read_status(session, service, component)
    except KubeError:
        status = None
        issues.append("AuthoritativeUnavailable")
    entries, audit_issues, audit_state = _read_audit(session, service)
    found = migrations.migration_history(status, entries, component, [*issues, *audit_issues], audit_state)
    if output == "table":
        app.out(render_table(migrations.HISTORY_HEADER, migrations.history_rows(found), app.width()))
    elif output == "wide":
        app.out(render_table(migrations.HISTORY_WIDE, migrations.history_wide_rows(found), app.width()))
    else:
        warnings = ["PartialData"] if found.state == "Partial" else []
        write_report(app, "MigrationHistoryReport", service, migrations.history_content(found), warnings, output)


_COMPONENT = "Only this component: engine, decoder or router."

status_command = Command(
    "status",
    _status,
    params=[arguments(), text_option("--component", help=_COMPONENT), output_option("table, json or yaml.")],
    help="Show the migrations of a service that run or ended recently.",
)
history_command = Command(
    "history",
    _history,
    params=[arguments(), text_option("--component", help=_COMPONENT), output_option()],
    help="Show a service's migrations with the audit trail behind them.",
)
