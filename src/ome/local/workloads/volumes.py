"""PersistentVolumeClaims bind at once: to a volume that fits, or to one made up for them, a folder below the data
directory. A claim that names a class which does not exist waits, as on a real cluster. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ome.api.quantity import parse_quantity
from ome.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from ome.local.objects import Json, Object, reference_to, selects
from ome.local.plan import Action, Create, Delete, Emit, Patch, Plan

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONER: Final = "local.ome.io/host-path"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A claim, the volume it names, that names it or that fits, and the folder under which volumes are made up.

    has_class: whether the class that the claim names exists; True when it names none.
    """

    claim: Object
    volume: Object | None
    folder: str
    has_class: bool = True


def decide(snapshot: Snapshot) -> Plan:
    """Make the volume, bind both ways, say so in both statuses."""
    claim, volume = snapshot.claim, snapshot.volume
    if claim.metadata.deleting:
        return Plan()
    name = str(claim.spec.get("volumeName") or (volume.name if volume else f"pvc-{claim.uid}"))
    if volume is None and not snapshot.has_class:
        return Plan((_no_class(claim),))
    if volume is None:
        return Plan((Create(PERSISTENT_VOLUMES, _volume(snapshot, name)),))
    actions: list[Action] = []
    reference = volume.spec.get("claimRef") or {}
    if reference.get("uid") not in (None, claim.uid):
        return Plan()
    if reference.get("uid") != claim.uid:
        body: Json = {"spec": {"claimRef": _claim_reference(claim)}}
        actions.append(Patch(PERSISTENT_VOLUMES, "", volume.name, body))
    if volume.status.get("phase") != "Bound":
        actions.append(Patch(PERSISTENT_VOLUMES, "", volume.name, {"status": {"phase": "Bound"}}, "status"))
    if claim.spec.get("volumeName") != volume.name:
        annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name}}
        actions.append(Patch(PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name, body))
    if claim.status.get("phase") != "Bound":
        status = {
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes") or [],
            "capacity": volume.spec.get("capacity") or {},
        }
        actions.append(Patch(PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name, {"status": status}, "status"))
    return Plan(actions)


def _no_class(claim: Object) -> Emit:
    text = f'storageclass.storage.k8s.io "{claim.spec["storageClassName"]}" not found'
    return Emit(reference_to(claim, PERSISTENT_VOLUME_CLAIMS), "Warning", "ProvisioningFailed", text)


def fitting(claim: Object, volumes: Iterable[Object]) -> Object | None:
    """The smallest volume of the claim's class that nobody has and that holds what the claim asks for."""
    wanted = claim.spec
    size = _size(wanted.get("resources"), "requests")
    selector = wanted.get("selector")
    found = [
        volume
        for volume in volumes
        if not volume.spec.get("claimRef")
        and not volume.metadata.deleting
        and volume.spec.get("storageClassName", "") == (wanted.get("storageClassName") or "")
        and volume.spec.get("volumeMode") == wanted.get("volumeMode")
        and set(wanted.get("accessModes") or ()) <= set(volume.spec.get("accessModes") or ())
        and (selector is None or selects(selector, volume.metadata.labels))
        and _size(volume.spec, "capacity") >= size
    ]
    return min(found, key=lambda volume: (_size(volume.spec, "capacity"), volume.name), default=None)


def _size(holder: Json | None, field: str) -> Fraction:
    return parse_quantity(str(((holder or {}).get(field) or {}).get("storage", "0")))


def offer(volume: Object) -> Plan:
    """A new volume that nobody has yet is Available, also when it is meant for a certain claim."""
    if (volume.spec.get("claimRef") or {}).get("uid") or volume.status.get("phase") not in (None, "Pending"):
        return Plan()
    return Plan((Patch(PERSISTENT_VOLUMES, "", volume.name, {"status": {"phase": "Available"}}, "status"),))


def release(volume: Object) -> Plan:
    """The claim of a bound volume is gone: a made-up volume goes too, any other is Released."""
    if volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER:
        return Plan((Delete(PERSISTENT_VOLUMES, "", volume.name, volume.uid),))
    if volume.status.get("phase") == "Released":
        return Plan()
    return Plan((Patch(PERSISTENT_VOLUMES, "", volume.name, {"status": {"phase": "Released"}}, "status"),))


def _claim_reference(claim: Object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.metadata.resource_version,
    }


def _volume(snapshot: Snapshot, name: str) -> Json:
    claim = snapshot.claim
    requested = ((claim.spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    spec: Json = {
        "capacity": {"storage": requested},
        "accessModes": claim.spec.get("accessModes") or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": claim.spec.get("volumeMode", "Filesystem"),
        "hostPath": {"path": f"{snapshot.folder.rstrip('/')}/{claim.namespace}/{claim.name}"},
        "claimRef": _claim_reference(claim),
    }
    if claim.spec.get("storageClassName"):
        spec["storageClassName"] = claim.spec["storageClassName"]
    metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
