"""One stage for all tests of the folder: installing OME's definitions takes longer than any test here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.component.admission.stage import Stage, stage
from tests.support.virtual_time import VirtualTimeLoop

Scene = Callable[[Stage], Coroutine[Any, Any, None]]


class Theatre:
    """Plays scenes one after the other on one stage, in one loop of virtual time. Scenes use names of their own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self._opened = stage(features=("rolloutPolicy",))
        self._stage: Stage | None = None

    def play(self, scene: Scene) -> None:
        if self._stage is None:
            self._stage = self._runner.run(self._opened.__aenter__())
        self._stage.reviews.clear()
        self._runner.run(self._bounded(scene(self._stage)))

    @staticmethod
    async def _bounded(scene: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(3600):
            await scene

    def close(self) -> None:
        if self._stage is not None:
            self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="session")
def theatre() -> Iterator[Theatre]:
    made = Theatre()
    yield made
    made.close()
