"""`kubectl ome wait`: flags, loop, report."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import AssertionUnmet, CliError
from ome.cli.flags import Command, arguments, exactly, output_option, parse_duration, text_option

LABEL_CELL = 28
VALUE_CELL = 56


def _numbers(timeout: str, replicas: str | None) -> tuple[float, int | None]:
    from ome.cli.wait.request import FLAGS

    try:
        seconds = parse_duration(timeout)
        return seconds, None if replicas is None else int(replicas, 10)
    except ValueError as error:
        raise CliError(FLAGS) from error


def _predicate(request: Any) -> Any:
    from ome.cli.wait import replica_checks, service_checks
    from ome.cli.wait import request as names

    checks: dict[str, Any] = {
        names.CONDITION: service_checks.ReadyCheck,
        names.ROLLOUT: service_checks.RolloutCheck,
        names.RUNTIME_SYNC: service_checks.RuntimeSyncCheck,
        names.MIGRATION: replica_checks.MigrationCheck,
        names.REPLICAS_READY: replica_checks.ReadyReplicasCheck,
        names.REPLICAS_CURRENT: replica_checks.CurrentReplicasCheck,
        names.HELD_REVISION: replica_checks.HeldRevisionCheck,
    }
    return checks[request.predicate](request)


def _session(app: App, seconds: float) -> Any:
    from ome.cli.evidence import objects
    from ome.cli.session import Session, cluster_config
    from ome.kube.errors import ConfigError

    try:
        session = Session(app, cluster_config(app.flags), overall=seconds)
    except (ConfigError, CliError) as error:
        raise CliError("WaitConfigurationUnavailable") from error
    if not objects.is_label_name(session.namespace):
        raise CliError("InvalidNamespace")
    return session


def _render(app: App, ended: Any, predicate: Any, output: str) -> str:
    from ome.cli.output.report import encode, report
    from ome.cli.output.table import render_table
    from ome.cli.output.text import cut

    if output in ("table", "wide"):
        rows = predicate.rows(ended, output == "wide")
        cells = [[cut(label, LABEL_CELL), cut(value, VALUE_CELL)] for label, value in rows]
        return render_table(("FIELD", "VALUE"), cells, app.width())
    content = {
        "requested": predicate.requested,
        "outcome": ended.outcome,
        "reason": ended.last.reason,
        **predicate.content(ended),
        "evidence": ended.last.evidence,
        "elapsedMilliseconds": ended.elapsed_milliseconds,
        "counts": ended.counts._asdict(),
        "sourceMethod": ended.source_method,
        "pollingFallback": ended.polling_fallback,
    }
    return encode(report("WaitReport", ended.namespace, ended.name, app.collected_at(), content), output)


def _wait(
    args: tuple[str, ...],
    predicate: str,
    timeout: str,
    component: str,
    replicas: str | None,
    request_id: str,
    revision: str,
    ir_name: str,
    ir_uid: str,
    output: str,
) -> None:
    from ome.cli.wait.loop import Waiter
    from ome.cli.wait.request import check

    exactly(args, 1)
    app: App = click.get_current_context().obj
    seconds, count = _numbers(timeout, replicas)
    request = check(args[0], predicate, seconds, output, component, count, request_id, revision, ir_name, ir_uid)
    waited_for = _predicate(request)
    session = _session(app, seconds)
    try:
        ended = Waiter(app, session, request.service, waited_for).run()
    except KeyboardInterrupt as error:
        raise CliError("Canceled") from error
    try:
        app.out(_render(app, ended, waited_for, output))
    except (OSError, ValueError) as error:
        raise CliError("WaitOutputFailed") from error
    if ended.outcome != "Matched":
        raise AssertionUnmet("RequestedConditionUnmet")


command = Command(
    "wait",
    _wait,
    flag_error="InvalidWaitFlags",
    params=[
        arguments(),
        click.Option(["--for", "predicate"], default="", help="What to wait for, e.g. condition=Ready."),
        text_option("--timeout", default="1m0s", help="A Go duration, at most 24h."),
        text_option("--component", help="engine, decoder or router."),
        click.Option(["--replicas"], default=None, help="Exact count."),
        text_option("--request-id", help="UUID of a migration or runtime sync."),
        text_option("--revision", help="Full revision name, <isvc>-<component>-<hash>."),
        text_option("--ir-name", help="target.name of an action's result."),
        text_option("--ir-uid", help="target.uid of an action's result."),
        output_option(),
    ],
    help="Wait until a service reports a state; exits 0 at a match and 2 without one.",
)
