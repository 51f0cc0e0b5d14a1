"""Options that many commands share, and how they reach the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ome.local.commands.data import DataDir, default_folder
from ome.local.commands.refusals import Refusal

if TYPE_CHECKING:
    from ome.kube.sync import SyncClient

F = TypeVar("F", bound=Callable[..., Any])


def _data_dir(context: click.Context, parameter: click.Parameter, value: Path | None) -> DataDir:
    return DataDir((value or default_folder()).expanduser().absolute())


def data_option(command: F) -> F:
    """`--data-dir`, handed over as `data: DataDir`."""
    return click.option(
        "--data-dir",
        "data",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_data_dir,
        help="Where the cluster lives [default: $OME_LOCAL_DATA_DIR or $XDG_DATA_HOME/ome/local].",
    )(command)


def output_option(command: F) -> F:
    """`--output json`, handed over as `output: str`."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the answer."
    )(command)


def cluster_option(command: F) -> F:
    """`--kubeconfig`, for commands that work on any cluster; without it they work on the embedded one."""
    return click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Work on the cluster of this kubeconfig instead of the embedded one.",
    )(command)


def connect(data: DataDir, kubeconfig: str | None) -> SyncClient:
    """A client of the chosen cluster. Raises Refusal when the embedded one does not run."""
    # Half of what `ome local up` would import, of which its foreground part alone has need.
    from ome.kube.config import ClusterConfig
    from ome.kube.sync import SyncClient

    if kubeconfig:
        return SyncClient(ClusterConfig.load(kubeconfig), user_agent="ome-local")
    require_running(data)
    return SyncClient(ClusterConfig.load(str(data.kubeconfig)), user_agent="ome-local")


def require_running(data: DataDir) -> dict[str, Any]:
    """The state of the living cluster. Raises Refusal when there is none."""
    if not data.is_held():
        raise Refusal(f"no cluster is running in {data.root}; `ome local up` starts it")
    return data.read_state()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
