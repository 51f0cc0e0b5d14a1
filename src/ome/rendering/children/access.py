"""How clients reach a service: URLs, the Ingress, HTTPRoutes (spec/inference-service.md section 5).

The Service `{isvc}` is in services.py. Whether an Ingress or a route exists is decided by the InferenceService
controller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ome.api import keys, names
from ome.api.config import IngressConfig
from ome.rendering.metadata import is_copied

from .metadata import Json, Owner, object_metadata

CLUSTER_DOMAIN = "svc.cluster.local"

_PLACEHOLDER = re.compile(r"\{\{-?\s*\.(\w+)\s*-?\}\}")
_DEFAULT_TEMPLATE = "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}"


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """The `ingress` entry of the operator's configuration, with a service's annotations laid over it."""

    disable_ingress: bool = True
    gateway_api: bool = False
    domain: str = CLUSTER_DOMAIN
    domain_template: str = _DEFAULT_TEMPLATE
    url_scheme: str = "http"
    ingress_class: str = "istio"
    gateway: str = ""
    gateway_class: str = ""
    additional_gateways: tuple[Mapping[str, Any], ...] = ()
    per_service_host: bool = False
    shared_host_prefix: str = ""
    default_timeout_seconds: int | None = None

    @classmethod
    def configured(cls, config: IngressConfig) -> AccessConfig:
        """From the operator's entry `ingress`."""
        return cls(
            disable_ingress=config.disable_ingress_creation,
            gateway_api=config.enable_gateway_api,
            domain=config.ingress_domain,
            domain_template=config.domain_template,
            url_scheme=config.url_scheme,
            ingress_class=config.ingress_class_name or "",
            gateway=config.ome_ingress_gateway,
            gateway_class=config.ome_ingress_gateway_class,
            additional_gateways=tuple(
                {"omeIngressGateway": entry.ome_ingress_gateway, "ingressDomain": entry.ingress_domain}
                for entry in config.additional_ingress_gateways or ()
            ),
            per_service_host=config.per_isvc_subdomain,
            shared_host_prefix=config.shared_host_prefix,
            default_timeout_seconds=config.default_route_timeout_seconds,
        )

    def for_service(self, annotations: Mapping[str, str]) -> AccessConfig:
        """With the service's own annotations applied; an empty value is ignored where the spec says so."""
        disable = annotations.get(keys.INGRESS_DISABLE_CREATION)
        per_host = annotations.get(keys.INGRESS_PER_ISVC_SUBDOMAIN)
        return replace(
            self,
            disable_ingress=self.disable_ingress if disable is None else disable == "true",
            domain=annotations.get(keys.INGRESS_DOMAIN) or self.domain,
            domain_template=annotations.get(keys.INGRESS_DOMAIN_TEMPLATE) or self.domain_template,
            url_scheme=annotations.get(keys.INGRESS_URL_SCHEME) or self.url_scheme,
            gateway=annotations.get(keys.INGRESS_GATEWAY) or self.gateway,
            additional_gateways=_gateways(annotations.get(keys.INGRESS_ADDITIONAL_GATEWAYS))
            or self.additional_gateways,
            per_service_host=self.per_service_host if per_host is None else per_host == "true",
            shared_host_prefix=annotations.get(keys.INGRESS_SHARED_HOST_PREFIX, self.shared_host_prefix),
        )

    def host(self, name: str, namespace: str) -> str:
        """The host of a Service by the domain template; an unknown placeholder stays as it is written."""
        values = {"Name": name, "Namespace": namespace, "IngressDomain": self.domain}
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), self.domain_template)


def _gateways(text: str | None) -> tuple[Mapping[str, Any], ...]:
    if not text:
        return ()
    try:
        decoded = json.loads(text)
    except ValueError:
        return ()
    if not isinstance(decoded, list):
        return ()
    return tuple(entry for entry in decoded if isinstance(entry, dict))


@dataclass(frozen=True, slots=True)
class Backend:
    """A component's Service as a target: its component, first port, and request timeout."""

    component: str
    port: int
    timeout_seconds: int | None = None


def entry_backend(backends: Mapping[str, Backend]) -> Backend | None:
    """What clients reach first: the router, else the engine."""
    return backends.get("router") or backends.get("engine")


