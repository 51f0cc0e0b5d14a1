"""Quantities: canonical forms, order, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver.kinds import quantities

from .support import PROPERTY

CANONICAL: dict[str, tuple[Any, str]] = {
    "whole binary units move up": ("1024Gi", "1Ti"),
    "a fraction of a binary unit moves down": ("0.5Gi", "512Mi"),
    "a binary amount that is no whole unit stays": ("1025Ki", "1025Ki"),
    "less than a byte's worth of binary is decimal": ("0.1Ki", "102400m"),
    "small binary amounts are plain": ("1023", "1023"),
    "milli become whole": ("1000m", "1"),
    "milli stay milli": ("1500m", "1500m"),
    "a decimal fraction is milli": ("1.5", "1500m"),
    "a JSON number is taken": (0.1, "100m"),
    "a JSON integer is taken": (1000000, "1M"),
    "an exponent stays one": ("1e3", "1e3"),
    "nano stay nano": ("1234567890n", "1234567890n"),
    "zero has no unit": ("0Gi", "0"),
    "a leading dot is a number": (".5", "500m"),
    "a negative amount is one": ("-5", "-5"),
    "too much is the most there is": ("12E", "9223372036854775807"),
    "a hundred digits are too much too": ("9" * 100, "9223372036854775807"),
    "so is an endless exponent": ("1e999999999999", "9223372036854775807"),
    "an endless negative one is the least there is": ("1e-999999999999", "1e-9"),
    "less than nano is rounded up": ("0.1n", "1n"),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "a space": ("1 Gi", quantities.FORMAT_TEXT),
    "no number": ("Gi", quantities.FORMAT_TEXT),
    "an unknown unit": ("1Kib", quantities.FORMAT_TEXT),
    "a unit of wrong letters": ("1KM", quantities.SUFFIX_TEXT),
    "a boolean": (True, quantities.FORMAT_TEXT),
    "two dots": ("1.2.3", quantities.FORMAT_TEXT),
}


@pytest.mark.parametrize("sentence", CANONICAL)
def test_canonical_form(sentence: str) -> None:
    raw, wanted = CANONICAL[sentence]
    assert quantities.canonical(raw) == wanted


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence: str) -> None:
    raw, wanted = REFUSED[sentence]
    with pytest.raises(quantities.QuantityError) as caught:
        quantities.canonical(raw)
    assert str(caught.value) == wanted


AMOUNTS = st.builds(
    "{}{}".format, st.integers(0, 10**7), st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3"])
)


@PROPERTY
@given(AMOUNTS)
def test_the_canonical_form_is_the_same_amount_and_final(text: str) -> None:
    once = quantities.canonical(text)
    assert quantities.parse(once) == quantities.parse(text)
    assert quantities.canonical(once) == once
