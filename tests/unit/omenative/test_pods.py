"""Pods as they are rendered from a recorded revision."""

from __future__ import annotations

from typing import Any

import pytest

from ome.api.meta import ObjectMeta
from ome.api.types.inference_replica import InferenceReplica, InferenceReplicaSpec, ParentReference
from ome.omenative import pods
from ome.omenative.actions import CreatePod


def rendered(service: str, index: int) -> dict[str, Any]:
    name = f"{service}-engine"
    replica = InferenceReplica(
        metadata=ObjectMeta(name=name, namespace="prod", uid="u"),
        spec=InferenceReplicaSpec(component="engine", parent_ref=ParentReference(name=service)),
    )
    action = CreatePod(f"{name}-{index}-default-0", index, 0, 1, f"{name}-aaaaaaaa", "", "default", "")
    return pods.render(replica, (), {"podSpec": {"containers": [{"name": "ome-container"}]}}, action)


@pytest.mark.parametrize(
    ("length", "index", "hostname"),
    [
        (4, 0, "ssss-engine-0-default-0"),
        (44, 9, f"{'s' * 44}-engine-9-default-0"),
        (44, 10, f"hashed-{'s' * 34}-engine-10-default-0"),
        (63, 0, f"hashed-{'s' * 35}-engine-0-default-0"),
    ],
)
def test_a_hostname_is_never_longer_than_the_api_server_takes(length: int, index: int, hostname: str) -> None:
    found = rendered("s" * length, index)["spec"]["hostname"]
    assert len(found) <= 63
    if hostname.startswith("hashed-"):
        digest, _, tail = found.partition("-")
        assert len(digest) == 8
        assert digest[0].isalpha()
        assert f"hashed-{tail}" == hostname
    else:
        assert found == hostname
