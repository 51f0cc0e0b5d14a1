"""What an in-place update may carry: images and annotations, never labels (`docs/spec/omenative.md` 8.4)."""

from __future__ import annotations

import copy

import pytest

from tests.sim.play import play, settled
from tests.sim.world import Json, World


def edit(world: World, *, labels: Json | None = None, annotations: Json | None = None, image: str = "") -> None:
    runners = copy.deepcopy(world.replica()["spec"]["runners"])
    template = runners[0]["template"]
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **(labels or {})}
    metadata["annotations"] = {**metadata.get("annotations", {}), **(annotations or {})}
    if image:
        template["spec"]["containers"][0]["image"] = image
    world.change(runners=runners)


def in_place(world: World, kind: str) -> None:
    world.apply(replicas=1, lifecycle={"updateStrategy": {"type": kind}})


@pytest.mark.spec("ON-9")
@pytest.mark.parametrize("image", ["", "sglang:v2"], ids=["alone", "with an image"])
def test_a_changed_label_recreates_so_that_the_pod_carries_it(image: str) -> None:
    async def story(world: World) -> None:
        in_place(world, "InPlaceIfPossible")
        await settled(world)
        (before,) = world.pods()
        edit(world, labels={"team": "blue"}, image=image)
        await settled(world)
        (pod,) = world.pods()
        assert pod["metadata"]["uid"] != before["metadata"]["uid"]
        assert pod["metadata"]["labels"]["team"] == "blue"

    play(story)


@pytest.mark.spec("ON-9")
@pytest.mark.parametrize("image", ["", "sglang:v2"], ids=["alone", "with an image"])
def test_a_changed_label_is_refused_where_only_in_place_is_wanted(image: str) -> None:
    async def story(world: World) -> None:
        in_place(world, "InPlaceOnly")
        await settled(world)
        (before,) = world.pods()
        edit(world, labels={"team": "blue"}, image=image)
        await world.run(30)
        (pod,) = world.pods()
        assert pod["metadata"]["uid"] == before["metadata"]["uid"]
        assert pod["metadata"]["labels"]["ome.io/revision-hash"] == before["metadata"]["labels"]["ome.io/revision-hash"]
        assert [event["count"] for event in world.events("InPlaceUpdateNotPossible")] == [1]

    play(story)


@pytest.mark.spec("ON-9")
@pytest.mark.parametrize("image", ["", "sglang:v2"], ids=["alone", "with an image"])
@pytest.mark.parametrize("kind", ["InPlaceIfPossible", "InPlaceOnly"])
def test_a_changed_annotation_arrives_in_the_running_pod(kind: str, image: str) -> None:
    async def story(world: World) -> None:
        in_place(world, kind)
        await settled(world)
        (before,) = world.pods()
        edit(world, annotations={"note": "new"}, image=image)
        await settled(world)
        (pod,) = world.pods()
        assert pod["metadata"]["uid"] == before["metadata"]["uid"]
        assert pod["metadata"]["annotations"]["note"] == "new"
        assert pod["metadata"]["labels"]["ome.io/revision-hash"] == world.status()["updateRevision"].rpartition("-")[2]
        assert world.rows()[0]["incarnation"] == 1

    play(story)


@pytest.mark.spec("ON-9")
def test_a_refused_in_place_update_is_said_once_for_its_target_repairs_or_not() -> None:
    async def story(world: World) -> None:
        in_place(world, "InPlaceOnly")
        await settled(world)
        edit(world, labels={"team": "blue"})
        await world.run(10)
        world.server.delete(("pods", "prod", "chat-engine-0-default-0"), 0)
        await world.run(30)
        assert world.phases() == ["Ready"]
        assert [event["count"] for event in world.events("InPlaceUpdateNotPossible")] == [1]

    play(story)


@pytest.mark.spec("ON-9")
def test_a_pod_lost_during_an_in_place_update_is_not_made_beside_an_old_leftover() -> None:
    async def story(world: World) -> None:
        world.apply(replicas=1)
        await settled(world)
        world.image("sglang:missing")
        await world.until(lambda: world.blocks() != [], limit=100)
        world.change(lifecycle={"updateStrategy": {"type": "InPlaceIfPossible"}})
        world.image("sglang:never")
        await world.run(4)
        assert world.rows()[0]["operation"]["step"] == "InPlace"
        assert len(world.pods()) == 2
        world.server.delete(("pods", "prod", "chat-engine-0-default-0"), 0)
        await world.run(4)
        assert world.pod_names() == ["chat-engine-0-default-0"]

    play(story)
