"""ResourceQuotas: what a namespace uses, kept in their status, and the refusal of what would exceed it.

Usage is counted from the stored objects, so it cannot drift. Admission is the last step before a commit; the status
follows every commit that matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.core import Core
from ome.local.apiserver.kinds import quantities
from ome.local.apiserver.plugins import Step, refused
from ome.local.apiserver.store import Event

QUOTAS: Final = "resourcequotas"
_COUNTED_BY_NAME: Final[Mapping[str, str]] = {
    "pods": "pods",
    "services": "services",
    "secrets": "secrets",
    "configmaps": "configmaps",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "replicationcontrollers": "replicationcontrollers",
    "resourcequotas": "resourcequotas",
}
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
Usage = dict[str, Decimal]


def _compute(spec: Object, field: str) -> Usage:
    """What a pod's containers ask for (or are capped at), init containers counted as the scheduler does."""
    total: Usage = defaultdict(Decimal)
    for container in spec.get("containers") or ():
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            total[name] += quantities.parse(value)
    for container in spec.get("initContainers") or ():
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            total[name] = max(total[name], quantities.parse(value))
    for name, value in (spec.get("overhead") or {}).items():
        total[name] += quantities.parse(value)
    return total


def usage_of(storage: str, obj: Object) -> Usage:
    """What one object counts for, by quota resource names."""
    out: Usage = {f"count/{storage}": Decimal(1)}
    spec = obj.get("spec") or {}
    if storage == "pods":
        if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return out
        out["pods"] = Decimal(1)
        for name, value in _compute(spec, "requests").items():
            out[f"requests.{name}"] = value
            if name in _COMPUTE:
                out[name] = value
        for name, value in _compute(spec, "limits").items():
            out[f"limits.{name}"] = value
    elif storage in _COUNTED_BY_NAME:
        out[storage] = Decimal(1)
    if storage == "services":
        kind = spec.get("type")
        if kind == "LoadBalancer":
            out["services.loadbalancers"] = Decimal(1)
        if kind in ("NodePort", "LoadBalancer"):
            out["services.nodeports"] = Decimal(len(spec.get("ports") or ()))
    if storage == "persistentvolumeclaims":
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if size is not None:
            out["requests.storage"] = quantities.parse(size)
        named = spec.get("storageClassName")
        if named:
            out[f"{named}.storageclass.storage.k8s.io/persistentvolumeclaims"] = Decimal(1)
            if size is not None:
                out[f"{named}.storageclass.storage.k8s.io/requests.storage"] = quantities.parse(size)
    return out


def _matches(quota: Object, storage: str, obj: Object) -> bool:
    """Whether an object is in the scopes of a quota."""
    spec = quota.get("spec") or {}
    scopes = list(spec.get("scopes") or ())
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not scopes and not expressions:
        return True
    if storage != "pods":
        return False
    if not all(_in_scope(scope, obj) for scope in scopes):
        return False
    return all(_in_expression(expression, obj) for expression in expressions)


def _in_scope(scope: str, pod: Object) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    terminating = spec.get("activeDeadlineSeconds") is not None
    best_effort = not _compute(spec, "requests") and not _compute(spec, "limits")
    if status.get("qosClass"):
        best_effort = status["qosClass"] == "BestEffort"
    outcomes = {
        "Terminating": terminating,
        "NotTerminating": not terminating,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "PriorityClass": bool(spec.get("priorityClassName")),
    }
    return outcomes.get(scope, False)


def _in_expression(expression: Object, pod: Object) -> bool:
    scope, operator = str(expression.get("scopeName")), expression.get("operator")
    if scope != "PriorityClass":
        return _in_scope(scope, pod)
    name, values = (pod.get("spec") or {}).get("priorityClassName") or "", expression.get("values") or ()
    outcomes = {
        "In": name in values,
        "NotIn": name not in values,
        "Exists": bool(name),
        "DoesNotExist": not name,
    }
    return outcomes.get(str(operator), False)


