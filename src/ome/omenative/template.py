"""Whether runners can be run, and what is wrong with those that cannot, as a `Ready` condition says it. Pure."""

from __future__ import annotations

from ome.api.types.inference_replica import Runner

from . import names
from .observe import RenderProblem

Runners = tuple[Runner, ...]


def check(runners: Runners) -> Runners | RenderProblem:
    """The runners, or why this engine does not run them."""
    if not runners:
        return RenderProblem("TemplateSourceMissing", "spec names no runners")
    shape = sorted(runner.name for runner in runners)
    if shape != [names.DEFAULT_RUNNER]:
        return RenderProblem(
            "RenderFailed",
            f"Instances of several pods (runners {', '.join(shape)}) are not served by this version; "
            f"use one runner named {names.DEFAULT_RUNNER}",
        )
    if not (runners[0].template.get("spec") or {}).get("containers"):
        return RenderProblem("RenderFailed", "the pod template of runner default has no containers")
    return runners
