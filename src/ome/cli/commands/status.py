"""`kubectl ome status`: bounded reads, one report, thirty seconds at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, ome_namespace_option, output_option

_FORMATS = ("table", "wide", "json", "yaml")
LIMIT_SECONDS = 30.0
NOT_FOUND = "status InferenceService was not found"
CANCELLED = "status read was cancelled or timed out"


def _read_service(session: Any, name: str) -> dict[str, Any]:
    from ome.cli.reads import check_service_name
    from ome.cli.session import is_missing_api, reason_of
    from ome.kube.errors import ApiError, KubeError
    from ome.kube.resources import INFERENCE_SERVICES

    check_service_name(name)
    try:
        found: dict[str, Any] = session.get(INFERENCE_SERVICES, name, session.namespace)
    except KubeError as error:
        missing = isinstance(error, ApiError) and error.status_code == 404 and not is_missing_api(error)
        raise CliError(NOT_FOUND if missing else f"status InferenceService read failed: {reason_of(error)}") from error
    return found


def _failed(error: Any) -> Any:
    from ome.cli.evidence.status_report import Observation
    from ome.cli.session import reason_of
    from ome.kube.errors import ApiError

    reason = reason_of(error)
    if isinstance(error, ApiError) and reason == "Unavailable" and error.status_code not in (429, 502, 503):
        reason = "Unreadable"
    return Observation("Unavailable", 0, False, reason)


def _read_pods(session: Any, service: Mapping[str, Any]) -> tuple[list[Any], Any, list[str]]:
    from ome.api.keys import INFERENCE_SERVICE
    from ome.cli.evidence.status_report import Observation, counted_pods
    from ome.kube.errors import KubeError
    from ome.kube.resources import PODS

    selector = f"{INFERENCE_SERVICE}={objects.name(service)}"
    try:
        listed = session.listing(PODS, objects.namespace(service), label_selector=selector)
    except KubeError as error:
        return [], _failed(error), []
    pods, issues = counted_pods(listed.items)
    partial = listed.truncated or bool(issues)
    reason = "MalformedPayload" if issues and not listed.truncated else ""
    observation = Observation("Partial" if partial else "Reported", len(listed.items), listed.truncated, reason)
    return pods, observation, issues


def _events_of(session: Any, kind: str, obj: Mapping[str, Any]) -> tuple[list[Any], bool, list[str]]:
    """The Warning events of one object, whether there were more, and issue codes."""
    from ome.cli.evidence.status_report import EVENTS_PER_OBJECT
    from ome.kube.resources import EVENTS

    fields = f"involvedObject.kind={kind},involvedObject.name={objects.name(obj)},type=Warning"
    namespace = objects.namespace(obj)
    listed = session.listing(EVENTS, namespace, field_selector=fields, page=EVENTS_PER_OBJECT, pages=1)
    found, issues = [], []
    for event in listed.items:
        involved = objects.mapping(event, "involvedObject")
        if not involved:
            issues.append("EventMalformed")
        elif objects.text(involved, "uid") not in ("", objects.uid(obj)) or involved.get("name") != objects.name(obj):
            issues.append("EventIdentityRejected")
        elif objects.text(involved, "kind") == kind and event.get("type") == "Warning":
            found.append(event)
    return found, listed.truncated, issues


def _read_events(
    session: Any, service: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], Any, int, list[str]]:
    from ome.cli.evidence.instance_detail import by_interest
    from ome.cli.evidence.status_report import MAX_EVENT_PODS, MAX_EVENTS, Observation, event_time
    from ome.kube.errors import KubeError

    chosen = by_interest(pods)[:MAX_EVENT_PODS]
    skipped = len(pods) - len(chosen)
    found: list[Any] = []
    issues: list[str] = []
    truncated = skipped > 0
    for kind, obj in (("InferenceService", service), *(("Pod", pod) for pod in chosen)):
        try:
            events, more, wrong = _events_of(session, kind, obj)
        except KubeError as error:
            failed = _failed(error)
            if not found:
                return [], failed, skipped, issues
            return found, Observation("Partial", len(found), True, failed.reason), skipped, issues
        found += events
        issues += wrong
        truncated = truncated or more
    found.sort(key=lambda event: moment.timestamp() if (moment := event_time(event)) else 0.0, reverse=True)
    truncated = truncated or len(found) > MAX_EVENTS
    found = found[:MAX_EVENTS]
    state = "Partial" if truncated or issues else "Reported"
    return found, Observation(state, len(found), truncated), skipped, issues


def _read_runtime(session: Any, service: Mapping[str, Any], ome_namespace: str) -> tuple[Any, str]:
    """The effective runtime of a service that names one; otherwise why it is not looked at."""
    from ome.api.keys import DEPLOYMENT_MODE

    if objects.annotation(service, DEPLOYMENT_MODE) == "VirtualDeployment":
        return None, "VirtualDeployment"
    if not objects.text(service, "spec", "runtime", "name"):
        model = objects.text(service, "spec", "model", "name")
        return None, "AutoSelectionNotProbed" if model else "NotConfigured"
    from ome.cli.evidence.effective import effective
    from ome.cli.runtime_reads import read_runtime, with_compatibility

    return effective(with_compatibility(session, read_runtime(session, service, ome_namespace))), ""


def _collect(app: App, session: Any, name: str, ome_namespace: str) -> Any:
    from ome.cli.evidence.status_report import StatusEvidence

    service = _read_service(session, name)
    pods, pod_observation, pod_issues = _read_pods(session, service)
    events, event_observation, skipped, event_issues = _read_events(session, service, pods)
    runtime, runtime_reason = _read_runtime(session, service, ome_namespace)
    return StatusEvidence(
        service,
        pods,
        pod_observation,
        events,
        event_observation,
        skipped,
        runtime,
        runtime_reason,
        (*pod_issues, *event_issues),
        app.collected_at(),
        app.now(),
    )


def _status(args: tuple[str, ...], ome_namespace: str, output: str) -> None:
    from ome.cli.errors import DEADLINE_EXCEEDED
    from ome.cli.evidence import status_report
    from ome.cli.output.report import encode, report
    from ome.cli.output.table import render_table
    from ome.cli.session import Session

    exactly(args, 1)
    check_output(output, _FORMATS)
    app: App = click.get_current_context().obj
    session = Session.open(app, overall=LIMIT_SECONDS)
    try:
        evidence = _collect(app, session, args[0], ome_namespace)
    except KeyboardInterrupt as error:
        raise CliError(CANCELLED) from error
    except CliError as error:
        raise CliError(CANCELLED if str(error) == DEADLINE_EXCEEDED else str(error)) from error
    if output in ("table", "wide"):
        app.out(render_table(status_report.HEADER, status_report.rows(evidence, output == "wide"), app.width()))
        return
    issues = status_report.all_issues(evidence)
    document = report(
        "StatusReport",
        session.namespace,
        args[0],
        evidence.collected_at,
        status_report.content(evidence),
        sources=["InferenceService", "Pod", "Event"],
        warnings=["PartialData"] if issues else [],
    )
    app.out(encode(document, output))


command = Command(
    "status",
    _status,
    params=[arguments(), ome_namespace_option(), output_option()],
    help="Show why a service is or is not ready: conditions, pods, rollout, scaling, runtime, warnings.",
)
