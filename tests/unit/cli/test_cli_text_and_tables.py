"""Text made safe, tables, times, durations: the foundations of every command."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from ome.cli.errors import CliError
from ome.cli.evidence.listing import age
from ome.cli.flags import parse_duration, parse_request_timeout
from ome.cli.output.report import nanosecond_time, to_json, to_yaml
from ome.cli.output.table import render_table
from ome.cli.output.text import bounded_name, cut, looks_like_credential, masked, neutralise, neutralise_json

HOSTILE = "a\x1b[2Jb\u202ec\u2066d\x00e\x7ff\u200bg\u2028h\U000e0041i\x9bj"


def test_no_control_or_bidirectional_character_survives() -> None:
    safe = neutralise(HOSTILE)
    assert safe.isascii()
    assert safe.isprintable()
    assert neutralise("Grüße, 模型") == "Grüße, 模型"


def test_json_stays_equal_and_becomes_safe() -> None:
    text = to_json({"value": HOSTILE, "name": "模型"})
    assert json.loads(text) == {"value": HOSTILE, "name": "模型"}
    assert "模型" in text
    assert all(character == "\n" or character.isprintable() for character in text)
    assert neutralise_json('"\U000e0041"') == '"\\udb40\\udc41"'


def test_yaml_is_ascii() -> None:
    import yaml

    text = to_yaml({"value": HOSTILE})
    assert text.isascii()
    assert yaml.safe_load(text) == {"value": HOSTILE}


def test_cuts() -> None:
    assert cut("x" * 56, 56) == "x" * 56
    assert cut("x" * 57, 56) == "x" * 53 + "..."


def test_a_bounded_name_keeps_start_end_and_a_digest() -> None:
    name = "r-" + "n" * 60 + "-590753e8"
    short = bounded_name(name)
    assert len(short) == 54
    assert short.startswith("r-nnn")
    assert "-590753e8#" in short
    assert bounded_name("short") == "short"
    assert bounded_name(name) != bounded_name(name.replace("r-", "s-", 1))


@pytest.mark.parametrize(
    "text",
    ["token=abc", "password: hunter2", "Bearer abcdefghijk", "hf_abcdefghijk", "AKIAABCDEFGHIJKLMNOP", "api-key=1"],
)
def test_credentials_are_recognised(text: str) -> None:
    assert looks_like_credential(text)
    assert masked(text) == "[REDACTED]"


@pytest.mark.parametrize("text", ["ImagePullBackOff", "Back-off restarting failed container", "tokenizer missing"])
def test_ordinary_reasons_are_not(text: str) -> None:
    assert masked(text) == text


def test_addresses_are_omitted() -> None:
    assert masked("pull from docker://registry/x") == "[OMITTED]"


def test_a_table_in_a_pipe_is_one_line_a_row() -> None:
    assert render_table(("A", "LONG"), [["1", "x" * 200]]) == "A   LONG\n1   " + "x" * 200 + "\n"


def test_a_narrow_terminal_wraps_cells() -> None:
    assert render_table(("NAME", "REASON"), [["a", "one two three four"]], 16) == (
        "NAME   REASON\na      one two\n       three\n       four\n"
    )


def test_a_terminal_too_narrow_for_the_headers_shows_fields() -> None:
    assert render_table(("NAME", "REASON"), [["a", "b"], ["c", "d"]], 10) == (
        "NAME   a\nREASON b\n\nNAME   c\nREASON d\n"
    )


@pytest.mark.spec("CR-31")
@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (418_207_153, "2026-09-28T14:03:12.418207153Z"),
        (418_200_000, "2026-09-28T14:03:12.4182Z"),
        (1, "2026-09-28T14:03:12.000000001Z"),
        (0, "2026-09-28T14:03:12Z"),
    ],
)
def test_collection_times_keep_nanoseconds_and_trim_zeros(fraction: int, text: str) -> None:
    seconds = int(datetime(2026, 9, 28, 14, 3, 12, tzinfo=UTC).timestamp())
    assert nanosecond_time(seconds * 1_000_000_000 + fraction) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m0s", 60), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("100ms", 0.1), ("0", 0), ("-5s", -5)],
)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["30", "", "s", "1x", "1 m", "1m2"])
def test_what_is_no_go_duration(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)


def test_request_timeouts_may_be_bare_seconds() -> None:
    assert parse_request_timeout("30") == 30
    assert parse_request_timeout("10s") == 10
    assert parse_request_timeout("0") == 0
    with pytest.raises(CliError):
        parse_request_timeout("soon")


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=59), "59s"),
        (timedelta(seconds=250), "4m10s"),
        (timedelta(minutes=30), "30m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=3, minutes=5), "3h5m"),
        (timedelta(hours=20), "20h"),
        (timedelta(days=2, hours=5), "2d5h"),
        (timedelta(days=40), "40d"),
        (timedelta(days=800), "2y70d"),
    ],
)
def test_ages_are_kubectls(passed: timedelta, text: str) -> None:
    now = datetime(2026, 9, 28, tzinfo=UTC)
    assert age((now - passed).strftime("%Y-%m-%dT%H:%M:%SZ"), now) == text
