"""The InferenceService controller (spec/inference-service.md, spec/runtime-revisions.md sections 4 to 7).

It observes one service with everything that bears on it, decides by pure functions, acts by server-side apply, and
reports in the service's status. What pods look like is `ome.rendering`'s, which runtime and which revision
`ome.runtimes`', how an InferenceReplica lives `ome.omenative`'s.
"""

from ome.services.controller import build

__all__ = ["build"]
