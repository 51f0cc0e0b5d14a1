"""What the API does with objects of each kind: decoding, defaults, generation, validation, immutability.

`strategy` for built-in kinds, `custom_strategy` for custom ones. Pure functions over plain dicts, called by the
server's write pipeline in the order that `kinds.strategy` tells.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from ome.local.apiserver.kinds import (
    access,
    core,
    hooks,
    names,
    networking,
    pods,
    scaling,
    services,
    storage,
    workloads,
)
from ome.local.apiserver.kinds.custom import CustomStrategy
from ome.local.apiserver.kinds.decode import DecodeError
from ome.local.apiserver.kinds.metadata import NameRule
from ome.local.apiserver.kinds.strategy import Strategy, Traits
from ome.local.apiserver.schema import Structural

_CORE: Final = ""
_RULES: Final[dict[tuple[str, str], type[Strategy]]] = {
    (_CORE, "Pod"): pods.Pod,
    (_CORE, "Service"): services.Service,
    (_CORE, "Endpoints"): services.Endpoints,
    (_CORE, "ConfigMap"): core.ConfigMap,
    (_CORE, "Secret"): core.Secret,
    (_CORE, "Namespace"): core.Namespace,
    (_CORE, "Node"): core.Node,
    (_CORE, "Event"): core.Event,
    (_CORE, "LimitRange"): core.LimitRange,
    (_CORE, "ResourceQuota"): core.ResourceQuota,
    (_CORE, "PersistentVolume"): storage.PersistentVolume,
    (_CORE, "PersistentVolumeClaim"): storage.PersistentVolumeClaim,
    ("events.k8s.io", "Event"): core.Event,
    ("apps", "Deployment"): workloads.Deployment,
    ("apps", "ReplicaSet"): workloads.ReplicaSet,
    ("apps", "StatefulSet"): workloads.StatefulSet,
    ("apps", "DaemonSet"): workloads.DaemonSet,
    ("apps", "ControllerRevision"): core.ControllerRevision,
    ("batch", "Job"): workloads.Job,
    ("batch", "CronJob"): workloads.CronJob,
    ("autoscaling", "HorizontalPodAutoscaler"): scaling.HorizontalPodAutoscaler,
    ("policy", "PodDisruptionBudget"): scaling.PodDisruptionBudget,
    ("coordination.k8s.io", "Lease"): core.Lease,
    ("discovery.k8s.io", "EndpointSlice"): services.EndpointSlice,
    ("networking.k8s.io", "Ingress"): networking.Ingress,
    ("networking.k8s.io", "IngressClass"): networking.IngressClass,
    ("networking.k8s.io", "NetworkPolicy"): networking.NetworkPolicy,
    ("rbac.authorization.k8s.io", "Role"): access.Role,
    ("rbac.authorization.k8s.io", "ClusterRole"): access.Role,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.Binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.Binding,
    ("scheduling.k8s.io", "PriorityClass"): core.PriorityClass,
    ("storage.k8s.io", "StorageClass"): storage.StorageClass,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): hooks.WebhookConfiguration,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): hooks.WebhookConfiguration,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): hooks.CustomResourceDefinition,
}
_CLUSTER_SCOPED: Final = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "ComponentStatus", "PriorityClass", "StorageClass", "CSIDriver",
        "CSINode", "VolumeAttachment", "VolumeAttributesClass", "ClusterRole", "ClusterRoleBinding", "IngressClass",
        "IPAddress", "ServiceCIDR", "RuntimeClass", "CertificateSigningRequest", "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "CustomResourceDefinition", "APIService",
        "ClusterTrustBundle", "SelfSubjectReview", "TokenReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview",
        "SubjectAccessReview",
    }
)  # fmt: skip
_WITH_GENERATION: Final = frozenset(
    {
        "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob",
        "HorizontalPodAutoscaler", "PodDisruptionBudget", "EndpointSlice", "Ingress", "IngressClass", "NetworkPolicy",
        "PriorityClass", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "CustomResourceDefinition", "APIService", "PodTemplate",
    }
)  # fmt: skip
_WITHOUT_STATUS: Final = frozenset({"NetworkPolicy", "IngressClass", "EndpointSlice", "PriorityClass", "TokenReview"})
_PATH_NAMES: Final = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})
_LABEL_NAMES: Final = frozenset({"Namespace", "Service"})


def _name_rule(kind: str) -> NameRule:
    if kind in _PATH_NAMES:
        return names.path_segment
    return names.label if kind in _LABEL_NAMES else names.subdomain


@cache
def strategy(group: str, version: str, kind: str) -> Strategy:
    """The strategy of a built-in kind; kinds without rules of their own get the general one."""
    rules = _RULES.get((group, kind), Strategy)
    plain = rules(group, version, kind, Traits())
    has_status = "status" in plain.type.fields and not kind.endswith("Review") and kind not in _WITHOUT_STATUS
    traits = Traits(kind not in _CLUSTER_SCOPED, kind in _WITH_GENERATION, has_status, _name_rule(kind))
    return rules(group, version, kind, traits)


def custom_strategy(
    group: str, version: str, kind: str, schema: Structural, *, namespaced: bool, status: bool
) -> CustomStrategy:
    """The strategy of one version of a custom kind. status: whether it has the status subresource."""
    return CustomStrategy(group, version, kind, schema, namespaced=namespaced, status=status)


__all__ = ["CustomStrategy", "DecodeError", "Strategy", "Traits", "custom_strategy", "strategy"]
