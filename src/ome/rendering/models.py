"""What a component's pods get of the service's model, overlays and fine-tuned weight: volumes, mounts, env, node
labels.

Pure (`spec/models.md sections 3, 6 and 8`, `spec/serving-runtimes.md sections 7.3 and 7.4`). Called by
`ome.rendering.pods`; `model_node_label` also by `ome.models`, which writes the label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ome.api import keys
from ome.rendering.model import FineTunedWeightError, FineTunedWeightFacts, Json, ModelFacts

MODEL_PATH = "MODEL_PATH"
READY = "Ready"
DEFAULT_MODEL_MOUNT = "/opt/ml/model"
OVERLAY_MOUNT = "/opt/ml/model-overlays"
TFEW_MOUNT = "/opt/ml/tfew"
EMPTY_VOLUME = "model-empty-dir"

_PVC, _VENDOR = "pvc://", "vendor://"
_CLUSTER_NAME_LIMIT = 32
_NAMESPACED_BUDGET = 38
_NAMESPACE_LIMIT = 8


@dataclass(frozen=True, slots=True)
class ModelParts:
    """Additions to a pod. `env` entries are set only where the runner has none of that name."""

    volumes: tuple[Json, ...] = ()
    mounts: tuple[Json, ...] = ()
    env: tuple[Json, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FineTuned:
    """The one fine-tuned weight of a service; `strategy` and `merged` also become labels and annotations."""

    name: str
    strategy: str
    merged: bool


def shorten(text: str, limit: int) -> str:
    """`text`, or the first 8 hex digits of its SHA-256, `-` and its tail, `limit` characters in all."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    tail = limit - len(digest) - 1
    return digest[:limit] if tail <= 0 else f"{digest}-{text[-tail:]}"


def shorten_pair(namespace: str, name: str, budget: int) -> tuple[str, str]:
    """Both parts of a namespaced key within one budget (`spec/models.md section 3`)."""
    if len(namespace) + len(name) <= budget:
        return namespace, name
    namespace_limit = min(len(namespace), _NAMESPACE_LIMIT)
    return shorten(namespace, namespace_limit), shorten(name, budget - namespace_limit)


def model_node_label(name: str, namespace: str = "") -> str:
    """The node label of a BaseModel (`namespace` set) or ClusterBaseModel; its value is `Ready` where the copy can
    be used."""
    if not namespace:
        return f"{keys.CLUSTER_BASE_MODEL_PREFIX}{shorten(name, _CLUSTER_NAME_LIMIT)}"
    short_namespace, short_name = shorten_pair(namespace, name, _NAMESPACED_BUDGET)
    return f"{keys.MODEL_LABEL_PREFIX}{short_namespace}.basemodel.{short_name}"


def overlay_environment_name(overlay: str) -> str:
    """`OVERLAY_<UPPER_NAME>_MODEL_PATH`; hyphens and dots collapse to underscores."""
    return f"OVERLAY_{overlay.upper().replace('-', '_').replace('.', '_')}_MODEL_PATH"


def overlay_mount_path(overlay: str) -> str:
    """Where an overlay's weights stand in the pod."""
    return f"{OVERLAY_MOUNT}/{overlay}"


def is_sharded(model: ModelFacts) -> bool:
    """Cannot be served: no model cache provider exists (`spec/models.md section 1`)."""
    return model.spec.get("distribution") == "Sharded"


def read_fine_tuned(weights: tuple[FineTunedWeightFacts, ...]) -> FineTuned | None:
    """The service's fine-tuned weight. Raises `FineTunedWeightError` for more than one or an unusable one."""
    if not weights:
        return None
    if len(weights) > 1:
        raise FineTunedWeightError("stacked fine-tuned serving is not supported yet")
    weight = weights[0]
    configuration = weight.spec.get("configuration")
    if not isinstance(configuration, dict):
        raise FineTunedWeightError(f"FineTunedWeight {weight.name}: configuration: unexpected end of JSON input")
    parameters = weight.spec.get("hyperParameters")
    strategy = parameters.get("strategy") if isinstance(parameters, dict) else None
    if not isinstance(strategy, str) or not _is_label_value(strategy):
        raise FineTunedWeightError(
            f'FineTunedWeight {weight.name}: hyper-parameter "strategy" must be a string that is a valid label value'
        )
    return FineTuned(weight.name, strategy, configuration.get("merged_weights") is True)


