"""In-place updates of a single-pod Instance: new images in the same pod (`spec/omenative.md` section 8.4).

Pure. Eligibility compares recorded payloads, never the live pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ome.api.types.inference_replica import InstanceStatus

from . import names
from .actions import PatchPod
from .bringup import may_create, recycle, refused, run_clock, serve, watch_for_failure
from .observe import Member, container_images
from .revisions import payload_of
from .work import Work

HOLD = "InPlaceUpdate"


def eligible(running: Mapping[str, Any] | None, target: Mapping[str, Any] | None) -> bool:
    """Whether a running pod can be turned into the target: two payloads that differ in images and annotations only.

    Labels are not patched in place (section 8.4, step 2), so a pod could never come to carry changed ones: they count
    as a difference, and the Instance is recreated or the update refused (`docs/decisions/0017`).
    """
    return running is not None and target is not None and _blanked(running) == _blanked(target)


def _blanked(payload: Mapping[str, Any]) -> dict[str, Any]:
    spec = payload.get("podSpec") or {}
    containers = [{**container, "image": ""} for container in spec.get("containers") or []]
    labels = (payload.get("podMeta") or {}).get("labels") or None
    return {**payload, "podSpec": {**spec, "containers": containers}, "podMeta": labels}


def start(work: Work, row: InstanceStatus, strategy: str) -> None:
    """Open the operation and act on it."""
    row = work.open(row, "Update", "InPlace", work.target, phase="Updating", strategy=strategy)
    work.normal(row, "InPlaceUpdateStarted", f"in-place update to revision {work.target}")
    advance(work, row)


def advance(work: Work, row: InstanceStatus) -> None:
    """Go on: out of rotation, patched, confirmed, back in rotation."""
    operation = row.operation
    assert operation is not None
    target = operation.target_revision
    pod = next((m for m in work.pods(row.index) if m.live and m.ordinal == row.active_ordinal), None)
    row = run_clock(work, row, [pod] if pod is not None else [])
    name = work.pod_name(row.index, row.active_ordinal)
    if refused(work, row, name):
        return
    if pod is None:
        for leftover in work.pods(row.index):  # of an earlier surge: not beside the pod that is made anew
            if not leftover.gate:
                work.delete(leftover)
        if may_create(work, row):
            work.create(row, row.active_ordinal, target)
        watch_for_failure(work, row, [])
        return
    if recycle(work, row, [pod]):
        return
    if pod.digest != names.digest_of(target):
        _change(work, row, pod, target)
        return
    since = operation.started_at
    if not confirmed(pod):
        if work.strategy.mark_not_ready:
            work.close_gate(pod, HOLD)
        watch_for_failure(work, row, [pod], since=since)
        return
    if not serve(work, [pod]):
        watch_for_failure(work, row, [pod], since=since)
        return
    row = work.ready(row, target)
    work.normal(row, "InPlaceUpdateCompleted", f"in-place update to revision {target} complete")
    if names.ANNOTATION_IMAGES in pod.pod.metadata.annotations:
        body = {"metadata": {"annotations": {names.ANNOTATION_IMAGES: None}}}
        work.actions.append(PatchPod(pod.name, pod.uid, row.index, body))


def _change(work: Work, row: InstanceStatus, pod: Member, target: str) -> None:
    if work.strategy.mark_not_ready:
        work.close_gate(pod, HOLD)
        if not work.drained(pod):
            return
    operation = row.operation
    assert operation is not None
    wanted = payload_of(work.snapshot.revisions, target)
    running = payload_of(work.snapshot.revisions, names.revision_name(work.base, pod.digest))
    if wanted is None:
        return
    body = patch(running or {}, wanted, target, operation.id, work.replica.spec.pairing_protocol)
    work.actions.append(PatchPod(pod.name, pod.uid, row.index, body))


def patch(
    running: Mapping[str, Any], wanted: Mapping[str, Any], target: str, operation: str, pairing: str
) -> dict[str, Any]:
    """Strategic merge patch of the pod: images, the annotations that revisions own, the revision labels."""
    before = (running.get("podMeta") or {}).get("annotations") or {}
    after = (wanted.get("podMeta") or {}).get("annotations") or {}
    images = container_images(wanted["podSpec"])
    annotations: dict[str, Any] = {key: None for key in before if key not in after}
    annotations.update(after)
    annotations[names.ANNOTATION_IMAGES] = json.dumps({"targetImages": images}, separators=(",", ":"), sort_keys=True)
    annotations[names.ANNOTATION_OPERATION] = operation
    labels: dict[str, Any] = {names.LABEL_HASH: names.digest_of(target)}
    if pairing:
        labels[names.LABEL_PAIRING] = pairing
    containers = [{"name": name, "image": image} for name, image in images.items()]
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": containers}}


def confirmed(member: Member) -> bool:
    """Whether the container statuses show every regular container on the image of its spec."""
    images = {container.name: container.image for container in member.pod.spec.containers}
    shown = {status.name: status for status in member.pod.status.container_statuses}
    for name, image in images.items():
        status = shown.get(name)
        if status is None:
            return False
        same = _normal(status.image) == _normal(image)
        digest = image.partition("@")[2]
        if not same and not (digest and digest in status.image_id):
            return False
    return True


def _normal(image: str) -> str:
    """A reference without the parts a container runtime adds: default registry, `library/`, `:latest`."""
    name = image.removeprefix("docker.io/").removeprefix("library/")
    return name.removesuffix(":latest")
