"""What a process pod is made of besides its spec: Secrets, ConfigMaps, tokens, claims, addresses and names.

Read through the public API when a container starts; Services come from a cache, because pods follow their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ome.api.core import Service
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.errors import NotFound
from ome.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS, SERVICE_ACCOUNTS
from ome.local.node.process.environment import Sources, service_environment
from ome.local.node.process.volumes import Material, decoded, node_path
from ome.local.objects import Object

HOST_IP = "198.18.0.1"
TOKEN_SECONDS = 3607


@dataclass(frozen=True, slots=True)
class Gathered:
    """The same facts in the two forms that environments and volumes want."""

    sources: Sources
    volumes: Material


class Materials:
    """Gathers for one node stand-in."""

    def __init__(
        self, client: Client, services: Cache[Service], address_of: Callable[[str], str], data: Path, domain: str
    ) -> None:
        """`address_of` gives a pod's address by its uid; `data` is the data folder."""
        self._client = client
        self._services = services
        self._address_of = address_of
        self._folder = data
        self._domain = domain
        self._hosts: dict[Path, Object] = {}

    def pod_ip(self, pod: Object) -> str:
        """The pod's address in status."""
        return str(pod.status.get("podIP") or "") or self._address_of(pod.uid)

    async def gather(self, pod: Object, container: Mapping[str, Any], seen_ip: str) -> Gathered:
        """All that a container needs. `seen_ip` is the address under which the pod sees itself."""
        wanted = references_of(pod, container)
        config_maps = {name: await self._data(CONFIG_MAPS, name, pod.namespace) for name in wanted.config_maps}
        secrets = {name: await self._data(SECRETS, name, pod.namespace) for name in wanted.secrets}
        tokens = {audience: await self._token(pod, audience) for audience in wanted.audiences}
        claims = {name: await self._claim(pod, name) for name in wanted.claims}
        maps = {name: data for name, data in config_maps.items() if data is not None}
        hidden = {name: data for name, data in secrets.items() if data is not None}
        sources = Sources(
            secrets=_texts(hidden),
            config_maps=_texts(maps),
            pod_ip=seen_ip,
            host_ip=HOST_IP,
            services=self._service_environment(pod),
        )
        found = {name: path for name, path in claims.items() if path is not None}
        return Gathered(sources, Material(maps, hidden, tokens, found, seen_ip, HOST_IP))

    async def _data(self, resource: Any, name: str, namespace: str) -> dict[str, bytes] | None:
        try:
            found: dict[str, Any] = await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        return decoded({"kind": resource.kind, **found})

    async def _token(self, pod: Object, audience: str) -> str:
        account = str(pod.spec.get("serviceAccountName") or "default")
        spec: dict[str, Any] = {
            "expirationSeconds": TOKEN_SECONDS,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
        }
        if audience:
            spec["audiences"] = [audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._client.create(
            SERVICE_ACCOUNTS, request, namespace=pod.namespace, name=account, subresource="token"
        )
        return str((answer.get("status") or {}).get("token") or "")

    async def _claim(self, pod: Object, name: str) -> Path | None:
        claim: dict[str, Any] | None = await self._client.find(PERSISTENT_VOLUME_CLAIMS, name, pod.namespace)
        bound = ((claim or {}).get("spec") or {}).get("volumeName")
        if not bound:
            return None
        volume: dict[str, Any] | None = await self._client.find(PERSISTENT_VOLUMES, bound)
        path = (((volume or {}).get("spec") or {}).get("hostPath") or {}).get("path")
        # Claims are shared by all nodes: their folders lie beside those of the nodes.
        return node_path(self._folder, "shared", str(path)) if path else None

    def _service_environment(self, pod: Object) -> dict[str, str]:
        found = []
        for service in self._services.list():
            here = service.metadata.namespace == pod.namespace and pod.spec.get("enableServiceLinks", True)
            kubernetes = service.metadata.key == ("default", "kubernetes")
            if not (here or kubernetes) or not has_address(service):
                continue
            ports = [(str(port.get("name") or ""), int(port["port"])) for port in service.spec.ports]
            found.append((service.metadata.name, service.spec.cluster_ip, ports))
        return service_environment(sorted(found))

    # -- names -------------------------------------------------------------------------------------------------------

    def hosts_file(self, pod: Object, folder: Path) -> Path:
        """The pod's /etc/hosts, kept up to date until `forget`."""
        path = folder / "hosts"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._hosts[path] = pod
        self._write_hosts(path, pod)
        return path

    def refresh_hosts(self) -> None:
        """Services changed: write all hosts files anew, in place, because containers have them mounted."""
        for path, pod in [*self._hosts.items()]:
            if path.exists():
                self._write_hosts(path, pod)
            else:
                del self._hosts[path]

    def _write_hosts(self, path: Path, pod: Object) -> None:
        name = str(pod.spec.get("hostname") or pod.name)
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{self.pod_ip(pod)} {name}"]
        for service in self._services.list():
            if has_address(service):
                names = service_names(service.metadata.name, service.metadata.namespace, pod.namespace, self._domain)
                lines.append(f"{service.spec.cluster_ip} {' '.join(names)}")
        text = "\n".join(lines) + "\n"
        if not path.exists() or path.read_text() != text:
            with path.open("r+" if path.exists() else "w") as file:
                file.write(text)
                file.truncate()


def has_address(service: Service) -> bool:
    """Whether a Service has an address of its own (headless ones and ExternalName have none)."""
    return bool(service.spec.cluster_ip) and service.spec.cluster_ip != "None"


def service_names(name: str, namespace: str, seen_from: str, domain: str) -> list[str]:
    """The names of a Service as a pod of `seen_from` knows it."""
    names = [f"{name}.{namespace}.svc.{domain}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*names, name] if namespace == seen_from else names


def _texts(objects: Mapping[str, Mapping[str, bytes]]) -> dict[str, dict[str, str]]:
    return {
        name: {key: value.decode("utf-8", "replace") for key, value in data.items()} for name, data in objects.items()
    }


@dataclass(frozen=True, slots=True)
class References:
    """The names a container refers to."""

    config_maps: frozenset[str]
    secrets: frozenset[str]
    audiences: frozenset[str]
    claims: frozenset[str]


def references_of(pod: Object, container: Mapping[str, Any]) -> References:
    """What a container's environment and volumes refer to. Pure."""
    maps: set[str] = set()
    secrets: set[str] = set()
    audiences: set[str] = set()
    claims: set[str] = set()
    for entry in container.get("envFrom") or ():
        _add(maps, entry.get("configMapRef"), "name")
        _add(secrets, entry.get("secretRef"), "name")
    for entry in container.get("env") or ():
        source = entry.get("valueFrom") or {}
        _add(maps, source.get("configMapKeyRef"), "name")
        _add(secrets, source.get("secretKeyRef"), "name")
    mounted = {mount["name"] for mount in container.get("volumeMounts") or ()}
    for volume in pod.spec.get("volumes") or ():
        if volume["name"] not in mounted:
            continue
        _add(maps, volume.get("configMap"), "name")
        _add(secrets, volume.get("secret"), "secretName")
        _add(claims, volume.get("persistentVolumeClaim"), "claimName")
        for source in _projections(volume):
            _add(maps, source.get("configMap"), "name")
            _add(secrets, source.get("secret"), "name")
            if source.get("serviceAccountToken") is not None:
                audiences.add(str(source["serviceAccountToken"].get("audience") or ""))
    return References(frozenset(maps), frozenset(secrets), frozenset(audiences), frozenset(claims))


def _projections(volume: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (volume.get("projected") or {}).get("sources") or ()


def _add(names: set[str], source: Mapping[str, Any] | None, key: str) -> None:
    if source and source.get(key):
        names.add(str(source[key]))
