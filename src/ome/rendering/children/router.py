"""ServiceAccount, Role and RoleBinding of a router (spec/inference-service.md section 4, "Router permissions").

A router finds its engine's pods through the API, so it may get, list and watch pods of its namespace, nothing else.
"""

from __future__ import annotations

from typing import Any

from ome.api import keys
from ome.rendering.model import RenderedComponent

from .metadata import Json, Owner, object_metadata

_RBAC = "rbac.authorization.k8s.io"


def router_access(owner: Owner, router: RenderedComponent) -> tuple[Json, Json, Json]:
    """The three objects; they carry the component's labels without `app`, and no annotations."""
    labels = {key: value for key, value in router.labels.items() if key != keys.APP}
    metadata = object_metadata(owner, router.name, labels=labels)
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    role: Json = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }
    binding: Json = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": router.name},
        "subjects": [{"kind": "ServiceAccount", "name": router.name, "namespace": owner.namespace}],
    }
    return account, role, binding


def with_service_account(pod_spec: dict[str, Any], router: str) -> Json:
    """The router's pod spec under its own ServiceAccount, unless the user named one."""
    if pod_spec.get("serviceAccountName"):
        return pod_spec
    return {**pod_spec, "serviceAccountName": router}
