"""The click group `ome local`. Its commands are imported when they are called."""

from __future__ import annotations

from typing import Any

import click

from ome.__main__ import LazyGroup
from ome.kube.errors import KubeError
from ome.local.commands.refusals import Refusal

_COMMANDS = {
    "run": ("ome.local.commands.tour:run", "Start a cluster, serve a model, ask it something, stay."),
    "chat": ("ome.local.commands.chat:chat", "Talk to a served model."),
    "up": ("ome.local.commands.life:up", "Start the cluster."),
    "status": ("ome.local.commands.life:status", "Say what runs."),
    "down": ("ome.local.commands.life:down", "Stop the cluster; its data stays."),
    "reset": ("ome.local.commands.life:reset", "Stop the cluster and delete its data."),
    "logs": ("ome.local.commands.life:logs", "Print the cluster's log."),
    "kubeconfig": ("ome.local.commands.access:kubeconfig", "Print the kubeconfig, or merge it into yours."),
    "env": ("ome.local.commands.access:env", "Print the lines that point this shell at the cluster."),
    "url": ("ome.local.commands.access:url", "Print an address that reaches a Service."),
    "image": ("ome.local.commands.images:image", "Decide which images exist."),
    "node": ("ome.local.commands.nodes:node", "List, add, remove, fail and recover nodes."),
    "nodes": ("ome.local.commands.nodes:nodes", "Play the nodes of any cluster, in the foreground."),
    "model": ("ome.local.commands.models:model", "Leave the marks of the model agent."),
    "manager": ("ome.local.commands.manager:manager", "Start, stop and watch the operator's process."),
}


class LocalGroup(LazyGroup):
    """Turns what the API server or the network refuses into one line."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KubeError as error:
            raise Refusal(str(error)) from error
        except BrokenPipeError:
            # The reader of our output has seen enough.
            return None


@click.group(cls=LocalGroup, lazy=_COMMANDS)
def local() -> None:
    """A Kubernetes-compatible cluster in one process on this machine, with OME in it."""
