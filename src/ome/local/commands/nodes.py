"""`ome local node ...` for the nodes as objects, and `ome local nodes`, which plays the nodes of any cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from ome.kube.resources import NODES
from ome.local.commands.data import DataDir, take_lock
from ome.local.commands.options import cluster_option, connect, data_option, output_option, print_json
from ome.local.commands.refusals import Refusal
from ome.local.node.nodes import FAILED, capacity, node_object


@click.group()
def node() -> None:
    """List, add, remove, fail and recover nodes."""


@node.command("list")
@data_option
@cluster_option
@output_option
def list_(data: DataDir, kubeconfig: str | None, output: str) -> None:
    """Print the nodes with their state and GPUs."""
    with connect(data, kubeconfig) as client:
        rows = [_facts(found) for found in client.list(NODES)]
    if output == "json":
        print_json(rows)
        return
    width = max([len(row["name"]) for row in rows] + [4])
    click.echo(f"{'NAME':<{width}}   {'STATUS':<10}   GPUS")
    for row in rows:
        click.echo(f"{row['name']:<{width}}   {row['status']:<10}   {row['gpus']}")


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    status = found.get("status") or {}
    ready = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), "Unknown")
    return {
        "name": found["metadata"]["name"],
        "status": "Ready" if ready == "True" else "NotReady",
        "failed": (found["metadata"].get("annotations") or {}).get(FAILED) == "true",
        "schedulable": not (found.get("spec") or {}).get("unschedulable", False),
        "gpus": (status.get("allocatable") or {}).get("nvidia.com/gpu", "0"),
    }


@node.command()
@data_option
@cluster_option
@click.argument("name")
def fail(data: DataDir, kubeconfig: str | None, name: str) -> None:
    """Let a node fall silent, as a dead machine does. The control plane notices after its grace period."""
    with connect(data, kubeconfig) as client:
        client.patch(NODES, name, "", {"metadata": {"annotations": {FAILED: "true"}}})
    click.echo(f"Node {name} is silent now.")


@node.command()
@data_option
@cluster_option
@click.argument("name")
def recover(data: DataDir, kubeconfig: str | None, name: str) -> None:
    """Let a failed node speak again."""
    with connect(data, kubeconfig) as client:
        found = client.get(NODES, name)
        if (found["metadata"].get("annotations") or {}).get(FAILED) != "true":
            raise Refusal(f"node {name} has not failed")
        client.patch(NODES, name, "", {"metadata": {"annotations": {FAILED: None}}})
    click.echo(f"Node {name} speaks again.")


@node.command()
@data_option
@cluster_option
@click.option("--gpus", type=click.IntRange(0, 1024), help="GPUs of the node [default: as the others have].")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the node; may be repeated.")
@click.argument("name")
def add(data: DataDir, kubeconfig: str | None, gpus: int | None, labels: tuple[str, ...], name: str) -> None:
    """Add a node."""
    body = node_object(name)
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{label!r} is not KEY=VALUE", param_hint="--label")
        body["metadata"]["labels"][key] = value
    if gpus is not None:
        body["status"] = {"capacity": capacity(gpus), "allocatable": capacity(gpus)}
    with connect(data, kubeconfig) as client:
        client.create(NODES, body)
    click.echo(f"Added node {name}.")


@node.command()
@data_option
@cluster_option
@click.argument("name")
def remove(data: DataDir, kubeconfig: str | None, name: str) -> None:
    """Remove a node. Pods that are bound to it are collected after 40 seconds, as in any cluster."""
    with connect(data, kubeconfig) as client:
        client.delete(NODES, name)
    click.echo(f"Removed node {name}.")


@click.command()
@data_option
@click.option("--kubeconfig", type=click.Path(dir_okay=False), required=True, help="The cluster to play nodes for.")
@click.option("--nodes", "count", type=click.IntRange(0, 1000), default=1, show_default=True, help="Nodes to make.")
@click.option("--gpus-per-node", "gpus", type=click.IntRange(0, 1024), default=8, show_default=True)
@click.option("--workloads", is_flag=True, help="Run the workload controllers and the scheduler too.")
def nodes(data: DataDir, kubeconfig: str, count: int, gpus: int, workloads: bool) -> None:
    """Play the nodes of any Kubernetes control plane, in the foreground until Ctrl-C.

    Every Node object of the cluster is played, unless it is annotated local.ome.io/managed: "false". Images that start
    with local/ run as processes, with their files below the data directory.
    """
    import logging
    import sys

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    data.prepare()
    data.stand_in.mkdir(exist_ok=True)
    lock = take_lock(data.stand_in_lock)
    if lock is None:
        raise Refusal(f"nodes are played already with the files of {data.stand_in}; choose another --data-dir")
    try:
        asyncio.run(_play(data, kubeconfig, count, gpus, workloads))
    finally:
        os.close(lock)


async def _play(data: DataDir, kubeconfig: str, count: int, gpus: int, workloads: bool) -> None:
    from ome.kube.aiohttp_transport import AiohttpTransport
    from ome.kube.cache import Caches
    from ome.kube.client import Client
    from ome.kube.clock import SystemClock
    from ome.kube.config import ClusterConfig
    from ome.local.cluster import LocalWorkloads, NodeStandIn
    from ome.local.node.endpoint.access import Access
    from ome.local.node.endpoint.certificate import Certificates
    from ome.local.node.endpoint.server import HOST, Endpoint, Pods
    from ome.local.node.nodes import Reached
    from ome.local.node.process.assembly import process_pods, report_to
    from ome.local.node.process.streams import PodStreams

    clock = SystemClock()
    running = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        if running is not None:
            loop.add_signal_handler(number, running.cancel)
    config = ClusterConfig.load(kubeconfig)
    async with AiohttpTransport(config, user_agent="ome-nodes") as transport:
        client = Client(transport, field_manager="kubelet")
        caches = Caches(client, clock)
        pods = process_pods(
            client,
            caches,
            data.stand_in,
            address_of=lambda uid: stand_in.kubelet.address_of(uid),
            api_server=_address(config.server),
        )
        try:
            async with pods as plugged, asyncio.TaskGroup() as group:
                streams = PodStreams()
                streams.attach(plugged.runtime)
                known = Pods(
                    find=lambda namespace, name: stand_in.kubelet.pod(namespace, name),
                    is_alive=lambda pod: stand_in.kubelet.is_alive(pod),
                )
                endpoint = Endpoint(streams, known, Access(client, clock), Certificates(client, clock, HOST))
                reached = Reached(HOST, await endpoint.listen())
                stand_in = NodeStandIn(
                    client,
                    clock,
                    nodes=count,
                    gpus=gpus,
                    caches=caches,
                    runtimes=[plugged.runtime],
                    endpoint=reached,
                )
                report_to(stand_in.kubelet, plugged)
                group.create_task(endpoint.run())
                group.create_task(caches.run())
                group.create_task(stand_in.run())
                group.create_task(plugged.forwarder.run())
                if workloads:
                    control = Client(transport, field_manager="kube-controller-manager")
                    group.create_task(LocalWorkloads(control, clock).run())
                click.echo("Playing nodes.")
        except asyncio.CancelledError:
            return


def _address(server: str) -> tuple[str, int]:
    """Host and port of an API server's URL."""
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
