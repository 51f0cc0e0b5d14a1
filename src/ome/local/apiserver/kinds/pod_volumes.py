"""Volumes of a pod: one sound source each, named once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ome.local.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from ome.local.apiserver.kinds import names, quantities

_SOURCE_NAMES: Final = frozenset({"name"})


def volumes(listed: Iterable[Mapping[str, Any]], path: str) -> tuple[list[FieldError], dict[str, Mapping[str, Any]]]:
    """(Faults, the volumes by name)."""
    errors: list[FieldError] = []
    known: dict[str, Mapping[str, Any]] = {}
    for index, volume in enumerate(listed):
        place = f"{path}[{index}]"
        faults = _volume_sources(volume, place)
        name = volume.get("name", "")
        if not name:
            faults.append(required(f"{place}.name"))
        else:
            faults += [invalid_value(f"{place}.name", name, text) for text in names.label(name)]
        if name in known:
            faults.append(duplicate(f"{place}.name", name))
        known[name] = volume
        errors += faults
    return errors, known


def _volume_sources(volume: Mapping[str, Any], path: str) -> list[FieldError]:
    sources = [field for field in _SOURCE_ORDER if field in volume]
    sources += [field for field in volume if field not in _SOURCE_NAMES and field not in sources]
    errors: list[FieldError] = []
    for position, source in enumerate(sources):
        if position:
            errors.append(forbidden_field(f"{path}.{source}", "may not specify more than 1 volume type"))
            continue
        errors += _volume_source(source, volume[source], f"{path}.{source}")
    if not sources:
        errors.append(required(path, "must specify a volume type"))
    return errors


_SOURCE_ORDER: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "downwardAPI", "fc", "flexVolume",
    "configMap", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "storageos", "photonPersistentDisk",
    "portworxVolume", "scaleIO", "projected", "csi", "ephemeral", "image",
)  # fmt: skip
_NEEDED: Final = {
    "hostPath": "path",
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
}


def _volume_source(source: str, value: Mapping[str, Any], path: str) -> list[FieldError]:
    field = _NEEDED.get(source)
    errors: list[FieldError] = []
    if field is not None and not value.get(field):
        errors.append(required(f"{path}.{field}"))
    if source == "hostPath" and ".." in str(value.get("path", "")).split("/"):
        errors.append(invalid_value(f"{path}.path", value["path"], "must not contain '..'"))
    if source == "emptyDir" and "sizeLimit" in value and quantities.parse(value["sizeLimit"]) < 0:
        errors.append(forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))
    return errors
