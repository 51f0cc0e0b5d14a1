"""OpenAPI: the v3 index and one document a group and version, and the one of v2, built when first asked for.

kubectl reads them to validate, explain and merge. The paths matter as much as the schemas: they carry the kinds, the
patch media types and the `fieldValidation` parameter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from ome.api.kubernetes import VERSION, definitions, enumerations
from ome.local.apiserver import openapi_v2
from ome.local.apiserver.answers import NO_CACHE
from ome.local.apiserver.http import HttpRequest, HttpResponse
from ome.local.apiserver.negotiate import JSON
from ome.local.apiserver.registry import Registry, ResourceType, Subresource

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FORMAT: Final = b"2"
"""Part of the documents' hashes, for clients keep them: to be changed when the same kinds are described otherwise."""
_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_CORE_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_CUSTOM_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_BODIES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")

Schemas = dict[str, Any]


def definition_of(type_: ResourceType) -> str:
    """The name of a kind's schema: from the data for built-in kinds, reversed group for custom ones."""
    if type_.custom is not None:
        return ".".join([*reversed(type_.group.split(".")), type_.version, type_.kind])
    from ome.local.apiserver.schema import types

    return types.kind_definitions().get(type_.gvk, "")


class OpenApi:
    """Answers /openapi/v3, /openapi/v3/apis/G/V and /openapi/v2."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}
        # The whole of v2, by media type.
        self._second: dict[str, bytes] = {}
        registry.on_change(self._changed)

    def _changed(self) -> None:
        """Forget the documents of custom groups; those of built-in ones never change."""
        for path in list(self._documents):
            if not self._is_builtin(path):
                self._documents.pop(path, None)
        self._second.clear()
        self._hashes = {path: digest for path, digest in self._hashes.items() if self._is_builtin(path)}

    def _is_builtin(self, path: str) -> bool:
        parts = path.split("/")
        return path.startswith("api/") or (len(parts) == 3 and self._registry.is_builtin_group(parts[1]))

    def answer(self, request: HttpRequest, parts: tuple[str, ...]) -> HttpResponse | None:
        if parts[1] == "v2" and len(parts) == 2:
            return self._version_two(request)
        if parts[1] != "v3":
            return None
        if len(parts) == 2:
            return self._index()
        return self._one(request, "/".join(parts[2:]))

    def _version_two(self, request: HttpRequest) -> HttpResponse:
        wanted = _V2_PROTOBUF if "protobuf" in request.headers.get("accept", "") else JSON
        data = self._second.get(wanted)
        if data is None:
            schemas: Schemas = {}
            for _, group, version in self._paths():
                schemas.update(self.document(group, version)["components"]["schemas"])
            found = openapi_v2.definitions(schemas)
            write = openapi_v2.protobuf if wanted == _V2_PROTOBUF else openapi_v2.document
            data = self._second[wanted] = write(found)
        etag = f'"{hashlib.sha512(data).hexdigest().upper()}"'
        headers = {"content-type": wanted, "cache-control": NO_CACHE, "etag": etag, "vary": "Accept"}
        if request.headers.get("if-none-match") == etag:
            return HttpResponse(304, headers)
        return HttpResponse(200, headers, data)

    def _paths(self) -> Iterable[tuple[str, str, str]]:
        yield "api/v1", "", "v1"
        for group, versions in self._registry.groups():
            for version in versions:
                yield f"apis/{group}/{version}", group, version

    def _index(self) -> HttpResponse:
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(path, group, version)}"}
            for path, group, version in self._paths()
        }
        headers = {"content-type": "text/plain; charset=utf-8", "cache-control": NO_CACHE}
        return HttpResponse(200, headers, orjson.dumps({"paths": paths}))

    def _hash(self, path: str, group: str, version: str) -> str:
        """A name for the document's content that is known without building it."""
        found = self._hashes.get(path)
        if found is None:
            digest = hashlib.sha512(_FORMAT + VERSION.encode() + path.encode())
            for type_ in self._registry.types(group, version):
                digest.update(repr((type_.plural, type_.kind, sorted(type_.subresources), type_.short_names)).encode())
                if type_.custom is not None:
                    digest.update(orjson.dumps(type_.custom.schema, option=orjson.OPT_SORT_KEYS))
            found = self._hashes[path] = digest.hexdigest().upper()
        return found

    def _one(self, request: HttpRequest, path: str) -> HttpResponse | None:
        found = next(((group, version) for known, group, version in self._paths() if known == path), None)
        if found is None:
            return None
        etag = f'"{self._hash(path, *found)}"'
        headers = {"content-type": JSON, "etag": etag, "vary": "Accept"}
        if "hash=" in request.query:
            headers |= {"cache-control": "public, immutable", "expires": "Thu, 31 Dec 2099 23:59:59 GMT"}
        else:
            headers["cache-control"] = NO_CACHE
        if request.headers.get("if-none-match") == etag:
            return HttpResponse(304, headers)
        data = self._documents.get(path)
        if data is None:
            data = self._documents[path] = orjson.dumps(self.document(*found))
        return HttpResponse(200, headers, data)

    def document(self, group: str, version: str) -> dict[str, Any]:
        """The OpenAPI v3 document of one group and version."""
        types = list(self._registry.types(group, version))
        schemas: Schemas = {}
        paths: dict[str, Any] = {}
        for type_ in types:
            name = definition_of(type_)
            if type_.custom is not None:
                _add_custom(schemas, type_, name)
            elif name:
                _add(schemas, name)
            if name:
                paths.update(_resource_paths(type_, name, schemas))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION},
            "paths": paths,
            "components": {
                "schemas": dict(sorted(schemas.items())),
                "securitySchemes": {
                    "BearerToken": {
                        "type": "apiKey",
                        "description": "Bearer Token authentication",
                        "name": "authorization",
                        "in": "header",
                    }
                },
            },
        }


