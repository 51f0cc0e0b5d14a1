"""The InferenceReplica engine: revisions, Instances, update strategies, retry blocks, mailboxes
(`docs/spec/omenative.md`).
"""
