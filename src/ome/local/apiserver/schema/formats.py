"""String formats of OpenAPI that custom resources may name; unknown formats are not checked, as on a real server."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DURATION_PART: Final = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION_WORDS: Final = re.compile(
    r"[-+]?\d+(\.\d+)?\s*(ns|nano\w*|us|µs|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hr\w*|hours?|d|days?|w|weeks?)",
    re.I,
)


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


_DATE_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)?"
)


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _is_date(text[:10])


def is_go_duration(text: str) -> bool:
    """Go's duration syntax: `1h30m`, `250ms`, `-1.5s`, `0`."""
    body = text[1:] if text[:1] in ("+", "-") else text
    return body == "0" or (body != "" and _DURATION_PART.sub("", body) == "")


def _is_duration(text: str) -> bool:
    return is_go_duration(text) or _DURATION_WORDS.fullmatch(text) is not None


_UNIT_SECONDS: Final = {
    "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "mic": 1e-6, "ms": 1e-3, "mil": 1e-3, "m": 60.0, "s": 1.0,
    "h": 3600.0, "d": 86400.0, "w": 604800.0,
}  # fmt: skip


def duration_seconds(text: str) -> float:
    """The seconds of a text of the format `duration`, Go's (`1h30m`) or in words (`2 days`). Raises ValueError."""
    if not _is_duration(text):
        raise ValueError(f"not a duration: {text}")
    total = 0.0
    for number, unit in re.findall(r"(\d+\.?\d*|\.\d+)\s*([a-zµμ]*)", text.lower()):
        total += float(number) * _unit_seconds(unit)
    return -total if text.startswith("-") else total


def _unit_seconds(unit: str) -> float:
    for length in (3, 2, 1):
        if unit[:length] in _UNIT_SECONDS:
            return _UNIT_SECONDS[unit[:length]]
    return 0.0


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    if "/" not in text:
        return False
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_byte(text: str) -> bool:
    try:
        base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return False
    return text != ""


def is_uri(text: str) -> bool:
    """What Go's url.ParseRequestURI takes: an absolute URI or an absolute path."""
    if not text or re.search(r"[\x00-\x20\x7f]", text):
        return False
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", parts.scheme) is not None


_UUID: Final = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"

CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "uri": is_uri,
    "email": _matches(r"[^@\s<>()\[\],;:\\\"]+@[^@\s<>()\[\],;:\\\"]+"),
    "hostname": lambda text: (
        len(text) <= 255
        and re.fullmatch(
            r"([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?", text
        )
        is not None
    ),
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "cidr": _is_cidr,
    "mac": _matches(
        r"([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2})(([:-][0-9a-fA-F]{2}){2})?|([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"
    ),
    "uuid": _matches(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.I),
    "uuid3": _matches(_UUID % ("3", "[0-9a-f]"), re.I),
    "uuid4": _matches(_UUID % ("4", "[89ab]"), re.I),
    "uuid5": _matches(_UUID % ("5", "[89ab]"), re.I),
    "isbn": _matches(r"(\d[- ]?){9}[\dX]|(\d[- ]?){13}"),
    "isbn10": _matches(r"(\d[- ]?){9}[\dX]"),
    "isbn13": _matches(r"(\d[- ]?){13}"),
    "creditcard": _matches(
        r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])"
        r"[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
    ),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)"),
    "byte": _is_byte,
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "k8s-short-name": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "k8s-long-name": lambda text: len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None,
}
