"""Choosing a runtime: by name with inheritance, by selection, by pin; accelerator classes; revisions and their
collection.

Decisions are pure modules that the command line imports too, so the controllers are only loaded by `build`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ome.kube.controller import Controller, Environment


def build(environment: Environment) -> list[Controller]:
    """This room's controllers: inheritance status, accelerator classes, runtime-revision-gc."""
    from ome.runtimes import class_status, inheritance_status, revision_collector

    return [
        inheritance_status.build(environment),
        class_status.build(environment),
        revision_collector.build(environment),
    ]
