"""Headless and revision Services (`spec/omenative.md` section 1.2): bodies, and what is missing, changed or no longer
wanted.

The headless Service gives pods their DNS names and lists them before they are ready. A revision's Service is where
draining is read; it lives as long as its revision is named or has pods. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.api.core import Service
from ome.api.names import headless_service, revision_headless_service, revision_service
from ome.rendering.pods import service_ports

from . import names
from .actions import CreateService, DeleteService, UpdateService
from .revisions import live, payload_of
from .work import Work


def plan_services(work: Work, owner: Mapping[str, Any]) -> None:
    """Create, repair and delete the Services of this replica."""
    wanted = {body["metadata"]["name"]: body for body in _wanted(work, owner)}
    existing = {service.metadata.name: service for service in work.snapshot.services}
    for name, body in wanted.items():
        if name not in existing:
            work.actions.append(CreateService(body))
        elif _differs(existing[name], body):
            work.actions.append(UpdateService(name, {"spec": _repair(body)}))
    if not names.projected(work.replica):
        return
    for name, service in existing.items():
        if name not in wanted and names.LABEL_HASH in service.metadata.labels:
            work.actions.append(DeleteService(name, service.metadata.uid))


def _wanted(work: Work, owner: Mapping[str, Any]) -> list[dict[str, Any]]:
    replica = work.replica
    service, component = names.service_of(replica), replica.spec.component
    headless = headless_service(service, component)
    ports = _ports(work, work.update_revision)
    bodies = [_body(work, owner, headless, {}, ports, headless=True)]
    if not names.projected(replica):
        return bodies
    for revision in sorted(_routable(work)):
        digest = names.digest_of(revision)
        own = _ports(work, revision)
        selector = {names.LABEL_HASH: digest}
        routed = revision_service(service, component, digest)
        bodies.append(_body(work, owner, routed, selector, own, headless=False))
        listed = revision_headless_service(service, component, digest)
        bodies.append(_body(work, owner, listed, selector, own, headless=True))
    return bodies


def _routable(work: Work) -> set[str]:
    """Revisions that are named or still have pods, as far as they are recorded."""
    status = work.status
    named = set(live(status, (work.update_revision, work.target)))
    for row in work.rows.values():
        named |= {row.running_revision, row.target_revision}
    for members in work.members.values():
        named |= {names.revision_name(work.base, member.digest) for member in members if member.digest}
    return {revision for revision in named if revision and work.recorded(revision)}


def _ports(work: Work, revision: str) -> list[dict[str, Any]]:
    recorded = payload_of(work.snapshot.revisions, revision)
    spec = (recorded or {}).get("podSpec") or {}
    return [dict(port) for port in service_ports(spec, {})] if spec.get("containers") else []


def _body(
    work: Work,
    owner: Mapping[str, Any],
    name: str,
    extra: Mapping[str, str],
    ports: list[dict[str, Any]],
    *,
    headless: bool,
) -> dict[str, Any]:
    spec: dict[str, Any] = {"selector": {**names.selector(work.replica), **extra}}
    if ports:
        spec["ports"] = ports
    if headless:
        spec["clusterIP"] = "None"
        spec["publishNotReadyAddresses"] = True
    labels = {**names.selector(work.replica), **extra}
    if extra and work.replica.spec.pairing_protocol:
        labels[names.LABEL_PAIRING] = work.replica.spec.pairing_protocol
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": work.replica.metadata.namespace,
            "labels": labels,
            "ownerReferences": [dict(owner)],
        },
        "spec": spec,
    }


def _differs(service: Service, body: Mapping[str, Any]) -> bool:
    spec = body["spec"]
    if service.spec.selector != spec["selector"]:
        return True
    if bool(spec.get("publishNotReadyAddresses")) != service.spec.publish_not_ready_addresses:
        return True
    return _port_keys(service.spec.ports) != _port_keys(spec.get("ports") or [])


def _port_keys(ports: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (port.get("name") or "", port.get("port"), port.get("targetPort"), port.get("protocol") or "TCP")
        for port in ports
    ]


def _repair(body: Mapping[str, Any]) -> dict[str, Any]:
    spec = body["spec"]
    return {
        "selector": spec["selector"],
        "ports": spec.get("ports"),
        "publishNotReadyAddresses": spec.get("publishNotReadyAddresses"),
    }
