"""The client layer against an API server: caches, server-side apply, events, a deployment that becomes ready."""

from __future__ import annotations

from typing import Any

from ome.api.core import ConfigMap
from ome.api.meta import ObjectReference
from ome.kube.cache import Cache
from ome.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from tests.support.world import World, in_world


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "work", "labels": {"in": "cache"}},
        "data": data,
    }


@in_world(workloads=False, installed=False)
async def test_a_cache_follows_the_server(world: World) -> None:
    await world.make_namespace("work")
    await world.apply(config_map("before", v="1"))
    cache: Cache[ConfigMap] = Cache(
        world.client, CONFIG_MAPS, ConfigMap, clock=world.clock, namespace="work", label_selector="in=cache"
    )
    world.start(cache.run())
    await cache.wait_synced()
    assert [obj.metadata.name for obj in cache.list()] == ["before"]
    await world.apply(config_map("after", v="1"))
    await world.until(lambda: cache.get("work", "after"))
    await world.client.delete(CONFIG_MAPS, "before", "work")
    await world.until(lambda: cache.get("work", "before") is None)
    written = await world.apply(config_map("after", v="2"))
    cache.observe(written)
    found = cache.get("work", "after")
    assert found is not None
    assert found.data == {"v": "2"}


@in_world(workloads=False, installed=False)
async def test_repeats_of_an_event_fold_unless_they_must_not(world: World) -> None:
    await world.make_namespace("work")
    recorder = world.environment(client=world.client).recorder
    about = ObjectReference(api_version="v1", kind="ConfigMap", name="x", namespace="work", uid="u")
    for _ in range(3):
        await recorder.event(about, "Warning", "Folded", "the same")
        await recorder.event(about, "Warning", "Apart", "the same", fold=False)
    folded = await world.events("work", "Folded")
    apart = await world.events("work", "Apart")
    assert [event["count"] for event in folded] == [3]
    assert [event["count"] for event in apart] == [1, 1, 1]


@in_world(nodes=1, installed=False)
async def test_a_deployment_becomes_ready(world: World) -> None:
    await world.make_namespace("work")
    await world.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "work"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "docker.io/library/nginx:1"}]},
                },
            },
        }
    )

    async def ready() -> bool:
        found = await world.get(DEPLOYMENTS, "web", "work")
        return bool(found.get("status", {}).get("readyReplicas") == 2)

    await world.until(ready)
