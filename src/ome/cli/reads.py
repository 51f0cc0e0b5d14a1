"""The readings that most commands share: a service and its InferenceReplicas. Runtimes are `ome.cli.runtime_reads`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.evidence.replicas import Replicas, claims_service, collect, selector_for
from ome.cli.session import Collection, Session, reason_of
from ome.kube.errors import KubeError
from ome.kube.resources import INFERENCE_REPLICAS, INFERENCE_SERVICES


def check_service_name(name: str) -> None:
    if not objects.is_subdomain(name):
        raise CliError(
            f'InferenceService name "{name}" is invalid: a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        )


def list_replicas(session: Session, service: Mapping[str, Any], *, page: int = 500, pages: int = 2) -> Collection:
    """The listing of a service's InferenceReplicas; a service with a long name costs the whole namespace's."""
    name = objects.name(service)
    selector = selector_for(name)
    found = session.listing(
        INFERENCE_REPLICAS, objects.namespace(service), label_selector=selector, page=page, pages=pages
    )
    if selector:
        return found
    claiming = [replica for replica in found.items if claims_service(replica, service)]
    return Collection(claiming, found.pages, found.requests, found.truncated, found.resource_version)


def read_replicas(session: Session, service: Mapping[str, Any]) -> Replicas:
    """The service's replicas, or the reason why they cannot be read."""
    try:
        found = list_replicas(session, service)
    except KubeError as error:
        return Replicas(unavailable=reason_of(error))
    return collect(service, found.items, truncated=found.truncated)


def get_service(session: Session, name: str) -> dict[str, Any]:
    """The InferenceService of the command line; raises what the API says."""
    check_service_name(name)
    return session.get(INFERENCE_SERVICES, name, session.namespace)