def component_url(config: AccessConfig, owner: Owner, component: str) -> str:
    """`status.components.{c}.url`: no port, ingress on or off."""
    return f"{config.url_scheme}://{config.host(names.component_service(owner.name, component), owner.namespace)}"


def cluster_url(owner: Owner, service: str, port: int) -> str:
    return f"http://{service}.{owner.namespace}.{CLUSTER_DOMAIN}:{port}"


def ingress(
    owner: Owner, config: AccessConfig, backends: Mapping[str, Backend], annotations: Mapping[str, str]
) -> Json:
    """Body of the Ingress `{isvc}`; `backends` must hold an engine or a router. No labels, the service's
    annotations.
    """
    entry = entry_backend(backends)
    assert entry is not None
    targets = [(names.shortened(owner.name), entry)]
    fronted = "router" in backends or "decoder" in backends
    targets += [
        (names.component_service(owner.name, component), backends[component])
        for component in ("router", "engine", "decoder")
        if component in backends and (fronted or component != "engine")
    ]
    kept = {key: value for key, value in annotations.items() if is_copied(key)}
    rules = [_rule(owner, config, name, backend) for name, backend in targets]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": object_metadata(owner, owner.name, annotations=kept),
        "spec": {"rules": rules, **({"ingressClassName": config.ingress_class} if config.ingress_class else {})},
    }


def _rule(owner: Owner, config: AccessConfig, name: str, backend: Backend) -> Json:
    service = {"name": names.component_service(owner.name, backend.component), "port": {"number": backend.port}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    return {"host": config.host(name, owner.namespace), "http": {"paths": [path]}}


def ingress_url(config: AccessConfig, owner: Owner, port: int) -> str:
    return f"{config.url_scheme}://{config.host(names.shortened(owner.name), owner.namespace)}:{port}"


def gateway_url(config: AccessConfig, owner: Owner) -> str:
    """`status.url` behind a Gateway: a host of its own, or a path below the shared host."""
    if config.per_service_host:
        return f"{config.url_scheme}://{config.host(names.shortened(owner.name), owner.namespace)}"
    return f"{config.url_scheme}://{_shared_host(config)}/{owner.namespace}/{owner.name}/"


def _shared_host(config: AccessConfig) -> str:
    return f"{config.shared_host_prefix}.{config.domain}" if config.shared_host_prefix else config.domain


def http_route(owner: Owner, config: AccessConfig, name: str, backend: Backend, labels: Mapping[str, str]) -> Json:
    """Body of one HTTPRoute: `name` is `{isvc}` (the entry) or `{isvc}-{c}`; its prefix is rewritten to `/`."""
    timeout = config.default_timeout_seconds if backend.timeout_seconds is None else backend.timeout_seconds
    prefix = "/" if config.per_service_host else f"/{owner.namespace}/{name}/"
    rule: Json = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [
            {
                "type": "RequestHeaderModifier",
                "requestHeaderModifier": {
                    "set": [
                        {"name": "OMe-Isvc-Name", "value": owner.name},
                        {"name": "OME-Isvc-Namespace", "value": owner.namespace},
                    ]
                },
            },
            {
                "type": "URLRewrite",
                "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
            },
        ],
        "backendRefs": [{"name": names.component_service(owner.name, backend.component), "port": backend.port}],
    }
    if timeout is not None:
        rule["timeouts"] = {"request": f"{timeout}s"}
    kept = {key: value for key, value in labels.items() if key != keys.VISIBILITY}
    host_name = owner.name if name == owner.name else names.component_service(owner.name, backend.component)
    host = config.host(host_name, owner.namespace) if config.per_service_host else _shared_host(config)
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": object_metadata(
            owner, name, labels={**kept, keys.INFERENCE_SERVICE: owner.name, keys.COMPONENT: backend.component}
        ),
        "spec": {"parentRefs": _parents(config), "hostnames": [host], "rules": [rule]},
    }


def route_name(owner: Owner, component: str | None) -> str:
    return owner.name if component is None else names.component_name(owner.name, component)


def _parents(config: AccessConfig) -> list[Json]:
    names = [config.gateway, *(str(entry.get("omeIngressGateway", "")) for entry in config.additional_gateways)]
    parents = []
    for name in names:
        namespace, separator, gateway = name.partition("/")
        if not separator:
            continue
        parents.append(
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace, "name": gateway}
        )
    return parents
