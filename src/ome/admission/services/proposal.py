"""What is proposed: the InferenceService as written, as it was, and the world around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from ome.admission.world import World
from ome.api import keys
from ome.api.names import COMPONENTS
from ome.api.types.inference_service import InferenceService
from ome.rendering.model import Component, DeploymentMode, ModelFacts, ServiceFacts
from ome.rendering.modes import choose_mode
from ome.runtimes.inheritance import ChainError
from ome.runtimes.lookup import NamedRuntimes, ResolvedRuntime, RuntimeNotFoundError, UnsupportedKindError
from ome.runtimes.selection import SelectionError, select

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Features:
    """Alpha kinds that were served when the manager started."""

    autoscaler_policy: bool = False
    rollout_policy: bool = False


@dataclass(frozen=True)
class Proposal:
    """One CREATE (`old` None) or UPDATE. Everything is read, nothing changed."""

    new: Json
    old: Json | None
    world: World
    features: Features = Features()

    @cached_property
    def service(self) -> InferenceService:
        return msgspec.convert(self.new, InferenceService)

    @cached_property
    def before(self) -> InferenceService | None:
        return None if self.old is None else msgspec.convert(self.old, InferenceService)

    @property
    def creating(self) -> bool:
        return self.old is None

    @property
    def name(self) -> str:
        return self.service.metadata.name

    @property
    def namespace(self) -> str:
        return self.service.metadata.namespace

    @property
    def annotations(self) -> dict[str, str]:
        return self.service.metadata.annotations

    @cached_property
    def spec(self) -> Json:
        return self.new.get("spec") or {}

    @cached_property
    def old_spec(self) -> Json:
        return (self.old or {}).get("spec") or {}

    @cached_property
    def components(self) -> dict[str, Json]:
        """The declared components, raw, in the order engine, decoder, router."""
        return {name: self.spec[name] for name in COMPONENTS if self.spec.get(name) is not None}

    @cached_property
    def facts(self) -> ServiceFacts:
        return ServiceFacts.of(self.service)

    @property
    def model_name(self) -> str:
        return self.service.spec.model.name if self.service.spec.model else ""

    @property
    def runtime_name(self) -> str:
        return self.service.spec.runtime.name if self.service.spec.runtime else ""

    @property
    def runtime_kind(self) -> str:
        """The kind that decides the lookup; one that OME does not know is looked up as the default kind is."""
        kind = self.service.spec.runtime.kind if self.service.spec.runtime else ""
        return kind if kind in ("", "ServingRuntime") else "ClusterServingRuntime"

    def find_model(self, name: str) -> ModelFacts | None:
        """A BaseModel of the namespace, else a ClusterBaseModel, whatever kind was declared."""
        own = self.world.base_model(self.namespace, name)
        if own is not None:
            return _facts(name, self.namespace, own.metadata.annotations, own.spec)
        found = self.world.cluster_base_model(name)
        return None if found is None else _facts(name, "", found.metadata.annotations, found.spec)

    def resolve_runtime(self) -> ResolvedRuntime:
        """The named runtime. Raises `RuntimeNotFoundError`, `UnsupportedKindError`, `ChainError`."""
        return NamedRuntimes(self.world).resolve(self.runtime_name, self.runtime_kind, self.namespace)

    @cached_property
    def runtime_spec(self) -> Json:
        """The spec of the runtime that would be used, {} when none can be told: other rules say so."""
        try:
            if self.runtime_name:
                return dict(self.resolve_runtime().spec)
            model = self.find_model(self.model_name) if self.model_name else None
            return {} if model is None else dict(select(model, self.facts, self.world).spec)
        except (RuntimeNotFoundError, UnsupportedKindError, ChainError, SelectionError):
            return {}

    def mode(self, component: str) -> DeploymentMode:
        """The mode in which a declared component would run."""
        part = Component(component)
        config = self.runtime_spec.get(part.config_key) or {}
        merged = {**config, **self.components[component]}
        return choose_mode(part, self.facts, self.runtime_spec, merged).mode

    def omenative(self, component: str) -> bool:
        return self.mode(component) is DeploymentMode.OME_NATIVE

    @property
    def legacy_autoscaler_class(self) -> str:
        return self.annotations.get(keys.AUTOSCALER_CLASS, "")


def _facts(name: str, namespace: str, annotations: dict[str, str], spec: Json) -> ModelFacts:
    return ModelFacts(name=name, namespace=namespace, annotations=annotations, spec=spec)
