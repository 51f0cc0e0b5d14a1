"""Retry blocks in tables: every row of the state machine (`docs/spec/retry-blocks.md` sections 3 to 7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ome.omenative import retry
from ome.omenative.evidence import Blame, blame
from ome.omenative.settings import InvalidPolicy, RetryPolicy, parse_retry, parse_settings

from .builders import NOW, at, block, row, updating

R = "chat-engine-7f9c4d2b"
A = "chat-engine-0a0a0a0a"
CHART = RetryPolicy(3, timedelta(minutes=1), timedelta(minutes=30), 2.0)


def charge(blocks: retry.Blocks, guilt: Blame, policy: RetryPolicy | None = CHART, reason: str = "x") -> retry.Charge:
    return retry.charge(blocks, R, blame=guilt, reason=reason, policy=policy, now=NOW, update_revision=R)


@pytest.mark.spec("RB-1", "RB-2", "RB-3", "RB-7")
@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (CHART, [60, 120, 240]),
        (RetryPolicy(5, timedelta(minutes=10), timedelta(minutes=30), 3), [600, 1800, 1800]),
        (RetryPolicy(9, timedelta(seconds=1), timedelta(hours=1), 1e308), [1, 3600, 3600]),
        (RetryPolicy(9, timedelta(milliseconds=1500), timedelta(hours=1), 1.0), [1, 1, 1]),
    ],
)
def test_delays_grow_to_their_cap_and_are_whole_seconds(policy: RetryPolicy, delays: list[int]) -> None:
    assert [policy.delay(n).total_seconds() for n in (1, 2, 3)] == delays


@pytest.mark.spec("RB-8", "RB-9", "RB-10")
@pytest.mark.parametrize(
    ("reason", "guilt"),
    [
        *[(r, Blame.REVISION) for r in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName")],
        *[(r, Blame.REVISION) for r in ("CreateContainerConfigError", "InvalidPodSpec")],
        *[(r, Blame.NOBODY) for r in ("CrashLoopBackOff", "CreateContainerError", "RunContainerError")],
        *[(r, Blame.NOBODY) for r in ("ContainersNotReady", "ReadinessGateNotSatisfied", "DeadlineExceeded", "Odd")],
        *[(r, Blame.ENVIRONMENT) for r in ("Unschedulable", "PodGroupOwnershipConflict", "NamespaceTerminating")],
    ],
)
def test_every_reason_has_one_class(reason: str, guilt: Blame) -> None:
    assert blame(reason) is guilt


BACKOFF = block(R, "Backoff", 1, next_retry_at=at(30), first_failure_at=at(-60), last_failure_at=at(-60), reason="old")
RUNNING = block(
    R, "RetryInProgress", 1, next_retry_at=at(-1), first_failure_at=at(-60), last_failure_at=at(-60), reason="old"
)
HELD = block(R, "Held", 3, first_failure_at=at(-60), last_failure_at=at(-60), reason="old")
PACING = block(R, "RetryInProgress", 0, first_failure_at=at(-60), last_failure_at=at(-60), reason="old")
FRESH = {"first_failure_at": NOW, "last_failure_at": NOW, "reason": "x"}
LATER = {"first_failure_at": at(-60), "last_failure_at": NOW, "reason": "x"}


@pytest.mark.spec("RB-5", "RB-9", "RB-13")
@pytest.mark.parametrize(
    ("sentence", "before", "guilt", "policy", "after", "held"),
    [
        ("C1 none", None, Blame.REVISION, CHART, block(R, "Backoff", 1, next_retry_at=at(60), **FRESH), False),
        ("C1 running", RUNNING, Blame.REVISION, CHART, block(R, "Backoff", 2, next_retry_at=at(120), **LATER), False),
        ("C1h none, nil policy", None, Blame.REVISION, None, block(R, "Held", 1, **FRESH), True),
        (
            "C1h running, exhausted",
            block(R, "RetryInProgress", 2, first_failure_at=at(-60)),
            Blame.REVISION,
            CHART,
            block(R, "Held", 3, **LATER),
            True,
        ),
        ("C2 none: our choice, no block", None, Blame.NOBODY, CHART, None, False),
        ("C2 running", RUNNING, Blame.NOBODY, CHART, block(R, "Backoff", 1, next_retry_at=at(60), **LATER), False),
        ("C2 pacing only", PACING, Blame.NOBODY, CHART, block(R, "Backoff", 0, next_retry_at=at(60), **LATER), False),
        (
            "C3 backoff, counting",
            BACKOFF,
            Blame.REVISION,
            CHART,
            block(R, "Backoff", 1, next_retry_at=at(30), **LATER),
            False,
        ),
        (
            "C3 backoff, nobody",
            BACKOFF,
            Blame.NOBODY,
            CHART,
            block(R, "Backoff", 1, next_retry_at=at(30), **LATER),
            False,
        ),
        ("C3 backoff, nobody, nil", BACKOFF, Blame.NOBODY, None, BACKOFF, False),
        ("C4 held, counting", HELD, Blame.REVISION, CHART, block(R, "Held", 3, **LATER), False),
        ("C5 held, nobody", HELD, Blame.NOBODY, CHART, HELD, False),
        ("C6 running, nobody, nil", RUNNING, Blame.NOBODY, None, RUNNING, False),
        ("C7 none", None, Blame.ENVIRONMENT, CHART, None, False),
        ("C7 running", RUNNING, Blame.ENVIRONMENT, CHART, RUNNING, False),
        ("C7 held", HELD, Blame.ENVIRONMENT, CHART, HELD, False),
    ],
)
def test_a_failure_arrives(sentence: str, before: Any, guilt: Blame, policy: Any, after: Any, held: bool) -> None:
    result = charge((before,) if before is not None else (), guilt, policy)
    assert result.blocks == ((after,) if after is not None else ())
    assert (result.held is not None) == held


@pytest.mark.spec("RB-14", "RB-16", "RB-17", "RB-39")
@pytest.mark.parametrize(
    ("sentence", "blocks", "in_flight", "answer"),
    [
        ("no block", (), True, retry.Answer(True)),
        ("another revision's block", (block(A, "Held", 3),), True, retry.Answer(True)),
        ("held", (HELD,), False, retry.Answer(False)),
        ("backoff, not due", (BACKOFF,), False, retry.Answer(False, at(30))),
        ("backoff, due to the second", (block(R, "Backoff", next_retry_at=NOW),), False, retry.Answer(True)),
        ("backoff without a time", (block(R, "Backoff"),), False, retry.Answer(True)),
        ("running, one in flight", (RUNNING,), True, retry.Answer(False)),
        ("running, leaked", (RUNNING,), False, retry.Answer(True)),
        ("unknown state", (block(R, "Odd"),), True, retry.Answer(True)),
    ],
)
def test_may_an_attempt_start_now(sentence: str, blocks: retry.Blocks, in_flight: bool, answer: retry.Answer) -> None:
    assert retry.gate(blocks, R, in_flight=in_flight, now=NOW) == answer


@pytest.mark.spec("RB-15")
@pytest.mark.parametrize(
    ("before", "after"), [("Backoff", "RetryInProgress"), ("Held", "Held"), ("RetryInProgress", "RetryInProgress")]
)
def test_a_start_turns_a_backoff_into_a_retry_and_keeps_the_rest(before: str, after: str) -> None:
    (found,) = retry.started((block(R, before, 2, next_retry_at=at(5), reason="r"),), R)
    assert found == block(R, after, 2, next_retry_at=at(5), reason="r")


def test_in_flight_means_updates_of_this_target_and_creates_of_any() -> None:
    rows = [row(0), updating(1, "Surge", A)]
    assert retry.updating(rows, A)
    assert not retry.updating(rows, R)
    assert not retry.creating(rows)


@pytest.mark.spec("RB-38")
def test_three_old_blocks_survive_beside_the_update_revisions_own() -> None:
    old = tuple(block(f"chat-engine-{n:08x}", "Held", last_failure_at=at(n)) for n in (3, 1, 5, 2))
    unknown = block("chat-engine-0000000f", "Held")
    kept = retry.put((*old, unknown, block(R, "Held", last_failure_at=at(-99))), block(R, "Held"), R)
    assert [b.target_revision for b in kept] == [
        "chat-engine-00000003",
        "chat-engine-00000005",
        "chat-engine-00000002",
        R,
    ]


@pytest.mark.spec("RB-25", "RB-28", "RB-31")
@pytest.mark.parametrize(("value", "found"), [(R, R), ("7f9c4d2b", R), ("", None), ("7f9c4d2", None), ("chat", None)])
def test_a_release_names_a_block_in_full_or_by_its_hash(value: str, found: str | None) -> None:
    match = retry.matching((block(A, "Held"), block(R, "Held")), value)
    assert (match.target_revision if match is not None else None) == found


@pytest.mark.spec("RB-35")
def test_the_hold_of_a_block() -> None:
    held = retry.hold((block(R, "Held", 3, reason="ErrImagePull"),), R, NOW)
    waiting = retry.hold((block(R, "Backoff", 1, next_retry_at=at(9), reason="ErrImagePull"),), R, NOW)
    assert held is not None
    assert waiting is not None
    assert (held.gate, held.reason) == ("Held", f"update to {R} held after 3 failed attempt(s): ErrImagePull")
    assert waiting.reason == f"update to {R} in backoff after 1 failed attempt(s): ErrImagePull"
    assert waiting.gate == "RetryBlock"
    assert retry.hold((block(R, "Backoff", 1, next_retry_at=NOW),), R, NOW) is None
    assert retry.hold((RUNNING,), R, NOW) is None


VALID = {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0}


@pytest.mark.spec("RB-6")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"maxAttempts": 0}, "maxAttempts must be > 0, got 0"),
        ({"maxAttempts": -1}, "maxAttempts must be > 0, got -1"),
        ({"initialDelay": "soon"}, 'initialDelay "soon": time: invalid duration "soon"'),
        ({"initialDelay": "60"}, 'initialDelay "60": time: missing unit in duration "60"'),
        ({"initialDelay": "0s"}, "initialDelay must be > 0, got 0s"),
        ({"maxDelay": "30s"}, "maxDelay 30s must be >= initialDelay 1m0s"),
        ({"multiplier": 0.5}, "multiplier must be >= 1, got 0.5"),
    ],
)
def test_an_invalid_policy_is_none_and_says_why(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        parse_retry({**VALID, **change})
    assert str(caught.value) == f"invalid lifecycle.updateRetry: {text}"
    assert parse_settings({"updateRetry": {**VALID, **change}}).retry is None


def test_settings_without_a_unit_or_not_positive_are_unset() -> None:
    settings = parse_settings(
        {"instanceReadyTimeout": "30m", "stuckPodGracePeriod": "60", "unschedulableGracePeriod": "-1s"}
    )
    assert settings.instance_ready_timeout == timedelta(minutes=30)
    assert settings.stuck_grace is None
    assert settings.unschedulable_grace is None
