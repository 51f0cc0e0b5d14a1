"""What a pod or pod template is refused for, and what of a pod may change: a faithful part of the real rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from ome.local.apiserver.kinds import checks, metadata, names, quantities
from ome.local.apiserver.schema import values

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER_TEXT: Final = "must be an integer"


def template(value: Mapping[str, Any], path: str) -> list[FieldError]:
    """Faults of a pod template."""
    meta = value.get("metadata") or {}
    errors = metadata.label_errors(meta.get("labels") or {}, f"{path}.labels")
    errors += metadata.annotation_errors(meta.get("annotations") or {}, f"{path}.annotations")
    errors += spec(value.get("spec") or {}, f"{path}.spec")
    if value.get("spec", {}).get("ephemeralContainers"):
        errors.append(
            forbidden_field(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def spec(value: Mapping[str, Any], path: str) -> list[FieldError]:
    """Faults of a pod spec, in the order in which a real server finds them."""
    errors, volumes = _volumes(value.get("volumes") or (), f"{path}.volumes")
    containers = value.get("containers") or []
    if not containers:
        errors.append(required(f"{path}.containers"))
    seen: set[str] = set()
    errors += _containers(containers, f"{path}.containers", volumes, seen, init=False)
    errors += _containers(value.get("initContainers") or (), f"{path}.initContainers", volumes, seen, init=True)
    errors += checks.one_of(value.get("restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    errors += checks.one_of(value.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    errors += metadata.label_errors(value.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += _affinity(value.get("affinity") or {}, f"{path}.affinity")
    errors += _tolerations(value.get("tolerations") or (), f"{path}.tolerations")
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value.get(field):
            errors += [invalid_value(f"{path}.{field}", value[field], text) for text in names.subdomain(value[field])]
    for field in ("hostname", "subdomain"):
        if value.get(field):
            errors += [invalid_value(f"{path}.{field}", value[field], text) for text in names.label(value[field])]
    deadline = value.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        errors.append(
            invalid_value(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    errors += _gates(value, path)
    errors += _spread(value.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    return errors


def pod(obj: Mapping[str, Any]) -> list[FieldError]:
    """Faults of a pod beyond its metadata."""
    errors = spec(obj["spec"], "spec")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(obj["spec"].get(field) or ()):
            image = container.get("image", "")
            if image and image != image.strip():
                text = "must not have leading or trailing whitespace"
                errors.append(invalid_value(f"spec.{field}[{index}].image", image, text))
    return errors


def _gates(value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    gates = value.get("schedulingGates") or ()
    seen = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        place = f"{path}.schedulingGates[{index}]"
        errors += [invalid_value(place, name, text) for text in names.qualified(name)]
        if name in seen:
            errors.append(duplicate(place, name))
        seen.add(name)
    if gates and value.get("nodeName"):
        errors.append(forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    for index, gate in enumerate(value.get("readinessGates") or ()):
        place = f"{path}.readinessGates[{index}].conditionType"
        errors += [
            invalid_value(place, gate.get("conditionType", ""), text)
            for text in names.qualified(gate.get("conditionType", ""))
        ]
    return errors


_SOURCE_NAMES: Final = frozenset({"name"})


def _volumes(volumes: Iterable[Mapping[str, Any]], path: str) -> tuple[list[FieldError], dict[str, Mapping[str, Any]]]:
    errors: list[FieldError] = []
    known: dict[str, Mapping[str, Any]] = {}
    for index, volume in enumerate(volumes):
        place = f"{path}[{index}]"
        faults = _volume_sources(volume, place)
        name = volume.get("name", "")
        if not name:
            faults.append(required(f"{place}.name"))
        else:
            faults += [invalid_value(f"{place}.name", name, text) for text in names.label(name)]
        if name in known:
            faults.append(duplicate(f"{place}.name", name))
        known[name] = volume
        errors += faults
    return errors, known


def _volume_sources(volume: Mapping[str, Any], path: str) -> list[FieldError]:
    sources = [field for field in _SOURCE_ORDER if field in volume]
    sources += [field for field in volume if field not in _SOURCE_NAMES and field not in sources]
    errors: list[FieldError] = []
    for position, source in enumerate(sources):
        if position:
            errors.append(forbidden_field(f"{path}.{source}", "may not specify more than 1 volume type"))
            continue
        errors += _volume_source(source, volume[source], f"{path}.{source}")
    if not sources:
        errors.append(required(path, "must specify a volume type"))
    return errors


_SOURCE_ORDER: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "downwardAPI", "fc", "flexVolume",
    "configMap", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "storageos", "photonPersistentDisk",
    "portworxVolume", "scaleIO", "projected", "csi", "ephemeral", "image",
)  # fmt: skip
_NEEDED: Final = {
    "hostPath": "path",
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
}


def _volume_source(source: str, value: Mapping[str, Any], path: str) -> list[FieldError]:
    field = _NEEDED.get(source)
    errors: list[FieldError] = []
    if field is not None and not value.get(field):
        errors.append(required(f"{path}.{field}"))
    if source == "hostPath" and ".." in str(value.get("path", "")).split("/"):
        errors.append(invalid_value(f"{path}.path", value["path"], "must not contain '..'"))
    if source == "emptyDir" and "sizeLimit" in value and quantities.parse(value["sizeLimit"]) < 0:
        errors.append(forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))
    return errors


def _containers(
    containers: Iterable[Mapping[str, Any]],
    path: str,
    volumes: Mapping[str, Mapping[str, Any]],
    seen: set[str],
    *,
    init: bool,
) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        name = container.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.label(name)]
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen.add(name)
        if not container.get("image"):
            errors.append(required(f"{place}.image"))
        errors += _container(container, place, volumes, init=init)
    return errors


def _container(
    container: Mapping[str, Any], path: str, volumes: Mapping[str, Mapping[str, Any]], *, init: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    if container.get("terminationMessagePolicy") not in ("File", "FallbackToLogsOnError"):
        policy = container.get("terminationMessagePolicy", "")
        errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, ("FallbackToLogsOnError", "File")))
    errors += _ports(container.get("ports") or (), f"{path}.ports")
    errors += _env(container.get("env") or (), f"{path}.env")
    errors += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    if "imagePullPolicy" in container:
        errors += checks.one_of(container["imagePullPolicy"], f"{path}.imagePullPolicy", _PULL_POLICIES)
    errors += _resources(container.get("resources") or {}, f"{path}.resources")
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            if init and container.get("restartPolicy") != "Always":
                errors.append(forbidden_field(f"{path}.{field}", "must not be set for init containers"))
            else:
                errors += _probe(container[field], f"{path}.{field}", liveness=field != "readinessProbe")
    return errors


def _ports(ports: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.port_name(name)]
            if name in seen:
                errors.append(duplicate(f"{place}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            errors.append(required(f"{place}.containerPort"))
        else:
            errors += checks.port_number(number, f"{place}.containerPort")
        if port.get("hostPort"):
            errors += checks.port_number(port["hostPort"], f"{place}.hostPort")
        if not port.get("protocol"):
            errors.append(required(f"{place}.protocol"))
        else:
            errors += checks.one_of(port["protocol"], f"{place}.protocol", _PROTOCOLS)
    return errors


def _env(env: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(env):
        place = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.env_name(name)]
        source = variable.get("valueFrom")
        if source is None:
            continue
        errors += _env_source(source, f"{place}.valueFrom")
        if not source:
            text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            errors.append(invalid_value(f"{place}.valueFrom", "", text))
        elif variable.get("value"):
            errors.append(invalid_value(f"{place}.valueFrom", "", "may not be specified when `value` is not empty"))
        elif len(source) > 1:
            text = "may not have more than one field specified at a time"
            errors.append(invalid_value(f"{place}.valueFrom", "", text))
    return errors


_FIELD_PATHS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip


_OTHER_LABELS: Final = (
    "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "spec.hostNetwork",
    "status.phase",
)  # fmt: skip


def _env_source(source: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "fieldRef" in source:
        field = source["fieldRef"].get("fieldPath", "")
        subscript = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", field)
        if not field:
            errors.append(required(f"{path}.fieldRef.fieldPath"))
        elif subscript is None and field not in _FIELD_PATHS:
            if field in _OTHER_LABELS:
                errors.append(not_supported(f"{path}.fieldRef.fieldPath", field, sorted(_FIELD_PATHS)))
            else:
                text = f"error converting fieldPath: field label not supported: {field}"
                errors.append(invalid_value(f"{path}.fieldRef.fieldPath", field, text))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            place = f"{path}.{kind}"
            if not source[kind].get("name"):
                errors.append(required(f"{place}.name"))
            key = source[kind].get("key", "")
            if not key:
                errors.append(required(f"{place}.key"))
            else:
                errors += [invalid_value(f"{place}.key", key, text) for text in names.config_key(key)]
    return errors


def _mounts(
    mounts: Iterable[Mapping[str, Any]], path: str, volumes: Mapping[str, Mapping[str, Any]]
) -> list[FieldError]:
    errors: list[FieldError] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        place = f"{path}[{index}]"
        name = mount.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        elif name not in volumes:
            errors.append(not_found_value(f"{place}.name", name))
        where = mount.get("mountPath", "")
        if not where:
            errors.append(required(f"{place}.mountPath"))
        if where in places:
            errors.append(invalid_value(f"{place}.mountPath", where, "must be unique"))
        places.add(where)
        sub = mount.get("subPath", "")
        if sub.startswith("/"):
            errors.append(invalid_value(f"{place}.subPath", sub, "must be a relative path"))
        elif ".." in sub.split("/"):
            errors.append(invalid_value(f"{place}.subPath", sub, "must not contain '..'"))
        if sub and mount.get("subPathExpr"):
            errors.append(
                invalid_value(
                    f"{place}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
                )
            )
    return errors


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _needs_limit(name: str) -> bool:
    """Whether a resource cannot be overcommitted: extended resources and huge pages."""
    return _is_extended(name) or name.startswith("hugepages-")


def _resource_list(resources: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in resources.items():
        place = f"{path}[{name}]"
        errors += [invalid_value(place, name, text) for text in names.qualified(name)]
        if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
            text = "must be a standard resource for containers"
            errors.append(invalid_value(place, name, "must be a standard resource type or fully qualified"))
            errors.append(invalid_value(place, name, text))
        value = quantities.parse(amount)
        if value < 0:
            errors.append(invalid_value(place, amount, "must be greater than or equal to 0"))
        if (_is_extended(name) or name.startswith("hugepages-")) and value != value.to_integral_value():
            errors.append(invalid_value(place, amount, _INTEGER_TEXT))
    return errors


def _resources(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = _resource_list(limits, f"{path}.limits")
    errors += _resource_list(requests, f"{path}.requests")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if _needs_limit(name):
                text = "Limit must be set for non overcommitable resources"
                errors.append(required(f"{path}.limits", text))
            continue
        wanted, most = quantities.parse(amount), quantities.parse(limit)
        if _needs_limit(name) and wanted != most:
            errors.append(invalid_value(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
        elif wanted > most:
            text = f"must be less than or equal to {name} limit of {limit}"
            errors.append(invalid_value(f"{path}.requests", amount, text))
    return errors


def _probe(probe: Mapping[str, Any], path: str, *, liveness: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    handlers = [field for field in ("exec", "httpGet", "tcpSocket", "grpc") if field in probe]
    for position, handler in enumerate(handlers):
        if position:
            errors.append(forbidden_field(f"{path}.{handler}", "may not specify more than 1 handler type"))
    if not handlers:
        errors.append(required(path, "must specify a handler type"))
    elif handlers[0] in ("httpGet", "tcpSocket", "grpc"):
        port = probe[handlers[0]].get("port", 0)
        errors += checks.port_number_or_name(port, f"{path}.{handlers[0]}.port")
    elif not probe["exec"].get("command"):
        errors.append(required(f"{path}.exec.command"))
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        errors += checks.not_negative(probe.get(field), f"{path}.{field}")
    if liveness and probe.get("successThreshold", 1) != 1:
        errors.append(invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _tolerations(tolerations: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(tolerations):
        place = f"{path}[{index}]"
        key, operator = item.get("key", ""), item.get("operator", "")
        if key:
            errors += [invalid_value(f"{place}.key", key, text) for text in names.qualified(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid_value(f"{place}.operator", operator, text))
        if item.get("tolerationSeconds") is not None and item.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid_value(f"{place}.effect", item.get("effect", ""), text))
        if operator == "Exists" and item.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid_value(f"{place}.operator", item.get("value"), text))
        elif operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            errors.append(not_supported(f"{place}.operator", operator, ("Equal", "Exists")))
        if item.get("effect"):
            errors += checks.one_of(item["effect"], f"{place}.effect", _EFFECTS)
    return errors


def _affinity(affinity: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity") or {}
    wanted = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        terms = wanted.get("nodeSelectorTerms") or ()
        if not terms:
            errors.append(required(f"{place}.nodeSelectorTerms", "must have at least one node selector term"))
        for index, term in enumerate(terms):
            for number, expression in enumerate(term.get("matchExpressions") or ()):
                errors += _node_requirement(
                    expression, f"{place}.nodeSelectorTerms[{index}].matchExpressions[{number}]"
                )
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for index, term in enumerate(terms):
            place = f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
            if not term.get("topologyKey"):
                errors.append(required(f"{place}.topologyKey", "can not be empty"))
            errors += checks.label_selector(term.get("labelSelector"), f"{place}.labelSelector")
    return errors


def _node_requirement(term: Mapping[str, Any], path: str) -> list[FieldError]:
    operator, listed = term.get("operator", ""), term.get("values") or ()
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not listed:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if listed:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(listed) != 1:
            errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return errors + [
        invalid_value(f"{path}.key", term.get("key", ""), text) for text in names.qualified(term.get("key", ""))
    ]


def _spread(constraints: Iterable[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(constraints):
        place = f"{path}[{index}]"
        if item.get("maxSkew", 0) <= 0:
            errors.append(invalid_value(f"{place}.maxSkew", item.get("maxSkew", 0), "must be greater than zero"))
        if not item.get("topologyKey"):
            errors.append(required(f"{place}.topologyKey", "can not be empty"))
        errors += checks.one_of(
            item.get("whenUnsatisfiable", ""), f"{place}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")
        )
    return errors


_UPDATE_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def update(obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Faults of a change of a pod: its spec is fixed but for images, deadline and new tolerations."""
    after, before = obj["spec"], old["spec"]
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            text = "pod updates may not add or remove containers"
            errors.append(forbidden_field(f"spec.{field}", text))
    if errors:
        return errors
    errors += _image_errors(after)
    errors += _deadline_errors(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    gated = bool(before.get("schedulingGates"))
    errors += _gate_update(after, before)
    if errors:
        return errors
    expected = dict(before)
    for field in ("activeDeadlineSeconds", "schedulingGates"):
        _take(expected, after, field)
    for field in ("containers", "initContainers"):
        if field in before:
            pairs = zip(before[field], after[field], strict=True)
            expected[field] = [{**was, "image": now.get("image", "")} for was, now in pairs]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        expected["terminationGracePeriodSeconds"] = 1
    was, now = before.get("tolerations") or [], after.get("tolerations") or []
    if _only_adds(was, now):
        _take(expected, after, "tolerations")
    if gated and _only_narrows(before.get("nodeSelector") or {}, after.get("nodeSelector") or {}):
        _take(expected, after, "nodeSelector")
    if gated and not (before.get("affinity") or {}).get("nodeAffinity"):
        _take(expected, after, "affinity")
    if not values.equal(expected, dict(after)):
        errors.append(forbidden_field("spec", _UPDATE_TEXT))
    return errors


def _image_errors(after: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        for index, container in enumerate(after.get(field) or ()):
            image = container.get("image", "")
            place = f"spec.{field}[{index}].image"
            if not image:
                errors.append(required(place))
            elif image != image.strip():
                errors.append(invalid_value(place, image, "must not have leading or trailing whitespace"))
    return errors


def _take(target: dict[str, Any], source: Mapping[str, Any], field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def _deadline_errors(after: int | None, before: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is None:
            return []
        return [invalid_value(path, None, "must not update from a positive integer to nil value")]
    if not 1 <= after < 2**31:
        return [invalid_value(path, after, "must be between 1 and 2147483647, inclusive")]
    if before is not None and after > before:
        return [invalid_value(path, after, "must be less than or equal to previous value")]
    return []


def _gate_update(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(after.get("schedulingGates") or ())
        if gate.get("name") not in known
    ]


def _only_adds(before: list[Any], after: list[Any]) -> bool:
    """Whether every old toleration is still there (its seconds may have changed)."""
    keys = ("key", "operator", "value", "effect")
    present = {tuple(item.get(key) for key in keys) for item in after}
    return all(tuple(item.get(key) for key in keys) in present for item in before)


def _only_narrows(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return all(after.get(key) == value for key, value in before.items())
