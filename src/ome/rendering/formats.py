"""Does an entry of `supportedModelFormats` fit a model: versions, sizes, diffusion pipelines, and the words for why
not.

Pure matching of one entry with one model. Ranking runtimes is `ome.runtimes.selection`; this lives below it because
rendering asks the same question to find the entry whose `acceleratorConfig` applies (`spec/serving-runtimes.md
sections 5.1-5.5, 7.5`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"(?P<v>v?)(?P<numbers>{_NUMBER}(?:\.{_NUMBER}(?:\.{_NUMBER}"
    rf"(?P<suffix>(?:\.[0-9A-Za-z-]+)*(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?))?)?)",
    re.ASCII,
)
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>[MBT]?)", re.ASCII)
_UNITS = {"": Decimal(1), "M": Decimal(10) ** 6, "B": Decimal(10) ** 9, "T": Decimal(10) ** 12}

GREATER_THAN = "GreaterThan"
GREATER_THAN_OR_EQUAL = "GreaterThanOrEqual"
EQUAL = "Equal"

_ZERO_WEIGHTS = {"modelFormat": 10, "modelFramework": 5}
"""A stored 0 cannot be told from unset, so it scores as these (section 5.2)."""


@dataclass(frozen=True, slots=True)
class Version:
    """`parts`: 1-3 numbers as written; `suffix`: everything after the third number, with its separator."""

    parts: tuple[int, ...]
    suffix: str
    has_v: bool

    @property
    def padded(self) -> tuple[int, int, int]:
        """Missing parts count as zero."""
        major, minor, patch = (*self.parts, 0, 0)[:3]
        return major, minor, patch


def parse_version(text: str) -> Version | None:
    """None when it is no version; such a version matches nothing."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    suffix = match["suffix"] or ""
    numbers = match["numbers"].removesuffix(suffix) if suffix else match["numbers"]
    return Version(tuple(int(part) for part in numbers.split(".")), suffix, bool(match["v"]))


def versions_match(entry: str, operator: str | None, model: str) -> bool:
    """The entry's operator between the entry's version (left) and the model's (right), `spec/serving-runtimes.md
    section 5.3`."""
    left, right = parse_version(entry), parse_version(model)
    if left is None or right is None:
        return False
    equal = left.padded == right.padded and left.suffix == right.suffix
    plain = not left.suffix and not right.suffix
    same_shape = len(left.parts) == len(right.parts) and left.has_v == right.has_v
    if operator in (None, "", EQUAL):
        return equal
    if operator not in (GREATER_THAN, GREATER_THAN_OR_EQUAL):
        return equal and (not plain or same_shape)
    if not plain:
        return equal
    if not same_shape:
        return False
    return left.parts > right.parts or (operator == GREATER_THAN_OR_EQUAL and left.parts == right.parts)


def parse_size(text: str) -> Decimal:
    """`3.21B` -> 3210000000; anything malformed reads as 0 (section 5.4)."""
    match = _SIZE.fullmatch(text)
    return Decimal(match["number"]) * _UNITS[match["unit"]] if match else Decimal(0)


def size_mismatch(size_range: Mapping[str, Any] | None, model: Mapping[str, Any]) -> str | None:
    """`model size 70B is outside supported range [2B, 4B]`, or None when it is inside, unbounded or unknown."""
    size = _text(model.get("modelParameterSize"))
    if not size_range or not size:
        return None
    low, high = _text(size_range.get("min")), _text(size_range.get("max"))
    value = parse_size(size)
    if (not low or value >= parse_size(low)) and (not high or value <= parse_size(high)):
        return None
    bounds = f"{f'[{low}' if low else '(-inf'}, {f'{high}]' if high else 'inf)'}"
    return f"model size {size} is outside supported range {bounds}"


def size_distance(size_range: Mapping[str, Any] | None, model: Mapping[str, Any]) -> Decimal:
    """Sum of |bound - size| over the bounds that are set; 0 without a range or a size (section 5.2)."""
    size = _text(model.get("modelParameterSize"))
    if not size_range or not size:
        return Decimal(0)
    value = parse_size(size)
    bounds = (_text(size_range.get(key)) for key in ("min", "max"))
    return sum((abs(parse_size(bound) - value) for bound in bounds if bound), Decimal(0))


def model_label(model: Mapping[str, Any]) -> str:
    """`mt:safetensors:1.0.0:LlamaForCausalLM:transformers:4.46.0`: the model in an exclusion reason; unset parts
    left out."""
    wanted, framework = _part(model, "modelFormat"), _part(model, "modelFramework")
    parts = (
        _text(wanted.get("name")),
        _text(wanted.get("version")),
        _text(model.get("modelArchitecture")),
        _text(model.get("quantization")),
        _text(framework.get("name")),
        _text(framework.get("version")),
    )
    return ":".join(["mt", *(part for part in parts if part)])


