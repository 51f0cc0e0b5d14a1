"""`kubectl ome version`: the plugin's version, and the one the manager's Deployment declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ome import __version__
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, exactly, ome_namespace_option
from ome.cli.flags import arguments as positional

DEPLOYMENT = "ome-controller-manager"


def image_version(image: str) -> str:
    """`v1.3.0` of `host:5000/ome-manager:v1.3.0`; with a digest `<tag>@<digest>`, or the digest alone."""
    name, _, image_digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "@".join(part for part in (tag, image_digest) if part) or "unknown (image has no tag or digest)"


def declared_version(deployment: Mapping[str, Any]) -> str:
    """The version of the `manager` container, or of the only one."""
    containers = objects.items(deployment, "spec", "template", "spec", "containers")
    named = [entry for entry in containers if objects.text(entry, "name") == "manager"]
    chosen = named or (containers if len(containers) == 1 else [])
    if not chosen:
        return "unknown (manager container unavailable)"
    return image_version(objects.text(chosen[0], "image"))


def _operator(app: App, ome_namespace: str) -> str:
    from ome.cli.session import Session, is_missing_api, reason_of
    from ome.kube.errors import KubeError
    from ome.kube.resources import DEPLOYMENTS

    try:
        session = Session.open(app)
    except CliError:
        return "unknown (resolve kubernetes-client: Unavailable)"
    try:
        return declared_version(session.get(DEPLOYMENTS, DEPLOYMENT, ome_namespace))
    except KubeError as error:
        if is_missing_api(error):
            return "unknown (get deployments.apps: OMEAPIMissing (install OME first))"
        return f"unknown (get deployments.apps {ome_namespace}/{DEPLOYMENT}: {reason_of(error)})"


def _version(args: tuple[str, ...], ome_namespace: str) -> None:
    from ome.cli.output.table import render_table
    from ome.cli.output.text import neutralise

    exactly(args, 0)
    app: App = click.get_current_context().obj
    operator = _operator(app, ome_namespace)
    if app.is_terminal():
        app.out(render_table(("COMPONENT", "VERSION"), [["Client", __version__], ["Operator", operator]], app.width()))
    else:
        app.out(f"Client Version: {__version__}\nOperator Version: {neutralise(operator)}\n")


command = Command(
    "version",
    _version,
    params=[positional(""), ome_namespace_option()],
    help="Print the version of kubectl-ome, and of OME as its Deployment declares it.",
)
