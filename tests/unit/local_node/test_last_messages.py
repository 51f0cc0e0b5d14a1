"""The last message of a container: its file, or the end of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from ome.local.node.process.messages import last_message, prepare

LOG = b"2026-01-01T00:00:00.000000000Z first\n2026-01-01T00:00:01.000000000Z second\n"
FALLBACK = "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("policy", "code", "written", "wanted"),
    [
        ("File", 1, b"why", "why"),
        ("File", 0, b"result", "result"),
        ("File", 1, b"", ""),
        (FALLBACK, 1, b"", "first\nsecond\n"),
        (FALLBACK, 1, b"why", "why"),
        (FALLBACK, 0, b"", ""),
        ("File", 1, b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_message_comes_from_the_file_and_on_errors_from_the_log(
    tmp_path: Path, policy: str, code: int, written: bytes, wanted: str
) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(LOG)
    file = prepare(tmp_path / "messages" / "c" / "0")
    file.write_bytes(written)
    assert last_message({"terminationMessagePolicy": policy}, code, file, log, containers=1) == wanted


@pytest.mark.parametrize(("containers", "size"), [(1, 4096), (3, 4096), (6, 2048)])
def test_the_end_of_a_long_message_is_kept_within_the_limits_of_the_pod(
    tmp_path: Path, containers: int, size: int
) -> None:
    file = prepare(tmp_path / "message")
    file.write_bytes(b"x" * 9000 + b"end")
    message = last_message({}, 1, file, tmp_path / "none.log", containers=containers)
    assert (len(message), message[-3:]) == (size, "end")


def test_the_last_lines_of_a_long_log_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(b"2026-01-01T00:00:00.000000000Z line %d\n" % number for number in range(5000)))
    lines = last_message({"terminationMessagePolicy": FALLBACK}, 2, None, log, containers=1).splitlines()
    assert (len(lines), lines[0], lines[-1]) == (80, "line 4920", "line 4999")


def test_a_container_without_file_or_log_has_no_message(tmp_path: Path) -> None:
    container = {"terminationMessagePolicy": FALLBACK}
    assert last_message(container, 1, None, tmp_path / "none.log", containers=1) == ""
