"""Which webhooks a request concerns: rules, selectors and conditions of webhook configurations. Pure.

Called by `webhooks.py`, for one webhook of one configuration at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ome.local.apiserver.kinds.checks import selector_matches
from ome.local.apiserver.registry import ResourceType

Object = dict[str, Any]
_EXEMPT: Final = frozenset(
    {
        "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
    }
)  # fmt: skip


class Attributes(Protocol):
    """What the matching reads of a request (`ome.local.apiserver.admission.Attributes`)."""

    @property
    def operation(self) -> str: ...
    @property
    def type(self) -> ResourceType: ...
    @property
    def subresource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


def is_exempt(type_: ResourceType) -> bool:
    """Configurations of admission itself are never sent to webhooks, or a bad one could not be taken away."""
    return type_.group == "admissionregistration.k8s.io" and type_.plural in _EXEMPT


def matched_type(
    hook: Mapping[str, Any], attributes: Attributes, equivalents: Sequence[ResourceType]
) -> ResourceType | None:
    """The resource type under which a webhook's rules concern the request; None when they do not.

    Unless matchPolicy is Exact, a rule for another version of the same objects matches too; the object is then sent in
    that version.
    """
    for rule in hook.get("rules") or ():
        if _rule_matches(rule, attributes, attributes.type):
            return attributes.type
    if hook.get("matchPolicy", "Equivalent") == "Exact":
        return None
    for type_ in equivalents:
        if any(_rule_matches(rule, attributes, type_) for rule in hook.get("rules") or ()):
            return type_
    return None


def _rule_matches(rule: Mapping[str, Any], attributes: Attributes, type_: ResourceType) -> bool:
    scope = rule.get("scope", "*")
    namespaced = type_.namespaced
    if (scope == "Namespaced" and not namespaced) or (scope == "Cluster" and namespaced):
        return False
    return (
        _listed(rule.get("operations"), attributes.operation)
        and _listed(rule.get("apiGroups"), type_.group)
        and _listed(rule.get("apiVersions"), type_.version)
        and any(_resource_matches(text, type_.plural, attributes.subresource) for text in rule.get("resources") or ())
    )


def _listed(words: Sequence[str] | None, word: str) -> bool:
    return bool(words) and ("*" in words or word in words)  # type: ignore[operator]


def _resource_matches(text: str, resource: str, subresource: str) -> bool:
    wanted, slash, wanted_sub = text.partition("/")
    if wanted not in ("*", resource):
        return False
    return wanted_sub in ("*", subresource) if slash else subresource == ""


def namespace_matches(
    hook: Mapping[str, Any],
    attributes: Attributes,
    obj: Object | None,
    namespace_labels: Mapping[str, str],
    old: Object | None,
) -> bool:
    """Whether the namespace's labels are selected. A Namespace is judged by its own; other cluster objects always
    are."""
    selector = hook.get("namespaceSelector") or {}
    type_ = attributes.type
    if type_.group == "" and type_.plural == "namespaces" and attributes.subresource == "":
        meta = (obj or old or {}).get("metadata") or {}
        return selector_matches(selector, meta.get("labels") or {})
    if not type_.namespaced:
        return True
    return selector_matches(selector, namespace_labels)


def object_matches(hook: Mapping[str, Any], obj: Object | None, old: Object | None) -> bool:
    """Whether the new or the old object's labels are selected."""
    selector = hook.get("objectSelector") or {}
    if not selector:
        return True
    return any(
        selector_matches(selector, (one.get("metadata") or {}).get("labels") or {})
        for one in (obj, old)
        if one is not None
    )


class ConditionError(Exception):
    """A match condition that cannot be evaluated."""


def conditions_hold(hook: Mapping[str, Any], obj: Object | None, old: Object | None, request: Object) -> bool:
    """Whether all matchConditions are true. One that is false decides, even when others fail. Raises ConditionError."""
    conditions = hook.get("matchConditions") or ()
    if not conditions:
        return True
    from ome.local.apiserver import cel

    kinds = (("object", "dyn"), ("oldObject", "dyn"), ("request", "dyn"))
    variables = {"object": obj, "oldObject": old, "request": request}
    faults: list[str] = []
    for condition in conditions:
        try:
            if cel.compile(condition.get("expression", ""), kinds).evaluate(variables) is not True:
                return False
        except (cel.CompileError, cel.EvaluationError) as error:
            faults.append(f"expression '{condition.get('expression', '')}' resulted in error: {error}")
    if faults:
        raise ConditionError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True
