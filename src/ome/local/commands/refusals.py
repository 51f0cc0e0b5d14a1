"""How a command says no: one line on stderr and exit code 1."""

from __future__ import annotations

import click


class Refusal(click.ClickException):
    """The command was refused or failed; the message says what is wrong, where, and what to do."""

    exit_code = 1
