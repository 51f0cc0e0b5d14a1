"""`ome local image deny|allow|list`: which images exist. The list is a ConfigMap, so it works on any cluster."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ome.kube.errors import AlreadyExists, Conflict, NotFound
from ome.kube.resources import CONFIG_MAPS
from ome.kube.sync import SyncClient
from ome.local.commands.data import DataDir
from ome.local.commands.options import cluster_option, connect, data_option, output_option, print_json
from ome.local.commands.refusals import Refusal
from ome.local.node.images import CONFIG_MAP, CONFIG_NAMESPACE, DENIED_KEY, policy_from

_ATTEMPTS = 5


@click.group()
def image() -> None:
    """Decide which images exist: every one does, unless a pattern denies it.

    A PATTERN is a shell pattern for the whole reference: '*:v0.0.0-missing*', 'docker.io/lmsysorg/*'.
    """


@image.command()
@data_option
@cluster_option
@click.argument("pattern")
def deny(data: DataDir, kubeconfig: str | None, pattern: str) -> None:
    """From now on, images that match PATTERN cannot be pulled."""
    _checked(pattern)
    with connect(data, kubeconfig) as client:
        denied = _read(client)[0]
        if pattern in denied:
            click.echo(f"{pattern} is already denied.")
            return
        _change(client, add=pattern)
    click.echo(f"Denied {pattern}.")


@image.command()
@data_option
@cluster_option
@click.argument("pattern")
def allow(data: DataDir, kubeconfig: str | None, pattern: str) -> None:
    """Take PATTERN off the list; pods that wait pull again when their back-off ends."""
    _checked(pattern)
    with connect(data, kubeconfig) as client:
        denied = _read(client)[0]
        if pattern not in denied:
            known = ", ".join(denied) or "nothing"
            raise Refusal(f"{pattern} is not on the list; denied is: {known}")
        _change(client, remove=pattern)
    click.echo(f"Allowed {pattern}.")


@image.command("list")
@data_option
@cluster_option
@output_option
def list_(data: DataDir, kubeconfig: str | None, output: str) -> None:
    """Print the denied patterns, one a line."""
    with connect(data, kubeconfig) as client:
        denied = _read(client)[0]
    if output == "json":
        print_json({"denied": list(denied)})
        return
    for pattern in denied:
        click.echo(pattern)


def _checked(pattern: str) -> None:
    if not pattern.strip() or pattern != pattern.strip() or "\n" in pattern:
        raise click.BadParameter("a pattern is not empty and has no blanks around it", param_hint="PATTERN")


def _read(client: SyncClient) -> tuple[Sequence[str], str]:
    """The patterns, and the version of the ConfigMap (empty when there is none)."""
    try:
        found = client.get(CONFIG_MAPS, CONFIG_MAP, CONFIG_NAMESPACE)
    except NotFound:
        return (), ""
    return policy_from(found.get("data")).denied, str(found["metadata"]["resourceVersion"])


def _change(client: SyncClient, *, add: str = "", remove: str = "") -> None:
    for _ in range(_ATTEMPTS):
        denied, version = _read(client)
        wanted = [pattern for pattern in denied if pattern != remove]
        if add and add not in wanted:
            wanted.append(add)
        data = {DENIED_KEY: "".join(f"{pattern}\n" for pattern in wanted)}
        try:
            if version:
                body = {"metadata": {"resourceVersion": version}, "data": data}
                client.patch(CONFIG_MAPS, CONFIG_MAP, CONFIG_NAMESPACE, body)
            else:
                metadata = {"name": CONFIG_MAP, "namespace": CONFIG_NAMESPACE}
                client.create(
                    CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                )
        except (Conflict, AlreadyExists):
            continue
        return
    raise Refusal("the list of images is being changed by somebody else; try again")
