"""Which resources the server serves: the built-in kinds as a table, and custom ones as definitions come and go.

Data only: what a kind's fields mean is `kinds/`, what its columns are is `columns.py`. Called by the router, discovery,
OpenAPI and the verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """`deployments/scale` and its like. group, version, kind: of its own body, where it differs from the parent's."""

    name: str
    verbs: tuple[str, ...] = STATUS_VERBS
    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """One served version of a custom resource. schema: its openAPIV3Schema. columns: additionalPrinterColumns."""

    name: str
    schema: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...] = ()
    scale: Mapping[str, str] | None = None
    has_status: bool = False
    selectable: tuple[str, ...] = ()
    deprecation: str = ""
    storage_schema: Mapping[str, Any] | None = None
    """The schema of the version in which objects are stored, where that is another one."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A served resource in one version.

    storage: the collection's name in the store, shared by all versions. storage_version: `group/version` of the bytes
    there. selectable: field selectors beyond metadata.name and metadata.namespace. custom: None for built-in kinds.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    storage: str = ""
    storage_api_version: str = ""
    list_kind: str = ""
    selectable: tuple[str, ...] = ()
    generation: bool = True
    custom: CustomVersion | None = None
    definition: str = ""
    terminating: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def gvk(self) -> tuple[str, str, str]:
        return self.group, self.version, self.kind

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def stored_as_served(self) -> bool:
        return self.storage_api_version == self.api_version


# Per line: version kind plural scope(N|C) short,names categories subresources(+scale ...) flags. `-` is nothing.
# Flags: nogen = no generation is kept; create = can only be created; nowatch, noupdate... are spelled as verbs=.
_TABLE: Final = """
v1 Binding bindings N - - - verbs=create
v1 ComponentStatus componentstatuses C cs - - verbs=get,list
v1 ConfigMap configmaps N cm - - nogen
v1 Endpoints endpoints N ep - - nogen
v1 Event events N ev - - nogen
v1 LimitRange limitranges N limits - -
v1 Namespace namespaces C ns - finalize=update,status nogen,verbs=create|delete|get|list|patch|update|watch
v1 Node nodes C no - proxy=connect,status nogen
v1 PersistentVolumeClaim persistentvolumeclaims N pvc - status nogen
v1 PersistentVolume persistentvolumes C pv - status nogen
v1 Pod pods N po all attach=create|get=PodAttachOptions,binding=create=Binding,\
ephemeralcontainers,eviction=create=Eviction@policy/v1,exec=create|get=PodExecOptions,log=get,\
portforward=create|get=PodPortForwardOptions,proxy=connect,resize,status
v1 PodTemplate podtemplates N - - -
v1 ReplicationController replicationcontrollers N rc all scale,status
v1 ResourceQuota resourcequotas N quota - status nogen
v1 Secret secrets N - - - nogen
v1 ServiceAccount serviceaccounts N sa - token=create=TokenRequest@authentication.k8s.io/v1 nogen
v1 Service services N svc all proxy=connect,status nogen
apps/v1 ControllerRevision controllerrevisions N - - - nogen
apps/v1 DaemonSet daemonsets N ds all status
apps/v1 Deployment deployments N deploy all scale,status
apps/v1 ReplicaSet replicasets N rs all scale,status
apps/v1 StatefulSet statefulsets N sts all scale,status
events.k8s.io/v1 Event events N ev - - nogen
authentication.k8s.io/v1 SelfSubjectReview selfsubjectreviews C - - - verbs=create
authentication.k8s.io/v1 TokenReview tokenreviews C - - - verbs=create
authorization.k8s.io/v1 LocalSubjectAccessReview localsubjectaccessreviews N - - - verbs=create
authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews C - - - verbs=create
authorization.k8s.io/v1 SelfSubjectRulesReview selfsubjectrulesreviews C - - - verbs=create
authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews C - - - verbs=create
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers N hpa all status nogen
autoscaling/v1 HorizontalPodAutoscaler horizontalpodautoscalers N hpa all status nogen
batch/v1 CronJob cronjobs N cj all status
batch/v1 Job jobs N - all status
certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests C csr - approval,status nogen
networking.k8s.io/v1 IngressClass ingressclasses C - - -
networking.k8s.io/v1 Ingress ingresses N ing - status
networking.k8s.io/v1 IPAddress ipaddresses C ip - - nogen
networking.k8s.io/v1 NetworkPolicy networkpolicies N netpol - -
networking.k8s.io/v1 ServiceCIDR servicecidrs C - - status nogen
policy/v1 PodDisruptionBudget poddisruptionbudgets N pdb - status
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings C - - - nogen
rbac.authorization.k8s.io/v1 ClusterRole clusterroles C - - - nogen
rbac.authorization.k8s.io/v1 RoleBinding rolebindings N - - - nogen
rbac.authorization.k8s.io/v1 Role roles N - - - nogen
storage.k8s.io/v1 CSIDriver csidrivers C - - - nogen
storage.k8s.io/v1 CSINode csinodes C - - - nogen
storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities N - - - nogen
storage.k8s.io/v1 StorageClass storageclasses C sc - - nogen
storage.k8s.io/v1 VolumeAttachment volumeattachments C - - status nogen
storage.k8s.io/v1 VolumeAttributesClass volumeattributesclasses C vac - - nogen
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations C - api-extensions -
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies C - api-extensions status
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings C - api-extensions -
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations C - api-extensions -
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions C crd,crds api-extensions status
scheduling.k8s.io/v1 PriorityClass priorityclasses C pc - -
coordination.k8s.io/v1 Lease leases N - - - nogen
node.k8s.io/v1 RuntimeClass runtimeclasses C - - - nogen
discovery.k8s.io/v1 EndpointSlice endpointslices N - - -
"""

_SINGULAR: Final[Mapping[str, str]] = {"endpoints": "endpoints"}

_SELECTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    "replicationcontrollers": ("status.replicas",),
    "replicasets.apps": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
}  # fmt: skip

_STORED_ELSEWHERE: Final[Mapping[tuple[str, str, str], tuple[str, str]]] = {
    ("events.k8s.io", "v1", "events"): ("events", "v1"),
    ("autoscaling", "v1", "horizontalpodautoscalers"): ("horizontalpodautoscalers.autoscaling", "autoscaling/v2"),
}

SCALE: Final = Subresource("scale", STATUS_VERBS, "autoscaling", "v1", "Scale")


def _subresource(text: str) -> Subresource:
    if text == "scale":
        return SCALE
    name, _, rest = text.partition("=")
    verbs, _, body = rest.partition("=")
    kind, _, api_version = body.partition("@")
    group, _, version = api_version.rpartition("/")
    return Subresource(name, tuple(verbs.split("|")) if verbs else STATUS_VERBS, group, version, kind)


def _row(line: str) -> ResourceType:
    api_version, kind, plural, scope, short, categories, subresources, *flags = line.split()
    group, _, version = api_version.rpartition("/")
    options = flags[0].split(",") if flags else []
    verbs = next((o.removeprefix("verbs=") for o in options if o.startswith("verbs=")), "")
    if verbs == "get":
        verbs = "get|list"
    qualified = f"{plural}.{group}" if group else plural
    storage, storage_version = _STORED_ELSEWHERE.get((group, version, plural), (qualified, api_version))
    subs = [_subresource(text) for text in subresources.split(",")] if subresources != "-" else []
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        singular=_SINGULAR.get(plural, kind.lower()),
        kind=kind,
        namespaced=scope == "N",
        verbs=tuple(verbs.split("|")) if verbs else ALL_VERBS,
        short_names=tuple(short.split(",")) if short != "-" else (),
        categories=tuple(categories.split(",")) if categories != "-" else (),
        subresources={sub.name: sub for sub in subs},
        storage=storage,
        storage_api_version=storage_version,
        list_kind=f"{kind}List",
        selectable=_SELECTABLE.get(storage, ()),
        generation="nogen" not in options,
    )


@cache
def builtin() -> tuple[ResourceType, ...]:
    """The built-in resources, in the order in which discovery names their groups."""
    return tuple(_row(line) for line in _TABLE.strip().splitlines())


@dataclass(slots=True)
class GroupVersion:
    """The resources of one `group/version`, by plural."""

    group: str
    version: str
    types: dict[str, ResourceType] = field(default_factory=dict)


class Registry:
    """What is served right now. `changed` listeners hear of every change of the custom part."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], GroupVersion] = {}
        self._groups: dict[str, list[str]] = {}
        self._builtin_groups: set[str] = set()
        self._custom: dict[str, tuple[ResourceType, ...]] = {}
        self._listeners: list[Callable[[], None]] = []
        self.generation = 0
        for type_ in builtin():
            self._add(type_)
            self._builtin_groups.add(type_.group)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _add(self, type_: ResourceType) -> None:
        key = (type_.group, type_.version)
        if key not in self._versions:
            self._versions[key] = GroupVersion(*key)
            self._groups.setdefault(type_.group, []).append(type_.version)
        self._versions[key].types[type_.plural] = type_

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        found = self._versions.get((group, version))
        return found.types.get(plural) if found else None

    def by_kind(self, group: str, version: str, kind: str) -> ResourceType | None:
        found = self._versions.get((group, version))
        if found is None:
            return None
        return next((type_ for type_ in found.types.values() if type_.kind == kind), None)

    def by_storage(self, storage: str) -> ResourceType | None:
        """The resource as it is stored, e.g. of `deployments.apps`."""
        plural, _, group = storage.partition(".")
        for version in self._groups.get(group, ()):
            type_ = self._versions[group, version].types.get(plural)
            if type_ is not None and type_.stored_as_served:
                return type_
        return next((t for types in self._custom.values() for t in types if t.storage == storage), None)

    def is_builtin_group(self, group: str) -> bool:
        return group in self._builtin_groups

    def has_version(self, group: str, version: str) -> bool:
        return (group, version) in self._versions

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """(group, versions in order of preference), core left out; custom groups last, by name."""
        builtins = [group for group in self._groups if group and group in self._builtin_groups]
        custom = sorted(group for group in self._groups if group not in self._builtin_groups)
        for group in [*builtins, *custom]:
            yield group, self._groups[group]

    def types(self, group: str, version: str) -> list[ResourceType]:
        found = self._versions.get((group, version))
        return list(found.types.values()) if found else []

    def all_types(self) -> Iterator[ResourceType]:
        for version in self._versions.values():
            yield from version.types.values()

    def custom_types(self, definition: str) -> tuple[ResourceType, ...]:
        """The served versions of the custom resource that the named definition makes."""
        return self._custom.get(definition, ())

    def set_custom(self, definition: str, types: Iterable[ResourceType]) -> None:
        """Serve these types for the named definition, in place of what it had before; none to end it."""
        before = self._custom.pop(definition, ())
        now = tuple(types)
        if now:
            self._custom[definition] = now
        if before == now:
            return
        self._rebuild({type_.group for type_ in (*before, *now)})
        self.generation += 1
        for listener in self._listeners:
            listener()

    def _rebuild(self, groups: set[str]) -> None:
        for group in groups:
            if group in self._builtin_groups:
                continue
            for version in self._groups.pop(group, []):
                del self._versions[group, version]
            served = [t for types in self._custom.values() for t in types if t.group == group]
            for type_ in sorted(served, key=lambda t: (version_priority(t.version), t.plural)):
                self._add(type_)


def version_priority(version: str) -> tuple[int, int, int, str]:
    """A key that sorts versions as discovery does: v2, v1, v2beta1, v1beta2, v1alpha1, then others by name."""
    body = version[1:]
    for rank, stage in enumerate(("", "beta", "alpha")):
        major, found, minor = body.partition(stage) if stage else (body, "", "0")
        if stage and not found:
            continue
        if version.startswith("v") and major.isdigit() and (not stage or minor.isdigit()):
            return rank, -int(major), -int(minor or 0), version
    return 3, 0, 0, version
