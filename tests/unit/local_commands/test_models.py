"""What `ome local model ready` says of a model whose weights nobody has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ome.local.commands.models import model_config

CATALOGUE = Path(__file__).parents[3] / "config" / "models"
LLAMA: dict[str, Any] = {"storage": {"storageUri": "hf://meta-llama/Llama-3.2-3B-Instruct"}}


def test_a_published_model_is_known_by_its_storage_uri() -> None:
    config = model_config(LLAMA, "", "", "")
    assert config["modelArchitecture"] == "LlamaForCausalLM"
    assert config["modelFramework"] == {"name": "transformers", "version": "4.45.0.dev0"}
    assert config["modelParameterSize"] == "3.21B"


def test_what_the_model_says_beats_what_is_published_and_a_flag_beats_both() -> None:
    spec = {**LLAMA, "modelArchitecture": "Mine", "modelParameterSize": "1B"}
    assert model_config(spec, "", "", "")["modelArchitecture"] == "Mine"
    assert model_config(spec, "", "", "2B")["modelParameterSize"] == "2B"


def test_an_unknown_model_gets_a_format_and_a_framework_only() -> None:
    assert set(model_config({}, "", "", "")) == {"modelFormat", "modelFramework"}


@pytest.mark.parametrize("path", sorted(CATALOGUE.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_model_of_the_catalogue_gets_an_architecture_and_a_size(path: Path) -> None:
    for obj in yaml.safe_load_all(path.read_text()):
        if obj.get("kind") in ("BaseModel", "ClusterBaseModel"):
            assert {"modelArchitecture", "modelParameterSize"} <= set(model_config(obj["spec"], "", "", ""))
