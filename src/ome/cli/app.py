"""What a command has around it: streams, clock, terminal. Made once in `ome.cli.tree`; tests make their own."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from typing import TextIO

from ome.cli.flags import GlobalFlags


class SystemTime:
    """The machine's clock, in nanoseconds, and its sleep."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class App:
    """One invocation: where it reads and writes, what time it is, and the flags every command shares."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        time: SystemTime | None = None,
    ) -> None:
        self.stdin = stdin or sys.stdin
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.time = time or SystemTime()
        self.flags = GlobalFlags()

    def out(self, text: str) -> None:
        """Write to standard output; the text carries its own line breaks."""
        self.stdout.write(text)
        self.stdout.flush()

    def err(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time.now_ns() / 1_000_000_000, UTC)

    def collected_at(self) -> str:
        from ome.cli.output.report import nanosecond_time

        return nanosecond_time(self.time.now_ns())

    def is_interactive(self) -> bool:
        """Whether standard input is a terminal that somebody can answer at."""
        try:
            return self.stdin.isatty()
        except (AttributeError, ValueError):
            return False

    def is_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        try:
            return self.stdout.isatty()
        except (AttributeError, ValueError):
            return False

    def width(self) -> int | None:
        """The columns of the terminal behind standard output; None for a file or pipe."""
        try:
            return os.get_terminal_size(self.stdout.fileno()).columns or None if self.stdout.isatty() else None
        except (AttributeError, ValueError, OSError):
            return None
