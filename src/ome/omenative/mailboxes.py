"""The two mailboxes of an InferenceReplica: release of a held revision, reset of failed Instances.

`spec/retry-blocks.md` section 6 and `spec/omenative.md` section 11. Answered before anything else, paused or not; the
annotation's deletion is the acknowledgement. Pure.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from . import names, retry
from .actions import NORMAL, WARNING, ClearAnnotation, DeletePod, Notice
from .work import Work


def pending(work: Work) -> bool:
    """Whether a request waits."""
    annotations = work.replica.metadata.annotations
    return names.ANNOTATION_RELEASE in annotations or names.ANNOTATION_RESET in annotations


def answer(work: Work) -> None:
    """Decide the answers. Order of carrying out: status, then for each its deletes, its event, the end of its
    annotation.
    """
    annotations = work.replica.metadata.annotations
    if names.ANNOTATION_RELEASE in annotations:
        work.actions.append(_release(work, annotations[names.ANNOTATION_RELEASE]))
        work.actions.append(ClearAnnotation(names.ANNOTATION_RELEASE))
    if names.ANNOTATION_RESET in annotations:
        for notice in _reset(work, annotations[names.ANNOTATION_RESET]):
            work.actions.append(notice)
        work.actions.append(ClearAnnotation(names.ANNOTATION_RESET))


def _about(work: Work) -> str:
    meta = work.replica.metadata
    return f"InferenceReplica {meta.namespace}/{meta.name} component={work.replica.spec.component}: "


def _release(work: Work, value: str) -> Notice:
    block = retry.matching(work.blocks, value)
    if block is None:
        text = f"release requested for revision {go_quoted(value)} but no retryBlock exists for it; nothing to release"
        return Notice(NORMAL, "RetryBlockReleaseSkipped", _about(work) + text, fold=False)
    name = block.target_revision
    if block.state != retry.HELD:
        text = f"retryBlock for revision {name} is {block.state}, not Held; nothing to release"
        return Notice(NORMAL, "RetryBlockReleaseSkipped", _about(work) + text, fold=False)
    work.blocks = retry.without(work.blocks, name)
    text = f"Held retryBlock for revision {name} removed at operator request ({names.ANNOTATION_RELEASE} annotation)"
    return Notice(NORMAL, "RetryBlockReleased", _about(work) + text, fold=False)


def _reset(work: Work, value: str) -> list[Notice]:
    requested, problem = _parse(value, sorted(work.rows))
    about = _about(work)
    if problem:
        text = f"{names.ANNOTATION_RESET}={go_quoted(value)} rejected: {problem}; nothing reset"
        return [Notice(WARNING, "InstancesResetRejected", about + text)]
    everything = value.strip() == "all"
    done: list[int] = []
    skipped: list[str] = []
    for index in requested:
        why = _obstacle(work, index)
        if not why:
            _reset_one(work, index)
            done.append(index)
        elif not everything or why != _phase(work, index):
            skipped.append(f"{index} ({why})")
    notices = []
    if done:
        text = (
            f"reset instance(s) {','.join(map(str, done))} at operator request ({names.ANNOTATION_RESET} "
            f"annotation): pods "
            "deleted and preserved operation cleared; the lifecycle passes rebuild them"
        )
        notices.append(Notice(NORMAL, "InstancesReset", about + text))
    if skipped:
        text = f"reset skipped for instance(s) {', '.join(skipped)}"
        notices.append(Notice(NORMAL, "InstancesResetSkipped", about + text))
    elif not done:
        text = "reset requested for all instances but none is Failed; nothing to reset"
        notices.append(Notice(NORMAL, "InstancesResetSkipped", about + text))
    return notices


def _parse(value: str, all_indices: list[int]) -> tuple[list[int], str]:
    """Requested indices, ascending; or why the value is none."""
    if not value.strip():
        return [], 'expected "all" or a comma-separated list of instance indices'
    if value.strip() == "all":
        return all_indices, ""
    indices: set[int] = set()
    for part in value.split(","):
        text = part.strip()
        if not (text.isascii() and text.isdigit()) or int(text) > 2**31 - 1:
            return [], f"{go_quoted(text)} is not a non-negative instance index"
        indices.add(int(text))
    return sorted(indices), ""


def _phase(work: Work, index: int) -> str:
    return f"Phase={work.rows[index].phase}" if index in work.rows else ""


def _obstacle(work: Work, index: int) -> str:
    row = work.rows.get(index)
    if row is None:
        return "no such instance"
    if row.operation is not None and row.operation.type in ("Update", "Migrate", "Delete"):
        return f"owned by {row.operation.type}"
    if row.phase != "Failed":
        return f"Phase={row.phase}"
    if any(member.serving for member in work.pods(index)):
        return "still serving"
    if row.operation is None and not work.pods(index):
        return "nothing to reset"
    return ""


def _reset_one(work: Work, index: int) -> None:
    row = work.rows[index]
    work.put(replace(row, operation=None))
    for member in work.pods(index):
        if member.live:
            work.actions.append(DeletePod(member.name, member.uid))


def go_quoted(text: str) -> str:
    """A string in double quotes as Go's `%q` writes it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if text.isprintable() else json.dumps(text)
