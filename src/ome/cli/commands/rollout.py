"""`kubectl ome rollout status`, `pause` and `resume`."""

from __future__ import annotations

import click

from ome.cli.app import App
from ome.cli.commands.instance import read_service, write_report
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import (
    Command,
    arguments,
    check_output,
    exactly,
    ome_namespace_option,
    output_option,
    parse_request_timeout,
    text_option,
)


def _status(args: tuple[str, ...], output: str) -> None:
    from ome.cli.evidence import rollout_report
    from ome.cli.evidence.rollout import rollout
    from ome.cli.output.table import render_table
    from ome.cli.session import Session

    exactly(args, 1)
    check_output(output, ("table", "wide", "json", "yaml"))
    app: App = click.get_current_context().obj
    service = read_service(Session.open(app), args[0])
    found = rollout(service)
    if output == "table":
        app.out(render_table(rollout_report.HEADER, rollout_report.rows(found), app.width()))
    elif output == "wide":
        app.out(render_table(rollout_report.WIDE_HEADER, rollout_report.wide_rows(found), app.width()))
    else:
        warnings = ["PartialData"] if found.issues else []
        write_report(app, "RolloutStatusReport", service, rollout_report.content(found), warnings, output)


def _act(
    action: str, args: tuple[str, ...], dry_run: str, ome_namespace: str, output: str, yes: bool, discard: bool
) -> None:
    app: App = click.get_current_context().obj
    exactly(args, 1)
    if output not in ("table", "wide", "json", "yaml"):
        raise CliError("output must be table, wide, json or yaml")
    if dry_run not in ("none", "client", "server"):
        raise CliError("dry-run must be none, client or server")
    if not objects.is_subdomain(args[0]):
        raise CliError("invalid inference service name")
    if not objects.is_label_name(ome_namespace):
        raise CliError("action OME namespace is invalid")
    if discard and not yes:
        raise CliError("--discard-pending-actions requires --yes")
    parse_request_timeout(app.flags.request_timeout)

    from ome.cli.actions.connect import open_action
    from ome.cli.actions.pause import Request, pause_or_resume

    session = open_action(app, "rollout REST configuration is unavailable", "action namespaces are invalid")
    pause_or_resume(app, session, Request(action, args[0], dry_run, ome_namespace, output, yes, discard))


def _pause(args: tuple[str, ...], dry_run: str, ome_namespace: str, output: str, yes: bool) -> None:
    _act("rollout pause", args, dry_run, ome_namespace, output, yes, False)


def _resume(
    args: tuple[str, ...], dry_run: str, ome_namespace: str, output: str, yes: bool, discard_pending_actions: bool
) -> None:
    _act("rollout resume", args, dry_run, ome_namespace, output, yes, discard_pending_actions)


def _action_params() -> list[click.Parameter]:
    return [
        arguments(),
        text_option("--dry-run", default="none", help="none, client or server."),
        ome_namespace_option(),
        output_option(),
        click.Option(["--yes"], is_flag=True, help="Skip the prompt, never a check."),
    ]


status_command = Command(
    "status",
    _status,
    params=[arguments(), output_option()],
    help="Show where each component of a service is in its rollout, as OME reports it.",
)
pause_command = Command(
    "pause", _pause, params=_action_params(), help="Alpha: hold updates, creates and migrations of a whole service."
)
resume_command = Command(
    "resume",
    _resume,
    params=[
        *_action_params(),
        click.Option(
            ["--discard-pending-actions"], is_flag=True, help="Also remove promote and rollback requests; needs --yes."
        ),
    ],
    help="Alpha: clear a pause, of either depth.",
)
