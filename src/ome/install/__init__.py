"""The manifests of an install, one source for `ome local up`, `make install`, the tests and the charts.

Data only: who applies them decides how. `python -m ome.install print` writes them as YAML, `apply` hands them to
kubectl.
"""

from __future__ import annotations

import ome
from ome.api.crds import crds
from ome.install.configuration import Flavour, config_maps
from ome.install.roles import Manifest, manager_access, metadata_access, user_roles
from ome.install.webhooks import Endpoint, ServiceWebhook, UrlWebhook, webhook_configurations
from ome.install.workload import Certificates, manager_workload

__all__ = ["Certificates", "Flavour", "Manifest", "ServiceWebhook", "UrlWebhook", "manifests"]


def manifests(
    *,
    webhook: Endpoint | None = None,
    namespace: str = "ome",
    config: Flavour = "chart",
    features: tuple[str, ...] = (),
    certificates: Certificates = "self-made",
    workload: bool = False,
    replicas: int = 3,
    tag: str = ome.__version__,
) -> list[Manifest]:
    """Every object of an install, in an order in which they can be created.

    `webhook`: where the API server finds the webhooks; None leaves both configurations out, and nothing is checked.
    `config`: the ConfigMap with the chart's defaults, or the plain one of a manifest install. `features`: alpha kinds,
    `rolloutPolicy` and `autoscalerPolicy`. `workload`: with Deployment and Services, for a manager inside the cluster.
    `certificates`: kept by the manager itself (then its role reaches the Secret and both configurations), or by
    cert-manager. The objects are shared with later calls: do not change them.
    """
    maps = config_maps(namespace, config, tag=tag)
    managed = certificates == "cert-manager"
    objects: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"control-plane": "ome-controller-manager"}},
        },
        *crds(features=features),
        *manager_access(namespace, own_certificates=not managed),
        *metadata_access(namespace),
        *user_roles(),
        *maps,
    ]
    if workload:
        objects += manager_workload(namespace, maps, tag=tag, replicas=replicas, certificates=certificates)
    if webhook is not None:
        objects += webhook_configurations(
            webhook, namespace, features=features, inject_ca_from=f"{namespace}/serving-cert" if managed else ""
        )
    return objects
