"""`kubectl ome version`."""

from __future__ import annotations

import click

from ome.cli.flags import Command, exactly
from ome.cli.flags import arguments as positional


def _version(args: tuple[str, ...]) -> None:
    from importlib.metadata import version

    exactly(args, 0)
    click.get_current_context().obj.out(f"kubectl-ome {version('ome')}\n")


command = Command("version", _version, params=[positional("")], help="Print the version of kubectl-ome.")
