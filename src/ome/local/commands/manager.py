"""`ome local manager start|stop|restart|status|logs`: the operator's process beside the cluster."""

from __future__ import annotations

import sys
from typing import Any

import click

from ome.kube.config import ClusterConfig
from ome.kube.sync import SyncClient
from ome.local.commands import managing
from ome.local.commands.data import DataDir
from ome.local.commands.life import print_log
from ome.local.commands.options import data_option, output_option, print_json, require_running
from ome.local.commands.refusals import Refusal


@click.group()
def manager() -> None:
    """Start, stop and watch the operator. Its own flags follow --."""


@manager.command()
@data_option
@output_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- FLAGS]")
def start(data: DataDir, output: str, arguments: tuple[str, ...]) -> None:
    """Start the operator: ome local manager start -- --zap-log-level=debug"""
    managing.check_flags(arguments)
    _print(_start(data, arguments), output, "Started")


@manager.command()
@data_option
def stop(data: DataDir) -> None:
    """Stop the operator as Kubernetes would: it gives up its Lease first."""
    if not managing.stop(data):
        raise Refusal("the manager is not running")
    click.echo("Stopped.")


@manager.command()
@data_option
@output_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- FLAGS]")
def restart(data: DataDir, output: str, arguments: tuple[str, ...]) -> None:
    """Stop the operator if it runs, and start it with these flags."""
    require_running(data)
    managing.check_flags(arguments)
    managing.stop(data)
    _print(_start(data, arguments), output, "Restarted")


@manager.command()
@data_option
@output_option
def status(data: DataDir, output: str) -> None:
    """Say whether the operator runs, and on which ports. Exit code 1 when it does not."""
    facts = managing.facts(data)
    if output == "json":
        print_json(facts)
    elif facts["running"]:
        click.echo(f"running   process {facts.get('pid')}   metrics {facts.get('metrics')}   flags {_flags(facts)}")
    else:
        click.echo("stopped")
    if not facts["running"]:
        sys.exit(1)


@manager.command()
@data_option
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("--tail", type=click.IntRange(0), help="Only the last lines.")
def logs(data: DataDir, follow: bool, tail: int | None) -> None:
    """Print the operator's log."""
    print_log(data.manager_log, follow=follow, tail=tail)


def _start(data: DataDir, arguments: tuple[str, ...]) -> dict[str, Any]:
    state = require_running(data)
    bundle = (data.certificates / "ca.crt").read_text()
    with SyncClient(ClusterConfig.load(str(data.kubeconfig)), user_agent="ome-local") as client:
        return managing.start(data, client, str(state["server"]), bundle, arguments)


def _print(facts: dict[str, Any], output: str, verb: str) -> None:
    if output == "json":
        print_json({"running": True, **facts})
        return
    click.echo(f"{verb} the manager (process {facts['pid']}); metrics on {facts['metrics']}")


def _flags(facts: dict[str, Any]) -> str:
    return " ".join(facts.get("arguments") or ()) or "none"
