"""Discovery in both forms: one document a group and version, and all in one (`apidiscovery.k8s.io/v2`).

Pure over the registry; documents are cached until it changes.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

from ome.local.apiserver import negotiate
from ome.local.apiserver.answers import NO_CACHE, dump
from ome.local.apiserver.errors import not_acceptable, resource_not_found
from ome.local.apiserver.http import HttpRequest, HttpResponse
from ome.local.apiserver.negotiate import JSON, MEDIA_TYPES, PROTOBUF
from ome.local.apiserver.registry import Registry, ResourceType, Subresource

AGGREGATED: Final = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers /api, /apis and what is below them."""

    def __init__(self, registry: Registry, address: str) -> None:
        self._registry = registry
        self._address = address
        self._cache: dict[tuple[str, ...], bytes] = {}
        registry.on_change(self._cache.clear)

    def listen_at(self, address: str) -> None:
        """The address that discovery names, once it is known."""
        self._address = address

    def answer(self, request: HttpRequest, parts: tuple[str, ...]) -> HttpResponse | None:
        """The document at a path (`("apis", "apps", "v1")`), or None when no such group is known."""
        accept = request.headers.get("accept", "")
        if len(parts) == 1:
            aggregated = _wants_aggregated(accept)
            if aggregated:
                return self._aggregated(parts[0], aggregated)
        document = self._document(parts)
        if document is None:
            return None
        media_type = negotiate.choose(accept).media_type if accept else JSON
        agent = request.headers.get("user-agent", "")
        pretty = agent.startswith(("curl", "Wget", "Mozilla/5.0")) or "pretty=true" in request.query
        headers = {"content-type": media_type, "cache-control": NO_CACHE}
        if len(parts) == 1:
            headers["vary"] = "Accept"
        return HttpResponse(200, headers, dump(document, media_type, pretty=pretty))

    def _document(self, parts: tuple[str, ...]) -> dict[str, Any] | None:
        match parts:
            case ("api",):
                return self._versions()
            case ("api", "v1"):
                return self._resources("", "v1")
            case ("apis",):
                groups = [self._group(group, versions) for group, versions in self._registry.groups()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ("apis", group):
                versions = dict(self._registry.groups()).get(group)
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group, versions)} if versions else None
            case ("apis", group, version):
                if self._registry.has_version(group, version):
                    return self._resources(group, version)
                if self._registry.is_builtin_group(group):
                    raise resource_not_found()
                return None
            case _:
                raise resource_not_found()

    def _versions(self) -> dict[str, Any]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}

    def _group(self, group: str, versions: list[str]) -> dict[str, Any]:
        named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": named, "preferredVersion": named[0]}

    def _resources(self, group: str, version: str) -> dict[str, Any]:
        types = self._registry.types(group, version)
        if types and types[0].custom is None:
            types = sorted(types, key=lambda type_: type_.plural)
        out: list[dict[str, Any]] = []
        for type_ in types:
            out.append(_resource(type_))
            out += [_subresource(type_, sub) for sub in _in_order(type_)]
        api_version = f"{group}/{version}" if group else version
        head: dict[str, Any] = {"kind": "APIResourceList"}
        if group:
            head["apiVersion"] = "v1"
        return {**head, "groupVersion": api_version, "resources": out}

    def _aggregated(self, root: str, media_type: str) -> HttpResponse:
        key = ("aggregated", root, media_type)
        data = self._cache.get(key)
        if data is None:
            data = self._cache[key] = dump(self._list(root), media_type)
        etag = '"' + hashlib.sha512(data).hexdigest().upper() + '"'
        headers = {
            "content-type": f"{media_type};{AGGREGATED}",
            "cache-control": "public",
            "etag": etag,
            "vary": "Accept",
        }
        return HttpResponse(200, headers, data)

    def _list(self, root: str) -> dict[str, Any]:
        groups = [("", ["v1"])] if root == "api" else list(self._registry.groups())
        items = [self._group_discovery(group, versions) for group, versions in groups]
        kind, version = "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"
        return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}

    def _group_discovery(self, group: str, versions: list[str]) -> dict[str, Any]:
        listed: list[dict[str, Any]] = []
        for version in versions:
            types = self._registry.types(group, version)
            if types and types[0].custom is None:
                types = sorted(types, key=lambda type_: type_.plural)
            resources = [_resource_discovery(type_) for type_ in types]
            listed.append({"version": version, "resources": resources, "freshness": "Current"})
        metadata = {"name": group} if group else {}
        return {"metadata": metadata, "versions": listed}


