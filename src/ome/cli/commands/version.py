"""`kubectl ome version`."""

from __future__ import annotations

import click

from ome import __version__
from ome.cli.flags import Command, exactly
from ome.cli.flags import arguments as positional


def _version(args: tuple[str, ...]) -> None:
    exactly(args, 0)
    click.get_current_context().obj.out(f"kubectl-ome {__version__}\n")


command = Command("version", _version, params=[positional("")], help="Print the version of kubectl-ome.")