def _references(schema: Any) -> Iterable[str]:
    if isinstance(schema, Mapping):
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith(_REF):
            yield ref.removeprefix(_REF)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _add(schemas: Schemas, name: str) -> None:
    """A built-in definition and all it refers to."""
    waiting = [name]
    while waiting:
        current = waiting.pop()
        found = definitions().get(current)
        if found is None or current in schemas:
            continue
        schemas[current] = _with_enumerations(current, found)
        waiting.extend(_references(found))


def _with_enumerations(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A definition with the allowed values of its properties, which `kubectl explain` shows."""
    known = enumerations().get(name)
    if not known:
        return schema
    properties = dict(schema.get("properties") or {})
    for field, (values, of_elements, explanation) in known.items():
        if field not in properties:
            continue
        found = dict(properties[field])
        if of_elements:
            found["items"] = {**(found.get("items") or {}), "enum": values}
        else:
            found["enum"] = values
        if explanation:
            found["description"] = found.get("description", "") + explanation
        properties[field] = found
    return {**schema, "properties": properties}


def _kinds(type_: ResourceType, kind: str) -> list[dict[str, str]]:
    return [{"group": type_.group, "kind": kind, "version": type_.version}]


def _add_custom(schemas: Schemas, type_: ResourceType, name: str) -> None:
    """A custom kind's own schema with the fields every object has, and its list."""
    if type_.custom is None:
        return
    schema = dict(type_.custom.schema)
    base = definitions()["io.k8s.api.core.v1.ConfigMap"]["properties"]
    properties = {
        "apiVersion": base["apiVersion"],
        "kind": base["kind"],
        "metadata": {
            "allOf": [{"$ref": f"{_REF}{_META}ObjectMeta"}],
            "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/"
            "sig-architecture/api-conventions.md#metadata",
        },
    }
    if schema.get("properties") or schema.get("type") == "object":
        given = {key: value for key, value in (schema.get("properties") or {}).items() if key not in properties}
        schema["properties"] = {**properties, **given}
    schema["x-kubernetes-group-version-kind"] = _kinds(type_, type_.kind)
    schemas[name] = _plain(schema)
    metadata = {
        "allOf": [{"$ref": f"{_REF}{_META}ListMeta"}],
        "description": "Standard list metadata. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    }
    schemas[f"{name}List"] = {
        "description": f"{type_.list_kind} is a list of {type_.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": base["apiVersion"],
            "items": {
                "description": f"List of {type_.plural}. More info: https://git.k8s.io/community/contributors/devel/"
                "sig-architecture/api-conventions.md",
                "items": {"allOf": [{"$ref": f"{_REF}{name}"}]},
                "type": "array",
            },
            "kind": base["kind"],
            "metadata": metadata,
        },
        "x-kubernetes-group-version-kind": _kinds(type_, type_.list_kind),
    }
    for used in ("ObjectMeta", "ListMeta", "Status", "DeleteOptions", "Patch"):
        _add(schemas, _META + used)
    schemas.setdefault(
        _META + "Patch",
        {"type": "object", "description": "Patch is provided to give a concrete name and type to the request body."},
    )


def _plain(schema: Any) -> Any:
    """A structural schema without what only the server reads (rules)."""
    return schema


def _content(media_types: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type in media_types}


def _parameter(name: str, description: str, kind: str = "string") -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind, "uniqueItems": True},
    }


