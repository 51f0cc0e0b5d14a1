"""`kubectl ome runtime sync`: its flags (spec/cli-runtime-and-wait.md section 2.5)."""

from __future__ import annotations

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import (
    Command,
    arguments,
    exactly,
    ome_namespace_option,
    output_option,
    parse_request_timeout,
    text_option,
)


def _sync(args: tuple[str, ...], dry_run: str, ome_namespace: str, output: str, yes: bool) -> None:
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
    parse_request_timeout(app.flags.request_timeout)

    from ome.cli.actions.connect import open_action
    from ome.cli.actions.runtime_sync import Request, new_request_id, runtime_sync

    session = open_action(app, "runtime sync REST configuration is unavailable", "runtime sync namespaces are invalid")
    runtime_sync(app, session, Request(args[0], dry_run, ome_namespace, output, yes, new_request_id()))


command = Command(
    "sync",
    _sync,
    params=[
        arguments(),
        text_option("--dry-run", default="none", help="none, client or server."),
        ome_namespace_option(),
        output_option(),
        click.Option(["--yes"], is_flag=True, help="Skip the prompt, never a check."),
    ],
    help="Alpha: ask OME to roll a pinned, drifted service forward to its runtime as it is now.",
)
