"""Flags: the global ones that every command takes (spec/cli-runtime-and-wait.md section 1.1), Go durations, and
errors in kubectl's words.

`Command` and `LazyGroup` are the two click classes the tool is built of. A leaf's module is imported only when that
leaf runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import click

from ome.cli.errors import CliError

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

# (flags, help, kind): `text` takes a value, `many` may be repeated, `switch` takes none.
_GLOBAL = (
    (("-n", "--namespace"), "Namespace; default: the context's namespace, else default.", "text"),
    (("--kubeconfig",), "Kubeconfig file.", "text"),
    (("--context",), "Kubeconfig context.", "text"),
    (("--cluster",), "Kubeconfig cluster.", "text"),
    (("--user",), "Kubeconfig user.", "text"),
    (("-s", "--server"), "Address of the API server.", "text"),
    (("--token",), "Bearer token.", "text"),
    (("--certificate-authority",), "File with the server's certificate authority.", "text"),
    (("--client-certificate",), "Client certificate file.", "text"),
    (("--client-key",), "Client key file.", "text"),
    (("--tls-server-name",), "Server name to verify.", "text"),
    (("--insecure-skip-tls-verify",), "Do not verify the server's certificate.", "switch"),
    (("--as",), "User to impersonate.", "text"),
    (("--as-uid",), "UID to impersonate.", "text"),
    (("--as-group",), "Group to impersonate; may be repeated.", "many"),
    (("--as-user-extra",), "Extra key=value to impersonate; may be repeated.", "many"),
    (("--request-timeout",), "Limit of one request, e.g. 10s; 0 is none.", "text"),
    (("--cache-dir",), "Directory of kubectl's caches.", "text"),
    (("--disable-compression",), "No response compression.", "switch"),
)

# Built lazily by import; the value of `--as` cannot be an attribute called `as`.
_ATTRIBUTES = {"as": "impersonate"}


class GlobalFlags:
    """The values of the global flags; empty where not given."""

    def __init__(self) -> None:
        self.namespace = ""
        self.kubeconfig = ""
        self.context = ""
        self.cluster = ""
        self.user = ""
        self.server = ""
        self.token = ""
        self.certificate_authority = ""
        self.client_certificate = ""
        self.client_key = ""
        self.tls_server_name = ""
        self.insecure_skip_tls_verify = False
        self.impersonate = ""
        self.as_uid = ""
        self.as_group: tuple[str, ...] = ()
        self.as_user_extra: tuple[str, ...] = ()
        self.request_timeout = ""
        self.cache_dir = ""
        self.disable_compression = False


def _attribute(flags: tuple[str, ...]) -> str:
    name = flags[-1].removeprefix("--").replace("-", "_")
    return _ATTRIBUTES.get(name, name)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    # Groups and leaves both take the global flags; the one given last, the leaf's, wins.
    if value in (None, False, ()):
        return
    setattr(context.obj.flags, str(parameter.name).removeprefix("global_"), value)


@cache
def global_options() -> tuple[click.Parameter, ...]:
    """The same parameter objects for every group and leaf: they hold no state of an invocation."""
    found: list[click.Parameter] = []
    for flags, text, kind in _GLOBAL:
        found.append(
            click.Option(
                [*flags, f"global_{_attribute(flags)}"],
                help=text,
                is_flag=kind == "switch",
                multiple=kind == "many",
                expose_value=False,
                callback=_store,
            )
        )
    return tuple(found)


def normalised(args: list[str], params: list[click.Parameter]) -> list[str]:
    """The command line as click reads it: kubectl also takes `-o=json`, `--yes=true` and `--yes=false`."""
    switches = {flag for param in params if isinstance(param, click.Option) and param.is_flag for flag in param.opts}
    found: list[str] = []
    for at, arg in enumerate(args):
        if arg == "--":
            return found + args[at:]
        flag, equals, value = arg.partition("=")
        if equals and flag in switches and value in ("true", "false"):
            found += [flag] if value == "true" else []
        elif equals and len(flag) == 2 and flag[0] == "-" and flag[1].isalpha():
            found += [flag, value]
        else:
            found.append(arg)
    return found


def usage_message(error: click.UsageError) -> str:
    """A usage error in the words kubectl uses."""
    if isinstance(error, click.NoSuchOption):
        flag = error.option_name
        return f"unknown flag: {flag}" if flag.startswith("--") else f"unknown shorthand flag: {flag[1:2]!r} in {flag}"
    if isinstance(error, click.BadOptionUsage):
        return f"flag needs an argument: {error.option_name}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        flag = max(error.param.opts, key=len)
        return f'invalid argument for "{flag}" flag: {error.message.rstrip(".")}'
    return error.format_message().rstrip(".")


class Command(click.Command):
    """A leaf. `flag_error` replaces every usage error where the spec names one text for all of them."""

    def __init__(self, name: str, callback: Callable[..., Any], *, flag_error: str = "", **attributes: Any) -> None:
        params = [*attributes.pop("params", []), *global_options()]
        settings = HELP | attributes.pop("context_settings", {})
        super().__init__(name, callback=callback, params=params, context_settings=settings, **attributes)
        self._flag_error = flag_error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, normalised(args, self.params))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise CliError(self._flag_error or usage_message(error)) from error


class LazyGroup(click.Group):
    """A group whose commands are named as `module:attribute` under `ome.cli.commands` and imported when used."""

    def __init__(self, name: str, help: str, commands: dict[str, tuple[str, str]]) -> None:
        super().__init__(
            name,
            help=help,
            context_settings=HELP,
            params=list(global_options()),
            no_args_is_help=False,
            invoke_without_command=True,
        )
        self._lazy = commands
        self.callback = self._show_help

    def _show_help(self) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            context.obj.out(context.get_help() + "\n")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry[0].split(":")
        command: click.Command = getattr(import_module(f"ome.cli.commands.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self._lazy:
            raise CliError(f'unknown command "{args[0]}" for "{ctx.command_path}"')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._lazy.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise CliError(usage_message(error)) from error


def arguments(metavar: str = "INFERENCESERVICE") -> click.Argument:
    """The positional arguments as a tuple: their number is checked with `exactly`, in kubectl's words."""
    return click.Argument(["args"], nargs=-1, metavar=metavar)


