"""Puts OME's manifests into the embedded cluster, by server-side apply, as `make install` does with kubectl."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ome.install import UrlWebhook, manifests
from ome.kube.client import Client
from ome.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)

FIELD_MANAGER: Final = "ome-install"
OME_NAMESPACE: Final = "ome"
_RESOURCES: Final[Mapping[str, Resource]] = {
    found.kind: found
    for found in (
        NAMESPACES,
        CRDS,
        SERVICE_ACCOUNTS,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        ROLES,
        ROLE_BINDINGS,
        CONFIG_MAPS,
        SECRETS,
        SERVICES,
        VALIDATING_WEBHOOKS,
        MUTATING_WEBHOOKS,
    )
}
_WEBHOOKS: Final = (VALIDATING_WEBHOOKS.kind, MUTATING_WEBHOOKS.kind)


async def install_base(client: Client) -> None:
    """Namespace, definitions, roles and configuration. What a user changed in the ConfigMaps stays."""
    for body in manifests(config="chart", certificates="self-made"):
        resource = _RESOURCES[body["kind"]]
        if resource is CONFIG_MAPS and await _exists(client, resource, body):
            continue
        await client.apply(resource, body, field_manager=FIELD_MANAGER)
        await asyncio.sleep(0)


async def _exists(client: Client, resource: Resource, body: Mapping[str, Any]) -> bool:
    meta = body["metadata"]
    found: dict[str, Any] | None = await client.find(resource, meta["name"], meta.get("namespace", ""))
    return found is not None


def webhook_bodies(port: int) -> Sequence[dict[str, Any]]:
    """The webhook configurations for a manager that listens on a loopback port."""
    wanted = manifests(webhook=UrlWebhook(f"https://127.0.0.1:{port}"), config="chart", certificates="self-made")
    return [body for body in wanted if body["kind"] in _WEBHOOKS]


def resource_of(body: Mapping[str, Any]) -> Resource:
    """The resource of a manifest."""
    return _RESOURCES[body["kind"]]
