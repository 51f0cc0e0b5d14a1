"""The roles and bindings that a cluster has from the start, as data: administrators, editors, viewers, system parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ome.local.apiserver.core import Core
from ome.local.apiserver.rbac import CLUSTER_BINDINGS, CLUSTER_ROLES, GROUP

BOOTSTRAP: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTOUPDATE: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
READ: Final = ("get", "list", "watch")
WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")


def _rule(verbs: Sequence[str], group: str, resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": sorted(resources.split()), "verbs": list(verbs)}


def _urls(*urls: str) -> dict[str, Any]:
    return {"nonResourceURLs": list(urls), "verbs": ["get"]}


_VIEW: Final = [
    _rule(
        READ,
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    _rule(
        READ,
        "",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
        "resourcequotas resourcequotas/status",
    ),
    _rule(READ, "", "namespaces"),
    _rule(READ, "discovery.k8s.io", "endpointslices"),
    _rule(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
        "deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale "
        "statefulsets/status",
    ),
    _rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    _rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    _rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    _rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
]
_EDIT: Final = [
    _rule(READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    _rule(("impersonate",), "", "serviceaccounts"),
    _rule(WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    _rule(("create",), "", "pods/eviction"),
    _rule(
        WRITE,
        "",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
        "secrets serviceaccounts services services/proxy",
    ),
    _rule(("create",), "", "serviceaccounts/token"),
    _rule(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
        "statefulsets statefulsets/scale",
    ),
    _rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
    _rule(WRITE, "batch", "cronjobs jobs"),
    _rule(WRITE, "policy", "poddisruptionbudgets"),
    _rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    _rule((*WRITE, *READ), "coordination.k8s.io", "leases"),
]
_ADMIN: Final = [
    _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    _rule((*WRITE, *READ), GROUP, "rolebindings roles"),
]
_EVERYTHING: Final = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
_HEALTH: Final = _urls("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY: Final = _urls(
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
    "/version/",
)  # fmt: skip
_NODE: Final = [
    _rule(("create",), "authentication.k8s.io", "tokenreviews"),
    _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    _rule(READ, "", "services"),
    _rule(("create", *READ), "", "nodes"),
    _rule(("patch", "update"), "", "nodes nodes/status"),
    _rule(("create", "patch", "update"), "", "events"),
    _rule(READ, "", "pods"),
    _rule(("create", "delete"), "", "pods"),
    _rule(("patch", "update"), "", "pods/status"),
    _rule(("create",), "", "pods/eviction serviceaccounts/token"),
    _rule(READ, "", "configmaps persistentvolumeclaims persistentvolumes secrets serviceaccounts"),
    _rule(("create", "delete", "get", "patch", "update"), "coordination.k8s.io", "leases"),
]
_SCHEDULER: Final = [
    _rule(("create", "patch", "update"), "", "events"),
    _rule(("create", "get", "list", "update", "watch"), "coordination.k8s.io", "leases"),
    _rule(READ, "", "namespaces nodes persistentvolumeclaims persistentvolumes replicationcontrollers services"),
    _rule(("delete", *READ), "", "pods"),
    _rule(("create",), "", "bindings pods/binding"),
    _rule(("patch", "update"), "", "pods/status"),
    _rule(READ, "apps", "replicasets statefulsets"),
    _rule(READ, "policy", "poddisruptionbudgets"),
    _rule(READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses"),
]
_SELF: Final = [
    _rule(("create",), "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
]
_AGGREGATES: Final = {
    "admin": ("rbac.authorization.k8s.io/aggregate-to-admin",),
    "edit": ("rbac.authorization.k8s.io/aggregate-to-edit",),
    "view": ("rbac.authorization.k8s.io/aggregate-to-view",),
}
_ROLES: Final[dict[str, list[dict[str, Any]]]] = {
    "cluster-admin": _EVERYTHING,
    "system:aggregate-to-admin": _ADMIN,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": [
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:basic-user": _SELF,
    "system:discovery": [_DISCOVERY],
    "system:kube-controller-manager": _EVERYTHING,
    "system:kube-scheduler": _SCHEDULER,
    "system:monitoring": [_urls("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*")],
    "system:node": _NODE,
    "system:public-info-viewer": [_HEALTH],
    "system:service-account-issuer-discovery": [_urls("/.well-known/openid-configuration", "/openid/v1/jwks")],
}
_GATHERED_BY: Final = {
    "system:aggregate-to-admin": ("admin",),
    "system:aggregate-to-edit": ("edit",),
    "system:aggregate-to-view": ("view",),
}
_ALSO_GATHERED: Final = {"admin": "edit", "edit": "view"}
_BINDINGS: Final[dict[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "cluster-admin": ("cluster-admin", (("Group", "system:masters"),)),
    "system:basic-user": ("system:basic-user", (("Group", "system:authenticated"),)),
    "system:discovery": ("system:discovery", (("Group", "system:authenticated"),)),
    "system:kube-controller-manager": (
        "system:kube-controller-manager",
        (("User", "system:kube-controller-manager"),),
    ),
    "system:kube-scheduler": ("system:kube-scheduler", (("User", "system:kube-scheduler"),)),
    "system:monitoring": ("system:monitoring", (("Group", "system:monitoring"),)),
    "system:node": ("system:node", (("Group", "system:nodes"),)),
    "system:public-info-viewer": (
        "system:public-info-viewer",
        (("Group", "system:authenticated"), ("Group", "system:unauthenticated")),
    ),
    "system:service-account-issuer-discovery": (
        "system:service-account-issuer-discovery",
        (("Group", "system:serviceaccounts"),),
    ),
}


def _metadata(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "labels": {**BOOTSTRAP, **(labels or {})}, "annotations": dict(AUTOUPDATE)}


def _cluster_roles() -> Iterable[dict[str, Any]]:
    for name, keys in _AGGREGATES.items():
        labels = {}
        for wider, narrower in _ALSO_GATHERED.items():
            if narrower == name:
                labels[f"rbac.authorization.k8s.io/aggregate-to-{wider}"] = "true"
        selectors = [{"matchLabels": {key: "true"}} for key in keys]
        rule = {"clusterRoleSelectors": selectors}
        yield {"aggregationRule": rule, "metadata": _metadata(name, labels), "rules": None}
    for name, rules in _ROLES.items():
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{into}": "true" for into in _GATHERED_BY.get(name, ())}
        yield {"metadata": _metadata(name, labels), "rules": rules}


def _cluster_bindings() -> Iterable[dict[str, Any]]:
    for name, (role, subjects) in _BINDINGS.items():
        yield {
            "metadata": _metadata(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject} for kind, subject in subjects],
        }


def bootstrap(core: Core) -> None:
    """Make the default roles and bindings that are not there yet."""
    for storage, objects in ((CLUSTER_ROLES, _cluster_roles()), (CLUSTER_BINDINGS, _cluster_bindings())):
        type_ = core.registry.by_storage(storage)
        if type_ is None:
            raise AssertionError("the kinds of access control are built in")
        for obj in objects:
            if core.get(type_, "", obj["metadata"]["name"]) is None:
                core.stamp(obj)
                core.create(type_, obj)
