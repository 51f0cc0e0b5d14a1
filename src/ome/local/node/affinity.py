"""Where a pod may go: node selectors, node affinity, affinity between pods, topology spread. Pure; for the scheduler.

Preferences (`preferredDuringScheduling...`) are not weighed; the spread rule is the required one only
(`DoNotSchedule`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ome.local.objects import Object, selects

Term = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that holds a place, with the labels of its node."""

    pod: Object
    node_labels: Mapping[str, str]


def node_matches(pod: Object, node: Object) -> bool:
    """Whether the pod's nodeSelector and required node affinity admit the node."""
    labels = node.metadata.labels
    selector = pod.spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return False
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Term, node: Object) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.name}
    return all(_expression(found, node.metadata.labels) for found in expressions) and all(
        _expression(found, named) for found in fields
    )


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression.get("key", ""), expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    have = labels.get(key)
    if operator == "In":
        return have is not None and have in values
    if operator == "NotIn":
        return have is None or have not in values
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None
    try:
        number, bound = int(have or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def _terms(pod: Object, kind: str) -> Sequence[Term]:
    rules = (pod.spec.get("affinity") or {}).get(kind) or {}
    found = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return list(found)


def _selects(term: Term, owner: Object, other: Object, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a term of `owner` speaks of the pod `other`."""
    selector = term.get("labelSelector")
    if selector is None or not selects(selector, other.metadata.labels):
        return False
    for key in term.get("matchLabelKeys") or ():
        if owner.metadata.labels.get(key) != other.metadata.labels.get(key):
            return False
    named = term.get("namespaces") or ()
    by_label = term.get("namespaceSelector")
    if not named and by_label is None:
        return other.namespace == owner.namespace
    if other.namespace in named:
        return True
    return by_label is not None and selects(by_label, namespaces.get(other.namespace, {}))


def _shares(topology_key: str, node: Object, placed: Placed) -> bool:
    value = node.metadata.labels.get(topology_key)
    return value is not None and placed.node_labels.get(topology_key) == value


def affinity_satisfied(
    pod: Object, node: Object, placed: Iterable[Placed], namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Required pod affinity: each term finds a pod in the node's domain, or nobody matches yet but the pod itself."""
    placed = list(placed)
    for term in _terms(pod, "podAffinity"):
        key = term.get("topologyKey", "")
        if key not in node.metadata.labels:
            return False
        targets = [found for found in placed if _selects(term, pod, found.pod, namespaces)]
        if not targets and _selects(term, pod, pod, namespaces):
            continue
        if not any(_shares(key, node, found) for found in targets):
            return False
    return True


def anti_affinity_satisfied(
    pod: Object, node: Object, placed: Iterable[Placed], namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """The pod's own required anti-affinity: no pod that a term selects is in the node's domain."""
    terms = _terms(pod, "podAntiAffinity")
    if not terms:
        return True
    return not any(
        _selects(term, pod, found.pod, namespaces) and _shares(term.get("topologyKey", ""), node, found)
        for found in placed
        for term in terms
    )


def tolerated_by_others(
    pod: Object, node: Object, placed: Iterable[Placed], namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """The required anti-affinity of the pods already placed does not speak against this one."""
    for found in placed:
        for term in _terms(found.pod, "podAntiAffinity"):
            if _selects(term, found.pod, pod, namespaces) and _shares(term.get("topologyKey", ""), node, found):
                return False
    return True


def spread_problem(pod: Object, node: Object, nodes: Sequence[Object], placed: Sequence[Placed]) -> str:
    """Why topology spread keeps the pod off the node, or an empty text."""
    for rule in pod.spec.get("topologySpreadConstraints") or ():
        if rule.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
            continue
        key = rule.get("topologyKey", "")
        value = node.metadata.labels.get(key)
        if value is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        domains = {
            found.metadata.labels[key]: 0
            for found in nodes
            if key in found.metadata.labels and node_matches(pod, found)
        }
        selector = _spread_selector(rule, pod)
        for held in placed:
            domain = held.node_labels.get(key)
            if domain in domains and held.pod.namespace == pod.namespace and not held.pod.metadata.deleting:
                domains[domain] += selects(selector, held.pod.metadata.labels)
        least = min(domains.values(), default=0)
        if len(domains) < int(rule.get("minDomains") or 1):
            least = 0
        own = 1 if selects(selector, pod.metadata.labels) else 0
        if domains.get(value, 0) + own - least > int(rule.get("maxSkew", 1)):
            return "node(s) didn't match pod topology spread constraints"
    return ""


def _spread_selector(rule: Mapping[str, Any], pod: Object) -> dict[str, Any]:
    selector = dict(rule.get("labelSelector") or {})
    keys = [key for key in rule.get("matchLabelKeys") or () if key in pod.metadata.labels]
    if keys:
        selector["matchLabels"] = {
            **(selector.get("matchLabels") or {}),
            **{key: pod.metadata.labels[key] for key in keys},
        }
    return selector
