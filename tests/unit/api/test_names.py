"""Names that OME gives."""

from __future__ import annotations

import hashlib

import pytest

from ome.api.names import (
    component_service,
    headless_service,
    is_runtime_revision_of,
    is_service_name,
    runtime_revision,
    shortened,
)


def test_a_short_name_stays() -> None:
    assert component_service("chat", "engine") == "chat-engine"
    assert shortened("x" * 63) == "x" * 63


def test_a_long_name_is_hashed_and_keeps_its_tail() -> None:
    name = "a" * 60 + "-engine"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    expected = ("a" + digest[1:] if digest[0].isdigit() else digest) + "-" + name[-54:]
    assert component_service("a" * 60, "engine") == expected
    assert len(expected) == 63


def test_a_leading_digit_becomes_a_letter() -> None:
    long = next(
        name
        for name in (f"{'s' * 70}{number}" for number in range(100))
        if hashlib.sha256(name.encode()).hexdigest()[0].isdigit()
    )
    assert shortened(long)[0] == "a"


def test_the_rule_applies_to_the_whole_name_suffix_included() -> None:
    service = "s" * 50
    assert headless_service(service, "engine").endswith("-engine-headless")
    assert len(headless_service(service, "engine")) == 63


def test_revision_names_by_declared_kind() -> None:
    assert runtime_revision("ClusterServingRuntime", "rt", "ns", "590753e8") == "cr-rt-590753e8"
    assert runtime_revision("ServingRuntime", "rt", "ns", "590753e8") == "r-ns-rt-590753e8"


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("r-ns-rt-590753e8", True),
        ("cr-rt-590753e8", False),
        ("r-ns-rt-590753E8", False),
        ("r-ns-rt-590753e", False),
        ("r-ns-rt-590753e81", False),
        ("r-other-rt-590753e8", False),
        ("r-ns-rt-590753e8\n", False),
    ],
)
def test_the_form_of_a_revision_name(name: str, good: bool) -> None:
    assert is_runtime_revision_of(name, "ServingRuntime", "rt", "ns") is good


@pytest.mark.parametrize(("name", "good"), [("chat", True), ("c-1", True), ("1c", False), ("c-", False), ("C", False)])
def test_service_names(name: str, good: bool) -> None:
    assert is_service_name(name) is good