def _wants_aggregated(accept: str) -> str:
    """The media type in which the aggregated form is wanted; empty when it is not. Raises Problem 406."""
    wanted = negotiate.clauses(accept)
    for clause in wanted:
        if clause.get("as") == "APIGroupDiscoveryList":
            if clause.get("v") == "v2" and clause.media_type in (JSON, PROTOBUF):
                return clause.media_type
            continue
        return ""
    if wanted and all(clause.get("as") for clause in wanted):
        raise not_acceptable(MEDIA_TYPES, transformation=True)
    return ""


def _in_order(type_: ResourceType) -> list[Subresource]:
    """Subresources as discovery lists them: by name, status first for custom kinds."""
    if type_.custom is not None:
        return sorted(type_.subresources.values(), key=lambda sub: sub.name != "status")
    return sorted(type_.subresources.values(), key=lambda sub: sub.name)


def _verbs(sub: Subresource) -> list[str]:
    if sub.verbs == ("connect",):
        return ["create", "delete", "get", "patch", "update"]
    return sorted(sub.verbs)


def _resource(type_: ResourceType) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": type_.plural,
        "singularName": type_.singular,
        "namespaced": type_.namespaced,
        "kind": type_.kind,
        "verbs": list(type_.verbs),
    }
    if type_.short_names:
        out["shortNames"] = list(type_.short_names)
    if type_.categories:
        out["categories"] = list(type_.categories)
    if "list" in type_.verbs:
        digest = hashlib.sha256(f"{type_.group}/{type_.storage_api_version}/{type_.kind}".encode()).digest()
        out["storageVersionHash"] = base64.b64encode(digest[:8]).decode()
    return out


def _subresource(type_: ResourceType, sub: Subresource) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": f"{type_.plural}/{sub.name}",
        "singularName": "",
        "namespaced": type_.namespaced,
    }
    if sub.version:
        out |= {"group": sub.group, "version": sub.version}
    return {**out, "kind": sub.kind or _connect_kind(type_, sub), "verbs": _verbs(sub)}


def _connect_kind(type_: ResourceType, sub: Subresource) -> str:
    return f"{type_.kind}ProxyOptions" if sub.name == "proxy" else type_.kind


def _resource_discovery(type_: ResourceType) -> dict[str, Any]:
    out: dict[str, Any] = {
        "resource": type_.plural,
        "responseKind": _response_kind(type_, type_.kind, "", ""),
        "scope": "Namespaced" if type_.namespaced else "Cluster",
        "singularResource": type_.singular,
        "verbs": list(type_.verbs),
    }
    if type_.short_names:
        out["shortNames"] = list(type_.short_names)
    if type_.categories:
        out["categories"] = list(type_.categories)
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": _response_kind(type_, sub.kind or _connect_kind(type_, sub), sub.group, sub.version),
            "verbs": _verbs(sub),
        }
        for sub in _in_order(type_)
    ]
    if subresources:
        out["subresources"] = subresources
    return out


def _response_kind(type_: ResourceType, kind: str, group: str, version: str) -> dict[str, str]:
    if version:
        return {"group": group, "version": version, "kind": kind}
    if type_.custom is not None:
        return {"group": type_.group, "version": type_.version, "kind": kind}
    return {"group": "", "version": "", "kind": kind}
