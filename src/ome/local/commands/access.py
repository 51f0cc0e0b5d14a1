"""`ome local kubeconfig`, `env`, `url`: how to reach the cluster and what runs in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from ome.kube.errors import NotFound
from ome.kube.resources import ENDPOINT_SLICES, SERVICES
from ome.kube.selectors import format_labels
from ome.kube.sync import SyncClient
from ome.local.commands.data import VARIABLE, DataDir, is_locked, read_json, write_private
from ome.local.commands.options import connect, data_option, output_option, print_json
from ome.local.commands.refusals import Refusal

_LISTS = ("clusters", "users", "contexts")


@click.command()
@data_option
@click.option("--path", "only_path", is_flag=True, help="Print where the file is.")
@click.option(
    "--merge",
    is_flag=True,
    help="Add the context ome-local to your own kubeconfig ($KUBECONFIG's first file, or ~/.kube/config).",
)
@click.option("--use", is_flag=True, help="With --merge: make ome-local the current context.")
def kubeconfig(data: DataDir, only_path: bool, merge: bool, use: bool) -> None:
    """Print the cluster's kubeconfig. Your own is never touched unless you say --merge."""
    if use and not merge:
        raise click.UsageError("--use needs --merge")
    if not data.kubeconfig.exists():
        raise Refusal(f"there is no cluster in {data.root}; `ome local up` makes one")
    if only_path:
        click.echo(str(data.kubeconfig))
    elif merge:
        target = _own_kubeconfig(data)
        _merge(data.kubeconfig, target, use=use)
        click.echo(f"Context ome-local is now in {target}.")
    else:
        click.echo(data.kubeconfig.read_text())


def _own_kubeconfig(data: DataDir) -> Path:
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    target = Path(named[0]) if named else Path.home() / ".kube" / "config"
    if target.exists() and target.samefile(data.kubeconfig):
        raise Refusal("KUBECONFIG already is the cluster's own kubeconfig; unset it to merge into ~/.kube/config")
    return target


def _merge(source: Path, target: Path, *, use: bool) -> None:
    ours = _read(source)
    theirs: dict[str, Any] = _read(target) if target.exists() else {"apiVersion": "v1", "kind": "Config"}
    for name in _LISTS:
        ours_by_name = {entry["name"]: entry for entry in ours[name]}
        kept = [entry for entry in theirs.get(name) or [] if entry.get("name") not in ours_by_name]
        theirs[name] = [*kept, *ours_by_name.values()]
    if use or not theirs.get("current-context"):
        theirs["current-context"] = ours["current-context"]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_private(target.resolve(), yaml.safe_dump(theirs, sort_keys=False))
    except OSError as error:
        raise Refusal(f"cannot write {target}: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise Refusal(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict):
        raise Refusal(f"{path} is no kubeconfig; it is left as it is")
    return found


@click.command()
@data_option
@click.option("--shell", type=click.Choice(["sh", "fish"]), default="sh", show_default=True)
@output_option
def env(data: DataDir, shell: str, output: str) -> None:
    """Print lines for your shell: eval "$(ome local env)"."""
    values = {"KUBECONFIG": str(data.kubeconfig), VARIABLE: str(data.root)}
    if output == "json":
        print_json(values)
        return
    for name, value in values.items():
        quoted = shlex.quote(value)
        click.echo(f"export {name}={quoted}" if shell == "sh" else f"set -gx {name} {quoted};")


@click.command()
@data_option
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="A Service of this cluster, whose nodes `ome local nodes` plays, instead of the embedded one.",
)
@click.argument("service", metavar="NAMESPACE/NAME")
def url(data: DataDir, kubeconfig: str | None, service: str) -> None:
    """Print an address on this machine that reaches a Service's ready pods."""
    namespace, slash, name = service.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise click.BadParameter("expected NAMESPACE/NAME", param_hint="NAMESPACE/NAME")
    if kubeconfig and not is_locked(data.stand_in_lock):
        raise Refusal(f"`ome local nodes` does not run with the files of {data.stand_in}")
    urls = data.stand_in_urls if kubeconfig else data.urls
    with connect(data, kubeconfig) as client:
        try:
            found = client.get(SERVICES, name, namespace)
        except NotFound as error:
            raise Refusal(str(error)) from error
        address = read_json(urls).get(service)
        if address:
            click.echo(address)
            return
        if not _ready_pods(client, found):
            raise Refusal(f"no pod behind Service {service} is ready")
    raise Refusal(
        f"the pods behind Service {service} are simulated, nothing listens in them: "
        "an image that starts with local/ runs as a real process"
    )


def _ready_pods(client: SyncClient, service: Mapping[str, Any]) -> list[str]:
    meta = service["metadata"]
    selector = format_labels({"kubernetes.io/service-name": meta["name"]})
    slices = client.list(ENDPOINT_SLICES, meta["namespace"], label_selector=selector)
    return [
        (endpoint.get("targetRef") or {}).get("name", "")
        for found in slices
        for endpoint in found.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready")
    ]
