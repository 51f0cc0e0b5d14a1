"""What pods say, read (`docs/spec/omenative.md` sections 6.5 and 9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ome.api.core import ContainerState, ContainerStatus, StateTerminated
from ome.omenative import evidence
from ome.omenative.observe import Member

from .builders import NOW, at, member


def ended(container: str, seconds: float, *, init: bool = False) -> Member:
    """A pod one of whose containers ended so long after NOW and was started again."""
    pod = member("chat-engine-0-default-0", ContainersReady=True, Ready=True, gate=True).pod
    end = StateTerminated(exit_code=137, reason="OOMKilled", finished_at=at(seconds))
    statuses = (ContainerStatus(name=container, last_state=ContainerState(terminated=end), restart_count=1),)
    field = "init_container_statuses" if init else "container_statuses"
    return Member(replace(pod, status=replace(pod.status, **{field: statuses})))


@pytest.mark.spec("ON-21")
@pytest.mark.parametrize(
    ("sentence", "found", "counts"),
    [
        ("the main container after Ready", ended("ome-container", 1), True),
        ("the main container before Ready", ended("ome-container", -1), False),
        ("a sidecar", ended("sidecar", 1), False),
        ("an init container", ended("ome-container", 1, init=True), False),
    ],
)
def test_which_restarts_of_a_container_restart_the_instance(sentence: str, found: Member, counts: bool) -> None:
    proof = evidence.restarted(found, NOW)
    assert (proof is not None) is counts
    assert evidence.restarted(found, None) is None, "never Ready"
