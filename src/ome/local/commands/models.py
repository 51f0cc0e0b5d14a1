"""`ome local model ready`: the marks that the model agent leaves on a node, for a model whose weights nobody has.

A label on the Node and an entry in the node's ConfigMap (`spec/models.md` section 3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from ome.kube.errors import NotFound
from ome.kube.resources import BASE_MODELS, CLUSTER_BASE_MODELS, CONFIG_MAPS, NODES
from ome.kube.sync import SyncClient
from ome.local.commands.data import DataDir
from ome.local.commands.options import cluster_option, connect, data_option
from ome.local.commands.refusals import Refusal

LABEL_NAMES: Final = 38  # of a namespaced label key, for namespace and name together
ENTRY_NAMES: Final = 242  # of a namespaced ConfigMap key
CLUSTER_LABEL: Final = 32
CLUSTER_ENTRY: Final = 236
_LLAMA_3_2: Final = {
    "modelType": "llama",
    "modelArchitecture": "LlamaForCausalLM",
    "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
    "maxTokens": 131072,
}
PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "hf://meta-llama/Llama-3.2-1B-Instruct": {**_LLAMA_3_2, "modelParameterSize": "1.24B"},
    "hf://meta-llama/Llama-3.2-3B-Instruct": {**_LLAMA_3_2, "modelParameterSize": "3.21B"},
    "hf://Qwen/Qwen3-0.6B": {
        "modelType": "qwen3",
        "modelArchitecture": "Qwen3ForCausalLM",
        "modelFramework": {"name": "transformers", "version": "4.51.0"},
        "maxTokens": 40960,
        "modelParameterSize": "596M",
    },
}
"""What the agent reads out of the files of the models in `config/models`, by storage URI: without the files nobody
else can say it, and a runtime that asks for an architecture would not be found."""


def shortened(text: str, limit: int) -> str:
    """The text, or a hash and its end when it is too long."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    rest = limit - 9
    return digest[:limit] if rest <= 0 else f"{digest}-{text[-rest:]}"


def _namespaced(namespace: str, name: str, budget: int) -> tuple[str, str]:
    if len(namespace) + len(name) <= budget:
        return namespace, name
    room = min(len(namespace), 8)
    return shortened(namespace, room), shortened(name, budget - room)


def label_key(namespace: str, name: str) -> str:
    """The node label of a model; `namespace` is empty for a ClusterBaseModel."""
    if not namespace:
        return f"models.ome.io/clusterbasemodel.{shortened(name, CLUSTER_LABEL)}"
    short_namespace, short_name = _namespaced(namespace, name, LABEL_NAMES)
    return f"models.ome.io/{short_namespace}.basemodel.{short_name}"


def entry_key(namespace: str, name: str) -> str:
    """The key of a model in a node's ConfigMap."""
    if not namespace:
        return f"clusterbasemodel.{shortened(name, CLUSTER_ENTRY)}"
    short_namespace, short_name = _namespaced(namespace, name, ENTRY_NAMES)
    return f"{short_namespace}.basemodel.{short_name}"


def model_config(spec: Mapping[str, Any], format_: str, architecture: str, size: str) -> dict[str, Any]:
    """The parsed metadata that the agent would report: as given, else as the model says, else as published."""
    published = PUBLISHED.get(str((spec.get("storage") or {}).get("storageUri")), {})
    spec = {**published, **{name: value for name, value in spec.items() if value}}
    config: dict[str, Any] = {}
    found_format = {**(spec.get("modelFormat") or {}), **({"name": format_} if format_ else {})}
    config["modelFormat"] = {"name": "safetensors", "version": "1.0.0", **found_format}
    config["modelFramework"] = spec.get("modelFramework") or {"name": "transformers", "version": "4.51.0"}
    for name, given in (("modelArchitecture", architecture), ("modelParameterSize", size)):
        value = given or spec.get(name)
        if value:
            config[name] = value
    for name in ("modelType", "maxTokens", "modelCapabilities", "quantization"):
        if spec.get(name):
            config[name] = spec[name]
    return config


@click.group()
def model() -> None:
    """Leave the marks of the model agent, so that a model counts as downloaded."""


@model.command()
@data_option
@cluster_option
@click.option("-n", "--namespace", default="", help="Of a BaseModel; without it NAME is a ClusterBaseModel.")
@click.option("--format", "format_", default="", help="Model format [default: the model's own, or safetensors].")
@click.option("--architecture", default="", help="For example LlamaForCausalLM.")
@click.option("--size", default="", help="Parameter size, for example 3B or 596M.")
@click.option("--node", "only", multiple=True, help="Only on this node; may be repeated [default: all nodes].")
@click.option("--ome-namespace", default="ome", show_default=True)
@click.argument("name")
def ready(
    data: DataDir,
    kubeconfig: str | None,
    namespace: str,
    format_: str,
    architecture: str,
    size: str,
    only: tuple[str, ...],
    ome_namespace: str,
    name: str,
) -> None:
    """Mark a model as downloaded on the nodes."""
    with connect(data, kubeconfig) as client:
        known = [found["metadata"]["name"] for found in client.list(NODES)]
        missing = [node for node in only if node not in known]
        if missing:
            raise Refusal(f"there is no node {missing[0]}; the nodes are: {', '.join(known) or 'none'}")
        nodes = list(only) or known
        if not nodes:
            raise Refusal("there is no node to mark; `ome local node add NAME` makes one")
        mark_ready(
            client,
            name,
            nodes=nodes,
            namespace=namespace,
            format_=format_,
            architecture=architecture,
            size=size,
            ome_namespace=ome_namespace,
        )
    click.echo(f"Model {name} is ready on {', '.join(nodes)}.")


def mark_ready(
    client: SyncClient,
    name: str,
    *,
    nodes: Sequence[str],
    namespace: str = "",
    format_: str = "",
    architecture: str = "",
    size: str = "",
    ome_namespace: str = "ome",
) -> None:
    """Leave the agent's marks on these nodes. `namespace` is empty for a ClusterBaseModel. Raises Refusal."""
    config = model_config(_spec(client, namespace, name), format_, architecture, size)
    entry = json.dumps({"name": name, "status": "Ready", "config": config}, separators=(",", ":"))
    for node in nodes:
        client.patch(NODES, node, "", {"metadata": {"labels": {label_key(namespace, name): "Ready"}}})
        _write_entry(client, ome_namespace, node, entry_key(namespace, name), entry)


def _spec(client: SyncClient, namespace: str, name: str) -> Mapping[str, Any]:
    resource = BASE_MODELS if namespace else CLUSTER_BASE_MODELS
    try:
        found: Mapping[str, Any] = client.get(resource, name, namespace).get("spec") or {}
    except NotFound as error:
        kind = f"BaseModel {namespace}/{name}" if namespace else f"ClusterBaseModel {name}"
        hint = "" if namespace else "; for a BaseModel give its namespace with -n"
        raise Refusal(f"there is no {kind}{hint}") from error
    return found


def _write_entry(client: SyncClient, ome_namespace: str, node: str, key: str, entry: str) -> None:
    try:
        client.patch(CONFIG_MAPS, node, ome_namespace, {"data": {key: entry}})
    except NotFound:
        metadata = {
            "name": node,
            "namespace": ome_namespace,
            "labels": {"models.ome/basemodel-status": "true", "node": node},
            "annotations": {"models.ome.io/node-name": node, "models.ome.io/managed-by": "model-agent"},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: entry}}
        client.create(CONFIG_MAPS, body)
