"""Which runtime serves a model when none is named, and whether a named one declares it: filters, reasons, ranking
(`spec/serving-runtimes.md sections 5 and 9`).

Pure: every candidate is explained, so that the controller's error text, admission and `kubectl ome runtime explain`
tell one story.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

from ome.api import keys
from ome.rendering.formats import (
    entry_fits_format,
    entry_mismatches,
    entry_score,
    model_label,
    size_distance,
    size_mismatch,
)
from ome.rendering.model import Component, DeploymentMode, ModelFacts, ServiceFacts
from ome.rendering.models import is_sharded
from ome.rendering.modes import annotated_mode, declared_mode
from ome.runtimes.lookup import ResolvedRuntime, disabled_text
from ome.runtimes.reading import Runtime, RuntimeKind, RuntimeReader

_POD_SETS = (Component.ENGINE, Component.DECODER)

NO_CACHE_PROVIDER = "no model cache provider is configured for sharded model loading"


class Check(IntEnum):
    """The filters in their order; up to SIZE a failure is listed in the selection error."""

    DISABLED = 1
    ACCELERATOR_CLASS = 2
    DEPLOYMENT_MODE = 3
    FORMAT = 4
    SIZE = 5
    AUTO_SELECT = 6
    SCORE = 7


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The first filter a runtime fails, in words."""

    check: Check
    reason: str

    @property
    def listed(self) -> bool:
        return self.check <= Check.SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One runtime and what selection makes of it. `exclusion` None = it could be chosen.

    `matching_entry`: the first entry of `supportedModelFormats` that fits the model wholly, whatever its
    `autoSelect`."""

    runtime: Runtime
    exclusion: Exclusion | None
    score: int = 0
    distance: Decimal = Decimal(0)
    matching_entry: Mapping[str, Any] | None = None

    @property
    def rank(self) -> tuple[bool, int, Decimal, str]:
        """Smaller is better: namespaced first, higher score, nearer size range, name."""
        return self.runtime.kind is RuntimeKind.CLUSTER, -self.score, self.distance, self.runtime.name


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a service asks of a runtime besides its model."""

    accelerator_classes: tuple[str, ...] = ()
    modes: tuple[tuple[Component, DeploymentMode], ...] = ()

    @classmethod
    def of(cls, service: ServiceFacts) -> Requirements:
        """Classes pooled from annotation, selector and overrides; modes the service itself declares."""
        selectors = [service.accelerator_selector]
        selectors.extend((service.components.get(part) or {}).get("acceleratorOverride") or {} for part in _POD_SETS)
        pooled = [service.annotations[keys.ACCELERATOR_CLASS]] if keys.ACCELERATOR_CLASS in service.annotations else []
        pooled.extend(selector["acceleratorClass"] for selector in selectors if "acceleratorClass" in selector)
        declared = {part: declared_mode(service, part) for part in _POD_SETS if part in service.components}
        return cls(
            tuple(dict.fromkeys(name for name in pooled if name is not None)),
            tuple((part, mode) for part, mode in declared.items() if mode is not None),
        )


class SelectionError(Exception):
    """Selecting failed for another reason than that nothing matches."""


class InvalidModelError(SelectionError):
    """A model that no runtime can be matched with."""


class NoRuntimeFoundError(SelectionError):
    """Nothing matches; str() is the exact text with the excluded runtimes."""


class NamedRuntimeError(Exception):
    """A named runtime that must not be used: disabled, or the model cannot be matched at all."""


def explain(model: ModelFacts, requirements: Requirements, runtimes: Iterable[Runtime]) -> tuple[Candidate, ...]:
    """Every runtime judged by its own spec: possible ones first, best first, then the excluded, namespaced first, by
    name.

    Raises `InvalidModelError`."""
    check_model(model)
    candidates = [_judge(runtime, model, requirements) for runtime in runtimes]
    possible = sorted((candidate for candidate in candidates if not candidate.exclusion), key=lambda c: c.rank)
    excluded = sorted(
        (candidate for candidate in candidates if candidate.exclusion),
        key=lambda c: (c.runtime.kind is RuntimeKind.CLUSTER, c.runtime.name),
    )
    return (*possible, *excluded)


def select(model: ModelFacts, service: ServiceFacts, reader: RuntimeReader) -> Runtime:
    """The runtime OME picks. Raises `NoRuntimeFoundError` and `InvalidModelError`."""
    runtimes = [*reader.serving_runtimes(service.namespace), *reader.cluster_serving_runtimes()]
    candidates = explain(model, Requirements.of(service), runtimes)
    if candidates and candidates[0].exclusion is None:
        return candidates[0].runtime
    raise NoRuntimeFoundError(no_runtime_text(model, service.namespace, candidates))


