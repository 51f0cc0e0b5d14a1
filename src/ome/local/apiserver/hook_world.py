"""What the dispatcher of webhooks asks of this server: configurations, labels, versions, where a Service lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.core import Core
from ome.local.apiserver.pipeline import Pipeline
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Event
from ome.local.apiserver.versions import to_served, to_stored
from ome.local.apiserver.webhooks import SendError, World

MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
SLICES: Final = "endpointslices.discovery.k8s.io"


class HookWorld:
    """Answers the dispatcher from the store; parsed configurations are kept until one changes."""

    def __init__(self, core: Core, pipeline: Pipeline) -> None:
        self._core = core
        self._pipeline = pipeline
        self._configurations: dict[str, list[Object]] = {}
        self._others: dict[int, tuple[ResourceType, Sequence[ResourceType]]] = {}
        core.store.on_commit(self._hear)
        core.registry.on_change(self._others.clear)

    def _hear(self, resource: str, event: Event) -> None:
        self._configurations.pop(resource, None)

    def world(self) -> World:
        return World(
            mutating=lambda: self._read(MUTATING),
            validating=lambda: self._read(VALIDATING),
            namespace_labels=self._labels,
            decode=self._decode,
            new_uid=self._core.new_uid,
            equivalents=self._equivalents,
            convert=_converted,
        )

    def _read(self, storage: str) -> Sequence[Object]:
        found = self._configurations.get(storage)
        if found is None:
            found = [record.parse() for record in self._core.store.collection(storage).all()]
            self._configurations[storage] = found
        return found

    def _labels(self, namespace: str) -> Mapping[str, str] | None:
        record = self._core.store.collection("namespaces").get("", namespace)
        return record.labels if record is not None else None

    def _decode(self, attributes: Attributes, obj: Object) -> Object:
        return self._pipeline.decoded(attributes.type, obj)

    def _equivalents(self, type_: ResourceType) -> Sequence[ResourceType]:
        """Other served versions of the same objects; looked up once while the resources stay the same."""
        found = self._others.get(id(type_))
        if found is None or found[0] is not type_:
            found = self._others[id(type_)] = (type_, self._find_equivalents(type_))
        return found[1]

    def _find_equivalents(self, type_: ResourceType) -> Sequence[ResourceType]:
        if type_.custom is not None:
            return [other for other in self._core.registry.custom_types(type_.definition) if other is not type_]
        return [
            other
            for other in self._core.registry.all_types()
            if other.storage == type_.storage and other is not type_ and other.custom is None
        ]


def _converted(obj: Object, source: ResourceType, target: ResourceType) -> Object:
    copied = dict(obj)
    return {**to_served(target, to_stored(source, copied)), "apiVersion": target.api_version}


def service_resolver(core: Core) -> Callable[[str, str, int], str]:
    """Finds a ready endpoint of a Service: `https://ADDRESS:PORT`. Raises SendError in a real server's words."""

    def resolve(namespace: str, name: str, port: int) -> str:
        service = core.read("services", namespace, name)
        if service is None:
            raise SendError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return f"https://{spec.get('externalName')}:{port}"
        found = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
        if found is None:
            raise SendError(f'no service port {port} found for service "{name}"')
        endpoint = _endpoint(core, namespace, name, found)
        if endpoint is None:
            raise SendError(f'no endpoints available for service "{name}"')
        return f"https://{endpoint[0]}:{endpoint[1]}"

    return resolve


def _endpoint(core: Core, namespace: str, service: str, port: Mapping[str, Any]) -> tuple[str, int] | None:
    for record in core.store.collection(SLICES).all(namespace):
        if record.labels.get("kubernetes.io/service-name") != service:
            continue
        found = record.parse()
        numbers = [p.get("port") for p in found.get("ports") or () if (p.get("name") or "") == (port.get("name") or "")]
        for endpoint in found.get("endpoints") or ():
            ready = (endpoint.get("conditions") or {}).get("ready", True)
            if ready and endpoint.get("addresses") and numbers and numbers[0]:
                return str(endpoint["addresses"][0]), int(numbers[0])
    return None