_WRITE_PARAMETERS: Final = (
    _parameter("dryRun", "When present, indicates that modifications should not be persisted."),
    _parameter("fieldManager", "fieldManager is a name associated with the actor that is making these changes."),
    _parameter(
        "fieldValidation",
        "fieldValidation instructs the server on how to handle objects in the request "
        "(POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are: Ignore, Warn, Strict.",
    ),
)
_FORCE: Final = _parameter("force", 'Force is going to "force" Apply requests.', "boolean")
_LIST_PARAMETERS: Final = (
    _parameter("allowWatchBookmarks", 'allowWatchBookmarks requests watch events with type "BOOKMARK".', "boolean"),
    _parameter("continue", "The continue option should be set when retrieving more results from the server."),
    _parameter("fieldSelector", "A selector to restrict the list of returned objects by their fields."),
    _parameter("labelSelector", "A selector to restrict the list of returned objects by their labels."),
    _parameter("limit", "limit is a maximum number of responses to return for a list call.", "integer"),
    _parameter("resourceVersion", "resourceVersion sets a constraint on what versions a request may be served from."),
    _parameter("resourceVersionMatch", "resourceVersionMatch determines how resourceVersion is applied to lists."),
    _parameter("sendInitialEvents", "`sendInitialEvents=true` may be set together with `watch=true`.", "boolean"),
    _parameter("timeoutSeconds", "Timeout for the list/watch call.", "integer"),
    _parameter("watch", "Watch for changes to the described resources.", "boolean"),
)
_ACTIONS: Final[Mapping[str, str]] = {
    "get": "get", "list": "list", "create": "post", "update": "put", "patch": "patch", "delete": "delete",
    "deletecollection": "deletecollection",
}  # fmt: skip


