"""A quota that refuses pods: the Instance waits, and asks again once in a while, not all the time."""

from __future__ import annotations

import pytest

from ome.kube.requests import Request
from tests.sim.play import play, settled
from tests.sim.server import Json, Refuse
from tests.sim.world import World, gang


class Quota:
    """Room for so many pods, and how often one was asked for."""

    def __init__(self, world: World, room: int) -> None:
        self.room, self.asked = room, 0
        self._world = world
        world.server.admit = self._admit
        world.server.fault = self._count

    def _admit(self, collection: str, obj: Json) -> None:
        known = self._world.server.get(collection, "prod", obj["metadata"]["name"])
        if collection == "pods" and known is None and len(self._world.pods()) >= self.room:
            raise Refuse(403, "Forbidden", "exceeded quota: gpus")

    def _count(self, request: Request) -> None:
        self.asked += request.method == "POST" and request.path.endswith("/pods")


@pytest.mark.spec("ON-17")
@pytest.mark.parametrize("pause", [{"paused": True}, {"paused": True, "pauseMode": "Freeze"}])
def test_a_quota_is_asked_once_in_a_while_during_a_pause_too(pause: Json) -> None:
    async def story(world: World) -> None:
        quota = Quota(world, room=0)
        world.apply(replicas=1)
        await world.run(3)
        world.change(**pause)
        await world.run(60)
        assert quota.asked < 12
        (row,) = world.rows()
        assert (row["operation"]["waiting"], "deadline" in row["operation"]) == ("QuotaExceeded", False)
        quota.room = 9
        await world.run(12)
        world.change(paused=None, pauseMode=None)
        await settled(world, limit=20)

    play(story)


@pytest.mark.spec("ON-17")
def test_a_gang_of_which_some_pods_got_in_waits_like_one_of_which_none_did() -> None:
    async def story(world: World) -> None:
        quota = Quota(world, room=2)
        world.apply(replicas=1, runners=gang(workers=2))
        await world.run(60)
        assert len(world.pods()) == 2
        assert quota.asked < 15
        (row,) = world.rows()
        assert (row["operation"]["waiting"], "deadline" in row["operation"]) == ("QuotaExceeded", False)
        assert len(world.events("InstanceQuotaBlocked")) == 1
        quota.room = 3
        await settled(world, limit=20)

    play(story)


@pytest.mark.spec("ON-17")
def test_a_lost_pod_that_no_operation_makes_anew_does_not_storm_a_full_quota() -> None:
    async def story(world: World) -> None:
        quota = Quota(world, room=3)
        world.apply(replicas=1, runners=gang(workers=2), lifecycle={"restartPolicy": "None"})
        await settled(world, limit=20)
        quota.room = quota.asked = 0
        world.server.delete(("pods", "prod", "chat-engine-0-worker-0"), 0)
        await world.run(60)
        assert 2 < quota.asked < 12
        quota.room = 3
        await settled(world, limit=20)

    play(story)
