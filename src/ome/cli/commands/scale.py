"""`kubectl ome scale`: its flags; every malformed one is the same message."""

from __future__ import annotations

import re

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, ome_namespace_option, output_option, parse_request_timeout, text_option

INVALID = (
    "invalid scale arguments; require one service, component engine|decoder|router, positive base-10 --replicas, "
    "supported output/dry-run and valid namespace/context/timeout"
)
_COUNT = re.compile(r"[1-9][0-9]{0,9}")


def _scale(
    args: tuple[str, ...],
    component: str,
    replicas: str,
    override_autoscaler: bool,
    dry_run: str,
    ome_namespace: str,
    output: str,
    yes: bool,
) -> None:
    app: App = click.get_current_context().obj
    valid = (
        len(args) == 1
        and objects.is_subdomain(args[0])
        and component in objects.COMPONENTS
        and _COUNT.fullmatch(replicas) is not None
        and int(replicas) < 2**31
        and output in ("table", "wide", "json", "yaml")
        and dry_run in ("none", "client", "server")
        and objects.is_label_name(ome_namespace)
        and (yes or not override_autoscaler)
    )
    if not valid:
        raise CliError(INVALID)
    try:
        parse_request_timeout(app.flags.request_timeout)
    except CliError as error:
        raise CliError(INVALID) from error

    from ome.cli.actions.connect import open_action
    from ome.cli.actions.guard import READ_FAILED
    from ome.cli.actions.scale import Request, scale

    session = open_action(
        app,
        READ_FAILED,
        "scale namespace is unavailable or invalid",
        context_unsafe="scale context is unavailable or unsafe",
        namespace_failed=READ_FAILED,
    )
    request = Request(args[0], component, int(replicas), override_autoscaler and yes, dry_run, ome_namespace, output)
    scale(app, session, request)


command = Command(
    "scale",
    _scale,
    flag_error=INVALID,
    params=[
        arguments(),
        text_option("--component", help="engine, decoder or router."),
        text_option("--replicas", help="Instances, 1 to 2147483647."),
        click.Option(["--override-autoscaler"], is_flag=True, help="The count's owner may overwrite it; needs --yes."),
        text_option("--dry-run", default="none", help="none, client or server."),
        ome_namespace_option(),
        output_option(),
        click.Option(["--yes"], is_flag=True, help="Confirm this exact request; scale never prompts."),
    ],
    help="Alpha: ask once for a number of Instances of one OMENative component.",
)