def _operation(
    type_: ResourceType, verb: str, name: str, kind: Mapping[str, str], answer: str, parameters: Iterable[Any]
) -> dict[str, Any]:
    reference = {"$ref": f"{_REF}{answer}"}
    out: dict[str, Any] = {
        "tags": [f"{(type_.group or 'core').replace('.', '_')}_{type_.version}"],
        "description": f"{verb} {type_.kind}",
        "operationId": f"{verb}{name}",
        "parameters": list(parameters),
        "responses": {
            "200": {"description": "OK", "content": _content(_BODIES, reference)},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": dict(kind),
    }
    if verb in ("create", "update"):
        media_types = _BODIES if type_.custom is None else _BODIES[:2]
        out["requestBody"] = {"content": _content(media_types, reference), "required": True}
    elif verb == "patch":
        patches = _CORE_PATCHES if type_.custom is None else _CUSTOM_PATCHES
        out["requestBody"] = {"content": _content(patches, {"$ref": f"{_REF}{_META}Patch"}), "required": True}
    elif verb == "delete":
        out["requestBody"] = {"content": _content(_BODIES, {"$ref": f"{_REF}{_META}DeleteOptions"})}
    return out


def _resource_paths(type_: ResourceType, name: str, schemas: Schemas) -> dict[str, Any]:
    root = f"/apis/{type_.group}/{type_.version}" if type_.group else f"/api/{type_.version}"
    kind = {"group": type_.group, "version": type_.version, "kind": type_.kind}
    list_name = f"{name}List"
    if type_.custom is None and "list" in type_.verbs:
        _add(schemas, list_name)
    for used in ("DeleteOptions", "Status", "Patch"):
        _add(schemas, _META + used)
    schemas.setdefault(_META + "Patch", {"type": "object"})
    collection = f"{root}/namespaces/{{namespace}}/{type_.plural}" if type_.namespaced else f"{root}/{type_.plural}"
    scope = "Namespaced" if type_.namespaced else ""
    title = f"{(type_.group.partition('.')[0] or 'core').capitalize()}{type_.version.upper()}{scope}{type_.kind}"
    many, single = _verb_operations(type_, title, kind, name, list_name)
    paths: dict[str, Any] = {}
    if many:
        paths[collection] = {**many, "parameters": _path_parameters(type_.namespaced, named=False)}
    if single:
        paths[f"{collection}/{{name}}"] = {**single, "parameters": _path_parameters(type_.namespaced, named=True)}
    if type_.namespaced and "list" in type_.verbs:
        listing = _operation(type_, "list", f"{title}ForAllNamespaces", kind, list_name, _LIST_PARAMETERS)
        paths[f"{root}/{type_.plural}"] = {"get": listing}
    for sub in type_.subresources.values():
        operations = _subresource_operations(type_, sub, title, kind, name, schemas)
        if operations:
            parameters = _path_parameters(type_.namespaced, named=True)
            paths[f"{collection}/{{name}}/{sub.name}"] = {**operations, "parameters": parameters}
    return paths


def _path_parameters(namespaced: bool, *, named: bool) -> list[dict[str, Any]]:
    names = [*(["namespace"] if namespaced else []), *(["name"] if named else [])]
    return [
        {"name": n, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for n in names
    ]


def _verb_operations(
    type_: ResourceType, title: str, kind: Mapping[str, str], name: str, list_name: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    many: dict[str, Any] = {}
    single: dict[str, Any] = {}
    for verb in type_.verbs:
        if verb == "list":
            many["get"] = _operation(type_, "list", title, kind, list_name, _LIST_PARAMETERS)
        elif verb == "create":
            many["post"] = _operation(type_, "create", title, kind, name, _WRITE_PARAMETERS)
        elif verb == "deletecollection":
            status = _META + "Status"
            many["delete"] = _operation(type_, verb, f"Collection{title}", kind, status, _LIST_PARAMETERS)
        elif verb == "get":
            single["get"] = _operation(type_, "get", title, kind, name, ())
        elif verb == "update":
            single["put"] = _operation(type_, "update", title, kind, name, _WRITE_PARAMETERS)
        elif verb == "patch":
            single["patch"] = _operation(type_, "patch", title, kind, name, (*_WRITE_PARAMETERS, _FORCE))
        elif verb == "delete":
            single["delete"] = _operation(type_, "delete", title, kind, _META + "Status", _WRITE_PARAMETERS[:1])
    return many, single


def _subresource_operations(
    type_: ResourceType, sub: Subresource, title: str, kind: Mapping[str, str], name: str, schemas: Schemas
) -> dict[str, Any]:
    if sub.name not in ("status", "scale"):
        return {}
    answer, own_kind = name, kind
    if sub.name == "scale":
        answer = "io.k8s.api.autoscaling.v1.Scale"
        own_kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        _add(schemas, answer)
    label = f"{title}{sub.name.capitalize()}"
    return {
        "get": _operation(type_, "get", label, own_kind, answer, ()),
        "put": _operation(type_, "update", label, own_kind, answer, _WRITE_PARAMETERS),
        "patch": _operation(type_, "patch", label, own_kind, answer, (*_WRITE_PARAMETERS, _FORCE)),
    }
