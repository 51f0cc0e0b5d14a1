"""The entry point of `kubectl-ome` (run as `kubectl ome`): the tree of commands, and how every ending becomes an exit
code.

Only names and help texts are here; a command's module is imported when it runs, so that `kubectl ome get` pays for
nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from ome.cli.app import App
from ome.cli.errors import CANCELED, CliError
from ome.cli.flags import LazyGroup
from ome.cli.output.text import neutralise

PROGRAM = "kubectl ome"

_INSTANCE = {
    "list": ("instance:list_command", "List the Instances of a service."),
    "status": ("instance_status:status_command", "Show one Instance: its operation, failure, pods and events."),
    "retry-blocks": ("instance:retry_blocks_command", "Show a component's retry blocks."),
    "release-held": ("release_held:command", "Alpha: ask OME to release one Held revision."),
}
_RUNTIME = {
    "explain": ("runtime_explain:command", "Explain which runtimes fit a model, and why others do not."),
    "effective": ("runtime:effective_command", "Show the runtime a service runs, live and active."),
    "tree": ("runtime_tree:command", "Show a runtime's inheritance and its users."),
    "history": ("runtime:history_command", "List the stored revisions of a service's runtime."),
    "sync": ("runtime_sync:command", "Alpha: roll a pinned service forward to its live runtime."),
}
_MIGRATION = {
    "status": ("migration:status_command", "Show a service's migrations."),
    "history": ("migration:history_command", "Show migrations with their audit trail."),
    "start": ("migration_start:command", "Alpha: ask OME to move one Instance."),
}
_AUTOSCALE = {
    "status": ("autoscale:status_command", "Show the autoscaler of each component, as OME reports it."),
}
_ROLLOUT = {
    "status": ("rollout:status_command", "Show a service's rollout as OME reports it."),
    "pause": ("rollout:pause_command", "Pause a service's rollouts."),
    "resume": ("rollout:resume_command", "Resume a paused service."),
}


def build() -> click.Group:
    """The whole tree. Groups cost a few dictionaries; nothing below them is imported."""
    return LazyGroup(
        PROGRAM,
        "Look at OME and change it safely, with your own kubeconfig identity.",
        {
            "get": ("get:command", "List or print OME's objects."),
            "status": ("status:command", "Show the state of an InferenceService."),
            "logs": ("logs:command", "Print the logs of a service's pods."),
            "instance": ("groups:instance", "Instances and retry blocks of OMENative components."),
            "runtime": ("groups:runtime", "Serving runtimes: selection, inheritance, revisions."),
            "wait": ("wait:command", "Wait for a reported state of a service."),
            "migration": ("groups:migration", "Migrations of Instances between nodes."),
            "autoscale": ("groups:autoscale", "Autoscaling of components."),
            "rollout": ("groups:rollout", "Rollouts: status, pause, resume."),
            "scale": ("scale:command", "Alpha: set a component's Instances once."),
            "version": ("version:command", "Print the version."),
        },
    )


def group(name: str, help: str) -> click.Group:
    """One of the groups below the root, by name."""
    commands = {"instance": _INSTANCE, "runtime": _RUNTIME, "migration": _MIGRATION, "rollout": _ROLLOUT}
    commands["autoscale"] = _AUTOSCALE
    return LazyGroup(name, help, commands[name])


def run(arguments: Sequence[str], app: App | None = None) -> int:
    """Run one command and return its exit code; every message has been written by then."""
    app = app or App()
    root = build()
    try:
        # Not `root.main`: it would turn Ctrl-C into a message of its own.
        with root.make_context(PROGRAM, list(arguments), obj=app) as context:
            root.invoke(context)
        app.stdout.flush()
    except CliError as error:
        app.err(f"error: {neutralise(str(error))}\n")
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        app.err(f"error: {CANCELED}\n")
        return 1
    except BrokenPipeError:
        # Whoever read our output has left; what we would still print has no reader.
        if app.stdout is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _unexpected(app, error)
    return 0


def _unexpected(app: App, error: Exception) -> int:
    from ome.kube.errors import KubeError

    if isinstance(error, KubeError):
        # An API server may answer in several lines; ours is one line for each error.
        app.err(f"error: {neutralise(' '.join(str(error).splitlines()))}\n")
        return 1
    if os.environ.get("OME_CLI_TRACEBACK"):
        raise error
    app.err(f"error: internal error: {type(error).__name__}: {neutralise(str(error))}\n")
    return 1
