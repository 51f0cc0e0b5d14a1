"""The columns of workloads and of what scales and protects them; pods are `pods.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ome.local.apiserver.printing.layouts import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    Column,
    Object,
    column,
    count,
    look,
    moment,
    number,
    plain_selector,
    selector_text,
    short_duration,
    since,
    text,
)

_APPS: Final = "io.k8s.api.apps.v1."
_BATCH: Final = "io.k8s.api.batch.v1."
_CORE: Final = "io.k8s.api.core.v1."


def deployments() -> list[Column]:
    spec, status = _APPS + "DeploymentSpec#", _APPS + "DeploymentStatus#"
    return [
        NAME,
        column("Ready", _ratio("status.readyReplicas", "spec.replicas"), "Number of the pod with ready state"),
        column("Up-to-date", number("status.updatedReplicas"), status + "updatedReplicas"),
        column("Available", number("status.availableReplicas"), status + "availableReplicas"),
        AGE,
        *templates("spec.template"),
        _selector("spec.selector", spec + "selector"),
    ]


def replica_sets(definition: str) -> list[Column]:
    plain = definition == _CORE + "ReplicationController"
    selector = (
        plain_selector("spec.selector", definition + "Spec#selector")
        if plain
        else _selector("spec.selector", definition + "Spec#selector")
    )
    return [
        NAME,
        column("Desired", number("spec.replicas"), definition + "Spec#replicas", type="integer"),
        column("Current", number("status.replicas"), definition + "Status#replicas", type="integer"),
        column("Ready", number("status.readyReplicas"), definition + "Status#readyReplicas", type="integer"),
        AGE,
        *templates("spec.template"),
        selector,
    ]


def stateful_sets() -> list[Column]:
    ready = _ratio("status.readyReplicas", "spec.replicas")
    return [NAME, column("Ready", ready, "Number of the pod with ready state"), AGE, *templates("spec.template")]


def daemon_sets() -> list[Column]:
    spec, status = _APPS + "DaemonSetSpec#", _APPS + "DaemonSetStatus#"

    def integer(name: str, field: str) -> Column:
        return column(name, number(f"status.{field}"), status + field, type="integer")

    return [
        NAME,
        integer("Desired", "desiredNumberScheduled"),
        integer("Current", "currentNumberScheduled"),
        integer("Ready", "numberReady"),
        integer("Up-to-date", "updatedNumberScheduled"),
        integer("Available", "numberAvailable"),
        plain_selector(
            "spec.template.spec.nodeSelector", _CORE + "PodSpec#nodeSelector", wide=False, name="Node Selector"
        ),
        AGE,
        *templates("spec.template"),
        _selector("spec.selector", spec + "selector"),
    ]


def _job_status(obj: Object, now: datetime) -> str:
    true = {c.get("type") for c in look(obj, "status.conditions") or () if c.get("status") == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if look(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    if "FailureTarget" in true:
        return "FailureTarget"
    return "SuccessCriteriaMet" if "SuccessCriteriaMet" in true else "Running"


def _job_completions(obj: Object, now: datetime) -> str:
    done, wanted = look(obj, "status.succeeded") or 0, look(obj, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = look(obj, "spec.parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: datetime) -> str:
    start = moment(look(obj, "status.startTime"))
    if start is None:
        return ""
    end = moment(look(obj, "status.completionTime")) or now
    return short_duration((end - start).total_seconds())


def jobs() -> list[Column]:
    return [
        NAME,
        column("Status", _job_status, "Status of the job."),
        column("Completions", _job_completions, _BATCH + "JobStatus#succeeded"),
        column("Duration", _job_duration, "Time required to complete the job."),
        AGE,
        *templates("spec.template"),
        _selector("spec.selector", _BATCH + "JobSpec#selector"),
    ]


def _cron_last(obj: Object, now: datetime) -> str:
    stamp = look(obj, "status.lastScheduleTime")
    return since(stamp, now) if stamp else NONE


def cron_jobs() -> list[Column]:
    spec, status = _BATCH + "CronJobSpec#", _BATCH + "CronJobStatus#"
    return [
        NAME,
        column("Schedule", text("spec.schedule"), spec + "schedule"),
        column("Timezone", text("spec.timeZone", NONE), spec + "timeZone"),
        column("Suspend", lambda obj, now: _capital(look(obj, "spec.suspend")), spec + "suspend", type="boolean"),
        column("Active", count("status.active"), status + "active", type="integer"),
        column("Last Schedule", _cron_last, status + "lastScheduleTime"),
        AGE,
        *templates("spec.jobTemplate.spec.template"),
        _selector("spec.jobTemplate.spec.selector", _BATCH + "JobSpec#selector"),
    ]


def _capital(value: Any) -> str:
    return "True" if value else "False"


def budgets() -> list[Column]:
    spec = "io.k8s.api.policy.v1.PodDisruptionBudgetSpec#"
    return [
        NAME,
        column("Min Available", text("spec.minAvailable", "N/A"), spec + "minAvailable"),
        column("Max Unavailable", text("spec.maxUnavailable", "N/A"), spec + "maxUnavailable"),
        column(
            "Allowed Disruptions",
            number("status.disruptionsAllowed"),
            "Calculated number of pods that may be disrupted at this time.",
            type="integer",
        ),
        AGE,
    ]


def _metric(spec: Object, status: Object | None) -> str:
    kind = spec.get("type")
    if kind in ("Resource", "ContainerResource"):
        key = "resource" if kind == "Resource" else "containerResource"
        source = spec.get(key) or {}
        target, current = source.get("target") or {}, look(status or {}, f"{key}.current") or {}
        name = source.get("name", "")
        if target.get("averageValue") is not None:
            return f"{name}: {current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        used = current.get("averageUtilization")
        wanted = target.get("averageUtilization")
        left = f"{used}%" if used is not None else UNKNOWN
        return f"{name}: {left}/{wanted}%" if wanted is not None else f"{name}: {left}/<auto>"
    key = str(kind or "")[:1].lower() + str(kind or "")[1:]
    target, current = look(spec, f"{key}.target") or {}, look(status or {}, f"{key}.current") or {}
    field = "averageValue" if target.get("averageValue") is not None else "value"
    suffix = " (avg)" if field == "averageValue" and kind != "Pods" else ""
    return f"{current.get(field, UNKNOWN)}/{target.get(field, UNKNOWN)}{suffix}"


def _autoscaler_metrics(obj: Object, now: datetime) -> str:
    specs = look(obj, "spec.metrics") or ()
    if not specs:
        return NONE
    statuses = list(look(obj, "status.currentMetrics") or ())
    shown = [_metric(spec, statuses[n] if n < len(statuses) else None) for n, spec in enumerate(specs)]
    return ", ".join(shown[:2]) + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "")


def autoscalers() -> list[Column]:
    spec, status = (f"io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler{part}#" for part in ("Spec", "Status"))
    return [
        NAME,
        column(
            "Reference",
            lambda obj, now: f"{look(obj, 'spec.scaleTargetRef.kind')}/{look(obj, 'spec.scaleTargetRef.name')}",
            spec + "scaleTargetRef",
        ),
        column("Targets", _autoscaler_metrics, spec + "metrics"),
        column("MinPods", text("spec.minReplicas", UNSET), spec + "minReplicas"),
        column("MaxPods", number("spec.maxReplicas"), spec + "maxReplicas"),
        column("Replicas", number("status.currentReplicas"), status + "currentReplicas"),
        AGE,
    ]


def templates(path: str) -> list[Column]:
    def names(obj: Object, now: datetime) -> str:
        return ",".join(c.get("name", "") for c in look(obj, path + ".spec.containers") or ())

    def images(obj: Object, now: datetime) -> str:
        return ",".join(c.get("image", "") for c in look(obj, path + ".spec.containers") or ())

    return [
        column("Containers", names, "Names of each container in the template.", wide=True),
        column("Images", images, "Images referenced by each container in the template.", wide=True),
    ]


def _selector(path: str, about: str) -> Column:
    return column("Selector", lambda obj, now: selector_text(look(obj, path)), about, wide=True)


def _ratio(done: str, wanted: str) -> Cell:
    return lambda obj, now: f"{look(obj, done) or 0}/{look(obj, wanted) or 0}"
