"""The stub API server and the tool, per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_server import StubCluster, Tool, stub_cluster, write_kubeconfig


@pytest.fixture
def cluster() -> Iterator[StubCluster]:
    with stub_cluster() as started:
        yield started


@pytest.fixture
def tool(cluster: StubCluster, tmp_path: Path) -> Tool:
    return Tool(cluster, write_kubeconfig(tmp_path, cluster))
