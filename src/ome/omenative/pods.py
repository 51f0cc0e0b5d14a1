"""The body of a pod: a recorded revision with the Instance's identity laid over it (`spec/omenative.md` section 3).
Pure.

Overlays (labels, env, gate, spread, names) never enter the revision hash.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ome.api.keys import POD_GROUP
from ome.api.names import headless_service
from ome.api.types.inference_replica import InferenceReplica, Runner

from . import names
from .actions import CreatePod
from .revisions import excluded_keys
from .strategy import desired, gang_of

_HOSTNAME = "kubernetes.io/hostname"


def render(
    replica: InferenceReplica, runners: tuple[Runner, ...], payload: Mapping[str, Any], action: CreatePod
) -> dict[str, Any]:
    """The pod that `action` asks for, from the recorded `payload` of its revision."""
    base = names.base_of(replica)
    worker = action.runner == names.WORKER
    spec = copy.deepcopy(dict(payload["workerPodSpec" if worker else "podSpec"]))
    spec["hostname"] = names.hostname(action.name)
    spec["subdomain"] = headless_service(names.service_of(replica), replica.spec.component)
    spec["readinessGates"] = _with_gate(spec.get("readinessGates") or [])
    environment = _environment(replica, runners, base, action)
    for container in spec.get("containers") or []:
        container["env"] = _overlaid(container.get("env") or [], environment)
    if worker:
        _near_leader(replica, spec, action)
    else:
        _spread(replica, spec)
    recorded = payload.get("podMeta") or {}
    labels = {**(recorded.get("labels") or {}), **_queue_labels(runners), **_labels(replica, action)}
    annotations = {
        **_inherited(replica, runners),
        **(recorded.get("annotations") or {}),
    }
    if action.operation:
        annotations[names.ANNOTATION_OPERATION] = action.operation
    metadata: dict[str, Any] = {
        "name": action.name,
        "namespace": replica.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(replica)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def owner_reference(replica: InferenceReplica) -> dict[str, Any]:
    """Pods are controlled by the InferenceReplica."""
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "name": replica.metadata.name,
        "uid": replica.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _labels(replica: InferenceReplica, action: CreatePod) -> dict[str, str]:
    labels = {
        **names.selector(replica),
        names.LABEL_INDEX: str(action.index),
        names.LABEL_INCARNATION: str(action.incarnation),
        names.LABEL_RUNNER: action.runner,
        names.LABEL_ORDINAL: str(action.ordinal),
        names.LABEL_HASH: names.digest_of(action.revision),
    }
    if action.group:
        labels[POD_GROUP] = action.group
    if replica.spec.pairing_protocol:
        labels[names.LABEL_PAIRING] = replica.spec.pairing_protocol
    return labels


def _queue_labels(runners: tuple[Runner, ...]) -> dict[str, str]:
    """Labels of the live template that are not hashed, yet belong on pods."""
    labels = _live_metadata(runners).get("labels") or {}
    return {key: value for key, value in labels.items() if key.startswith("kueue.x-k8s.io/")}


def _inherited(replica: InferenceReplica, runners: tuple[Runner, ...]) -> dict[str, str]:
    """Annotations inherited from the service: they mint no revision, and new pods carry them as they are now."""
    excluded = excluded_keys(replica)
    annotations = _live_metadata(runners).get("annotations") or {}
    return {key: value for key, value in annotations.items() if key in excluded}


def _live_metadata(runners: tuple[Runner, ...]) -> Mapping[str, Any]:
    first = next((runner for runner in runners if runner.name in (names.DEFAULT_RUNNER, names.LEADER)), None)
    return (first.template.get("metadata") or {}) if first is not None else {}


def _environment(
    replica: InferenceReplica, runners: tuple[Runner, ...], base: str, action: CreatePod
) -> list[dict[str, str]]:
    gang = gang_of(runners)
    workers = len(gang) - 1
    worker = action.runner == names.WORKER
    values = {
        "OME_INFERENCESERVICE_NAME": names.service_of(replica),
        "OME_COMPONENT": replica.spec.component,
        "OME_COMPONENT_REPLICAS": str(desired(replica)),
        "OME_INSTANCE_INDEX": str(action.index),
        "OME_RUNNER": action.runner,
        "OME_RUNNER_SIZE": str(workers) if worker else "1",
        "OME_RUNNER_INDEX": str(action.ordinal) if worker else "0",
        "OME_INSTANCE_SUBDOMAIN": f"{base}-{action.index}",
    }
    if gang:
        leader = names.pod_name(base, action.index, names.LEADER, 0)
        subdomain = headless_service(names.service_of(replica), replica.spec.component)
        values["OME_LEADER_ADDRESS"] = f"{names.hostname(leader)}.{subdomain}"
        values["OME_INSTANCE_POD_RANK"] = str(action.ordinal + 1) if worker else "0"
        values["OME_INSTANCE_POD_COUNT"] = str(len(gang))
    return [{"name": name, "value": value} for name, value in values.items()]


def _overlaid(own: list[dict[str, Any]], overlay: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Same-named entries are replaced; OME's come first, so that others may refer to them as `$(NAME)`."""
    replaced = {entry["name"] for entry in overlay}
    return [*overlay, *(entry for entry in own if entry.get("name") not in replaced)]


def _with_gate(gates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if any(gate.get("conditionType") == names.GATE for gate in gates):
        return gates
    return [*gates, {"conditionType": names.GATE}]


def _near_leader(replica: InferenceReplica, spec: dict[str, Any], action: CreatePod) -> None:
    """A worker goes where its leader is, by the component's topology key; without one, anywhere."""
    key = replica.spec.topology_key
    if not key:
        return
    labels = {
        **names.selector(replica),
        names.LABEL_INDEX: str(action.index),
        names.LABEL_RUNNER: names.LEADER,
    }
    affinity = spec.setdefault("affinity", {}).setdefault("podAffinity", {})
    terms = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
    terms.append({"labelSelector": {"matchLabels": labels}, "topologyKey": key})


def _spread(replica: InferenceReplica, spec: dict[str, Any]) -> None:
    """One spread constraint, unless the template has one for the key already."""
    kind = replica.spec.topology_spread
    key = replica.spec.topology_spread_key or replica.spec.topology_key or _HOSTNAME
    if not kind:
        return
    constraints = spec.get("topologySpreadConstraints") or []
    if any(constraint.get("topologyKey") == key for constraint in constraints):
        return
    spec["topologySpreadConstraints"] = [
        *constraints,
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if kind == "Required" else "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector(replica)},
        },
    ]
