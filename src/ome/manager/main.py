"""`ome manager`: the entry point of the manager's process, in a container and beside `ome local` alike."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence

from ome.manager.flags import FlagError, Flags, HelpRequested, StartupProblem, parse_flags, usage, validate
from ome.manager.logs import set_up_logging

log = logging.getLogger("setup")

# Decoding a page of a list must not set off the collector again and again.
GC_THRESHOLDS = (50_000, 20, 100)


def main(arguments: Sequence[str]) -> int:
    """Run the manager with these arguments and return its exit code: 0 stopped, 1 failed, 2 wrong usage."""
    try:
        flags = parse_flags(arguments)
    except HelpRequested:
        print(usage())
        return 0
    except FlagError as error:
        print(f"{error}\n{usage()}", file=sys.stderr)
        return 2
    set_up_logging(flags)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        validate(flags)
        asyncio.run(_until_stopped(flags))
    except StartupProblem as problem:
        log.error(problem.text, extra={"error": problem.error})
        return 1
    return 0


async def _until_stopped(flags: Flags) -> None:
    from ome.manager.process import run_process

    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(run_process(flags))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        log.info("Stopped")
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
