"""An event loop whose clock jumps to the next timer as soon as nothing is runnable: hours of backoff in milliseconds.

Everything the code under test waits for must be a loop timer or another coroutine of the same loop (the in-process API
server is). Threads and real sockets do not fit in: time does not wait for them.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = super().select(2.0)
            if not ready:
                raise RuntimeError("virtual time: nothing is runnable and no timer is set, the test waits for ever")
            return ready
        self.now += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at time 0; `time()` moves only while the loop would sleep."""

    def __init__(self) -> None:
        self._virtual = _JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_virtual(main: Coroutine[Any, Any, T], *, limit: float = 7 * 24 * 3600.0) -> T:
    """Run a coroutine in a fresh virtual-time loop. Raises TimeoutError after `limit` virtual seconds."""

    async def bounded() -> T:
        async with asyncio.timeout(limit):
            return await main

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(bounded())


async def until(condition: Callable[[], object], *, timeout: float = 60.0, step: float = 0.05) -> None:
    """Wait until `condition()` is true, looking every `step` seconds. Raises TimeoutError naming the condition."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() >= deadline:
            raise TimeoutError(f"not true after {timeout:g} s: {condition}")
        await asyncio.sleep(step)
