"""Clusters for scenario tests: one for each test module that asks, fresh, ended afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.scenario import ScenarioCluster, open_cluster

pytest.register_assert_rewrite("tests.scenario.pinning")

Opener = Callable[..., ScenarioCluster]


@pytest.fixture(scope="module")
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Opens clusters that are ended with the module: `opener(nodes=2, flags=[...])`."""
    real = request.config.getoption("--cluster") == "kube"
    opened: list[ScenarioCluster] = []

    def open_(*, nodes: int = 1, gpus: int = 8, flags: tuple[str, ...] = ()) -> ScenarioCluster:
        folder: Path = tmp_path_factory.mktemp("cluster")
        cluster = open_cluster(folder, nodes=nodes, real=real, gpus=gpus, flags=flags)
        opened.append(cluster)
        return cluster

    yield open_
    for cluster in opened:
        cluster.close()
