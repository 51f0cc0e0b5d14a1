"""Command-line flags in `args` and `command`: replacing a value in place, adding what is missing
(`spec/serving-runtimes.md section 7.5`).

Pure functions over lists of strings. Called by `ome.rendering.accelerators`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TENSOR_FLAGS = ("--tp-size", "--tp", "--tensor-parallel-size")
PIPELINE_FLAGS = ("--pp-size", "--pp", "--pipeline-parallel-size")


def merge_flags(args: Sequence[str], command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """`args` with each override's flag given the override's value; an override whose flag stands nowhere is appended.
    A flag only in `command` stays there."""
    merged = list(args)
    for flag, value in _flags(overrides):
        place = _find(merged, flag)
        if place is not None:
            _replace(merged, place, flag, value)
        elif _find(command, flag) is None:
            merged.append(flag if value is None else f"{flag}={value}")
    return merged


def set_parallelism(container: dict[str, Any], override: Mapping[str, Any]) -> None:
    """Rewrite the value of an existing tensor or pipeline flag, in `args` first, else in `command`; never adds a
    flag. 0 and unset do nothing."""
    for flags, size in (
        (TENSOR_FLAGS, override.get("tensorParallelSize")),
        (PIPELINE_FLAGS, override.get("pipelineParallelSize")),
    ):
        if size:
            _set_first(container, flags, str(size))


def _set_first(container: dict[str, Any], flags: Sequence[str], value: str) -> None:
    for key in ("args", "command"):
        words = container.get(key) or []
        for flag in flags:
            place = _find(words, flag)
            if place is not None:
                _replace(words, place, flag, value)
                return


def _flags(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Pairs of flag and value from `--flag=value`, `--flag value` and `--flag`; a word that is no flag and follows
    none stands for itself."""
    pairs: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("-"):
            flag, equals, value = word.partition("=")
            pairs.append((flag, value if equals else None))
        elif pairs and pairs[-1][1] is None and pairs[-1][0].startswith("-"):
            pairs[-1] = (pairs[-1][0], word)
        else:
            pairs.append((word, None))
    return pairs


def _find(words: Sequence[str], flag: str) -> int | None:
    return next((index for index, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")), None)


def _replace(words: list[str], place: int, flag: str, value: str | None) -> None:
    """In the form the flag already has; a value for a bare flag goes behind it as `--flag=value`."""
    if value is None:
        return
    separate = words[place] == flag and place + 1 < len(words) and not words[place + 1].startswith("-")
    if separate:
        words[place + 1] = value
    else:
        words[place] = f"{flag}={value}"
