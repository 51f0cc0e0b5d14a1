"""Puts OME's manifests into the embedded cluster, by server-side apply, as `make install` does with kubectl."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ome.install import UrlWebhook, manifests
from ome.kube.client import Client
from ome.kube.errors import AlreadyExists
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
INSTALLED: Final = "local.ome.io/installed"
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
    """Namespace, definitions, roles and configuration, unless exactly these are there already.

    What a user changed in the ConfigMaps stays.
    """
    wanted = manifests(config="chart", certificates="self-made")
    digest = hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).hexdigest()
    current: dict[str, Any] | None = await client.find(NAMESPACES, OME_NAMESPACE)
    if current is not None and (current["metadata"].get("annotations") or {}).get(INSTALLED) == digest:
        return
    for body in wanted:
        if body["kind"] == NAMESPACES.kind:
            await _put(client, body)
    # Together, for each waits until it is on the disk.
    await asyncio.gather(*(_put(client, body) for body in wanted if body["kind"] != NAMESPACES.kind))
    # Last, so that an install that was cut short is done again.
    await client.patch(NAMESPACES, OME_NAMESPACE, "", {"metadata": {"annotations": {INSTALLED: digest}}})


async def _put(client: Client, body: Mapping[str, Any]) -> None:
    """Create an object, or apply it over the one of an older version."""
    resource = _RESOURCES[body["kind"]]
    try:
        await client.create(resource, body)
    except AlreadyExists:
        if resource is not CONFIG_MAPS:
            await client.apply(resource, dict(body), field_manager=FIELD_MANAGER)


def webhook_bodies(port: int) -> Sequence[dict[str, Any]]:
    """The webhook configurations for a manager that listens on a loopback port."""
    wanted = manifests(webhook=UrlWebhook(f"https://127.0.0.1:{port}"), config="chart", certificates="self-made")
    return [body for body in wanted if body["kind"] in _WEBHOOKS]


def resource_of(body: Mapping[str, Any]) -> Resource:
    """The resource of a manifest."""
    return _RESOURCES[body["kind"]]
