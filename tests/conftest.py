"""Settings of every tier."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        choices=("embedded", "kube"),
        default="embedded",
        help="where component and scenario tests run: the embedded cluster or the real control plane",
    )
    parser.addoption("--slow", action="store_true", help="run also what needs minutes of real time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    real = config.getoption("--cluster") == "kube"
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="needs minutes of real time: make test-slow"))
        only = item.get_closest_marker("embedded_only")
        if real and only is not None:
            item.add_marker(pytest.mark.skip(reason=f"embedded cluster only: {only.args[0] if only.args else ''}"))
