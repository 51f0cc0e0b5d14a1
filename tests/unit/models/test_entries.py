"""What model agents write about models, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from ome.models.entries import Entry, EntryError, data_key, missing_fields, node_states, parse_entry
from ome.rendering.models import model_node_label

CONFIG: dict[str, Any] = {
    "modelType": "llama",
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "quantization": "fp8",
    "decodedModelConfiguration": {"context_length": 4096},
    "artifact": {"sha": "x"},
    "apiCapabilities": ["OPENAI_V1_CHAT_COMPLETIONS"],
    "novelty": True,
}


@pytest.mark.spec("MO-29")
def test_a_recorded_entry_fills_the_spec_and_unknown_keys_change_nothing() -> None:
    assert missing_fields({"storage": {}}, [CONFIG]) == {
        "modelType": "llama",
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "quantization": "fp8",
        "modelConfiguration": {"context_length": 4096},
    }


@pytest.mark.spec("MO-5")
def test_an_authors_value_wins() -> None:
    spec = {"modelType": "mine", "modelFormat": {"name": "other"}, "quantization": ""}
    assert missing_fields(spec, [{}, CONFIG]) == {
        "quantization": "fp8",
        "modelConfiguration": {"context_length": 4096},
    }


STATES: dict[str, tuple[dict[str, str], tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "one ready and one failed is Ready": ({"b": "Failed", "a": "Ready"}, ("Ready", ("a",), ("b",))),
    "only failed is Failed": ({"b": "Failed", "c": "Updating"}, ("Failed", (), ("b",))),
    "none is In_Transit": ({}, ("In_Transit", (), ())),
    "names are sorted": ({"c": "Ready", "a": "Ready"}, ("Ready", ("a", "c"), ())),
}


@pytest.mark.parametrize("sentence", STATES)
def test_states(sentence: str) -> None:
    entries, expected = STATES[sentence]
    states = node_states({node: Entry(status) for node, status in entries.items()})
    assert (states.state, states.ready, states.failed) == expected


@pytest.mark.parametrize("text", ["", "[]", '{"status": 1}', '{"status": "Ready", "config": []}'])
def test_an_unreadable_entry_is_refused(text: str) -> None:
    with pytest.raises(EntryError):
        parse_entry(text)


@pytest.mark.spec("MO-3")
def test_the_label_of_a_long_cluster_model_is_hashed() -> None:
    name = "a" * 17 + "0123456789-0123456789-x"
    label = model_node_label(name)
    prefix = "models.ome.io/clusterbasemodel."
    assert label.startswith(prefix)
    digest, tail = label[len(prefix) :].split("-", 1)
    assert len(digest) == 8
    assert tail == name[-23:]


def test_data_keys_of_both_scopes() -> None:
    assert data_key("llama") == "clusterbasemodel.llama"
    assert data_key("llama", "prod") == "prod.basemodel.llama"
    assert len(data_key("x" * 300)) == len("clusterbasemodel.") + 236
