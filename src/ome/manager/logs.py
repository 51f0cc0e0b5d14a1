"""The manager's log: one line an entry, as JSON or for a console, in the layout that log collectors of OME know.

Set up once by `main`; everybody else uses the standard `logging` module, with structured values in `extra`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from ome.manager.flags import Flags

_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NAMES = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warn", logging.ERROR: "error"}
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR, "panic": 50}


def _time_form(encoding: str) -> Callable[[float], Any]:
    def rfc3339(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def rfc3339nano(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")

    def iso8601(seconds: float) -> str:
        moment = datetime.fromtimestamp(seconds, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

    return {
        "epoch": lambda seconds: seconds,
        "millis": lambda seconds: seconds * 1e3,
        "nanos": lambda seconds: int(seconds * 1e9),
        "iso8601": iso8601,
        "rfc3339": rfc3339,
        "rfc3339nano": rfc3339nano,
    }[encoding]


class _Formatter(logging.Formatter):
    def __init__(self, *, console: bool, time_encoding: str, stacktrace_level: int) -> None:
        super().__init__()
        self._console = console
        self._time = _time_form(time_encoding)
        self._stacktrace_level = stacktrace_level

    def format(self, record: logging.LogRecord) -> str:
        values = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        level = _NAMES.get(record.levelno, record.levelname.lower())
        stack = ""
        if record.exc_info and record.exc_info[1] is not None:
            values.setdefault("error", str(record.exc_info[1]))
            if record.levelno >= self._stacktrace_level:
                stack = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        message = record.getMessage()
        if self._console:
            parts = [str(self._time(record.created)), level.upper(), record.name, message]
            if values:
                parts.append(json.dumps(values, default=str, ensure_ascii=False))
            return "\t".join(parts) + (f"\n{stack}" if stack else "")
        entry = {"level": level, "ts": self._time(record.created), "logger": record.name, "msg": message, **values}
        if stack:
            entry["stacktrace"] = stack
        return json.dumps(entry, default=str, ensure_ascii=False)


def set_up_logging(flags: Flags, stream: TextIO | None = None) -> None:
    """Send the root logger to `stream` (standard error) in the form the flags ask for."""
    console = flags.zap_encoder == "console" or flags.zap_devel
    level = "debug" if flags.zap_devel and flags.zap_log_level == "info" else flags.zap_log_level
    stacks = logging.WARNING if flags.zap_devel else _LEVELS[flags.zap_stacktrace_level]
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(console=console, time_encoding=flags.zap_time_encoding, stacktrace_level=stacks))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS.get(level, logging.DEBUG))
    for noisy in ("aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
