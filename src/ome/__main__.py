"""`ome`: the product's one program. `ome local ...` is the embedded cluster, `ome manager ...` the operator's process.

Both halves are imported only when they are asked for. Called by the console script and by `python -m ome`.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

import ome


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called. `lazy` maps names to (module:attribute, short help)."""

    def __init__(self, *args: object, lazy: dict[str, tuple[str, str]] | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._lazy = lazy or {}

    def list_commands(self, context: click.Context) -> list[str]:
        return [*super().list_commands(context), *self._lazy]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._lazy:
            return super().get_command(context, name)
        module, _, attribute = self._lazy[name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the short helps alone: help must not import everything."""
        rows = [(name, text) for name, (_, text) in self._lazy.items()]
        for name in super().list_commands(context):
            command = super().get_command(context, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(80)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    lazy={"local": ("ome.local.commands.group:local", "A Kubernetes-compatible cluster on this machine.")},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(ome.__version__, prog_name="ome")
def cli() -> None:
    """The Open Model Engine: serve large language models on Kubernetes, and change them safely."""


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    short_help="Run the operator in the foreground.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def manager(arguments: tuple[str, ...]) -> None:
    """Run the operator in the foreground; its flags are described by `ome manager -h`."""
    from ome.manager.main import main as run

    sys.exit(run(list(arguments)))


def main() -> None:
    """The console script."""
    cli(prog_name="ome")


if __name__ == "__main__":
    main()
