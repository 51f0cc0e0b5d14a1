"""Containers of OME's own beside the engine: `model-init`, `serving-sidecar`, `fine-tuned-adapter`.

Images and resources come from the operator's configuration; `spec/models.md` section 8 gives the adapter's refusals.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ome.admission.pods.draft import PodDenied, PodDraft
from ome.api import keys
from ome.api.names import MAIN_CONTAINER
from ome.api.quantity import is_quantity
from ome.rendering.models import DEFAULT_MODEL_MOUNT, EMPTY_VOLUME, MODEL_PATH

Json = dict[str, Any]

MODEL_INIT: Final = "model-init"
SERVING_SIDECAR: Final = "serving-sidecar"
ADAPTER: Final = "fine-tuned-adapter"
_OBJECT: Final = re.compile(r"^oci://n/[^/]+/b/[^/]+/o/.+$")
_VAULT: Final = {
    "compartmentId": "COMPARTMENT_ID",
    "authType": "AUTH_TYPE",
    "vaultId": "VAULT_ID",
    "region": "REGION",
}


def inject_model_init(draft: PodDraft, config: Json) -> None:
    """The init container that prepares the base model in the pod's empty volume. Raises `PodDenied`."""
    if not draft.asks(keys.INJECT_MODEL_INIT):
        return
    _check(config, "modelInit", "ModelInitInjector")
    if draft.container(MAIN_CONTAINER) is None:
        raise PodDenied(f"no main container {MAIN_CONTAINER} specified")
    model = draft.annotations.get(keys.BASE_MODEL_NAME, "")
    env = {
        "MODEL_NAME": model,
        "MODEL_FORMAT": draft.annotations.get(keys.BASE_MODEL_FORMAT, ""),
        "MODEL_FORMAT_VERSION": draft.annotations.get(keys.BASE_MODEL_FORMAT_VERSION, ""),
        "MODEL_TYPE": draft.labels.get(keys.BASE_MODEL_TYPE, ""),
        "KEY_NAME": draft.annotations.get(keys.DECRYPTION_KEY_NAME, ""),
        "SECRET_NAME": draft.annotations.get(keys.DECRYPTION_SECRET_NAME, ""),
        "DISABLE_MODEL_DECRYPTION": draft.annotations.get(keys.DISABLE_MODEL_DECRYPTION, "false"),
        "LOCAL_PATH": DEFAULT_MODEL_MOUNT,
        **_vault(config),
    }
    mounts = [*_source_mounts(draft), {"name": EMPTY_VOLUME, "mountPath": DEFAULT_MODEL_MOUNT}]
    draft.add_volumes([{"name": EMPTY_VOLUME, "emptyDir": {"medium": "Memory"}}])
    draft.add_container(_container(MODEL_INIT, config, env, mounts, ["enigma"]), init=True)
    draft.add_mounts(MAIN_CONTAINER, [{"name": EMPTY_VOLUME, "mountPath": DEFAULT_MODEL_MOUNT}])
    draft.add_env(MAIN_CONTAINER, {MODEL_PATH: DEFAULT_MODEL_MOUNT})


def inject_serving_sidecar(draft: PodDraft, config: Json) -> None:
    """Raises `PodDenied`."""
    if not draft.asks(keys.INJECT_SERVING_SIDECAR):
        return
    _check(config, "servingSidecar", "ServingSidecarInjector")
    mounts = [mount for mount in _mounts_of_main(draft) if mount.get("name") == EMPTY_VOLUME]
    draft.add_container(_container(SERVING_SIDECAR, config, _vault(config), mounts, ["serving-agent"]), init=False)


def inject_adapter(draft: PodDraft, config: Json, weight: Json | None) -> None:
    """The init container that fetches the fine-tuned weight named on the pod. Raises `PodDenied`."""
    name = draft.annotations.get(keys.INJECT_FINE_TUNED_ADAPTER)
    if name is None:
        return
    _check(config, "fineTunedAdapter", "FineTunedAdapterInjector")
    if weight is None:
        raise PodDenied(f"No FineTunedWeight with the name: {name}")
    uri = ((weight.get("spec") or {}).get("storage") or {}).get("storageUri") or ""
    if _OBJECT.match(uri) is None:
        raise PodDenied(f'invalid OCI storage URI format: "{uri}"')
    if draft.container(MAIN_CONTAINER) is None:
        raise PodDenied(f"no main container {MAIN_CONTAINER} specified")
    merged = draft.asks(keys.FINE_TUNED_MERGED_WEIGHTS)
    env = {"SOURCE_URI": f"{uri}-merged-weight" if merged else uri, "LOCAL_PATH": DEFAULT_MODEL_MOUNT, **_vault(config)}
    mount = {"name": EMPTY_VOLUME, "mountPath": DEFAULT_MODEL_MOUNT}
    draft.add_volumes([{"name": EMPTY_VOLUME, "emptyDir": {"medium": "Memory"}}])
    draft.add_container(_container(ADAPTER, config, env, [mount], ["fine-tuned-adapter"]), init=True)
    draft.add_mounts(MAIN_CONTAINER, [mount])


def _check(config: Json, key: str, injector: str) -> None:
    start = f"failed to validate {injector}: "
    if not config:
        raise PodDenied(f"{start}inferenceservice-config has no entry {key}")
    if not config.get("image"):
        raise PodDenied(f"{start}image is required")
    for field in ("memoryRequest", "memoryLimit", "cpuRequest", "cpuLimit"):
        value = config.get(field)
        if not value:
            raise PodDenied(f"{start}{field} is required")
        if not is_quantity(value):
            raise PodDenied(f'{start}invalid {field} "{value}"')


def _vault(config: Json) -> dict[str, str]:
    return {variable: str(config[field]) for field, variable in _VAULT.items() if config.get(field)}


def _mounts_of_main(draft: PodDraft) -> list[Json]:
    mounts: list[Json] = (draft.container(MAIN_CONTAINER) or {}).get("volumeMounts") or []
    return mounts


def _source_mounts(draft: PodDraft) -> list[Json]:
    """The base model on the node, at its own path, so that the init container can read it."""
    model = draft.annotations.get(keys.BASE_MODEL_NAME, "").replace(".", "-")
    found = [volume for volume in draft.spec.get("volumes") or [] if volume.get("name") == model]
    return [
        {"name": model, "mountPath": volume["hostPath"]["path"], "readOnly": True}
        for volume in found
        if volume.get("hostPath")
    ]


def _container(name: str, config: Json, env: dict[str, str], mounts: list[Json], args: list[str]) -> Json:
    own = [{"name": variable, "value": value} for variable, value in sorted(env.items())]
    return {
        "name": name,
        "image": config["image"],
        "args": args,
        "env": [*own, *(config.get("env") or [])],
        "resources": {
            "requests": {"cpu": str(config["cpuRequest"]), "memory": str(config["memoryRequest"])},
            "limits": {"cpu": str(config["cpuLimit"]), "memory": str(config["memoryLimit"])},
        },
        "volumeMounts": [*mounts, *(config.get("volumeMounts") or [])],
    }
