"""When a CronJob makes its next Job, and which old ones it removes. Pure; `controllers.py` calls it at the times it
asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ome.api.meta import timestamp
from ome.kube.resources import CRON_JOBS, JOBS
from ome.local.objects import Json, Object, condition_true, owner_reference, reference_to, status_patch, time_of
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan
from ome.local.workloads.jobs import is_finished

_FIELDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES: Final = {
    name: number
    for names, first in (("jan feb mar apr may jun jul aug sep oct nov dec", 1), ("sun mon tue wed thu fri sat", 0))
    for number, name in enumerate(names.split(), first)
}
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HORIZON: Final = timedelta(days=366 * 5)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression, field by field."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Raises ValueError for anything but five fields or a known macro."""
        fields = _MACROS.get(text.strip(), text).split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {text}")
        sets = [_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
        weekdays = frozenset(day % 7 for day in sets[4])
        return cls(sets[0], sets[1], sets[2], sets[3], weekdays, fields[2][0] in "*?", fields[4][0] in "*?")

    def after(self, moment: datetime) -> datetime | None:
        """The first time after the moment, in the moment's own zone; None when there is none in five years."""
        candidate = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        last = moment + _HORIZON
        while candidate <= last:
            if candidate.month not in self.months or not self._on_day(candidate):
                candidate = candidate.replace(hour=0, minute=0) + timedelta(days=1)
            elif candidate.hour not in self.hours:
                candidate = candidate.replace(minute=0) + timedelta(hours=1)
            elif candidate.minute not in self.minutes:
                candidate += timedelta(minutes=1)
            else:
                return candidate
        return None

    def _on_day(self, moment: datetime) -> bool:
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day or self.any_weekday else (day or weekday)


def _field(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = int(step_text) if step_text else 1
        if span in ("*", "?"):
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(start)
            last = _number(end) if dash else (high if step_text else first)
        if step < 1 or not low <= first <= last <= high:
            raise ValueError(f"value out of range in cron field {text!r}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str) -> int:
    return _NAMES[text.lower()] if text.lower() in _NAMES else int(text)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A CronJob and the Jobs it controls."""

    cron_job: Object
    jobs: Sequence[Object]


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """The Job that is due, the ones to remove, the status, and when to look again."""
    cron = snapshot.cron_job
    if cron.metadata.deleting:
        return Plan()
    actions: list[Action] = _history(snapshot)
    active = [job for job in snapshot.jobs if not is_finished(job)]
    status: Json = {name: value for name, value in cron.status.items() if name != "active"}
    due, after = _due(cron, now)
    if due is not None:
        actions.extend(_run(cron, due, active))
        status["lastScheduleTime"] = timestamp(due)
    if active:
        status["active"] = [_reference(job) for job in sorted(active, key=lambda found: found.name)]
    done = [
        time_of(job.status.get("completionTime")) for job in snapshot.jobs if condition_true(job.status, "Complete")
    ]
    known = [moment for moment in done if moment is not None]
    if known:
        status["lastSuccessfulTime"] = max(timestamp(max(known)), str(status.get("lastSuccessfulTime", "")))
    body = status_patch(cron.status, status)
    if body is not None:
        actions.append(Patch(CRON_JOBS, cron.namespace, cron.name, body, "status"))
    return Plan(actions, after)


def _due(cron: Object, now: datetime) -> tuple[datetime | None, float | None]:
    """The last missed time, if a Job has to be made for it, and the seconds until the next."""
    if cron.spec.get("suspend"):
        return None, None
    try:
        schedule = Schedule.parse(str(cron.spec.get("schedule", "")))
        zone: tzinfo = ZoneInfo(cron.spec["timeZone"]) if cron.spec.get("timeZone") else UTC
    except (ValueError, ZoneInfoNotFoundError):
        return None, None
    earliest = time_of(cron.status.get("lastScheduleTime")) or cron.metadata.creation_timestamp or now
    deadline = cron.spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=float(deadline)))
    due: datetime | None = None
    upcoming = schedule.after(earliest.astimezone(zone))
    missed = 0
    while upcoming is not None and upcoming <= now and missed < 100:
        due, missed = upcoming, missed + 1
        upcoming = schedule.after(upcoming)
    if upcoming is not None and upcoming <= now:
        upcoming = schedule.after(now.astimezone(zone))
    after = None if upcoming is None else max(0.1, (upcoming - now).total_seconds() + 0.1)
    return (due.astimezone(UTC) if due is not None else None), after


def _run(cron: Object, due: datetime, active: Sequence[Object]) -> list[Action]:
    policy = cron.spec.get("concurrencyPolicy", "Allow")
    actions: list[Action] = []
    if active and policy == "Forbid":
        return []
    if policy == "Replace":
        actions.extend(Delete(JOBS, job.namespace, job.name, job.uid, propagation="Background") for job in active)
    template = cron.spec.get("jobTemplate") or {}
    source = template.get("metadata") or {}
    name = f"{cron.name}-{int(due.timestamp()) // 60}"
    metadata: Json = {
        "name": name,
        "namespace": cron.namespace,
        "annotations": {
            **(source.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": timestamp(due),
        },
        "ownerReferences": [owner_reference(cron, CRON_JOBS)],
    }
    if source.get("labels"):
        metadata["labels"] = source["labels"]
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}
    about = reference_to(cron, CRON_JOBS)
    actions.append(Create(JOBS, body, Emit(about, "Normal", "SuccessfulCreate", f"Created job {name}")))
    return actions


def _history(snapshot: Snapshot) -> list[Action]:
    cron = snapshot.cron_job
    actions: list[Action] = []
    for type_, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        limit = int(cron.spec.get(field, default))
        ended = [job for job in snapshot.jobs if condition_true(job.status, type_)]
        ended.sort(key=lambda job: (str(job.status.get("startTime", "")), job.name))
        oldest = ended[: max(0, len(ended) - limit)]
        actions.extend(Delete(JOBS, job.namespace, job.name, job.uid, propagation="Background") for job in oldest)
    return actions


def _reference(job: Object) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "resourceVersion": job.metadata.resource_version,
    }
