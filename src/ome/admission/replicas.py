"""The validating webhook of InferenceReplicas: who may write what (`spec/omenative.md` section 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from ome.admission.review import ALLOWED, Verdict, deny, first_denial
from ome.admission.services.autoscaling import autoscaler_problem
from ome.admission.services.references import projecting_service
from ome.admission.services.shape import lifecycle_problem
from ome.admission.world import World
from ome.api import keys
from ome.api.names import COMPONENTS, SERVICE_NAME_PATTERN, is_service_name
from ome.api.types.inference_replica import InferenceReplica
from ome.rendering.model import Component
from ome.runtimes.inheritance import ChainError
from ome.runtimes.lookup import NamedRuntimes, RuntimeNotFoundError, UnsupportedKindError

Json = dict[str, Any]

_CONTROLLER_ANNOTATIONS: Final = (keys.COMPOSED_FIELDS, keys.CONTROLLER_WRITE)


@dataclass(frozen=True)
class ReplicaProposal:
    """`username` writes; `manager` is whom the API server takes this process for."""

    new: Json
    old: Json | None
    username: str
    manager: str
    world: World

    @cached_property
    def replica(self) -> InferenceReplica:
        return msgspec.convert(self.new, InferenceReplica)

    @property
    def spec(self) -> Json:
        return self.new.get("spec") or {}

    @property
    def label(self) -> str:
        return f"InferenceReplica {self.replica.metadata.namespace}/{self.replica.metadata.name}"

    @cached_property
    def projected_by(self) -> str:
        """The projecting InferenceService. Taking its mark away does not make a replica standalone."""
        if self.old is None:
            return projecting_service(self.replica)
        return projecting_service(msgspec.convert(self.old, InferenceReplica)) or projecting_service(self.replica)

    @property
    def spec_unchanged(self) -> bool:
        return self.old is not None and (self.old.get("spec") or {}) == self.spec


Rule = Callable[[ReplicaProposal], str]


def validate_replica(proposal: ReplicaProposal) -> Verdict:
    """Admit or deny a create or an update. `/scale` and `/status` never come here."""
    old = proposal.old
    if old is not None and (old.get("metadata") or {}).get("deletionTimestamp"):
        return ALLOWED
    rules = _PROJECTED if proposal.projected_by else _STANDALONE
    # A stored spec stays writable around: it may have been scaled below its partition since.
    last = () if proposal.spec_unchanged else _CHECKED_LAST
    denial = first_denial((*_EVERYBODY, *rules, *last), proposal)
    return deny(denial) if denial else ALLOWED


# -- every writer ------------------------------------------------------------------------------------------------------


def component_is_fixed(proposal: ReplicaProposal) -> str:
    if proposal.old is None:
        return ""
    old, new = (proposal.old.get("spec") or {}).get("component"), proposal.spec.get("component")
    return "" if old == new else f"{proposal.label}: spec.component is immutable ({old} cannot become {new})"


def parent_is_fixed(proposal: ReplicaProposal) -> str:
    if proposal.old is None:
        return ""
    same = (proposal.old.get("spec") or {}).get("parentRef") == proposal.spec.get("parentRef")
    return "" if same else f"{proposal.label}: spec.parentRef is immutable"


def partition_fits(proposal: ReplicaProposal) -> str:
    pacing, replicas = proposal.replica.spec.pacing, proposal.replica.spec.replicas
    # nil or 0 replicas run one Instance.
    instances = max(replicas or 0, 1)
    if pacing is None or pacing.partition is None or pacing.partition <= instances:
        return ""
    return f"{proposal.label}: spec.pacing.partition ({pacing.partition}) must be <= replicas ({instances})"


def mounts_are_declared(proposal: ReplicaProposal) -> str:
    for index, runner in enumerate(proposal.spec.get("runners") or []):
        pod = (runner.get("template") or {}).get("spec") or {}
        volumes = {volume.get("name") for volume in pod.get("volumes") or []}
        for container in [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]:
            for mount in container.get("volumeMounts") or []:
                if mount.get("name") not in volumes:
                    where = f"spec.runners[{index}] ({runner.get('name')}): container {container.get('name')}"
                    return f"{proposal.label}: {where} mounts volume {mount.get('name')}, which is not declared"
    return ""


# -- projected replicas ------------------------------------------------------------------------------------------------


def carries_the_mark(proposal: ReplicaProposal) -> str:
    if proposal.replica.metadata.annotations.get(keys.CONTROLLER_WRITE) == "true":
        return ""
    if proposal.old is not None and _only_finalizers_differ(proposal.new, proposal.old):
        return ""
    operation = "CREATE" if proposal.old is None else "UPDATE"
    return (
        f"{proposal.label} is projected by InferenceService {_parent(proposal)} and rejects a direct {operation} "
        "without the ome.io/controller-write=true annotation; edit the InferenceService instead"
    )


def spec_is_the_controllers(proposal: ReplicaProposal) -> str:
    if proposal.old is None or proposal.username == proposal.manager:
        return ""
    if proposal.spec_unchanged:
        return ""
    return (
        f"{proposal.label} is projected by InferenceService {_parent(proposal)}, whose controller alone writes its "
        "spec; edit the InferenceService instead"
    )


def _parent(proposal: ReplicaProposal) -> str:
    return f"{proposal.replica.metadata.namespace}/{proposal.projected_by}"


def _only_finalizers_differ(new: Json, old: Json) -> bool:
    return _without_bookkeeping(new) == _without_bookkeeping(old)


def _without_bookkeeping(obj: Json) -> Json:
    ignored = ("finalizers", "managedFields", "resourceVersion", "generation")
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in ignored}
    return {**obj, "metadata": metadata}


# -- standalone replicas -----------------------------------------------------------------------------------------------


def standalone_shape(proposal: ReplicaProposal) -> str:
    return next(_standalone_problems(proposal), "")


def _standalone_problems(proposal: ReplicaProposal) -> Iterator[str]:
    label, spec, replica = proposal.label, proposal.spec, proposal.replica
    for key in sorted(replica.metadata.annotations):
        if key in _CONTROLLER_ANNOTATIONS:
            yield f"{label} is standalone: annotation {key} belongs to projected replicas; remove it"
        if key.startswith(keys.MIGRATION_REQUEST_PREFIX):
            yield f"{label} is standalone: migration requests are made on an InferenceService; remove annotation {key}"
    for field in ("placementExecution", "placementReplicaLimit"):
        if spec.get(field) is not None:
            yield f"{label} is standalone: spec.{field} is written by the placement controller alone"
    yield from _template_source(label, spec)
    yield from _pinned_runtime(label, spec)
    yield from _scaling(label, spec)
    if ((spec.get("lifecycle") or {}).get("minReadySeconds")) is not None:
        yield f"{label} is standalone: spec.lifecycle.minReadySeconds is not read here; use spec.minReadySeconds"
    problem = lifecycle_problem("spec", spec)
    if problem:
        yield f"{label}: {problem}"


def _template_source(label: str, spec: Json) -> Iterator[str]:
    rendered = spec.get("modelRef") is not None or spec.get("runtimeRef") is not None
    runners = spec.get("runners") or []
    if runners and rendered:
        yield f"{label}: spec.runners excludes spec.modelRef and spec.runtimeRef; a replica has one template source"
    if not runners and not rendered:
        yield f"{label}: one template source is required: spec.runners, or spec.modelRef and/or spec.runtimeRef"
    if not runners:
        return
    sizes = {runner.get("name"): runner.get("size") for runner in runners}
    if set(sizes) not in ({"default"}, {"leader", "worker"}):
        got = ", ".join(map(str, sizes))
        yield f"{label}: spec.runners must be one default runner, or a leader and a worker, got {got}"
    for name in ("default", "leader"):
        if sizes.get(name, 1) != 1:
            yield f"{label}: the {name} runner has size 1, got {sizes[name]}"


def _pinned_runtime(label: str, spec: Json) -> Iterator[str]:
    reference = spec.get("runtimeRef") or {}
    if reference.get("autoSync") is False or reference.get("revision"):
        yield f"{label} is standalone: spec.runtimeRef follows the live runtime; remove autoSync: false and revision"


def _scaling(label: str, spec: Json) -> Iterator[str]:
    class_ = (spec.get("autoscaler") or {}).get("class")
    if class_ in ("HPA", "KEDA"):
        yield (
            f"{label} is standalone: spec.autoscaler.class {class_} is not supported; use External and let your own "
            "autoscaler write through /scale"
        )
    problem = autoscaler_problem(spec.get("component") or "", spec)
    if problem:
        yield f"{label}: {problem}"


def runtime_has_the_piece(proposal: ReplicaProposal) -> str:
    """A runtime that exists must configure the component; one that does not is reported in status."""
    reference, component = proposal.replica.spec.runtime_ref, proposal.replica.spec.component
    if reference is None or component not in COMPONENTS:
        return ""
    namespace = proposal.replica.metadata.namespace
    try:
        resolved = NamedRuntimes(proposal.world).resolve(reference.name, reference.kind, namespace)
    except (RuntimeNotFoundError, UnsupportedKindError, ChainError):
        return ""
    config = Component(component).config_key
    if resolved.spec.get(config) is not None:
        return ""
    return f"{proposal.label}: runtime {reference.name} has no {config}, so it cannot render a {component}"


def standalone_name(proposal: ReplicaProposal) -> str:
    """Asked at create only: names do not change, and what exists may be updated."""
    if proposal.old is not None:
        return ""
    metadata = proposal.replica.metadata
    if not is_service_name(metadata.name):
        return f'invalid InferenceReplica name "{metadata.name}", must match "{SERVICE_NAME_PATTERN}"'
    candidates = {metadata.name: metadata.name}
    for component in COMPONENTS:
        if metadata.name.endswith(f"-{component}"):
            candidates[metadata.name.removesuffix(f"-{component}")] = metadata.name
    for service in candidates:
        if service and proposal.world.service(metadata.namespace, service) is not None:
            return (
                f"{proposal.label} would collide with InferenceService {metadata.namespace}/{service}; "
                "choose another name"
            )
    return ""


_EVERYBODY: Final[tuple[Rule, ...]] = (component_is_fixed, parent_is_fixed)
_CHECKED_LAST: Final[tuple[Rule, ...]] = (partition_fits, mounts_are_declared)
_PROJECTED: Final[tuple[Rule, ...]] = (carries_the_mark, spec_is_the_controllers)
_STANDALONE: Final[tuple[Rule, ...]] = (standalone_name, standalone_shape, runtime_has_the_piece)
