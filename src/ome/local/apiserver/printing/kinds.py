"""The columns of the built-in kinds, pods apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from ome.local.apiserver.printing import pods
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
    age,
    count,
    labels_text,
    look,
    moment,
    number,
    selector_text,
    short_duration,
    since,
    text,
)

_CORE: Final = "io.k8s.api.core.v1."
_APPS: Final = "io.k8s.api.apps.v1."
_BATCH: Final = "io.k8s.api.batch.v1."


def _col(name: str, cell: Cell, about: str = "", *, wide: bool = False, type: str = "string") -> Column:
    return Column(name, cell, about, wide, type)


def _templates(path: str) -> list[Column]:
    def names(obj: Object, now: datetime) -> str:
        return ",".join(c.get("name", "") for c in look(obj, path + ".spec.containers") or ())

    def images(obj: Object, now: datetime) -> str:
        return ",".join(c.get("image", "") for c in look(obj, path + ".spec.containers") or ())

    return [
        _col("Containers", names, "Names of each container in the template.", wide=True),
        _col("Images", images, "Images referenced by each container in the template.", wide=True),
    ]


def _selector(path: str, about: str) -> Column:
    return _col("Selector", lambda obj, now: selector_text(look(obj, path)), about, wide=True)


def _plain_selector(path: str, about: str, *, wide: bool = True, name: str = "Selector") -> Column:
    return _col(name, lambda obj, now: labels_text(look(obj, path)), about, wide=wide)


def _ratio(done: str, wanted: str) -> Cell:
    return lambda obj, now: f"{look(obj, done) or 0}/{look(obj, wanted) or 0}"


def _deployments() -> list[Column]:
    spec, status = _APPS + "DeploymentSpec#", _APPS + "DeploymentStatus#"
    return [
        NAME,
        _col("Ready", _ratio("status.readyReplicas", "spec.replicas"), "Number of the pod with ready state"),
        _col("Up-to-date", number("status.updatedReplicas"), status + "updatedReplicas"),
        _col("Available", number("status.availableReplicas"), status + "availableReplicas"),
        AGE,
        *_templates("spec.template"),
        _selector("spec.selector", spec + "selector"),
    ]


def _replica_sets(definition: str) -> list[Column]:
    plain = definition == _CORE + "ReplicationController"
    selector = (
        _plain_selector("spec.selector", definition + "Spec#selector")
        if plain
        else _selector("spec.selector", definition + "Spec#selector")
    )
    return [
        NAME,
        _col("Desired", number("spec.replicas"), definition + "Spec#replicas", type="integer"),
        _col("Current", number("status.replicas"), definition + "Status#replicas", type="integer"),
        _col("Ready", number("status.readyReplicas"), definition + "Status#readyReplicas", type="integer"),
        AGE,
        *_templates("spec.template"),
        selector,
    ]


def _stateful_sets() -> list[Column]:
    ready = _ratio("status.readyReplicas", "spec.replicas")
    return [NAME, _col("Ready", ready, "Number of the pod with ready state"), AGE, *_templates("spec.template")]


def _daemon_sets() -> list[Column]:
    spec, status = _APPS + "DaemonSetSpec#", _APPS + "DaemonSetStatus#"

    def integer(name: str, field: str) -> Column:
        return _col(name, number(f"status.{field}"), status + field, type="integer")

    return [
        NAME,
        integer("Desired", "desiredNumberScheduled"),
        integer("Current", "currentNumberScheduled"),
        integer("Ready", "numberReady"),
        integer("Up-to-date", "updatedNumberScheduled"),
        integer("Available", "numberAvailable"),
        _plain_selector(
            "spec.template.spec.nodeSelector", _CORE + "PodSpec#nodeSelector", wide=False, name="Node Selector"
        ),
        AGE,
        *_templates("spec.template"),
        _selector("spec.selector", spec + "selector"),
    ]


def _job_status(obj: Object, now: datetime) -> str:
    true = {c.get("type") for c in look(obj, "status.conditions") or () if c.get("status") == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if look(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    if "FailureTarget" in true:
        return "FailureTarget"
    return "SuccessCriteriaMet" if "SuccessCriteriaMet" in true else "Running"


def _job_completions(obj: Object, now: datetime) -> str:
    done, wanted = look(obj, "status.succeeded") or 0, look(obj, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = look(obj, "spec.parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: datetime) -> str:
    start = moment(look(obj, "status.startTime"))
    if start is None:
        return ""
    end = moment(look(obj, "status.completionTime")) or now
    return short_duration((end - start).total_seconds())


def _jobs() -> list[Column]:
    return [
        NAME,
        _col("Status", _job_status, "Status of the job."),
        _col("Completions", _job_completions, _BATCH + "JobStatus#succeeded"),
        _col("Duration", _job_duration, "Time required to complete the job."),
        AGE,
        *_templates("spec.template"),
        _selector("spec.selector", _BATCH + "JobSpec#selector"),
    ]


def _cron_last(obj: Object, now: datetime) -> str:
    stamp = look(obj, "status.lastScheduleTime")
    return since(stamp, now) if stamp else NONE


def _cron_jobs() -> list[Column]:
    spec, status = _BATCH + "CronJobSpec#", _BATCH + "CronJobStatus#"
    return [
        NAME,
        _col("Schedule", text("spec.schedule"), spec + "schedule"),
        _col("Timezone", text("spec.timeZone", NONE), spec + "timeZone"),
        _col("Suspend", lambda obj, now: _capital(look(obj, "spec.suspend")), spec + "suspend", type="boolean"),
        _col("Active", count("status.active"), status + "active", type="integer"),
        _col("Last Schedule", _cron_last, status + "lastScheduleTime"),
        AGE,
        *_templates("spec.jobTemplate.spec.template"),
        _selector("spec.jobTemplate.spec.selector", _BATCH + "JobSpec#selector"),
    ]


def _capital(value: Any) -> str:
    return "True" if value else "False"


def _external(obj: Object, now: datetime) -> str:
    spec = obj.get("spec") or {}
    external = list(spec.get("externalIPs") or ())
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    if kind == "LoadBalancer":
        found = [entry.get("ip") or entry.get("hostname") for entry in look(obj, "status.loadBalancer.ingress") or ()]
        shown = [address for address in [*found, *external] if address]
        return ",".join(shown) if shown else "<pending>"
    return ",".join(external) or NONE


def _service_ports(obj: Object, now: datetime) -> str:
    out = []
    for port in look(obj, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        out.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(out) or NONE


def _cluster_address(obj: Object, now: datetime) -> str:
    addresses = look(obj, "spec.clusterIPs") or ()
    return str(addresses[0]) if addresses else NONE


def _services() -> list[Column]:
    spec = _CORE + "ServiceSpec#"
    return [
        NAME,
        _col("Type", text("spec.type"), spec + "type"),
        _col("Cluster-IP", _cluster_address, spec + "clusterIP"),
        _col("External-IP", _external, spec + "externalIPs"),
        _col("Port(s)", _service_ports, spec + "ports"),
        AGE,
        _plain_selector("spec.selector", spec + "selector"),
    ]


def _endpoints(obj: Object, now: datetime) -> str:
    shown: list[str] = []
    total = 0
    for subset in obj.get("subsets") or ():
        ports = subset.get("ports") or [{}]
        for port in ports:
            for address in subset.get("addresses") or ():
                total += 1
                if len(shown) < 3:
                    shown.append(f"{address.get('ip')}:{port['port']}" if port.get("port") else str(address.get("ip")))
    if not shown:
        return NONE
    joined = ",".join(shown)
    return f"{joined} + {total - len(shown)} more..." if total > len(shown) else joined


def _slice_ports(obj: Object, now: datetime) -> str:
    ports = obj.get("ports")
    if not ports:
        return UNSET
    return ",".join(_short([str(p.get("port")) if p.get("port") is not None else "*" for p in ports], 3))


def _slice_endpoints(obj: Object, now: datetime) -> str:
    addresses = [str(a) for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    return ",".join(_short(addresses, 3)) if addresses else UNSET


def _short(values: list[str], limit: int) -> list[str]:
    return (
        values
        if len(values) <= limit
        else [*values[: limit - 1], f"{values[limit - 1]} + {len(values) - limit} more..."]
    )


def _ingress_hosts(obj: Object, now: datetime) -> str:
    hosts = [rule.get("host") for rule in look(obj, "spec.rules") or () if rule.get("host")]
    if not hosts:
        return "*"
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")


def _ingress_addresses(obj: Object, now: datetime) -> str:
    found = [entry.get("ip") or entry.get("hostname") for entry in look(obj, "status.loadBalancer.ingress") or ()]
    return ",".join(address for address in found if address)


def _ingresses() -> list[Column]:
    spec = "io.k8s.api.networking.v1.IngressSpec#"
    return [
        NAME,
        _col(
            "Class",
            text("spec.ingressClassName", NONE),
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        _col("Hosts", _ingress_hosts, "Hosts that incoming requests are matched against before the ingress rule"),
        _col("Address", _ingress_addresses, "Address is a list containing ingress points for the load-balancer"),
        _col("Ports", lambda obj, now: "80, 443" if look(obj, "spec.tls") else "80", spec + "tls"),
        AGE,
    ]


def _parameters(obj: Object, now: datetime) -> str:
    reference = look(obj, "spec.parameters")
    if not reference:
        return NONE
    group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
    return f"{reference.get('kind')}{group}/{reference.get('name')}"


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
        _col("Status", _node_status, "The status of the node"),
        _col("Roles", _node_roles, "The roles of the node"),
        AGE,
        _col("Version", text("status.nodeInfo.kubeletVersion"), info + "kubeletVersion"),
        _col("Internal-IP", _node_address("InternalIP"), _CORE + "NodeStatus#addresses", wide=True),
        _col("External-IP", _node_address("ExternalIP"), _CORE + "NodeStatus#addresses", wide=True),
        _col("OS-Image", text("status.nodeInfo.osImage", UNKNOWN), info + "osImage", wide=True),
        _col("Kernel-Version", text("status.nodeInfo.kernelVersion", UNKNOWN), info + "kernelVersion", wide=True),
        _col(
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
        _col("Last Seen", _event_seen, event + "lastTimestamp"),
        _col("Type", text("type"), event + "type"),
        _col("Reason", text("reason"), event + "reason"),
        _col("Object", _event_object, event + "involvedObject"),
        _col("Subobject", text("involvedObject.fieldPath"), _CORE + "ObjectReference#fieldPath", wide=True),
        _col("Source", _event_source, event + "source", wide=True),
        _col("Message", lambda obj, now: str(obj.get("message") or "").strip(), event + "message"),
        _col("First Seen", _event_first, event + "firstTimestamp", wide=True),
        _col("Count", _event_count, event + "count", wide=True),
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
        _col("Status", _phase, status + "phase"),
        _col("Volume", text("spec.volumeName"), spec + "volumeName"),
        _col("Capacity", _claim_if_bound(capacity), status + "capacity"),
        _col("Access Modes", _claim_if_bound(modes), status + "accessModes"),
        _col("StorageClass", text("spec.storageClassName"), "StorageClass of the pvc"),
        _col(
            "VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET), "VolumeAttributesClass of the pvc"
        ),
        AGE,
        _col("VolumeMode", text("spec.volumeMode", UNSET), spec + "volumeMode", wide=True),
    ]


def _volume_claim(obj: Object, now: datetime) -> str:
    claim = look(obj, "spec.claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _volumes() -> list[Column]:
    spec, status = _CORE + "PersistentVolumeSpec#", _CORE + "PersistentVolumeStatus#"
    return [
        NAME,
        _col("Capacity", text("spec.capacity.storage"), spec + "capacity"),
        _col("Access Modes", _volume_modes("spec.accessModes"), spec + "accessModes"),
        _col("Reclaim Policy", text("spec.persistentVolumeReclaimPolicy"), spec + "persistentVolumeReclaimPolicy"),
        _col("Status", _phase, status + "phase"),
        _col("Claim", _volume_claim, spec + "claimRef"),
        _col("StorageClass", text("spec.storageClassName"), "StorageClass of the pv"),
        _col("VolumeAttributesClass", text("spec.volumeAttributesClassName", UNSET), "VolumeAttributesClass of the pv"),
        _col("Reason", text("status.reason"), status + "reason"),
        AGE,
        _col("VolumeMode", text("spec.volumeMode", UNSET), spec + "volumeMode", wide=True),
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
        _col(
            "Role",
            lambda obj, now: f"{look(obj, 'roleRef.kind')}/{look(obj, 'roleRef.name')}",
            "io.k8s.api.rbac.v1.RoleBinding#roleRef",
        ),
        AGE,
        _col("Users", _subjects("User"), "Users in the roleBinding", wide=True),
        _col("Groups", _subjects("Group"), "Groups in the roleBinding", wide=True),
        _col("ServiceAccounts", _subjects("ServiceAccount"), "ServiceAccounts in the roleBinding", wide=True),
    ]


def _budgets() -> list[Column]:
    spec = "io.k8s.api.policy.v1.PodDisruptionBudgetSpec#"
    return [
        NAME,
        _col("Min Available", text("spec.minAvailable", "N/A"), spec + "minAvailable"),
        _col("Max Unavailable", text("spec.maxUnavailable", "N/A"), spec + "maxUnavailable"),
        _col(
            "Allowed Disruptions",
            number("status.disruptionsAllowed"),
            "Calculated number of pods that may be disrupted at this time.",
            type="integer",
        ),
        AGE,
    ]


def _metric(spec: Object, status: Object | None) -> str:
    kind = spec.get("type")
    if kind in ("Resource", "ContainerResource"):
        key = "resource" if kind == "Resource" else "containerResource"
        source = spec.get(key) or {}
        target, current = source.get("target") or {}, look(status or {}, f"{key}.current") or {}
        name = source.get("name", "")
        if target.get("averageValue") is not None:
            return f"{name}: {current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        used = current.get("averageUtilization")
        wanted = target.get("averageUtilization")
        left = f"{used}%" if used is not None else UNKNOWN
        return f"{name}: {left}/{wanted}%" if wanted is not None else f"{name}: {left}/<auto>"
    key = str(kind or "")[:1].lower() + str(kind or "")[1:]
    target, current = look(spec, f"{key}.target") or {}, look(status or {}, f"{key}.current") or {}
    field = "averageValue" if target.get("averageValue") is not None else "value"
    suffix = " (avg)" if field == "averageValue" and kind != "Pods" else ""
    return f"{current.get(field, UNKNOWN)}/{target.get(field, UNKNOWN)}{suffix}"


def _autoscaler_metrics(obj: Object, now: datetime) -> str:
    specs = look(obj, "spec.metrics") or ()
    if not specs:
        return NONE
    statuses = list(look(obj, "status.currentMetrics") or ())
    shown = [_metric(spec, statuses[n] if n < len(statuses) else None) for n, spec in enumerate(specs)]
    return ", ".join(shown[:2]) + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "")


def _autoscalers() -> list[Column]:
    spec, status = (f"io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler{part}#" for part in ("Spec", "Status"))
    return [
        NAME,
        _col(
            "Reference",
            lambda obj, now: f"{look(obj, 'spec.scaleTargetRef.kind')}/{look(obj, 'spec.scaleTargetRef.name')}",
            spec + "scaleTargetRef",
        ),
        _col("Targets", _autoscaler_metrics, spec + "metrics"),
        _col("MinPods", text("spec.minReplicas", UNSET), spec + "minReplicas"),
        _col("MaxPods", number("spec.maxReplicas"), spec + "maxReplicas"),
        _col("Replicas", number("status.currentReplicas"), status + "currentReplicas"),
        AGE,
    ]


def _quota(kind: str, prefix: Callable[[str], bool]) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        hard, used = look(obj, "status.hard") or {}, look(obj, "status.used") or {}
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard) if prefix(name))

    return cell


def _quotas() -> list[Column]:
    return [
        NAME,
        _col(
            "Request",
            _quota("request", lambda name: not name.startswith("limits.")),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        _col(
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
        _col("Scope", text("spec.scope"), spec + "scope"),
        _col("Versions", _definition_versions, spec + "versions"),
        CREATED_AT,
        _col("Group", text("spec.group"), spec + "group", wide=True),
        _col("Kind", text("spec.names.kind"), spec + "names", wide=True),
        _col(
            "ShortNames", lambda obj, now: ",".join(look(obj, "spec.names.shortNames") or ()), spec + "names", wide=True
        ),
        _col("Established", established, "Whether the definition is served.", wide=True),
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
    "deployments.apps": _deployments,
    "replicasets.apps": lambda: _replica_sets(_APPS + "ReplicaSet"),
    "replicationcontrollers": lambda: _replica_sets(_CORE + "ReplicationController"),
    "statefulsets.apps": _stateful_sets,
    "daemonsets.apps": _daemon_sets,
    "jobs.batch": _jobs,
    "cronjobs.batch": _cron_jobs,
    "services": _services,
    "ingresses.networking.k8s.io": _ingresses,
    "nodes": _nodes,
    "events": _events,
    "persistentvolumeclaims": _claims,
    "persistentvolumes": _volumes,
    "rolebindings.rbac.authorization.k8s.io": _bindings,
    "clusterrolebindings.rbac.authorization.k8s.io": _bindings,
    "poddisruptionbudgets.policy": _budgets,
    "horizontalpodautoscalers.autoscaling": _autoscalers,
    "resourcequotas": _quotas,
    "customresourcedefinitions.apiextensions.k8s.io": _definitions,
    "podtemplates": lambda: [
        NAME,
        *(_col(c.name, c.cell, c.about) for c in _templates("template")),
        _col("Pod Labels", lambda obj, now: labels_text(look(obj, "template.metadata.labels")), "Labels of the pods."),
    ],
    "endpoints": lambda: [NAME, _col("Endpoints", _endpoints, _CORE + "Endpoints#subsets"), AGE],
    "endpointslices.discovery.k8s.io": lambda: [
        NAME,
        _col("AddressType", text("addressType"), "io.k8s.api.discovery.v1.EndpointSlice#addressType"),
        _col("Ports", _slice_ports, "io.k8s.api.discovery.v1.EndpointSlice#ports"),
        _col("Endpoints", _slice_endpoints, "io.k8s.api.discovery.v1.EndpointSlice#endpoints"),
        AGE,
    ],
    "namespaces": lambda: [NAME, _col("Status", text("status.phase"), "The status of the namespace"), AGE],
    "secrets": lambda: [
        NAME,
        _col("Type", text("type"), _CORE + "Secret#type"),
        _col("Data", count("data"), _CORE + "Secret#data"),
        AGE,
    ],
    "configmaps": lambda: [NAME, _col("Data", count("data", "binaryData"), _CORE + "ConfigMap#data"), AGE],
    "serviceaccounts": lambda: [NAME, AGE],
    "leases.coordination.k8s.io": lambda: [
        NAME,
        _col("Holder", text("spec.holderIdentity"), "io.k8s.api.coordination.v1.LeaseSpec#holderIdentity"),
        AGE,
    ],
    "controllerrevisions.apps": lambda: [
        NAME,
        _col("Controller", _owner, "Controller of the object"),
        _col("Revision", number("revision"), _APPS + "ControllerRevision#revision"),
        AGE,
    ],
    "networkpolicies.networking.k8s.io": lambda: [
        NAME,
        _col(
            "Pod-Selector",
            lambda obj, now: selector_text(look(obj, "spec.podSelector")),
            "io.k8s.api.networking.v1.NetworkPolicySpec#podSelector",
        ),
        AGE,
    ],
    "ingressclasses.networking.k8s.io": lambda: [
        NAME,
        _col("Controller", text("spec.controller"), "Controller that is responsible for handling this class"),
        _col("Parameters", _parameters, "A reference to a resource with additional parameters"),
        AGE,
    ],
    "storageclasses.storage.k8s.io": lambda: [
        Column("Name", _storage_class_name, META + "name", format="name"),
        _col("Provisioner", text("provisioner"), "io.k8s.api.storage.v1.StorageClass#provisioner"),
        _col("ReclaimPolicy", text("reclaimPolicy", "Delete"), "io.k8s.api.storage.v1.StorageClass#reclaimPolicy"),
        _col(
            "VolumeBindingMode",
            text("volumeBindingMode", UNSET),
            "io.k8s.api.storage.v1.StorageClass#volumeBindingMode",
        ),
        _col(
            "AllowVolumeExpansion",
            lambda obj, now: "true" if obj.get("allowVolumeExpansion") else "false",
            "io.k8s.api.storage.v1.StorageClass#allowVolumeExpansion",
        ),
        AGE,
    ],
    "priorityclasses.scheduling.k8s.io": lambda: [
        NAME,
        _col("Value", number("value"), "io.k8s.api.scheduling.v1.PriorityClass#value"),
        _col(
            "Global-Default",
            _yes("globalDefault"),
            "io.k8s.api.scheduling.v1.PriorityClass#globalDefault",
            type="boolean",
        ),
        AGE,
        _col("PreemptionPolicy", text("preemptionPolicy"), "io.k8s.api.scheduling.v1.PriorityClass#preemptionPolicy"),
    ],
    "runtimeclasses.node.k8s.io": lambda: [
        NAME,
        _col("Handler", text("handler"), "io.k8s.api.node.v1.RuntimeClass#handler"),
        AGE,
    ],
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": lambda: [
        NAME,
        _col("Webhooks", _webhooks, "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    "validatingwebhookconfigurations.admissionregistration.k8s.io": lambda: [
        NAME,
        _col("Webhooks", _webhooks, "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    "certificatesigningrequests.certificates.k8s.io": lambda: [
        NAME,
        AGE,
        _col("SignerName", text("spec.signerName"), "The signer"),
        _col("Requestor", text("spec.username"), "The requestor"),
        _col("RequestedDuration", _csr_duration, "The requested duration"),
        _col("Condition", _csr_condition, "The condition"),
    ],
    "scales.autoscaling": lambda: [
        NAME,
        _col("Desired", number("spec.replicas"), "io.k8s.api.autoscaling.v1.ScaleSpec#replicas", type="integer"),
        _col("Available", number("status.replicas"), "io.k8s.api.autoscaling.v1.ScaleStatus#replicas", type="integer"),
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


__all__ = ["age", "layout"]
