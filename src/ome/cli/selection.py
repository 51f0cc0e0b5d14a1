"""Automatic selection as OME would do it, over what this identity can list: the live view of a service without a named
runtime, and the candidates of `runtime explain`. The decision itself is `ome.runtimes.selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ome.cli.evidence import objects
from ome.cli.evidence.chains import Chain, Member, member
from ome.cli.evidence.effective import LiveEvidence
from ome.cli.session import Collection, Session
from ome.kube.resources import BASE_MODELS, CLUSTER_BASE_MODELS, CLUSTER_SERVING_RUNTIMES, SERVING_RUNTIMES
from ome.rendering.model import Component, ModelFacts, ServiceFacts
from ome.runtimes.reading import Runtime, RuntimeKind
from ome.runtimes.selection import Candidate, InvalidModelError, Requirements, explain

MAX_RUNTIMES = 1000


def read_model(session: Session, name: str, namespace: str) -> dict[str, Any] | None:
    """A model by name: the namespace's BaseModel, then the ClusterBaseModel. `spec.model.kind` is not asked (section
    2.1).
    """
    if not objects.is_subdomain(name):
        return None
    return session.find(BASE_MODELS, name, namespace) or session.find(CLUSTER_BASE_MODELS, name)


class Runtimes:
    """Every runtime a service of a namespace could be given, as listed."""

    def __init__(self, namespaced: Collection, cluster: Collection, namespace: str) -> None:
        self.members: list[Member] = [member(obj, namespace) for obj in namespaced.items]
        self.members += [member(obj, "") for obj in cluster.items]
        self.truncated = namespaced.truncated or cluster.truncated or len(self.members) > MAX_RUNTIMES


def read_runtimes(session: Session, namespace: str) -> Runtimes:
    return Runtimes(session.listing(SERVING_RUNTIMES, namespace), session.listing(CLUSTER_SERVING_RUNTIMES), namespace)


def service_facts(service: Mapping[str, Any]) -> ServiceFacts:
    """What selection asks of a service, from the raw object."""
    return ServiceFacts(
        name=objects.name(service),
        namespace=objects.namespace(service),
        labels=objects.mapping(service, "metadata", "labels"),
        annotations=objects.mapping(service, "metadata", "annotations"),
        deployment_mode=objects.text(service, "spec", "deploymentMode"),
        components={
            component: objects.mapping(service, "spec", component.value)
            for component in Component
            if isinstance(objects.get(service, "spec", component.value), Mapping)
        },
        accelerator_selector=objects.mapping(service, "spec", "acceleratorSelector"),
    )


def model_facts(model: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        name=objects.name(model),
        namespace=objects.namespace(model),
        annotations=objects.mapping(model, "metadata", "annotations"),
        spec=objects.mapping(model, "spec"),
    )


def judge(model: Mapping[str, Any], service: Mapping[str, Any] | None, runtimes: Runtimes) -> tuple[Candidate, ...]:
    """Every runtime judged, best first. Raises `ome.runtimes.selection.InvalidModelError`."""
    requirements = Requirements.of(service_facts(service)) if service is not None else Requirements()
    candidates = [
        Runtime(
            kind=RuntimeKind(entry.kind),
            name=entry.name,
            namespace=entry.namespace,
            spec=objects.mapping(entry.obj, "spec"),
            annotations=objects.mapping(entry.obj, "metadata", "annotations"),
            uid=objects.uid(entry.obj),
            version=objects.resource_version(entry.obj),
        )
        for entry in runtimes.members
    ]
    return explain(model_facts(model), requirements, candidates)


def read_selected(session: Session, service: Mapping[str, Any]) -> LiveEvidence:
    """The runtime OME picks for a service that names none: its own spec, nothing inherited."""
    namespace = objects.namespace(service)
    model = read_model(session, objects.text(service, "spec", "model", "name"), namespace)
    runtimes = read_runtimes(session, namespace)
    if model is None:
        return LiveEvidence(reason="NotFound", selected=True)
    if runtimes.truncated:
        return LiveEvidence(reason="Unreadable", selected=True)
    try:
        candidates = judge(model, service, runtimes)
    except InvalidModelError:
        return LiveEvidence(reason="NotFound", selected=True)
    if not candidates or candidates[0].exclusion is not None:
        return LiveEvidence(reason="NotFound", selected=True)
    best = candidates[0].runtime
    chosen = next(entry for entry in runtimes.members if (entry.namespace, entry.name) == (best.namespace, best.name))
    return LiveEvidence(Chain((chosen,)), selected=True)
