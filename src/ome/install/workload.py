"""The manager inside a cluster: Deployment, Services, cert-manager's certificate (`spec/manager.md` section 1)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

from ome.install.configuration import HUB
from ome.install.roles import MANAGER, WEBHOOK_SECRET, Manifest
from ome.install.webhooks import SERVICE_NAME

CERTIFICATES_PATH: Final = "/tmp/k8s-webhook-server/serving-certs"
Certificates = Literal["self-made", "cert-manager"]

FIXED_ARGUMENTS: Final = ("--metrics-bind-address=:8080", "--leader-elect", "--webhook", "--zap-encoder=console")
TUNED_ARGUMENTS: Final = (
    "--inferenceservice-max-concurrent-reconciles=4",
    "--inferencereplica-max-concurrent-reconciles=4",
    "--config-cache-ttl=30s",
    "--accelerator-resources=nvidia.com/gpu,google.com/tpu",
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    "--leader-elect-lease-duration=60s",
    "--leader-elect-renew-deadline=40s",
    "--leader-elect-retry-period=8s",
)
"""The value-driven flags in their order (MA-2)."""


def manager_arguments() -> list[str]:
    return [*FIXED_ARGUMENTS, *TUNED_ARGUMENTS]


def manager_workload(
    namespace: str, config: list[Manifest], *, tag: str, replicas: int, certificates: Certificates
) -> list[Manifest]:
    """Deployment and Services. `config`: the ConfigMaps whose change must restart the manager."""
    checksum = hashlib.sha256(json.dumps([entry["data"] for entry in config], sort_keys=True).encode()).hexdigest()
    objects = [
        _deployment(namespace, checksum, tag, replicas, certificates),
        _service(namespace, MANAGER, [{"name": "metrics", "port": 8080, "targetPort": "metrics"}]),
        _service(namespace, SERVICE_NAME, [{"name": "webhook", "port": 443, "targetPort": "webhook-server"}]),
    ]
    return objects + _cert_manager(namespace) if certificates == "cert-manager" else objects


def _service(namespace: str, name: str, ports: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"control-plane": MANAGER}, "ports": ports},
    }


def _deployment(namespace: str, checksum: str, tag: str, replicas: int, certificates: Certificates) -> Manifest:
    labels = {"control-plane": MANAGER}
    pod: dict[str, Any] = {
        "serviceAccountName": MANAGER,
        "terminationGracePeriodSeconds": 10,
        "containers": [_container(tag, mounted=certificates == "cert-manager")],
    }
    if certificates == "cert-manager":
        pod["volumes"] = [{"name": "cert", "secret": {"secretName": WEBHOOK_SECRET, "defaultMode": 420}}]
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "8080",
        "checksum/config": checksum,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def _container(tag: str, *, mounted: bool) -> Manifest:
    resources = {"cpu": "2", "memory": "4Gi"}
    container: Manifest = {
        "name": "manager",
        "image": f"{HUB}/ome-manager:{tag}",
        "args": manager_arguments(),
        "env": [
            _downward("POD_NAMESPACE", "metadata.namespace"),
            _downward("POD_NAME", "metadata.name"),
            {"name": "SECRET_NAME", "value": WEBHOOK_SECRET},
        ],
        "ports": [
            {"name": "webhook-server", "containerPort": 9443, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 8080, "protocol": "TCP"},
            {"name": "probes", "containerPort": 8081, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8081},
            "initialDelaySeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": 8081},
            "initialDelaySeconds": 10,
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 10,
        },
        "resources": {"requests": resources, "limits": resources},
    }
    if mounted:
        container["volumeMounts"] = [{"name": "cert", "mountPath": CERTIFICATES_PATH, "readOnly": True}]
    return container


def _downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _cert_manager(namespace: str) -> list[Manifest]:
    host = f"{SERVICE_NAME}.{namespace}.svc"
    return [
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": "selfsigned-issuer", "namespace": namespace},
            "spec": {"selfSigned": {}},
        },
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": {"name": "serving-cert", "namespace": namespace},
            "spec": {
                "commonName": host,
                "dnsNames": [host, f"{host}.cluster.local"],
                "issuerRef": {"kind": "Issuer", "name": "selfsigned-issuer"},
                "secretName": WEBHOOK_SECRET,
            },
        },
    ]
