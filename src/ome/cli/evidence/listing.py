"""`kubectl ome get`: which columns each kind shows, from raw objects (spec/cli-status-get-logs.md section 2). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ome.cli.evidence import objects, rows
from ome.cli.evidence.objects import condition, get, items, text
from ome.cli.output.report import parse_time
from ome.kube.resources import (
    ACCELERATOR_CLASSES,
    AUTOSCALER_POLICIES,
    BASE_MODELS,
    BENCHMARK_JOBS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    FINE_TUNED_WEIGHTS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    OME_GROUP,
    OME_VERSION,
    ROLLOUT_POLICIES,
    SERVING_RUNTIMES,
    Resource,
)

ACCELERATOR_QUOTAS = Resource(OME_GROUP, OME_VERSION, "acceleratorquotas", "AcceleratorQuota", namespaced=False)
WORKLOAD_CLUSTERS = Resource(OME_GROUP, OME_VERSION, "workloadclusters", "WorkloadCluster", namespaced=False)
TRAFFIC_MAPS = Resource(OME_GROUP, OME_VERSION, "trafficmaps", "TrafficMap")

MAX_FORMATS = 3

Object = Mapping[str, Any]
Cell = Callable[[Object], str]


class Column(NamedTuple):
    name: str
    cell: Cell
    wide: bool = False


class Kind(NamedTuple):
    """One RESOURCE word: what it lists, in order, and how a row looks. Two resources make a merged view with SCOPE."""

    name: str
    aliases: tuple[str, ...]
    resources: tuple[Resource, ...]
    columns: tuple[Column, ...]
    expand: Callable[[Object], Sequence[Object]] | None = None

    @property
    def merged(self) -> bool:
        return len(self.resources) > 1

    @property
    def namespaced(self) -> bool:
        return self.resources[0].namespaced


def _path(*path: str) -> Cell:
    return lambda obj: str(value) if (value := get(obj, *path)) not in (None, "") else "-"


def _count(*path: str) -> Cell:
    return lambda obj: str(objects.count(obj, *path))


def _status_of(kind: str) -> Cell:
    return lambda obj: text(condition(obj, kind), "status") or "Unknown"


def _reason_of(kind: str) -> Cell:
    return lambda obj: text(condition(obj, kind), "reason") or "-"


def _freshness(obj: Object) -> str:
    observed = objects.integer(obj, "status", "observedGeneration")
    if not observed:
        return "Unobserved"
    return "Current" if observed == objects.generation(obj) else "Stale"


def _lifecycle(obj: Object) -> Mapping[str, Any] | None:
    """The main condition of an InferenceReplica: a stalled rollout first, then Ready, then RolloutStalled."""
    stalled, ready = condition(obj, "RolloutStalled"), condition(obj, "Ready")
    if stalled is not None and stalled.get("status") == "True":
        return stalled
    return ready or stalled


def _lifecycle_text(obj: Object) -> str:
    found = _lifecycle(obj)
    return f"{text(found, 'type')}={text(found, 'status') or 'Unknown'}" if found is not None else "Unavailable"


def _lifecycle_freshness(obj: Object) -> str:
    found = _lifecycle(obj)
    if found is None:
        return "Unavailable"
    observed = objects.integer(found, "observedGeneration")
    if observed is None:
        return _freshness(obj)
    return "Current" if observed == objects.generation(obj) else "Stale"


def _formats(obj: Object) -> str:
    names = [text(entry, "modelFormat", "name") for entry in items(obj, "spec", "supportedModelFormats")]
    names = [name for name in names if name]
    shown = [*names[:MAX_FORMATS], *([f"+{len(names) - MAX_FORMATS}"] if len(names) > MAX_FORMATS else [])]
    return ",".join(shown) or "-"


def _progression(obj: Object) -> str:
    return next((key for key in ("canary", "blueGreen", "rollingUpdate") if get(obj, "spec", key) is not None), "-")


def _quota_rows(obj: Object) -> list[Object]:
    """A row for each budget: reported ones, and declared ones while the status is not current or has none."""
    reported: list[Object] = [
        dict(obj) | {"row": entry, "source": "Reported"} for entry in items(obj, "status", "budgets")
    ]
    declared = [dict(obj) | {"row": entry, "source": "Declared"} for entry in items(obj, "spec", "budgets")]
    if not reported or _freshness(obj) != "Current":
        reported += declared
    return reported or [dict(obj) | {"row": {}, "source": "Unavailable"}]


def _connection(obj: Object) -> str:
    source = objects.mapping(obj, "spec", "clusterSource")
    if "kubeConfig" in source:
        return "KubeConfig"
    return "ClusterProfile" if "clusterProfileRef" in source else "-"


def _reference(obj: Object) -> str:
    source = objects.mapping(obj, "spec", "clusterSource")
    secret = objects.mapping(source, "kubeConfig", "secretRef")
    parts = [text(secret, "namespace"), text(secret, "name")]
    return "/".join(part for part in parts if part) or text(source, "clusterProfileRef", "name") or "-"


def _entries(obj: Object) -> list[Any]:
    return items(obj, "spec", "entries")


def _weighted(obj: Object) -> str:
    return str(sum(objects.count(entry, "weight") > 0 for entry in _entries(obj)))


def _healthy(obj: Object) -> str:
    return str(sum(get(entry, "healthy") is True for entry in _entries(obj)))


_SERVICE = (
    Column("MODEL", _path("spec", "model", "name")),
    Column("RUNTIME", _path("spec", "runtime", "name")),
    Column("READY", _status_of("Ready")),
    Column("URL", _path("status", "url")),
)
_REPLICA = (
    Column("COMPONENT", _path("spec", "component")),
    Column("PARENT", _path("spec", "parentRef", "name")),
    Column("DESIRED", _count("spec", "replicas")),
    Column("CURRENT", _count("status", "replicas")),
    Column("READY", _count("status", "readyReplicas")),
    Column("LIFECYCLE", _lifecycle_text),
    Column("AVAILABLE", _count("status", "availableReplicas"), True),
    Column("REASON", lambda obj: text(_lifecycle(obj), "reason") or "-", True),
    Column("SERVING", _count("status", "servingReplicas"), True),
    Column("UPDATED", _count("status", "updatedReplicas"), True),
    Column("ENCODING", rows.encoding, True),
    Column("CURRENT-REVISION", _path("status", "currentRevision"), True),
    Column("UPDATE-REVISION", _path("status", "updateRevision"), True),
    Column("MIGRATIONS", lambda obj: str(len(items(obj, "status", "migrations"))), True),
    Column("PAUSED", lambda obj: str(get(obj, "spec", "paused") is True).lower(), True),
    Column("COORDINATION", _path("status", "coordinationGroupRef"), True),
    Column("LIFECYCLE-FRESHNESS", _lifecycle_freshness, True),
)
_MODEL = (
    Column("ARCH", _path("spec", "modelArchitecture")),
    Column("PARAMS", _path("spec", "modelParameterSize")),
    Column("FORMAT", _path("spec", "modelFormat", "name")),
    Column("STATE", _path("status", "state")),
)
_RUNTIME = (
    Column("DISABLED", lambda obj: str(get(obj, "spec", "disabled") is True).lower()),
    Column("FORMATS", _formats),
)
_QUOTA = (
    Column("ROLE", _path("spec", "role")),
    Column("PARENT", _path("spec", "parentRef", "name")),
    Column("RESOURCE", _path("row", "resourceName")),
    Column("FLAVOR", _path("row", "resourceFlavor")),
    Column("NOMINAL", _path("row", "nominal")),
    Column("ADMITTED", _path("row", "admitted")),
    Column("SOURCE", _path("source")),
    Column("STATUS-FRESHNESS", _freshness),
    Column("READY", _status_of("Ready")),
    Column("DEGRADED", _status_of("Degraded")),
    Column("BORROWED", _path("row", "borrowed"), True),
    Column("RESERVED", _path("row", "reserved"), True),
)
_ROLLOUT_POLICY = (
    Column("PROGRESSION", _progression),
    Column("READY", _status_of("Ready")),
    Column("DIGEST", _path("status", "portableDigest")),
    Column("REFS", _path("status", "attachedGroups")),
    Column("REASON", _reason_of("Ready"), True),
    Column("IN-USE", _status_of("InUse"), True),
    Column("STATUS-FRESHNESS", _freshness, True),
)
_AUTOSCALER_POLICY = (
    Column("CLASS", _path("spec", "class")),
    Column("READY", _status_of("Ready")),
    Column("ATTACHED", _path("status", "attachedComponents")),
    Column("DIGEST", _path("status", "portableDigest"), True),
    Column("REASON", _reason_of("Ready"), True),
    Column("IN-USE", _status_of("InUse"), True),
    Column("STATUS-FRESHNESS", _freshness, True),
)
_WORKLOAD_CLUSTER = (
    Column("CONNECTION", _connection),
    Column("REFERENCE", _reference),
    Column("KEY", _path("spec", "clusterSource", "kubeConfig", "key")),
    Column("READY", _status_of("Ready")),
    Column("GENERATION", _path("metadata", "generation")),
    Column("OBSERVED-GENERATION", lambda obj: str(get(condition(obj, "Ready"), "observedGeneration") or "-")),
    Column("REASON", _reason_of("Ready"), True),
)
_TRAFFIC_MAP = (
    Column("MODE", _path("spec", "mode")),
    Column("TARGETS", lambda obj: str(len(_entries(obj)))),
    Column("ROUTABLE", _status_of("Routable")),
    Column("PUBLISHED", _status_of("Published")),
    Column("SERVICE", _path("spec", "service"), True),
    Column("ACTIVE", _weighted, True),
    Column("HEALTHY", _healthy, True),
    Column("OVERRIDE", _status_of("OverrideActive"), True),
    Column("OVERRIDE-REASON", _reason_of("OverrideActive"), True),
    Column("REASON", _reason_of("Routable"), True),
)

KINDS = (
    Kind("inferenceservices", ("inferenceservice", "isvc", "isvcs"), (INFERENCE_SERVICES,), _SERVICE),
    Kind("inferencereplicas", ("inferencereplica", "ir"), (INFERENCE_REPLICAS,), _REPLICA),
    Kind("models", ("model",), (BASE_MODELS, CLUSTER_BASE_MODELS), _MODEL),
    Kind("basemodels", ("basemodel", "bm"), (BASE_MODELS,), _MODEL),
    Kind("clusterbasemodels", ("clusterbasemodel", "cbm"), (CLUSTER_BASE_MODELS,), _MODEL),
    Kind("runtimes", ("runtime",), (SERVING_RUNTIMES, CLUSTER_SERVING_RUNTIMES), _RUNTIME),
    Kind("servingruntimes", ("servingruntime", "srt"), (SERVING_RUNTIMES,), _RUNTIME),
    Kind("clusterservingruntimes", ("clusterservingruntime", "csrt"), (CLUSTER_SERVING_RUNTIMES,), _RUNTIME),
    Kind(
        "finetunedweights",
        ("finetunedweight", "ftw"),
        (FINE_TUNED_WEIGHTS,),
        (Column("TYPE", _path("spec", "modelType")), Column("BASEMODEL", _path("spec", "baseModelRef", "name"))),
    ),
    Kind(
        "acceleratorclasses",
        ("acceleratorclass", "ac"),
        (ACCELERATOR_CLASSES,),
        (Column("VENDOR", _path("spec", "vendor")), Column("FAMILY", _path("spec", "family"))),
    ),
    Kind("acceleratorquotas", ("acceleratorquota", "aq"), (ACCELERATOR_QUOTAS,), _QUOTA, _quota_rows),
    Kind("benchmarkjobs", ("benchmarkjob", "bj"), (BENCHMARK_JOBS,), (Column("STATE", _path("status", "state")),)),
    Kind("rolloutpolicies", ("rolloutpolicy", "rp"), (ROLLOUT_POLICIES,), _ROLLOUT_POLICY),
    Kind("autoscalerpolicies", ("autoscalerpolicy", "ap"), (AUTOSCALER_POLICIES,), _AUTOSCALER_POLICY),
    Kind("workloadclusters", ("workloadcluster", "wc"), (WORKLOAD_CLUSTERS,), _WORKLOAD_CLUSTER),
    Kind("trafficmaps", ("trafficmap", "tm", "tmap"), (TRAFFIC_MAPS,), _TRAFFIC_MAP),
)


def find_kind(word: str) -> Kind | None:
    """A RESOURCE word in any letter case."""
    lowered = word.lower()
    return next((kind for kind in KINDS if lowered == kind.name or lowered in kind.aliases), None)


def age(created: Any, now: datetime) -> str:
    """The time since creation as kubectl writes it: `12s`, `4m10s`, `3h`, `2d5h`, `40d`, `1y20d`; `-` when unknown."""
    moment = parse_time(created)
    if moment is None:
        return "-"
    seconds = int((now - moment).total_seconds())
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def table(
    kind: Kind, listed: Sequence[tuple[Resource, Object]], now: datetime, *, wide: bool, all_namespaces: bool
) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of what was listed, in its order."""
    columns = [column for column in kind.columns if wide or not column.wide]
    namespaces = all_namespaces and kind.namespaced
    header = [*(["NAMESPACE"] if namespaces else []), "NAME", *(["SCOPE"] if kind.merged else [])]
    header += [*(column.name for column in columns), "AGE"]
    lines = []
    for resource, obj in listed:
        for entry in kind.expand(obj) if kind.expand else [obj]:
            line = [objects.namespace(obj) or "-"] if namespaces else []
            line.append(objects.name(obj) or "-")
            if kind.merged:
                line.append("Namespaced" if resource.namespaced else "Cluster")
            line += [column.cell(entry) for column in columns]
            lines.append([*line, age(get(obj, "metadata", "creationTimestamp"), now)])
    return header, lines
