"""Kubernetes' own functions for CEL: URLs, addresses, quantities, versions, lists, regular expressions.

Values that CEL itself does not know (a quantity, a URL) are maps with a mark, so that they compare and print. Used by
`cel.py` alone. Not there: `indexOf` of lists (the package's own is for texts), macros of
two variables, the authorizer.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from cel_expr_python import cel

from ome.local.apiserver.kinds import quantities
from ome.local.apiserver.schema import formats

_MARK: Final = "@type"
_T: Final = cel.Type
_OPAQUE: Final = _T.Map(_T.STRING, _T.DYN)
_LIST: Final = _T.LIST


def _made(kind: str, text: str) -> dict[str, Any]:
    return {_MARK: kind, "text": text}


def _text(value: Mapping[str, Any], kind: str) -> str:
    if value.get(_MARK) != kind:
        raise ValueError("no such overload")
    return str(value["text"])


def _holds(check: Callable[[str], Any]) -> Callable[[str], bool]:
    """Whether a text can be made into a value."""

    def holds(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return True

    return holds


# quantities


def _quantity(text: str) -> dict[str, Any]:
    return _made("quantity", quantities.canonical(text))


def _amount(value: Mapping[str, Any]) -> Decimal:
    return quantities.parse(_text(value, "quantity"))


def _compare(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    if left.get(_MARK) == "semver":
        a, b = _semver_key(_text(left, "semver")), _semver_key(_text(right, "semver"))
        return (a > b) - (a < b)
    one, other = _amount(left), _amount(right)
    return (one > other) - (one < other)


def _plus(left: Mapping[str, Any], right: Decimal) -> dict[str, Any]:
    return _made("quantity", quantities.canonical(format(_amount(left) + right, "f")))


# URLs


def _url(text: str) -> dict[str, Any]:
    if not formats.is_uri(text):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return _made("url", text)


def _port(value: Mapping[str, Any]) -> str:
    port = urlsplit(_text(value, "url")).port
    return "" if port is None else str(port)


def _query(value: Mapping[str, Any]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for part in urlsplit(_text(value, "url")).query.split("&"):
        if part:
            key, _, item = part.partition("=")
            out.setdefault(key, []).append(item)
    return out


# addresses


def _ip(text: str) -> dict[str, Any]:
    return _made("ip", str(ipaddress.ip_address(text)))


def _address(value: Mapping[str, Any]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(_text(value, "ip"))


def _cidr(text: str) -> dict[str, Any]:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: {text}")
    ipaddress.ip_network(text, strict=False)
    return _made("cidr", text)


def _network(value: Mapping[str, Any]) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(_text(value, "cidr"), strict=False)


def _family(value: Mapping[str, Any]) -> int:
    return _address(value).version if value.get(_MARK) == "ip" else _network(value).version


def _contains_ip(network: Mapping[str, Any], address: Mapping[str, Any]) -> bool:
    return _address(address) in _network(network)


def _contains_cidr(network: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    outer, inner = _network(network), _network(other)
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


# semantic versions

_SEMVER: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


def _semver(text: str) -> dict[str, Any]:
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"invalid semantic version {text!r}")
    return _made("semver", text)


def _semver_key(text: str) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid semantic version {text!r}")
    pre = match[4]
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (pre or "").split(".") if part]
    return int(match[1]), int(match[2]), int(match[3]), pre is None, tuple(parts)


def _part(index: int) -> Callable[[Mapping[str, Any]], int]:
    return lambda value: int(_semver_key(_text(value, "semver"))[index])


# lists and texts


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


def _smallest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def _largest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def _format_errors(name: str, text: str) -> list[str]:
    """What a named format says against a text; empty when it is well."""
    from ome.local.apiserver.kinds import names

    checks: dict[str, Callable[[str], list[str]]] = {
        "dns1123Label": names.label,
        "dns1123Subdomain": names.subdomain,
        "dns1035Label": names.label_1035,
        "qualifiedName": names.qualified,
        "labelValue": names.label_value,
    }
    if name in checks:
        return checks[name](text)
    check = formats.CHECKS.get({"datetime": "date-time"}.get(name, name))
    return [] if check is None or check(text) else [f"invalid {name}"]


def _validate(value: Mapping[str, Any], text: str) -> list[str]:
    return _format_errors(_text(value, "format"), text)


def _function(name: str, *overloads: tuple[Any, list[Any], bool, Callable[..., Any]]) -> Any:
    made = [
        cel.Overload(f"k8s_{name.replace('.', '_')}_{index}", result, parameters, member, body)
        for index, (result, parameters, member, body) in enumerate(overloads)
    ]
    return cel.FunctionDecl(name, made)


_FORMAT_NAMES: Final = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip


def functions() -> list[Any]:
    """The declarations of all functions, for an environment."""
    text, whole, truth, number = _T.STRING, _T.INT, _T.BOOL, _T.DOUBLE
    url_part = {
        "getScheme": lambda v: urlsplit(_text(v, "url")).scheme,
        "getHost": lambda v: urlsplit(_text(v, "url")).netloc.rpartition("@")[2],
        "getHostname": lambda v: urlsplit(_text(v, "url")).hostname or "",
        "getPort": _port,
        "getEscapedPath": lambda v: urlsplit(_text(v, "url")).path,
    }
    made = [_function(name, (text, [_OPAQUE], True, body)) for name, body in url_part.items()]
    made += [
        _function("isURL", (truth, [text], False, _holds(_url))),
        _function("url", (_OPAQUE, [text], False, _url)),
        _function("getQuery", (_OPAQUE, [_OPAQUE], True, _query)),
        _function("isQuantity", (truth, [text], False, _holds(quantities.canonical))),
        _function("quantity", (_OPAQUE, [text], False, _quantity)),
        _function("sign", (whole, [_OPAQUE], True, lambda v: int(_amount(v) > 0) - int(_amount(v) < 0))),
        _function("isInteger", (truth, [_OPAQUE], True, lambda v: _amount(v) == _amount(v).to_integral_value())),
        _function("asInteger", (whole, [_OPAQUE], True, lambda v: int(_amount(v)))),
        _function("asApproximateFloat", (number, [_OPAQUE], True, lambda v: float(_amount(v)))),
        _function(
            "add",
            (_OPAQUE, [_OPAQUE, _OPAQUE], True, lambda a, b: _plus(a, _amount(b))),
            (_OPAQUE, [_OPAQUE, whole], True, lambda a, b: _plus(a, Decimal(b))),
        ),
        _function(
            "sub",
            (_OPAQUE, [_OPAQUE, _OPAQUE], True, lambda a, b: _plus(a, -_amount(b))),
            (_OPAQUE, [_OPAQUE, whole], True, lambda a, b: _plus(a, -Decimal(b))),
        ),
        _function("isLessThan", (truth, [_OPAQUE, _OPAQUE], True, lambda a, b: _compare(a, b) < 0)),
        _function("isGreaterThan", (truth, [_OPAQUE, _OPAQUE], True, lambda a, b: _compare(a, b) > 0)),
        _function("compareTo", (whole, [_OPAQUE, _OPAQUE], True, _compare)),
        _function("isIP", (truth, [text], False, _holds(_ip))),
        _function("ip", (_OPAQUE, [text], False, _ip)),
        _function("ip.isCanonical", (truth, [text], False, lambda v: _ip(v)["text"] == v)),
        _function("family", (whole, [_OPAQUE], True, _family)),
        _function("isUnspecified", (truth, [_OPAQUE], True, lambda v: _address(v).is_unspecified)),
        _function("isLoopback", (truth, [_OPAQUE], True, lambda v: _address(v).is_loopback)),
        _function("isLinkLocalUnicast", (truth, [_OPAQUE], True, lambda v: _address(v).is_link_local)),
        _function("isGlobalUnicast", (truth, [_OPAQUE], True, _global_unicast)),
        _function("isCIDR", (truth, [text], False, _holds(_cidr))),
        _function("cidr", (_OPAQUE, [text], False, _cidr)),
        _function(
            "containsIP",
            (truth, [_OPAQUE, _OPAQUE], True, _contains_ip),
            (truth, [_OPAQUE, text], True, lambda a, b: _contains_ip(a, _ip(b))),
        ),
        _function(
            "containsCIDR",
            (truth, [_OPAQUE, _OPAQUE], True, _contains_cidr),
            (truth, [_OPAQUE, text], True, lambda a, b: _contains_cidr(a, _cidr(b))),
        ),
        _function("prefixLength", (whole, [_OPAQUE], True, lambda v: _network(v).prefixlen)),
        _function("masked", (_OPAQUE, [_OPAQUE], True, lambda v: _made("cidr", str(_network(v))))),
        _function("isSemver", (truth, [text], False, _holds(_semver))),
        _function("semver", (_OPAQUE, [text], False, _semver)),
        _function("major", (whole, [_OPAQUE], True, _part(0))),
        _function("minor", (whole, [_OPAQUE], True, _part(1))),
        _function("patch", (whole, [_OPAQUE], True, _part(2))),
        _function("find", (text, [text, text], True, _find)),
        _function(
            "findAll",
            (_LIST, [text, text], True, _find_all),
            (_LIST, [text, text, whole], True, _find_all),
        ),
        _function("isSorted", (truth, [_LIST], True, _sorted)),
        _function("sum", (_T.DYN, [_LIST], True, sum)),
        _function("min", (_T.DYN, [_LIST], True, _smallest)),
        _function("max", (_T.DYN, [_LIST], True, _largest)),
        _function("validate", (_LIST, [_OPAQUE, text], True, _validate)),
    ]
    made += [
        _function(f"format.{name}", (_OPAQUE, [], False, lambda name=name: _made("format", name)))
        for name in _FORMAT_NAMES
    ]
    return made


def _global_unicast(value: Mapping[str, Any]) -> bool:
    address = _address(value)
    if str(address) == "255.255.255.255":
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)
