"""`kubectl ome runtime explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, exactly, ome_namespace_option, text_option

EXPLICIT_NOTE = "Note: spec.runtime is explicit; automatic selection below is hypothetical.\n"
NO_RUNTIMES = "No serving runtimes found in the selected namespace or at cluster scope.\n"
NO_RUNTIMES_FOR_SELECTOR = "No serving runtimes found for selector.\n"
TOO_MANY = "runtime candidate snapshot exceeds the CLI collection limit"


def _model(session: Any, service: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    from ome.cli.selection import read_model
    from ome.kube.resources import CLUSTER_BASE_MODELS

    if service is not None:
        name = objects.text(service, "spec", "model", "name")
        if not name:
            raise CliError(f'InferenceService "{objects.name(service)}" has no spec.model; pass --model instead')
    if not objects.is_subdomain(name):
        raise CliError(f'model name "{name}" is invalid')
    # Reading it again says in the API server's words that it does not exist.
    return read_model(session, name, session.namespace) or session.get(CLUSTER_BASE_MODELS, name)


def _print_context(app: App, session: Any, service: Mapping[str, Any], ome_namespace: str) -> None:
    from ome.cli.evidence import effective_report, explain
    from ome.cli.evidence.effective import effective
    from ome.cli.output.table import render_table
    from ome.cli.runtime_reads import read_runtime, with_compatibility
    from ome.kube.errors import KubeError

    try:
        lines = explain.context_rows(
            effective(with_compatibility(session, read_runtime(session, service, ome_namespace)))
        )
    except KubeError:
        lines = explain.NO_CONTEXT
    app.out(f"{explain.CONTEXT_TITLE}\n" + render_table(effective_report.HEADER, lines, app.width()))


def _explain(args: tuple[str, ...], isvc: str, model: str, with_effective: bool, ome_namespace: str) -> None:
    exactly(args, 0)
    if bool(isvc) == bool(model):
        raise CliError("exactly one of --model or --isvc is required")
    if with_effective and not isvc:
        raise CliError("--with-effective requires --isvc")

    from ome.cli.evidence import explain
    from ome.cli.output.table import render_table
    from ome.cli.reads import get_service
    from ome.cli.selection import judge, read_runtimes
    from ome.cli.session import Session
    from ome.runtimes.selection import InvalidModelError

    app: App = click.get_current_context().obj
    session = Session.open(app)
    service = get_service(session, isvc) if isvc else None
    found_model = _model(session, service, model)
    runtimes = read_runtimes(session, session.namespace)
    if runtimes.truncated:
        raise CliError(TOO_MANY)
    if service is not None and objects.text(service, "spec", "runtime", "name"):
        app.err(EXPLICIT_NOTE)
    if not runtimes.members:
        app.err(NO_RUNTIMES_FOR_SELECTOR if with_effective else NO_RUNTIMES)
    else:
        try:
            candidates = judge(found_model, service, runtimes)
        except InvalidModelError as error:
            raise CliError(str(error)) from error
        lines = explain.rows(candidates, objects.mapping(found_model, "spec"))
        app.out(render_table(explain.HEADER, lines, min(explain.WIDTH, app.width() or explain.WIDTH)))
    if with_effective and service is not None:
        if runtimes.members:
            app.out("\n")
        _print_context(app, session, service, ome_namespace)


command = Command(
    "explain",
    _explain,
    params=[
        arguments(""),
        text_option("--isvc", help="Explain selection for this InferenceService's model, class and modes."),
        text_option("--model", help="Explain selection for this BaseModel or ClusterBaseModel."),
        click.Option(["--with-effective"], is_flag=True, help="Append the effective context; needs --isvc."),
        ome_namespace_option(),
    ],
    help="Explain which runtimes OME could choose, in rank order, and the first check each of the others fails.",
)
