"""Kinds that make pods from a template: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.local.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import checks, names, pod_defaults, pod_validation, schedules
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values


def _matches_template(spec: Mapping[str, Any]) -> list[FieldError]:
    """The selector must be there, not be empty and match the template's labels."""
    selector, labels = spec.get("selector"), spec["template"].get("metadata", {}).get("labels")
    errors: list[FieldError] = []
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += checks.label_selector(selector, "spec.selector")
        if checks.selector_is_empty(selector):
            errors.append(invalid_value("spec.selector", selector, "empty selector is invalid for deployment"))
    if selector is None or (not checks.selector_is_empty(selector) and not checks.selector_matches(selector, labels)):
        text = "`selector` does not match template `labels`"
        errors.append(invalid_value("spec.template.metadata.labels", labels, text))
    return errors


def _template(
    template: Mapping[str, Any], path: str = "spec.template", *, restart: tuple[str, ...] = ()
) -> list[FieldError]:
    errors = pod_validation.template(template, path)
    policy = template.get("spec", {}).get("restartPolicy")
    if restart and policy in pod_validation.RESTART_POLICIES and policy not in restart:
        errors.append(not_supported(f"{path}.spec.restartPolicy", policy, restart))
    return errors


def _status_errors(status: Mapping[str, Any], counted: tuple[str, ...]) -> list[FieldError]:
    """Counts are not negative, no part is greater than the whole, nothing is available that is not ready."""
    whole = status.get("replicas", 0)
    errors: list[FieldError] = []
    for field in ("replicas", *counted, "observedGeneration"):
        errors += checks.not_negative(status.get(field), f"status.{field}")
    parts = [field for field in counted if field not in ("unavailableReplicas", "currentReplicas")]
    errors += [
        invalid_value(f"status.{field}", status.get(field, 0), "cannot be greater than status.replicas")
        for field in parts
        if status.get(field, 0) > whole
    ]
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        errors.append(invalid_value("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return errors


class Deployment(Strategy):
    status_fixed_metadata = ("labels",)

    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        pod_defaults.template_spec(spec["template"]["spec"])
        spec.setdefault("replicas", 1)
        strategy = spec["strategy"]
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.not_negative(spec["replicas"], "spec.replicas")
        errors += _matches_template(spec)
        errors += _template(spec["template"], restart=("Always",))
        errors += _deployment_strategy(spec["strategy"])
        errors += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += checks.not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
        deadline = spec.get("progressDeadlineSeconds")
        errors += checks.not_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            errors.append(invalid_value("spec.progressDeadlineSeconds", deadline, text))
        return errors

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return _status_errors(
            obj["status"], ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        )

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return self.errors(obj) + checks.immutable(obj["spec"], old["spec"], "selector", "spec.selector")


def _deployment_strategy(strategy: Mapping[str, Any]) -> list[FieldError]:
    path = "spec.strategy"
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(f"{path}.rollingUpdate", text)] if rolling is not None else []
    if kind != "RollingUpdate":
        return [not_supported(f"{path}.type", kind, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
    path += ".rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = checks.int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += checks.int_or_percent(surge, f"{path}.maxSurge")
    if checks.is_zero(unavailable) and checks.is_zero(surge):
        errors.append(invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + checks.no_more_than_100_percent(unavailable, f"{path}.maxUnavailable")


class ReplicaSet(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        pod_defaults.template_spec(obj["spec"]["template"]["spec"])
        obj["spec"].setdefault("replicas", 1)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.not_negative(spec["replicas"], "spec.replicas")
        errors += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _matches_template(spec)
        return errors + _template(spec["template"], restart=("Always",))

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return _status_errors(obj["status"], ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return checks.immutable(obj["spec"], old["spec"], "selector", "spec.selector") + self.errors(obj)


class StatefulSet(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        pod_defaults.template_spec(spec["template"]["spec"])
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = spec["updateStrategy"]
        update.setdefault("type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("partition", 0)
            rolling.setdefault("maxUnavailable", 1)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim["spec"].setdefault("volumeMode", "Filesystem")
            claim["status"].setdefault("phase", "Pending")

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        policy, update = spec["podManagementPolicy"], spec["updateStrategy"]
        if policy not in ("OrderedReady", "Parallel"):
            text = "must be 'OrderedReady' or 'Parallel'"
            errors.append(invalid_value("spec.podManagementPolicy", policy, text))
        if update.get("type") not in ("OnDelete", "RollingUpdate"):
            shown = {"Type": update.get("type"), "RollingUpdate": update.get("rollingUpdate")}
            text = "must be 'RollingUpdate' or 'OnDelete'"
            errors.append(invalid_value("spec.updateStrategy", shown, text))
        partition = (update.get("rollingUpdate") or {}).get("partition")
        errors += checks.not_negative(partition, "spec.updateStrategy.rollingUpdate.partition")
        errors += checks.not_negative(spec["replicas"], "spec.replicas")
        errors += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _matches_template(spec)
        return errors + _template(spec["template"], restart=("Always",))

    _MUTABLE = (
        "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
    )  # fmt: skip

    def status_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return _status_errors(
            obj["status"], ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        )

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        errors: list[FieldError] = []
        for field in ("selector", "serviceName", "podManagementPolicy"):
            errors += checks.immutable(spec, before, field, f"spec.{field}")
        listed = ("selector", "serviceName", "podManagementPolicy", *self._MUTABLE)
        others = {field for field in (*spec, *before) if field not in listed}
        if any(not values.equal(spec.get(field), before.get(field)) for field in others):
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden"
            )
            errors.append(forbidden_field("spec", text))
        return errors or self.errors(obj)


class DaemonSet(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        pod_defaults.template_spec(spec["template"]["spec"])
        update = spec["updateStrategy"]
        update.setdefault("type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def on_create(self, obj: dict[str, Any]) -> None:
        obj["metadata"].setdefault("annotations", {})["deprecated.daemonset.template.generation"] = "1"

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        name = "deprecated.daemonset.template.generation"
        number = int((old["metadata"].get("annotations") or {}).get(name, "0"))
        changed = not values.equal(obj["spec"]["template"], old["spec"]["template"])
        obj["metadata"].setdefault("annotations", {})[name] = str(number + 1 if changed else number)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = _matches_template(spec)
        errors += _template(spec["template"], restart=("Always",))
        errors += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += checks.one_of(
            spec["updateStrategy"].get("type"), "spec.updateStrategy.type", ("RollingUpdate", "OnDelete")
        )
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return self.errors(obj) + checks.immutable(obj["spec"], old["spec"], "selector", "spec.selector")


_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


class Job(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        _job_defaults(obj)

    def on_create(self, obj: dict[str, Any]) -> None:
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        uid, name = meta.get("uid", ""), meta.get("name", "")
        labels = dict(zip(_JOB_LABELS, (uid, name, uid, name), strict=True))
        template = spec["template"].setdefault("metadata", {})
        template.setdefault("labels", {}).update(labels)
        if not meta.get("labels"):
            meta["labels"] = dict(template["labels"])
        spec.setdefault("selector", {}).setdefault("matchLabels", {})[_JOB_LABELS[0]] = uid

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = _job_spec(spec, "spec")
        labels = spec["template"].get("metadata", {}).get("labels")
        if spec.get("selector") is None:
            errors.insert(0, required("spec.selector"))
        elif not checks.selector_matches(spec["selector"], labels):
            text = "`selector` does not match template `labels`"
            errors.append(invalid_value("spec.template.metadata.labels", labels, text))
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        errors = _job_spec(spec, "spec")
        if not (spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")):
            errors += checks.immutable(spec, before, "completions", "spec.completions")
        for field in (
            "selector",
            "template",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
        ):
            if field == "template" and before.get("suspend") and not old.get("status", {}).get("startTime"):
                continue
            errors += checks.immutable(spec, before, field, f"spec.{field}")
        return errors


def _job_defaults(obj: dict[str, Any]) -> None:
    spec = obj["spec"]
    pod_defaults.template_spec(spec["template"]["spec"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    if "backoffLimitPerIndex" in spec and spec["backoffLimit"] == 6:
        spec["backoffLimit"] = 2**31 - 1


def _job_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        errors += checks.not_negative(spec.get(field), f"{path}.{field}")
    errors += _template(spec["template"], f"{path}.template")
    policy = spec["template"].get("spec", {}).get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if policy in ("Always", "", None):
        errors.append(required(place, 'valid values: "OnFailure", "Never"'))
    return errors


class CronJob(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        pod_defaults.template_spec(spec["jobTemplate"]["spec"]["template"]["spec"])

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        schedule = spec.get("schedule", "")
        if not schedule:
            errors.append(required("spec.schedule"))
        elif text := schedules.fault(schedule):
            errors.append(invalid_value("spec.schedule", schedule, text))
        errors += checks.not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
        errors += checks.one_of(spec["concurrencyPolicy"], "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))
        job = spec["jobTemplate"]["spec"]
        errors += _job_spec(job, "spec.jobTemplate.spec")
        name = obj["metadata"].get("name", "")
        if len(name) > 52:
            errors.insert(0, invalid_value("metadata.name", name, names.no_more_than(52)))
        return errors