def entry_mismatches(entry: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Every difference of one entry, in the order architecture, quantization, format, framework, then the pipeline;
    [] = it fits."""
    differences = [
        _one_value("architecture", _text(model.get("modelArchitecture")), _text(entry.get("modelArchitecture"))),
        _one_value("quantization", _text(model.get("quantization")), _text(entry.get("quantization"))),
        _named_version("format", _part(model, "modelFormat"), _part(entry, "modelFormat")),
        _named_version("framework", _part(model, "modelFramework"), _part(entry, "modelFramework")),
        _pipeline(entry.get("diffusionPipeline"), model.get("diffusionPipeline")),
    ]
    return [difference for difference in differences if difference]


def entry_fits_format(entry: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Names and versions of format and framework only: what a score counts (section 5.2)."""
    return not any(
        _named_version(word, _part(model, key), _part(entry, key))
        for word, key in (("format", "modelFormat"), ("framework", "modelFramework"))
    )


def entry_score(entry: Mapping[str, Any]) -> int:
    """`(modelFormat.weight + modelFramework.weight) * priority`."""
    weights = sum(_weight(entry, key) for key in ("modelFormat", "modelFramework"))
    priority = entry.get("priority")
    return weights * (1 if priority is None else int(priority))


def best_entry(
    entries: Iterable[Mapping[str, Any]], model: Mapping[str, Any], *, auto_select_only: bool
) -> Mapping[str, Any] | None:
    """The entry whose `acceleratorConfig` applies (section 7.5): one that fits the model wholly before one that fits
    only format and framework, then the higher score, then the earlier."""
    fitting = [
        entry
        for entry in entries
        if entry_fits_format(entry, model) and (not auto_select_only or entry.get("autoSelect") is True)
    ]
    return max(fitting, key=lambda entry: (not entry_mismatches(entry, model), entry_score(entry)), default=None)


def _weight(entry: Mapping[str, Any], key: str) -> int:
    part = entry.get(key)
    if not part:
        return 0
    weight = part.get("weight")
    if weight is None:
        return 1
    return int(weight) or _ZERO_WEIGHTS[key]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _part(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = holder.get(key)
    return part if isinstance(part, Mapping) else {}


def _one_value(word: str, model: str, runtime: str) -> str | None:
    if model == runtime:
        return None
    if not runtime:
        return f"model has {word} {model} but runtime has no {word} requirement"
    if not model:
        return f"model has no {word} but runtime requires {runtime}"
    return f"{word} mismatch (model={model}, runtime={runtime})"


def _named_version(word: str, model: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    """One difference at most: with other names the versions say nothing."""
    model_name, entry_name = _text(model.get("name")), _text(entry.get("name"))
    if not entry_name:
        return None
    if not model_name:
        return f"model has no {word} but runtime requires {entry_name}"
    if model_name != entry_name:
        return f"{word} name mismatch (model={model_name}, runtime={entry_name})"
    model_version, entry_version = model.get("version"), entry.get("version")
    if model_version is None and entry_version is None:
        return None
    if model_version is None:
        return f"model has no {word} version but runtime requires {entry_version}"
    if entry_version is None:
        return f"model has {word} version but runtime has no version requirement"
    if versions_match(_text(entry_version), entry.get("operator"), _text(model_version)):
        return None
    return f"{word} version mismatch (model={model_version}, runtime={entry_version})"


_PIPELINE_COMPONENTS = ("scheduler", "textEncoder", "tokenizer", "transformer", "vae")


def _pipeline(entry: Any, model: Any) -> str | None:
    """First difference of the diffusion pipeline (section 5.5); an entry without the block takes any model."""
    if not isinstance(entry, Mapping):
        return None
    if not isinstance(model, Mapping):
        return "diffusion pipeline required by runtime but not specified in model"
    class_name = _text(entry.get("className"))
    if class_name and model.get("className") != class_name:
        return f"pipeline class mismatch (model={_text(model.get('className')) or '<nil>'}, runtime={class_name})"
    for name in _PIPELINE_COMPONENTS:
        difference = _pipeline_component(name, entry.get(name), model.get(name))
        if difference:
            return difference
    wanted = entry.get("additionalComponents") or {}
    if not wanted:
        return None
    offered = model.get("additionalComponents") or {}
    if not offered:
        return "diffusion pipeline missing required additional components"
    for name in sorted(wanted):
        if name not in offered:
            return f"diffusion component {name} missing in model"
        difference = _pipeline_component(name, wanted[name], offered[name])
        if difference:
            return difference
    return None


def _pipeline_component(name: str, entry: Any, model: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    if not isinstance(model, Mapping):
        return f"component {name} required by runtime but not specified in model"
    for part in ("library", "type"):
        wanted = _text(entry.get(part))
        if wanted and model.get(part) != wanted:
            return f"{name} {part} mismatch (model={_text(model.get(part)) or '<nil>'}, runtime={wanted})"
    return None
