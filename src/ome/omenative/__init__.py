"""The InferenceReplica engine: revisions, Instances, strategies, retry blocks, mailboxes (`docs/spec/omenative.md`)."""

from .controller import build

__all__ = ["build"]
