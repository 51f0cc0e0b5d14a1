"""Roles and bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import FieldError, invalid_value, not_supported, required
from ome.local.apiserver.kinds import metadata, names
from ome.local.apiserver.kinds.strategy import Strategy
from ome.local.apiserver.schema import values

_GROUP: Final = "rbac.authorization.k8s.io"


class Role(Strategy):
    """Role and ClusterRole."""

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        rules = obj.get("rules") or ()
        for index, rule in enumerate(rules):
            errors += self._rule_errors(rule, f"rules[{index}]")
        return errors + [required(f"rules[{index}].verbs") for index, rule in enumerate(rules) if not rule.get("verbs")]

    def _rule_errors(self, rule: Mapping[str, Any], path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        if rule.get("nonResourceURLs"):
            if self.traits.namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            return errors
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
        return errors


class Binding(Strategy):
    """RoleBinding and ClusterRoleBinding."""

    def set_defaults(self, obj: dict[str, Any]) -> None:
        obj["roleRef"].setdefault("apiGroup", _GROUP)
        if not obj["roleRef"]["apiGroup"]:
            obj["roleRef"]["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", _GROUP)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        role = obj["roleRef"]
        errors: list[FieldError] = []
        if role.get("apiGroup") != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_GROUP,)))
        kinds = ("Role", "ClusterRole") if self.traits.namespaced else ("ClusterRole",)
        if role.get("kind") not in kinds:
            errors.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
        if not role.get("name"):
            errors.append(required("roleRef.name"))
        else:
            errors += [invalid_value("roleRef.name", role["name"], text) for text in names.path_segment(role["name"])]
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += self._subject_errors(subject, f"subjects[{index}]")
        return errors

    def _subject_errors(self, subject: Mapping[str, Any], path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
        if not subject.get("name"):
            errors.append(required(f"{path}.name"))
        if kind == "ServiceAccount":
            if subject.get("name"):
                errors += [
                    invalid_value(f"{path}.name", subject["name"], text) for text in names.subdomain(subject["name"])
                ]
            if group:
                errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
            if not self.traits.namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        elif kind in ("User", "Group"):
            if group != _GROUP:
                errors.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
        else:
            errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
        return errors

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        errors = self.errors(obj)
        if not values.equal(obj["roleRef"], old["roleRef"]):
            shown = {
                "APIGroup": obj["roleRef"].get("apiGroup", ""),
                "Kind": obj["roleRef"].get("kind", ""),
                "Name": obj["roleRef"].get("name", ""),
            }
            errors.append(invalid_value("roleRef", shown, metadata.IMMUTABLE))
        return errors
