"""The entry point of `kubectl-ome`, run by kubectl as `kubectl ome`.

It sets the process up before anything heavy is imported; the commands are `ome.cli.tree`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The console script: run one command and end the process with its exit code."""
    # A process that lives for milliseconds makes no garbage worth looking for; importing alone would trigger dozens
    # of passes.
    gc.disable()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from ome.cli.tree import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 1
    # Interpreter shutdown tears down modules for milliseconds nobody waits for.
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 1
    os._exit(code)
