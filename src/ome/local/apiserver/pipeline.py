"""The one place where the server calls the pure parts: kinds, schemas, patches, ownership.

Given a call and objects as fresh dicts, it answers with objects that are decoded, defaulted, prepared, owned and valid,
or raises the Problem that a real server would. Called by `writes.py`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from ome.local.apiserver import bodies, patches
from ome.local.apiserver.bodies import Body
from ome.local.apiserver.calls import Call
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import FieldError, Problem, bad_request, invalid, invalid_value
from ome.local.apiserver.kinds.strategy import Strategy, Traits
from ome.local.apiserver.registry import ResourceType

Object = dict[str, Any]

_OLD_VERSIONS: Final = frozenset(
    {
        "apps/v1beta1", "apps/v1beta2", "extensions/v1beta1", "batch/v1beta1", "autoscaling/v2beta1",
        "autoscaling/v2beta2", "policy/v1beta1", "rbac.authorization.k8s.io/v1beta1",
        "rbac.authorization.k8s.io/v1alpha1", "storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1",
        "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1", "coordination.k8s.io/v1beta1",
        "discovery.k8s.io/v1beta1", "events.k8s.io/v1beta1", "networking.k8s.io/v1beta1",
        "admissionregistration.k8s.io/v1beta1", "apiextensions.k8s.io/v1beta1", "node.k8s.io/v1beta1",
    }
)  # fmt: skip


class Pipeline:
    """Decoding, patching, ownership and validation of objects, by kind."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._strategies: dict[int, tuple[ResourceType, Strategy]] = {}
        core.registry.on_change(self._strategies.clear)

    def copy(self, obj: Object) -> Object:
        copied: Object = orjson.loads(orjson.dumps(obj))
        return copied

    # -- bodies

    def accept(self, call: Call, body: Body) -> Object:
        """The object of a create or replace: its kind checked, decoded, unknown fields warned of or refused."""
        obj = body.value
        self._check_kind(call, obj)
        decoded, unknown = self._decode(call.type, obj)
        faults = [f'unknown field "{path}"' for path in unknown] if not body.typed else []
        self._judge_fields(call, [*body.duplicates, *faults])
        return decoded

    def _decode(self, type_: ResourceType, obj: Object) -> tuple[Object, list[str]]:
        strategy = self.strategy(type_)
        decoded, unknown = strategy.decode(obj)
        decoded["kind"], decoded["apiVersion"] = type_.kind, type_.api_version
        if not isinstance(decoded.get("metadata"), dict):
            decoded["metadata"] = {}
        return decoded, unknown

    def _judge_fields(self, call: Call, faults: list[str]) -> None:
        if not faults or call.field_validation == "Ignore":
            return
        if not call.strict:
            call.warnings.extend(faults)
            return
        kind = call.type.kind
        text = ", ".join(faults)
        if call.type.custom is not None:
            raise bad_request(f"strict decoding error: {text}")
        raise bad_request(
            f'{kind} in version "{call.type.version}" cannot be handled as a {kind}: strict decoding error: {text}'
        )

    def _check_kind(self, call: Call, obj: Object) -> None:
        type_ = call.type
        kind, api_version = obj.get("kind"), obj.get("apiVersion")
        if type_.custom is not None:
            self._check_custom_kind(call, obj, kind, api_version)
            return
        for name, value in (("kind", kind), ("apiVersion", api_version)):
            if value is not None and not isinstance(value, str):
                reason = f"couldn't get version/kind; json parse error: json: cannot unmarshal into {name}"
                raise bad_request(f"the object provided is unrecognized (must be of type {type_.kind}): {reason}")
        kind, api_version = kind or type_.kind, api_version or type_.api_version
        if kind == type_.kind and api_version == type_.api_version:
            return
        group, _, version = api_version.rpartition("/")
        prefix = f'{kind} in version "{version}" cannot be handled as a {type_.kind}: '
        known = self._core.registry.by_kind(group, version, kind) is not None or (
            api_version == "v1" and kind in ("List", "Status", "DeleteOptions", "Scale")
        )
        if kind == type_.kind and (known or api_version in _OLD_VERSIONS):
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({type_.api_version})"
            )
        if known:
            internal = type_.group.partition(".")[0] or "core"
            raise bad_request(f"{prefix}converting ({version}.{kind}) to ({internal}.{type_.kind}): unknown conversion")
        raise bad_request(f'{prefix}no kind "{kind}" is registered for version "{api_version}"')

    def _check_custom_kind(self, call: Call, obj: Object, kind: Any, api_version: Any) -> None:
        type_ = call.type
        if not isinstance(kind, str) or not kind or not isinstance(api_version, str):
            raise bodies.missing_kind(call.request.body, type_.kind)
        if api_version != type_.api_version:
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({type_.api_version})"
            )
        if kind != type_.kind:
            metadata = obj.get("metadata")
            name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
            raise invalid(kind, type_.group, name, [invalid_value("kind", kind, f"must be {type_.kind}")])

    # -- patches

    def read_patch(self, call: Call, kind: str) -> Any:
        """The parsed body of a JSON, merge or strategic patch. Raises Problem 400."""
        data = call.request.body
        try:
            return bodies.parse_json(data)
        except ValueError as error:
            if kind == "application/strategic-merge-patch+json" or kind == "application/merge-patch+json":
                try:
                    value, _ = bodies.parse_yaml(data)
                except ValueError:
                    value = None
                if isinstance(value, dict):
                    return value
            raise bad_request(f"error decoding patch: {bodies.go_json_error(data, error)}") from error

    def patched(self, call: Call, kind: str, current: Object, patch: Any) -> Object:
        """The current object after a patch, decoded again."""
        type_ = call.type
        faults: list[str] = []
        if kind == "application/json-patch+json":
            faults = [f'json patch unknown field "{path}"' for path in patches.unknown_members(patch)]
            result = patches.json_patch(current, patch)
        elif kind == "application/merge-patch+json":
            result = patches.merge_patch(current, patch)
        else:
            result = patches.strategic_merge(current, patch, self.definition_name(type_))
        if not isinstance(result, dict):
            raise bad_request("Invalid JSON Patch")
        for name, value in (("kind", type_.kind), ("apiVersion", type_.api_version)):
            if result.get(name) != value:
                self._wrong_type_after_patch(call, result)
        decoded, unknown = self._decode(type_, self.copy(result))
        faults += [f'unknown field "{path}"' for path in unknown]
        if faults and call.field_validation != "Ignore":
            if call.strict:
                shown = (
                    patches.go_text(patch) if isinstance(patch, dict) else call.request.body.decode("utf-8", "replace")
                )
                error = invalid_value("patch", shown, f"strict decoding error: {', '.join(faults)}")
                raise Problem(422, "Invalid", f' "" is invalid: {error}', {"causes": [error.cause()]})
            call.warnings.extend(faults)
        return decoded

    def _wrong_type_after_patch(self, call: Call, obj: Object) -> None:
        """A patch that changed kind or apiVersion."""
        type_ = call.type
        if type_.custom is not None:
            self._check_custom_kind(call, obj, obj.get("kind"), obj.get("apiVersion"))
            return
        obj.setdefault("kind", type_.kind)
        self._check_kind(call, obj)

    def definition_name(self, type_: ResourceType) -> str:
        """The OpenAPI definition of a built-in kind."""
        from ome.local.apiserver.schema import types

        return types.kind_definitions()[type_.gvk]

    # -- ownership

    def own_created(self, call: Call, obj: Object) -> Object:
        return obj

    def own_updated(self, call: Call, old: Object, obj: Object) -> Object:
        return obj

    def read_applied(self, call: Call) -> Object:
        raise Problem(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})

    def applied(self, call: Call, current: Object | None, applied: Object, *, force: bool) -> Object:
        raise Problem(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})

    # -- kinds

    def strategy(self, type_: ResourceType) -> Strategy:
        """The rules of a resource in one version; a custom one's live as long as its definition stays as it is."""
        found = self._strategies.get(id(type_))
        if found is None:
            found = self._strategies[id(type_)] = (type_, _strategy(type_))
        return found[1]

    def default(self, call: Call, obj: Object) -> None:
        self.strategy(call.type).default(obj)

    def prepare_create(self, call: Call, obj: Object) -> None:
        self.strategy(call.type).prepare_create(obj)

    def prepare_update(self, call: Call, obj: Object, old: Object) -> None:
        subresource = call.subresource.name if call.subresource is not None else ""
        self.strategy(call.type).prepare_update(obj, old, subresource)

    def validate_create(self, call: Call, obj: Object) -> None:
        errors: list[FieldError] = self.strategy(call.type).validate_create(obj)
        if errors:
            raise invalid(call.type.kind, call.type.group, str(obj["metadata"].get("name") or ""), errors)

    def validate_update(self, call: Call, obj: Object, old: Object) -> None:
        subresource = call.subresource.name if call.subresource is not None else ""
        errors: list[FieldError] = self.strategy(call.type).validate_update(obj, old, subresource)
        if errors:
            raise invalid(call.type.kind, call.type.group, str(obj["metadata"].get("name") or ""), errors)


def _strategy(type_: ResourceType) -> Strategy:
    if type_.custom is not None:
        from ome.local.apiserver import schema
        from ome.local.apiserver.kinds.custom import CustomStrategy

        return CustomStrategy(
            type_.group,
            type_.version,
            type_.kind,
            schema.compile(type_.custom.schema),
            namespaced=type_.namespaced,
            status=type_.has_status,
        )
    from ome.local.apiserver import kinds

    known = getattr(kinds, "strategy", None)
    if callable(known):
        found: Strategy = known(type_.group, type_.version, type_.kind)
        return found
    return Strategy(
        type_.group, type_.version, type_.kind, Traits(type_.namespaced, type_.generation, type_.has_status)
    )
