"""Where a replica's pod templates come from: its own runners, or a rendering of what it refers to.

Says honestly what it cannot serve: the reason and message of a `Ready` condition. Pure.
"""

from __future__ import annotations

from ome.api.types.inference_replica import InferenceReplica, Runner

from . import names
from .observe import RenderProblem

Runners = tuple[Runner, ...]


def runners_of(replica: InferenceReplica) -> Runners | RenderProblem:
    """The runners written in the spec, or why there are none that can be run."""
    runners = replica.spec.runners
    if not runners:
        return RenderProblem("TemplateSourceMissing", "spec names no runners, no modelRef and no runtimeRef")
    return check(runners)


def check(runners: Runners) -> Runners | RenderProblem:
    """Refuse shapes that this engine does not run."""
    shape = sorted(runner.name for runner in runners)
    if shape != [names.DEFAULT_RUNNER]:
        return RenderProblem(
            "RenderFailed",
            f"Instances of several pods (runners {', '.join(shape)}) are not served by this version; use one "
            f"runner named "
            f"{names.DEFAULT_RUNNER}",
        )
    if not (runners[0].template.get("spec") or {}).get("containers"):
        return RenderProblem("RenderFailed", "the pod template of runner default has no containers")
    return runners
