"""Reading a service's runtime: live with its ancestors, the revisions it names, their history.

Failures become evidence, not exceptions, where the reports have a word for them. Apart from `ome.cli.reads` because
what judges runtimes is expensive to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ome.api.keys import RUNTIME_OF
from ome.cli.evidence import objects
from ome.cli.evidence.chains import SERVING_RUNTIME, Chain, Member, follow, member
from ome.cli.evidence.effective import (
    Effective,
    LiveEvidence,
    RevisionEvidence,
    RuntimeEvidence,
    declares,
    revisions_to_read,
)
from ome.cli.evidence.history import Window
from ome.cli.evidence.revisions import Revision, Source, declared_source, read_revision, with_group_issues
from ome.cli.session import Session, is_missing_api, reason_of
from ome.kube.errors import ApiError, KubeError
from ome.kube.resources import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    CONTROLLER_REVISIONS,
    SERVING_RUNTIMES,
)


def runtime_reason(error: KubeError) -> str:
    """Why a runtime or revision could not be read, in the words of spec/cli-runtime-and-wait.md section 2.2."""
    if is_missing_api(error):
        return "UnsupportedAPI"
    reason = reason_of(error)
    if reason in ("Unauthorized", "Forbidden"):
        return "Forbidden"
    return "NotFound" if reason == "NotFound" else "Unreadable"


def _find_cluster(session: Session, name: str) -> Member | None:
    found = session.find(CLUSTER_SERVING_RUNTIMES, name) if objects.is_subdomain(name) else None
    return member(found, "") if found else None


def _find_namespaced(session: Session, namespace: str, name: str) -> Member | None:
    found = session.find(SERVING_RUNTIMES, name, namespace) if objects.is_subdomain(name) else None
    return member(found, namespace) if found else None


def find_runtime(session: Session, kind: str, namespace: str, name: str) -> Member | None:
    """A named runtime, looked up as its declared kind says (spec/serving-runtimes.md section 4)."""
    if kind == SERVING_RUNTIME:
        return _find_namespaced(session, namespace, name)
    if kind:
        return _find_cluster(session, name) or _find_namespaced(session, namespace, name)
    return _find_namespaced(session, namespace, name) or _find_cluster(session, name)


def parent_lookup(session: Session) -> Callable[[Member, str], Member | None]:
    """Parents of a ClusterServingRuntime are cluster-scoped; anywhere else the namespace's come first."""

    def lookup(child: Member, name: str) -> Member | None:
        if child.namespace:
            return _find_namespaced(session, child.namespace, name) or _find_cluster(session, name)
        return _find_cluster(session, name)

    return lookup


def read_chain(session: Session, head: Member, scope: str) -> Chain:
    """The chain above a runtime. `scope` is the namespace of the runtime at its foot: it stays the scope of every
    parent lookup.
    """
    lookup = parent_lookup(session)

    def scoped(child: Member, name: str) -> Member | None:
        return lookup(child._replace(namespace=scope), name)

    return follow(head, scoped)


def read_live(session: Session, service: Mapping[str, Any]) -> LiveEvidence:
    """The live runtime of a service: the named one with its ancestors, or OME's automatic choice."""
    name = objects.text(service, "spec", "runtime", "name")
    namespace = objects.namespace(service)
    try:
        if not name:
            if not objects.text(service, "spec", "model", "name"):
                return LiveEvidence(reason="NotConfigured")
            from ome.cli.selection import read_selected

            return read_selected(session, service)
        head = find_runtime(session, objects.text(service, "spec", "runtime", "kind"), namespace, name)
        if head is None:
            return LiveEvidence(reason="NotFound")
        return LiveEvidence(read_chain(session, head, head.namespace))
    except KubeError as error:
        return LiveEvidence(reason=runtime_reason(error), selected=not name)


def read_revisions(session: Session, service: Mapping[str, Any], ome_namespace: str) -> dict[str, RevisionEvidence]:
    """The revisions a service names, each with its own outcome."""
    expected = declared_source(service)
    found: dict[str, RevisionEvidence] = {}
    for name in revisions_to_read(service):
        if not objects.is_subdomain(name):
            found[name] = RevisionEvidence(reason="NotFound")
            continue
        try:
            obj = session.get(CONTROLLER_REVISIONS, name, ome_namespace)
        except ApiError as error:
            found[name] = RevisionEvidence(reason=runtime_reason(error))
        except KubeError:
            found[name] = RevisionEvidence(reason="Unreadable")
        else:
            found[name] = RevisionEvidence(read_revision(obj, expected, ome_namespace))
    return found


def read_runtime(session: Session, service: Mapping[str, Any], ome_namespace: str) -> RuntimeEvidence:
    return RuntimeEvidence(service, read_live(session, service), read_revisions(session, service, ome_namespace))


def with_compatibility(session: Session, evidence: RuntimeEvidence) -> RuntimeEvidence:
    """Looks whether a named live runtime declares the service's model; a model that cannot be read says nothing."""
    service, live = evidence.service, evidence.live
    name = objects.text(service, "spec", "model", "name")
    if live.chain is None or live.chain.issue or live.selected or not objects.is_subdomain(name):
        return evidence
    try:
        model = session.find(BASE_MODELS, name, objects.namespace(service)) or session.find(CLUSTER_BASE_MODELS, name)
    except KubeError:
        return evidence
    if model is None:
        return evidence
    fits = declares(live.chain.merged(), objects.mapping(model, "spec"))
    return evidence._replace(live=live._replace(incompatible=not fits))


def read_history(
    session: Session, service: Mapping[str, Any], judged: Effective, ome_namespace: str
) -> tuple[list[Revision], Window]:
    """All revisions labelled with the runtime's name, same-named runtimes of other scopes included."""
    expected = declared_source(service)
    if not expected.name:
        expected = Source(judged.live.kind, judged.live.namespace, judged.live.name)
    if not expected.name:
        return [], Window()
    try:
        found = session.listing(CONTROLLER_REVISIONS, ome_namespace, label_selector=f"{RUNTIME_OF}={expected.name}")
    except KubeError as error:
        return [], Window(0, 1, unavailable=runtime_reason(error))
    revisions = [read_revision(obj, expected, ome_namespace) for obj in found.items]
    return with_group_issues(revisions), Window(found.pages, found.requests, found.truncated)