def base_model_parts(model: ModelFacts) -> ModelParts:
    """Volume, mount, `MODEL_PATH` and node label of the service's model."""
    storage = model.spec.get("storage") or {}
    uri = str(storage.get("storageUri") or "")
    if is_sharded(model):
        return ModelParts(env=(_variable(MODEL_PATH, uri),))
    if uri.startswith(_PVC):
        return _claim_parts(model, uri, DEFAULT_MODEL_MOUNT, MODEL_PATH)
    ready = {model_node_label(model.name, model.namespace): READY}
    path = str(storage.get("path") or "")
    if uri.startswith(_VENDOR) or not path:
        return ModelParts(node_selector=ready)
    return _host_parts(model, path, path, MODEL_PATH, ready)


def filled_by_init(parts: ModelParts) -> ModelParts:
    """A base model that the `model-init` init container prepares: an empty volume for it to fill, and neither mount nor
    `MODEL_PATH`, which the pod webhook sets with the container (observed in 0.1.5)."""
    return ModelParts((*parts.volumes, _empty_volume()), (), (), parts.node_selector)


def overlay_parts(overlays: Iterable[ModelFacts], taken: set[str]) -> ModelParts:
    """The same for every overlay, mounted at its own path. `taken`: names of volumes the pod already has."""
    volumes: list[Json] = []
    mounts: list[Json] = []
    env: list[Json] = []
    selector: dict[str, str] = {}
    used = set(taken)
    for overlay in overlays:
        parts = _overlay(overlay)
        for volume, mount in zip(parts.volumes, parts.mounts, strict=True):
            name = volume["name"] if volume["name"] not in used else f"overlay-{volume['name']}"
            used.add(name)
            volumes.append({**volume, "name": name})
            mounts.append({**mount, "name": name})
        env.extend(parts.env)
        selector.update(parts.node_selector)
    return ModelParts(tuple(volumes), tuple(mounts), tuple(env), selector)


def fine_tuned_parts(fine_tuned: FineTuned, base: ModelFacts | None) -> ModelParts:
    """The volume the fine-tuned-adapter init container fills, and what the base's vendor expects."""
    vendor = str(base.spec.get("vendor") or "").lower() if base else ""
    mounts: list[Json] = []
    env: list[Json] = []
    if vendor == "meta":
        env = [_variable(MODEL_PATH, DEFAULT_MODEL_MOUNT), _variable("SERVED_MODEL_NAME", f"/data/{fine_tuned.name}")]
    elif vendor == "cohere" and fine_tuned.strategy == "tfew":
        mounts = [{"name": EMPTY_VOLUME, "mountPath": TFEW_MOUNT}]
        env = [_variable("TFEW_PATH", TFEW_MOUNT)]
    return ModelParts((_empty_volume(),), tuple(mounts), tuple(env))


def _overlay(overlay: ModelFacts) -> ModelParts:
    storage = overlay.spec.get("storage") or {}
    uri, path = str(storage.get("storageUri") or ""), str(storage.get("path") or "")
    variable, mount_path = overlay_environment_name(overlay.name), overlay_mount_path(overlay.name)
    if uri.startswith(_PVC):
        return _claim_parts(overlay, uri, mount_path, variable)
    ready = {model_node_label(overlay.name, overlay.namespace): READY}
    if not path:
        return ModelParts(node_selector=ready)
    return _host_parts(overlay, path, mount_path, variable, ready)


def _host_parts(model: ModelFacts, path: str, mount_path: str, variable: str, ready: dict[str, str]) -> ModelParts:
    name = _volume_name(model.name)
    return ModelParts(
        ({"name": name, "hostPath": {"path": path}},),
        ({"name": name, "mountPath": mount_path, "readOnly": True},),
        (_variable(variable, mount_path),),
        ready,
    )


def _claim_parts(model: ModelFacts, uri: str, mount_path: str, variable: str) -> ModelParts:
    """`pvc://{claim}/{sub}` of a BaseModel, `pvc://{ns}:{claim}/{sub}` of a ClusterBaseModel; no node needs the
    agent."""
    claim, _, sub_path = uri.removeprefix(_PVC).partition("/")
    _, _, claim = claim.rpartition(":")
    name = _volume_name(model.name)
    mount: Json = {"name": name, "mountPath": mount_path, "readOnly": True}
    if sub_path:
        mount["subPath"] = sub_path
    return ModelParts(
        ({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}},),
        (mount,),
        (_variable(variable, mount_path),),
    )


def _empty_volume() -> Json:
    return {"name": EMPTY_VOLUME, "emptyDir": {"medium": "Memory"}}


def _volume_name(model: str) -> str:
    return shorten(model.replace(".", "-"), 63)


def _variable(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def _is_label_value(text: str) -> bool:
    inner = text.replace("-", "a").replace("_", "a").replace(".", "a")
    ends_well = not text or (text[0].isalnum() and text[-1].isalnum())
    return len(text) <= 63 and text.isascii() and (not text or inner.isalnum()) and ends_well
