"""`kubectl ome get`: OME's kinds with columns of their own, and merged views of both scopes."""

from __future__ import annotations

import json
from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.flags import Command, arguments, check_output, output_option, text_option

_FORMATS = ("table", "wide", "json", "yaml")
# A list of everything there is: bounded only against an endless answer.
MAX_PAGES = 1000


def _reason(error: Any) -> str:
    from ome.cli.session import is_missing_api, reason_of

    return "OMEAPIMissing (install OME first)" if is_missing_api(error) else reason_of(error)


def _get_one(session: Any, kind: Any, name: str) -> list[tuple[Any, Any]]:
    """The object by name; of a merged view the namespaced one wins."""
    from ome.cli.evidence import objects
    from ome.cli.session import is_missing_api
    from ome.kube.errors import ApiError, KubeError

    if not objects.is_subdomain(name):
        raise CliError(f'{kind.name} name "{name}" is invalid')
    place = f"{session.namespace}/{name}" if kind.namespaced else name
    for position, resource in enumerate(kind.resources):
        try:
            return [(resource, session.get(resource, name, session.namespace if resource.namespaced else ""))]
        except KubeError as error:
            missing = isinstance(error, ApiError) and error.status_code == 404 and not is_missing_api(error)
            if missing and position + 1 < len(kind.resources):
                continue
            raise CliError(f"get {kind.name} {place}: {_reason(error)}") from error
    return []


def _list_all(session: Any, kind: Any, selector: str, all_namespaces: bool) -> list[tuple[Any, Any]]:
    from ome.kube.errors import KubeError

    found: list[tuple[Any, Any]] = []
    for resource in kind.resources:
        namespace = "" if all_namespaces or not resource.namespaced else session.namespace
        try:
            listed = session.listing(resource, namespace, label_selector=selector, pages=MAX_PAGES)
        except KubeError as error:
            place = f" {namespace}" if namespace else ""
            raise CliError(f"list {resource.plural}{place}: {_reason(error)}") from error
        found += [(resource, {"apiVersion": resource.api_version, "kind": resource.kind} | obj) for obj in listed.items]
    return found


def _without_managed_fields(obj: Any) -> Any:
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return obj | {"metadata": meta}


def _encode(document: Any, output: str) -> str:
    from ome.cli.output.report import to_yaml
    from ome.cli.output.text import neutralise_json

    if output == "yaml":
        return to_yaml(document, sort_keys=True)
    return neutralise_json(json.dumps(document, indent=4, ensure_ascii=False)) + "\n"


def _get(args: tuple[str, ...], all_namespaces: bool, selector: str, output: str) -> None:
    from ome.cli.evidence import listing
    from ome.cli.session import Session

    app: App = click.get_current_context().obj
    if not 1 <= len(args) <= 2:
        raise CliError(f"accepts between 1 and 2 arg(s), received {len(args)}")
    check_output(output, _FORMATS)
    kind = listing.find_kind(args[0])
    if kind is None:
        names = ", ".join(entry.name for entry in listing.KINDS)
        raise CliError(f'unknown resource "{args[0]}" (valid resources: {names})')
    name = args[1] if len(args) == 2 else ""
    if name and (all_namespaces or selector):
        raise CliError("a resource name cannot be combined with --all-namespaces or --selector")
    if all_namespaces and not kind.namespaced:
        app.err(f"Warning: {kind.name} is cluster-scoped; --all-namespaces is ignored.\n")
    session = Session.open(app)
    found = _get_one(session, kind, name) if name else _list_all(session, kind, selector, all_namespaces)
    if output in ("json", "yaml"):
        cleaned = [_without_managed_fields(obj) for _, obj in found]
        document = cleaned[0] if name else {"apiVersion": "v1", "items": cleaned, "kind": "List", "metadata": {}}
        app.out(_encode(document, output))
        return
    if not found:
        app.err(f"No {kind.name} found.\n")
        return
    from ome.cli.output.table import render_table

    header, lines = listing.table(kind, found, app.now(), wide=output == "wide", all_namespaces=all_namespaces)
    app.out(render_table(header, lines, app.width()))


command = Command(
    "get",
    _get,
    params=[
        arguments("RESOURCE [NAME]"),
        click.Option(["-A", "--all-namespaces"], is_flag=True, help="List across all namespaces."),
        text_option("-l", "--selector", help="Label selector."),
        output_option(),
    ],
    help="List OME's objects, or show one by name, with columns for its kind.",
)
