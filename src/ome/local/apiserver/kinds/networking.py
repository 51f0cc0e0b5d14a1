"""Ingress, IngressClass and NetworkPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver.errors import FieldError, invalid_value, not_supported, required
from ome.local.apiserver.kinds import checks, names
from ome.local.apiserver.kinds.strategy import Strategy

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")


class Ingress(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        rules = spec.get("rules") or []
        if not rules and "defaultBackend" not in spec:
            text = "either `defaultBackend` or `rules` must be specified"
            errors.append(invalid_value("spec", None, text))
        if "defaultBackend" in spec:
            errors += _backend_errors(spec["defaultBackend"], "spec.defaultBackend")
        for index, rule in enumerate(rules):
            errors += _rule_errors(rule, f"spec.rules[{index}]")
        for index, tls in enumerate(spec.get("tls") or ()):
            for number, host in enumerate(tls.get("hosts") or ()):
                errors += _host_errors(host, f"spec.tls[{index}].hosts[{number}]")
        if spec.get("ingressClassName"):
            name = spec["ingressClassName"]
            errors += [invalid_value("spec.ingressClassName", name, text) for text in names.subdomain(name)]
        return errors


def _host_errors(host: str, path: str) -> list[FieldError]:
    check = names.wildcard_subdomain if host.startswith("*.") else names.subdomain
    return [invalid_value(path, host, text) for text in check(host)]


def _rule_errors(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = _host_errors(rule["host"], f"{path}.host") if rule.get("host") else []
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or []
    if not paths:
        errors.append(required(f"{path}.http.paths"))
    for index, item in enumerate(paths):
        errors += _path_errors(item, f"{path}.http.paths[{index}]")
    return errors


def _path_errors(item: Mapping[str, Any], path: str) -> list[FieldError]:
    kind = item.get("pathType")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    where = item.get("path", "")
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            errors.append(invalid_value(f"{path}.path", where, "must be an absolute path"))
    elif kind == "ImplementationSpecific":
        if where and not where.startswith("/"):
            errors.append(invalid_value(f"{path}.path", where, "must be an absolute path"))
    else:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    return errors + _backend_errors(item.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: Mapping[str, Any], path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid_value(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return []
    if service is None:
        return [required(f"{path}.service.name")] if not backend else []
    errors: list[FieldError] = []
    name = service.get("name", "")
    if not name:
        errors.append(required(f"{path}.service.name"))
    else:
        errors += [invalid_value(f"{path}.service.name", name, text) for text in names.label(name)]
    port = service.get("port") or {}
    named, number = port.get("name"), port.get("number")
    if named and number:
        errors.append(invalid_value(path, "", "cannot set both port name & port number"))
    elif named:
        errors += [invalid_value(f"{path}.service.port.name", named, text) for text in names.port_name(named)]
    elif number:
        errors += checks.port_number(number, f"{path}.service.port.number")
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


class IngressClass(Strategy):
    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        controller = obj["spec"].get("controller", "")
        if not controller:
            return [required("spec.controller")]
        return [invalid_value("spec.controller", controller, text) for text in names.qualified(controller)]

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return checks.immutable(obj["spec"], old["spec"], "controller", "spec.controller")


class NetworkPolicy(Strategy):
    def set_defaults(self, obj: dict[str, Any]) -> None:
        spec = obj["spec"]
        for direction in ("ingress", "egress"):
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.label_selector(spec.get("podSelector"), "spec.podSelector")
        allowed = {"Ingress", "Egress"}
        for index, kind in enumerate(spec.get("policyTypes") or ()):
            if kind not in allowed:
                errors.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress")))
        return errors
