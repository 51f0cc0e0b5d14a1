"""What time it is. Injected everywhere; nothing else in the product asks the operating system.

Sleeping is the event loop's business (`asyncio.sleep`), so that a loop with virtual time moves both together.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; the difference of two readings is a duration."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class LoopClock:
    """Wall time derived from the running event loop's time: `epoch` + loop time. For loops with virtual time."""

    def __init__(self, epoch: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._epoch = epoch
        self._offset = timedelta(0)

    def now(self) -> datetime:
        return self._epoch + self._offset + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as a badly kept machine does; may be negative."""
        self._offset += timedelta(seconds=seconds)
