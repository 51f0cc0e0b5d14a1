"""Rule 21: `spec.traffic` and the traffic annotations (`spec/install-and-operate.md` section 8,
`spec/labels-and-annotations.md` section 3)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ome.admission.services.proposal import Proposal
from ome.api import keys
from ome.api.duration import parse_nanoseconds

Json = dict[str, Any]

RETRY_CONDITIONS: Final = ("5xx", "reset", "gateway-error", "connect-failure", "retriable-status-codes")
KNOWN: Final = (
    *keys.INTEGER_TRAFFIC_KEYS,
    *keys.DURATION_TRAFFIC_KEYS,
    keys.RETRY_ON,
    keys.TRAFFIC_DRAIN,
    keys.MANAGED_BY_CONFLICT_ACKED,
    keys.ROLLOUT_READY_TIMEOUT,
    keys.REVISION_HISTORY_LIMIT,
    keys.ROLLOUT_PROMOTE,
    keys.ROLLOUT_ROLLBACK,
)
"""The keys that a mistyped `ome.io/` annotation is compared with."""

_INTEGER: Final = re.compile(r"^\d+$")
_PROMOTION: Final = re.compile(r"^[a-z0-9]{6,}$")
_FIELD_PATH: Final = re.compile(r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")


def traffic_spec(proposal: Proposal) -> str:
    traffic = proposal.spec.get("traffic")
    if not traffic:
        return ""
    return _consistent_hash(traffic) or _endpoint_override(traffic)


def _consistent_hash(traffic: Json) -> str:
    hashing = traffic.get("consistentHash")
    if traffic.get("algorithm") != "ConsistentHash":
        if hashing is None:
            return ""
        return (
            "spec.traffic.consistentHash is accepted only when spec.traffic.algorithm=ConsistentHash "
            "(UnexpectedConsistentHashSpec)"
        )
    if hashing is None:
        return (
            "spec.traffic.consistentHash is required when spec.traffic.algorithm=ConsistentHash "
            "(MissingConsistentHashSpec)"
        )
    return _hash_key(hashing)


def _hash_key(hashing: Json) -> str:
    where, kind = "spec.traffic.consistentHash", hashing.get("type")
    headers, cookie = hashing.get("headers") or [], hashing.get("cookie")
    if kind == "Header" and not headers:
        return f"{where}.headers is required when type=Header (MissingHashKey)"
    if kind == "Cookie" and cookie is None:
        return f"{where}.cookie is required when type=Cookie (MissingHashKey)"
    if (headers and kind != "Header") or (cookie is not None and kind != "Cookie"):
        return f"{where} may carry only the key of its type, {kind} (MultipleHashKeys)"
    if len(headers) > 1:
        return f"{where}.headers names {len(headers)} headers; one is supported (UnsupportedMultiHeaderHash)"
    return ""


def _endpoint_override(traffic: Json) -> str:
    override = traffic.get("endpointOverride")
    if override is None:
        return ""
    if override.get("type") == "Metadata":
        return "spec.traffic.endpointOverride.type=Metadata is reserved; use Header (ReservedEndpointOverrideType)"
    if not override.get("headers"):
        return "spec.traffic.endpointOverride.headers is required when type=Header (MissingEndpointOverrideKey)"
    return ""


def traffic_annotations(proposal: Proposal) -> str:
    for key, value in sorted(proposal.annotations.items()):
        problem = _annotation(key, value) if key.startswith(keys.PREFIX) else ""
        if problem:
            return problem
    return _retry(proposal.annotations)


def _annotation(key: str, value: str) -> str:
    if key in keys.INTEGER_TRAFFIC_KEYS:
        return "" if _INTEGER.match(value) else _wrong(key, value, "must be a non-negative integer", "InvalidIntValue")
    if key in keys.DURATION_TRAFFIC_KEYS or key == keys.ROLLOUT_READY_TIMEOUT:
        return _duration(key, value)
    if key == keys.RETRY_ON:
        return _retry_on(value)
    if key in (keys.MANAGED_BY_CONFLICT_ACKED, keys.ROLLOUT_ROLLBACK):
        return "" if value in ("true", "false") else _wrong(key, value, "must be true or false", "InvalidBoolValue")
    if key == keys.REVISION_HISTORY_LIMIT:
        positive = _INTEGER.match(value) and int(value) > 0
        return "" if positive else _wrong(key, value, "must be a positive integer", "InvalidIntValue")
    if key == keys.ROLLOUT_PROMOTE:
        good = _PROMOTION.match(value)
        return "" if good else _wrong(key, value, "must be the canary's revision hash", "InvalidRevisionHash")
    if key == keys.TRAFFIC_DRAIN:
        return _drain(key, value)
    for prefix in (keys.BACKEND_TRAFFIC_POLICY_PREFIX, keys.DESTINATION_RULE_PREFIX):
        if key.startswith(prefix):
            path = _FIELD_PATH.match(key.removeprefix(prefix))
            return "" if path else f'annotation "{key}" names no field path (UnsupportedPassthrough)'
    return _mistyped(key)


def _wrong(key: str, value: str, rule: str, reason: str) -> str:
    return f'annotation "{key}" {rule}, got "{value}" ({reason})'


def _duration(key: str, value: str) -> str:
    try:
        parse_nanoseconds(value)
    except ValueError as error:
        return f'annotation "{key}" must be a duration such as "30s": {error} (InvalidDuration)'
    return ""


def _retry_on(value: str) -> str:
    for condition in value.split(","):
        if condition.strip() not in RETRY_CONDITIONS:
            rule = f"must be a comma list of {', '.join(RETRY_CONDITIONS)}"
            return _wrong(keys.RETRY_ON, value, rule, "InvalidRetryOn")
    return ""


def _drain(key: str, value: str) -> str:
    try:
        drains = json.loads(value)
    except ValueError as error:
        return f'annotation "{key}" is not valid JSON: {error} (InvalidTrafficDrain)'
    good = isinstance(drains, dict) and all(
        isinstance(drain, dict) and drain.get("cluster") for drain in drains.values()
    )
    return "" if good else f'annotation "{key}" must map each id to an object with a cluster (InvalidTrafficDrain)'


def _retry(annotations: dict[str, str]) -> str:
    attempts = annotations.get(keys.RETRY_ATTEMPTS)
    if attempts is None or int(attempts) == 0 or keys.RETRY_ON in annotations:
        return ""
    return (
        f'annotation "{keys.RETRY_ATTEMPTS}" set to {attempts} requires "{keys.RETRY_ON}" to specify retry conditions '
        "(MissingRetryOn)"
    )


def _mistyped(key: str) -> str:
    for known in KNOWN:
        if within_two_edits(key, known):
            return f'annotation "{key}" is not known; did you mean "{known}"? (UnknownTrafficAnnotation)'
    return ""


def within_two_edits(one: str, other: str) -> bool:
    """Whether the Levenshtein distance of two different texts is 1 or 2."""
    if one == other or abs(len(one) - len(other)) > 2:
        return False
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        previous, row[0] = row[0], index
        for column, wanted in enumerate(other, 1):
            cost = previous + (letter != wanted)
            previous, row[column] = row[column], min(cost, row[column] + 1, row[column - 1] + 1)
        if min(row) > 2:
            return False
    return row[-1] <= 2


def warnings(proposal: Proposal) -> list[str]:
    """Per-endpoint connection limits fight with consistent hashing."""
    hashed = (proposal.spec.get("traffic") or {}).get("algorithm") == "ConsistentHash"
    if not hashed or keys.CIRCUIT_BREAKER_PER_ENDPOINT not in proposal.annotations:
        return []
    return [
        f'annotation "{keys.CIRCUIT_BREAKER_PER_ENDPOINT}" limits connections per endpoint while '
        "spec.traffic.algorithm=ConsistentHash sends a key's requests to one endpoint; requests over the limit fail"
    ]
