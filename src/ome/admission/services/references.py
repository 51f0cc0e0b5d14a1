"""Rules 5, 6 and 24 to 32: the model, the runtime, the pin and the replicas that a service names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ome.admission.services.proposal import Proposal
from ome.admission.services.shape import has_image
from ome.api.names import COMPONENTS, SERVING_RUNTIME, is_runtime_revision_of, runtime_revision_prefix
from ome.api.types.inference_replica import InferenceReplica
from ome.rendering.model import ModelFacts
from ome.rendering.models import overlay_environment_name
from ome.runtimes.inheritance import ChainError
from ome.runtimes.lookup import RuntimeNotFoundError, disabled_text
from ome.runtimes.selection import NamedRuntimeError, SelectionError, check_named, select

Json = dict[str, Any]

RENDERED_BY_REPLICAS: Final = "the referenced replicas carry their own model and runtime"
NOTHING_WRITTEN: Final = "the service writes nothing on, and renders nothing for, a referenced replica"
ONE_CLUSTER: Final = "the referenced replicas exist in this cluster only"
_NOT_WITH_REFERENCES: Final = {
    "model": RENDERED_BY_REPLICAS,
    "runtime": RENDERED_BY_REPLICAS,
    "scalingPolicy": NOTHING_WRITTEN,
    "acceleratorSelector": NOTHING_WRITTEN,
    "placement": ONE_CLUSTER,
    "routing": ONE_CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What the runtime check says: a denial, or a warning, or neither."""

    denial: str = ""
    warning: str = ""


# -- replicas ----------------------------------------------------------------------------------------------------------


def is_standalone(replica: InferenceReplica) -> bool:
    return projecting_service(replica) == ""


def projecting_service(replica: InferenceReplica) -> str:
    """The InferenceService that projects a replica, "" for a standalone one."""
    owner = replica.metadata.controller
    if owner is not None and owner.kind == "InferenceService":
        return owner.name
    return replica.spec.parent_ref.name if replica.spec.parent_ref is not None else ""


def name_is_free(proposal: Proposal) -> str:
    """Rule 5: no standalone replica takes a name that this service will use."""
    if not proposal.creating:
        return ""
    start = (
        "a standalone InferenceReplica named {name} exists in namespace {namespace} "
        "(wait for it if it is being deleted) and "
    )
    projected = "this InferenceService would project a replica of that name; choose another name"
    shared = (
        "its pods and Services would share names with the replicas this InferenceService projects; choose another name"
    )
    taken = [(f"{proposal.name}-{component}", projected) for component in COMPONENTS]
    for name, ending in [(proposal.name, shared), *taken]:
        replica = proposal.world.replica(proposal.namespace, name)
        if replica is not None and is_standalone(replica):
            return start.format(name=name, namespace=proposal.namespace) + ending
    return ""


def replica_references(proposal: Proposal) -> str:
    """Rule 6."""
    return next(_reference_problems(proposal), "")


def _reference_problems(proposal: Proposal) -> Iterator[str]:
    new, old = proposal.spec.get("replicaRefs"), proposal.old_spec.get("replicaRefs")
    if not proposal.creating and (new or None) != (old or None):
        yield ("spec.replicaRefs is fixed at create; delete and recreate the InferenceService to front other replicas")
    if not new:
        return
    if not new.get("engine"):
        yield "spec.replicaRefs.engine is required when spec.replicaRefs is set; a service has an engine"
    yield from _counts(new)
    for component in proposal.components:
        yield f"spec.{component} and spec.replicaRefs cannot both be set; a service references all of its roles or none"
    if proposal.spec.get("rollout"):
        yield "spec.rollout is not accepted with spec.replicaRefs; a referenced replica rolls on its own"
    for field, why in _NOT_WITH_REFERENCES.items():
        if proposal.spec.get(field):
            yield f"spec.{field} is not accepted with spec.replicaRefs; {why}"
    mode = proposal.spec.get("deploymentMode")
    if mode and mode != "OMENative":
        yield f"spec.deploymentMode {mode} is not accepted with spec.replicaRefs; a referenced replica is OMENative"
    if proposal.creating:
        yield from _targets(proposal, new)


