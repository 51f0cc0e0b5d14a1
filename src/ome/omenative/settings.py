"""The operator's settings as the engine reads them: key `lifecycle` of the ConfigMap, checked and typed.

`spec/omenative.md` section 2.3 and `spec/retry-blocks.md` section 3. A setting that is invalid is unset, never patched
up with a number. Called once a pass; pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ome.api.duration import format_duration, parse_duration

log = logging.getLogger("ome.omenative")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`lifecycle.updateRetry`, valid. An absent or invalid one is None: the first counting failure then holds."""

    max_attempts: int
    initial_delay: timedelta
    max_delay: timedelta
    multiplier: float

    def delay(self, attempts: int) -> timedelta:
        """The pause after the `attempts`-th charge (from 1), rounded down to a second: times are stored so."""
        try:
            seconds = self.initial_delay.total_seconds() * self.multiplier ** (attempts - 1)
        except OverflowError:
            seconds = 0.0
        limit = self.max_delay.total_seconds()
        return timedelta(seconds=int(seconds if 0 < seconds < limit else limit))

    def exhausted(self, attempts: int) -> bool:
        return attempts >= self.max_attempts


@dataclass(frozen=True, slots=True)
class ForceDelete:
    overdue_slack: timedelta
    unreachable_threshold: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All None: a manifest install without a `lifecycle` entry."""

    instance_ready_timeout: timedelta | None = None
    stuck_grace: timedelta | None = None
    unschedulable_grace: timedelta | None = None
    retry: RetryPolicy | None = None
    history_limit: int | None = None
    force_delete: ForceDelete | None = None
    teardown_deadline: timedelta | None = None
    teardown_deadline_invalid: bool = False
    gang_timeout: tuple[timedelta, timedelta] | None = None
    """Bounds of a PodGroup's schedule timeout, the lower one first."""
    columnar: bool = False
    max_decoded_instances: int = 20_000


class InvalidPolicy(ValueError):
    """`lifecycle.updateRetry` breaks a rule; the message is the one for the debug log."""


def parse_retry(raw: Mapping[str, Any] | None) -> RetryPolicy | None:
    """The policy, or None when it is absent. Raises `InvalidPolicy` for any violation of `spec/retry-blocks.md` section
    3.
    """
    if raw is None:
        return None
    attempts = raw.get("maxAttempts", 0)
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts <= 0:
        raise InvalidPolicy(f"invalid lifecycle.updateRetry: maxAttempts must be > 0, got {attempts}")
    initial = _policy_duration(raw, "initialDelay")
    longest = _policy_duration(raw, "maxDelay")
    if longest < initial:
        raise InvalidPolicy(
            f"invalid lifecycle.updateRetry: maxDelay {format_duration(longest)} must be >= initialDelay "
            f"{format_duration(initial)}"
        )
    multiplier = raw.get("multiplier", 0)
    if not isinstance(multiplier, int | float) or isinstance(multiplier, bool) or not multiplier >= 1:
        raise InvalidPolicy(f"invalid lifecycle.updateRetry: multiplier must be >= 1, got {multiplier}")
    return RetryPolicy(attempts, initial, longest, float(multiplier))


def parse_settings(lifecycle: Mapping[str, Any], *, columnar: bool = False, max_decoded: int = 20_000) -> Settings:
    """Settings from the decoded `lifecycle` entry; what is invalid in it is unset."""
    teardown = _section(lifecycle, "teardown").get("deadline")
    teardown_deadline = _positive(teardown)
    try:
        retry = parse_retry(lifecycle.get("updateRetry"))
    except InvalidPolicy as error:
        log.debug("%s; the first counting failure holds", error)
        retry = None
    limit = lifecycle.get("revisionHistoryLimit")
    return Settings(
        instance_ready_timeout=_positive(lifecycle.get("instanceReadyTimeout")),
        stuck_grace=_positive(lifecycle.get("stuckPodGracePeriod")),
        unschedulable_grace=_positive(lifecycle.get("unschedulableGracePeriod")),
        retry=retry,
        history_limit=limit if isinstance(limit, int) and limit > 0 else None,
        force_delete=_force_delete(_section(lifecycle, "forceDelete")),
        teardown_deadline=teardown_deadline,
        gang_timeout=_bounds(_section(lifecycle, "gangScheduleTimeout")),
        teardown_deadline_invalid=teardown is not None and teardown_deadline is None,
        columnar=columnar,
        max_decoded_instances=max_decoded,
    )


def _section(lifecycle: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = lifecycle.get(key)
    return value if isinstance(value, Mapping) else {}


def _force_delete(raw: Mapping[str, Any]) -> ForceDelete | None:
    slack, threshold = _positive(raw.get("overdueSlack")), _positive(raw.get("nodeUnreachableThreshold"))
    return ForceDelete(slack, threshold) if slack is not None and threshold is not None else None


def _bounds(raw: Mapping[str, Any]) -> tuple[timedelta, timedelta] | None:
    least, most = _positive(raw.get("min")), _positive(raw.get("max"))
    return (least, most) if least is not None and most is not None and least <= most else None


def _positive(value: Any) -> timedelta | None:
    """A Go duration above zero; anything else is unset."""
    if not isinstance(value, str):
        return None
    try:
        parsed = parse_duration(value)
    except (ValueError, OverflowError):
        return None
    return parsed if parsed > timedelta(0) else None


def _policy_duration(raw: Mapping[str, Any], key: str) -> timedelta:
    text = raw.get(key, "")
    try:
        parsed = parse_duration(text if isinstance(text, str) else str(text))
    except (ValueError, OverflowError) as error:
        raise InvalidPolicy(f'invalid lifecycle.updateRetry: {key} "{text}": {error}') from error
    if parsed <= timedelta(0):
        raise InvalidPolicy(f"invalid lifecycle.updateRetry: {key} must be > 0, got {format_duration(parsed)}")
    return parsed
