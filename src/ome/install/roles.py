"""What OME's parts may do in a cluster, no more than they need (`spec/install-and-operate.md` section 1.4).

The manager runs under exactly this role on every cluster, the embedded one included: a missing rule shows in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ome.api.crds import KINDS

MANAGER: Final = "ome-controller-manager"
METADATA_JOB: Final = "ome-model-metadata"
WEBHOOK_SECRET: Final = "ome-webhook-server-cert"
MUTATING: Final = "ome-mutating-webhooks"
VALIDATING: Final = "ome-validating-webhooks"

_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
_MODIFY: Final = ("get", "update", "patch")

Manifest = dict[str, Any]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> Manifest:
    rule: Manifest = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _ome_rules() -> list[Manifest]:
    plurals = [kind.plural for kind in KINDS]
    return [
        _rule("ome.io", plurals, _WRITE),
        _rule("ome.io", [f"{plural}/status" for plural in plurals], _MODIFY),
        _rule("ome.io", [f"{plural}/finalizers" for plural in plurals], _MODIFY),
        _rule("ome.io", ["inferencereplicas/scale"], _MODIFY),
    ]


def manager_rules() -> list[Manifest]:
    """The manager's ClusterRole."""
    return [
        *_ome_rules(),
        _rule("", ["pods"], ("get", "list", "watch", "create", "patch", "delete")),
        _rule("", ["pods/status"], ("get", "patch")),
        _rule("", ["services", "configmaps", "serviceaccounts"], _WRITE),
        _rule("", ["nodes", "persistentvolumeclaims", "persistentvolumes", "secrets"], _READ),
        _rule("", ["events"], ("create", "patch")),
        _rule("events.k8s.io", ["events"], ("create", "patch")),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("apps", ["deployments", "controllerrevisions"], _WRITE),
        _rule("apps", ["deployments/status"], _READ),
        _rule(_RBAC, ["roles", "rolebindings"], _WRITE),
        _rule("policy", ["poddisruptionbudgets"], _WRITE),
        _rule("autoscaling", ["horizontalpodautoscalers"], _WRITE),
        _rule("batch", ["jobs"], _WRITE),
        _rule("networking.k8s.io", ["ingresses"], _WRITE),
        _rule("gateway.networking.k8s.io", ["httproutes"], _WRITE),
        _rule("keda.sh", ["scaledobjects", "triggerauthentications"], _WRITE),
        _rule("leaderworkerset.x-k8s.io", ["leaderworkersets"], _WRITE),
        _rule("monitoring.coreos.com", ["podmonitors"], _WRITE),
        _rule("scheduling.x-k8s.io", ["podgroups"], _WRITE),
        _rule("gateway.envoyproxy.io", ["backendtrafficpolicies"], _WRITE),
        _rule("networking.istio.io", ["destinationrules", "virtualservices"], _WRITE),
    ]


def certificate_rules() -> list[Manifest]:
    """What the manager needs beyond its role to keep its own certificates: the two webhook configurations, by name."""
    verbs = ("get", "list", "watch", "patch")
    return [
        _rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], verbs, [MUTATING]),
        _rule("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], verbs, [VALIDATING]),
    ]


def secret_rules() -> list[Manifest]:
    """The certificate's Secret, in OME's namespace. `create` cannot be limited to a name."""
    return [
        _rule("", ["secrets"], ["create"]),
        _rule("", ["secrets"], ("get", "update"), [WEBHOOK_SECRET]),
    ]


def _object(kind: str, name: str, namespace: str = "", **content: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, **content}


def _binding(kind: str, name: str, role: str, account: str, account_namespace: str, namespace: str = "") -> Manifest:
    return _object(
        kind,
        name,
        namespace,
        roleRef={"apiGroup": _RBAC, "kind": role, "name": name},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    )


def service_account(name: str, namespace: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def manager_access(namespace: str, *, lease_namespace: str = "", own_certificates: bool = True) -> list[Manifest]:
    """The manager's ServiceAccount, roles and bindings."""
    election = f"{MANAGER}-leader-election"
    leases = lease_namespace or namespace
    objects = [
        service_account(MANAGER, namespace),
        _object("ClusterRole", MANAGER, rules=manager_rules()),
        _binding("ClusterRoleBinding", MANAGER, "ClusterRole", MANAGER, namespace),
        _object(
            "Role",
            election,
            leases,
            rules=[_rule("coordination.k8s.io", ["leases"], ("get", "create", "update", "patch"))],
        ),
        _binding("RoleBinding", election, "Role", MANAGER, namespace, leases),
    ]
    if not own_certificates:
        return objects
    certificates = f"{MANAGER}-certificates"
    return [
        *objects,
        _object("ClusterRole", certificates, rules=certificate_rules()),
        _binding("ClusterRoleBinding", certificates, "ClusterRole", MANAGER, namespace),
        _object("Role", certificates, namespace, rules=secret_rules()),
        _binding("RoleBinding", certificates, "Role", MANAGER, namespace, namespace),
    ]


def metadata_access(namespace: str) -> list[Manifest]:
    """The ServiceAccount of the Jobs that read the metadata of models on persistent volumes.

    They leave what they read in ConfigMaps of OME's namespace; the manager binds the Role to their like elsewhere.
    """
    models = ["basemodels", "clusterbasemodels"]
    results = _rule("", ["configmaps"], ("get", "create", "update", "patch"))
    return [
        service_account(METADATA_JOB, namespace),
        _object("ClusterRole", METADATA_JOB, rules=[_rule("ome.io", models, ("get", "update"))]),
        _binding("ClusterRoleBinding", METADATA_JOB, "ClusterRole", METADATA_JOB, namespace),
        _object("Role", METADATA_JOB, namespace, rules=[results]),
        _binding("RoleBinding", METADATA_JOB, "Role", METADATA_JOB, namespace, namespace),
    ]


def user_roles() -> list[Manifest]:
    """Roles for people: the plugin's reader and actor, and OME's kinds in the built-in `view` role."""
    reader = [
        _rule("ome.io", ["*"], ("get", "list")),
        _rule("", ["pods", "events"], ["list"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("apps", ["deployments"], ["get"]),
        _rule("apps", ["controllerrevisions"], ("get", "list")),
    ]
    actions = [
        _rule("ome.io", ["inferenceservices", "inferencereplicas", "inferencereplicas/scale"], ["patch"]),
    ]
    viewer = _object(
        "ClusterRole", "ome-supplemental-viewer", rules=[_rule("ome.io", ["*"], _READ), _rule("", ["nodes"], _READ)]
    )
    viewer["metadata"]["labels"] = {f"{_RBAC}/aggregate-to-view": "true"}
    return [
        _object("ClusterRole", "kubectl-ome-reader", rules=reader),
        _object("ClusterRole", "kubectl-ome-actions", rules=actions),
        viewer,
    ]