def _counts(references: Json) -> Iterator[str]:
    users: dict[str, str] = {}
    for component in COMPONENTS:
        named = references.get(component) or []
        if len(named) > 1:
            yield f"spec.replicaRefs.{component} names {len(named)} replicas; one entry per role is accepted"
        for name in named:
            if name in users:
                yield (
                    f"InferenceReplica {name} is named by both {users[name]} and spec.replicaRefs.{component}; "
                    "a replica serves one role"
                )
            users[name] = f"spec.replicaRefs.{component}"


def _targets(proposal: Proposal, references: Json) -> Iterator[str]:
    for component in COMPONENTS:
        for name in references.get(component) or []:
            start = f"spec.replicaRefs.{component} names InferenceReplica {proposal.namespace}/{name}"
            replica = proposal.world.replica(proposal.namespace, name)
            if replica is None:
                yield f"{start}, which does not exist; create it first"
                return
            service = projecting_service(replica)
            if service:
                yield f"{start}, which InferenceService {service} projects; name a standalone replica"
            if replica.spec.component != component:
                yield f"{start}, whose component is {replica.spec.component}"
            other = _fronting(proposal, name)
            if other:
                yield f"{start}, which InferenceService {other} already fronts; a replica has one service"


def _fronting(proposal: Proposal, replica: str) -> str:
    for service in proposal.world.services(proposal.namespace):
        references = service.spec.replica_refs
        if references is None or service.metadata.name == proposal.name:
            continue
        if replica in (*references.engine, *references.decoder, *references.router):
            return service.metadata.name
    return ""


# -- what is named at all, and the pin ---------------------------------------------------------------------------------


def something_named(proposal: Proposal) -> str:
    """Rule 24."""
    if proposal.model_name or proposal.runtime_name or proposal.spec.get("replicaRefs"):
        return ""
    return "at least one of spec.model or spec.runtime must be set"


def pin(proposal: Proposal) -> str:
    """Rule 25 (`spec/runtime-revisions.md` section 9.1, checks 2 and 3)."""
    runtime = proposal.service.spec.runtime
    if runtime is None or not runtime.name or not runtime.revision:
        return ""
    if runtime.auto_sync is not False:
        return "spec.runtime.revision requires spec.runtime.autoSync=false; AutoSync=true would silently ignore the pin"
    if is_runtime_revision_of(runtime.revision, runtime.kind, runtime.name, proposal.namespace):
        return ""
    kind = SERVING_RUNTIME if runtime.kind == SERVING_RUNTIME else "ClusterServingRuntime"
    prefix = runtime_revision_prefix(kind, runtime.name, proposal.namespace)
    return (
        f'spec.runtime.revision "{runtime.revision}" does not match the expected naming convention for runtime '
        f'"{runtime.name}" ({kind}); expected the form {prefix}<8 lowercase hex chars>'
    )


# -- models ------------------------------------------------------------------------------------------------------------


def model_exists(proposal: Proposal) -> str:
    """Rule 26."""
    name = proposal.model_name
    if not name or proposal.find_model(name) is not None:
        return ""
    return (
        f'referenced model "{name}" not found in namespace "{proposal.namespace}": ensure a BaseModel exists in this '
        "namespace or a ClusterBaseModel exists cluster-wide with this name"
    )


def claim_is_reachable(proposal: Proposal) -> str:
    """Rule 27, for the model itself."""
    model = proposal.find_model(proposal.model_name) if proposal.model_name else None
    return "" if model is None else _foreign_claim(proposal, model)


def _foreign_claim(proposal: Proposal, model: ModelFacts) -> str:
    uri = (model.spec.get("storage") or {}).get("storageUri") or ""
    if model.namespace or not uri.startswith("pvc://"):
        return ""
    place = uri.removeprefix("pvc://").split("/", 1)[0]
    namespace, colon, _ = place.partition(":")
    if not colon or namespace == proposal.namespace:
        return ""
    return (
        f'ClusterBaseModel "{model.name}" references PVC in namespace "{namespace}", but InferenceService is in '
        f'namespace "{proposal.namespace}"; Kubernetes does not allow pods to mount PVCs from another namespace. '
        f'Either move the InferenceService to namespace "{namespace}" or replicate the PVC into namespace '
        f'"{proposal.namespace}".'
    )