class Quotas(Step):
    """Admission by the quotas of the namespace, and their status."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        found = core.registry.find("", "v1", QUOTAS)
        if found is None:
            raise AssertionError("quotas are a built-in kind")
        self._type = found

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if attributes.subresource or not attributes.namespace or attributes.operation not in ("CREATE", "UPDATE"):
            return
        records = self.core.store.collection(QUOTAS).all(attributes.namespace)
        if not records or attributes.type.storage == QUOTAS:
            return
        storage = attributes.type.storage
        new = usage_of(storage, obj)
        before = usage_of(storage, old) if old is not None else {}
        for record in records:
            quota = record.parse()
            if _matches(quota, storage, obj):
                self._check(attributes, obj, quota, new, before)

    def _check(self, attributes: Attributes, obj: Object, quota: Object, new: Usage, before: Usage) -> None:
        name = quota["metadata"]["name"]
        hard = {key: quantities.parse(value) for key, value in ((quota.get("spec") or {}).get("hard") or {}).items()}
        if attributes.type.storage == "pods" and not before:
            self._demand_requests(attributes, obj, name, hard)
        more = {key: new[key] - before.get(key, Decimal(0)) for key in hard if key in new}
        more = {key: value for key, value in more.items() if value > 0}
        if not more:
            return
        used = self._used(attributes.namespace, quota, hard)
        over = sorted(key for key, value in more.items() if used[key] + value > hard[key])
        if not over:
            return
        asked, have, limit = (
            ",".join(f"{key}={_shown(key, values[key])}" for key in over) for values in (more, used, hard)
        )
        raise refused(attributes, obj, f"exceeded quota: {name}, requested: {asked}, used: {have}, limited: {limit}")

    def _demand_requests(self, attributes: Attributes, obj: Object, name: str, hard: Mapping[str, Decimal]) -> None:
        """A quota on compute wants every container to say what it needs."""
        wanted = [key for key in hard if key.removeprefix("requests.").removeprefix("limits.") in _COMPUTE]
        missing: dict[str, list[str]] = {}
        spec = obj.get("spec") or {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            for key in wanted:
                field = "limits" if key.startswith("limits.") else "requests"
                short = key.removeprefix("requests.").removeprefix("limits.")
                if short not in (resources.get(field) or {}):
                    missing.setdefault(str(container.get("name")), []).append(key)
        if missing:
            by_resources: dict[tuple[str, ...], list[str]] = {}
            for container_name, keys in missing.items():
                by_resources.setdefault(tuple(sorted(keys)), []).append(container_name)
            texts = [f"{','.join(keys)} for: {','.join(names)}" for keys, names in by_resources.items()]
            raise refused(attributes, obj, f"failed quota: {name}: must specify {'; '.join(texts)}")

    def _used(self, namespace: str, quota: Object, hard: Iterable[str]) -> Usage:
        out: Usage = {key: Decimal(0) for key in hard}
        for storage in _storages(out):
            for record in self.core.store.collection(storage).all(namespace):
                obj = record.parse()
                if not _matches(quota, storage, obj):
                    continue
                for key, value in usage_of(storage, obj).items():
                    if key in out:
                        out[key] += value
        return out

    # -- status

    def hear(self, resource: str, event: Event) -> None:
        """After a commit: bring the status of the namespace's quotas up to date."""
        namespace = event.record.namespace
        if not namespace:
            return
        for record in self.core.store.collection(QUOTAS).all(namespace):
            quota = record.parse()
            hard = (quota.get("spec") or {}).get("hard") or {}
            if resource != QUOTAS and resource not in _storages(hard):
                continue
            used = self._used(namespace, quota, hard)
            status = {
                "hard": dict(sorted(hard.items())),
                "used": {key: _shown(key, value) for key, value in sorted(used.items())},
            }
            if hard and quota.get("status") != status:
                quota["status"] = status
                self.core.update(self._type, quota, record)


def _storages(names: Iterable[str]) -> set[str]:
    """The resources whose objects count for quota names."""
    out: set[str] = set()
    for name in names:
        if name.startswith("count/"):
            out.add(name.removeprefix("count/"))
        elif name.startswith("services"):
            out.add("services")
        elif "storageclass.storage.k8s.io" in name or name in ("persistentvolumeclaims", "requests.storage"):
            out.add("persistentvolumeclaims")
        elif name in _COUNTED_BY_NAME:
            out.add(_COUNTED_BY_NAME[name])
        else:
            out.add("pods")
    return out


def _shown(name: str, value: Decimal) -> str:
    """A value as a quantity: of memory and storage in powers of two where it is one, as people write them."""
    binary = name.endswith(("memory", "storage"))
    if binary and value and value % 1024 == 0:
        return quantities.canonical(f"{value / 1024:f}Ki")
    return quantities.canonical(format(value, "f"))