def no_runtime_text(model: ModelFacts, namespace: str, candidates: Sequence[Candidate]) -> str:
    """The selection error with what was checked and why it was excluded."""
    name = _format_name(model)
    text = f"no runtime found to support model {name} with format {name} in namespace {namespace}"
    if not candidates:
        return text
    cluster = sum(candidate.runtime.kind is RuntimeKind.CLUSTER for candidate in candidates)
    text += (
        f". Checked {len(candidates)} runtimes ({len(candidates) - cluster} namespace-scoped, {cluster} cluster-scoped)"
    )
    excluded = sorted(
        (candidate.runtime.name, candidate.exclusion.reason)
        for candidate in candidates
        if candidate.exclusion is not None and candidate.exclusion.listed
    )
    if excluded:
        text += ". Excluded runtimes: " + "; ".join(f"{name} ({reason})" for name, reason in excluded)
    return text


def check_named(resolved: ResolvedRuntime, model: ModelFacts, service: ServiceFacts) -> str | None:
    """Whether a named runtime, everything inherited, declares the model. None when it does, else `<err>` for the
    advisory:
    `runtime <r> does not support model <format>: <reason>`.

    Raises `NamedRuntimeError` when it must not be used at all."""
    if resolved.disabled:
        raise NamedRuntimeError(disabled_text(resolved.name, resolved.runtime.kind))
    try:
        check_model(model)
    except InvalidModelError as error:
        raise NamedRuntimeError(str(error)) from error
    exclusion, _ = _first_failure(resolved.merged, model, Requirements.of(service))
    if exclusion is None:
        return None
    about = "" if exclusion.check < Check.FORMAT else _format_name(model)
    return f"runtime {resolved.name} does not support model {about}: {exclusion.reason}"


def check_model(model: ModelFacts) -> None:
    """Raises `InvalidModelError` for a model without a format name and for one that cannot be loaded."""
    if not _format_name(model):
        raise InvalidModelError("invalid model specification: modelFormat.name: model format name is required")
    if is_sharded(model):
        raise InvalidModelError(NO_CACHE_PROVIDER)


def runtime_score(spec: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    """The best entry that fits format and framework and does not refuse auto-selection; 0 without one."""
    scores = [
        entry_score(entry)
        for entry in spec.get("supportedModelFormats") or []
        if entry.get("autoSelect") is not False and entry_fits_format(entry, model)
    ]
    return max(scores, default=0)


def _judge(runtime: Runtime, model: ModelFacts, requirements: Requirements) -> Candidate:
    exclusion, matching = _first_failure(runtime.spec, model, requirements)
    score = runtime_score(runtime.spec, model.spec)
    if exclusion is None:
        exclusion = _not_selectable(runtime.spec, model, matching or {}, score)
    return Candidate(
        runtime=runtime,
        exclusion=exclusion,
        score=score,
        distance=size_distance(runtime.spec.get("modelSizeRange"), model.spec),
        matching_entry=matching,
    )


def _first_failure(
    spec: Mapping[str, Any], model: ModelFacts, requirements: Requirements
) -> tuple[Exclusion | None, Mapping[str, Any] | None]:
    """Filters 1-5, and the entry that matched."""
    if spec.get("disabled") is True:
        return Exclusion(Check.DISABLED, "runtime is disabled"), None
    listed = (spec.get("acceleratorRequirements") or {}).get("acceleratorClasses") or []
    if any(name not in listed for name in requirements.accelerator_classes):
        return (
            Exclusion(Check.ACCELERATOR_CLASS, "runtime does not support the required accelerator class"),
            None,
        )
    for component, wanted in requirements.modes:
        declared = annotated_mode(spec.get(component.config_key))
        if declared is not None and declared is not wanted:
            text = (
                f"runtime {component} deployment mode {declared} does not match requested {component} deployment mode "
                f"{wanted}"
            )
            return Exclusion(Check.DEPLOYMENT_MODE, text), None
    entries = spec.get("supportedModelFormats") or []
    differences = [entry_mismatches(entry, model.spec) for entry in entries]
    matching = next((entry for entry, found in zip(entries, differences, strict=True) if not found), None)
    if matching is None:
        listed_text = "; ".join(", ".join(found) for found in differences) or "no supported formats defined"
        label = model_label(model.spec)
        return Exclusion(Check.FORMAT, f"model format '{label}' not in supported formats: {listed_text}"), None
    size = size_mismatch(spec.get("modelSizeRange"), model.spec)
    return (Exclusion(Check.SIZE, size) if size else None), matching


def _not_selectable(
    spec: Mapping[str, Any], model: ModelFacts, matching: Mapping[str, Any], score: int
) -> Exclusion | None:
    """Filters 6 and 7, in the command line's words."""
    entries = spec.get("supportedModelFormats") or []
    if not any(entry.get("autoSelect") is True for entry in entries):
        return Exclusion(
            Check.AUTO_SELECT,
            "supports the model but has no supportedModelFormats[].autoSelect=true entry, so automatic selection "
            "skips it (pin it explicitly via spec.runtime.name instead)",
        )
    if score > 0:
        return None
    if matching.get("autoSelect") is not True:
        return Exclusion(
            Check.SCORE,
            f"matching format {_format_name(model)} is not autoSelect-enabled (a different supportedModelFormats entry "
            "on this runtime has autoSelect=true, but not the one that matches this model)",
        )
    return Exclusion(Check.SCORE, "auto-select score is 0")


def _format_name(model: ModelFacts) -> str:
    return str((model.spec.get("modelFormat") or {}).get("name") or "")
