"""Rules for names, label keys and values, with the words in which a real API server refuses them.

Each function returns the complaints about a text; none means that it is well.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_QUALIFIED})?"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"
_ENV_NAME: Final = r"[-._a-zA-Z][-._a-zA-Z0-9]*"


def _regex_error(text: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {shown}, regex used for validation is '{pattern}')"


_LABEL_TEXT: Final = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT: Final = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
LABEL_1035_TEXT: Final = _regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QUALIFIED_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NAME_PART_TEXT: Final = _regex_error(f"name part {_QUALIFIED_WORDS}", _QUALIFIED, "MyName", "my.name", "123-abc")
_LABEL_KEY_TEXT: Final = (
    _regex_error(f"a valid label key {_QUALIFIED_WORDS}", _QUALIFIED, "MyName", "my.name", "123-abc")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_TEXT: Final = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_TEXT: Final = _regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_WILDCARD_TEXT: Final = _regex_error(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    rf"\*\.{_SUBDOMAIN}",
    "*.example.com",
)
EMPTY: Final = "must be non-empty"


def no_more_than(limit: int) -> str:
    return f"must be no more than {limit} characters"


def label(name: str) -> list[str]:
    """A DNS label (RFC 1123): names of pods' containers, services, namespaces."""
    errors = [no_more_than(63)] if len(name) > 63 else []
    if re.fullmatch(_LABEL, name) is None:
        errors.append("must not contain dots" if re.fullmatch(_SUBDOMAIN, name) else _LABEL_TEXT)
    return errors


def subdomain(name: str) -> list[str]:
    """A DNS subdomain (RFC 1123): names of most objects."""
    if len(name) > 253:
        return [no_more_than(253)] if re.fullmatch(_SUBDOMAIN, name) else [no_more_than(253), _SUBDOMAIN_TEXT]
    return [] if re.fullmatch(_SUBDOMAIN, name) else [_SUBDOMAIN_TEXT]


def label_1035(name: str) -> list[str]:
    """A DNS label that begins with a letter (RFC 1035)."""
    errors = [no_more_than(63)] if len(name) > 63 else []
    return errors if re.fullmatch(_LABEL_1035, name) else [*errors, LABEL_1035_TEXT]


def wildcard_subdomain(name: str) -> list[str]:
    if len(name) > 253:
        return [no_more_than(253)]
    return [] if re.fullmatch(rf"\*\.{_SUBDOMAIN}", name) else [_WILDCARD_TEXT]


def path_segment(name: str) -> list[str]:
    """What the names of roles and other loosely named objects must be."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in name]


def qualified(key: str) -> list[str]:
    """A label key, annotation key or finalizer: `name` or `prefix/name`."""
    parts = key.split("/")
    if len(parts) > 2:
        return [_LABEL_KEY_TEXT]
    errors: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        errors += ["prefix part " + EMPTY] if not prefix else [f"prefix part {text}" for text in subdomain(prefix)]
    name = parts[-1]
    if not name:
        errors.append("name part " + EMPTY)
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if re.fullmatch(_QUALIFIED, name) is None:
        errors.append(_NAME_PART_TEXT)
    return errors


def label_value(value: str) -> list[str]:
    errors = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return errors if re.fullmatch(_VALUE, value) else [*errors, _VALUE_TEXT]


def config_key(key: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    errors = [no_more_than(253)] if len(key) > 253 else []
    if re.fullmatch(_CONFIG_KEY, key) is None:
        errors.append(_CONFIG_KEY_TEXT)
    elif key == ".":
        errors.append("must not be '.'")
    elif key == "..":
        errors.append("must not be '..'")
    elif key.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name(name: str) -> list[str]:
    """The name of an environment variable: printable ASCII without `=`."""
    if re.fullmatch(r"[ -<>-~]+", name):
        return []
    return [
        _regex_error(
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
            "[ -<>-~]+",
            "my.env-name",
            "MY_ENV.NAME",
            "MyEnvName1",
        )
    ]


def port_name(name: str) -> list[str]:
    """An IANA service name: 15 characters, letters, digits and hyphens, at least one letter."""
    errors = [] if len(name) <= 15 else [f"must be no more than {15} characters"]
    if re.fullmatch(r"[-a-z0-9]*", name) is None:
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if re.search(r"[a-z]", name) is None:
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        errors.append("must not begin or end with a hyphen")
    return errors
