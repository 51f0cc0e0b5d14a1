"""How a simulated story is told: run it in a world of its own, and ask the usual questions of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.virtual_time import run_virtual

from .world import Json, World, summary

Story = Callable[[World], Awaitable[None]]


def play(story: Story, **options: Any) -> None:
    """Run one story in a fresh world with one manager; the options are the world's."""

    async def told() -> None:
        world = World(**options)
        world.start()
        try:
            await story(world)
        except Exception:
            print(summary(world))
            raise
        finally:
            world.stop()

    run_virtual(told())


def block(world: World) -> Json:
    """The only retry block."""
    (only,) = world.blocks()
    return only


def state(world: World) -> str:
    """State of the first retry block; empty without one."""
    blocks = world.blocks()
    return str(blocks[0]["state"]) if blocks else ""


async def settled(world: World, limit: int = 300) -> None:
    """Wait until every Instance is Ready on the update revision, and no pod is on its way out."""
    await world.until(
        lambda: world.settled() and not any(p["metadata"].get("deletionTimestamp") for p in world.pods()), limit=limit
    )


def ready(world: World) -> Json:
    """The replica's condition Ready."""
    return condition(world, "Ready")


def condition(world: World, type_: str) -> Json:
    return next(c for c in world.status()["conditions"] if c["type"] == type_)


def gates(world: World) -> dict[str, str]:
    """The serving gate of each pod."""
    found = {}
    for pod in world.pods():
        conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or []}
        found[pod["metadata"]["name"]] = conditions.get("ome.io/serving", "")
    return found
