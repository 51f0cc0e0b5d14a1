"""The ConfigMap `modelconfig-...`, a listing of the served model for users (spec/inference-service.md section 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ome.api import keys

from .metadata import Json, Owner, object_metadata

_KEPT_TAIL = 20


def model_config_name(service: str) -> str:
    """`modelconfig-` and the last 20 characters of the service's name: two services may share it."""
    return f"modelconfig-{service[-_KEPT_TAIL:]}"


def model_config_map(owner: Owner, model: str, spec: Mapping[str, Any]) -> Json:
    """`spec` is the model's spec; parts that it leaves out are left out."""
    storage = spec.get("storage") or {}
    model_format = spec.get("modelFormat") or {}
    framework = spec.get("modelFramework") or {}
    listed = {
        "storageUri": storage.get("storageUri"),
        "path": storage.get("path"),
        "storageKey": storage.get("key"),
        "modelFormatName": model_format.get("name"),
        "modelFormatVersion": model_format.get("version"),
        "modelFrameworkName": framework.get("name"),
        "modelFrameworkVersion": framework.get("version"),
        "modelType": spec.get("modelType"),
        "schemaPath": storage.get("schemaPath"),
        "parameters": storage.get("parameters"),
    }
    entry = {"modelName": model, "modelSpec": {key: value for key, value in listed.items() if value}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(owner, model_config_name(owner.name), labels={keys.INFERENCE_SERVICE: owner.name}),
        "data": {"models.json": json.dumps([entry], separators=(",", ":"), ensure_ascii=False)},
    }
