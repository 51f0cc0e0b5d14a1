"""Label selectors: the text form of requests and the object form of specs, matched against labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<not>!)\s*)?(?P<key>[A-Za-z0-9._/-]+)\s*"
    r"(?:(?P<op>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: Sequence[str] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case "In":
                return labels.get(self.key) in self.values
            case _:
                return self.key not in labels or labels[self.key] not in self.values


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none means everything matches."""

    requirements: Sequence[Requirement] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """The text form: `a=b,c!=d,e in (f,g),!h`. Raises ValueError."""
        found: list[Requirement] = []
        position = 0
        while position < len(text):
            match = _REQUIREMENT.match(text, position)
            if match is None or match.end() == position:
                raise ValueError(f"unable to parse requirement: {text[position:]!r}")
            found.append(_requirement(match))
            position = match.end()
        return cls(tuple(found))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any] | None) -> LabelSelector:
        """The object form: `matchLabels` and `matchExpressions`. None matches everything too."""
        spec = spec or {}
        found = [Requirement(key, "In", (value,)) for key, value in (spec.get("matchLabels") or {}).items()]
        found += [
            Requirement(item["key"], item["operator"], tuple(item.get("values") or ()))
            for item in spec.get("matchExpressions") or ()
        ]
        return cls(tuple(found))


def _requirement(match: re.Match[str]) -> Requirement:
    key = match["key"]
    if match["set"]:
        values = tuple(part.strip() for part in match["values"].split(","))
        return Requirement(key, "In" if match["set"] == "in" else "NotIn", values)
    if match["op"]:
        return Requirement(key, "NotIn" if match["op"] == "!=" else "In", (match["value"],))
    return Requirement(key, "DoesNotExist" if match["not"] else "Exists")


def format_labels(labels: Mapping[str, str]) -> str:
    """The text form of plain equalities, sorted by key: `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
