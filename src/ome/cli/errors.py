"""How a command ends other than well. One small tree; `ome.cli.tree` alone turns it into `error: <message>` and an
exit code.

CliError            exit 1: bad flag, failed read, refusal, unconfirmed action, unknown outcome
  AssertionUnmet    exit 2: a wait without a match (its report is on stdout already)
  ActionConflict    exit 3: what was previewed changed before it could be written
"""

from __future__ import annotations


class CliError(Exception):
    """A message for the user, without the `error: ` before it (spec/cli-runtime-and-wait.md section 1.3)."""

    exit_code = 1


class AssertionUnmet(CliError):
    exit_code = 2


class ActionConflict(CliError):
    exit_code = 3


CANCELED = "context canceled"
DEADLINE_EXCEEDED = "context deadline exceeded"
