"""The last message of a container: what it wrote to its terminationMessagePath, or the end of its log.

Limits are the kubelet's. Called by `runtime.py` when a container starts and when it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

LONGEST: Final = 4096  # bytes of the file, its end
ALL_TOGETHER: Final = 12 * 1024  # bytes of all messages of a pod
LOG_BYTES: Final = 2048  # of the log, its end
LOG_LINES: Final = 80


def prepare(path: Path) -> Path:
    """An empty file that whoever runs in the container may write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    path.chmod(0o666)
    return path


def last_message(container: Mapping[str, Any], code: int, written: Path | None, log: Path, *, containers: int) -> str:
    """The message of a container that ended with `code`; `containers` is how many its pod has.

    The log counts only where the policy is FallbackToLogsOnError, the code is not 0, and nothing was written.
    """
    text = _end_of(written, min(LONGEST, ALL_TOGETHER // max(1, containers))) if written is not None else b""
    if not text and code != 0 and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        rows = _end_of(log, 64 * LOG_BYTES).splitlines(keepends=True)[-LOG_LINES:]
        text = b"".join(row.partition(b" ")[2] for row in rows)[-LOG_BYTES:]
    return text.decode("utf-8", "replace")


def _end_of(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read(size)
    except OSError:
        return b""
