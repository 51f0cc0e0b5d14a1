"""`kubectl ome migration start`: its flags and their limits."""

from __future__ import annotations

import re

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, ome_namespace_option, output_option, parse_request_timeout, text_option
from ome.cli.output.text import is_hostile, looks_like_credential

INVALID = "invalid migration request values; use --help"
INSTANCE = "instance must be a canonical integer from 0 through 2147483647"
HINTS = "invalid migration node hints"
MAX_HINTS = 8
MAX_REASON_BYTES = 256

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _instance(value: str) -> int:
    if not _INDEX.fullmatch(value) or int(value) >= 2**31:
        raise CliError(INSTANCE)
    return int(value)


def _hints(values: tuple[str, ...], from_node: str) -> tuple[str, ...]:
    nodes = tuple(node for value in values for node in value.split(","))
    valid = all(objects.is_subdomain(node) for node in nodes) and len(set(nodes)) == len(nodes) <= MAX_HINTS
    if not valid or from_node in nodes:
        raise CliError(HINTS)
    return nodes


def _is_reason(value: str) -> bool:
    secret = "://" in value or looks_like_credential(value)
    return len(value.encode()) <= MAX_REASON_BYTES and not is_hostile(value) and not secret


def _start(
    args: tuple[str, ...],
    component: str,
    instance: str,
    from_node: str,
    hint_node: tuple[str, ...],
    reason: str,
    requested_by: str,
    request_id: str,
    dry_run: str,
    ome_namespace: str,
    output: str,
    yes: bool,
) -> None:
    app: App = click.get_current_context().obj
    index = _instance(instance)
    valid = (
        len(args) == 1
        and component in objects.COMPONENTS
        and (not from_node or objects.is_subdomain(from_node))
        and _is_reason(reason)
        and _LABEL.fullmatch(requested_by) is not None
        and (not request_id or _UUID.fullmatch(request_id) is not None)
        and dry_run in ("none", "client", "server")
        and output in ("table", "wide", "json", "yaml")
    )
    if not valid:
        raise CliError(INVALID)
    hints = _hints(hint_node, from_node)
    if not objects.is_subdomain(args[0]):
        raise CliError("invalid inference service name")
    if not objects.is_label_name(ome_namespace):
        raise CliError("action namespaces are invalid")
    parse_request_timeout(app.flags.request_timeout)

    from ome.cli.actions.connect import open_action
    from ome.cli.actions.migration_start import Request, migration_start
    from ome.cli.actions.runtime_sync import new_request_id

    session = open_action(app, "migration REST configuration is unavailable", "action namespaces are invalid")
    request = Request(
        args[0],
        component,
        index,
        from_node,
        hints,
        reason,
        requested_by,
        request_id or new_request_id(),
        bool(request_id),
        dry_run,
        ome_namespace,
        output,
        yes,
    )
    migration_start(app, session, request)


command = Command(
    "start",
    _start,
    flag_error=INVALID,
    params=[
        arguments(),
        text_option("--component", help="engine, decoder or router."),
        text_option("--instance", help="Instance index."),
        text_option("--from-node", help="Node to leave; needed when the pods span several."),
        click.Option(["--hint-node"], multiple=True, help="Preferred node; up to eight."),
        text_option("--reason", help="Why, in at most 256 bytes; no addresses or secrets."),
        text_option("--requested-by", default="kubectl-ome", help="A label for who asks."),
        text_option("--request-id", help="Look an earlier request up; sends nothing."),
        text_option("--dry-run", default="none", help="none, client or server."),
        ome_namespace_option(),
        output_option(),
        click.Option(["--yes"], is_flag=True, help="Skip the prompt, never a check."),
    ],
    help="Alpha: ask OME to move one Instance to another node.",
)
