"""The volumes of a process pod, made on this machine and mounted where the pod wants them.

emptyDir, configMap, secret, downwardAPI, projected (with the ServiceAccount's token), hostPath and persistent volume
claims. A simulated node's file system lies in the data folder: hostPath `/x` is `<data>/nodes/<node>/x`, so that a pod
never touches the laptop's own files; a path that is in the data folder already stands for itself.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ome.local.node.process.environment import field_value, resource_value
from ome.local.node.process.rootfs import Mount
from ome.local.objects import Object

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class Material:
    """What volumes are filled from. Secrets' data are text here already decoded to bytes; names are in the namespace.

    `tokens` maps an audience ("" is the API server's) to a ServiceAccount token; `claims` maps a claim to the folder of
    its volume.
    """

    config_maps: Mapping[str, Mapping[str, bytes]]
    secrets: Mapping[str, Mapping[str, bytes]]
    tokens: Mapping[str, str]
    claims: Mapping[str, Path]
    pod_ip: str
    host_ip: str


def decoded(obj: Mapping[str, Any]) -> dict[str, bytes]:
    """The data of a ConfigMap or Secret as files would hold it."""
    if obj.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    found = {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    found.update({key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()})
    return found


def node_path(data: Path, node: str, path: str) -> Path:
    """Where a path of a simulated node's file system lies on this machine; never outside the data folder."""
    inside = os.path.normpath("/" + path.lstrip("/"))
    if Path(inside).is_relative_to(data):
        return Path(inside)
    return data / "nodes" / node / inside.lstrip("/")


class Volumes:
    """The volume folders of all pods, below `<data>/pods/<uid>/volumes`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._pods = data / "pods"

    def folder(self, uid: str) -> Path:
        """Everything of a pod on this machine."""
        return self._pods / uid

    def uids(self) -> set[str]:
        """The pods that have a folder."""
        return {path.name for path in self._pods.iterdir()} if self._pods.is_dir() else set()

    def remove(self, uid: str) -> None:
        """Forget a pod's folders, logs included."""
        shutil.rmtree(self._pods / uid, ignore_errors=True)

    def mounts(self, pod: Object, container: Mapping[str, Any], material: Material) -> list[Mount]:
        """Make what the container mounts, and say where. Raises OSError with a text for the user."""
        volumes = {volume["name"]: volume for volume in pod.spec.get("volumes") or ()}
        found = []
        for wanted in container.get("volumeMounts") or ():
            volume = volumes.get(wanted["name"])
            if volume is None:
                raise OSError(f"volume {wanted['name']} is not declared")
            source, read_only = self._source(pod, container, volume, material)
            if wanted.get("subPath"):
                source = _below(source, str(wanted["subPath"]))
            target = os.path.normpath(str(wanted["mountPath"]))
            found.append(Mount(str(source), target, bool(wanted.get("readOnly")) or read_only))
        return found

    def _source(
        self, pod: Object, container: Mapping[str, Any], volume: Mapping[str, Any], material: Material
    ) -> tuple[Path, bool]:
        folder = self._pods / pod.uid / "volumes" / str(volume["name"])
        if "emptyDir" in volume:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
            return folder, False
        if volume.get("hostPath"):
            return self._host_path(pod, volume["hostPath"]), False
        if volume.get("persistentVolumeClaim"):
            return self._claim(volume["persistentVolumeClaim"], material)
        files = _files(pod, container, volume, material)
        if files is None:
            kinds = ", ".join(key for key in volume if key != "name") or "nothing"
            raise OSError(f"volume {volume['name']}: {kinds} is not supported by process pods")
        _write(folder, files)
        return folder, True

    def _host_path(self, pod: Object, source: Mapping[str, Any]) -> Path:
        path = node_path(self._data, str(pod.spec.get("nodeName") or "node"), str(source.get("path") or "/"))
        kind = str(source.get("type") or "")
        if kind in ("", "DirectoryOrCreate") and not path.exists():
            path.mkdir(parents=True)
        elif kind == "FileOrCreate" and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        checks = {"Directory": path.is_dir, "File": path.is_file}
        if kind in checks and not checks[kind]():
            raise OSError(f"hostPath type check failed: {source.get('path')} is not a {kind.lower()}")
        return path

    def _claim(self, source: Mapping[str, Any], material: Material) -> tuple[Path, bool]:
        name = str(source.get("claimName") or "")
        folder = material.claims.get(name)
        if folder is None:
            raise OSError(f'persistentvolumeclaim "{name}" not found')
        folder.mkdir(parents=True, exist_ok=True)
        return folder, bool(source.get("readOnly"))


def _below(folder: Path, part: str) -> Path:
    path = folder / os.path.normpath("/" + part).lstrip("/")
    if not path.exists():
        path.mkdir(parents=True)
    return path


def _files(
    pod: Object, container: Mapping[str, Any], volume: Mapping[str, Any], material: Material
) -> dict[str, bytes] | None:
    """The files of a volume that is made of API objects; None for another kind of volume."""
    if volume.get("configMap"):
        return _selected("configmap", volume["configMap"], "name", material.config_maps)
    if volume.get("secret"):
        return _selected("secret", volume["secret"], "secretName", material.secrets)
    if volume.get("downwardAPI"):
        return _downward(pod, container, volume["downwardAPI"].get("items") or (), material)
    if volume.get("projected"):
        return _projected(pod, container, volume["projected"].get("sources") or (), material)
    return None


def _projected(
    pod: Object, container: Mapping[str, Any], sources: Iterable[Mapping[str, Any]], material: Material
) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for source in sources:
        if source.get("configMap"):
            found.update(_selected("configmap", source["configMap"], "name", material.config_maps))
        elif source.get("secret"):
            found.update(_selected("secret", source["secret"], "name", material.secrets))
        elif source.get("downwardAPI"):
            found.update(_downward(pod, container, source["downwardAPI"].get("items") or (), material))
        elif source.get("serviceAccountToken"):
            wanted = source["serviceAccountToken"]
            token = material.tokens.get(str(wanted.get("audience") or ""), "")
            found[str(wanted.get("path") or "token")] = token.encode()
    return found


def _selected(
    what: str, source: Mapping[str, Any], name_key: str, objects: Mapping[str, Mapping[str, bytes]]
) -> dict[str, bytes]:
    name = str(source.get(name_key) or "")
    data = objects.get(name)
    if data is None:
        if source.get("optional"):
            return {}
        raise OSError(f'{what} "{name}" not found')
    if not source.get("items"):
        return dict(data)
    found = {}
    for item in source["items"]:
        if item["key"] not in data:
            raise OSError(f"references non-existent {what} key: {item['key']}")
        found[str(item["path"])] = data[item["key"]]
    return found


def _downward(
    pod: Object, container: Mapping[str, Any], items: Iterable[Mapping[str, Any]], material: Material
) -> dict[str, bytes]:
    found = {}
    for item in items:
        if item.get("fieldRef"):
            text = field_value(pod, str(item["fieldRef"].get("fieldPath")), material.pod_ip, material.host_ip)
        else:
            text = resource_value(pod, container, item.get("resourceFieldRef") or {})
        found[str(item["path"])] = text.encode()
    return found


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a folder; one that is there with the same content is left alone, others go."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / os.path.normpath("/" + name).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() == content:
            continue
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(content)
        beside.chmod(0o644)
        beside.replace(path)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if str(path.relative_to(folder)) not in files and not path.name.startswith("."):
            path.unlink()
