"""The work queue: once each, never twice at a time, backoff doubling and forgotten."""

from __future__ import annotations

import asyncio

from ome.kube.queue import WorkQueue
from tests.support.virtual_time import run_virtual


def test_a_key_added_many_times_waits_once() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(3):
            queue.add("a")
        assert len(queue) == 1

    run_virtual(main())


def test_a_key_added_during_its_work_comes_back_only_when_that_is_done() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert len(queue) == 1

    run_virtual(main())


def test_of_several_delays_the_earliest_counts_and_an_add_beats_them() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        queue.done(await queue.get())
        assert loop.time() == 3
        queue.add_after("a", 10)
        queue.add("a")
        queue.done(await queue.get())
        assert loop.time() == 3
        await asyncio.sleep(30)
        assert len(queue) == 0

    run_virtual(main())


def test_backoff_doubles_to_its_bound_and_starts_anew_after_a_success() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(first=1, last=5)
        delays = []
        for _ in range(4):
            delays.append(queue.add_rate_limited("a"))
            queue.done(await queue.get())
        queue.forget("a")
        delays.append(queue.add_rate_limited("a"))
        assert delays == [1, 2, 4, 5, 1]

    run_virtual(main())


def test_a_cancelled_waiter_does_not_swallow_a_wake_up() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        queue.add("a")
        assert await second == "a"

    run_virtual(main())


def test_a_key_that_changes_keep_bringing_back_rests_between_its_works() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue(rest=1)
        queue.add("a")
        queue.done(await queue.get())
        assert queue.idle
        for _ in range(3):
            queue.add("a")
        assert (len(queue), queue.idle) == (0, False)
        queue.done(await queue.get())
        assert loop.time() == 1
        await asyncio.sleep(5)
        assert queue.idle
        queue.add("a")
        assert len(queue) == 1

    run_virtual(main())
