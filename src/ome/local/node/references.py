"""What a pod needs from Secrets and ConfigMaps before its containers can be made. Pure.

The kubelet reads the named objects when a container is about to start; these functions say which, and what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Reference = tuple[str, str]  # ("secret" | "configmap", name)
Found = Mapping[Reference, frozenset[str] | None]  # the keys of each object; None when it does not exist

_LABEL: Final = {"secret": "Secret", "configmap": "ConfigMap"}
# Published by the control plane into every namespace, a moment after the namespace: nothing simulated reads it.
ROOT_CA: Final = "kube-root-ca.crt"


def of_container(container: Mapping[str, Any]) -> set[Reference]:
    """The objects a container's environment names."""
    named = {(kind, name) for kind, name, _, _ in _variables(container)}
    return named | {(kind, name) for kind, name, _ in _sources(container)}


def of_volumes(pod_spec: Mapping[str, Any]) -> set[Reference]:
    """The objects a pod's volumes name, the optional ones apart."""
    return {(kind, name) for _, kind, name in _volumes(pod_spec)}


def config_error(container: Mapping[str, Any], namespace: str, found: Found) -> str:
    """Why the environment cannot be built, as the kubelet words it; empty when it can."""
    for kind, name, optional in _sources(container):
        if found.get((kind, name)) is None and not optional:
            return f'{kind} "{name}" not found'
    for kind, name, key, optional in _variables(container):
        keys = found.get((kind, name))
        if optional:
            continue
        if keys is None:
            return f'{kind} "{name}" not found'
        if key not in keys:
            return f"couldn't find key {key} in {_LABEL[kind]} {namespace}/{name}"
    return ""


def volume_error(pod_spec: Mapping[str, Any], found: Found) -> str:
    """Why a volume cannot be mounted, as the kubelet's FailedMount event words it; empty when all can."""
    for volume, kind, name in _volumes(pod_spec):
        if found.get((kind, name)) is None:
            return f'MountVolume.SetUp failed for volume "{volume}" : {kind} "{name}" not found'
    return ""


def _variables(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("secretKeyRef", "secret"), ("configMapKeyRef", "configmap")):
            reference = source.get(field)
            if reference and reference.get("name"):
                yield kind, reference["name"], reference.get("key", ""), bool(reference.get("optional"))


def _sources(container: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    for source in container.get("envFrom") or ():
        for field, kind in (("secretRef", "secret"), ("configMapRef", "configmap")):
            reference = source.get(field)
            if reference and reference.get("name"):
                yield kind, reference["name"], bool(reference.get("optional"))


def _volumes(pod_spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for volume in pod_spec.get("volumes") or ():
        name = str(volume.get("name", ""))
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            secret, config = source.get("secret"), source.get("configMap")
            if secret and not secret.get("optional"):
                yield name, "secret", str(secret.get("secretName") or secret.get("name") or "")
            if config and not config.get("optional") and config.get("name") != ROOT_CA:
                yield name, "configmap", str(config.get("name") or "")
