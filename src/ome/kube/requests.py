"""Requests to the Kubernetes API as values. Pure: nothing here opens a socket; transports send what this builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

from ome.kube.resources import Resource

JSON = "application/json"


class PatchType(StrEnum):
    """The four patch types, by their media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `path` is not yet percent-encoded; header names are lower case; `timeout` is in seconds."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 30.0

    @property
    def target(self) -> str:
        """The request target as it goes on the wire."""
        path = quote(self.path, safe="/:@!$&'()*+,;=~-._")
        return f"{path}?{urlencode(self.query)}" if self.query else path

    @property
    def is_write(self) -> bool:
        """Whether a lost answer leaves the outcome unknown."""
        return self.method not in ("GET", "HEAD", "OPTIONS")


def _query(**values: str | int | bool | None) -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        if value is None or value == "" or value is False:
            continue
        found.append((name, "true" if value is True else str(value)))
    return found


def _body(value: Any) -> bytes:
    # Reads have no body, and the plugin's reads should not pay for the import.
    import msgspec

    return msgspec.json.encode(value)


def get(resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Request:
    """Read one object, or one of its subresources."""
    return Request("GET", resource.path(namespace, name, subresource), headers={"accept": JSON})


def list_page(
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int | None = 500,
    continue_token: str = "",
    resource_version: str | None = None,
) -> Request:
    """One page of a list. `resource_version` "0" lets the server answer from its cache."""
    query = _query(
        labelSelector=label_selector,
        fieldSelector=field_selector,
        limit=limit,
        resourceVersion=resource_version,
    )
    if continue_token:
        query.append(("continue", continue_token))
    return Request("GET", resource.path(namespace), query, {"accept": JSON})


def watch(
    resource: Resource,
    namespace: str = "",
    *,
    resource_version: str = "",
    label_selector: str = "",
    field_selector: str = "",
    timeout_seconds: int = 290,
) -> Request:
    """A watch with bookmarks, ended by the server after `timeout_seconds`."""
    query = _query(
        watch=True,
        allowWatchBookmarks=True,
        resourceVersion=resource_version,
        labelSelector=label_selector,
        fieldSelector=field_selector,
        timeoutSeconds=timeout_seconds,
    )
    return Request("GET", resource.path(namespace), query, {"accept": JSON}, timeout=None)


def _write_query(dry_run: bool, field_manager: str | None, **more: str | int | bool | None) -> list[tuple[str, str]]:
    return _query(dryRun="All" if dry_run else None, fieldManager=field_manager, **more)


def create(
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str = "",
    *,
    dry_run: bool = False,
    field_manager: str | None = None,
    name: str = "",
    subresource: str = "",
) -> Request:
    """Create an object (or POST to a subresource of `name`). The namespace defaults to the object's own."""
    namespace = namespace or str((obj.get("metadata") or {}).get("namespace") or "")
    headers = {"accept": JSON, "content-type": JSON}
    path = resource.path(namespace, name, subresource)
    return Request("POST", path, _write_query(dry_run, field_manager), headers, _body(obj))


def replace(
    resource: Resource,
    obj: Mapping[str, Any],
    *,
    subresource: str = "",
    dry_run: bool = False,
    field_manager: str | None = None,
) -> Request:
    """PUT an object whole. Never of a decoded narrow Struct: fields it does not know would be lost."""
    meta = obj["metadata"]
    path = resource.path(str(meta.get("namespace") or ""), str(meta["name"]), subresource)
    headers = {"accept": JSON, "content-type": JSON}
    return Request("PUT", path, _write_query(dry_run, field_manager), headers, _body(obj))


def patch(
    resource: Resource,
    name: str,
    namespace: str,
    body: Any,
    *,
    type: PatchType = PatchType.MERGE,
    subresource: str = "",
    dry_run: bool = False,
    field_manager: str | None = None,
    force: bool | None = None,
) -> Request:
    """Patch an object; `body` is a mapping, or a list of operations for a JSON patch."""
    query = _write_query(dry_run, field_manager)
    if force is not None:
        query.append(("force", "true" if force else "false"))
    headers = {"accept": JSON, "content-type": type.value}
    return Request("PATCH", resource.path(namespace, name, subresource), query, headers, _body(body))


def apply(
    resource: Resource,
    obj: Mapping[str, Any],
    *,
    field_manager: str,
    force: bool = True,
    subresource: str = "",
    dry_run: bool = False,
) -> Request:
    """Server-side apply: the object as its manager wants it, no more."""
    meta = obj["metadata"]
    return patch(
        resource,
        str(meta["name"]),
        str(meta.get("namespace") or ""),
        obj,
        type=PatchType.APPLY,
        subresource=subresource,
        dry_run=dry_run,
        field_manager=field_manager,
        force=force,
    )


def delete(
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    grace_period: int | None = None,
    uid: str | None = None,
    resource_version: str | None = None,
    propagation: str | None = None,
    dry_run: bool = False,
) -> Request:
    """Delete an object. `grace_period` in seconds; `uid` and `resource_version` are preconditions."""
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if propagation:
        options["propagationPolicy"] = propagation
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in preconditions.items() if value}
    if preconditions:
        options["preconditions"] = preconditions
    if dry_run:
        options["dryRun"] = ["All"]
    headers = {"accept": JSON, "content-type": JSON}
    return Request("DELETE", resource.path(namespace, name), (), headers, _body(options))
