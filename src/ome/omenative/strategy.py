"""The lifecycle fields that act on a replica, with the shape's defaults filled in (`spec/omenative.md` section 2.2).

Read from `spec.lifecycle`, `spec.pacing` and `spec.minReadySeconds` of the InferenceReplica; the merging of layers was
done by who wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ome.api.duration import parse_duration
from ome.api.types.inference_replica import InferenceReplica, Runner

from . import names
from .settings import Settings

SURGE: Final = "SurgeThenDrain"
RECREATE: Final = "RecreatePod"
IN_PLACE_IF_POSSIBLE: Final = "InPlaceIfPossible"
IN_PLACE_ONLY: Final = "InPlaceOnly"
RESTART_ON_POD_RESTART: Final = "RecreateInstanceOnPodRestart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How the replica's Instances are updated and repaired now. An operation in flight keeps its type."""

    type: str = SURGE
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None
    mark_not_ready: bool = True
    restart_on_pod_restart: bool = False
    ready_timeout: timedelta | None = None
    min_ready: timedelta = timedelta(0)


Slot = tuple[str, int]
"""A pod of an Instance by runner and ordinal."""


def gang_of(runners: Sequence[Runner]) -> tuple[Slot, ...]:
    """The pods of a multi-pod Instance, leader first; () for single-pod Instances."""
    workers = sum(runner.size for runner in runners if runner.name == names.WORKER)
    if not any(runner.name == names.LEADER for runner in runners):
        return ()
    return ((names.LEADER, 0), *((names.WORKER, ordinal) for ordinal in range(workers)))


def desired(replica: InferenceReplica) -> int:
    """R: the Instances wanted; nil or 0 runs one."""
    return max(1, replica.spec.replicas or 0)


def strategy_of(replica: InferenceReplica, settings: Settings, *, multi_pod: bool) -> Strategy:
    """The strategy in force for new operations."""
    lifecycle = replica.spec.lifecycle
    update = lifecycle.update_strategy if lifecycle is not None else None
    rolling = update.rolling_update if update is not None else None
    in_place = update.in_place_update_strategy if update is not None else None
    mark = in_place.mark_not_ready_during_lifecycle if in_place is not None else None
    pacing = replica.spec.pacing
    partition = rolling.partition if rolling is not None else None
    if pacing is not None and pacing.partition is not None:
        partition = pacing.partition
    policy = lifecycle.restart_policy if lifecycle is not None else ""
    return Strategy(
        type=(update.type if update is not None else "") or SURGE,
        max_surge=rolling.max_surge if rolling is not None else None,
        max_unavailable=rolling.max_unavailable if rolling is not None else None,
        partition=partition,
        mark_not_ready=mark is not False,
        restart_on_pod_restart=policy == RESTART_ON_POD_RESTART or (not policy and multi_pod),
        ready_timeout=_timeout(lifecycle.instance_ready_timeout if lifecycle is not None else None, settings),
        min_ready=timedelta(seconds=replica.spec.min_ready_seconds or 0),
    )


def _timeout(text: str | None, settings: Settings) -> timedelta | None:
    """The replica's own deadline, else the operator's; `0s` means unset."""
    if not text:
        return settings.instance_ready_timeout
    try:
        own = parse_duration(text)
    except (ValueError, OverflowError):
        return settings.instance_ready_timeout
    return own if own > timedelta(0) else settings.instance_ready_timeout
