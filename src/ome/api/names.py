"""Names that OME gives: of Services, of runtime revisions, of component objects. One rule, one place.

`spec/inference-service.md` section 4 and `spec/runtime-revisions.md` section 2. Pure.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

ENGINE: Final = "engine"
DECODER: Final = "decoder"
ROUTER: Final = "router"
COMPONENTS: Final = (ENGINE, DECODER, ROUTER)

MAIN_CONTAINER: Final = "ome-container"
SERVICE_NAME_LIMIT: Final = 63
SERVICE_NAME_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"

CLUSTER_SERVING_RUNTIME: Final = "ClusterServingRuntime"
SERVING_RUNTIME: Final = "ServingRuntime"

_SERVICE_NAME: Final = re.compile(rf"^{SERVICE_NAME_PATTERN}$")
_HASH: Final = re.compile(r"^[0-9a-f]{8}$")


def is_service_name(name: str) -> bool:
    """Whether an InferenceService or standalone InferenceReplica may have this name."""
    return _SERVICE_NAME.match(name) is not None and not name.endswith("\n")


def component_name(service: str, component: str) -> str:
    """`{isvc}-{c}`: Deployment, InferenceReplica, HPA, PDB. Never shortened."""
    return f"{service}-{component}"


def shortened(name: str) -> str:
    """The name, or its hashed form when over 63 characters: Service names and the label value `app`.

    First 8 hex digits of SHA-256 (a leading digit becomes `a`), `-`, the last 54 characters of the name.
    """
    if len(name) <= SERVICE_NAME_LIMIT:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    if digest[0].isdigit():
        digest = "a" + digest[1:]
    return f"{digest}-{name[-54:]}"


def component_service(service: str, component: str) -> str:
    """The component Service, and the label value `app`."""
    return shortened(component_name(service, component))


def headless_service(service: str, component: str) -> str:
    return shortened(f"{component_name(service, component)}-headless")


def revision_service(service: str, component: str, revision_hash: str) -> str:
    return shortened(f"{component_name(service, component)}-rev-{revision_hash}")


def revision_headless_service(service: str, component: str, revision_hash: str) -> str:
    return shortened(f"{component_name(service, component)}-rev-{revision_hash}-headless")


def runtime_revision_prefix(kind: str, runtime: str, namespace: str) -> str:
    """What precedes the hash in a runtime revision's name; `namespace` is the service's."""
    if kind == SERVING_RUNTIME:
        return f"r-{namespace}-{runtime}-"
    return f"cr-{runtime}-"


def runtime_revision(kind: str, runtime: str, namespace: str, hash8: str) -> str:
    """A runtime revision's name: `cr-<runtime>-<hash8>` or `r-<namespace>-<runtime>-<hash8>`."""
    return runtime_revision_prefix(kind, runtime, namespace) + hash8


def is_runtime_revision_of(name: str, kind: str, runtime: str, namespace: str) -> bool:
    """Whether the name has the form that revisions of this runtime have (`spec/runtime-revisions.md` section 9.1)."""
    prefix = runtime_revision_prefix(kind, runtime, namespace)
    return name.startswith(prefix) and _HASH.match(name[len(prefix) :]) is not None and not name.endswith("\n")
