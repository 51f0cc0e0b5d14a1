"""Names, labels and annotations of an InferenceReplica and its children (`spec/omenative.md` sections 1 and 3).

Not the bodies of objects (`pods.py`, `services.py`). Everything here is pure and called by the whole room.
"""

from __future__ import annotations

from typing import Final

from ome.api.names import shortened
from ome.api.types.inference_replica import InferenceReplica

LABEL_SERVICE: Final = "ome.io/inferenceservice"
LABEL_COMPONENT: Final = "component"
LABEL_MANAGED_BY: Final = "ome.io/managed-by"
LABEL_INDEX: Final = "ome.io/instance-index"
LABEL_INCARNATION: Final = "ome.io/instance-incarnation"
LABEL_RUNNER: Final = "ome.io/runner"
LABEL_ORDINAL: Final = "ome.io/pod-ordinal"
LABEL_HASH: Final = "ome.io/revision-hash"
LABEL_PAIRING: Final = "ome.io/pairing-protocol"
MANAGED_BY: Final = "OMENative"

GATE: Final = "ome.io/serving"
FINALIZER: Final = "ome.io/ir-teardown"
ORPHAN_FINALIZER: Final = "orphan"
"""On an object that is deleted with `--cascade=orphan`, until the garbage collector has let its children go."""
MAIN_CONTAINER: Final = "ome-container"

ANNOTATION_RELEASE: Final = "ome.io/release-held-revision"
ANNOTATION_RESET: Final = "ome.io/reset-instances"
ANNOTATION_EXCLUDED_KEYS: Final = "ome.io/revision-excluded-annotation-keys"
ANNOTATION_OPERATION: Final = "internal.ome.io/operation"
"""On a pod: the operation that created it, so that a retry tells its own pods from an earlier attempt's, crash or not.
"""
ANNOTATION_IMAGES: Final = "internal.ome.io/in-place-image-transition"

DEFAULT_RUNNER: Final = "default"
LEADER: Final = "leader"
WORKER: Final = "worker"


def service_of(replica: InferenceReplica) -> str:
    """`<isvc>`: the parent's name, or a standalone replica's own."""
    parent = replica.spec.parent_ref
    return parent.name if parent is not None and parent.name else replica.metadata.name


def base_of(replica: InferenceReplica) -> str:
    """`<isvc>-<c>`, the stem of every child's name."""
    return f"{service_of(replica)}-{replica.spec.component}"


def projected(replica: InferenceReplica) -> bool:
    """Whether an InferenceService writes this replica."""
    return replica.spec.parent_ref is not None


def orphaned(replica: InferenceReplica) -> bool:
    """Whether the InferenceService of a projected replica was deleted and left it behind (`--cascade=orphan`).

    What runs goes on, until an InferenceService of that name takes the replica over.
    """
    return projected(replica) and replica.metadata.controller is None


def selector(replica: InferenceReplica) -> dict[str, str]:
    """The labels that all pods of the replica carry."""
    return {
        LABEL_COMPONENT: replica.spec.component,
        LABEL_SERVICE: service_of(replica),
        LABEL_MANAGED_BY: MANAGED_BY,
    }


def selector_text(replica: InferenceReplica) -> str:
    """`status.labelSelector`, keys sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(replica).items()))


def pod_name(base: str, index: int, runner: str, ordinal: int) -> str:
    """Name of a pod."""
    return f"{base}-{index}-{runner}-{ordinal}"


def hostname(pod: str) -> str:
    """A pod's hostname: its name, or the hashed form where that is too long for one. A pod's name grows with the index
    of its Instance, so a service that ran would be refused its eleventh Instance.
    """
    return shortened(pod)


def revision_name(base: str, digest: str) -> str:
    return f"{base}-{digest}"


def digest_of(revision: str) -> str:
    """The hash part of a revision's name; the empty string stays empty."""
    return revision.rpartition("-")[2]
