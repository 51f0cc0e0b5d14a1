"""Kinds that change the server itself: webhook configurations and custom resource definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ome.local.apiserver import definitions
from ome.local.apiserver.errors import FieldError, duplicate, invalid_value, not_supported, required, too_many
from ome.local.apiserver.kinds import checks, names
from ome.local.apiserver.kinds.strategy import Strategy

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


class WebhookConfiguration(Strategy):
    """MutatingWebhookConfiguration and ValidatingWebhookConfiguration."""

    def set_defaults(self, obj: dict[str, Any]) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self.kind.startswith("Mutating"):
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = hook["clientConfig"].get("service")
            if service is not None:
                service.setdefault("port", 443)

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            name = hook.get("name", "")
            errors += _name_errors(name, f"{path}.name")
            errors += _hook_errors(hook, path, mutating=self.kind.startswith("Mutating"))
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors


def _name_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    errors = [invalid_value(path, name, text) for text in names.subdomain(name)]
    if name.count(".") < 2:
        errors.append(invalid_value(path, name, "should be a domain with at least three segments separated by dots"))
    return errors


def _hook_errors(hook: Mapping[str, Any], path: str, *, mutating: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += _rule_errors(rule, f"{path}.rules[{index}]")
    errors += checks.one_of(hook.get("failurePolicy"), f"{path}.failurePolicy", ("Fail", "Ignore"))
    errors += checks.one_of(hook.get("matchPolicy"), f"{path}.matchPolicy", ("Equivalent", "Exact"))
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in ("None", "NoneOnDryRun"):
        errors.append(not_supported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun")))
    timeout = hook.get("timeoutSeconds", 10)
    if not 1 <= timeout <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid_value(f"{path}.timeoutSeconds", timeout, text))
    errors += checks.label_selector(hook.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += checks.label_selector(hook.get("objectSelector"), f"{path}.objectSelector")
    if mutating and hook.get("reinvocationPolicy") is not None:
        errors += checks.one_of(hook["reinvocationPolicy"], f"{path}.reinvocationPolicy", ("IfNeeded", "Never"))
    errors += _client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    errors += _condition_errors(hook.get("matchConditions") or [], f"{path}.matchConditions")
    return errors + _review_version_errors(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")


_MOST_CONDITIONS: Final = 64
_CONDITION_VARIABLES: Final = (("object", "dyn"), ("oldObject", "dyn"), ("request", "dyn"))


def _condition_errors(conditions: list[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = f"{path}[{index}]"
        expression, name = condition.get("expression", "").strip(), condition.get("name", "")
        errors += _expression_errors(expression, f"{place}.expression")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid_value(f"{place}.name", name, text) for text in names.qualified(name)]
            if name in seen:
                errors.append(duplicate(f"{place}.name", name))
            seen.add(name)
    return errors


def _expression_errors(expression: str, path: str) -> list[FieldError]:
    if not expression:
        return [required(path)]
    from ome.local.apiserver import cel

    try:
        program = cel.compile(expression, _CONDITION_VARIABLES)
    except cel.CompileError as error:
        return [invalid_value(path, expression, f"compilation failed: {error}")]
    if program.result not in ("BOOL", "DYN"):
        return [invalid_value(path, expression, "must evaluate to bool")]
    return []


def _review_version_errors(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    if not {"v1", "v1beta1"} & set(versions):
        return [invalid_value(path, versions, "must include at least one of v1, v1beta1")]
    return []


def _rule_errors(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    elif len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        errors.append(invalid_value(f"{path}.operations", operations, text))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for field in ("apiGroups", "apiVersions", "resources"):
        listed = rule.get(field) or []
        if not listed:
            errors.append(required(f"{path}.{field}"))
        elif len(listed) > 1 and "*" in listed and field != "resources":
            text = (
                f"if '*' is present, must not specify other {'API groups' if field == 'apiGroups' else 'API versions'}"
            )
            errors.append(invalid_value(f"{path}.{field}", listed, text))
        if field == "apiVersions":
            errors += [required(f"{path}.apiVersions[{index}]") for index, one in enumerate(listed) if not one]
    scope = rule.get("scope")
    if scope is not None:
        errors += checks.one_of(scope, f"{path}.scope", ("*", "Cluster", "Namespaced"))
    return errors


def _client_errors(config: Mapping[str, Any], path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return _url_errors(url, f"{path}.url")
    service = service or {}
    errors: list[FieldError] = []
    if not service.get("name"):
        errors.append(required(f"{path}.service.name", "service name is required"))
    if not service.get("namespace"):
        errors.append(required(f"{path}.service.namespace", "service namespace is required"))
    if service.get("path") and not service["path"].startswith("/"):
        errors.append(invalid_value(f"{path}.service.path", service["path"], "must start with a '/'"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid_value(f"{path}.service.port", port, text))
    return errors


def _url_errors(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    scheme, found, rest = url.partition("://")
    if not found:
        return [required(path, "url must be a valid URL" + form)]
    errors: list[FieldError] = []
    if scheme != "https":
        errors.append(invalid_value(path, scheme, "'https' is the only allowed URL scheme" + form))
    if not rest.partition("/")[0]:
        errors.append(invalid_value(path, "", "host must be specified" + form))
    if "@" in rest.partition("/")[0]:
        errors.append(invalid_value(path, rest.partition("@")[0], "user information is not permitted in the URL"))
    if "#" in rest:
        errors.append(invalid_value(path, rest.partition("#")[2], "fragments are not permitted in the URL"))
    if "?" in rest:
        errors.append(invalid_value(path, rest.partition("?")[2], "query parameters are not permitted in the URL"))
    return errors


class CustomResourceDefinition(Strategy):
    """Its rules are in `ome.local.apiserver.definitions`."""

    status_fixed_metadata = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")

    def set_defaults(self, obj: dict[str, Any]) -> None:
        definitions.default(obj)

    def on_create(self, obj: dict[str, Any]) -> None:
        status: dict[str, Any] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        obj["status"] = definitions.with_stored_versions(obj, status)

    def on_update(self, obj: dict[str, Any], old: Mapping[str, Any], subresource: str) -> None:
        if subresource == "":
            obj["status"] = definitions.with_stored_versions(obj, obj.get("status") or {})

    def errors(self, obj: Mapping[str, Any]) -> list[FieldError]:
        return definitions.validate(obj)

    def update_errors(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        text = "must be specified for an update"
        unversioned = not obj["metadata"].get("resourceVersion")
        errors = [invalid_value("metadata.resourceVersion", 0, text)] if unversioned else []
        return errors + definitions.validate(obj, old)


__all__ = ["CustomResourceDefinition", "WebhookConfiguration"]
