"""`kubectl ome instance release-held`: its flags, in the order the spec checks them (spec/cli-instance.md section
5.1).
"""

from __future__ import annotations

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, ome_namespace_option, output_option, parse_request_timeout, text_option

FLAG_ERROR = "invalid held-release action flags; use --help"


def _safe(value: str) -> bool:
    return objects.is_subdomain(value)


def _release_held(
    args: tuple[str, ...], component: str, revision: str, dry_run: str, ome_namespace: str, output: str, yes: bool
) -> None:
    app: App = click.get_current_context().obj
    if len(args) != 1:
        raise CliError(FLAG_ERROR)
    if output not in ("table", "wide", "json", "yaml"):
        raise CliError("output must be table, wide, json or yaml")
    if dry_run not in ("none", "client", "server"):
        raise CliError("dry-run must be none, client or server")
    if component not in objects.COMPONENTS:
        raise CliError("component must be engine, decoder or router")
    if not (_safe(args[0]) and _safe(revision)):
        raise CliError("InferenceService and revision identities are required and must be safe")
    if not objects.is_label_name(ome_namespace):
        raise CliError("action OME namespace is invalid")
    try:
        parse_request_timeout(app.flags.request_timeout)
    except CliError as error:
        raise CliError(FLAG_ERROR) from error

    from ome.cli.actions.connect import open_action
    from ome.cli.actions.release_held import Request, release_held

    session = open_action(
        app, "held-release REST configuration is unavailable", "held-release action namespaces are invalid"
    )
    release_held(app, session, Request(args[0], component, revision, dry_run, ome_namespace, output, yes))


command = Command(
    "release-held",
    _release_held,
    flag_error=FLAG_ERROR,
    params=[
        arguments(),
        text_option("--component", help="engine, decoder or router."),
        text_option("--revision", help="Full target revision, or its eight-digit hash."),
        text_option("--dry-run", default="none", help="none, client or server."),
        ome_namespace_option(),
        output_option(),
        click.Option(["--yes"], is_flag=True, help="Skip the prompt, never a check."),
    ],
    help="Alpha: ask OME to release one Held retry block, so that it tries the revision again.",
)
