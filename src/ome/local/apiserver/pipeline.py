"""The one place where the server calls the pure parts: kinds, schemas, patches, ownership.

Given a call and objects as fresh dicts, it answers with objects that are decoded, defaulted, prepared, owned and valid,
or raises the Problem that a real server would. Called by `writes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from ome.local.apiserver import bodies, kinds, ownership, patches, schema
from ome.local.apiserver.bodies import Body
from ome.local.apiserver.calls import Call
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import FieldError, Problem, bad_request, invalid, invalid_value
from ome.local.apiserver.kinds import Strategy
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.versions import to_served, to_stored

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


def typed(data: bytes, content_type: str | None, kind: str, definition: str) -> Object:
    """A body of a kind that is never stored (an Eviction, a Binding, ...), decoded by its definition.

    Its metadata is always there. Raises Problem 400 or 415.
    """
    body = bodies.decode(data, content_type, kind, check_duplicates=False).value
    named = {name: body[name] for name in ("kind", "apiVersion") if isinstance(body.get(name), str)}
    obj, _ = kinds.decode.decode(body, schema.types.builtin().get(definition), kind=kind, version="v1")
    obj.setdefault("metadata", {})
    return {**obj, **named}


class Pipeline:
    """Decoding, patching, ownership and validation of objects, by kind."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._strategies: dict[int, tuple[ResourceType, Strategy]] = {}
        self._zeros: dict[int, tuple[ResourceType, Object]] = {}
        self._storage_schemas: dict[int, tuple[ResourceType, schema.Structural]] = {}
        core.registry.on_change(self._strategies.clear)
        core.registry.on_change(self._storage_schemas.clear)
        core.registry.on_change(self._zeros.clear)

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

    def decoded(self, type_: ResourceType, obj: Object) -> Object:
        """An object that admission changed, read and defaulted again as its kind."""
        decoded, _ = self._decode(type_, obj)
        self.strategy(type_).default(decoded)
        return decoded

    def stored(self, type_: ResourceType, obj: Object) -> Object:
        """An object in its storage version; a custom one loses there what that version's schema does not know."""
        stored = to_stored(type_, obj)
        if type_.custom is None or type_.custom.storage_schema is None:
            return stored
        found = self._storage_schemas.get(id(type_))
        if found is None or found[0] is not type_:
            compiled = schema.compile(type_.custom.storage_schema)
            found = self._storage_schemas[id(type_)] = (type_, compiled)
        metadata = stored["metadata"]
        pruned, _ = found[1].prune(stored)
        found[1].default(pruned)
        return {**pruned, "metadata": metadata}

    def served(self, type_: ResourceType, stored: Object) -> Object:
        """A stored object as this version of its kind shows and keeps it."""
        obj = to_served(type_, stored)
        return obj if type_.custom is None or type_.stored_as_served else self.decoded(type_, obj)

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
            patch = bodies.parse_json(data)
            _check_shape(kind, patch)
            return patch
        except ValueError as error:
            if kind == "application/strategic-merge-patch+json" or kind == "application/merge-patch+json":
                try:
                    value, _ = bodies.parse_yaml(data)
                except ValueError:
                    value = None
                if isinstance(value, dict):
                    return value
            if kind == "application/json-patch+json":
                raise bad_request("invalid JSON patch") from error
            raise bad_request("invalid JSON patch") from error

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

        def shown() -> str:
            return patches.go_text(patch) if kind.startswith("application/strategic") else orjson.dumps(result).decode()

        self._check_patched(call, result, shown)
        untouched = _untouched(current, result) if type_.custom is None and type_.stored_as_served else {}
        changed = {key: value for key, value in result.items() if key not in untouched}
        try:
            decoded, unknown = self._decode(type_, changed)
        except kinds.DecodeError as error:
            cause = error.converter if kind.startswith("application/strategic") else error.cause
            raise _unfit_patch(shown(), cause) from error
        faults += [f'unknown field "{path}"' for path in unknown]
        if faults and call.field_validation != "Ignore":
            if call.strict:
                raise _unfit_patch(shown(), f"strict decoding error: {', '.join(faults)}")
            call.warnings.extend(faults)
        return {**{key: decoded[key] for key in result if key in decoded}, **decoded, **untouched}

    def _check_patched(self, call: Call, obj: Object, shown: Callable[[], str]) -> None:
        """A patch may change neither kind nor apiVersion, name nor namespace. Raises Problem 400 or 422."""
        type_ = call.type
        if obj.get("kind") != type_.kind or obj.get("apiVersion") != type_.api_version:
            try:
                self._check_kind(call, obj)
            except Problem as problem:
                cause = problem.message.partition(": ")[2]
                if type_.custom is not None or not cause:
                    raise
                raise _unfit_patch(shown(), cause) from problem
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if metadata is not None and not isinstance(metadata, dict):
            return
        if not name:
            raise bad_request(
                f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            )
        if isinstance(name, str) and name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        if metadata and type_.namespaced and metadata.get("namespace") not in (None, "", call.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def definition_name(self, type_: ResourceType) -> str:
        """The OpenAPI definition of a built-in kind."""
        from ome.local.apiserver.schema import types

        return types.kind_definitions()[type_.gvk]

    # -- ownership

    def _context(self, call: Call) -> ownership.Context:
        strategy = self.strategy(call.type)
        subresource = call.subresource.name if call.subresource is not None else ""
        return ownership.Context(
            manager=call.manager(),
            api_version=call.type.api_version,
            type=strategy.type,
            now=self._core.clock.now(),
            zero=self._zero(call.type, strategy),
            subresource=subresource,
            reset=strategy.reset_fields(subresource),
        )

    def _zero(self, type_: ResourceType, strategy: Strategy) -> Object:
        """The kind's empty object, made once: ownership only reads it."""
        found = self._zeros.get(id(type_))
        if found is None or found[0] is not type_:
            found = self._zeros[id(type_)] = (type_, strategy.zero())
        return found[1]

    def own_created(self, call: Call, obj: Object) -> Object:
        """A new object with its managedFields."""
        _set_managed(obj, ownership.record_update(None, obj, self._context(call)))
        return obj

    def own_updated(self, call: Call, old: Object, obj: Object) -> Object:
        """A replaced or patched object with its managedFields."""
        managed = ownership.record_update(old, obj, self._context(call))
        if call.subresource is not None and call.subresource.name == "scale":
            managed = _as_scales_record(managed, call, obj)
        _set_managed(obj, managed)
        return obj

    def read_applied(self, call: Call) -> Object:
        """The configuration in the body of an apply patch, which must name the object it is for. Raises Problem 400."""
        try:
            value, _ = bodies.parse_yaml(call.request.body)
        except ValueError as error:
            raise bad_request(f"error encoding patch: yaml: {_yaml_fault(error)}") from error
        obj: Object = value if isinstance(value, dict) else {}
        type_ = call.type
        kind, api_version = obj.get("kind") or "", str(obj.get("apiVersion") or "")
        group, _, version = api_version.rpartition("/")
        if kind != type_.kind or not api_version:
            raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
        if api_version != type_.api_version:
            raise bad_request(
                f"Incorrect version specified in apply patch. Specified patch version: {api_version}, expected: "
                f"{type_.api_version}"
            )
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict):
            metadata = obj["metadata"] = {}
        name = metadata.get("name")
        if not name:
            raise bad_request(
                f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            )
        if name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        if type_.namespaced and metadata.get("namespace") not in (None, "", call.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return obj

    def applied(self, call: Call, current: Object | None, applied: Object, *, force: bool) -> Object:
        """The current object, or a new one, with a configuration applied: decoded, defaulted, owned."""
        merged, managed = ownership.apply(current, applied, self._context(call), force=force)
        decoded, unknown = self._decode(call.type, self.copy(merged))
        self._judge_fields(call, [f'unknown field "{path}"' for path in unknown])
        self.default(call, decoded)
        _set_managed(decoded, managed)
        return decoded

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
        """Raises Problem 422; what is merely odd becomes warnings."""
        strategy = self.strategy(call.type)
        call.warnings.extend(strategy.warnings(obj))
        errors: list[FieldError] = strategy.validate_create(obj)
        if errors:
            raise self._invalid(call, obj, errors)

    def validate_update(self, call: Call, obj: Object, old: Object) -> None:
        subresource = call.subresource.name if call.subresource is not None else ""
        strategy = self.strategy(call.type)
        call.warnings.extend(strategy.warnings(obj, old))
        errors: list[FieldError] = strategy.validate_update(obj, old, subresource)
        if errors:
            raise self._invalid(call, obj, errors)

    def _invalid(self, call: Call, obj: Object, errors: list[FieldError]) -> Problem:
        """422; events are the core group's, whatever door they came through."""
        group = "" if call.type.storage == "events" else call.type.group
        return invalid(call.type.kind, group, str(obj["metadata"].get("name") or ""), errors)


def _untouched(current: Object, result: Object) -> Object:
    """Parts at the top that a patch shares with the object it was given: they are as stored, and need no decoding."""
    return {
        key: value
        for key, value in result.items()
        if key != "metadata" and isinstance(value, (dict, list)) and current.get(key) is value
    }


def _unfit_patch(shown: str, cause: str) -> Problem:
    """422 for a patch whose result is none of its kind."""
    error = invalid_value("patch", shown, cause)
    return Problem(422, "Invalid", f' "" is invalid: {error}', {"causes": [error.cause()]})


def _check_shape(kind: str, patch: Any) -> None:
    """A JSON patch is a list, the others are objects. Raises Problem 400."""
    if kind == "application/json-patch+json":
        fits, wanted = isinstance(patch, list), "[]handlers.jsonPatchOp"
    else:
        fits, wanted = isinstance(patch, dict) or patch is None, "map[string]interface {}"
    if not fits:
        shape = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_request(f"error decoding patch: json: cannot unmarshal {shape} into Go value of type {wanted}")


def _as_scales_record(managed: list[dict[str, Any]], call: Call, obj: Object) -> list[dict[str, Any]]:
    """Entries of scale as a real server leaves them: without a time, and none for zero, which a Scale does not show."""
    manager, zero = call.manager(), call.type.custom is None and not (obj.get("spec") or {}).get("replicas")
    out: list[dict[str, Any]] = []
    for entry in managed:
        if entry.get("subresource") == "scale" and entry.get("operation") == "Update":
            if zero and entry.get("manager") == manager:
                continue
            entry = {key: value for key, value in entry.items() if key != "time"}
        out.append(entry)
    return out


def _set_managed(obj: Object, managed: list[dict[str, Any]]) -> None:
    if managed:
        obj["metadata"]["managedFields"] = managed
    else:
        obj["metadata"].pop("managedFields", None)


def _yaml_fault(error: Exception) -> str:
    """A YAML parser's complaint in one line: where, and what it did not find."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    place = next((re.search(r"line (\d+)", line) for line in reversed(lines) if "line " in line), None)
    what = next((line for line in reversed(lines) if not line.startswith("in ")), "cannot be parsed")
    number = int(place[1]) if place else 1
    counted_from_zero = type(error.__cause__).__name__ == "ParserError"
    return f"line {max(number - 1, 1) if counted_from_zero else number}: {what}"


def _strategy(type_: ResourceType) -> Strategy:
    if type_.custom is None:
        return kinds.strategy(type_.group, type_.version, type_.kind)
    return kinds.custom_strategy(
        type_.group,
        type_.version,
        type_.kind,
        schema.compile(type_.custom.schema),
        namespaced=type_.namespaced,
        status=type_.has_status,
    )
