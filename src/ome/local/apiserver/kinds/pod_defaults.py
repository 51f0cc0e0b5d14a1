"""Defaults of pods and pod templates, as the API sets them (not what admission adds; that is `kinds.admission`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_MODE: Final = 0o644


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All containers of a pod spec: init, main, ephemeral."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def template_spec(spec: dict[str, Any]) -> None:
    """Defaults of a pod spec in a template, in place."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _volume(volume)


def pod_spec(spec: dict[str, Any]) -> None:
    """Defaults of a pod's own spec: those of templates, links to services, requests taken from limits."""
    template_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            _requests_from_limits(container.get("resources") or {})
    if "resources" in spec:
        _requests_from_limits(spec["resources"])


def _requests_from_limits(resources: dict[str, Any]) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _pull_policy(image: str) -> str:
    name, _, digest = image.partition("@")
    tag = name.rsplit(":", 1)[1] if ":" in name.rsplit("/", 1)[-1] else ""
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _container(container: dict[str, Any], *, host_network: bool) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort", 0))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _field_ref(source)
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if name in container:
            _probe(container[name])
    for name in ("postStart", "preStop"):
        _http_get((container.get("lifecycle") or {}).get(name) or {})


def _field_ref(source: dict[str, Any]) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _probe(probe: dict[str, Any]) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http_get(handler: dict[str, Any]) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: dict[str, Any]) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _field_ref(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_ref(item)
    if "ephemeral" in volume and "volumeClaimTemplate" in volume["ephemeral"]:
        volume["ephemeral"]["volumeClaimTemplate"].setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", _pull_policy(volume["image"].get("reference", "")))
    _rare_volume(volume)


def _rare_volume(volume: dict[str, Any]) -> None:
    defaults: dict[str, dict[str, Any]] = {
        "iscsi": {"iscsiInterface": "default"},
        "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
        "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
        "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    }
    for source, fields in defaults.items():
        if source in volume:
            for field, value in fields.items():
                volume[source].setdefault(field, value)
