"""LimitRanges: what containers get by default, and how much a container, a pod or a claim may ask for."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.errors import aggregate
from ome.local.apiserver.kinds import quantities
from ome.local.apiserver.plugins import Step, is_new, refused

ANNOTATION: Final = "kubernetes.io/limit-ranger"


class Limits(Step):
    """Admission by the limit ranges of the namespace."""

    def _limits(self, namespace: str) -> list[Object]:
        out: list[Object] = []
        for record in self.core.store.collection("limitranges").all(namespace):
            out += (record.parse().get("spec") or {}).get("limits") or []
        return out

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if not is_new(attributes, "pods"):
            return
        limits = self._limits(attributes.namespace)
        if not limits:
            return
        request: Object = {}
        limit: Object = {}
        for item in limits:
            if item.get("type") == "Container":
                request.update(item.get("defaultRequest") or {})
                limit.update(item.get("default") or {})
        spec = obj.setdefault("spec", {})
        notes = _merge(spec.get("containers") or (), request, limit, "container")
        notes += _merge(spec.get("initContainers") or (), request, limit, "init container")
        if notes:
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)

    def validate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        errors: list[str] = []
        if is_new(attributes, "pods"):
            for item in self._limits(attributes.namespace):
                errors += _pod_errors(item, obj.get("spec") or {})
        elif is_new(attributes, "persistentvolumeclaims"):
            resources = (obj.get("spec") or {}).get("resources") or {}
            for item in self._limits(attributes.namespace):
                if item.get("type") == "PersistentVolumeClaim":
                    errors += _errors(item, resources.get("requests") or {}, {}, claim=True)
        if errors:
            raise refused(attributes, obj, aggregate(errors))


def _merge(containers: Iterable[Object], request: Object, limit: Object, word: str) -> list[str]:
    """Give containers the defaults they lack; a sentence for each kind of gift."""
    notes: list[str] = []
    for container in containers:
        resources = container.setdefault("resources", {})
        asked = [n for n in sorted(request) if n not in (resources.get("requests") or {})]
        capped = [n for n in sorted(limit) if n not in (resources.get("limits") or {})]
        if asked:
            resources["requests"] = {**(resources.get("requests") or {}), **{n: request[n] for n in asked}}
            notes.append(f"{', '.join(asked)} request for {word} {container['name']}")
        if capped:
            resources["limits"] = {**(resources.get("limits") or {}), **{n: limit[n] for n in capped}}
            notes.append(f"{', '.join(capped)} limit for {word} {container['name']}")
    return notes


def _pod_errors(item: Object, spec: Object) -> list[str]:
    containers = spec.get("containers") or ()
    if item.get("type") == "Container":
        out: list[str] = []
        for container in (*containers, *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            out += _errors(item, resources.get("requests") or {}, resources.get("limits") or {})
        return out
    if item.get("type") == "Pod":
        requests, caps = _sum(containers, "requests"), _sum(containers, "limits")
        return _errors(item, requests, caps)
    return []


def _sum(containers: Iterable[Object], field: str) -> dict[str, str]:
    total: dict[str, Decimal] = {}
    for container in containers:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            total[name] = total.get(name, Decimal(0)) + quantities.parse(value)
    return {name: quantities.canonical(str(value)) for name, value in total.items()}


def _errors(item: Object, requests: Object, caps: Object, *, claim: bool = False) -> list[str]:
    kind = str(item.get("type"))
    out: list[str] = []
    for name, least in sorted((item.get("min") or {}).items()):
        out += _minimum(kind, name, least, requests.get(name), caps.get(name), claim=claim)
    for name, most in sorted((item.get("max") or {}).items()):
        out += _maximum(kind, name, most, requests.get(name), caps.get(name), claim=claim)
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        out += _ratio(kind, name, ratio, requests.get(name), caps.get(name))
    return out


def _minimum(kind: str, name: str, least: Any, request: Any, cap: Any, *, claim: bool) -> list[str]:
    wanted = quantities.parse(least)
    if request is None:
        return [f"minimum {name} usage per {kind} is {least}.  No request is specified"]
    if quantities.parse(request) < wanted:
        return [f"minimum {name} usage per {kind} is {least}, but request is {request}"]
    if cap is not None and quantities.parse(cap) < wanted and not claim:
        return [f"minimum {name} usage per {kind} is {least}, but limit is {cap}"]
    return []


def _maximum(kind: str, name: str, most: Any, request: Any, cap: Any, *, claim: bool) -> list[str]:
    allowed = quantities.parse(most)
    if claim:
        if request is not None and quantities.parse(request) > allowed:
            return [f"maximum {name} usage per {kind} is {most}, but request is {request}"]
        return []
    if cap is None:
        return [f"maximum {name} usage per {kind} is {most}.  No limit is specified"]
    if quantities.parse(cap) > allowed:
        return [f"maximum {name} usage per {kind} is {most}, but limit is {cap}"]
    if request is not None and quantities.parse(request) > allowed:
        return [f"maximum {name} usage per {kind} is {most}, but request is {request}"]
    return []


def _ratio(kind: str, name: str, ratio: Any, request: Any, cap: Any) -> list[str]:
    allowed = quantities.parse(ratio)
    if request is None or not quantities.parse(request):
        return [f"{name} max limit to request ratio per {kind} is {ratio}, but no request is specified or request is 0"]
    if cap is None or not quantities.parse(cap):
        return [f"{name} max limit to request ratio per {kind} is {ratio}, but no limit is specified or limit is 0"]
    actual = quantities.parse(cap) / quantities.parse(request)
    if actual > allowed:
        return [f"{name} max limit to request ratio per {kind} is {ratio}, but provided ratio is {actual:.6f}"]
    return []