def exactly(args: tuple[str, ...], number: int) -> None:
    if len(args) != number:
        raise CliError(f"accepts {number} arg(s), received {len(args)}")


def text_option(*flags: str, default: str = "", help: str = "") -> click.Option:
    return click.Option(list(flags), default=default, help=help, show_default=bool(default))


def output_option(help: str = "Output format: table, wide, json or yaml.") -> click.Option:
    return text_option("-o", "--output", default="table", help=help)


def ome_namespace_option() -> click.Option:
    return text_option("--ome-namespace", default="ome", help="OME's namespace.")


def check_output(value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise CliError(f'unsupported output format "{value}" (supported: {", ".join(allowed)})')


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: str) -> float:
    """A Go duration in seconds: `1m30s`, `0`, `-5s`. Raises ValueError for anything else, a bare number included."""
    sign = -1.0 if value.startswith("-") else 1.0
    rest = value.lstrip("+-") if value[:1] in ("+", "-") else value
    if rest == "0":
        return 0.0
    position, total = 0, 0.0
    while position < len(rest):
        match = _DURATION.match(rest, position)
        if match is None:
            raise ValueError(f'invalid duration "{value}"')
        total += float(match.group(1)) * _UNITS[match.group(2)]
        position = match.end()
    if position == 0:
        raise ValueError(f'invalid duration "{value}"')
    return sign * total


def parse_request_timeout(value: str) -> float:
    """`--request-timeout` in seconds, 0 for none: a Go duration, or a bare number of seconds as kubectl takes it."""
    if not value:
        return 0.0
    try:
        seconds = float(int(value)) if value.isdigit() else parse_duration(value)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise CliError(
            f"Invalid timeout value {value!r}. Timeout must be a single integer in seconds, or an integer followed by "
            "a corresponding time unit (e.g. 1s | 2m | 3h)"
        )
    return seconds
