"""Which InferenceReplicas are really a service's, and whether OME has caught up on them (spec/cli-instance.md section
1). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ome.api.keys import INFERENCE_SERVICE, PARENT_GENERATION
from ome.cli.evidence import objects

API_VERSION = "ome.io/v1beta1"

MAX_LABEL_VALUE = 63


def selector_for(service: str) -> str:
    """The label selector of a service's replicas; `""` when its name cannot be a label value and all must be listed."""
    return f"{INFERENCE_SERVICE}={service}" if len(service) <= MAX_LABEL_VALUE else ""


def claims_service(replica: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Whether a listed replica says it belongs to the service at all: by label, parent or owner."""
    name = objects.name(service)
    return (
        objects.label(replica, INFERENCE_SERVICE) == name
        or objects.text(replica, "spec", "parentRef", "name") == name
        or any(objects.text(owner, "name") == name for owner in objects.items(replica, "metadata", "ownerReferences"))
    )


def controller_owners(replica: Mapping[str, Any]) -> list[Any]:
    return [o for o in objects.items(replica, "metadata", "ownerReferences") if objects.get(o, "controller") is True]


def belongs_to(replica: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Complete identity, parentRef, and exactly one controller owner: this service, by name and UID."""
    if not (
        objects.name(replica) and objects.namespace(replica) == objects.namespace(service) and objects.uid(replica)
    ):
        return False
    if objects.text(replica, "spec", "parentRef", "name") != objects.name(service):
        return False
    owners = controller_owners(replica)
    return len(owners) == 1 and (
        objects.text(owners[0], "apiVersion"),
        objects.text(owners[0], "kind"),
        objects.text(owners[0], "name"),
        objects.text(owners[0], "uid"),
    ) == (API_VERSION, "InferenceService", objects.name(service), objects.uid(service))


def component_of(replica: Mapping[str, Any]) -> str:
    return objects.text(replica, "spec", "component")


def observed_generation(replica: Mapping[str, Any]) -> int | None:
    return objects.integer(replica, "status", "observedGeneration")


def is_observed(replica: Mapping[str, Any]) -> bool:
    """OME's status reflects the replica's own generation."""
    return observed_generation(replica) is not None and observed_generation(replica) == objects.generation(replica)


def parent_stamp(replica: Mapping[str, Any]) -> int | None:
    return objects.parse_generation(objects.annotation(replica, PARENT_GENERATION))


def is_current(replica: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Fresh: status on the replica's generation, and the replica on the service's (spec/cli-instance.md section 1)."""
    stamp = parent_stamp(replica)
    return is_observed(replica) and stamp is not None and stamp == objects.generation(service)


@dataclass(frozen=True, slots=True)
class Replicas:
    """A service's replicas, sorted by component then name, and what was wrong with the collection."""

    accepted: tuple[Mapping[str, Any], ...] = ()
    rejected: int = 0
    truncated: bool = False
    unavailable: str = ""

    @property
    def complete(self) -> bool:
        return not (self.rejected or self.truncated or self.unavailable)

    def of(self, component: str) -> list[Mapping[str, Any]]:
        return [replica for replica in self.accepted if component_of(replica) == component]


def collect(service: Mapping[str, Any], listed: Iterable[Mapping[str, Any]], *, truncated: bool = False) -> Replicas:
    """Sorts a listing into the service's replicas and those that only claim to be."""
    claiming = [replica for replica in listed if claims_service(replica, service)]
    accepted = [replica for replica in claiming if belongs_to(replica, service)]
    accepted.sort(key=lambda replica: (objects.component_order(component_of(replica)), objects.name(replica)))
    return Replicas(tuple(accepted), len(claiming) - len(accepted), truncated)
