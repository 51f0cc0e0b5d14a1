"""The two webhook configurations (`spec/install-and-operate.md` section 3), and where their server is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ome.api.keys import CONTROL_PLANE, CREATED_BY, CREATED_BY_OME, INFERENCE_SERVICE
from ome.install.roles import MUTATING, VALIDATING, Manifest

SERVICE_NAME: Final = "ome-webhook-server-service"
TIMEOUT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class UrlWebhook:
    """A manager outside the cluster; `base_url` ends without a slash. An absent bundle is patched in by the manager."""

    base_url: str
    ca_bundle: str | None = None

    def client_config(self, path: str) -> Manifest:
        return _with_bundle({"url": f"{self.base_url}{path}"}, self.ca_bundle)


@dataclass(frozen=True, slots=True)
class ServiceWebhook:
    """A manager inside the cluster, behind its Service."""

    namespace: str = "ome"
    name: str = SERVICE_NAME
    port: int = 443
    ca_bundle: str | None = None

    def client_config(self, path: str) -> Manifest:
        service = {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}
        return _with_bundle({"service": service}, self.ca_bundle)


Endpoint = UrlWebhook | ServiceWebhook


def _with_bundle(config: Manifest, ca_bundle: str | None) -> Manifest:
    return config if ca_bundle is None else {**config, "caBundle": ca_bundle}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One webhook: its full name, its path, and what it is called for."""

    name: str
    path: str
    resource: str
    group: str = "ome.io"
    version: str = "v1beta1"
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    feature: str = ""
    namespaced: bool = True


def _ome(verb: str, kind: str, plural: str, role: str, **more: Any) -> Hook:
    return Hook(
        name=f"{kind}.ome-webhook-server.{role}",
        path=f"/{verb}-ome-io-v1beta1-{kind}",
        resource=plural,
        **more,
    )


POD_MUTATOR: Final = Hook(
    name="ome-pod-mutator-webhook.ome-webhook-server.mutator",
    path="/mutate-pods",
    group="",
    version="v1",
    resource="pods",
    operations=("CREATE",),
)
REVISION_GUARD: Final = Hook(
    name="controllerrevision-immutability.ome-webhook-server.validator",
    path="/validate-apps-v1-controllerrevision",
    group="apps",
    version="v1",
    resource="controllerrevisions",
    operations=("UPDATE",),
)
MUTATING_HOOKS: Final = (
    _ome("mutate", "inferenceservice", "inferenceservices", "defaulter"),
    _ome("mutate", "servingruntime", "servingruntimes", "defaulter"),
    _ome("mutate", "clusterservingruntime", "clusterservingruntimes", "defaulter", namespaced=False),
    POD_MUTATOR,
)
_WITH_DELETE: Final = ("CREATE", "UPDATE", "DELETE")
VALIDATING_HOOKS: Final = (
    _ome("validate", "inferenceservice", "inferenceservices", "validator"),
    _ome("validate", "servingruntime", "servingruntimes", "validator"),
    _ome("validate", "clusterservingruntime", "clusterservingruntimes", "validator", namespaced=False),
    _ome("validate", "basemodel", "basemodels", "validator"),
    _ome("validate", "clusterbasemodel", "clusterbasemodels", "validator", namespaced=False),
    _ome("validate", "inferencereplica", "inferencereplicas", "validator"),
    Hook(
        name="ome-benchmark-job-validator-webhook.ome-webhook-server.validator",
        path="/validate-ome-io-v1beta1-benchmarkjob",
        resource="benchmarkjobs",
    ),
    _ome("validate", "rolloutpolicy", "rolloutpolicies", "validator", operations=_WITH_DELETE, feature="rolloutPolicy"),
    _ome(
        "validate",
        "autoscalerpolicy",
        "autoscalerpolicies",
        "validator",
        operations=_WITH_DELETE,
        feature="autoscalerPolicy",
    ),
    REVISION_GUARD,
)


def webhook_configurations(
    endpoint: Endpoint, namespace: str, *, features: tuple[str, ...] = (), inject_ca_from: str = ""
) -> list[Manifest]:
    """Both configurations. `inject_ca_from`: `<namespace>/<Certificate>` when cert-manager keeps the bundle."""
    return [
        _configuration(
            "MutatingWebhookConfiguration", MUTATING, MUTATING_HOOKS, endpoint, namespace, features, inject_ca_from
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            VALIDATING,
            VALIDATING_HOOKS,
            endpoint,
            namespace,
            features,
            inject_ca_from,
        ),
    ]


def _configuration(
    kind: str,
    name: str,
    hooks: tuple[Hook, ...],
    endpoint: Endpoint,
    namespace: str,
    features: tuple[str, ...],
    inject_ca_from: str,
) -> Manifest:
    metadata: Manifest = {"name": name}
    if inject_ca_from:
        metadata["annotations"] = {"cert-manager.io/inject-ca-from": inject_ca_from}
    installed = [hook for hook in hooks if not hook.feature or hook.feature in features]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": [_webhook(hook, endpoint, namespace) for hook in installed],
    }


def _webhook(hook: Hook, endpoint: Endpoint, namespace: str) -> Manifest:
    return {
        "name": hook.name,
        "clientConfig": endpoint.client_config(hook.path),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": TIMEOUT_SECONDS,
        "rules": [
            {
                "apiGroups": [hook.group],
                "apiVersions": [hook.version],
                "resources": [hook.resource],
                "operations": list(hook.operations),
                "scope": "Namespaced" if hook.namespaced else "Cluster",
            }
        ],
        **_scope(hook, namespace),
    }


def _scope(hook: Hook, namespace: str) -> Manifest:
    if hook is POD_MUTATOR:
        return {
            "objectSelector": {"matchExpressions": [{"key": INFERENCE_SERVICE, "operator": "Exists"}]},
            "namespaceSelector": {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "DoesNotExist"}]},
        }
    if hook is REVISION_GUARD:
        # With the manager down, StatefulSets and DaemonSets elsewhere must still roll (spec/runtime-revisions.md 9.4).
        marked = f"'{CREATED_BY}' in oldObject.metadata.annotations"
        expression = (
            f"has(oldObject.metadata.annotations) && {marked} && "
            f"oldObject.metadata.annotations['{CREATED_BY}'] == '{CREATED_BY_OME}'"
        )
        return {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "matchConditions": [{"name": "created-by-ome", "expression": expression}],
        }
    return {}
