"""The model controllers: one for BaseModels, one for ClusterBaseModels (spec/models.md section 4).

Each pass reads the nodes' ConfigMaps that name the model (by index, never all), fills empty fields of its spec, and
reports which nodes have it. Models on claims (`pvc://`) have no marks on nodes and are left to `ome.models.claims`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ome.api import keys
from ome.api.core import ConfigMap, Node
from ome.api.meta import ObjectMeta, timestamp
from ome.api.types.models import BaseModel, ClusterBaseModel
from ome.kube.cache import Cache, Change, Key
from ome.kube.controller import Controller, Done, Environment, Outcome, Watch
from ome.kube.errors import NotFound
from ome.kube.resources import BASE_MODELS, CLUSTER_BASE_MODELS, CONFIG_MAPS, NODES, Resource

from .entries import DELETED, Entry, EntryError, data_key, is_model_key, missing_fields, node_states, parse_entry

Json = dict[str, Any]
Model = BaseModel | ClusterBaseModel

_ENTRY_INDEX = "model entry"

log = logging.getLogger("ome.models")


def build(environment: Environment) -> list[Controller]:
    """The two controllers, sharing the caches of node ConfigMaps and Nodes."""
    marks = environment.caches.of(
        CONFIG_MAPS,
        ConfigMap,
        namespace=environment.namespace,
        label_selector=f"{keys.BASE_MODEL_STATUS}=true",
        indexes={_ENTRY_INDEX: lambda marks: [key for key in marks.data if is_model_key(key)]},
    )
    nodes = environment.caches.of(NODES, Node)
    return [
        _ModelController(environment, scope, marks, nodes).controller()
        for scope in (
            _Scope(CLUSTER_BASE_MODELS, ClusterBaseModel, keys.CLUSTER_BASE_MODEL_FINALIZER),
            _Scope(BASE_MODELS, BaseModel, keys.BASE_MODEL_FINALIZER),
        )
    ]


@dataclass(frozen=True, slots=True)
class _Scope:
    """One of the two kinds."""

    resource: Resource
    type: type[BaseModel] | type[ClusterBaseModel]
    finalizer: str


class _ModelController:
    def __init__(self, environment: Environment, scope: _Scope, marks: Cache[ConfigMap], nodes: Cache[Node]) -> None:
        self._environment = environment
        self._scope = scope
        self._marks = marks
        self._nodes = nodes
        self._models: Cache[Any] = environment.caches.of(
            scope.resource, scope.type, indexes={_ENTRY_INDEX: lambda model: [_key_of(model)]}
        )

    def controller(self) -> Controller:
        return Controller(
            self._scope.resource.kind.lower(),
            self._reconcile,
            [
                Watch(self._models, lambda change: [change.object.metadata.key]),
                Watch(self._marks, self._models_of_marks),
                Watch(self._nodes, self._models_of_deleted_node),
            ],
            clock=self._environment.clock,
            metrics=self._environment.metrics,
        )

    # -- watches -------------------------------------------------------------------------------------------------------

    def _models_of_marks(self, change: Change[ConfigMap]) -> Iterable[Key]:
        """The models whose entry differs; a node knows many, and one changes at a time."""
        old = change.old.data if change.old is not None else {}
        new = change.new.data if change.new is not None else {}
        changed = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
        return [model.metadata.key for key in changed for model in self._models.by_index(_ENTRY_INDEX, key)]

    def _models_of_deleted_node(self, change: Change[Node]) -> Iterable[Key]:
        if change.new is not None:
            return []
        marks = self._marks.get(self._environment.namespace, change.object.metadata.name)
        if marks is None:
            return []
        return [model.metadata.key for key in marks.data for model in self._models.by_index(_ENTRY_INDEX, key)]

    # -- one pass ------------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> Outcome:
        model: Model | None = self._models.get(*key)
        if model is None:
            return Done()
        entries = await self._entries(model)
        if model.metadata.deleting:
            await self._release(model, entries)
            return Done()
        if self._scope.finalizer not in model.metadata.finalizers:
            model = await self._add_finalizer(model)
        if _on_claim(model):
            return Done()
        model = await self._fill(model, entries)
        await self._report(model, entries)
        return Done()

    async def _entries(self, model: Model) -> dict[str, Entry]:
        """What each living node says, by node name."""
        found: dict[str, Entry] = {}
        key = _key_of(model)
        for marks in self._marks.by_index(_ENTRY_INDEX, key):
            node = marks.metadata.name
            if await self._node_is_gone(node):
                await self._clean_up(marks)
                continue
            try:
                found[node] = parse_entry(marks.data[key])
            except EntryError as error:
                log.warning("unreadable model entry skipped", extra={"node": node, "key": key, "error": str(error)})
        return found

    async def _node_is_gone(self, name: str) -> bool:
        if self._nodes.get("", name) is not None:
            return False
        live: Json | None = await self._environment.client.find(NODES, name)
        return live is None

    async def _clean_up(self, marks: ConfigMap) -> None:
        meta = marks.metadata
        log.info("node is gone, its model marks are removed", extra={"node": meta.name})
        try:
            await self._environment.client.delete(CONFIG_MAPS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return

    async def _add_finalizer(self, model: Model) -> Model:
        meta = model.metadata
        return await self._patch(meta, _finalizers(meta, [*meta.finalizers, self._scope.finalizer]))

    async def _release(self, model: Model, entries: dict[str, Entry]) -> None:
        """Let the model go once no node records it any more."""
        meta = model.metadata
        if self._scope.finalizer not in meta.finalizers:
            return
        recording = sorted(node for node, entry in entries.items() if entry.status != DELETED)
        if recording:
            log.info("Waiting for model to be cleared", extra={"model": meta.name, "nodes": recording})
            return
        kept = [finalizer for finalizer in meta.finalizers if finalizer != self._scope.finalizer]
        try:
            await self._patch(meta, _finalizers(meta, kept))
        except NotFound:
            return

    async def _fill(self, model: Model, entries: dict[str, Entry]) -> Model:
        configs = [entries[node].config for node in sorted(entries)]
        missing = missing_fields(model.spec, configs)
        if not missing:
            return model
        return await self._patch(model.metadata, {"spec": missing})

    async def _report(self, model: Model, entries: dict[str, Entry]) -> None:
        states = node_states(entries)
        status = model.status
        shown = (status.state, status.nodes_ready, status.nodes_failed, status.observed_generation)
        if shown == (states.state, states.ready, states.failed, model.metadata.generation):
            return
        body = {
            "state": states.state,
            "nodesReady": list(states.ready) or None,
            "nodesFailed": list(states.failed) or None,
            "observedGeneration": model.metadata.generation,
            "lastReconcileTime": timestamp(self._environment.clock.now()),
        }
        await self._patch(model.metadata, {"status": body}, subresource="status")

    async def _patch(self, meta: ObjectMeta, body: Json, *, subresource: str = "") -> Model:
        written = await self._environment.client.patch(
            self._scope.resource, meta.name, meta.namespace, body, subresource=subresource
        )
        self._models.observe(written)
        model: Model | None = self._models.get(*meta.key)
        return model if model is not None else self._decoded(written)

    def _decoded(self, written: Json) -> Model:
        return msgspec.convert(written, self._scope.type)


def _finalizers(meta: ObjectMeta, finalizers: list[str]) -> Json:
    # The version guards against a finalizer that somebody else adds meanwhile: the list is replaced as a whole.
    return {"metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version}}


def _key_of(model: Model) -> str:
    return data_key(model.metadata.name, model.metadata.namespace)


def _on_claim(model: Model) -> bool:
    return str((model.spec.get("storage") or {}).get("storageUri") or "").startswith("pvc://")
