"""What a failed operation leads to: the row, the retry block, the event (`spec/omenative.md` section 6.3).

The passes call `Work.fail`; `dispose` runs after the operations in flight and before anything starts, so that a start
in the same pass already meets the charged block. A block that is charged is written before the row. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from ome.api.types.inference_replica import InstanceStatus, InstanceTermination

from . import evidence as ev
from . import gangsurge, names, retry
from .work import Failing, Work

_TERMINAL = (
    "attempt disposed terminal (no workload-caused evidence, relocation unavailable); operation-specific "
    "recovery decides "
    "whether another attempt is safe"
)


def dispose(work: Work) -> None:
    """End every operation that failed in this pass. Not while paused: then nothing fails."""
    if work.paused:
        return
    for failing in sorted(work.failing, key=lambda failing: failing.index):
        row = work.rows.get(failing.index)
        if row is not None and row.operation is not None and not _serves(work, row):
            _dispose(work, row, failing)
    work.failing.clear()
    for revision, failure in work.abandonments:
        _charge_gang(work, revision, failure)
    work.abandonments.clear()


def _serves(work: Work, row: InstanceStatus) -> bool:
    """Pods that all serve on what the operation makes are never failed; an old pod beside them proves nothing."""
    operation = row.operation
    assert operation is not None
    digest = names.digest_of(operation.target_revision)
    index = row.index if operation.surge_index is None else operation.surge_index
    made = [member for member in work.pods(index) if member.live and member.digest == digest]
    return len(made) >= work.per_instance and all(member.serving for member in made)


def _dispose(work: Work, row: InstanceStatus, failing: Failing) -> None:
    operation = row.operation
    assert operation is not None
    proof = failing.evidence
    work.withdraw_creations(row.index)
    if operation.surge_index is not None:
        work.withdraw_creations(operation.surge_index)
        gangsurge.failure(work, row, proof)
        return
    detail = f"{proof.reason}: {_TERMINAL}"
    if operation.type in ("Create", "Update"):
        blamed = operation.target_revision or work.update_revision
        guilt = ev.blame(proof.reason)
        _charge(work, blamed, proof.reason, guilt)
        if guilt is ev.Blame.REVISION:
            detail = (
                f"{proof.reason}: workload-caused failure; revision {blamed} held for retry — fix the image/config and "
                "publish a corrected revision"
            )
    marker = f"InstanceFailed@{proof.reason}/{operation.target_revision}"
    told = marker in row.announced
    row = work.record_failure(row, proof)
    kept = operation if operation.type == "Restart" or (operation.type == "Update" and work.gang) else None
    work.failed.add(row.index)
    announced = row.announced if told else (*row.announced, marker)
    row = work.put(replace(row, phase="Failed", operation=kept, announced=announced))
    if not told:  # the same end once more, until the Instance was Ready in between
        pod = f"pod {proof.pod} " if proof.pod else ""
        work.warning(row, "InstanceFailed", f"failed: {pod}{detail}")


def _charge(work: Work, revision: str, reason: str, guilt: ev.Blame, *, paces: bool = False) -> None:
    result = retry.charge(
        work.blocks,
        revision,
        blame=guilt,
        reason=reason,
        policy=work.settings.retry,
        now=work.stamp,
        update_revision=work.update_revision,
        paces=paces,
    )
    if result.blocks == work.blocks:
        return
    work.blocks = work.charged = result.blocks
    if result.held is not None:
        work.newly_held.add(result.held.target_revision)


def _charge_gang(work: Work, revision: str, failure: InstanceTermination) -> None:
    """A gang surge that was taken back always paces its revision; only a counting reason charges it (row C2)."""
    guilt = ev.blame(failure.reason)
    reason = failure.reason
    if guilt is not ev.Blame.REVISION:
        reason = failure.message or failure.reason or "gang surge abandoned before the target became Ready"
    _charge(work, revision, reason, guilt, paces=True)
