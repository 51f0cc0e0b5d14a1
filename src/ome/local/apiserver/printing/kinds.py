"""The columns of the built-in kinds, pods apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from ome.local.apiserver.printing import network, pods, workloads
from ome.local.apiserver.printing.layouts import (
    AGE,
    CREATED_AT,
    META,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    Column,
    Layout,
    Object,
    column,
    count,
    labels_text,
    look,
    number,
    selector_text,
    short_duration,
    since,
    text,
)

_CORE: Final = "io.k8s.api.core.v1."
_APPS: Final = "io.k8s.api.apps.v1."
_BATCH: Final = "io.k8s.api.batch.v1."


def _node_status(obj: Object, now: datetime) -> str:
    ready = next((c for c in look(obj, "status.conditions") or () if c.get("type") == "Ready"), None)
    out = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if look(obj, "spec.unschedulable"):
        out.append("SchedulingDisabled")
    return ",".join(out)


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _node_roles(obj: Object, now: datetime) -> str:
    labels = look(obj, "metadata.labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX) and key != _ROLE_PREFIX}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        found = (a.get("address") for a in look(obj, "status.addresses") or () if a.get("type") == kind)
        return str(next(found, NONE))

    return cell


def _nodes() -> list[Column]:
    info = _CORE + "NodeSystemInfo#"
    return [
        NAME,
        column("Status", _node_status, "The status of the node"),
        column("Roles", _node_roles, "The roles of the node"),
        AGE,
        column("Version", text("status.nodeInfo.kubeletVersion"), info + "kubeletVersion"),
        column("Internal-IP", _node_address("InternalIP"), _CORE + "NodeStatus#addresses", wide=True),
        column("External-IP", _node_address("ExternalIP"), _CORE + "NodeStatus#addresses", wide=True),
        column("OS-Image", text("status.nodeInfo.osImage", UNKNOWN), info + "osImage", wide=True),
        column("Kernel-Version", text("status.nodeInfo.kernelVersion", UNKNOWN), info + "kernelVersion", wide=True),
        column(
            "Container-Runtime",
            text("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
            info + "containerRuntimeVersion",
            wide=True,
        ),
    ]


def _event_seen(obj: Object, now: datetime) -> str:
    last = obj.get("lastTimestamp") or look(obj, "series.lastObservedTime") or obj.get("eventTime")
    if obj.get("series") and look(obj, "series.lastObservedTime"):
        last = look(obj, "series.lastObservedTime")
    return since(last, now)


def _event_first(obj: Object, now: datetime) -> str:
    return since(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_object(obj: Object, now: datetime) -> str:
    about = obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(obj: Object, now: datetime) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or (obj.get("reportingInstance") if not source.get("component") else "")
    return f"{component}, {host}" if host else str(component)


def _event_count(obj: Object, now: datetime) -> int:
    return look(obj, "series.count") or obj.get("count") or 1


def _events() -> list[Column]:
    event = _CORE + "Event#"
    return [
        column("Last Seen", _event_seen, event + "lastTimestamp"),
        column("Type", text("type"), event + "type"),
        column("Reason", text("reason"), event + "reason"),
        column("Object", _event_object, event + "involvedObject"),
        column("Subobject", text("involvedObject.fieldPath"), _CORE + "ObjectReference#fieldPath", wide=True),
        column("Source", _event_source, event + "source", wide=True),
        column("Message", lambda obj, now: str(obj.get("message") or "").strip(), event + "message"),
        column("First Seen", _event_first, event + "firstTimestamp", wide=True),
        column("Count", _event_count, event + "count", wide=True),
        Column("Name", text("metadata.name"), META + "name", wide=True, format="name"),
    ]


def _volume_modes(path: str) -> Cell:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}

    def cell(obj: Object, now: datetime) -> str:
        modes = look(obj, path) or ()
        return ",".join(short[mode] for mode in short if mode in modes)

    return cell


def _phase(obj: Object, now: datetime) -> str:
    return "Terminating" if look(obj, "metadata.deletionTimestamp") else str(look(obj, "status.phase") or "")


def _claim_if_bound(cell: Cell) -> Cell:
    return lambda obj, now: cell(obj, now) if look(obj, "spec.volumeName") else ""


def _claims() -> list[Column]:
    spec, status = _CORE + "PersistentVolumeClaimSpec#", _CORE + "PersistentVolumeClaimStatus#"
    capacity, modes = text("status.capacity.storage"), _volume_modes("status.accessModes")
    return [
        NAME,
        column("Status", _phase, status + "phase"),
        column("Volume", text("spec.volumeName"), spec + "volumeName"),
        column("Capacity", _claim_if_bound(capacity), status + "capacity"),
        column("Access Modes", _claim_if_bound(modes), status + "accessModes"),
        column("StorageClass", text("spec.storageClassName"), "StorageClass of the pvc"),
        column(
            "VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET), "VolumeAttributesClass of the pvc"
        ),
        AGE,
        column("VolumeMode", text("spec.volumeMode", UNSET), spec + "volumeMode", wide=True),
    ]


def _volume_claim(obj: Object, now: datetime) -> str:
    claim = look(obj, "spec.claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _volumes() -> list[Column]:
    spec, status = _CORE + "PersistentVolumeSpec#", _CORE + "PersistentVolumeStatus#"
    return [
        NAME,
        column("Capacity", text("spec.capacity.storage"), spec + "capacity"),
        column("Access Modes", _volume_modes("spec.accessModes"), spec + "accessModes"),
        column("Reclaim Policy", text("spec.persistentVolumeReclaimPolicy"), spec + "persistentVolumeReclaimPolicy"),
        column("Status", _phase, status + "phase"),
        column("Claim", _volume_claim, spec + "claimRef"),
        column("StorageClass", text("spec.storageClassName"), "StorageClass of the pv"),
        column(
            "VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET), "VolumeAttributesClass of the pv"
        ),
        column("Reason", text("status.reason"), status + "reason"),
        AGE,
        column("VolumeMode", text("spec.volumeMode", UNSET), spec + "volumeMode", wide=True),
    ]


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)
        return ", ".join(str(s.get("name", "")) for s in found)

    return cell


def _bindings() -> list[Column]:
    return [
        NAME,
        column(
            "Role",
            lambda obj, now: f"{look(obj, 'roleRef.kind')}/{look(obj, 'roleRef.name')}",
            "io.k8s.api.rbac.v1.RoleBinding#roleRef",
        ),
        AGE,
        column("Users", _subjects("User"), "Users in the roleBinding", wide=True),
        column("Groups", _subjects("Group"), "Groups in the roleBinding", wide=True),
        column("ServiceAccounts", _subjects("ServiceAccount"), "ServiceAccounts in the roleBinding", wide=True),
    ]


def _quota(kind: str, prefix: Callable[[str], bool]) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        hard, used = look(obj, "status.hard") or {}, look(obj, "status.used") or {}
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard) if prefix(name))

    return cell


def _quotas() -> list[Column]:
    return [
        NAME,
        column(
            "Request",
            _quota("request", lambda name: not name.startswith("limits.")),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        column(
            "Limit",
            _quota("limit", lambda name: name.startswith("limits.")),
            "Limits control the maximum amount of "
            "cpu/memory that a container may use independent of contention on the node.",
        ),
        AGE,
    ]


def _owner(obj: Object, now: datetime) -> str:
    controller = next((r for r in look(obj, "metadata.ownerReferences") or () if r.get("controller")), None)
    if controller is None:
        return NONE
    group, _, _ = str(controller.get("apiVersion", "")).rpartition("/")
    kind = str(controller.get("kind", "")).lower()
    return f"{kind}{'.' + group if group else ''}/{controller.get('name')}"


def _definition_versions(obj: Object, now: datetime) -> str:
    out = []
    for version in look(obj, "spec.versions") or ():
        marks = ["storage"] if version.get("storage") else []
        marks += [] if version.get("served") else ["unserved"]
        marks += ["deprecated"] if version.get("deprecated") else []
        out.append(version.get("name", "") + (f"({','.join(marks)})" if marks else ""))
    return ",".join(out)


def _definitions() -> list[Column]:
    spec = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec#"

    def established(obj: Object, now: datetime) -> str:
        found = (c.get("status") for c in look(obj, "status.conditions") or () if c.get("type") == "Established")
        return str(next(found, "Unknown"))

    return [
        NAME,
        column("Scope", text("spec.scope"), spec + "scope"),
        column("Versions", _definition_versions, spec + "versions"),
        CREATED_AT,
        column("Group", text("spec.group"), spec + "group", wide=True),
        column("Kind", text("spec.names.kind"), spec + "names", wide=True),
        column(
            "ShortNames", lambda obj, now: ",".join(look(obj, "spec.names.shortNames") or ()), spec + "names", wide=True
        ),
        column("Established", established, "Whether the definition is served.", wide=True),
    ]


def _yes(path: str) -> Cell:
    return lambda obj, now: bool(look(obj, path))


def _csr_condition(obj: Object, now: datetime) -> str:
    types = [c.get("type") for c in look(obj, "status.conditions") or ()]
    shown = [t for t in ("Approved", "Denied", "Failed") if t in types] or ["Pending"]
    return ",".join(shown + (["Issued"] if look(obj, "status.certificate") else []))


def _csr_duration(obj: Object, now: datetime) -> str:
    seconds = look(obj, "spec.expirationSeconds")
    return NONE if seconds is None else short_duration(timedelta(seconds=seconds).total_seconds())


def _webhooks(obj: Object, now: datetime) -> int:
    return len(obj.get("webhooks") or ())


_LAYOUTS: Final[Mapping[str, Callable[[], Iterable[Column]]]] = {
    "deployments.apps": workloads.deployments,
    "replicasets.apps": lambda: workloads.replica_sets(_APPS + "ReplicaSet"),
    "replicationcontrollers": lambda: workloads.replica_sets(_CORE + "ReplicationController"),
    "statefulsets.apps": workloads.stateful_sets,
    "daemonsets.apps": workloads.daemon_sets,
    "jobs.batch": workloads.jobs,
    "cronjobs.batch": workloads.cron_jobs,
    "services": network.services,
    "ingresses.networking.k8s.io": network.ingresses,
    "nodes": _nodes,
    "events": _events,
    "persistentvolumeclaims": _claims,
    "persistentvolumes": _volumes,
    "rolebindings.rbac.authorization.k8s.io": _bindings,
    "clusterrolebindings.rbac.authorization.k8s.io": _bindings,
    "poddisruptionbudgets.policy": workloads.budgets,
    "horizontalpodautoscalers.autoscaling": workloads.autoscalers,
    "resourcequotas": _quotas,
    "customresourcedefinitions.apiextensions.k8s.io": _definitions,
    "podtemplates": lambda: [
        NAME,
        *(column(c.name, c.cell, c.about) for c in workloads.templates("template")),
        column(
            "Pod Labels", lambda obj, now: labels_text(look(obj, "template.metadata.labels")), "Labels of the pods."
        ),
    ],
    "endpoints": lambda: [NAME, column("Endpoints", network.endpoints, _CORE + "Endpoints#subsets"), AGE],
    "endpointslices.discovery.k8s.io": lambda: [
        NAME,
        column("AddressType", text("addressType"), "io.k8s.api.discovery.v1.EndpointSlice#addressType"),
        column("Ports", network.slice_ports, "io.k8s.api.discovery.v1.EndpointSlice#ports"),
        column("Endpoints", network.slice_endpoints, "io.k8s.api.discovery.v1.EndpointSlice#endpoints"),
        AGE,
    ],
    "namespaces": lambda: [NAME, column("Status", text("status.phase"), "The status of the namespace"), AGE],
    "secrets": lambda: [
        NAME,
        column("Type", text("type"), _CORE + "Secret#type"),
        column("Data", count("data"), _CORE + "Secret#data"),
        AGE,
    ],
    "configmaps": lambda: [NAME, column("Data", count("data", "binaryData"), _CORE + "ConfigMap#data"), AGE],
    "serviceaccounts": lambda: [NAME, AGE],
    "leases.coordination.k8s.io": lambda: [
        NAME,
        column("Holder", text("spec.holderIdentity"), "io.k8s.api.coordination.v1.LeaseSpec#holderIdentity"),
        AGE,
    ],
    "controllerrevisions.apps": lambda: [
        NAME,
        column("Controller", _owner, "Controller of the object"),
        column("Revision", number("revision"), _APPS + "ControllerRevision#revision"),
        AGE,
    ],
    "networkpolicies.networking.k8s.io": lambda: [
        NAME,
        column(
            "Pod-Selector",
            lambda obj, now: selector_text(look(obj, "spec.podSelector")),
            "io.k8s.api.networking.v1.NetworkPolicySpec#podSelector",
        ),
        AGE,
    ],
    "ingressclasses.networking.k8s.io": lambda: [
        NAME,
        column("Controller", text("spec.controller"), "Controller that is responsible for handling this class"),
        column("Parameters", network.parameters, "A reference to a resource with additional parameters"),
        AGE,
    ],
    "storageclasses.storage.k8s.io": lambda: [
        Column("Name", _storage_class_name, META + "name", format="name"),
        column("Provisioner", text("provisioner"), "io.k8s.api.storage.v1.StorageClass#provisioner"),
        column("ReclaimPolicy", text("reclaimPolicy", "Delete"), "io.k8s.api.storage.v1.StorageClass#reclaimPolicy"),
        column(
            "VolumeBindingMode",
            text("volumeBindingMode", UNSET),
            "io.k8s.api.storage.v1.StorageClass#volumeBindingMode",
        ),
        column(
            "AllowVolumeExpansion",
            lambda obj, now: "true" if obj.get("allowVolumeExpansion") else "false",
            "io.k8s.api.storage.v1.StorageClass#allowVolumeExpansion",
        ),
        AGE,
    ],
    "priorityclasses.scheduling.k8s.io": lambda: [
        NAME,
        column("Value", number("value"), "io.k8s.api.scheduling.v1.PriorityClass#value"),
        column(
            "Global-Default",
            _yes("globalDefault"),
            "io.k8s.api.scheduling.v1.PriorityClass#globalDefault",
            type="boolean",
        ),
        AGE,
        column("PreemptionPolicy", text("preemptionPolicy"), "io.k8s.api.scheduling.v1.PriorityClass#preemptionPolicy"),
    ],
    "runtimeclasses.node.k8s.io": lambda: [
        NAME,
        column("Handler", text("handler"), "io.k8s.api.node.v1.RuntimeClass#handler"),
        AGE,
    ],
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": lambda: [
        NAME,
        column("Webhooks", _webhooks, "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    "validatingwebhookconfigurations.admissionregistration.k8s.io": lambda: [
        NAME,
        column("Webhooks", _webhooks, "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    "certificatesigningrequests.certificates.k8s.io": lambda: [
        NAME,
        AGE,
        column("SignerName", text("spec.signerName"), "The signer"),
        column("Requestor", text("spec.username"), "The requestor"),
        column("RequestedDuration", _csr_duration, "The requested duration"),
        column("Condition", _csr_condition, "The condition"),
    ],
    "scales.autoscaling": lambda: [
        NAME,
        column("Desired", number("spec.replicas"), "io.k8s.api.autoscaling.v1.ScaleSpec#replicas", type="integer"),
        column(
            "Available", number("status.replicas"), "io.k8s.api.autoscaling.v1.ScaleStatus#replicas", type="integer"
        ),
        AGE,
    ],
    "roles.rbac.authorization.k8s.io": lambda: [NAME, CREATED_AT],
    "clusterroles.rbac.authorization.k8s.io": lambda: [NAME, CREATED_AT],
}


def _storage_class_name(obj: Object, now: datetime) -> str:
    annotations = look(obj, "metadata.annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    name = str(look(obj, "metadata.name"))
    return f"{name} (default)" if default else name


@cache
def layout(storage: str) -> Layout:
    """The columns of a built-in resource, by its name in the store."""
    if storage == "pods":
        return pods.LAYOUT
    columns = _LAYOUTS.get(storage)
    return Layout(list(columns())) if columns is not None else Layout([NAME, CREATED_AT])
