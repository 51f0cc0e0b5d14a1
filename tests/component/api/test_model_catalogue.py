"""Model manifests as people have them are taken as they are: ours, and one for every capability that is in use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ome.admission.models import validate_model
from ome.api.types import BaseModel, ClusterBaseModel
from ome.kube.requests import Request
from tests.support.world import World, in_world, resource_of

Json = dict[str, Any]
TYPES: dict[str, type[BaseModel] | type[ClusterBaseModel]] = {
    "BaseModel": BaseModel,
    "ClusterBaseModel": ClusterBaseModel,
}
OURS = Path(__file__).parents[3] / "config" / "models"
FOLDER = "OME_MODEL_MANIFESTS"
"""Variable that names a folder with further model manifests, such as those of another installation."""
KNOWN = [
    "TEXT_TO_TEXT",
    "TEXT_TO_AUDIO",
    "TEXT_TO_IMAGE",
    "TEXT_TO_VIDEO",
    "IMAGE_TEXT_TO_TEXT",
    "IMAGE_TEXT_TO_AUDIO",
    "IMAGE_TEXT_TO_IMAGE",
    "IMAGE_TEXT_TO_VIDEO",
    "VIDEO_TEXT_TO_TEXT",
    "VIDEO_TEXT_TO_AUDIO",
    "AUDIO_TO_TEXT",
    "AUDIO_TEXT_TO_TEXT",
    "AUDIO_TO_AUDIO",
    "AUDIO_TRANSLATION",
    "EMBEDDING",
    "RERANK",
    "TEXT_GENERATION",
    "TEXT_SUMMARIZATION",
    "TEXT_EMBEDDINGS",
    "TEXT_RERANK",
    "CHAT",
    "VISION",
]
UNKNOWN = ["IMAGE_TO_TEXT", "TEXT_TO_EMBEDDING", "IMAGE_TEXT_TO_EMBEDDING", "REWARD_SCORING", "made up: yesterday"]


def written(*folders: Path) -> Iterator[Json]:
    for path in sorted(path for folder in folders for path in folder.rglob("*.yaml")):
        yield from (entry for entry in yaml.safe_load_all(path.read_text()) if (entry or {}).get("kind") in TYPES)


def model(capabilities: list[str], kind: str, name: str) -> Json:
    metadata = {"name": name, "namespace": "prod"} if kind == "BaseModel" else {"name": name}
    storage = {"storageUri": f"hf://vendor/{name}", "path": f"/raid/models/{name}", "key": "hf-token"}
    spec = {
        "vendor": "vendor",
        "displayName": f"vendor.{name}",
        "disabled": False,
        "version": "1.0.0",
        "modelCapabilities": capabilities,
        "storage": storage,
    }
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def holds(stored: Any, given: Any) -> bool:
    """Whether all that was given is there; defaults may have been added."""
    if isinstance(given, dict):
        return all(key in stored and holds(stored[key], value) for key, value in given.items())
    return bool(stored == given)


async def loads(world: World, manifest: Json) -> None:
    """Strictly, without a warning, with nothing lost, and as OME's own types."""
    metadata = manifest["metadata"]
    request = Request(
        "PATCH",
        resource_of(manifest).path(metadata.get("namespace", ""), metadata["name"]),
        query=(("fieldManager", "kubectl"), ("fieldValidation", "Strict"), ("force", "true")),
        headers={"content-type": "application/apply-patch+yaml"},
        body=msgspec.json.encode(manifest),
    )
    response = await world.client.request(request)
    assert "warning" not in response.headers, metadata["name"]
    stored = msgspec.json.decode(response.body)
    assert holds(stored["spec"], manifest["spec"]), metadata["name"]
    assert validate_model(stored, cluster=manifest["kind"] == "ClusterBaseModel").allowed, metadata["name"]
    assert msgspec.convert(stored, TYPES[manifest["kind"]]).spec == stored["spec"], metadata["name"]


@pytest.mark.spec("MO-8")
@in_world(workloads=False)
async def test_model_manifests_load_whatever_their_capabilities(world: World) -> None:
    await world.make_namespace("prod")
    folders = [OURS, *(Path(folder) for folder in [os.environ.get(FOLDER)] if folder)]
    catalogue = list(written(*folders))
    assert {"llama-3-2-3b-instruct", "qwen3-0-6b"} <= {manifest["metadata"]["name"] for manifest in catalogue}
    for kind in TYPES:
        for number, capability in enumerate([*KNOWN, *UNKNOWN]):
            catalogue.append(model([capability], kind, f"of-one-{number}"))
        catalogue.append(model([*UNKNOWN, *KNOWN], kind, "of-all"))
        catalogue.append(model([], kind, "of-none"))
    for manifest in catalogue:
        await loads(world, manifest)
