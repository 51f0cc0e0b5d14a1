"""A fast look at the schemas in a definition: whether they are written as they are stored already.

Real definitions hold whole pod templates and reach megabytes, so they are decoded member by member (`kinds.decode`)
only when something in them is out of the ordinary: a member of a wrong type or an unknown name, an empty one, a null.
Called by `kinds.decode`.
"""

from __future__ import annotations

from typing import Any, Final

_INTEGERS: Final = ("maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties")
_TEXTS: Final = (
    "$ref", "$schema", "description", "format", "id", "pattern", "title", "type", "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)  # fmt: skip
_FLAGS: Final = (
    "exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip
# Members with nothing below them, and what type their values have.
_PLAIN: Final[dict[str, type]] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_FLAGS, bool),
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(("enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations"), list),
}
_BELOW: Final = ("items", "additionalProperties", "not")
_CHOICES: Final = ("allOf", "anyOf", "oneOf")
_RULE: Final = {"rule": str, "message": str, "messageExpression": str, "reason": str, "fieldPath": str}


def is_stored_form(schema: Any) -> bool:
    """Whether decoding the schema certainly leaves it as it is. False says nothing."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if type(node) is not dict:
            return False
        for word, value in node.items():
            wanted = _PLAIN.get(word)
            if wanted is not None:
                if type(value) is not wanted or not (value or wanted is int):
                    return False
                if wanted is list and not _is_plain_list(word, value):
                    return False
            elif word == "properties":
                if type(value) is not dict or not value:
                    return False
                pending += value.values()
            elif word in _BELOW:
                if type(value) is not bool or word != "additionalProperties":
                    pending.append(value)
            elif word in _CHOICES:
                if type(value) is not list or not value:
                    return False
                pending += value
            elif not _is_value(word, value):
                return False
    return True


def _is_plain_list(word: str, value: Any) -> bool:
    if word == "enum":
        return True
    if word == "x-kubernetes-validations":
        return all(
            type(rule) is dict
            and "rule" in rule
            and all(text and type(text) is _RULE.get(name) for name, text in rule.items())
            for rule in value
        )
    return all(type(text) is str for text in value)


def _is_value(word: str, value: Any) -> bool:
    if word in ("maximum", "minimum", "multipleOf"):
        return type(value) in (int, float)
    return word in ("default", "example") and value is not None