def overlays(proposal: Proposal) -> str:
    """Rule 28, and rule 27 for overlays."""
    return next(_overlay_problems(proposal), "")


def _overlay_problems(proposal: Proposal) -> Iterator[str]:
    model = proposal.service.spec.model
    if model is None:
        return
    seen: dict[str, str] = {}
    for overlay in model.overlays:
        name = overlay.get("name") or ""
        if not name:
            yield "overlay name cannot be empty"
        kind, group = overlay.get("kind") or "ClusterBaseModel", overlay.get("apiGroup") or "ome.io"
        if (name, kind, group) == (model.name, model.kind, model.api_group):
            yield f'overlay "{name}" must not reference the primary model of the same kind/apiGroup'
        if name in seen.values():
            yield f'overlay "{name}" is declared more than once'
        variable = overlay_environment_name(name)
        if variable in seen:
            yield (
                f'overlays "{seen[variable]}" and "{name}" both sanitize to env var {variable}; rename one '
                "(hyphens and underscores collapse to the same form)"
            )
        seen[variable] = name
        yield from _overlay_target(proposal, name, kind)


def _overlay_target(proposal: Proposal, name: str, kind: str) -> Iterator[str]:
    found = proposal.find_model(name)
    if found is None:
        yield f'overlay "{name}" not found in namespace "{proposal.namespace}": {kind} "{name}" does not exist'
        return
    foreign = _foreign_claim(proposal, found)
    if foreign:
        yield f'overlay "{name}": {foreign}'


# -- runtimes ----------------------------------------------------------------------------------------------------------


def full_runner(engine: Json) -> bool:
    """The engine declares everything a runtime would give; selection is skipped."""
    both = has_image(engine.get("leader")) and has_image(engine.get("worker"))
    return both or has_image(engine)


def runtime(proposal: Proposal) -> Finding:
    """Rules 29 to 32."""
    if proposal.spec.get("replicaRefs"):
        return Finding()
    if not proposal.model_name:
        return _runtime_only(proposal)
    engine = proposal.components.get("engine")
    model = proposal.find_model(proposal.model_name)
    if engine is None or model is None:
        return Finding()
    if model.spec.get("disabled") is True:
        return Finding(f"model {model.name} is disabled")
    if proposal.runtime_name:
        return _named_runtime(proposal, model)
    return Finding() if full_runner(engine) else _selected_runtime(proposal, model)


def _named_runtime(proposal: Proposal, model: ModelFacts) -> Finding:
    name = proposal.runtime_name
    try:
        advice = check_named(proposal.resolve_runtime(), model, proposal.facts)
    except (RuntimeNotFoundError, ChainError, NamedRuntimeError) as error:
        return Finding(f"runtime {name} does not support model {model.name}: {error}")
    if advice is None:
        return Finding()
    return Finding(
        warning=f'runtime "{name}" does not declare support for model "{model.name}" ({advice}); '
        "proceeding because the runtime was named explicitly"
    )


def _selected_runtime(proposal: Proposal, model: ModelFacts) -> Finding:
    try:
        chosen = select(model, proposal.facts, proposal.world)
    except SelectionError as error:
        return Finding(
            f"no supporting runtime found for model {model.name} and engine does not have complete runner "
            f"configuration: {error}"
        )
    return Finding(warning=f"Runtime {chosen.name} will be auto-selected for model {model.name}")


def _runtime_only(proposal: Proposal) -> Finding:
    reference = proposal.service.spec.runtime
    if reference is None or not reference.name or reference.auto_sync is False:
        return Finding()
    try:
        resolved = proposal.resolve_runtime()
    except RuntimeNotFoundError:
        return Finding()
    except ChainError as error:
        return Finding(str(error))
    return Finding(disabled_text(resolved.name, resolved.runtime.kind)) if resolved.disabled else Finding()
