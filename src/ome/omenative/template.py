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
    if shape not in ([names.DEFAULT_RUNNER], [names.LEADER, names.WORKER]):
        text = f"runners are {', '.join(shape)}: one named default, or one leader and one worker"
        return RenderProblem("RenderFailed", text)
    for runner in runners:
        if not (runner.template.get("spec") or {}).get("containers"):
            return RenderProblem("RenderFailed", f"the pod template of runner {runner.name} has no containers")
    return runners
