"""Whether a cron schedule can be read, in the words of the server's parser."""

from __future__ import annotations

import re
from typing import Final

_FIELDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES: Final = {
    3: ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    4: ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_WORDS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def fault(schedule: str) -> str:
    """What is wrong with a schedule of five fields or a word such as `@daily`; empty when it is well."""
    if schedule.startswith("@"):
        if schedule in _WORDS or re.fullmatch(r"@every ([0-9.]+(ns|us|ms|s|m|h))+", schedule):
            return ""
        return f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for position, part in enumerate(parts):
        for term in part.split(","):
            text = _term_fault(term, position)
            if text:
                return text
    return ""


def _term_fault(term: str, position: int) -> str:
    low, high = _FIELDS[position]
    span, _, step = term.partition("/")
    if "/" in term and not (step.isdigit() and int(step) > 0):
        return f"failed to parse int from {step}: strconv.Atoi: parsing {step!r}: invalid syntax"
    if span in ("*", "?"):
        return ""
    for word in span.split("-"):
        number = _number(word, position)
        if number is None:
            return f'failed to parse int from {word}: strconv.Atoi: parsing "{word}": invalid syntax'
        if number > high:
            return f"end of range ({number}) above maximum ({high}): {term}"
        if number < low:
            return f"beginning of range ({number}) below minimum ({low}): {term}"
    return ""


def _number(word: str, position: int) -> int | None:
    if word.isdigit():
        return int(word)
    names = _NAMES.get(position, ())
    lowered = word.lower()
    return names.index(lowered) + (1 if position == 3 else 0) if lowered in names else None
