"""`kubectl ome logs`: the logs of a service's pods, one after another, or all at once with `--follow`."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Sequence
from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.flags import Command, arguments, exactly, parse_duration, text_option

MAX_PODS = 200
MAX_LINE = 1 << 20
LINE_TOO_LONG = "bufio.Scanner: token too long"


def _query(container: str, since: float, tail: int, limit_bytes: int, follow: bool) -> list[tuple[str, str]]:
    query = [("container", container)]
    if follow:
        query.append(("follow", "true"))
    if since > 0:
        query.append(("sinceSeconds", str(math.ceil(since))))
    if tail >= 0:
        query.append(("tailLines", str(tail)))
    if limit_bytes > 0:
        query.append(("limitBytes", str(limit_bytes)))
    return query


def _request(namespace: str, pod: str, query: list[tuple[str, str]]) -> Any:
    from ome.kube.requests import Request
    from ome.kube.resources import PODS

    return Request("GET", PODS.path(namespace, pod, "log"), query, {"accept": "*/*"}, timeout=None)


def _line(app: App, prefix: str, raw: bytes) -> str:
    """A pipe gets the line as it is; on a terminal what could move the cursor becomes visible, tabs apart."""
    from ome.cli.output.text import neutralise

    if len(raw) >= MAX_LINE:
        raise CliError(LINE_TOO_LONG)
    text = raw.decode("utf-8", "replace")
    if app.is_terminal():
        text = "\t".join(neutralise(part) for part in text.rstrip("\r").split("\t"))
    return f"{prefix}{text}\n"


def _failure(pod: str, error: Exception) -> CliError:
    if isinstance(error, CliError):
        return error
    return CliError(f"streaming logs for pod {pod}: {error}")


def _print_each(app: App, session: Any, found: Sequence[Any], query_of: Any) -> None:
    """Pods in name order; stops at the first that fails."""
    from ome.cli.evidence.log_targets import ambiguous
    from ome.kube.errors import KubeError

    for target in found:
        if not target.scheduled:
            continue
        if not target.container:
            raise ambiguous(target)
        prefix = f"[{target.component}/{target.pod}] " if len(found) > 1 else ""
        try:
            for raw in session.lines(_request(session.namespace, target.pod, query_of(target))):
                app.out(_line(app, prefix, raw))
        except (KubeError, CliError) as error:
            raise _failure(target.pod, error) from error


def _follow_all(app: App, session: Any, found: Sequence[Any], query_of: Any) -> None:
    """One thread a pod reads, this one writes whole lines; any failure closes all by ending the process's command."""
    from ome.cli.evidence.log_targets import ambiguous

    lines: queue.Queue[tuple[Any, bytes | None, Exception | None]] = queue.Queue(maxsize=1000)

    def read(target: Any) -> None:
        try:
            for raw in session.lines(_request(session.namespace, target.pod, query_of(target))):
                lines.put((target, raw, None))
        except Exception as error:
            lines.put((target, None, error))
        else:
            lines.put((target, None, None))

    running = [target for target in found if target.scheduled]
    for target in running:
        if not target.container:
            raise ambiguous(target)
    for target in running:
        threading.Thread(target=read, args=(target,), daemon=True).start()
    open_streams = len(running)
    while open_streams:
        target, raw, error = lines.get()
        if error is not None:
            raise _failure(target.pod, error) from error
        if raw is None:
            open_streams -= 1
            continue
        app.out(_line(app, f"[{target.component}/{target.pod}] " if len(found) > 1 else "", raw))


def _seconds(value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise CliError(f'invalid argument "{value}" for "--since" flag: {error}') from error


def _pods(session: Any, selector: str, service: str) -> list[dict[str, Any]]:
    from ome.cli.session import reason_of
    from ome.kube.errors import KubeError
    from ome.kube.resources import PODS

    try:
        listed = session.listing(PODS, session.namespace, label_selector=selector, page=100, pages=2)
    except KubeError as error:
        raise CliError(f"discover pods: {reason_of(error)}") from error
    if listed.truncated or len(listed.items) > MAX_PODS:
        raise CliError(
            f"pod discovery was truncated after {listed.requests} requests; narrow the query with --component, "
            "--instance, or --revision"
        )
    if not listed.items:
        raise CliError(
            f'no pods found for InferenceService "{service}" in namespace "{session.namespace}" (selector {selector})'
        )
    found: list[dict[str, Any]] = listed.items
    return found


def _logs(
    args: tuple[str, ...],
    component: str,
    instance: int,
    revision: str,
    container: str,
    follow: bool,
    max_log_requests: int,
    limit_bytes: int,
    since: str,
    tail: int,
) -> None:
    from ome.cli.evidence.log_targets import LogRequest, resolve_revision, selector, targets
    from ome.cli.reads import check_service_name
    from ome.cli.session import Session

    exactly(args, 1)
    check_service_name(args[0])
    if follow and limit_bytes > 0:
        raise CliError("--limit-bytes cannot be used with --follow")
    seconds = _seconds(since)
    request = resolve_revision(LogRequest(args[0], component, instance, revision, container))
    app: App = click.get_current_context().obj
    session = Session.open(app)
    found = targets(_pods(session, selector(request), request.service), request.container)
    if follow and len(found) > max_log_requests:
        raise CliError(
            f"you are attempting to follow {len(found)} log streams, but maximum allowed concurrency is "
            f"{max_log_requests}, use --max-log-requests to increase the limit"
        )

    def query_of(target: Any) -> list[tuple[str, str]]:
        return _query(target.container, seconds, tail, limit_bytes, follow)

    if follow:
        _follow_all(app, session, found, query_of)
    else:
        _print_each(app, session, found, query_of)


command = Command(
    "logs",
    _logs,
    params=[
        arguments(),
        text_option("-c", "--component", help="engine, decoder or router."),
        click.Option(["--instance"], type=int, default=-1, help="Instance index; needs --component."),
        text_option("--revision", help="Full revision name, or its hash with --component."),
        text_option("--container", help="Container; default ome-container, else the only one."),
        click.Option(["-f", "--follow"], is_flag=True, help="Follow all pods at once."),
        click.Option(["--max-log-requests"], type=int, default=5, help="Most streams to follow."),
        click.Option(["--limit-bytes"], type=int, default=0, help="Most bytes a pod; not with --follow."),
        text_option("--since", default="0", help="Only lines newer than this duration."),
        click.Option(["--tail"], type=int, default=-1, help="Only the last lines of each pod."),
    ],
    help="Print the logs of a service's pods.",
)
